"""Sentence pairs for next sentence prediction, made by exchanging second halves.

Two segments that stand next to each other in the epoch's random order are each cut in two at a sentence start. Half of
the couples stay as they are (A1 B1, A2 B2: "is next"), half exchange their second parts (A1 B2, A2 B1: "random"). The
random second part so comes from a uniformly random other segment, every token is used once an epoch, and the size of a
batch is known before anything is read.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from biosmith.pretraining.segments import nearest_mark
from biosmith.randomness import derive_key, uniform

Integers = NDArray[np.int64]

IS_NEXT, IS_RANDOM = 0, 1  # the labels of Devlin et al. (2019) and of the exported head


class Pairs(NamedTuple):
    """First and second part of each sequence, as ranges among the tokens read, and its label; all [N].

    `dropped` tokens did not fit and were cut off.
    """

    first_start: Integers
    first_stop: Integers
    second_start: Integers
    second_stop: Integers
    labels: Integers
    dropped: int


def make_pairs(
    starts: Integers,
    stops: Integers,
    documents: Integers,
    places: Integers,
    word_starts: NDArray[np.bool_],
    sentence_starts: NDArray[np.bool_],
    limit: int,
    random_probability: float,
    seed: int,
    epoch: int,
) -> Pairs:
    """Cut couples of segments and exchange their second parts where the draw says so.

    Args:
        starts, stops: segments among the tokens read, [N] with N even; couples are (0, 1), (2, 3), ... A segment of
            fewer than two tokens cannot be cut: it is dropped, and its partner stays as it is.
        documents: the document of each; segments of one document never exchange.
        places: place of each in the epoch's order: decides what is drawn.
        word_starts, sentence_starts: marks of the tokens read, [T].
        limit: tokens of a sequence at most, special tokens not counted.
        random_probability: how often a couple exchanges.
        seed, epoch: of the run.
    """
    lengths = stops - starts
    couples = len(starts) // 2
    one, two = np.arange(couples) * 2, np.arange(couples) * 2 + 1
    can = (lengths[one] >= 2) & (lengths[two] >= 2) & (documents[one] != documents[two])
    exchange = can & (uniform(derive_key(seed, "pair", epoch), places[one] // 2) < random_probability)
    where = uniform(derive_key(seed, "cut", epoch), places)
    sentences, words = np.flatnonzero(sentence_starts), np.flatnonzero(word_starts)

    def cut(segment: Integers, low: Integers, high: Integers) -> Integers:
        """A cut near a random position in [low, high) of the segment."""
        at = starts[segment] + low + (where[segment] * np.maximum(high - low, 1)).astype(np.int64)
        return cut_near(at, starts[segment], stops[segment], sentences, words)

    middle = np.empty(len(starts), dtype=np.int64)
    middle[one] = cut(one, np.ones(couples, dtype=np.int64), lengths[one])
    # After an exchange both sequences must fit: a1 + (n2 - a2) <= limit and a2 + (n1 - a1) <= limit.
    a1 = middle[one] - starts[one]
    low = np.where(exchange, np.maximum(1, a1 + lengths[two] - limit), 1)
    high = np.where(exchange, np.minimum(lengths[two], a1 + limit - lengths[one] + 1), lengths[two])
    middle[two] = cut(two, low, high)

    partner = np.arange(len(starts))
    partner[one[exchange]], partner[two[exchange]] = two[exchange], one[exchange]
    second_start, second_stop = middle[partner], stops[partner]
    usable = lengths >= 2
    middle = np.where(usable, middle, starts)
    second_start = np.where(usable, second_start, second_stop)
    labels = np.where(partner != np.arange(len(starts)), IS_RANDOM, IS_NEXT)
    lost = int(lengths[~usable].sum())
    return _fit(Pairs(starts, middle, second_start, second_stop, labels, lost), limit)


def cut_near(
    at: Integers, starts: Integers, stops: Integers, sentences: Integers, words: Integers
) -> Integers:
    """Where to cut segments in two: the sentence start nearest to `at` that leaves both parts something; where a
    segment has none, a word start; else any token.

    Args:
        at: wanted positions among the tokens read, [n].
        starts, stops: of the segments, [n].
        sentences, words: positions of sentence starts and of word starts.
    """
    found = nearest_mark(sentences, at, starts, stops)
    found = np.where(found < 0, nearest_mark(words, at, starts, stops), found)
    return np.where(found < 0, np.clip(at, starts + 1, np.maximum(stops - 1, starts + 1)), found)


def _fit(pairs: Pairs, limit: int) -> Pairs:
    """Cut the ends of sequences that are too long: first the second part's, never below one token."""
    first = pairs.first_stop - pairs.first_start
    second = pairs.second_stop - pairs.second_start
    excess = np.maximum(first + second - limit, 0)
    from_second = np.minimum(excess, np.maximum(second - 1, 0))
    return pairs._replace(
        second_stop=pairs.second_stop - from_second,
        first_stop=pairs.first_stop - (excess - from_second),
        dropped=pairs.dropped + int(excess.sum()),
    )
