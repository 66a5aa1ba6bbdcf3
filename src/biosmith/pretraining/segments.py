"""Documents cut into segments: how many and where, from the lengths alone; the exact cut at a sentence start.

A document longer than the limit is cut into equal parts. Where a part begins is known from the document's length (its
nominal cut), which is what lets a whole epoch be planned without reading a token; when the tokens are read the cut
moves to the nearest sentence start, by a rule that both neighbours compute alike, so that no token is lost or doubled.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from biosmith.randomness import derive_key, integers, uniform

Integers = NDArray[np.int64]

# How far, in tokens, a cut may move to reach a sentence start; biomedical sentences have about 30 tokens.
SNAP_WINDOW = 64
# Parts of a cut document are planned this many tokens shorter than the limit, as a moved cut can lengthen them.
SNAP_MARGIN = 16
# Documents looked at together; small enough for a processor's cache.
CHUNK = 1 << 16


@dataclass(frozen=True)
class SegmentRules:
    """How documents become segments.

    Attributes:
        limit: tokens of a segment at most, special tokens not counted.
        minimum: documents (and segments) with fewer tokens are left out.
        short_probability: share of documents that are cut by a random smaller limit (Devlin et al., 2019:
            `short_seq_prob`, 0.1), so that the model also sees short inputs. A new draw every epoch.
    """

    limit: int
    minimum: int = 1
    short_probability: float = 0.0


class Segments:
    """The segments of one epoch, numbered in the order of the documents.

    Args:
        lengths: tokens of each document, [documents]; 0 leaves a document out.
        rules: see `SegmentRules`.
        seed: of the run.
        epoch: decides which documents get a short limit.
    """

    def __init__(self, lengths: NDArray[np.int32], rules: SegmentRules, seed: int, epoch: int) -> None:
        self.rules, self.lengths = rules, lengths
        counts = self._count_parts(seed, epoch)
        self.first: Integers = np.zeros(len(lengths) + 1, dtype=np.int64)  # first segment of each document
        np.cumsum(counts, out=self.first[1:])

    def __len__(self) -> int:
        return int(self.first[-1])

    def _count_parts(self, seed: int, epoch: int) -> NDArray[np.int32]:
        rules = self.rules
        room = max(rules.limit - SNAP_MARGIN, rules.limit // 2, 1)
        counts = np.where(self.lengths <= rules.limit, 1, -(-self.lengths // room)).astype(np.int32)
        if rules.short_probability > 0:
            documents = np.arange(len(self.lengths), dtype=np.int64)
            drawn = uniform(derive_key(seed, "short", epoch), documents) < rules.short_probability
            short = np.flatnonzero(drawn)
            lowest = max(2, min(32, rules.limit // 4))  # below a sentence's length a limit has no effect
            targets = lowest + integers(
                derive_key(seed, "short-limit", epoch), short, rules.limit - lowest + 1
            )
            counts[short] = np.maximum(counts[short], -(-self.lengths[short] // targets))
        counts[self.lengths < rules.minimum] = 0
        return counts

    def nominal_lengths(self) -> NDArray[np.int32]:
        """Tokens of each segment before its cuts move, [segments]; in the order of the documents, so that nothing has
        to be looked up."""
        found = np.empty(len(self), dtype=np.int32)
        for begin in range(0, len(self.lengths), CHUNK):
            end = min(begin + CHUNK, len(self.lengths))
            first = self.first[begin : end + 1]
            parts = np.diff(first)
            lengths = np.repeat(self.lengths[begin:end].astype(np.int64), parts)
            part = np.arange(first[-1] - first[0]) - np.repeat(first[:-1] - first[0], parts)
            parts = np.repeat(parts, parts)
            found[first[0] : first[-1]] = (part + 1) * lengths // parts - part * lengths // parts
        return found

    def locate(self, segments: Integers) -> SegmentBounds:
        """Document and nominal bounds of each segment."""
        documents = np.searchsorted(self.first, segments, side="right") - 1
        part = segments - self.first[documents]
        parts = self.first[documents + 1] - self.first[documents]
        lengths = self.lengths[documents].astype(np.int64)
        return SegmentBounds(documents, part * lengths // parts, (part + 1) * lengths // parts, lengths)


@dataclass(frozen=True)
class SegmentBounds:
    """Where segments lie: document, first and past-the-last token (nominal), tokens of the document; all [n]."""

    documents: Integers
    starts: Integers
    stops: Integers
    lengths: Integers

    @property
    def whole(self) -> NDArray[np.bool_]:
        """Segments that are a whole document; their bounds are exact."""
        return (self.starts == 0) & (self.stops == self.lengths)

    def with_margin(self) -> tuple[Integers, Integers]:
        """What has to be read to find the exact cuts: starts and stops within the document."""
        return (
            np.maximum(self.starts - SNAP_WINDOW, 0),
            np.minimum(self.stops + SNAP_WINDOW, self.lengths),
        )


def snap_segments(
    bounds: SegmentBounds,
    offsets: Integers,
    word_starts: NDArray[np.bool_],
    sentence_starts: NDArray[np.bool_],
) -> tuple[Integers, Integers]:
    """The exact bounds of segments among the tokens that were read.

    Args:
        bounds: the segments, [n].
        offsets: where the part read for each segment (`SegmentBounds.with_margin`) begins, [n + 1].
        word_starts, sentence_starts: marks of the tokens read, [T].

    Returns:
        First and past-the-last token of each segment, positions in the tokens read, [n] each.
    """
    read_from, _ = bounds.with_margin()
    document = (
        offsets[:-1] - read_from
    )  # position of the document's first token, which may not have been read
    begin, end = document + bounds.starts, document + bounds.stops
    sentences, words = np.flatnonzero(sentence_starts), np.flatnonzero(word_starts)
    last = document + bounds.lengths

    def snap(cut: Integers) -> Integers:
        low = np.maximum(cut - SNAP_WINDOW - 1, document)
        high = np.minimum(cut + SNAP_WINDOW, last)
        moved = nearest_mark(sentences, cut, low, high)
        moved = np.where(moved < 0, nearest_mark(words, cut, low, high), moved)
        return np.where((moved < 0) | (cut <= document) | (cut >= last), cut, moved)

    return snap(begin), snap(end)


def nearest_mark(marks: Integers, at: Integers, low: Integers, high: Integers) -> Integers:
    """The marked position nearest to `at` with low < position < high, -1 if there is none; ties go left.

    Args:
        marks: sorted positions.
        at, low, high: [n] each.
    """
    if not len(marks):
        return np.full(len(at), -1, dtype=np.int64)
    right_index = np.searchsorted(marks, at)
    right = marks[np.minimum(right_index, len(marks) - 1)]
    left = marks[np.maximum(right_index - 1, 0)]
    right_fits = (right >= at) & (right < high) & (right > low)
    left_fits = (left < at) & (left > low) & (left < high)
    take_left = left_fits & (~right_fits | (at - left <= right - at))
    return np.where(take_left, left, np.where(right_fits, right, -1))
