"""Pieces of text to sequences: [CLS] piece [SEP] piece [SEP] ..., laid end to end in one pass over the tokens read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from biosmith.pretraining.masking import SequenceTokens
from biosmith.tokens.store import Tokens

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Pieces:
    """Parts of the tokens read that make up sequences; P pieces, N sequences, P >= N.

    Attributes:
        starts, lengths: [P], positions among the tokens read.
        sequence: [P], number of the sequence, ascending; every sequence has a piece.
        segments: [P], token type of each piece: 0, or 1 for the second part of a pair.
        places: [N], place of each sequence in the epoch's order.
        labels: [N], next-sentence label.
        dropped: tokens that were cut off so far.
    """

    starts: Integers
    lengths: Integers
    sequence: Integers
    segments: Integers
    places: Integers
    labels: Integers
    dropped: int = 0

    @classmethod
    def of(
        cls,
        starts: Integers,
        lengths: Integers,
        sequence: Integers,
        segments: Integers,
        places: Integers,
        labels: Integers,
        dropped: int = 0,
    ) -> Pieces:
        """Without empty pieces, and without sequences that had nothing else."""
        full = lengths > 0
        kept = np.unique(sequence[full])
        return cls(
            starts[full],
            lengths[full],
            np.searchsorted(kept, sequence[full]),
            segments[full],
            places[kept],
            labels[kept],
            dropped,
        )

    @property
    def sequence_lengths(self) -> Integers:
        """Tokens of each sequence, special tokens included, [N]."""
        return (
            np.bincount(self.sequence, weights=self.lengths + 1, minlength=len(self.places)).astype(np.int64)
            + 1
        )

    def fitted(self, budget: int) -> Pieces:
        """Shortened at the end, in the rare case that cuts moved to sentence starts made the batch too long."""
        excess = int(self.sequence_lengths.sum()) - budget
        if excess <= 0:
            return self
        lengths = self.lengths.copy()
        piece, sequences = len(lengths) - 1, len(self.places)
        while excess > 0:  # nearly always one piece
            cut = min(excess, int(lengths[piece]) - 1)
            lengths[piece] -= cut
            excess -= cut
            if excess > 0 and (piece == 0 or self.sequence[piece - 1] != self.sequence[piece]):
                # All pieces of this sequence have one token left: it goes as a whole.
                own = self.sequence == sequences - 1
                excess -= int(lengths[own].sum()) + int(own.sum()) + 1
                lengths[own] = 0
                sequences -= 1
            piece -= 1
        lost = int((self.lengths - lengths).sum())
        return Pieces.of(
            self.starts, lengths, self.sequence, self.segments, self.places, self.labels, self.dropped + lost
        )

    def lay_out(self, read: Tokens, cls_id: int, sep_id: int) -> tuple[SequenceTokens, NDArray[np.int32]]:
        """The sequences end to end, and the token type of each token [T]."""
        total, pieces, count = len(read.ids), len(self.starts), len(self.places)
        ids = np.append(read.ids, np.array([cls_id, sep_id], dtype=np.int32))
        words = np.append(read.word_starts, [True, True])
        # Each piece makes two entries, itself and [SEP]; a [CLS] stands before the first piece of each sequence.
        first_piece = np.searchsorted(self.sequence, np.arange(count))
        at = 2 * np.arange(pieces) + self.sequence + 1
        begin = np.full(2 * pieces + count, total + 1, dtype=np.int64)
        size = np.ones(len(begin), dtype=np.int64)
        begin[2 * first_piece + np.arange(count)] = total
        begin[at], size[at] = self.starts, self.lengths
        kinds = np.zeros(len(begin), dtype=np.int32)
        kinds[at] = kinds[at + 1] = self.segments
        ends = np.cumsum(size)
        index = np.repeat(begin - (ends - size), size) + np.arange(ends[-1] if count else 0)
        lengths = self.sequence_lengths
        starts = np.cumsum(lengths) - lengths
        laid = SequenceTokens(ids[index], words[index], index >= total, starts, lengths, self.places)
        return laid, np.repeat(kinds, size)
