"""What tells equal and similar documents: a hash of the words, and MinHash signatures of the word trigrams.

Words are runs of letters and digits, ASCII letters and what Python lower-cases in lower case, so that case,
punctuation and white space make no difference. A shingle is three words in a row; a shorter text is one shingle. The
signatures are those of the library rensa (128 slots, R-MinHash), of which the low byte of each slot is kept (b-bit
minwise hashing: Li and König, WWW 2010): 128 bytes a document. Eight slots are one band of the locality-sensitive
hashing, and as one 64-bit number also its key; 16 bands find a pair of similarity 0.8 with probability
1 - (1 - 0.8^8)^16 = 0.95, one of 0.9 with 0.9999, one of 0.5 with 0.06.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import xxhash
from numpy.typing import NDArray
from rensa import RMinHash

SLOTS = 128
SLOTS_IN_A_BAND = 8
BANDS = SLOTS // SLOTS_IN_A_BAND
SHINGLE_WORDS = 3
SEED = 1
CHARACTERS_AT_A_TIME = 1 << 19  # bounds the memory of `sign`
READ_CHARACTERS = 1 << 20  # of one document; what comes after does not enter its signature

_SPACE = 0x20
_TO_WORDS = bytes(
    b if 0x30 <= b <= 0x39 or 0x61 <= b <= 0x7A or b >= 0x80 else _SPACE for b in range(256)
)  # bytes of lower-cased UTF-8 text
_NO_WORD = re.compile(r"[^\x00-\x7f\w]+")  # dashes, quotation marks, signs and spaces beyond ASCII
_BASE = 0x9E3779B97F4A7C15  # odd, so that it has an inverse modulo 2^64
_U64 = np.uint64


@dataclass(frozen=True)
class Signatures:
    """Hashes of n documents.

    Attributes:
        content: uint64 [n], equal for documents of equal words; 0 for a document without words.
        bands: uint64 [BANDS, n], the bytes of the signatures, eight slots to a number.
    """

    content: NDArray[np.uint64]
    bands: NDArray[np.uint64]


def sign(texts: Sequence[str]) -> Signatures:
    """Content hashes and signatures of texts."""
    contents, bands = [], []
    for batch in _batches(texts):
        words, bounds = _word_hashes(batch)
        contents.append(_content_hashes(words, bounds))
        bands.append(_signatures(words, bounds))
    if not contents:
        return Signatures(np.empty(0, _U64), np.empty((BANDS, 0), _U64))
    return Signatures(np.concatenate(contents), np.concatenate(bands, axis=1))


def run_hashes(texts: Sequence[str], words: int) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Hashes of all runs of so many words, and the index of the text that each stands in.

    A text with fewer words has none.
    """
    hashes: list[NDArray[np.uint64]] = [np.empty(0, _U64)]
    owners: list[NDArray[np.int64]] = [np.empty(0, np.int64)]
    first = 0
    for batch in _batches(texts):
        found, bounds = _word_hashes(batch)
        runs = max(0, len(found) - words + 1)
        combined = np.zeros(runs, _U64)
        for place in range(words):
            combined = _mix(combined + found[place : place + runs])
        owner = np.repeat(np.arange(len(batch)), np.diff(bounds))
        within = owner[:runs] == owner[words - 1 : words - 1 + runs]
        hashes.append(combined[within])
        owners.append(owner[:runs][within] + first)
        first += len(batch)
    return np.concatenate(hashes), np.concatenate(owners)


def similarity(one: NDArray[np.uint64], other: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Estimated Jaccard similarities of signatures, column by column; uint64 [BANDS, n] each (or broadcast).

    Slots of different sets agree in their low byte by chance once in 256, for which the estimate is corrected; its
    standard error is at most 0.045, and 0.035 at 0.8.
    """
    different = np.bitwise_xor(one, other)[..., None].view(np.uint8)
    agree = 1.0 - np.count_nonzero(different, axis=(0, -1)) / SLOTS
    return (agree - 1 / 256) / (1 - 1 / 256)


def _batches(texts: Sequence[str]) -> list[list[str]]:
    batches: list[list[str]] = []
    size = 0
    for text in texts:
        text = text[:READ_CHARACTERS]
        if not batches or size + len(text) > CHARACTERS_AT_A_TIME:
            batches.append([])
            size = 0
        batches[-1].append(text)
        size += len(text)
    return batches


def _word_hashes(texts: Sequence[str]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Hashes of the words of all texts, one after another, and where each text's words begin ([n + 1]).

    The hash of a word is the polynomial of its bytes modulo 2^64, taken from running sums over the whole batch, and
    mixed.
    """
    texts = [text if text.isascii() else _NO_WORD.sub(" ", text) for text in texts]
    encoded = [text.lower().encode("utf-8", "replace").translate(_TO_WORDS) for text in texts]
    ends = np.cumsum([len(one) + 1 for one in encoded])
    data = np.frombuffer(b" ".join(encoded) + b" ", dtype=np.uint8)
    letter = data != _SPACE
    edges = np.flatnonzero(letter[1:] != letter[:-1]) + 1
    if letter[0]:
        edges = np.concatenate([[0], edges])
    starts, stops = edges[0::2], edges[1::2]
    powers, inverses = _powers(len(data))
    sums = np.zeros(len(data) + 1, dtype=_U64)
    np.cumsum(data * powers, out=sums[1:])
    words = _mix((sums[stops] - sums[starts]) * inverses[starts])
    return words, np.concatenate([[0], np.searchsorted(starts, ends)])


def _content_hashes(words: NDArray[np.uint64], bounds: NDArray[np.int64]) -> NDArray[np.uint64]:
    pairs = zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
    data = words.tobytes()
    hashes = [xxhash.xxh3_64_intdigest(data[8 * a : 8 * b]) if b > a else 0 for a, b in pairs]
    return np.array(hashes, dtype=_U64)


def _signatures(words: NDArray[np.uint64], bounds: NDArray[np.int64]) -> NDArray[np.uint64]:
    shingles, offsets = _shingles(words, bounds)
    matrix = RMinHash.digest_matrix_from_flat_token_hashes(shingles, offsets, SLOTS, SEED)
    slots = np.array(matrix.to_rows(), dtype=np.uint32).astype(np.uint8)
    return np.ascontiguousarray(np.ascontiguousarray(slots).view(_U64).T)


def _shingles(
    words: NDArray[np.uint64], bounds: NDArray[np.int64]
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Hashes of the trigrams of each text, and where each text's begin ([n + 1]).

    Two words of padding after each text make one shingle of a text of one or two words; a longer text gets none of
    padding.
    """
    counts = np.diff(bounds)
    short = np.flatnonzero(counts < SHINGLE_WORDS)
    padding = SHINGLE_WORDS - counts[short]
    places = np.repeat(bounds[1:][short], padding)
    padded = np.insert(words, places, _U64(0))
    counts = np.maximum(counts, SHINGLE_WORDS)
    first, second, third = padded[:-2], padded[1:-1], padded[2:]
    hashes = _mix(_mix(_mix(first) + second) + third)
    document = np.repeat(np.arange(len(counts)), counts)
    within = document[:-2] == document[2:]
    offsets = np.concatenate([[0], np.cumsum(counts - (SHINGLE_WORDS - 1))])
    return hashes[within], offsets.astype(_U64)


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of SplitMix64 (Steele, Lea and Flood, 2014)."""
    values = values + _U64(_BASE)
    values = (values ^ (values >> _U64(30))) * _U64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> _U64(27))) * _U64(0x94D049BB133111EB)
    return values ^ (values >> _U64(31))


def _powers(size: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Powers of the base and of its inverse, of length `size`, cut from tables of a power of two."""
    powers, inverses = _power_table(max(20, size.bit_length()))
    return powers[:size], inverses[:size]


@functools.lru_cache(maxsize=2)
def _power_table(bits: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    inverse = pow(_BASE, -1, 1 << 64)
    tables = []
    for base in (_BASE, inverse):
        factors = np.full(1 << bits, base, dtype=_U64)
        factors[0] = 1
        tables.append(np.cumprod(factors, dtype=_U64))
    return tables[0], tables[1]
