"""Sections, paragraphs, lists and captions of a JATS article as passages; the rules are in `jats.py`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from lxml.etree import _Element as Element

from biosmith.text.citations import MARK, is_number_mark, remove_marks
from biosmith.text.document import Passage
from biosmith.text.markup import Special, clean, gather, gather_child, local_name, text_of

_SECTIONS = frozenset(
    [
        "sec",
        "app",
        "ack",
        "notes",
        "boxed-text",
        "glossary",
        "bio",
        "taxon-treatment",
        "treatment-sec",
        "fn-group",
    ]
)
_CAPTIONED = {
    "fig": "fig_caption",
    "table-wrap": "table_caption",
    "supplementary-material": "supplementary_caption",
    "media": "supplementary_caption",
    "chem-struct-wrap": "fig_caption",
}
_GROUPS = {"fig-group": "fig_caption", "table-wrap-group": "table_caption"}
# Begin a passage of their own, in the middle of a paragraph as well.
_BLOCKS = frozenset(
    [
        "p",
        "sec",
        "list",
        "list-item",
        "def-list",
        "def-item",
        "disp-quote",
        "verse-group",
        "verse-line",
        "speech",
        "statement",
        "array",
        "boxed-text",
        "fig-group",
        "table-wrap-group",
        "app-group",
        "disp-formula-group",
        "caption",
        "table-wrap-foot",
        "attrib",
        "title",
        "fn-group",
        "ack",
        "app",
        "notes",
        "glossary",
        "preformat",
        "supplement",
        "body",
        "nomenclature",
        "taxon-treatment",
        "treatment-meta",
        "treatment-sec",
    ]
)
# Lifted out of a paragraph to its end.
_FLOATS = frozenset((*_CAPTIONED, "fn"))
_IGNORED = frozenset(
    [
        "label",
        "object-id",
        "ref-list",
        "ref",
        "graphic",
        "alt-text",
        "long-desc",
        "permissions",
        "sec-meta",
        "table",
        "index-term",
        "fn-type",
        "kwd-group",
        "tgroup",
        "table-wrap-alternatives",
        "self-uri",
    ]
)
_FORMULAS = ("disp-formula", "chem-struct")  # stand by themselves, or in a line of text
_FOOTNOTES = {"fn": "footnote", "table-wrap-foot": "table_footnote"}

_FOOTNOTE_MARKS = frozenset(("fn", "table-fn", "author-notes", "aff", "corresp"))
_NUMBERED_NOTE = re.compile(r"[A-Z][a-z]{3}")  # a word, and no symbol of an element
_ONLY_DOI = re.compile(r"(?:DOI:?\s*)?(?:https?://(?:dx\.)?doi\.org/)\S+", re.IGNORECASE)


@dataclass(frozen=True)
class Place:
    """Where in the article the reader is: the kind of its paragraphs, and the headings above them."""

    kind: str
    label: str = ""
    headings: tuple[str, ...] = ()
    infons: Mapping[str, str] = field(default_factory=dict)

    def under(self, heading: str) -> Place:
        """The place below one more heading."""
        return replace(self, label=heading, headings=(*self.headings, heading)) if heading else self


def inline_text(element: Element) -> str:
    """The text of an element, without citation marks and whatever belongs outside the line."""
    return remove_marks(text_of(element, _SPECIAL))


class BlockReader:
    """Collects the passages of a part of an article, in order."""

    def __init__(self) -> None:
        self._passages: list[Passage] = []

    def read(self, element: Element, place: Place) -> list[Passage]:
        """The passages of the element, a section or anything that holds sections and paragraphs."""
        self._section(element, place)
        return self._passages

    def _section(self, element: Element, place: Place) -> None:
        heading = ""
        for child in element:
            name = local_name(child)
            if name == "title":
                heading = inline_text(child)
            elif name == "caption":  # of a boxed text
                heading = next((inline_text(c) for c in child if local_name(c) == "title"), heading)
            if name in ("title", "caption"):
                break
        self._flow(element, place.under(heading), skip=("title",))

    def _flow(self, element: Element, place: Place, skip: tuple[str, ...] = ()) -> None:
        """The text of an element up to each block in it, the blocks, and what is lifted out of the text."""
        parts = [element.text] if element.text else []
        floats: list[Element] = []
        mark = _mark_of_footnote(element) if place.kind in _FOOTNOTES.values() else None
        for child in element:
            name = local_name(child)
            if child is mark:
                pass
            elif name in _FLOATS:
                floats.append(child)
            elif name in _BLOCKS or name in _SECTIONS:
                self._flush(parts, place, floats)
                if name not in skip:
                    self._block(child, name, place)
            elif name == "alternatives" and any(local_name(c) in ("table", "graphic") for c in child):
                pass
            elif name not in _IGNORED and not self._is_container(child, name):
                if name in _FORMULAS and not "".join(parts).strip() and _ends_text(child):
                    self._emit(inline_text(child), replace(place, kind="formula"))
                    continue
                gather_child(child, parts, _SPECIAL)
                continue
            elif name not in _IGNORED:
                self._flush(parts, place, floats)
                self._section(child, place)
            if child.tail:
                parts.append(child.tail)
        self._flush(parts, place, floats)

    def _flush(self, parts: list[str], place: Place, floats: list[Element]) -> None:
        text = "".join(parts)
        parts.clear()
        if text and not text.isspace():
            self._emit(remove_marks(clean(text)), place)
        lifted = floats.copy()
        floats.clear()
        for element in lifted:
            self._float(element, local_name(element), place)

    def _block(self, element: Element, name: str, place: Place) -> None:
        if name in _SECTIONS:
            inside = place
            if name == "app":
                inside = replace(place, kind="paragraph", infons={**place.infons, "part": "appendix"})
            elif name == "fn-group":
                inside = replace(place, kind="footnote")
            self._section(element, inside)
        elif name == "list-item":
            kind = "list_item" if place.kind == "paragraph" else place.kind
            self._flow(element, replace(place, kind=kind))
        elif name == "def-item":
            term = " ".join(inline_text(c) for c in element if local_name(c) == "term")
            meaning = " ".join(inline_text(c) for c in element if local_name(c) == "def")
            self._emit(f"{term}: {meaning}" if term and meaning else term or meaning, place)
        elif name in _FOOTNOTES:
            self._flow(element, replace(place, kind=_FOOTNOTES[name]))
        elif name == "title":
            self._emit(inline_text(element), place)
        elif name == "caption" and _is_in_section(element):
            self._flow(element, place, skip=("title",))  # of a boxed text: its title is the heading
        elif name in _GROUPS:
            self._flow(element, replace(place, kind=_GROUPS[name], label=_label_of(element)))
        else:
            self._flow(element, place)

    def _float(self, element: Element, name: str, place: Place) -> None:
        if name == "fn":
            kind = place.kind if place.kind in ("table_footnote", "back_matter") else "footnote"
            self._flow(element, replace(place, kind=kind))
            return
        self._flow(element, replace(place, kind=_CAPTIONED[name], label=_label_of(element)))

    def _emit(self, text: str, place: Place) -> None:
        if not text or _ONLY_DOI.fullmatch(text):
            return
        infons = dict(place.infons)
        if len(place.headings) > 1 or (place.headings and place.label != place.headings[-1]):
            infons["section"] = " > ".join(place.headings)
        self._passages.append(Passage(place.kind, text, label=place.label, infons=infons))

    @staticmethod
    def _is_container(element: Element, name: str) -> bool:
        """Whether an element that is not known holds paragraphs."""
        return (
            bool(name)
            and name not in _INLINE_LIKE
            and next(element.iterdescendants("{*}p", "{*}sec"), None) is not None
        )


_INLINE_LIKE = frozenset(("disp-formula", "inline-formula", "xref", "named-content", "styled-content"))


def _is_in_section(element: Element) -> bool:
    parent = element.getparent()
    return parent is not None and local_name(parent) in _SECTIONS


def _label_of(element: Element) -> str:
    return next((inline_text(child) for child in element if local_name(child) == "label"), "")


def _ends_text(element: Element) -> bool:
    """Whether no text follows an element before the next block, or in all that it stands in."""
    after = element.getnext()
    if not element.tail or after is None:
        return not (element.tail or "").strip()
    name = local_name(after)
    return element.tail.isspace() and any(name in names for names in (_BLOCKS, _SECTIONS, _FLOATS, _FORMULAS))


def _mark_of_footnote(paragraph: Element) -> Element | None:
    """The raised letter, sign or number that a footnote begins with ("aIncludes ..."); isotopes (13C) are none."""
    first = next(iter(paragraph), None)
    if first is None or local_name(first) != "sup" or (paragraph.text or "").strip():
        return None
    mark, tail = "".join(map(str, first.itertext())).strip(), (first.tail or "").lstrip()
    begins = _NUMBERED_NOTE.match(tail) is not None if any(c.isdigit() for c in mark) else tail[:1].isalpha()
    return first if 0 < len(mark) <= 2 and begins else None


def _gather_reference(element: Element, parts: list[str]) -> None:
    """A cross-reference: a mark made of numbers or symbols only is left out, anything else is text."""
    inner: list[str] = []
    gather(element, inner, _SPECIAL)
    text = "".join(inner)
    kind = element.get("ref-type", "")
    bare = text.strip().lstrip("^")
    if (kind == "bibr" and is_number_mark(bare)) or (kind in _FOOTNOTE_MARKS and 0 < len(bare) <= 2):
        parts.append(MARK)
    elif text:
        parts.append(text)


def _leave_out(element: Element, parts: list[str]) -> None:
    """A footnote or the like inside a title: not part of the line."""


_SPECIAL: Special = {"xref": _gather_reference, "fn": _leave_out, "fn-group": _leave_out, "label": _leave_out}
