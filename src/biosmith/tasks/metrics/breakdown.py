"""What kind of errors were made: which mentions are off by their boundary, by their type, missed or made up.

A gold and a predicted mention belong together if they are equal; else if they share their span; else if they overlap.
Each is used once; of several partners the one of the same type comes first, then the one with the longest overlap.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from biosmith.tasks.labels import Span

RIGHT, TYPE, BOUNDARY, BOTH = "right", "type", "boundary", "boundary and type"
MISSED, SPURIOUS = "missed", "spurious"
KINDS = (RIGHT, TYPE, BOUNDARY, BOTH, MISSED, SPURIOUS)


class Pair(NamedTuple):
    """A gold mention, the predicted one that belongs to it, and what is wrong between them (one of `KINDS`)."""

    kind: str
    gold: Span | None
    predicted: Span | None


def pair_mentions(gold: Iterable[Span], predicted: Iterable[Span]) -> list[Pair]:
    """Pairs of one unit (a sentence, a document), in order of place; spans may overlap and nest.

    >>> [p.kind for p in pair_mentions([Span(0, 2, "Gene")], [Span(0, 1, "Gene"), Span(4, 5, "Gene")])]
    ['boundary', 'spurious']
    """
    left, right = sorted(gold), sorted(predicted)
    pairs: list[Pair] = []
    for span in list(left):
        if span in right:
            pairs.append(Pair(RIGHT, span, span))
            left.remove(span)
            right.remove(span)
    candidates = [
        (_rank(g, p), i, j)
        for i, g in enumerate(left)
        for j, p in enumerate(right)
        if g.start < p.end and p.start < g.end
    ]
    used_left: set[int] = set()
    used_right: set[int] = set()
    for _, i, j in sorted(candidates):
        if i not in used_left and j not in used_right:
            used_left.add(i)
            used_right.add(j)
            pairs.append(Pair(_kind(left[i], right[j]), left[i], right[j]))
    pairs += [Pair(MISSED, g, None) for i, g in enumerate(left) if i not in used_left]
    pairs += [Pair(SPURIOUS, None, p) for j, p in enumerate(right) if j not in used_right]
    return sorted(pairs, key=lambda pair: (pair.gold or pair.predicted or Span(0, 0, ""))[:2])


def _rank(gold: Span, predicted: Span) -> tuple[bool, bool, int]:
    same_span = gold[:2] == predicted[:2]
    overlap = min(gold.end, predicted.end) - max(gold.start, predicted.start)
    return not same_span, gold.type != predicted.type, -overlap


def _kind(gold: Span, predicted: Span) -> str:
    if gold[:2] == predicted[:2]:
        return TYPE
    return BOUNDARY if gold.type == predicted.type else BOTH


@dataclass(frozen=True)
class Confusion:
    """How often instances of each gold label (rows) were given each label (columns)."""

    labels: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]

    def as_dict(self) -> dict[str, Any]:
        """For JSON: `labels`, and `counts` as rows of gold labels."""
        return {"labels": list(self.labels), "counts": [list(row) for row in self.counts]}


def confusion(
    gold: Sequence[str], predicted: Sequence[str], labels: Sequence[str] | None = None
) -> Confusion:
    """The confusion of two sequences of labels.

    Args:
        gold, predicted: a label an instance.
        labels: their order; None sorts those that occur.

    Raises:
        ValueError: the lengths differ, or a label is not among `labels`.

    >>> confusion(["yes", "no", "no"], ["yes", "yes", "no"], ["yes", "no"]).counts
    ((1, 0), (1, 1))
    """
    if len(gold) != len(predicted):
        raise ValueError(f"{len(gold)} gold labels, {len(predicted)} predicted")
    order = tuple(sorted({*gold, *predicted}) if labels is None else labels)
    unknown = {*gold, *predicted} - set(order)
    if unknown:
        raise ValueError(f"{', '.join(sorted(unknown))}: not among the labels {', '.join(order)}")
    pairs = Counter(zip(gold, predicted, strict=True))
    return Confusion(order, tuple(tuple(pairs[g, p] for p in order) for g in order))
