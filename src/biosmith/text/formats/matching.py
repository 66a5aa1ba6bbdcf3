"""Gold mentions beside predicted ones: what is right, and in which way the rest is wrong.

A predicted mention is right if a gold one has the same place and type. Of those that are left, the same place with
another type is a type error, the same type over some of the same characters a boundary error; what has no partner
then is spurious, and gold mentions without one are missed. Every mention has at most one partner.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

from biosmith.text.document import Mention

Status = Literal["right", "type", "boundary", "spurious", "missed"]


@dataclass(frozen=True)
class Match:
    """A predicted mention, a gold mention, or a pair of them."""

    status: Status
    predicted: Mention | None
    gold: Mention | None


def match_mentions(predicted: Sequence[Mention], gold: Sequence[Mention]) -> list[Match]:
    """Pair mentions of one document, in order of the text; exact pairs come before partial ones.

    >>> match_mentions([Mention(0, 3, "a b", "X")], [Mention(2, 3, "b", "X")])[0].status
    'boundary'
    """
    left_predicted, left_gold = list(predicted), list(gold)
    matches = []
    steps: tuple[tuple[Status, Callable[[Mention], Hashable]], ...] = (
        ("right", lambda m: (m.fragments, m.type)),
        ("type", lambda m: m.fragments),
    )
    for status, key in steps:
        waiting = defaultdict(list)
        for mention in reversed(left_gold):
            waiting[key(mention)].append(mention)
        rest = []
        for mention in left_predicted:
            if partners := waiting[key(mention)]:
                matches.append(Match(status, mention, partners.pop()))
            else:
                rest.append(mention)
        left_predicted = rest
        left_gold = [m for partners in waiting.values() for m in partners]
    left_gold.sort(key=lambda m: m.start)
    for mention in left_predicted:
        partner = _largest_overlap(mention, left_gold)
        if partner is None:
            matches.append(Match("spurious", mention, None))
        else:
            left_gold.remove(partner)
            matches.append(Match("boundary", mention, partner))
    matches += [Match("missed", None, mention) for mention in left_gold]
    return sorted(matches, key=_place)


def _place(match: Match) -> tuple[int, int]:
    mention = match.predicted or match.gold
    assert mention is not None
    return mention.start, -mention.end


def _largest_overlap(mention: Mention, others: Sequence[Mention]) -> Mention | None:
    best, most = None, 0
    for other in others:
        if other.start >= mention.end:
            break
        if other.type == mention.type and (shared := _overlap(mention, other)) > most:
            best, most = other, shared
    return best


def _overlap(a: Mention, b: Mention) -> int:
    return sum(
        max(0, min(end, other_end) - max(start, other_start))
        for start, end in a.fragments
        for other_start, other_end in b.fragments
    )
