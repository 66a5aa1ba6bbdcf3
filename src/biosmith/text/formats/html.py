"""One self-contained HTML page of annotated documents: to look at, to send around, not to be read back.

Mentions are drawn inside the text in the colour of their type and with its name, so that the page can be read without
colour, in light and dark, and printed. Nested mentions lie in each other, one that crosses another goes on as a second
piece, the parts of a discontinuous one have dashed borders; all parts light up together. Pointing at a mention shows
its score and identifiers. The page filters by type, score and words. With gold documents it shows what was found right
(✓), missed (−), found without reason (+), found with other boundaries (↔) or another type (~), and counts them.

Everything from the documents is escaped; control characters are drawn as their pictures, controls of the writing
direction as ⇄. The page loads nothing.
"""

from __future__ import annotations

import html
import math
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

from biosmith.errors import UsageError, shorten
from biosmith.text import files
from biosmith.text.document import Document, Mention, Passage
from biosmith.text.formats.matching import Match, Status, match_mentions
from biosmith.text.formats.report import WriteReport

NAME = "html"
SUFFIXES = (".html", ".htm")

# Hues for what most pages show, so that a type has the same colour on all of them; others take the next free one.
_HUES = {
    "disease": 18,
    "phenotyp": 18,
    "chemical": 145,
    "drug": 145,
    "gene": 262,
    "protein": 262,
    "species": 212,
    "organism": 212,
    "variant": 325,
    "mutation": 325,
    "cellline": 180,
    "cell_line": 180,
    "cell": 195,
    "anatomy": 48,
    "tissue": 48,
    "dna": 290,
    "rna": 345,
}
_FREE_HUES = (230, 85, 35, 165, 305, 60, 0, 120, 245, 200, 280, 100)
_SIGNS: Mapping[Status, str] = {"right": "✓", "type": "~", "boundary": "↔", "spurious": "+", "missed": "−"}
STATUSES: Mapping[Status, str] = {
    "right": "right",
    "type": "another type",
    "boundary": "other boundaries",
    "spurious": "spurious",
    "missed": "missed",
}
_LONGEST_LABEL = 18  # of a type inside the text; the legend and the tip have it in full
# Control characters as their pictures; what would turn the direction of the rest of the page as one sign.
_PICTURES = {code: 0x2400 + code for code in range(32) if code not in (9, 10)} | {127: 0x2421}
_PICTURES |= dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A)), 0x21C4)


@dataclass
class PageReport(WriteReport):
    """What is on a page.

    Attributes:
        statuses: how many mentions are right, missed, ... where there are gold documents.
        uncompared: documents without a gold document of the same id and text.
        absent: gold documents of an id that no document has; what they hold is missed, and not counted.
    """

    statuses: Counter[Status] = field(default_factory=Counter)
    uncompared: int = 0
    absent: int = 0

    @property
    def gaps(self) -> list[str]:
        """What the scores do not cover, in words."""
        told = (
            (self.uncompared, "document", "without gold of the same id and text"),
            (self.absent, "gold document", "not here"),
        )
        return [f"{count(number, name)} {how}" for number, name, how in told if number]


def render(
    documents: Document | Iterable[Document],
    gold: Document | Iterable[Document] | None = None,
    title: str = "",
) -> str:
    """The page as text.

    Args:
        documents: one document or several.
        gold: the same documents with gold mentions, paired by id (in order, where an id comes several times); those
            whose text differs, and documents without a partner, are shown without comparison.
        title: heading of the page; by default what is on it.

    Raises:
        UsageError: what is given are no documents.
    """
    expected = None if gold is None else _documents(gold)
    return "".join(_page(_documents(documents), expected, title, PageReport()))


def _documents(given: Document | Iterable[Document]) -> Iterator[Document]:
    """One document or several. Raises `UsageError` for anything else, such as a text."""
    if isinstance(given, Document):
        yield given
        return
    for document in given if isinstance(given, Iterable) and not isinstance(given, str) else (given,):
        if not isinstance(document, Document):
            raise UsageError(
                f"render takes a document or several (see `biosmith.read`), not {shorten(document)}"
            )
        yield document


def write(
    documents: Iterable[Document], path: Path, gold: Iterable[Document] | None = None, title: str = ""
) -> PageReport:
    """Write the page, document by document, `gold` as in `render`; infons and names are not shown."""
    report = PageReport()
    with files.create(path) as stream:
        for part in _page(documents, gold, title, report):
            stream.write(part.encode("utf-8", "replace"))
    return report


@dataclass
class _Shown:
    """What the page has shown so far: for the legend, which comes last in the file and first on the page."""

    types: Counter[str] = field(default_factory=Counter)
    statuses: Counter[Status] = field(default_factory=Counter)
    hues: dict[str, int] = field(default_factory=dict)
    scores: bool = False

    def name(self, type: str) -> str:
        """The class of a type; a hue is chosen when a type is first seen."""
        if type not in self.hues:
            words = type.lower().replace(" ", "_")
            hue = next((hue for word, hue in _HUES.items() if word in words), None)
            if hue is None or hue in self.hues.values():
                free = [hue for hue in _FREE_HUES if hue not in self.hues.values()] or _FREE_HUES
                hue = free[len(self.hues) % len(free)]
            self.hues[type] = hue
        return f"t{list(self.hues).index(type)}"


@dataclass
class _Drawn:
    """A mention as it is drawn."""

    mention: Mention
    name: str  # the same for all its pieces
    classes: str
    label: str
    note: str = ""


def _page(
    documents: Iterable[Document],
    gold: Iterable[Document] | None,
    title: str,
    report: PageReport,
) -> Iterator[str]:
    folder = resources.files("biosmith.text.formats")
    style, script = ((folder / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    yield (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_escape(title or 'Annotated documents')}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n"
    )
    partners: dict[str, deque[Document]] = defaultdict(deque)
    for document in gold or ():
        partners[document.id].append(document)
    shown = _Shown()
    for document in documents:
        waiting = partners.get(document.id)
        partner = waiting.popleft() if waiting else None
        if partner is not None and partner.text != document.text:
            partner = None
        yield _document(document, partner, shown)
        report.add(document)
        report.uncompared += gold is not None and partner is None
    report.statuses = shown.statuses
    report.absent = sum(map(len, partners.values()))
    if not report.documents:
        yield '<p class="none">No documents.</p>\n'
    heading = title or f"{count(report.documents, 'document')}, {count(report.mentions, 'mention')}"
    yield "</main>\n" + _legend(shown, None if gold is None else report.gaps)
    yield f'<header><h1>{_escape(heading)}</h1><button id="theme" type="button">light / dark</button></header>\n'
    yield f'<div id="tip" role="tooltip" hidden></div>\n<script>\n{script}</script>\n</body>\n</html>\n'


def count(number: int, name: str) -> str:
    """`1 mention`, `2 mentions`."""
    return f"{number:,} {name}{'s' * (number != 1)}"


def _legend(shown: _Shown, gaps: Sequence[str] | None) -> str:
    """The chips and tools; `gaps` are what scores do not cover, None where nothing is compared."""
    hues = "".join(f".t{i}{{--h:{hue}}}" for i, hue in enumerate(shown.hues.values()))
    chips = [_chip(f"t{i}", "", type or "(no type)", shown.types[type]) for i, type in enumerate(shown.hues)]
    tools = ['<span class="grow"></span>']
    if shown.scores:
        tools.append(
            '<label>least score <input id="least" type="range" min="0" max="19" value="0">'
            "<output>0.00</output></label>"
        )
    tools.append(
        '<label><input id="find" type="search" placeholder="Find in documents" aria-label="Find"></label>'
    )
    second = ""
    if gaps is not None:
        states = [_chip(f"s-{s}", _SIGNS[s], STATUSES[s], shown.statuses[s]) for s in _SIGNS]
        second = (
            f"<div>{''.join(states)}<span>{'; '.join([_scores(shown.statuses), *gaps])}</span>"
            '<span class="grow"></span><label><input id="wrong" type="checkbox"> only documents with errors</label></div>'
        )
    return f"<style>{hues}</style>\n<nav><div>{''.join(chips)}{''.join(tools)}</div>{second}</nav>\n"


def _chip(name: str, sign: str, text: str, count: int) -> str:
    return (
        f'<button class="chip {name}" type="button" aria-pressed="true" data-c="{name}"><i>{sign}</i>'
        f"{_escape(text)} <small>{count:,}</small></button>"
    )


def _scores(statuses: Mapping[Status, int]) -> str:
    """Precision, recall and F1 of exact matches."""
    right = statuses.get("right", 0)
    partial = statuses.get("type", 0) + statuses.get("boundary", 0)
    predicted = right + partial + statuses.get("spurious", 0)
    expected = right + partial + statuses.get("missed", 0)
    if not predicted + expected:
        return "no mentions"
    precision, recall = (100 * right / of if of else 0.0 for of in (predicted, expected))
    f1 = 200 * right / (predicted + expected)
    return f"P {precision:.1f} · R {recall:.1f} · F1 {f1:.1f}"


def _document(document: Document, gold: Document | None, shown: _Shown) -> str:
    names = {id(m): str(number) for number, m in enumerate(document.mentions)}
    if gold is None:
        drawn = [_plain(m, names[id(m)], shown) for m in document.mentions]
        facts, wrong = count(len(document.mentions), "mention"), 0
    else:
        matches = match_mentions(document.mentions, gold.mentions)
        drawn = [d for number, match in enumerate(matches) for d in _compared(match, number, names, shown)]
        statuses = Counter(match.status for match in matches)
        shown.statuses += statuses
        facts = ", ".join(f"{_SIGNS[s]} {statuses[s]} {STATUSES[s]}" for s in _SIGNS if statuses[s])
        facts += f"</span><span>{_scores(statuses)}"
        wrong = len(matches) - statuses["right"]
    for d in drawn:
        shown.types[d.mention.type] += 1
    passages = document.passages or (Passage("", document.text),)
    body = "".join(_passage(p, drawn) for p in passages) if document.text else '<p class="none">No text.</p>'
    return (
        f'<article class="doc" data-wrong="{wrong}"><h2><b>{_escape(document.id or "(no id)")}</b>'
        f"<span>{facts}</span></h2>{body}{_relations(document, names)}</article>\n"
    )


def _plain(mention: Mention, name: str, shown: _Shown) -> _Drawn:
    return _Drawn(mention, name, _classes(mention, shown), _short(mention.type))


def _compared(match: Match, number: int, names: Mapping[int, str], shown: _Shown) -> Iterator[_Drawn]:
    """The predicted mention, and the gold one where it is another."""
    status, predicted, gold = match.status, match.predicted, match.gold
    if predicted is not None:
        label, note = f"{_SIGNS[status]} {_short(predicted.type)}", STATUSES[status]
        if status == "type" and gold is not None:
            label += f" (gold: {_short(gold.type)})"
        if status == "boundary" and gold is not None:
            note = f"other boundaries; gold: {gold.text}"
        classes = f"{_classes(predicted, shown)} {status} s-{status}"
        yield _Drawn(predicted, names[id(predicted)], classes, label, note)
    if gold is not None and (predicted is None or status == "boundary"):
        kind = "missed" if predicted is None else "gold"
        sign = _SIGNS["missed"] if predicted is None else "gold"
        yield _Drawn(
            gold,
            f"g{number}",
            f"{_classes(gold, shown)} {kind} s-{status}",
            f"{sign} {_short(gold.type)}",
            kind,
        )


def _short(type: str) -> str:
    return type if len(type) <= _LONGEST_LABEL else type[: _LONGEST_LABEL - 1] + "…"


def _classes(mention: Mention, shown: _Shown) -> str:
    if mention.score is None:
        return shown.name(mention.type)
    shown.scores = True
    # Nothing here is below 0 or above 1 but what another program wrote; what is no number has the least score.
    score = 0.0 if math.isnan(mention.score) else max(0.0, min(0.95, mention.score))
    return f"{shown.name(mention.type)} p{int(score * 20)}"


def _passage(passage: Passage, drawn: Sequence[_Drawn]) -> str:
    heading = " · ".join(part for part in (passage.kind, passage.label) if part)
    kind = ' title"' if passage.kind == "title" else '"'
    head = f"<h3>{_escape(heading)}</h3>" if heading and passage.kind != "title" else ""
    return f'<section class="p{kind}>{head}<p class="t">{_draw(passage, drawn)}</p></section>'


@dataclass
class _Piece:
    start: int
    end: int
    drawn: _Drawn
    first: bool  # of the mention
    last: bool
    goes_on: bool = False  # cut off by a mention that it crosses
    went_on: bool = False


def _draw(passage: Passage, drawn: Sequence[_Drawn]) -> str:
    """The passage's text with the pieces of mentions in it as nested elements."""
    pieces = deque(sorted(_pieces(passage, drawn), key=lambda p: (p.start, -p.end)))
    out: list[str] = []
    stack: list[_Piece] = []
    position = passage.offset

    def text_to(end: int) -> None:
        nonlocal position
        out.append(_escape(passage.text[position - passage.offset : end - passage.offset]))
        position = end

    while pieces or stack:
        if stack and (not pieces or stack[-1].end <= pieces[0].start):
            text_to(stack.pop().end)
            out.append("</mark>")
            continue
        piece = pieces.popleft()
        text_to(piece.start)
        if (
            stack and piece.end > stack[-1].end
        ):  # crosses: goes on as a second piece after the outer one has ended
            cut = stack[-1].end
            rest = _Piece(cut, piece.end, piece.drawn, False, piece.last, piece.goes_on, True)
            at = next(
                (i for i, p in enumerate(pieces) if (p.start, -p.end) > (rest.start, -rest.end)), len(pieces)
            )
            pieces.insert(at, rest)
            piece.end, piece.last, piece.goes_on = cut, False, True
        out.append(_open(piece))
        stack.append(piece)
    text_to(passage.end)
    return "".join(out)


def _pieces(passage: Passage, drawn: Iterable[_Drawn]) -> Iterator[_Piece]:
    for d in drawn:
        fragments = d.mention.fragments
        for number, (start, end) in enumerate(fragments):
            start, end = max(start, passage.offset), min(end, passage.end)
            if start < end:
                yield _Piece(start, end, d, number == 0, number == len(fragments) - 1)


def _open(piece: _Piece) -> str:
    drawn, mention = piece.drawn, piece.drawn.mention
    classes = drawn.classes
    classes += " open" * piece.goes_on + " goes" * piece.went_on
    classes += " part" * (len(mention.fragments) > 1 and not piece.first)
    attributes = {"class": classes, "data-m": drawn.name}
    if piece.first:
        attributes["data-t"] = mention.type
        if mention.score is not None:
            attributes["data-s"] = f"{mention.score:.3f}"
        if mention.ids:
            attributes["data-i"] = ", ".join(mention.ids)
        if drawn.note:
            attributes["data-w"] = drawn.note
    if piece.last and drawn.label.strip():
        attributes["data-l"] = drawn.label
    return "<mark " + " ".join(f'{key}="{_escape(value)}"' for key, value in attributes.items()) + ">"


def _relations(document: Document, names: Mapping[int, str]) -> str:
    if not document.relations:
        return ""
    by_name = {m.id: m for m in document.mentions if m.id}
    by_concept: dict[str, list[Mention]] = defaultdict(list)
    for m in document.mentions:
        for concept in m.ids:
            by_concept[concept].append(m)
    rows = []
    for relation in document.relations:
        arguments, lit = [], []
        for argument in relation.arguments:
            found = [by_name[argument.target]] if argument.target in by_name else by_concept[argument.target]
            shown = f"{found[0].text} ({argument.target})" if found and not found[0].id else argument.target
            if found and found[0].id == argument.target:
                shown = found[0].text
            lit += [names[id(m)] for m in found]
            arguments.append(f"{argument.role}: {shown}" if argument.role else shown)
        score = "" if relation.score is None else f"{relation.score:.3f}"
        extra = ", ".join(f"{key}: {value}" for key, value in relation.infons.items() if len(value) < 40)
        cells = [relation.type, " → ".join(arguments), extra]
        rows.append(
            f'<tr data-m="{_escape(" ".join(lit))}">'
            + "".join(f"<td>{_escape(cell)}</td>" for cell in cells)
            + f'<td class="n">{score}</td></tr>'
        )
    head = "<tr><th>Relation<th>Between<th>Also<th>Score</tr>"
    return f"<details><summary>{count(len(rows), 'relation')}</summary><table>{head}{''.join(rows)}</table></details>"


def _escape(text: str) -> str:
    return html.escape(text.translate(_PICTURES), quote=True)
