"""Attention within sequences, padded or packed; the kernels are torch's.

Queries, keys and values come as [..., H, K]: H heads of width K. Both forms are called alike, so a layer need not
know which it serves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F


class Attend(Protocol):
    """Mixes the values of each sequence's tokens: query, key, value [..., H, K] -> [..., H, K]."""

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, dropout: float) -> Tensor:
        """`dropout` is the rate on attention probabilities, 0.0 outside training."""


@dataclass(frozen=True)
class PaddedAttention:
    """Tokens as [B, L, H, K]; `visible_B11L` is True at the keys that may be seen, None where all may."""

    visible_B11L: Tensor | None

    @classmethod
    def of(cls, attention_mask_BL: Tensor | None) -> PaddedAttention:
        """From a mask that is non-zero at real tokens. A row without any sees all of its keys: its output means
        nothing, but a softmax over no key would be NaN and spread through the gradients."""
        if attention_mask_BL is None:
            return cls(None)
        visible_BL = attention_mask_BL.bool()
        visible_BL = visible_BL | ~visible_BL.any(dim=1, keepdim=True)
        return cls(visible_BL[:, None, None, :])

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, dropout: float) -> Tensor:
        """See `Attend`."""
        mixed_BHLK = F.scaled_dot_product_attention(
            query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2), self.visible_B11L, dropout
        )
        return mixed_BHLK.transpose(1, 2)


@dataclass(frozen=True)
class PackedAttention:
    """Tokens of N sequences laid end to end as [T, H, K].

    `cu_seqlens` is int32 [N + 1]: where each sequence begins, and T; empty sequences are allowed. `max_seqlen` is an
    upper bound of their lengths.
    """

    cu_seqlens: Tensor
    max_seqlen: int

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, dropout: float) -> Tensor:
        """See `Attend`. Three roads to the same values.

        On a CUDA device in 16 bits: the variable-length flash kernel, which knows no dropout. On a CPU: one sequence
        after the other, no work on padding. Otherwise (compiled on a CPU, 32 bits or dropout on a CUDA device):
        padded inside the attention only.
        """
        if query.is_cuda and query.dtype in (torch.float16, torch.bfloat16) and not dropout:
            from torch.nn.attention.varlen import varlen_attn

            cu, longest = self.cu_seqlens, self.max_seqlen
            mixed = varlen_attn(query, key, value, cu, cu, longest, longest)
            assert isinstance(mixed, Tensor)
            return mixed
        if query.is_cpu and not torch.compiler.is_compiling():
            return self._one_by_one(query, key, value, dropout)
        return self._padded(query, key, value, dropout)

    def _one_by_one(self, query: Tensor, key: Tensor, value: Tensor, dropout: float) -> Tensor:
        # Split, not sliced: the gradient of a split is one concatenation, that of a slice a whole tensor of zeros.
        lengths = self.cu_seqlens.diff().tolist()
        parts = zip(query.split(lengths), key.split(lengths), value.split(lengths), strict=True)
        mixed = [
            F.scaled_dot_product_attention(
                q.transpose(0, 1)[None], k.transpose(0, 1)[None], v.transpose(0, 1)[None], dropout_p=dropout
            )[0].transpose(0, 1)
            for q, k, v in parts
            if q.shape[0]
        ]
        return torch.cat(mixed)

    def _padded(self, query: Tensor, key: Tensor, value: Tensor, dropout: float) -> Tensor:
        tokens, longest = query.shape[0], self.max_seqlen
        starts_N, ends_N = self.cu_seqlens[:-1], self.cu_seqlens[1:]
        within_L = torch.arange(longest, device=query.device)
        index_NL = (starts_N[:, None] + within_L).clamp(max=tokens - 1)
        mask_NL = within_L < (ends_N - starts_N)[:, None]
        token_T = torch.arange(tokens, device=query.device)
        sequence_T = torch.searchsorted(ends_N, token_T.to(ends_N.dtype), right=True)
        row_T = sequence_T * longest + token_T - starts_N[sequence_T]
        attend = PaddedAttention.of(mask_NL)
        mixed_NLHK = attend(query[index_NL], key[index_NL], value[index_NL], dropout)
        return mixed_NLHK.flatten(0, 1)[row_T]
