"""Errors of a tagger, sorted: by kind, by length of the mention, by whether training saw it, by abbreviation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from biosmith.tasks.labels import Span, read_spans
from biosmith.tasks.metrics.breakdown import KINDS, RIGHT, Confusion, confusion, pair_mentions
from biosmith.tasks.metrics.counts import Counts
from biosmith.tasks.tagged import TaggedSentence

LENGTHS = ("1", "2", "3", "4", "5+")
NOTHING = "(nothing)"


@dataclass(frozen=True)
class MentionError:
    """One error, with the words to show it in.

    Attributes:
        kind: type, boundary, boundary and type, missed or spurious.
        sentence: position in the split.
        words: of the sentence.
        gold, predicted: spans of words with their types; None where there is none.
    """

    kind: str
    sentence: int
    words: tuple[str, ...]
    gold: Span | None
    predicted: Span | None

    def as_dict(self) -> dict[str, Any]:
        """For JSON: spans as `{start, end, type, text}`."""
        sides = {"gold": self.gold, "predicted": self.predicted}
        shown = {
            side: None
            if span is None
            else {**span._asdict(), "text": " ".join(self.words[span.start : span.end])}
            for side, span in sides.items()
        }
        return {"kind": self.kind, "sentence": self.sentence, "words": list(self.words), **shown}


@dataclass(frozen=True)
class MentionAnalysis:
    """What is right and wrong in the mentions of a split.

    Attributes:
        kinds: kind -> how many; `right` too.
        types: gold types against predicted ones; `(nothing)` where a side has no mention.
        by_length: words of the mention ("1" to "5+") -> counts.
        by_seen: "seen" if training has a mention of the same letters, else "unseen" -> counts.
        by_abbreviation: "abbreviation" or "other" -> counts.
        errors: all that is not right, in order.
    """

    kinds: Mapping[str, int]
    types: Confusion
    by_length: Mapping[str, Counts]
    by_seen: Mapping[str, Counts]
    by_abbreviation: Mapping[str, Counts]
    errors: tuple[MentionError, ...]

    def as_dict(self, examples: int = 20) -> dict[str, Any]:
        """For JSON; `errors` holds at most `examples` of each kind."""
        shown: Counter[str] = Counter()
        kept = []
        for error in self.errors:
            shown[error.kind] += 1
            if shown[error.kind] <= examples:
                kept.append(error.as_dict())
        tables = {name: getattr(self, name) for name in ("by_length", "by_seen", "by_abbreviation")}
        return {
            "kinds": dict(self.kinds),
            "types": self.types.as_dict(),
            **{name: {key: c.as_dict() for key, c in table.items()} for name, table in tables.items()},
            "errors": kept,
        }


def analyse_mentions(
    gold: Sequence[TaggedSentence],
    predicted: Sequence[Sequence[str]],
    training: Iterable[TaggedSentence] = (),
) -> MentionAnalysis:
    """Sort the errors of a tagger.

    Precision and recall of a row are over the predicted and the gold mentions that belong to it: a predicted mention of
    three words counts in the row of three words, whatever the gold one has.

    Args:
        gold: sentences of the split that was predicted.
        predicted: tags of each sentence.
        training: sentences that the tagger was trained on; without them every mention is unseen.

    Raises:
        ValueError: numbers of sentences or of words differ.
    """
    if len(gold) != len(predicted):
        raise ValueError(f"{len(gold)} gold sentences, {len(predicted)} predicted")
    seen = {_letters(s.words, span) for s in training for span in read_spans(s.tags)}
    kinds: Counter[str] = Counter(dict.fromkeys(KINDS, 0))
    of_types: list[tuple[str, str]] = []
    rows: dict[str, dict[str, Counts]] = {"length": {}, "seen": {}, "abbreviation": {}}
    errors: list[MentionError] = []
    for number, (sentence, tags) in enumerate(zip(gold, predicted, strict=True)):
        if len(tags) != len(sentence.words):
            raise ValueError(
                f"sentence {number + 1}: {len(sentence.words)} words, {len(tags)} predicted tags"
            )
        for kind, of_gold, found in pair_mentions(read_spans(sentence.tags), read_spans(tags)):
            kinds[kind] += 1
            of_types.append((_type(of_gold), _type(found)))
            if kind != RIGHT:
                errors.append(MentionError(kind, number, sentence.words, of_gold, found))
            for span, side in ((of_gold, Counts(gold=1)), (found, Counts(predicted=1))):
                if span is not None:
                    _count(rows, sentence.words, span, seen, side)
            if kind == RIGHT and of_gold is not None:
                _count(rows, sentence.words, of_gold, seen, Counts(found=1))
    labels = [*sorted({t for pair in of_types for t in pair} - {NOTHING}), NOTHING]
    table = confusion([g for g, _ in of_types], [p for _, p in of_types], labels)
    return MentionAnalysis(
        kinds,
        table,
        _ordered(rows["length"], LENGTHS),
        _ordered(rows["seen"], ("seen", "unseen")),
        _ordered(rows["abbreviation"], ("abbreviation", "other")),
        tuple(errors),
    )


def is_abbreviation(words: Sequence[str]) -> bool:
    """Whether a mention looks like a short form: two to ten characters, of its letters at least two and at least half
    in upper case (after the conditions of Schwartz and Hearst, 2003).

    >>> is_abbreviation(["COPD"]), is_abbreviation(["IL", "-", "2"]), is_abbreviation(["gout"])
    (True, True, False)
    """
    text = "".join(words)
    letters = [c for c in text if c.isalpha()]
    capitals = sum(c.isupper() for c in letters)
    return 2 <= len(text) <= 10 and capitals >= 2 and 2 * capitals >= len(letters)


def _count(
    rows: dict[str, dict[str, Counts]], words: Sequence[str], span: Span, seen: set[str], counts: Counts
) -> None:
    inside = words[span.start : span.end]
    keys = {
        "length": LENGTHS[min(len(inside), 5) - 1],
        "seen": "seen" if _letters(words, span) in seen else "unseen",
        "abbreviation": "abbreviation" if is_abbreviation(inside) else "other",
    }
    for table, key in keys.items():
        rows[table][key] = rows[table].get(key, Counts()) + counts


def _ordered(table: Mapping[str, Counts], keys: Sequence[str]) -> dict[str, Counts]:
    return {key: table.get(key, Counts()) for key in keys}


def _letters(words: Sequence[str], span: Span) -> str:
    return " ".join(words[span.start : span.end]).casefold()


def _type(span: Span | None) -> str:
    return NOTHING if span is None else span.type or "_"
