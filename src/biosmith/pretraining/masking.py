"""Masked-language-model inputs: which tokens are hidden, and what stands in their place.

Whole words are found by the word starts that were stored with the tokens; no piece is ever looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from biosmith.errors import UsageError
from biosmith.randomness import derive_key, integers, random_bits, uniform

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

Unit = Literal["token", "word", "ngram"]


@dataclass(frozen=True)
class MaskingRules:
    """What is hidden and how.

    Attributes:
        rate: share of the tokens of a sequence, special tokens not counted, that is hidden in expectation.
        unit: what is hidden as one: a token, a whole word, or a run of one to `longest_ngram` whole words.
        replace: shares of hidden tokens that become [MASK], become a random token, and stay (Devlin et al., 2019:
            0.8, 0.1, 0.1).
        replace_per: draw the replacement for each token, as the original code does, so that a word can be part
            [MASK] and part kept, or once for each unit.
        longest_ngram: n-grams have length n with probability proportional to 1 / n (Lan et al., 2020).
        draw: "systematic" hides units as `choose_hidden` does; "with_replacement" draws round(`rate` x tokens) places
            of a sequence one by one, as `draw_hidden` does (ELECTRA's code); for single tokens only.
    """

    rate: float = 0.15
    unit: Unit = "word"
    replace: tuple[float, float, float] = (0.8, 0.1, 0.1)
    replace_per: Literal["token", "unit"] = "token"
    longest_ngram: int = 3
    draw: Literal["systematic", "with_replacement"] = "systematic"

    def __post_init__(self) -> None:
        if not 0 < self.rate < 1:
            raise UsageError(f"mask rate must lie between 0 and 1, not {self.rate}")
        if self.unit not in ("token", "word", "ngram"):
            raise UsageError(f"mask unit {self.unit!r} is unknown; valid: token, word, ngram")
        if len(self.replace) != 3 or min(self.replace) < 0 or abs(sum(self.replace) - 1) > 1e-6:
            raise UsageError(f"mask replacement shares must be three that sum to 1, not {self.replace}")
        if self.replace_per not in ("token", "unit"):
            raise UsageError(f"replacements are drawn per token or per unit, not {self.replace_per!r}")
        if self.longest_ngram < 1:
            raise UsageError(f"the longest n-gram must have at least 1 word, not {self.longest_ngram}")
        if self.draw not in ("systematic", "with_replacement"):
            raise UsageError(f"mask draw {self.draw!r} is unknown; valid: systematic, with_replacement")
        if self.draw == "with_replacement" and (self.unit != "token" or self.replace[1]):
            raise UsageError(
                "masks drawn with replacement hide single tokens and put no random ones in their place: they need "
                f"unit token and replace (x, 0, 1 - x), not {self.unit} and {self.replace}"
            )


class SequenceTokens(NamedTuple):
    """Packed sequences before masking; T tokens, N sequences.

    `places` numbers the sequences of an epoch and decides what is drawn for it.
    """

    ids: NDArray[np.int32]  # [T]
    unit_starts: Flags  # [T], True where a word begins; special tokens and segment starts as well
    special: Flags  # [T], [CLS] and [SEP]
    starts: Integers  # [N], first token of each sequence
    lengths: Integers  # [N]
    places: Integers  # [N]


class Masked(NamedTuple):
    """Masked inputs [T], the hidden positions [M] in ascending order, and how many became what."""

    ids: NDArray[np.int32]
    positions: Integers
    masked: int
    random: int
    kept: int


@dataclass(frozen=True)
class Replacements:
    """What hidden tokens may become: the id of [MASK], and the ordinary pieces of the vocabulary."""

    mask_id: int
    ordinary: NDArray[np.int32]

    @classmethod
    def of(cls, vocabulary_size: int, special_ids: list[int], mask_id: int) -> Replacements:
        """All pieces but the special ones are ordinary."""
        pieces = np.arange(vocabulary_size, dtype=np.int32)
        return cls(mask_id, pieces[~np.isin(pieces, special_ids)])


def mask_sequences(
    tokens: SequenceTokens, rules: MaskingRules, replacements: Replacements, seed: int, epoch: int
) -> Masked:
    """Hide tokens. What happens to a sequence depends on (seed, epoch, its place) and on its tokens only."""
    if rules.draw == "with_replacement":
        positions, becomes_mask = draw_hidden(tokens, rules, seed, epoch)
        ids = tokens.ids.copy()
        ids[positions[becomes_mask]] = replacements.mask_id
        masked = int(becomes_mask.sum())
        return Masked(ids, positions, masked, 0, len(positions) - masked)
    hidden, unit_of_token, first_token = choose_hidden(tokens, rules, seed, epoch)
    positions = np.flatnonzero(hidden)
    place = _counter(tokens, positions)
    counter = place
    if rules.replace_per == "unit":
        counter = _counter(tokens, first_token[unit_of_token[positions]])
    drawn = uniform(derive_key(seed, "replace", epoch), counter)
    to_mask = drawn < rules.replace[0]
    to_random = ~to_mask & (drawn < rules.replace[0] + rules.replace[1])
    ids = tokens.ids.copy()
    ids[positions[to_mask]] = replacements.mask_id
    key = derive_key(seed, "random-token", epoch)
    which = integers(key, place[to_random], len(replacements.ordinary))
    ids[positions[to_random]] = replacements.ordinary[which]
    masked, random = int(to_mask.sum()), int(to_random.sum())
    return Masked(ids, positions, masked, random, len(positions) - masked - random)


def choose_hidden(
    tokens: SequenceTokens, rules: MaskingRules, seed: int, epoch: int
) -> tuple[Flags, Integers, Integers]:
    """Which tokens are hidden [T], the unit of each token [T], and the first token of each unit [units].

    Circular systematic sampling: the units of a sequence are laid around a circle in random order, each as long as
    it has tokens, and those that begin in a randomly placed arc of `rate` of the circle are hidden. Every unit is
    hidden with probability `rate` whatever its length, and the number of hidden tokens of a sequence differs from
    `rate` x its tokens by less than one unit, so that the masked-token budget of a batch holds.
    """
    marks = _unit_marks(tokens, rules, seed, epoch)
    unit_of_token = np.cumsum(marks) - 1
    first = np.flatnonzero(marks)  # first token of each unit
    sizes = np.diff(first, append=len(marks))
    units = np.flatnonzero(~tokens.special[first])
    sequence = np.searchsorted(tokens.starts, first[units], side="right") - 1
    # One sort by (sequence, random number); the low bits carry the unit's place, so no argsort is needed.
    place_bits = max(1, len(units).bit_length())
    sequence_bits = max(1, len(tokens.starts).bit_length())
    noise = random_bits(derive_key(seed, "mask", epoch), _counter(tokens, first[units]))
    packed = sequence.astype(np.uint64) << np.uint64(64 - sequence_bits)
    packed |= (noise >> np.uint64(sequence_bits + place_bits)) << np.uint64(place_bits)
    packed |= np.arange(len(units), dtype=np.uint64)
    packed.sort()
    order = (packed & np.uint64((1 << place_bits) - 1)).astype(np.int64)
    # Positions on each sequence's circle.
    sizes_in_order = sizes[units[order]]
    ends = np.cumsum(sizes_in_order)
    begins = ends - sizes_in_order
    circle = np.bincount(sequence, weights=sizes[units], minlength=len(tokens.starts))
    base = np.cumsum(circle) - circle
    arc_start = uniform(derive_key(seed, "arc", epoch), tokens.places) * circle
    in_order = sequence[order]
    distance = begins - base[in_order] - arc_start[in_order]
    distance += np.where(distance < 0, circle[in_order], 0.0)
    chosen = units[order[distance < rules.rate * circle[in_order]]]
    hidden_unit = np.zeros(len(first), dtype=np.bool_)
    hidden_unit[chosen] = True
    return hidden_unit[unit_of_token], unit_of_token, first


def draw_hidden(tokens: SequenceTokens, rules: MaskingRules, seed: int, epoch: int) -> tuple[Integers, Flags]:
    """Hidden positions [M], ascending, and which of them become [MASK], as google-research/electra draws them.

    A sequence of n tokens, special ones counted, has max(1, round(rate x n)) draws among its other tokens, each
    uniform and blind to the others; so a place can be drawn twice and then counts once, and about one hidden token in
    fourteen fewer is hidden than the rate says. A place becomes [MASK] if one of its draws says so.
    """
    wanted = np.maximum(1, np.rint(tokens.lengths * rules.rate)).astype(np.int64)
    ordinary = np.flatnonzero(~tokens.special)
    first = np.searchsorted(ordinary, tokens.starts)
    choices = np.searchsorted(ordinary, tokens.starts + tokens.lengths) - first
    wanted = np.where(choices > 0, wanted, 0)
    sequence = np.repeat(np.arange(len(wanted)), wanted)
    number = np.arange(len(sequence)) - np.repeat(np.cumsum(wanted) - wanted, wanted)
    counter = ((tokens.places[sequence] << 20) + number).astype(np.uint64)
    drawn = (uniform(derive_key(seed, "mask", epoch), counter) * choices[sequence]).astype(np.int64)
    places = ordinary[first[sequence] + np.minimum(drawn, choices[sequence] - 1)]
    to_mask = uniform(derive_key(seed, "replace", epoch), counter) < rules.replace[0]
    hidden, becomes_mask = (np.zeros(len(tokens.ids), dtype=np.bool_) for _ in range(2))
    hidden[places] = True
    becomes_mask[places[to_mask]] = True
    positions = np.flatnonzero(hidden)
    return positions, becomes_mask[positions]


def _unit_marks(tokens: SequenceTokens, rules: MaskingRules, seed: int, epoch: int) -> Flags:
    """True at the first token of each unit, [T]; each special token is a unit of its own."""
    if rules.unit == "token":
        return np.ones(len(tokens.ids), dtype=np.bool_)
    after_special = np.zeros(len(tokens.ids), dtype=np.bool_)
    after_special[1:] = tokens.special[:-1]
    marks = tokens.unit_starts | tokens.special | after_special
    if rules.unit == "ngram" and rules.longest_ngram > 1:
        marks = _join_words(tokens, marks, after_special, rules.longest_ngram, seed, epoch)
    return marks


def _join_words(
    tokens: SequenceTokens, marks: Flags, after_special: Flags, longest: int, seed: int, epoch: int
) -> Flags:
    """Cut each run of words between special tokens into n-grams of random length, P(n) proportional to 1 / n.

    Each n-gram is hidden with the same probability, so the hidden ones have that distribution of lengths too.
    """
    first = np.flatnonzero(marks)
    weights = 1.0 / np.arange(1, longest + 1)
    limits = np.cumsum(weights / weights.sum())[:-1]
    drawn = uniform(derive_key(seed, "ngram", epoch), _counter(tokens, first))
    sizes = 1 + np.searchsorted(limits, drawn, side="right")
    # A run starts at each special token and at the word after one. Word j of a run lends the size of its n-gram j.
    run_start = np.flatnonzero(tokens.special[first] | after_special[first])
    run_length = np.diff(run_start, append=len(first))
    ends = np.cumsum(sizes)
    begins = ends - sizes
    run_of_word = np.repeat(np.arange(len(run_start)), run_length)
    within = begins - begins[run_start][run_of_word]
    inside = within < run_length[run_of_word]
    joined = np.zeros(len(marks), dtype=np.bool_)
    joined[first[run_start[run_of_word[inside]] + within[inside]]] = True
    return joined


def _counter(tokens: SequenceTokens, positions: Integers) -> NDArray[np.uint64]:
    """A number for each of these tokens, the same whatever batch its sequence is in."""
    sequence = np.searchsorted(tokens.starts, positions, side="right") - 1
    return ((tokens.places[sequence] << 20) + positions - tokens.starts[sequence]).astype(np.uint64)
