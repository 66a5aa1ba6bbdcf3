"""Sequences cut from one stream of documents, for `pack = "stream"` and `pack = "sentences"`.

The documents of an epoch, in a random order and with a [SEP] after each, form a stream that is cut into equal pieces:
exactly at the sequence length ("stream"), or at the sentence start nearest to a slightly shorter one ("sentences", the
FULL-SENTENCES of Liu et al., 2019). A sequence may hold several documents, which see each other.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from biosmith.errors import UsageError
from biosmith.pretraining.assembling import Pieces
from biosmith.pretraining.segments import SNAP_MARGIN, SegmentBounds, snap_segments
from biosmith.randomness import derive_key, permute
from biosmith.tokens.store import Tokens

Integers = NDArray[np.int64]


class StreamPlan:
    """Micro-batches of one epoch.

    Args:
        lengths: tokens of each document; 0 leaves one out.
        budget: tokens of a micro-batch.
        length: tokens of a sequence at most, [CLS] and the last [SEP] included.
        at_sentences: move cuts to sentence starts.
        seed, epoch: of the run.
    """

    def __init__(
        self,
        lengths: NDArray[np.int32],
        budget: int,
        length: int,
        at_sentences: bool,
        seed: int,
        epoch: int,
    ) -> None:
        if budget < length:
            raise UsageError(f"a micro-batch of {budget:,} tokens cannot hold a sequence of {length}")
        self.epoch, self.limit, self.at_sentences = epoch, length - 2, at_sentences
        # A moved cut can lengthen a sequence; a shorter step keeps most of them within the limit.
        self.step = max(self.limit - SNAP_MARGIN, self.limit // 2) if at_sentences else self.limit
        self.per_batch = budget // length
        used = np.flatnonzero(lengths)
        self.order = used[permute(derive_key(seed, "order", epoch), np.arange(len(used)), len(used))]
        self.lengths = lengths
        self.first: Integers = np.zeros(
            len(used) + 1, dtype=np.int64
        )  # where each document begins in the stream
        np.cumsum(lengths[self.order].astype(np.int64) + 1, out=self.first[1:])
        self.sequences = -(-int(self.first[-1]) // self.step)
        self._shuffle_key = derive_key(seed, "stream-order", epoch)

    def __len__(self) -> int:
        """Micro-batches in this epoch."""
        return math.ceil(self.sequences / self.per_batch)

    def locate(self, index: int) -> tuple[SegmentBounds, Integers, Integers]:
        """Parts of documents that make up micro-batch `index`: their bounds [P], the number of each one's sequence
        in the batch [P], and the places of the sequences in the epoch's order [N]."""
        places = np.arange(index * self.per_batch, min((index + 1) * self.per_batch, self.sequences))
        begin = permute(self._shuffle_key, places, self.sequences) * self.step
        end = np.minimum(begin + self.step, self.first[-1])
        low = np.searchsorted(self.first, begin, side="right") - 1
        count = np.searchsorted(self.first, end, side="left") - low
        sequence = np.repeat(np.arange(len(places)), count)
        which = np.repeat(low - (np.cumsum(count) - count), count) + np.arange(count.sum())
        documents, base = self.order[which], self.first[which]
        lengths = self.lengths[documents].astype(np.int64)
        starts = np.clip(begin[sequence] - base, 0, lengths)
        stops = np.clip(end[sequence] - base, 0, lengths)
        return SegmentBounds(documents, starts, stops, lengths), sequence, places

    def pieces(self, bounds: SegmentBounds, sequence: Integers, places: Integers, read: Tokens) -> Pieces:
        """The pieces of a micro-batch among the tokens read for its bounds, margins included."""
        if self.at_sentences:
            starts, stops = snap_segments(bounds, read.offsets, read.word_starts, read.sentence_starts)
        else:
            read_from, _ = bounds.with_margin()
            starts = read.offsets[:-1] - read_from + bounds.starts
            stops = starts + bounds.stops - bounds.starts
        lengths = stops - starts
        # What stands beyond the limit in a sequence is cut off: count pieces and the [SEP] between them.
        last = np.cumsum(np.where(lengths > 0, lengths + 1, 0))
        before = last - np.where(lengths > 0, lengths + 1, 0)
        first_piece = np.searchsorted(sequence, np.arange(len(places)))
        room = self.limit - (before - before[first_piece][sequence])
        fitted = np.clip(np.minimum(lengths, room), 0, None)
        return Pieces.of(
            starts,
            fitted,
            sequence,
            np.zeros(len(starts), dtype=np.int64),
            places,
            np.zeros(len(places), dtype=np.int64),
            int((lengths - fitted).sum()),
        )
