"""Tags on words and the spans they mean.

A tag is a prefix and a type: `B-Disease`, `I-Disease`, `O`; files with one type may leave it out (`B`, `I`, `O`).
Schemes: IO marks words inside a mention, BIO its beginning too, IOBES its end and mentions of one word as well
(BIOUL is IOBES under other letters: L is E, U is S). Some taggers of others name types alone (`O`, `Disease`), which is
IO.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from biosmith.errors import BadInput, UsageError

OUTSIDE = "O"
SCHEMES = {"IO": "I", "BIO": "BI", "IOBES": "BIES", "BIOUL": "BILU"}
_READ_AS = {"L": "E", "U": "S", "M": "I"}


class Span(NamedTuple):
    """A run of words, end exclusive, with the type of the mention they are ("" in files without types)."""

    start: int
    end: int
    type: str


def split_tag(tag: str) -> tuple[str, str]:
    """Prefix (one of O, B, I, E, S) and type of a tag.

    Raises:
        ValueError: the tag is neither `O` nor a known prefix, alone or with a type.
    """
    if tag == OUTSIDE:
        return OUTSIDE, ""
    prefix, dash, type = tag.partition("-")
    prefix = _READ_AS.get(prefix, prefix)
    if prefix not in ("B", "I", "E", "S") or (dash and not type):
        raise ValueError(f"{tag!r} is not a tag")
    return prefix, type


def _is_tag(label: str) -> bool:
    try:
        split_tag(label)
    except ValueError:
        return False
    return True


def read_spans(tags: Sequence[str]) -> list[Span]:
    """The spans of one sentence as `conlleval` reads them (Tjong Kim Sang and Buchholz, 2000), the default everywhere.

    Lenient: an `I` after `O`, after another type or at the beginning begins a mention all the same.
    """
    spans: list[Span] = []
    start, previous_prefix, previous_type = -1, OUTSIDE, ""
    for i, tag in enumerate(tags):
        prefix, type = split_tag(tag)
        inside = (
            start >= 0 and prefix in ("I", "E") and type == previous_type and previous_prefix in ("B", "I")
        )
        if not inside:
            if start >= 0:
                spans.append(Span(start, i, previous_type))
            start = -1 if prefix == OUTSIDE else i
        previous_prefix, previous_type = prefix, type
    if start >= 0:
        spans.append(Span(start, len(tags), previous_type))
    return spans


def read_spans_strictly(tags: Sequence[str], scheme: str = "BIO") -> list[Span]:
    """The spans that are well formed under the scheme; whatever breaks it is no span at all (seqeval's strict mode)."""
    ends = scheme in ("IOBES", "BIOUL")
    if scheme == "IO":
        return read_spans(tags)
    spans: list[Span] = []
    parsed = [split_tag(tag) for tag in tags]
    i = 0
    while i < len(parsed):
        prefix, type = parsed[i]
        if ends and prefix == "S":
            spans.append(Span(i, i + 1, type))
        if prefix != "B":
            i += 1
            continue
        end = i + 1
        while end < len(parsed) and parsed[end] == ("I", type):
            end += 1
        if not ends:
            spans.append(Span(i, end, type))
        elif end < len(parsed) and parsed[end] == ("E", type):
            end += 1
            spans.append(Span(i, end, type))
        i = end
    return spans


def write_tags(spans: Iterable[Span], length: int, scheme: str = "BIO") -> list[str]:
    """Tags of a sentence of `length` words; spans must not overlap.

    Raises:
        ValueError: two spans overlap, or one lies outside the sentence.
    """
    tags = [OUTSIDE] * length
    for span in spans:
        if not 0 <= span.start < span.end <= length or any(t != OUTSIDE for t in tags[span.start : span.end]):
            raise ValueError(f"{span} overlaps another span or does not fit {length} words")
        for i in range(span.start, span.end):
            tags[i] = _join(_prefix(i, span, scheme), span.type)
    return tags


def _prefix(i: int, span: Span, scheme: str) -> str:
    first, last = i == span.start, i == span.end - 1
    if scheme == "IO":
        return "I"
    if scheme in ("IOBES", "BIOUL"):
        single, end = ("S", "E") if scheme == "IOBES" else ("U", "L")
        if first and last:
            return single
        if last:
            return end
    return "B" if first else "I"


def _join(prefix: str, type: str) -> str:
    return f"{prefix}-{type}" if type else prefix


@dataclass(frozen=True)
class LabelSet:
    """The labels a tagger knows, in the order of its outputs. `O` is the first."""

    labels: tuple[str, ...]
    scheme: str

    @staticmethod
    def of_types(types: Iterable[str], scheme: str = "BIO") -> LabelSet:
        """All labels of the scheme for the types, in sorted order, so that the data's order changes nothing."""
        if scheme not in SCHEMES:
            raise UsageError(f"scheme {scheme!r} is not known; valid: {', '.join(SCHEMES)}")
        prefixes = SCHEMES[scheme]
        return LabelSet((OUTSIDE, *(_join(p, type) for type in sorted(set(types)) for p in prefixes)), scheme)

    @staticmethod
    def of_folder(folder: Path, labels: Sequence[str]) -> LabelSet:
        """The labels that the label map of a tagger's folder names; types without a prefix are read as `I` and the type.

        Raises:
            BadInput: they are no tags, or there is no `O`.
        """
        tags = tuple(labels)
        if not any(map(_is_tag, tags)) and OUTSIDE not in tags:
            reason = "its label map names no tags; write O, B-Disease, I-Disease, ... into the id2label of config.json"
            raise BadInput(folder, reason, value=list(labels))
        if not any(_is_tag(tag) for tag in tags if tag != OUTSIDE):
            tags = tuple(tag if tag == OUTSIDE else f"I-{tag}" for tag in tags)
        try:
            for tag in tags:
                split_tag(tag)
        except ValueError as error:
            raise BadInput(folder, f"its label map is not of tags: {error}", value=list(labels)) from error
        if OUTSIDE not in tags:
            raise BadInput(folder, "its label map has no O; it is not a tagger", value=list(labels))
        return LabelSet(tags, guess_scheme(tags))

    @property
    def types(self) -> list[str]:
        """Types of mentions, sorted."""
        return sorted({split_tag(label)[1] for label in self.labels if label != OUTSIDE})

    def index(self) -> dict[str, int]:
        """Label -> position among the outputs."""
        return {label: i for i, label in enumerate(self.labels)}

    def transitions(self) -> Transitions:
        """Which label may follow which, begin and end a sentence, under the scheme."""
        parsed = [split_tag(label) for label in self.labels]
        begins = np.array([self._may_follow((OUTSIDE, ""), b) for b in parsed])
        follows = np.array([[self._may_follow(a, b) for b in parsed] for a in parsed])
        ends = np.array([self._may_follow(a, (OUTSIDE, "")) for a in parsed])
        return Transitions(begins, follows, ends)

    def _may_follow(self, a: tuple[str, str], b: tuple[str, str]) -> bool:
        """Whether a label with prefix and type `b` may come right after `a`."""
        if self.scheme == "IO":
            return True
        continues = b[0] in ("I", "E")
        if self.scheme == "BIO":
            return not continues or (a[0] in ("B", "I") and a[1] == b[1])
        unfinished = a[0] in ("B", "I")
        return continues == unfinished and (not continues or a[1] == b[1])


class Transitions(NamedTuple):
    """Legal sequences: which labels may begin [K], follow each other [K, K] (from, to) and end [K] a sentence."""

    begins: NDArray[np.bool_]
    follows: NDArray[np.bool_]
    ends: NDArray[np.bool_]


def guess_scheme(labels: Iterable[str]) -> str:
    """The scheme that a set of labels is written in."""
    prefixes = {label.partition("-")[0] for label in labels if label != OUTSIDE}
    if prefixes & {"L", "U"}:
        return "BIOUL"
    if prefixes & {"E", "S"}:
        return "IOBES"
    return "IO" if prefixes == {"I"} else "BIO"


def guess_prediction_scheme(labels: Iterable[str], gold: str) -> str:
    """The scheme that predictions are written in: their own where one of the two marks ends, else that of the gold tags.

    Strictly read, spans in one scheme are none in the other.
    """
    own = guess_scheme(labels)
    with_ends = ("IOBES", "BIOUL")
    return own if gold != "IO" and own != "IO" and (own in with_ends or gold in with_ends) else gold
