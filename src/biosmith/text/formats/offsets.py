"""How a document counts: the unit of its offsets and where its passages lie, found by looking at its mentions.

BioC says bytes, PubTator writes code points, tools in Java and JavaScript count UTF-16 units; some files state
passage offsets that their own annotations do not follow, or count within the passage. Of all these readings the one
is taken under which most mentions are where the file says, the plain one if none is better.
"""

from __future__ import annotations

import logging
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np

from biosmith.errors import shorten
from biosmith.text.formats.mentions import agrees

Unit = Literal["auto", "codepoint", "byte", "utf16"]
Placing = Literal["stated", "apart", "within"]
LARGEST_GAP = 1_000_000  # larger gaps between the passages of a document are an error of the file, not spaces to be stored

MOVED = "passages overlap, or lie too far apart; laid out one space apart"
MISPLACED = "annotations do not count from the passages' stated offsets"
UNCOUNTED = "white space that the annotations do not count; left out"

_WHOLE_NUMBER = re.compile(r"\s*-?\d{1,18}\s*", re.ASCII)

Json = dict[str, Any]
log = logging.getLogger("biosmith")


class NotReadable(ValueError):
    """The value is no document of the format.

    Attributes:
        reason: what is wrong. Reasons are counted, so that it names no value.
        value: the value that is wrong, if one is.
    """

    def __init__(self, reason: str, value: object = None) -> None:
        super().__init__(reason if value is None else f"{reason}: {shorten(value)}")
        self.reason, self.value = reason, value


@dataclass(frozen=True)
class Counting:
    """One way to read the offsets of a document.

    Attributes:
        unit: what offsets and lengths count.
        placing: annotations count from the passages' offsets as "stated", from passages one space "apart", or
            "within" each passage.
        uncounted: white space that does not count: none, that at the "ends" of passages, or that in all "runs" of
            it beyond the first character too.
    """

    unit: Literal["codepoint", "byte", "utf16"] = "codepoint"
    placing: Placing = "stated"
    uncounted: Literal["none", "ends", "runs"] = "none"

    def text(self, text: str) -> str:
        """The text of a passage as the offsets count it."""
        if self.uncounted == "none":
            return text
        return text.strip() if self.uncounted == "ends" else " ".join(text.split())


_COUNTINGS = (
    Counting(),
    Counting("byte"),
    Counting("utf16"),
    Counting(uncounted="ends"),
    Counting(uncounted="runs"),
    Counting(placing="apart"),
    Counting(placing="within"),
    Counting(placing="apart", uncounted="ends"),
    Counting(placing="apart", uncounted="runs"),
    Counting("byte", "apart"),
    Counting("utf16", "apart"),
)


@dataclass
class _Text:
    """A passage's text, and how to get from offsets in a unit to code points."""

    text: str
    unit: str

    @cached_property
    def size(self) -> int:
        """Length in the unit."""
        return measure(self.text, self.unit)

    @cached_property
    def _starts(self) -> Any:
        codes = np.frombuffer(self.text.encode("utf-32-le", "surrogatepass"), np.uint32)
        widths = 1 + (codes > 0xFFFF) if self.unit == "utf16" else _utf8_widths(codes)
        return np.concatenate([[0], np.cumsum(widths)])

    def code_point(self, offset: int) -> int:
        """Code points before an offset; one inside a character is that character's, one outside stays outside."""
        if self.unit == "codepoint" or self.size == len(self.text) or offset < 0:
            return offset
        if offset > self.size:
            return len(self.text) + offset - self.size
        return int(np.searchsorted(self._starts, offset, side="right")) - 1


def _utf8_widths(codes: Any) -> Any:
    return 1 + (codes > 0x7F).astype(np.int64) + (codes > 0x7FF) + (codes > 0xFFFF)


def measure(text: str, unit: str) -> int:
    """Length of the text in code points, UTF-8 bytes or UTF-16 units."""
    if unit == "codepoint" or text.isascii():
        return len(text)
    if unit == "byte":
        return len(text.encode("utf-8", "surrogatepass"))
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


@dataclass
class Layout:
    """The passages of a document at code point offsets, and its annotations with the passage that holds each.

    Attributes:
        values: the passages as they were, in order of offset.
        texts, offsets: the text of each, and where it begins, in code points.
        sentences: where the sentences of each lie in it ("start-end start-end"), empty if the file has none.
        annotations: (index of the passage or None, annotation), in the order of the file.
        errors: (reason, value) of what the file has wrong.
        fragments: of each annotation, in code points of the document; (-1, -1) for what lies nowhere.
        counting: how the offsets were read.
    """

    values: Sequence[Json]
    annotations: Sequence[tuple[int | None, Json]]
    counting: Counting
    texts: list[str] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    sentences: list[str] = field(default_factory=list)
    errors: list[tuple[str, str]] = field(default_factory=list)
    fragments: list[list[tuple[int, int]]] = field(default_factory=list)
    _texts: list[_Text] = field(default_factory=list)
    _starts: list[int] = field(default_factory=list)  # where annotations think the passages begin, in units

    def __post_init__(self) -> None:
        unit = self.counting.unit
        for value in self.values:
            text, sentences = _passage_text(value, unit)
            self.sentences.append(sentences)
            self._texts.append(_Text(self.counting.text(text), unit))
        self.texts = [text.text for text in self._texts]
        stated = [_integer(value, "offset", None) for value in self.values]
        if self.counting.placing == "apart":
            stated = [None] * len(stated)
        self._lay_out(stated)
        self.fragments = [self._place(annotation, passage) for passage, annotation in self.annotations]

    def _lay_out(self, stated: Sequence[int | None]) -> None:
        units = position = 0  # ends of the passage before, in units and in code points
        gaps = 0  # spaces to be stored beyond one between two passages
        for number, (text, offset) in enumerate(zip(self._texts, stated, strict=True)):
            usual = units + (number > 0)
            if offset is None:
                offset = usual
            gap = offset - units
            if not 0 <= gap <= LARGEST_GAP - gaps:
                if not any(reason == MOVED for reason, _ in self.errors):
                    self.errors.append((MOVED, f"passage at {offset}, the one before ends at {units}"))
                gap = usual - units
            gaps += max(0, gap - (number > 0))
            self.offsets.append(position + gap)
            self._starts.append(offset)
            position, units = self.offsets[-1] + len(text.text), offset + text.size

    def _place(self, annotation: Json, passage: int | None) -> list[tuple[int, int]]:
        fragments = []
        for location in annotation.get("locations") or ():
            start = _integer(location, "offset")
            end = start + _integer(location, "length")
            own = self._holder(start, end, passage)
            last = own if own is not None and end <= self._end(own) else self._holder(end - 1, end, None)
            if own is None or last is None:
                fragments.append((-1, -1))
            else:
                fragments.append((self._point(start, own), self._point(end, last)))
        return fragments

    def _end(self, index: int) -> int:
        return self._start(index) + self._texts[index].size

    def _start(self, index: int) -> int:
        return 0 if self.counting.placing == "within" else self._starts[index]

    def _point(self, offset: int, index: int) -> int:
        return self.offsets[index] + self._texts[index].code_point(offset - self._start(index))

    def _holder(self, start: int, end: int, own: int | None) -> int | None:
        """The passage that the place is in: its own if that can be, else the first that holds its start."""
        if own is not None and self._start(own) <= start and end <= self._end(own):
            return own
        if self.counting.placing == "within":
            return None
        last = bisect_right(self._starts, start) - 1
        for index in (last, *range(len(self._texts))):
            if index >= 0 and self._start(index) <= start < self._end(index):
                return index
        return max(last, 0) if self._texts else None  # in a gap: counted on from the passage before it

    def matches(self) -> tuple[int, int]:
        """How many annotations are where the file says, and of how many."""
        whole = _joined(self.texts, self.offsets)
        checked = [
            agrees(whole, fragments, annotation["text"])
            for (_, annotation), fragments in zip(self.annotations, self.fragments, strict=True)
            if fragments and isinstance(annotation.get("text"), str)
        ]
        return sum(checked), len(checked)


def lay_out(passages: Sequence[Json], annotations: Sequence[Json], unit: Unit = "auto") -> Layout:
    """Find how a document counts, and lay its passages out.

    Args:
        passages: in the shape of BioC JSON; without offsets they lie one character apart.
        annotations: those of the document itself.
        unit: "auto" tries all; another restricts the search to it.

    Raises:
        NotReadable: an offset or a length is no whole number, a text no string.
    """
    values = list(passages)
    stated = [_integer(value, "offset", None) for value in values]
    if all(offset is not None for offset in stated):
        values.sort(key=lambda value: int(value["offset"]))  # stable: passages of one offset keep their order
    found = [(number, a) for number, value in enumerate(values) for a in _annotations_of(value)]
    placed = [*found, *((None, annotation) for annotation in annotations)]
    countings = [c for c in _COUNTINGS if unit in ("auto", c.unit)]
    best = Layout(values, placed, countings[0])
    most, of = best.matches()
    if most < of:
        for counting in countings[1:]:
            if not _can_differ(counting, countings[0], best.texts):
                continue
            layout = Layout(values, placed, counting)
            if (count := layout.matches()[0]) > most:
                best, most = layout, count
    if best.counting.unit != countings[0].unit:
        log.info("offsets are counted in %s units", best.counting.unit)
    if best.counting.placing != "stated" and any(offset is not None for offset in stated):
        best.errors = [(MISPLACED, {"apart": "one space apart", "within": "within"}[best.counting.placing])]
    if best.counting.uncounted != "none":
        best.errors.append((UNCOUNTED, {"ends": "at the ends", "runs": "in runs"}[best.counting.uncounted]))
    return best


def _can_differ(counting: Counting, plain: Counting, texts: Sequence[str]) -> bool:
    if counting.uncounted != "none" and all(counting.text(text) == text for text in texts):
        return False
    if counting.unit == plain.unit:
        return True
    widest = max((max(text, default="") for text in texts), default="")
    return widest > ("\x7f" if counting.unit == "byte" else "\uffff")


def _annotations_of(passage: Json) -> Iterator[Json]:
    for sentence in passage.get("sentences") or ():
        yield from sentence.get("annotations") or ()
    yield from passage.get("annotations") or ()


def _passage_text(value: Json, unit: str) -> tuple[str, str]:
    """The passage's text, or its sentences at their offsets; and where the sentences lie in it."""
    text = value.get("text") or ""
    sentences = value.get("sentences") or []
    for each in (value, *sentences):
        if not isinstance(each.get("text"), str | None):
            raise NotReadable("a text is not a string", each["text"])
    if not sentences:
        return text, ""
    parts: list[str] = []
    spans, position = [], 0
    units = _integer(value, "offset", _integer(sentences[0], "offset", 0))
    for sentence in sentences:
        one = sentence.get("text") or ""
        offset = _integer(sentence, "offset", units + bool(parts))
        gap = offset - units if 0 <= offset - units <= LARGEST_GAP else 1
        parts += [" " * gap, one]
        spans.append(f"{position + gap}-{position + gap + len(one)}")
        position += gap + len(one)
        units += gap + measure(one, unit)
    joined = "".join(parts)
    return text or joined, " ".join(spans) if text in ("", joined) else ""


def _integer(value: Json, key: str, default: Any = NotReadable) -> Any:
    item = value.get(key)
    if item is None and default is not NotReadable:
        return default
    if isinstance(item, int) and not isinstance(item, bool):
        return item
    if isinstance(item, str) and _WHOLE_NUMBER.fullmatch(item):
        return int(item)
    raise NotReadable(f"{key} is not a whole number", item)


def _joined(texts: Sequence[str], offsets: Sequence[int]) -> str:
    parts, position = [], 0
    for text, offset in zip(texts, offsets, strict=True):
        parts += [" " * (offset - position), text]
        position = offset + len(text)
    return "".join(parts)
