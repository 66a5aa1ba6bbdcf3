"""Documents to words, and words to the sequences that a model reads: whole chunks of documents in flat arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from biosmith.annotate.normalising import normalise
from biosmith.annotate.pieces import CutsWords
from biosmith.annotate.sequences import Places, Sequences, ragged
from biosmith.errors import BiosmithError
from biosmith.tasks.windows import farthest_from_an_edge, fitting, overlapping
from biosmith.tasks.words import split_words
from biosmith.text import sentences
from biosmith.text.document import Document

OnLong = Literal["window", "error", "truncate"]


class TooLong(BiosmithError):
    """A sentence does not fit a model, and on_long is "error"."""


@dataclass(frozen=True, slots=True)
class Words:
    """The words of documents.

    Attributes:
        texts: the words themselves [W].
        starts, ends: where each lies in its document [W].
        begins: first word of each sentence, and W: [S + 1].
        owner: document of each sentence [S].
    """

    texts: list[str]
    starts: Places
    ends: Places
    begins: Places
    owner: Places


def read_words(documents: Sequence[Document], *, plain: bool = False) -> Words:
    """Sentences and words of documents; no sentence spans two passages.

    Args:
        documents: to read.
        plain: read `normalising.normalise` of the text; places are those of the text itself.
    """
    texts: list[str] = []
    spans: list[tuple[int, int]] = []
    counts: list[int] = []
    of_document: list[int] = []
    for document in documents:
        before = len(counts)
        for offset, text in [(p.offset, p.text) for p in document.passages] or [(0, document.text)]:
            normalised = normalise(text) if plain else None
            text = text if normalised is None else normalised.text
            first = len(spans)
            for start, end in sentences.split(text):
                words = split_words(text, start, end)
                counts.append(len(words))
                spans += words
            texts += [text[a:b] for a, b in spans[first:]]
            if normalised is not None:
                starts, ends = normalised.starts.tolist(), normalised.ends.tolist()
                spans[first:] = [(starts[a], ends[b - 1]) for a, b in spans[first:]]
            if offset:
                spans[first:] = [(a + offset, b + offset) for a, b in spans[first:]]
        of_document.append(len(counts) - before)
    places = np.fromiter(chain.from_iterable(spans), np.int64, 2 * len(spans))
    return Words(
        texts,
        places[0::2],
        places[1::2],
        np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]).astype(np.int64),
        np.repeat(np.arange(len(documents)), of_document),
    )


@dataclass(frozen=True, slots=True)
class Reading:
    """Words as one model reads them.

    Attributes:
        sequences: for the engine.
        words: the word of each pick that counts, ascending.
        rows: which picks count: of those of overlapping windows the one farthest from an edge.
        windows: sequences; a sentence that fits is one.
        truncated: words that are not read at all.
        clipped: words with more pieces than the model reads, of which only the beginning is read.
        tokens, unknown: pieces read, special tokens not counted; unknown ones among all pieces.
    """

    sequences: Sequences
    words: Places
    rows: Places
    windows: int
    truncated: int
    clipped: int
    tokens: int
    unknown: int


def lay_out(words: Words, cutter: CutsWords, max_length: int, stride: int, on_long: OnLong) -> Reading:
    """The sequences of a chunk of documents.

    Args:
        words: of the chunk.
        cutter: the model's tokenizer.
        max_length: tokens that the model reads, special ones included.
        stride: pieces that overlapping windows share; at least those of the longest mention.
        on_long: what becomes of sentences that do not fit.

    Raises:
        TooLong: there is one, and `on_long` is "error".
    """
    ids, pieces = cutter.cut(words.texts)
    room = max_length - len(cutter.before) - len(cutter.after)
    sizes = np.diff(pieces)
    windows = _windows(words, pieces, sizes, room, min(stride, room // 2), on_long)
    read = np.minimum(pieces[windows.ends] - pieces[windows.starts], room)
    filled = read > 0
    starts, ends, read = windows.starts[filled], windows.ends[filled], read[filled]
    begins = np.zeros(len(starts) + 1, np.int64)
    np.cumsum(read + len(cutter.before) + len(cutter.after), out=begins[1:])
    laid = np.empty(int(begins[-1]), np.int32)
    for i, token in enumerate(cutter.before.tolist()):
        laid[begins[:-1] + i] = token
    for i, token in enumerate(cutter.after.tolist()):
        laid[begins[1:] - len(cutter.after) + i] = token
    body = ragged(begins[:-1] + len(cutter.before), read)
    laid[body] = ids[ragged(pieces[starts], read)]
    word, kept = ragged(starts, ends - starts), windows.kept
    place = pieces[word] + np.repeat(begins[:-1] + len(cutter.before) - pieces[starts], ends - starts)
    # Words that the tokenizer leaves nothing of (control characters) are not picked.
    there = sizes[word] > 0
    if kept is not None:
        kept = kept[np.repeat(filled, windows.ends - windows.starts)][there]
    word, place = word[there], place[there]
    rows = np.arange(len(word)) if kept is None else np.flatnonzero(kept)
    if kept is not None:
        word = word[kept]
    return Reading(
        Sequences(laid, begins, place),
        word,
        rows,
        len(windows.starts),
        windows.truncated,
        int(np.count_nonzero(sizes > room)),
        len(body),
        int(np.count_nonzero(ids == cutter.unknown)),
    )


@dataclass(frozen=True, slots=True)
class _Windows:
    """Runs of words [starts, ends); `kept` says which of their words count [words of all], None: all of them."""

    starts: Places
    ends: Places
    kept: NDArray[np.bool_] | None
    truncated: int


def _windows(
    words: Words, pieces: Places, sizes: Places, room: int, stride: int, on_long: OnLong
) -> _Windows:
    starts, ends = words.begins[:-1], words.begins[1:]
    long = np.flatnonzero(pieces[ends] - pieces[starts] > room)
    if not len(long):
        return _Windows(starts, ends, None, 0)
    if on_long == "error":
        raise TooLong(
            f"a sentence of {int((pieces[ends] - pieces[starts])[long[0]]):,} pieces does not fit the {room:,} that "
            "the model reads; read it in windows with --on-long window"
        )
    all_starts, all_ends, kept, truncated, done = [], [], [], 0, 0
    for sentence in long.tolist():
        first, end = int(starts[sentence]), int(ends[sentence])
        own = sizes[first:end]
        found = [(0, fitting(own, room))] if on_long == "truncate" else overlapping(own, room, stride)
        chosen = farthest_from_an_edge(found, end - first)
        all_starts += [starts[done:sentence], first + np.array([a for a, _ in found])]
        all_ends += [ends[done:sentence], first + np.array([b for _, b in found])]
        kept.append(np.ones(first - int(starts[done]), bool))
        kept += [chosen[a:b] == number for number, (a, b) in enumerate(found)]
        truncated += end - first - found[-1][1]
        done = sentence + 1
    all_starts.append(starts[done:])
    all_ends.append(ends[done:])
    kept.append(np.ones(int(ends[-1]) - (int(starts[done]) if done < len(starts) else int(ends[-1])), bool))
    return _Windows(np.concatenate(all_starts), np.concatenate(all_ends), np.concatenate(kept), truncated)
