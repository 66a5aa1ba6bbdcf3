r"""PubTator: `PMID|t|title`, `PMID|a|abstract`, tab-separated mentions and relations, a blank line.

Read:
- a record begins with its title, blank lines or not; the same id twice is two documents. The title and the abstract
  are joined by one character, as the offsets count; an empty abstract is no passage.
- mentions `PMID start end text type [identifiers [parts]]`; identifiers that are a list (`D003110|D009369`,
  `793,12307`) are several ids, spelled as in the file in the infon `identifier`; the texts of the parts of a composite
  mention are the infon `parts`.
- relations `PMID type first second [novelty]`; the roles are Chemical and Disease for CID, else entity1 and entity2;
  the infon `novel` keeps what BioRED says.

Cannot hold, and `write` counts in `WriteReport.lost`: passages beyond a title and an abstract (their text is joined
to the abstract where it stands), kinds, labels and infons of passages and documents, line breaks in text (spaces
instead), tabs inside mentions, discontinuous mentions (written from first to last character), scores, names and other
infons of mentions, relations between mentions without identifiers, more than two arguments, roles, other infons.
`project` gives the document as it comes back.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from biosmith.rejects import Rejects
from biosmith.text import files
from biosmith.text.document import Argument, Document, Mention, Passage, Relation
from biosmith.text.formats.identifiers import join_identifiers, split_identifiers
from biosmith.text.formats.mentions import agrees, place_mention
from biosmith.text.formats.offsets import Unit, lay_out
from biosmith.text.formats.report import WriteReport

NAME = "pubtator"
SUFFIXES = (".pubtator", ".pubtator.txt")

PARTS, IDENTIFIER, NOVEL = "parts", "identifier", "novel"
_TEXT_LINE = re.compile(r"([^|\t]*)\|([ta])\|(.*)", re.DOTALL)
_TITLE = re.compile(rb"^[^|\t\n]{0,200}\|t\|", re.MULTILINE)
_ROLES = {"CID": ("Chemical", "Disease")}
_OTHER_ROLES = ("entity1", "entity2")


def looks_like(head: bytes) -> bool:
    """Whether the first line that is not blank is a title line."""
    return _TITLE.match(head.removeprefix(b"\xef\xbb\xbf").lstrip()) is not None


def read(stream: IO[bytes], rejects: Rejects, file: str, *, offset_unit: Unit = "auto") -> Iterator[Document]:
    """Stream documents; a malformed line goes to `rejects` with its number and the reading goes on.

    Args:
        stream: decompressed text.
        rejects: receives malformed lines, and mentions that are not where the file says.
        file: name for messages.
        offset_unit: what offsets count; "auto" finds it for each document by its mentions.
    """
    record: _Record | None = None
    for number, raw in enumerate(stream, 1):
        line, damage = raw.rstrip(b"\n").removesuffix(b"\r").decode("utf-8", "replace"), ""
        if "\ufffd" in line:
            damage = _damage(raw)
        if number == 1:
            line = line.removeprefix("\ufeff")
        if not line.strip():
            continue
        text_line = _TEXT_LINE.match(line)
        if text_line is None:
            if record is None:
                rejects.add(file, f"line {number}", "line before the first title", line)
            elif damage:
                rejects.add(file, f"line {number}, {record.id}", damage, line)
            else:
                record.rows.append((number, line))
            continue
        id, part, text = text_line.groups()
        if record is None or id != record.id or part in record.parts:
            yield from _finish(record, rejects, file, offset_unit)
            record = _Record(id)
        record.parts[part] = text
        record.damage = record.damage or damage
    yield from _finish(record, rejects, file, offset_unit)


def _damage(line: bytes) -> str:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError as error:
        return f"not UTF-8: {error.reason}"
    return ""


def _finish(record: _Record | None, rejects: Rejects, file: str, unit: Unit) -> Iterator[Document]:
    if record is not None and record.damage:
        rejects.add(file, record.id, record.damage, " ".join(record.parts.values()))
    elif record is not None:
        yield record.document(rejects, file, unit)


def write(documents: Iterable[Document], path: Path) -> WriteReport:
    """Write documents, a blank line after each; what is lost is in the report."""
    report = WriteReport()
    with files.create(path) as stream:
        for document in documents:
            held, lost = _hold(document)
            stream.write(_dump(held).encode())
            report.add(held)
            report.lost += lost
    return report


def project(document: Document) -> Document:
    """What the format holds of a document: what `read` gives for what `write` wrote."""
    return _hold(document)[0]


@dataclass
class _Record:
    id: str
    parts: dict[str, str] = field(default_factory=dict)
    rows: list[tuple[int, str]] = field(default_factory=list)
    damage: str = ""  # of title or abstract

    def document(self, rejects: Rejects, file: str, unit: Unit) -> Document:
        texts = [self.parts.get("t", ""), self.parts.get("a", "")]
        rows, relations = [], []
        for number, line in self.rows:
            cells = line.split("\t")
            where = f"line {number}, {self.id}"
            if cells[0].strip() != self.id.strip():
                rejects.add(file, where, "line belongs to another document, or to none", line)
            elif len(cells) > 3 and _is_offset(cells[1]) and _is_offset(cells[2]):
                rows.append(_Row(where, cells + [""] * (7 - len(cells))))
            elif len(cells) > 3 and _are_offsets(cells[1]) and _are_offsets(cells[2]):
                rejects.add(file, where, "start and end of a mention are not one whole number each", line)
            elif len(cells) > 3 and cells[1].strip():
                relations.append(_read_relation(cells))
            else:
                rejects.add(file, where, "line has too few columns for a mention or a relation", line)
        if unit not in ("auto", "codepoint") or not all(row.fits(" ".join(texts)) for row in rows):
            layout = lay_out([{"text": text} for text in texts], [row.annotation() for row in rows], unit)
            for reason, what in layout.errors:
                rejects.add(file, self.id, reason, what)
            texts = layout.texts
            for row, fragments in zip(rows, layout.fragments, strict=True):
                row.place = fragments
        passages = [Passage("title", texts[0])]
        if texts[1]:
            passages.append(Passage("abstract", texts[1], len(texts[0]) + 1))
        text = " ".join(passage.text for passage in passages)
        mentions = [found for row in rows if (found := row.mention(text, rejects, file)) is not None]
        return Document(self.id, text, tuple(passages), tuple(mentions), tuple(relations))


class _Row:
    """A line with a mention."""

    def __init__(self, where: str, cells: list[str]) -> None:
        self.where, self.cells = where, cells
        self.place = [(int(cells[1]), int(cells[2]))]

    def fits(self, text: str) -> bool:
        return agrees(text, self.place, self.cells[3])

    def annotation(self) -> dict[str, Any]:
        """In the shape of BioC JSON."""
        start, end = self.place[0]
        return {"text": self.cells[3], "locations": [{"offset": start, "length": end - start}]}

    def mention(self, text: str, rejects: Rejects, file: str) -> Mention | None:
        spelled, parts = self.cells[5].strip(), "\t".join(self.cells[6:]).strip()
        ids = split_identifiers(spelled)
        infons = {IDENTIFIER: spelled} if spelled != join_identifiers(ids) else {}
        if parts:
            infons[PARTS] = parts
        return place_mention(
            text,
            self.place,
            self.cells[3],
            rejects=rejects,
            file=file,
            record=self.where,
            type=self.cells[4].strip(),
            ids=ids,
            infons=infons,
        )


def _is_offset(cell: str) -> bool:
    return re.fullmatch(r"\s*-?\d{1,18}\s*", cell, re.ASCII) is not None


def _are_offsets(cell: str) -> bool:
    """Whether a cell has whole numbers only: one, or those of the parts of a discontinuous mention."""
    return all(_is_offset(part) for part in re.split("[;,]", cell))


def _read_relation(cells: list[str]) -> Relation:
    type = cells[1].strip()
    arguments = zip(_ROLES.get(type, _OTHER_ROLES), cells[2:4], strict=True)
    novel = "\t".join(cells[4:]).strip()
    return Relation(
        type,
        tuple(Argument(role, target.strip()) for role, target in arguments),
        infons={NOVEL: novel} if novel else {},
    )


def _dump(document: Document) -> str:
    """The lines of a document that the format holds."""
    id = document.id
    title, abstract = document.passages[0].text, "".join(p.text for p in document.passages[1:])
    lines = [f"{id}|t|{title}", f"{id}|a|{abstract}"]
    for m in document.mentions:
        spelled = m.infons.get(IDENTIFIER, join_identifiers(m.ids))
        parts = [m.infons[PARTS]] if PARTS in m.infons else []
        lines.append("\t".join([id, str(m.start), str(m.end), m.text, m.type, spelled, *parts]))
    for r in document.relations:
        novel = [r.infons[NOVEL]] if NOVEL in r.infons else []
        lines.append("\t".join([id, r.type, *(a.target for a in r.arguments), *novel]))
    return "\n".join(lines) + "\n\n"


class _Lost(Counter[str]):
    def note(self, what: str, happened: object) -> None:
        if happened:
            self[what] += 1


def _hold(document: Document) -> tuple[Document, Counter[str]]:
    """The document as the format holds it, and what that leaves out."""
    lost = _Lost()
    id = _cell(document.id).replace("|", "_").lstrip("\ufeff")
    lost.note("document ids with tabs, line breaks or |", id != document.id)
    lost.note("infons of documents", document.infons)
    passages, moved_from = _hold_passages(document, lost)
    text = " ".join(passage.text for passage in passages)
    spelled = {m.id: _spell_identifiers(m) for m in document.mentions if m.id}
    concepts = {id for m in document.mentions for id in m.ids}
    names = {id: concept for id, concept in spelled.items() if id not in concepts}
    mentions = [
        mention
        for m in document.mentions
        if (mention := _hold_mention(m, text, moved_from, lost)) is not None
    ]
    relations = [
        relation for r in document.relations if (relation := _hold_relation(r, names, lost)) is not None
    ]
    return Document(id, text, passages, tuple(mentions), tuple(relations)), lost


def _hold_passages(document: Document, lost: _Lost) -> tuple[tuple[Passage, ...], int]:
    """Title and abstract, and the place from where on everything moves by one character."""
    given = document.passages
    text = _unbroken(document.text)
    lost.note("line breaks in text", text != document.text)
    for mention in document.mentions:
        inside = text[mention.start : mention.end]
        lost.note("tabs inside mentions", "\t" in inside)
        text = text[: mention.start] + inside.replace("\t", " ") + text[mention.end :]
    first_end = given[0].end if given else len(text)
    touching = len(given) > 1 and given[1].offset <= first_end and first_end < len(text)
    if touching:
        title, abstract = text[:first_end], text[first_end:]
    else:  # the character between the lines stands right before the second passage
        cut = max(first_end, given[1].offset - 1) if len(given) > 1 else len(text)
        title, abstract = text[:cut], text[cut + 1 :]
    held = [Passage("title", title)]
    if abstract:
        held.append(Passage("abstract", abstract, len(title) + 1))
    if touching:
        lost.note("passages without a character between them", True)
    else:
        shape = [(p.kind, p.offset, p.end) for p in given]
        lost.note("kinds, number or distance of passages", shape != [(p.kind, p.offset, p.end) for p in held])
    lost.note("labels of passages", any(p.label for p in given))
    lost.note("infons of passages", any(p.infons for p in given))
    return tuple(held), first_end if touching else len(text) + 1


def _hold_mention(mention: Mention, text: str, moved_from: int, lost: _Lost) -> Mention | None:
    start = mention.start + (mention.start >= moved_from)
    end = mention.end + (mention.end > moved_from)
    if end > len(text):
        lost.note("mentions of white space at the end", True)
        return None
    spelled, type = _spell_identifiers(mention), _cell(mention.type).strip()
    ids = split_identifiers(spelled)
    infons = {IDENTIFIER: spelled} if spelled != join_identifiers(ids) else {}
    if parts := _cell(mention.infons.get(PARTS, "")).strip():
        infons[PARTS] = parts
    lost.note("discontinuous mentions (written from first to last character)", len(mention.fragments) > 1)
    lost.note("types with tabs, line breaks or outer spaces", type != mention.type)
    lost.note("identifiers that cannot be told apart", ids != mention.ids)
    lost.note("scores of mentions", mention.score is not None)
    lost.note("names of mentions", mention.id)
    lost.note("infons of mentions", infons != mention.infons)
    return Mention(start, end, text[start:end], type, ids=ids, infons=infons)


def _hold_relation(relation: Relation, names: Mapping[str, str], lost: _Lost) -> Relation | None:
    type = _cell(relation.type).strip()
    targets = [_cell(names.get(a.target, a.target)).strip() for a in relation.arguments[:2]]
    if not type or len(targets) < 2 or not all(targets) or (_are_offsets(type) and _are_offsets(targets[0])):
        lost["relations without a type or without identifiers"] += 1
        return None
    roles = _ROLES.get(type, _OTHER_ROLES)
    arguments = tuple(Argument(role, target) for role, target in zip(roles, targets, strict=True))
    novel = _cell(relation.infons.get(NOVEL, "")).strip()
    infons = {NOVEL: novel} if novel else {}
    lost.note("arguments of relations beyond the second", len(relation.arguments) > 2)
    lost.note("roles or mentions of relations", relation.arguments[:2] != arguments)
    lost.note("scores of relations", relation.score is not None)
    lost.note("names of relations", relation.id)
    lost.note("infons of relations", infons != relation.infons or type != relation.type)
    return Relation(type, arguments, infons=infons)


def _spell_identifiers(mention: Mention) -> str:
    """As the source spells them, if that still says the same."""
    spelled = mention.infons.get(IDENTIFIER)
    if spelled is None or split_identifiers(spelled) != mention.ids:
        spelled = join_identifiers(mention.ids)
    return _cell(spelled).strip()


def _unbroken(text: str) -> str:
    return text.replace("\r", " ").replace("\n", " ")


def _cell(text: str) -> str:
    return _unbroken(text).replace("\t", " ")
