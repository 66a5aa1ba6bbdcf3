"""Entity-level precision, recall and F1: a mention counts when its boundaries and its type are exactly right.

Two readings of the same tags are always given. `conll` is what `conlleval` (Tjong Kim Sang and Buchholz, 2000) and
seqeval's default count, and what BLURB's five NER sets are scored by; `strict` admits only spans that are well formed
under the scheme (seqeval's strict mode). The two agree on the output of a constrained decoder.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from biosmith.tasks.labels import (
    Span,
    guess_prediction_scheme,
    guess_scheme,
    read_spans,
    read_spans_strictly,
)
from biosmith.tasks.metrics.counts import Counts

Tags = Sequence[Sequence[str]]


@dataclass(frozen=True)
class EntityScore:
    """Scores over all mentions (micro average) and for each type."""

    overall: Counts
    types: Mapping[str, Counts]

    @property
    def macro_f1(self) -> float:
        """Mean F1 over the types."""
        return sum(c.f1 for c in self.types.values()) / len(self.types) if self.types else 0.0

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        types = {type or "_": counts.as_dict() for type, counts in self.types.items()}
        return {**self.overall.as_dict(), "macro_f1": self.macro_f1, "types": types}


def score_tags(
    gold: Tags, predicted: Tags, *, strict: bool = False, scheme: str | None = None
) -> EntityScore:
    """Score tags sentence by sentence.

    Args:
        gold, predicted: tags of each sentence; sentence i of both has the same number of words.
        strict: count only spans that are well formed under the scheme.
        scheme: the scheme of all tags; None reads it off the gold tags, and off the predicted ones where either marks ends.

    Raises:
        ValueError: numbers of sentences or of words differ.
    """
    if len(gold) != len(predicted):
        raise ValueError(f"{len(gold)} gold sentences, {len(predicted)} predicted")
    for i, (g, p) in enumerate(zip(gold, predicted, strict=True)):
        if len(g) != len(p):
            raise ValueError(f"sentence {i + 1}: {len(g)} gold tags, {len(p)} predicted")
    if not strict:
        return score_spans(map(read_spans, gold), map(read_spans, predicted))
    of_gold = scheme or guess_scheme({tag for tags in gold for tag in tags})
    of_predicted = scheme or guess_prediction_scheme({tag for tags in predicted for tag in tags}, of_gold)
    return score_spans(
        (read_spans_strictly(tags, of_gold) for tags in gold),
        (read_spans_strictly(tags, of_predicted) for tags in predicted),
    )


def score_spans(gold: Iterable[Iterable[Span]], predicted: Iterable[Iterable[Span]]) -> EntityScore:
    """Score spans unit by unit (sentences, documents): a span is right if start, end and type are those of a gold one.

    A unit's spans may overlap and nest; two equal ones count twice and need two partners.
    """
    counts: dict[str, Counts] = {}
    for g, p in zip(gold, predicted, strict=True):
        gold_spans, predicted_spans = Counter(g), Counter(p)
        for span, n in (gold_spans & predicted_spans).items():
            counts[span.type] = counts.get(span.type, Counts()) + Counts(found=n)
        for span, n in predicted_spans.items():
            counts[span.type] = counts.get(span.type, Counts()) + Counts(predicted=n)
        for span, n in gold_spans.items():
            counts[span.type] = counts.get(span.type, Counts()) + Counts(gold=n)
    return EntityScore(sum(counts.values(), Counts()), dict(sorted(counts.items())))
