"""A linear-chain conditional random field over packed sentences (Lafferty et al., 2001).

The sum over all label sequences is a product of matrices in the log semiring. With few labels it is taken pairwise, so
that its depth grows with the logarithm of the length; with many, whose cube would fill the memory, from left to right.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from biosmith.tasks.layout import Layout

IMPOSSIBLE = -1e4  # finite, so that no gradient is NaN
MOST_PAIRWISE = 12  # labels up to which the product is taken pairwise


class LinearChain(nn.Module):
    """Scores of label sequences: of each label at its word, of each step, of the first and of the last label.

    Attributes:
        steps_KK: score of a step from one label to the next.
        begins_K, ends_K: scores of the first and the last label of a sentence.
    """

    def __init__(self, labels: int) -> None:
        super().__init__()
        self.steps_KK = nn.Parameter(torch.zeros(labels, labels))
        self.begins_K = nn.Parameter(torch.zeros(labels))
        self.ends_K = nn.Parameter(torch.zeros(labels))

    def loss(self, scores_PK: Tensor, target_P: Tensor, layout: Layout) -> Tensor:
        """Mean over sentences of minus the log-probability of their labels.

        Args:
            scores_PK: of each word's labels.
            target_P: right labels; -100 where a row stands for no word.
            layout: which rows are which sentence.
        """
        scores_NWK = layout.spread(scores_PK)
        target_NW = layout.spread(target_P.clamp(min=0))
        there_N = layout.mask_NW.any(1)
        path_N = self.path_scores(scores_NWK, target_NW, layout.mask_NW)
        total_N = self.log_partition(scores_NWK, layout.mask_NW)
        return ((total_N - path_N) * there_N).sum() / there_N.sum().clamp(min=1)

    def path_scores(self, scores_NWK: Tensor, labels_NW: Tensor, mask_NW: Tensor) -> Tensor:
        """Score [N] of one label sequence for each sentence."""
        own_NW = scores_NWK.gather(2, labels_NW[..., None])[..., 0] * mask_NW
        step_NW = self.steps_KK[labels_NW[:, :-1], labels_NW[:, 1:]] * mask_NW[:, 1:]
        last_N = (mask_NW.sum(1) - 1).clamp(min=0)
        last_label_N = labels_NW.gather(1, last_N[:, None])[:, 0]
        return own_NW.sum(1) + step_NW.sum(1) + self.begins_K[labels_NW[:, 0]] + self.ends_K[last_label_N]

    def log_partition(self, scores_NWK: Tensor, mask_NW: Tensor) -> Tensor:
        """Logarithm [N] of the sum over all label sequences of the exponential of their scores."""
        first_NK = self.begins_K + scores_NWK[:, 0]
        if scores_NWK.shape[2] <= MOST_PAIRWISE:
            last_NK = self._pairwise(first_NK, scores_NWK, mask_NW)
        else:
            last_NK = self._in_order(first_NK, scores_NWK, mask_NW)
        return torch.logsumexp(last_NK + self.ends_K, dim=1)

    def _in_order(self, sums_NK: Tensor, scores_NWK: Tensor, mask_NW: Tensor) -> Tensor:
        """Sums over all sequences that end in each label, word after word."""
        for w in range(1, scores_NWK.shape[1]):
            stepped_NK = torch.logsumexp(sums_NK[:, :, None] + self.steps_KK, dim=1) + scores_NWK[:, w]
            sums_NK = torch.where(mask_NW[:, w, None], stepped_NK, sums_NK)
        return sums_NK

    def _pairwise(self, first_NK: Tensor, scores_NWK: Tensor, mask_NW: Tensor) -> Tensor:
        """The same by a tree of products."""
        batch, words, labels = scores_NWK.shape
        if words == 1:
            return first_NK
        identity_KK = torch.full((labels, labels), IMPOSSIBLE, device=scores_NWK.device).fill_diagonal_(0.0)
        step_NWKK = self.steps_KK + scores_NWK[:, 1:, None, :]
        # A step behind the end of a sentence changes nothing.
        chain = torch.where(mask_NW[:, 1:, None, None], step_NWKK, identity_KK)
        while chain.shape[1] > 1:
            if chain.shape[1] % 2:
                chain = torch.cat([chain, identity_KK.expand(batch, 1, labels, labels)], dim=1)
            chain = torch.logsumexp(chain[:, 0::2, :, :, None] + chain[:, 1::2, None, :, :], dim=3)
        return torch.logsumexp(first_NK[:, :, None] + chain[:, 0], dim=1)
