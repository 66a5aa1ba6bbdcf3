"""What engines score: sequences of token ids laid end to end, and the places among them that heads read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int32]
Places = NDArray[np.int64]
Scores = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Sequences:
    """N sequences of T tokens in all.

    Attributes:
        ids: token ids [T], special tokens included.
        begins: where each sequence begins, and T: [N + 1].
        picks: places in `ids` that heads read [P], ascending.
    """

    ids: Ids
    begins: Places
    picks: Places

    def __len__(self) -> int:
        return len(self.begins) - 1

    @property
    def lengths(self) -> Places:
        """Tokens of each sequence [N]."""
        return np.diff(self.begins)

    def take(self, members: Places) -> tuple[Sequences, Places]:
        """Some of the sequences, in the order given, and which picks of all these are."""
        begins, lengths = self.begins[members], self.lengths[members]
        first_pick = np.searchsorted(self.picks, self.begins)
        picked = first_pick[members + 1] - first_pick[members]
        rows = ragged(first_pick[members], picked)
        ends = np.append(0, np.cumsum(lengths))
        picks = self.picks[rows] + np.repeat(ends[:-1] - begins, picked)
        return Sequences(self.ids[ragged(begins, lengths)], ends, picks), rows


class Engine(Protocol):
    """Scores sequences; what stands beside a sequence changes nothing but rounding.

    Attributes:
        name: "torch", "openvino", "onnx".
        reason: why it was chosen and in which precision it computes, for people.
        outputs: K, labels of all heads together.
    """

    name: str
    reason: str
    outputs: int

    def __call__(self, sequences: Sequences) -> Scores:
        """Scores [P, K] of the picks, in their order."""


@dataclass(frozen=True, slots=True)
class PaddedBatch:
    """Some sequences as a rectangle.

    Attributes:
        ids_BL, mask_BL: int64; padding is 0 in both.
        places: of the batch's picks in the flattened rectangle.
        rows: which picks of all these are.
    """

    ids_BL: NDArray[np.int64]
    mask_BL: NDArray[np.int64]
    places: Places
    rows: Places


def ragged(starts: Places, lengths: Places) -> Places:
    """start, start + 1, ... of each run, one run after another."""
    before = np.cumsum(lengths) - lengths
    return np.repeat(starts - before, lengths) + np.arange(int(lengths.sum()))


def bucketed(lengths: Places) -> Places:
    """Lengths rounded up to few different ones, so that an engine meets the same shapes again."""
    steps = np.select([lengths <= 64, lengths <= 128, lengths <= 256], [4, 8, 16], 32)
    return -(-lengths // steps) * steps


def padded_batches(sequences: Sequences, budget: int, longest: int) -> Iterator[PaddedBatch]:
    """Rectangles of sequences of like length, longest first, of at most `budget` tokens with padding.

    Args:
        sequences: to share out.
        budget: tokens in a batch; one sequence may have more.
        longest: tokens of the longest sequence that the model reads.
    """
    lengths = sequences.lengths
    order = np.argsort(-lengths, kind="stable")
    widths = np.minimum(bucketed(lengths[order]), longest)
    first_pick = np.searchsorted(sequences.picks, sequences.begins)
    at = 0
    while at < len(order):
        width = int(widths[at])
        chosen = order[at : at + max(1, budget // width)]
        at += len(chosen)
        yield _rectangle(sequences, chosen, width, first_pick)


def _rectangle(sequences: Sequences, chosen: Places, width: int, first_pick: Places) -> PaddedBatch:
    begins, lengths = sequences.begins[chosen], sequences.lengths[chosen]
    mask_BL = (np.arange(width) < lengths[:, None]).astype(np.int64)
    ids_BL = np.zeros(mask_BL.shape, np.int64)
    ids_BL[mask_BL.astype(bool)] = sequences.ids[ragged(begins, lengths)]
    picked = first_pick[chosen + 1] - first_pick[chosen]
    rows = ragged(first_pick[chosen], picked)
    row_begins = np.arange(len(chosen)) * width
    places = sequences.picks[rows] + np.repeat(row_begins - begins, picked)
    return PaddedBatch(ids_BL, mask_BL, places, rows)
