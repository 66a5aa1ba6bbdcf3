"""The plan of an epoch: which sequences go into which micro-batch, computed from document lengths alone.

Segments are put into the epoch's order by a keyed permutation and then packed one after the other into micro-batches
of a fixed token budget. Nothing is read to make the plan, so micro-batch n of any worker or device is known without
preparing the ones before it, and its size never changes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from biosmith.errors import UsageError
from biosmith.pretraining.segments import SegmentBounds, SegmentRules, Segments
from biosmith.randomness import derive_key, permute

Integers = NDArray[np.int64]

# How much moving both cuts to sentence starts changes the length of a part, as a standard deviation in tokens.
SNAP_SPREAD = 14.0
# Groups planned at a time; small enough for a processor's cache.
CHUNK = 1 << 16


@dataclass(frozen=True)
class PackingRules:
    """The shape of a micro-batch.

    Attributes:
        tokens: token budget, special tokens and the unused rest included.
        sequences: sequence slots.
        length: tokens of a sequence at most, special tokens included.
        specials: special tokens of a sequence: 2 for [CLS] A [SEP], 3 for [CLS] A [SEP] B [SEP].
        group: segments that travel together: 2 where they may exchange their second halves (next sentence
            prediction), else 1.
    """

    tokens: int
    sequences: int
    length: int
    specials: int
    group: int

    def __post_init__(self) -> None:
        if self.length <= self.specials + self.group:
            raise UsageError(
                f"sequence length {self.length} leaves no room beside {self.specials} special tokens"
            )
        if self.tokens < self.length * self.group:
            raise UsageError(
                f"a micro-batch of {self.tokens:,} tokens cannot hold {self.group} sequences of {self.length}; "
                f"raise batch.tokens and batch.micro_batch_tokens to at least {self.length * self.group:,}, or lower "
                "batch.length"
            )


def count_slots(
    lengths: NDArray[np.int32], rules: SegmentRules, tokens: int, specials: int, group: int
) -> int:
    """Sequence slots for a micro-batch: a quarter more than it holds on average.

    Depends on the store only, not on the epoch, so that shapes stay constant over a run.
    """
    used = lengths[lengths >= rules.minimum].astype(np.int64)
    if not len(used):
        return 2 * group
    sequences = np.maximum(1, -(-used // max(rules.limit, 1))).sum()  # a limit of 0 is refused later
    mean = float(used.sum()) / float(sequences) + specials
    mean *= 1 - rules.short_probability / 2
    slots = min(math.ceil(1.25 * tokens / mean / 8) * 8 + 8, tokens // (specials + 1))
    return max(2 * group, slots // group * group)


class EpochPlan:
    """Micro-batches of one epoch.

    Args:
        lengths: tokens of each document; 0 leaves one out.
        segment_rules, packing_rules: see there.
        seed: of the run.
        epoch: every epoch has another order and other short sequences.
    """

    def __init__(
        self,
        lengths: NDArray[np.int32],
        segment_rules: SegmentRules,
        packing_rules: PackingRules,
        seed: int,
        epoch: int,
    ) -> None:
        self.rules, self.epoch = packing_rules, epoch
        self.segments = Segments(lengths, segment_rules, seed, epoch)
        self._order_key = derive_key(seed, "order", epoch)
        self.groups = -(-len(self.segments) // packing_rules.group)
        self._room = packing_rules.tokens - self._reserve()
        self._first_group = self._pack()

    def __len__(self) -> int:
        """Micro-batches in this epoch."""
        return len(self._first_group) - 1

    def sequences_of(self, index: int) -> Integers:
        """Places in the epoch's order of the segments of micro-batch `index`."""
        group = self.rules.group
        first, last = self._first_group[index], self._first_group[index + 1]
        return np.arange(first * group, min(last * group, len(self.segments)), dtype=np.int64)

    def locate(self, places: Integers) -> SegmentBounds:
        """The segments at these places of the epoch's order."""
        return self.segments.locate(permute(self._order_key, places, len(self.segments)))

    def _reserve(self) -> int:
        """Tokens kept free in a micro-batch because parts of cut documents can become longer than planned.

        One standard deviation of their sum: where more is needed the last sequence of the micro-batch is shortened,
        which loses fewer tokens than a larger reserve would waste places.
        """
        counts = np.diff(self.segments.first)
        parts = int(counts[counts > 1].sum()) / max(1, len(self.segments))
        sequences = self.rules.tokens / self.rules.length
        return min(int(SNAP_SPREAD * math.sqrt(parts * sequences)), self.rules.tokens - self._largest_group())

    def _largest_group(self) -> int:
        return self.rules.length * self.rules.group

    def _costs(self, lengths: NDArray[np.int32], first: int, last: int) -> Integers:
        """Tokens planned for the groups [first, last), given the nominal length of each segment."""
        group, total = self.rules.group, len(self.segments)
        places = np.arange(first * group, min(last * group, total), dtype=np.int64)
        costs = lengths[permute(self._order_key, places, total)] + np.int64(self.rules.specials)
        if len(costs) % group:
            costs = np.concatenate([costs, np.zeros(group - len(costs) % group, dtype=np.int64)])
        return costs.reshape(-1, group).sum(axis=1)

    def _pack(self) -> Integers:
        """First group of each micro-batch, and the number of groups: each takes the next groups that fit."""
        room, lengths = self.rules.sequences // self.rules.group, self.segments.nominal_lengths()
        boundaries = [0]
        waiting = np.zeros(0, dtype=np.int64)  # costs of groups not yet in a closed micro-batch
        for first in range(0, self.groups, CHUNK):
            waiting = np.concatenate([waiting, self._costs(lengths, first, min(first + CHUNK, self.groups))])
            filled = np.cumsum(waiting)
            begin, base = 0, 0
            while True:
                end = int(np.searchsorted(filled, base + self._room, side="right"))
                end = min(end, begin + room)
                if end >= len(waiting):  # might take more from the next chunk
                    break
                boundaries.append(boundaries[-1] + end - begin)
                begin, base = end, int(filled[end - 1])
            waiting = waiting[begin:]
        if len(waiting):
            boundaries.append(self.groups)
        return np.array(boundaries, dtype=np.int64)
