"""Batches: which sequences go together in which order, and how they lie in one packed row of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from biosmith.randomness import derive_key, permute
from biosmith.tasks.inputs import Example


@dataclass(frozen=True)
class Batch:
    """N sequences of T tokens in all, laid end to end, longest last, so that no token is padding.

    Attributes:
        input_ids_T, position_ids_T, token_type_ids_T: int64.
        cu_seqlens: int32 [N + 1], where each sequence begins, and T.
        longest: tokens of the longest sequence.
        picks_K: int64, places in T that the head reads.
        target: right answers, one a pick or one a sequence.
        members: which examples these are, in the order of the batch.
    """

    input_ids_T: Tensor
    position_ids_T: Tensor
    token_type_ids_T: Tensor
    cu_seqlens: Tensor
    longest: int
    picks_K: Tensor
    target: Tensor
    members: NDArray[np.int64]

    def to(self, device: torch.device) -> Batch:
        """The same batch on a device."""
        if device.type == "cpu":
            return self
        moved = {name: value.to(device, non_blocking=True) for name, value in self.tensors().items()}
        return Batch(**moved, longest=self.longest, members=self.members)

    def tensors(self) -> dict[str, Tensor]:
        """The tensors by name."""
        return {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}


def training_order(count: int, batch_size: int, seed: int, epoch: int) -> list[NDArray[np.int64]]:
    """The members of each batch of an epoch: a fresh shuffle, cut every `batch_size`; a pure function of its arguments.

    Sequences of all lengths meet in a batch, as in a plain loader; packing makes that cost nothing.
    """
    order = permute(derive_key(seed, "order", epoch), np.arange(count), count)
    return [order[at : at + batch_size] for at in range(0, count, batch_size)]


def length_order(lengths: NDArray[np.int64], budget: int) -> list[NDArray[np.int64]]:
    """Batches of like length, longest first, of at most `budget` tokens (but never fewer than one sequence)."""
    order = np.argsort(-lengths, kind="stable")
    batches: list[NDArray[np.int64]] = []
    at = 0
    while at < len(order):
        total = np.cumsum(lengths[order[at:]])
        size = max(1, int(np.searchsorted(total, budget, side="right")))
        batches.append(order[at : at + size])
        at += size
    return batches


def pack(examples: Sequence[Example], members: NDArray[np.int64]) -> Batch:
    """Lay the chosen examples end to end, shortest first."""
    lengths = np.array([len(examples[m].ids) for m in members], dtype=np.int64)
    members = members[np.argsort(lengths, kind="stable")]
    lengths = np.sort(lengths)
    chosen = [examples[m] for m in members]
    starts = np.cumsum(lengths) - lengths
    positions = np.arange(lengths.sum()) - np.repeat(starts, lengths)
    types = np.zeros(len(positions), dtype=np.int64)
    for example, start in zip(chosen, starts, strict=True):
        if example.types is not None:
            types[start : start + len(example.ids)] = example.types
    return Batch(
        input_ids_T=_tensor(np.concatenate([e.ids for e in chosen]), np.int64),
        position_ids_T=_tensor(positions, np.int64),
        token_type_ids_T=_tensor(types, np.int64),
        cu_seqlens=_tensor(np.append(starts, lengths.sum()), np.int32),
        longest=int(lengths.max()),
        picks_K=_tensor(
            np.concatenate([e.picks + start for e, start in zip(chosen, starts, strict=True)]), np.int64
        ),
        target=torch.from_numpy(np.concatenate([np.atleast_1d(e.target) for e in chosen])),
        members=members,
    )


def _tensor(array: NDArray[Any], kind: type[np.generic]) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array.astype(kind)))
