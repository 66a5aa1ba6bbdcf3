"""Sequences of different lengths laid end to end, as `Encoder.forward_packed` takes them: no work on padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor


@dataclass(frozen=True)
class PackedSequences:
    """N sequences of T tokens together."""

    input_ids_T: Tensor
    position_ids_T: Tensor
    token_type_ids_T: Tensor
    cu_seqlens: Tensor  # int32 [N + 1]: where each sequence begins, and T
    max_seqlen: int

    @classmethod
    def of(
        cls,
        input_ids: Sequence[ArrayLike],
        token_type_ids: Sequence[ArrayLike] | None = None,
        device: torch.device | str = "cpu",
    ) -> PackedSequences:
        """Pack lists or arrays of token ids, special tokens included; segments are 0 where not given."""
        arrays = [np.asarray(ids, dtype=np.int64) for ids in input_ids]
        lengths = np.array([len(ids) for ids in arrays], dtype=np.int64)
        ends = np.concatenate([[0], np.cumsum(lengths)])
        ids_T = np.concatenate(arrays) if arrays else np.zeros(0, dtype=np.int64)
        positions_T = np.arange(len(ids_T)) - np.repeat(ends[:-1], lengths)
        types_T = np.zeros_like(ids_T)
        if token_type_ids is not None and arrays:
            types_T = np.concatenate([np.asarray(types, dtype=np.int64) for types in token_type_ids])
        return cls(
            torch.from_numpy(ids_T).to(device),
            torch.from_numpy(positions_T).to(device),
            torch.from_numpy(types_T).to(device),
            torch.from_numpy(ends.astype(np.int32)).to(device),
            int(lengths.max(initial=0)),
        )

    @property
    def arguments(self) -> tuple[Tensor, Tensor, Tensor, Tensor, int]:
        """What `Encoder.forward_packed` takes, in its order."""
        return (
            self.input_ids_T,
            self.position_ids_T,
            self.token_type_ids_T,
            self.cu_seqlens,
            self.max_seqlen,
        )
