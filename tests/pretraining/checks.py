"""Slow and plain readings of batches, independent of the code that makes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from biosmith.pretraining.batches import IGNORE, Batch
from biosmith.tokens.store import Tokens


class Sequence(NamedTuple):
    """One sequence of a batch, with the original ids put back at hidden positions in `targets`."""

    ids: NDArray[np.int32]
    targets: NDArray[np.int32]
    hidden: NDArray[np.bool_]
    segments: NDArray[np.int32]
    label: int


def sequences_of(batch: Batch) -> Iterator[Sequence]:
    """The real sequences of a batch, one by one."""
    targets, hidden = batch.input_ids_T.copy(), np.zeros(len(batch.input_ids_T), dtype=bool)
    real = batch.labels_M != IGNORE
    targets[batch.masked_positions_M[real]] = batch.labels_M[real]
    hidden[batch.masked_positions_M[real]] = True
    for number in range(batch.counts.sequences):
        part = slice(batch.cu_seqlens[number], batch.cu_seqlens[number + 1])
        yield Sequence(
            batch.input_ids_T[part],
            targets[part],
            hidden[part],
            batch.token_type_ids_T[part],
            int(batch.next_sentence_labels_N[number]),
        )


class Place(NamedTuple):
    """Where a run of ids stands in the store."""

    document: int
    start: int
    stop: int


def documents_of_tokens(tokens: Tokens, part: NDArray[np.int32]) -> list[Place]:
    """All places of a run of ids."""
    windows = np.lib.stride_tricks.sliding_window_view(tokens.ids, len(part))
    candidates = np.flatnonzero(windows[:, 0] == part[0])
    places = []
    for start in candidates[(windows[candidates] == part).all(axis=1)]:
        document = int(np.searchsorted(tokens.offsets, start, side="right") - 1)
        places.append(Place(document, int(start), int(start) + len(part)))
    return places
