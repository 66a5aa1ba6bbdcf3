"""Segments cut in two: for sentence-order prediction (Lan et al., 2020, ALBERT, section 3.1), which exchanges the parts
of half of them, and for models that see two segments of running text without being asked about them (ELECTRA).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from biosmith.errors import UsageError
from biosmith.pretraining.pairs import Pairs, cut_near
from biosmith.randomness import derive_key, uniform

Integers = NDArray[np.int64]

IN_ORDER, EXCHANGED = 0, 1  # the labels of ALBERT's code and of the exported head


@dataclass(frozen=True)
class OrderRules:
    """How a segment becomes two.

    Attributes:
        swap_probability: how often the parts are exchanged; None never does, and gives no labels to learn from.
        second_probability: how often a segment is cut at all.
        cut: "anywhere" at a sentence start near a random place, as ALBERT cuts; "middle" near half of the longest
            sequence, so that a shorter segment stays whole, as ELECTRA fills its first segment.
    """

    swap_probability: float | None = 0.5
    second_probability: float = 1.0
    cut: Literal["anywhere", "middle"] = "anywhere"

    def __post_init__(self) -> None:
        for name in ("swap_probability", "second_probability"):
            share = getattr(self, name)
            if share is not None and not 0 <= share <= 1:
                raise UsageError(f"{name} must lie between 0 and 1, not {share}")

    @property
    def has_labels(self) -> bool:
        """Whether the order is something to be learnt."""
        return self.swap_probability is not None


def make_ordered_pairs(
    starts: Integers,
    stops: Integers,
    places: Integers,
    word_starts: NDArray[np.bool_],
    sentence_starts: NDArray[np.bool_],
    limit: int,
    rules: OrderRules,
    seed: int,
    epoch: int,
) -> Pairs:
    """Cut each segment in two at a sentence start and exchange the parts where the draw says so.

    A segment of one token cannot be cut: with labels it is dropped, without it stays whole. One that stays whole has
    an empty second part.

    Args:
        starts, stops: segments among the tokens read, [N].
        places: place of each in the epoch's order: decides what is drawn.
        word_starts, sentence_starts: marks of the tokens read, [T].
        limit: tokens of a sequence at most, special tokens not counted.
        rules: see there.
        seed, epoch: of the run.
    """
    fitted = np.minimum(stops, starts + limit)
    lengths = fitted - starts
    if rules.cut == "anywhere":
        wanted = 1 + (uniform(derive_key(seed, "cut", epoch), places) * (lengths - 1)).astype(np.int64)
    else:
        wanted = np.full(len(starts), limit // 2)
    sentences, words = np.flatnonzero(sentence_starts), np.flatnonzero(word_starts)
    middle = cut_near(starts + wanted, starts, fitted, sentences, words)
    is_cut = (lengths >= 2) & (wanted < lengths)
    if rules.second_probability < 1:
        is_cut &= uniform(derive_key(seed, "second", epoch), places) < rules.second_probability
    middle = np.where(is_cut, middle, fitted)
    if rules.swap_probability is None:
        lost = int((stops - fitted).sum())
        return Pairs(starts, middle, middle, fitted, np.zeros(len(starts), dtype=np.int64), lost)
    fitted = np.where(is_cut, fitted, starts)  # what cannot be cut has no order
    middle = np.minimum(middle, fitted)
    lost = int((stops - fitted).sum())
    swap = uniform(derive_key(seed, "order", epoch), places) < rules.swap_probability
    return Pairs(
        np.where(swap, middle, starts),
        np.where(swap, fitted, middle),
        np.where(swap, starts, middle),
        np.where(swap, middle, fitted),
        np.where(swap, EXCHANGED, IN_ORDER),
        lost,
    )
