"""Causal attention over sentences that have a memory before their first token; the kernels are torch's.

The memory is a row of its own in front of each sentence: as a key and a value it is seen by every token, as a query it is
a dummy whose result is thrown away. So each sentence is plain causal attention over one row more, which every kernel has,
and no mask is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True, eq=False)
class PackedLayout:
    """Where N sentences of S tokens lie, and where their rows go when each gets a memory row in front.

    Attributes:
        sentence_S: which sentence each token belongs to.
        cu_seqlens: int32 [N + 1], where each sentence begins, and S.
        max_seqlen: an upper bound of the sentences' lengths.
    """

    sentence_S: Tensor
    cu_seqlens: Tensor
    max_seqlen: int

    def with_memory(self) -> tuple[Tensor, Tensor, Tensor]:
        """(order [S + N], place [S + N], cu_seqlens [N + 1]): row r of the attention comes from row order[r] of tokens
        followed by memories, and row i of those goes to place[i]."""
        tokens, sentences = self.sentence_S.shape[0], self.cu_seqlens.shape[0] - 1
        device = self.sentence_S.device
        count_N = torch.arange(sentences + 1, device=device)
        token_place_S = torch.arange(tokens, device=device) + self.sentence_S + 1
        memory_place_N = self.cu_seqlens[:-1] + count_N[:-1]
        place = torch.cat([token_place_S, memory_place_N])
        order = torch.empty_like(place).scatter_(0, place, torch.arange(tokens + sentences, device=device))
        return order, place, (self.cu_seqlens + count_N).to(torch.int32)


class MemoryAttention:
    """Packed sentences; `at` gives the same for every layer."""

    def __init__(self, layout: PackedLayout) -> None:
        self.layout = layout
        self._rows: tuple[Tensor, Tensor, Tensor] | None = None

    def at(self, layer: int) -> MemoryAttention:
        """For one layer."""
        return self

    def __call__(self, qkv: Tensor, memory: Tensor | None, dropout: float) -> Tensor:
        """qkv [S, 3, H, K], memory [N, H, K] -> [S, H, K]."""
        tokens, layout = qkv.shape[0], self.layout
        if memory is None:
            return causal_packed(qkv, layout.cu_seqlens, layout.max_seqlen, dropout)
        if self._rows is None:
            self._rows = layout.with_memory()
        order, place, cu_seqlens = self._rows
        memories = torch.stack([torch.zeros_like(memory), memory, memory], dim=1)
        rows = _Reorder.apply(torch.cat([qkv, memories]), order, place)
        mixed = causal_packed(rows, cu_seqlens, layout.max_seqlen + 1, dropout)
        moved: Tensor = _Reorder.apply(mixed, place, order)
        return moved[:tokens]


class PaddedAttention:
    """A batch padded on the right; `at` gives the same for every layer."""

    def at(self, layer: int) -> PaddedAttention:
        """For one layer."""
        return self

    def __call__(self, qkv: Tensor, memory: Tensor | None, dropout: float) -> Tensor:
        """qkv [B, L, 3, H, K], memory [B, H, K] -> [B, L, H, K]."""
        if memory is not None:
            row = torch.stack([torch.zeros_like(memory), memory, memory], dim=1)
            qkv = torch.cat([row[:, None], qkv], dim=1)
        query, key, value = (part.transpose(1, 2) for part in qkv.unbind(2))
        mixed = F.scaled_dot_product_attention(query, key, value, None, dropout, is_causal=True).transpose(
            1, 2
        )
        return mixed if memory is None else mixed[:, 1:]


class CachedAttention:
    """Keys and values of all tokens so far, the memory first; each call adds those of the new tokens."""

    def __init__(self) -> None:
        self.tokens = 0  # in the cache, the memory not counted
        self._held: dict[int, tuple[Tensor, Tensor]] = {}  # layer -> keys, values [B, H, rows, K]

    def at(self, layer: int) -> Callable[[Tensor, Tensor | None, float], Tensor]:
        """For one layer."""
        return lambda qkv, memory, dropout: self._attend(layer, qkv, memory)

    def select(self, rows: Tensor) -> None:
        """Keep these sentences, in this order; one may be kept several times (beams)."""
        self._held = {
            n: (k.index_select(0, rows), v.index_select(0, rows)) for n, (k, v) in self._held.items()
        }

    def _attend(self, layer: int, qkv: Tensor, memory: Tensor | None) -> Tensor:
        query, key, value = (part.transpose(1, 2) for part in qkv.unbind(2))
        if layer in self._held:
            before = self._held[layer]
        else:
            start = key[:, :, :0] if memory is None else memory[:, :, None]
            before = (start, start)
        key, value = torch.cat([before[0], key], dim=2), torch.cat([before[1], value], dim=2)
        self._held[layer] = key, value
        new, rows = query.shape[2], key.shape[2]
        # Token i of the new ones sees all rows before it, and itself.
        visible = torch.ones(new, rows, dtype=torch.bool, device=query.device).tril(rows - new)
        mixed = F.scaled_dot_product_attention(query, key, value, None if new == 1 else visible)
        return mixed.transpose(1, 2)


class _Reorder(torch.autograd.Function):
    """Rows in another order. As a permutation its gradient is a selection too, where that of torch's index_select
    would add row by row."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, order: Tensor, place: Tensor) -> Tensor:
        ctx.save_for_backward(order, place)
        return x.index_select(0, order)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        _, place = ctx.saved_tensors
        return gradient.index_select(0, place), None, None


def causal_packed(qkv: Tensor, cu_seqlens: Tensor, max_seqlen: int, dropout: float) -> Tensor:
    """Causal attention within sequences laid end to end: [T, 3, H, K] -> [T, H, K]. Three roads to the same values.

    On a CUDA device in 16 bits: the variable-length flash kernel. On a CPU: neighbours of equal length in one call, no
    work on padding. Otherwise: padded inside the attention only.
    """
    query, key, value = qkv.unbind(1)
    if query.is_cuda and query.dtype in (torch.float16, torch.bfloat16):
        if dropout:
            # The public function knows no dropout; the operator below it does, and has a gradient.
            mixed: Tensor = torch.ops.aten._flash_attention_forward(
                query, key, value, cu_seqlens, cu_seqlens, max_seqlen, max_seqlen, dropout, True, False
            )[0]
            return mixed
        from torch.nn.attention.varlen import varlen_attn

        return varlen_attn(  # type: ignore[return-value]
            query, key, value, cu_seqlens, cu_seqlens, max_seqlen, max_seqlen, window_size=(-1, 0)
        )
    if query.is_cpu and not torch.compiler.is_compiling():
        return by_equal_lengths(query, key, value, cu_seqlens, dropout, causal=True)
    return _padded(query, key, value, cu_seqlens, max_seqlen, dropout)


def by_equal_lengths(
    query: Tensor, key: Tensor, value: Tensor, cu_seqlens: Tensor, dropout: float, *, causal: bool
) -> Tensor:
    """Attention within sequences, neighbours of one length together: best where sentences are sorted by length."""
    lengths = cu_seqlens.diff().tolist()
    changes = [i for i in range(1, len(lengths)) if lengths[i] != lengths[i - 1]]
    runs = [(lengths[a], b - a) for a, b in pairwise([0, *changes, len(lengths)]) if lengths[a]]
    sizes = [length * count for length, count in runs]
    mixed = []
    for (length, count), *parts in zip(
        runs, query.split(sizes), key.split(sizes), value.split(sizes), strict=True
    ):
        q, k, v = (part.unflatten(0, (count, length)).transpose(1, 2) for part in parts)
        out = F.scaled_dot_product_attention(q, k, v, None, dropout, is_causal=causal)
        mixed.append(out.transpose(1, 2).flatten(0, 1))
    return torch.cat(mixed)


def _padded(
    query: Tensor, key: Tensor, value: Tensor, cu_seqlens: Tensor, max_seqlen: int, dropout: float
) -> Tensor:
    tokens, device = query.shape[0], query.device
    starts_N, ends_N = cu_seqlens[:-1], cu_seqlens[1:]
    index_NL = (starts_N[:, None] + torch.arange(max_seqlen, device=device)).clamp(max=tokens - 1)
    token_T = torch.arange(tokens, device=device)
    sequence_T = torch.searchsorted(ends_N, token_T.to(ends_N.dtype), right=True)
    row_T = sequence_T * max_seqlen + token_T - starts_N[sequence_T]
    query, key, value = (x[index_NL].transpose(1, 2) for x in (query, key, value))
    mixed_NHLK = F.scaled_dot_product_attention(query, key, value, None, dropout, is_causal=True)
    return mixed_NHLK.transpose(1, 2).flatten(0, 1)[row_T]
