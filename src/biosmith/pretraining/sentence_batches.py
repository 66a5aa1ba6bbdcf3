"""Micro-batches of whole sentences as pure functions of (seed, epoch, index): packed, of fixed shapes, sorted by length.

A micro-batch takes sentences in the order of the epoch until the next one would not fit, so that every sentence is seen
once an epoch and no batch prefers a length. Within it sentences lie sorted by length: neighbours of equal length then share
one attention call on a CPU, and tiles of one size on a GPU. Nothing is padded.

Shapes: T encoder tokens, S decoder tokens, N sentence slots, of which the last ones hold what is left unused.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from biosmith.errors import UsageError
from biosmith.pretraining.sentences import READING, SIDES, WRITING, SentenceStore
from biosmith.randomness import derive_key, permute

IGNORE = -100
# A sentence has about this many decoder tokens at least; a micro-batch with shorter ones has fewer sentences.
SHORTEST_MEAN = 12


@dataclass(frozen=True)
class SentenceCounts:
    """What a micro-batch holds."""

    sentences: int = 0
    tokens: int = 0  # decoder tokens that the loss counts
    read: int = 0  # encoder tokens


@dataclass(frozen=True)
class PackedBatch:
    """A micro-batch as arrays; names as in `models.vae`."""

    ids_T: NDArray[np.int64]
    positions_T: NDArray[np.int64]
    read_cu: NDArray[np.int32]
    ids_S: NDArray[np.int64]
    positions_S: NDArray[np.int64]
    labels_S: NDArray[np.int64]
    sentence_S: NDArray[np.int64]
    written_cu: NDArray[np.int32]
    real_N: NDArray[np.float32]
    max_seqlen: int
    counts: SentenceCounts


@dataclass
class SentenceBatchMaker:
    """Makes the micro-batches of an epoch.

    Attributes:
        store: the sentences.
        members: which of them, by number.
        tokens: decoder tokens of a micro-batch.
        length: longest sentence with its special tokens; longer ones are left out and counted in `left_out`.
        first_position: of the decoder's tokens, 1 behind a memory.
        seed: of the order; None keeps the order of the members (evaluation).
        trim: leave the unused rest out: shapes then differ, as a CPU may have it.
    """

    store: SentenceStore
    members: NDArray[np.int64]
    tokens: int
    length: int
    first_position: int = 1
    seed: int | None = None
    trim: bool = False
    _plans: dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        kept = short_enough(self.store, self.members, self.length)
        self.left_out = len(self.members) - len(kept)
        self.members = kept
        if self.tokens < self.length:
            raise UsageError(
                f"batch.micro_batch_tokens {self.tokens} holds no sentence of batch.length {self.length}"
            )
        if not len(self.members):
            raise UsageError(
                f"{self.store.folder} has no sentence of at most batch.length {self.length} tokens"
            )

    @cached_property
    def read_tokens(self) -> int:
        """Encoder tokens of a micro-batch: as many as the decoder's make on average, a little more, and a whole sentence."""
        read, written = (self.store.lengths(side)[self.members].mean() for side in SIDES)
        ratio = (read + 2) / (written + 1)
        return max(self.length, int(np.ceil(self.tokens * ratio * 1.03 / 64) * 64))

    @property
    def real_slots(self) -> int:
        """Most sentences of a micro-batch."""
        return max(1, self.tokens // SHORTEST_MEAN)

    @property
    def spare_slots(self) -> int:
        """Slots for the unused rest, in pieces no longer than a sentence."""
        return -(-max(self.tokens, self.read_tokens) // self.length)

    def plan(self, epoch: int) -> NDArray[np.int64]:
        """Where each micro-batch of an epoch ends in the order of the epoch."""
        return self._planned(epoch)[1]

    def _planned(self, epoch: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(sentences in the order of an epoch, where each micro-batch ends)."""
        if epoch not in self._plans:
            order = self.members
            if self.seed is not None:
                place = permute(
                    derive_key(self.seed, "sentence order", epoch),
                    np.arange(len(order), dtype=np.int64),
                    len(order),
                )
                order = order[place]
            self._plans.clear()  # one epoch at a time
            self._plans[epoch] = order, self._cut(order)
        return self._plans[epoch]

    def _cut(self, order: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where micro-batches end: each takes as many of the next sentences as fit."""
        read = np.cumsum(self.store.lengths(READING)[order] + 2)
        written = np.cumsum(self.store.lengths(WRITING)[order] + 1)
        ends, start = [], 0
        while start < len(order):
            before = (read[start - 1], written[start - 1]) if start else (0, 0)
            fits_read = np.searchsorted(read, before[0] + self.read_tokens, side="right")
            fits_written = np.searchsorted(written, before[1] + self.tokens, side="right")
            start = int(min(fits_read, fits_written, start + self.real_slots))
            ends.append(start)
        return np.array(ends, dtype=np.int64)

    def make(self, epoch: int, index: int, rate: float | None = None) -> PackedBatch:
        """Micro-batch number `index` of an epoch; `rate` is of no use here (other objectives hide tokens)."""
        order, ends = self._planned(epoch)
        chosen = order[(ends[index - 1] if index else 0) : ends[index]]
        lengths = self.store.lengths(WRITING)[chosen]
        # By encoder length where decoder lengths are equal: both sides then have long runs of one length.
        chosen = chosen[np.lexsort((self.store.lengths(READING)[chosen], lengths))]
        return self._lay_out(chosen)

    def _lay_out(self, chosen: NDArray[np.int64]) -> PackedBatch:
        read, read_lengths = self.store.gather(READING, chosen)
        written, written_lengths = self.store.gather(WRITING, chosen)
        reader, writer = self.store.special(READING), self.store.special(WRITING)
        count = len(chosen)
        room = (len(read) + 2 * count, len(written) + count)
        size_T, size_S = room if self.trim else (self.read_tokens, self.tokens)
        slots = count if self.trim else self.real_slots
        spare = 0 if self.trim else self.spare_slots
        read_cu = self._ends(read_lengths + 2, slots, spare, size_T)
        written_cu = self._ends(written_lengths + 1, slots, spare, size_S)
        ids_T = np.full(size_T, reader.pad, dtype=np.int64)
        ids_T[_inner(read_lengths, 2, before=1)] = read
        ids_T[read_cu[:count]] = reader.begin
        ids_T[read_cu[1 : count + 1] - 1] = reader.end
        ids_S = np.full(size_S, writer.pad, dtype=np.int64)
        labels_S = np.full(size_S, IGNORE, dtype=np.int64)
        ids_S[_inner(written_lengths, 1, before=1)] = written
        ids_S[written_cu[:count]] = writer.begin
        labels_S[_inner(written_lengths, 1, before=0)] = written
        labels_S[written_cu[1 : count + 1] - 1] = writer.end
        real = np.zeros(slots + spare, dtype=np.float32)
        real[:count] = 1.0
        sizes = np.diff(written_cu)
        return PackedBatch(
            ids_T=ids_T,
            positions_T=_positions(read_cu),
            read_cu=read_cu,
            ids_S=ids_S,
            positions_S=_positions(written_cu) + self.first_position,
            labels_S=labels_S,
            sentence_S=np.repeat(np.arange(len(sizes)), sizes),
            written_cu=written_cu,
            real_N=real,
            max_seqlen=self.length,
            counts=SentenceCounts(count, room[1], room[0]),
        )

    def _ends(self, lengths: NDArray[np.int64], slots: int, spare: int, size: int) -> NDArray[np.int32]:
        """Where slots begin: the sentences, empty slots, then the unused rest in pieces of a sentence's length."""
        ends = np.zeros(slots + spare + 1, dtype=np.int64)
        ends[1 : len(lengths) + 1] = np.cumsum(lengths)
        used = int(ends[len(lengths)])
        ends[len(lengths) + 1 :] = used
        ends[slots + 1 :] = np.minimum(used + self.length * np.arange(1, spare + 1), size)
        return ends.astype(np.int32)


def _inner(lengths: NDArray[np.int64], extra: int, before: int) -> NDArray[np.int64]:
    """Places of the pieces of sentences that take `extra` more tokens each, `before` of them in front."""
    starts = np.cumsum(lengths + extra) - (lengths + extra) + before
    offsets = np.cumsum(lengths) - lengths
    return np.arange(int(lengths.sum())) + np.repeat(starts - offsets, lengths)


def _positions(cu: NDArray[np.int32]) -> NDArray[np.int64]:
    sizes = np.diff(cu)
    return np.arange(int(cu[-1])) - np.repeat(cu[:-1].astype(np.int64), sizes)


def short_enough(store: SentenceStore, members: NDArray[np.int64], length: int) -> NDArray[np.int64]:
    """Those sentences that have at most `length` tokens on either side, special ones included."""
    read, written = (store.lengths(side)[members] + 2 for side in SIDES)
    return members[(read <= length) & (written <= length)]


def split_documents(
    store: SentenceStore, held_out: int, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Numbers of the sentences for training and of those held out: whole documents, drawn by the seed, a tenth at most."""
    documents = store.documents
    total = int(documents[-1]) + 1 if len(documents) else 0
    count = min(held_out, total // 10)
    place = permute(derive_key(seed, "held out documents"), np.arange(total, dtype=np.int64), total)
    is_out = (place < count)[documents]
    return np.flatnonzero(~is_out), np.flatnonzero(is_out)
