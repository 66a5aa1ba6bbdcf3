"""Attention within sequences, padded or packed; the kernels are torch's.

Queries, keys and values come as [..., H, K]: H heads of width K. All forms are called alike, so a layer need not
know which it serves. `window` is how far a token sees to either side of itself; None is without end.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F


class Attend(Protocol):
    """Mixes the values of each sequence's tokens: query, key, value [..., H, K] -> [..., H, K]."""

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, dropout: float) -> Tensor:
        """`dropout` is the rate on attention probabilities, 0.0 outside training."""


@dataclass(frozen=True, eq=False)
class PaddedAttention:
    """Tokens as [B, L, H, K]; `visible_B11L` is True at the keys that may be seen, None where all may."""

    visible_B11L: Tensor | None
    window: int | None = None

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
            query.transpose(1, 2),
            key.transpose(1, 2),
            value.transpose(1, 2),
            self._mask(query.shape[1], query.device),
            dropout,
        )
        return mixed_BHLK.transpose(1, 2)

    def within(self, window: int) -> PaddedAttention:
        """The same with a window."""
        return dataclasses.replace(self, window=window)

    def _mask(self, length: int, device: torch.device) -> Tensor | None:
        if self.window is None or (length - 1 <= self.window and not _is_traced()):
            return self.visible_B11L
        band_LL = band(length, self.window, device)
        if self.visible_B11L is None:
            return band_LL
        visible_B1LL = self.visible_B11L & band_LL
        # Padding far behind the last real token would see no key at all (see `of`).
        return visible_B1LL | ~visible_B1LL.any(dim=-1, keepdim=True)


def _is_traced() -> bool:
    """Whether what is computed becomes a program for sequences of other lengths too."""
    return torch.jit.is_tracing() or torch.compiler.is_exporting()


def band(length: int, window: int, device: torch.device | None = None) -> Tensor:
    """bool [L, L]: which tokens are at most `window` apart."""
    place_L = torch.arange(length, device=device)
    return (place_L[:, None] - place_L).abs() <= window


@dataclass(frozen=True, eq=False)
class PackedAttention:
    """Tokens of N sequences laid end to end as [T, H, K].

    `cu_seqlens` is int32 [N + 1]: where each sequence begins, and T; empty sequences are allowed. `max_seqlen` is an
    upper bound of their lengths.
    """

    cu_seqlens: Tensor
    max_seqlen: int
    window: int | None = None
    _bands: dict[int, Tensor] = field(default_factory=dict, repr=False, compare=False)  # by length, for a CPU

    def within(self, window: int) -> PackedAttention:
        """The same with a window."""
        return PackedAttention(self.cu_seqlens, self.max_seqlen, window)

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, dropout: float) -> Tensor:
        """See `Attend`. Three roads to the same values.

        On a CUDA device in 16 bits: the variable-length flash kernel, with its own dropout if there is any. On a CPU:
        one sequence after the other, no work on padding. Otherwise (compiled on a CPU, 32 bits or dropout in a window
        on a CUDA device): padded inside the attention only.
        """
        if query.is_cuda and query.dtype in (torch.float16, torch.bfloat16):
            cu, longest = self.cu_seqlens, self.max_seqlen
            if dropout and self.window is None:
                # The public function knows no dropout; the operator below it does, and has a gradient.
                mixed: Tensor = torch.ops.aten._flash_attention_forward(
                    query, key, value, cu, cu, longest, longest, dropout, False, False
                )[0]
                return mixed
            if not dropout:
                from torch.nn.attention.varlen import varlen_attn

                sides = (-1, -1) if self.window is None else (self.window, self.window)
                return varlen_attn(query, key, value, cu, cu, longest, longest, window_size=sides)  # type: ignore[return-value]
        if query.is_cpu and not torch.compiler.is_compiling():
            return self._one_by_one(query, key, value, dropout)
        return self._padded(query, key, value, dropout)

    def _one_by_one(self, query: Tensor, key: Tensor, value: Tensor, dropout: float) -> Tensor:
        # Split, not sliced: the gradient of a split is one concatenation, that of a slice a whole tensor of zeros.
        lengths = self.cu_seqlens.diff().tolist()
        parts = zip(query.split(lengths), key.split(lengths), value.split(lengths), strict=True)
        mixed = [
            F.scaled_dot_product_attention(
                q.transpose(0, 1)[None],
                k.transpose(0, 1)[None],
                v.transpose(0, 1)[None],
                self._band(q.shape[0]),
                dropout,
            )[0].transpose(0, 1)
            for q, k, v in parts
            if q.shape[0]
        ]
        return torch.cat(mixed)

    def _band(self, length: int) -> Tensor | None:
        if self.window is None or length - 1 <= self.window:
            return None
        if length not in self._bands:
            self._bands[length] = band(length, self.window)
        return self._bands[length]

    def _padded(self, query: Tensor, key: Tensor, value: Tensor, dropout: float) -> Tensor:
        tokens, longest = query.shape[0], self.max_seqlen
        starts_N, ends_N = self.cu_seqlens[:-1], self.cu_seqlens[1:]
        within_L = torch.arange(longest, device=query.device)
        index_NL = (starts_N[:, None] + within_L).clamp(max=tokens - 1)
        mask_NL = within_L < (ends_N - starts_N)[:, None]
        token_T = torch.arange(tokens, device=query.device)
        sequence_T = torch.searchsorted(ends_N, token_T.to(ends_N.dtype), right=True)
        row_T = sequence_T * longest + token_T - starts_N[sequence_T]
        attend = dataclasses.replace(PaddedAttention.of(mask_NL), window=self.window)
        mixed_NLHK = attend(query[index_NL], key[index_NL], value[index_NL], dropout)
        return mixed_NLHK.flatten(0, 1)[row_T]


@dataclass(frozen=True, eq=False)
class RotaryAttention:
    """Queries and keys turned by an angle that grows with a token's position, then mixed by `attend` (Su et al., 2021,
    RoFormer, section 3.2): what they have in common then depends on how far apart they are.

    The first and the second half of a head's width are the two coordinates of its K / 2 planes. `cosine` and `sine`
    are float32 [..., 1, K / 2], their leading shape that of the tokens; the turn itself is computed in float32.
    """

    attend: Attend
    cosine: Tensor
    sine: Tensor

    @classmethod
    def of(cls, attend: Attend, positions: Tensor, head_width: int, theta: float) -> RotaryAttention:
        """Plane i of K / 2 turns by position * theta ** (-2 i / K)."""
        exponents = torch.arange(0, head_width, 2, dtype=torch.float32, device=positions.device) / head_width
        angles = positions[..., None, None].float() * (1.0 / theta**exponents)
        return cls(attend, angles.cos(), angles.sin())

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, dropout: float) -> Tensor:
        """See `Attend`."""
        return self.attend(self._turn(query), self._turn(key), value, dropout)

    def _turn(self, x: Tensor) -> Tensor:
        first, second = x.float().chunk(2, dim=-1)
        turned = (first * self.cosine - second * self.sine, second * self.cosine + first * self.sine)
        return torch.cat(turned, dim=-1).to(x.dtype)
