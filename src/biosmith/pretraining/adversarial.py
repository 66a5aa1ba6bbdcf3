"""Adversarial masked language modelling (Liu et al., 2020, Algorithm 1): predictions that withstand small changes of
the word embeddings."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from biosmith.pretraining.batches import IGNORE
from biosmith.pretraining.config import AdversarialMaskedLanguageModel


def adversarial_loss(
    predict: Callable[[], Tensor],
    clean_MV: Tensor,
    words: nn.Embedding,
    tokens: int,
    labels_M: Tensor,
    rules: AdversarialMaskedLanguageModel,
) -> Tensor:
    """Sum over the hidden tokens of the symmetric divergence between predictions with and without a perturbation.

    The perturbation starts as noise, climbs the divergence `ascents` times, and stays within `radius` in each component.

    Args:
        predict: computes the logits of the hidden tokens, [M, V], through `words`.
        clean_MV: those without a perturbation.
        words: the word embedding whose output is changed.
        tokens: how many tokens a forward pass looks up.
        labels_M: hidden tokens; slots that hold `IGNORE` do not count.
        rules: see there.
    """
    weight, real_M = words.weight, labels_M != IGNORE
    fixed_MV = clean_MV.detach().float()
    change_TD = (
        torch.randn(tokens, weight.shape[1], device=weight.device, dtype=weight.dtype) * rules.deviation
    )
    for _ in range(rules.ascents):
        change_TD.requires_grad_()
        with moved(words, change_TD):
            apart = divergence(predict().float(), fixed_MV, real_M)
        (direction_TD,) = torch.autograd.grad(apart, change_TD)
        # The steepest direction of each token, scaled to a largest component of 1.
        direction_TD = direction_TD / (direction_TD.abs().amax(dim=-1, keepdim=True) + 1e-12)
        change_TD = (change_TD.detach() + rules.step_size * direction_TD).clamp(-rules.radius, rules.radius)
    with moved(words, change_TD.detach()):
        adversarial_MV = predict().float()
    return divergence(adversarial_MV, fixed_MV, real_M) + divergence(
        clean_MV.float(), adversarial_MV.detach(), real_M
    )


def divergence(logits_MV: Tensor, target_MV: Tensor, real_M: Tensor) -> Tensor:
    """Sum over real tokens of KL(target || predicted), from logits."""
    target, predicted = F.log_softmax(target_MV, dim=-1), F.log_softmax(logits_MV, dim=-1)
    each_M = F.kl_div(predicted, target, reduction="none", log_target=True).sum(-1)
    return torch.where(real_M, each_M, 0.0).sum()


@contextlib.contextmanager
def moved(words: nn.Embedding, change_TD: Tensor) -> Iterator[None]:
    """While it lasts, the word embedding's output is moved by `change_TD`."""
    handle = words.register_forward_hook(lambda module, inputs, output: output + change_TD)
    try:
        yield
    finally:
        handle.remove()
