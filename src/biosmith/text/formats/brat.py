r"""brat standoff: a text in `ID.txt` and its annotations in `ID.ann`.

Read:
- the document's id is the name of the file, %-decoded; each line of the text that is not blank is a passage of kind
  "paragraph". Offsets count the text as it is, or with CRLF as one character if only that fits the mentions.
- `T` lines are mentions, discontinuous ones too (`0 5;10 15`); `R` and `E` lines are relations (the trigger of an
  event is its first argument, with the role "trigger"); `*` lines (Equiv) relations whose arguments have no role.
- `A` and `M` lines are infons of what they are about ("true" where they have no value; `score` is the score); `N`
  lines give identifiers (`MESH:D003110`, and a second column if there is one in the infon `name NS:ID`); `#` lines the
  infon `note` (several are joined by line breaks), or with the type `biosmith` an infon that `A` lines cannot hold.

Cannot hold, and `write` counts in `WriteReport.lost`: kinds, labels, infons and text with line breaks of passages,
empty passages, infons of documents, identifiers and types with white space, names of mentions and relations other than
T1, R1 and E1 (they are named anew), relations whose arguments are not mentions or relations of the document.
`project` gives the document as it comes back. `write` makes a folder; the same id again gets `~2` in the file name.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import IO
from urllib.parse import quote, unquote

from biosmith.artefact import folder_by_rename
from biosmith.rejects import Rejects
from biosmith.surrogates import replace_surrogates
from biosmith.text import files
from biosmith.text.document import Argument, Document, Mention, Passage, Relation, fragment_text
from biosmith.text.formats.mentions import agrees, place_mention
from biosmith.text.formats.report import WriteReport

NAME = "brat"
SUFFIXES = (".ann", ".a1")
COMPANIONS = (".txt", ".a2")

NOTE, TRIGGER = "note", "trigger"
_NOTE_TYPE, _INFON_TYPE = "AnnotatorNotes", "biosmith"
_FIRST_LINE = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:[TREAMN#]\d+|\*)\t\S+[ :]\S")
_FRAGMENTS = re.compile(r"\d+ \d+(;\d+ \d+)*", re.ASCII)
_NAMED = "name "  # infon that keeps the text column of an N line
_LONGEST_NAME = 200  # of a file, in bytes, before its suffix
_BOM = "\ufeff"
_UNHELD = "relations that are not between two mentions or relations, nor events, nor equivalences"


def looks_like(head: bytes) -> bool:
    """Whether the first line is one of brat standoff."""
    return _FIRST_LINE.match(head) is not None


def read(
    stream: IO[bytes], rejects: Rejects, file: str, *, companion: Callable[[str], IO[bytes] | None]
) -> Iterator[Document]:
    """The one document of a pair of files; lines that cannot be used go to `rejects` with their number."""
    beside = companion(".txt")
    if beside is None:
        rejects.add(file, "file", "there is no .txt file with the text beside it")
        return
    data = beside.read()
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        shown = data[max(0, error.start - 40) : error.end + 40].decode("utf-8", "replace").strip()
        rejects.add(file, "the .txt file beside it", f"not UTF-8: {error.reason}", shown)
        return
    annotations = _Annotations(rejects, file)
    annotations.read(stream)
    if (more := companion(".a2")) is not None:
        annotations.read(more)
    try:
        document = annotations.document(_id_of(file), text)
    except ValueError as error:  # of its layout
        rejects.add(file, "the .txt file beside it", "has more blank than other characters", str(error))
        return
    yield document


def write(documents: Iterable[Document], path: Path) -> WriteReport:
    """Write a folder with two files a document; what is lost is in the report.

    Raises:
        UsageError: the folder exists and is not empty.
    """
    report = WriteReport()
    times: Counter[str] = Counter()
    with folder_by_rename(path) as folder:
        for document in documents:
            raw, held, lost = _hold(document)
            name = _file_name(held.id)
            times[name] += 1
            stem = name if times[name] == 1 else f"{name}~{times[name]}"
            (folder / f"{stem}.txt").write_bytes((_BOM * raw.startswith(_BOM) + raw).encode())
            (folder / f"{stem}.ann").write_bytes("".join(f"{line}\n" for line in _lines(held)).encode())
            report.add(held)
            report.lost += lost
    return report


def project(document: Document) -> Document:
    """What the format holds of a document: what `read` gives for what `write` wrote."""
    return _hold(document)[1]


def _id_of(file: str) -> str:
    name = PurePath(file).name
    split = files.split_suffix(name, SUFFIXES)
    stem = re.sub(r"~\d+$", "", split[0] if split else name)
    return "" if stem == "%" else replace_surrogates(unquote(stem))


def _file_name(id: str) -> str:
    name = quote(id, safe="").replace("~", "%7E") or "%"
    return f"%2E{name[1:]}" if name.startswith(".") else name


@dataclass
class _Target:
    """What attributes, identifiers and notes say of a mention or relation."""

    infons: dict[str, str] = field(default_factory=dict)
    score: float | None = None
    ids: list[str] = field(default_factory=list)


class _Annotations:
    """The lines of an annotation file."""

    def __init__(self, rejects: Rejects, file: str) -> None:
        self.rejects, self.file = rejects, file
        self.mentions: list[tuple[int, str, str, list[tuple[int, int]], str | None]] = []
        self.relations: list[Relation] = []
        self.about: list[tuple[int, str, list[str], str]] = []

    def read(self, stream: IO[bytes]) -> None:
        for number, line in files.text_lines(stream, self.rejects, self.file):
            if line.strip() and not self._take(number, line):
                self.rejects.add(self.file, f"line {number}", "is not a line of brat standoff", line)

    def _take(self, number: int, line: str) -> bool:
        id, _, rest = line.partition("\t")
        middle, tab, text = rest.partition("\t")
        words = middle.split()
        kind = id[:1]
        if kind == "T" and len(words) > 2:
            type, _, places = middle.strip().partition(" ")
            if not _FRAGMENTS.fullmatch(places.strip()):
                return False
            spans = [(int(start), int(end)) for start, end in (p.split() for p in places.strip().split(";"))]
            self.mentions.append((number, id, type, spans, text if tab else None))
        elif kind == "R" and len(words) > 1:
            self.relations.append(Relation(words[0], _arguments(words[1:]), id=id))
        elif kind == "E" and words and ":" in words[0]:
            type, _, trigger = words[0].partition(":")
            arguments = (Argument(TRIGGER, trigger), *_arguments(words[1:]))
            self.relations.append(Relation(type, arguments, id=id))
        elif kind == "*" and len(words) > 2:
            self.relations.append(Relation(words[0], tuple(Argument("", target) for target in words[1:])))
        elif kind in ("A", "M", "N", "#") and len(words) > 1:
            self.about.append((number, kind, words, text))
        else:
            return False
        return True

    def document(self, id: str, raw: str) -> Document:
        text, passages = self._fit(raw)
        named = {name for _, name, *_ in self.mentions} | {r.id for r in self.relations}
        targets = {name: _Target() for name in named}
        for number, kind, words, rest in self.about:
            if words[1] not in targets:
                self.rejects.add(
                    self.file, f"line {number}", "is about something that is not in the file", words[1]
                )
            else:
                _tell(targets[words[1]], kind, words, rest)
        mentions = []
        for number, name, type, spans, stated in self.mentions:
            said = targets[name]
            mention = place_mention(
                text,
                spans,
                stated,
                rejects=self.rejects,
                file=self.file,
                record=f"line {number}",
                type=type,
                score=said.score,
                ids=said.ids,
                id=name,
                infons=said.infons,
            )
            if mention is not None:
                mentions.append(mention)
        relations = [
            replace(r, score=targets[r.id].score, infons=targets[r.id].infons) if r.id else r
            for r in self.relations
        ]
        return Document(id, text, passages, tuple(mentions), tuple(relations))

    def _fit(self, raw: str) -> tuple[str, tuple[Passage, ...]]:
        """The text under which most mentions are where the file says: as it is, or with CRLF as one character."""
        whole = raw.removeprefix(_BOM)
        texts = list(dict.fromkeys([whole, whole.replace("\r\n", "\n"), raw, raw.replace("\r\n", "\n")]))
        if len(texts) > 1:
            fitting = [
                sum(agrees(text, spans, stated) for *_, spans, stated in self.mentions if stated is not None)
                for text in texts
            ]
            texts = [texts[fitting.index(max(fitting))]]
        return _split_lines(texts[0])


def _arguments(words: list[str]) -> tuple[Argument, ...]:
    parts = (word.partition(":") for word in words)
    return tuple(Argument(role, target) for role, _, target in parts)


def _tell(target: _Target, kind: str, words: list[str], text: str) -> None:
    infons = target.infons
    if kind == "N":
        id = " ".join(words[2:])
        target.ids.append(id)
        if text:
            infons[_NAMED + id] = text
    elif kind == "#" and words[0] == _INFON_TYPE and (pair := _pair(text)) is not None:
        infons[pair[0]] = pair[1]
    elif kind == "#":
        infons[NOTE] = f"{infons[NOTE]}\n{text}" if NOTE in infons else text
    elif words[0] == "score" and len(words) == 3 and _is_number(words[2]):
        target.score = float(words[2])
    else:
        value = " ".join(words[2:]) or "true"
        infons[words[0]] = f"{infons[words[0]]}; {value}" if words[0] in infons else value


def _pair(text: str) -> tuple[str, str] | None:
    try:
        key, value = json.loads(text)
    except (ValueError, TypeError):
        return None
    return (key, value) if isinstance(key, str) and isinstance(value, str) else None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _split_lines(raw: str) -> tuple[str, tuple[Passage, ...]]:
    """The document's text and a passage for each line that is not blank; line ends and blank lines are gaps."""
    passages, position = [], 0
    for line in raw.split("\n"):
        text = line.removesuffix("\r")
        if text.strip():
            passages.append(Passage("paragraph", text, position))
        position += len(line) + 1
    document = Document.at_offsets("", passages)
    return document.text, document.passages


def _lines(document: Document) -> Iterator[str]:
    """The annotation file of a document that the format holds."""
    numbers: Counter[str] = Counter()

    def name(kind: str) -> str:
        numbers[kind] += 1
        return f"{kind}{numbers[kind]}"

    about: list[tuple[str, Mapping[str, str], float | None, tuple[str, ...]]] = []
    for m in document.mentions:
        places = ";".join(f"{start} {end}" for start, end in m.fragments)
        shown = re.sub(r"[\t\r\n]", " ", m.text)
        yield f"{m.id}\t{m.type} {places}\t{shown}"
        about.append((m.id, m.infons, m.score, m.ids))
    for r in document.relations:
        if not r.id:
            yield f"*\t{r.type} {' '.join(a.target for a in r.arguments)}"
            continue
        arguments = " ".join(f"{a.role}:{a.target}" for a in r.arguments)
        event = r.id.startswith("E")
        yield f"{r.id}\t{r.type}{arguments.removeprefix(TRIGGER) if event else f' {arguments}'}"
        about.append((r.id, r.infons, r.score, ()))
    for target, infons, score, ids in about:
        if score is not None:
            yield f"{name('A')}\tscore {target} {float(score)!r}"
        for id in ids:
            yield f"{name('N')}\tReference {target} {id}\t{_name_of(id, infons)}"
        for key, value in infons.items():
            if key.startswith(_NAMED) and key[len(_NAMED) :] in ids and _name_of(key[len(_NAMED) :], infons):
                continue
            if key == NOTE and not re.search(r"^$|[\r\0]", value, re.MULTILINE):
                for note in value.split("\n"):
                    yield f"{name('#')}\t{_NOTE_TYPE} {target}\t{note}"
            elif key not in (NOTE, "score") and re.fullmatch(r"\S+", key) and re.fullmatch(r"\S+", value):
                yield f"{name('A')}\t{key} {target}" + ("" if value == "true" else f" {value}")
            else:
                yield f"{name('#')}\t{_INFON_TYPE} {target}\t{json.dumps([key, value])}"


def _name_of(id: str, infons: Mapping[str, str]) -> str:
    name = infons.get(_NAMED + id, "")
    return "" if re.search(r"[\t\r\n]", name) else name


class _Lost(Counter[str]):
    def note(self, what: str, happened: object) -> None:
        if happened:
            self[what] += 1


def _hold(document: Document) -> tuple[str, Document, Counter[str]]:
    """The text file, the document as the format holds it, and what that leaves out."""
    lost = _Lost()
    id = document.id
    if len(_file_name(id)) > _LONGEST_NAME:
        lost.note("document ids that are too long for a file", True)
        id = _shorten(id)
    lost.note("infons of documents", document.infons)
    raw, text, passages = _hold_text(document, lost)
    names = _names([m.id for m in document.mentions], "T" * len(document.mentions))
    mentions: list[Mention] = []
    places: dict[str, str] = {}
    for mention, name in zip(document.mentions, names, strict=True):
        held = _hold_mention(mention, name, text, lost)
        if held is not None:
            mentions.append(held)
            if mention.id:
                places.setdefault(mention.id, name)
    relations = _hold_relations(document.relations, places, lost)
    return raw, Document(id, text, passages, tuple(mentions), relations), lost


def _shorten(id: str) -> str:
    while len(_file_name(id)) > _LONGEST_NAME:
        id = id[: len(id) * _LONGEST_NAME // len(_file_name(id))]
    return id


def _hold_text(document: Document, lost: _Lost) -> tuple[str, str, tuple[Passage, ...]]:
    given = document.passages
    if given:
        parts, position = [], 0
        for passage in given:
            parts += ["\n" * (passage.offset - position), passage.text]
            position = passage.end
        raw = "".join(parts)
    else:
        raw = document.text
    text, passages = _split_lines(raw)
    shape = [(p.text, p.offset) for p in given]
    lost.note("number of passages, or line breaks in them", shape != [(p.text, p.offset) for p in passages])
    lost.note("kinds of passages", any(p.kind != "paragraph" for p in given))
    lost.note("labels of passages", any(p.label for p in given))
    lost.note("infons of passages", any(p.infons for p in given))
    return raw, text, passages


def _names(ids: Iterable[str], letters: Iterable[str]) -> list[str]:
    """A name for each: its own if that is the letter and a number and not taken, else the next free number."""
    ids, letters = list(ids), list(letters)
    taken: set[str] = set()
    names = []
    for id, letter in zip(ids, letters, strict=True):
        own = id if letter and id not in taken and re.fullmatch(rf"{letter}\d+", id, re.ASCII) else ""
        taken.add(own)
        names.append(own)
    number = 0
    for index, letter in enumerate(letters):
        while letter and not names[index]:
            number += 1
            if f"{letter}{number}" not in taken:
                names[index] = f"{letter}{number}"
    return names


def _hold_mention(mention: Mention, name: str, text: str, lost: _Lost) -> Mention | None:
    if any(end > len(text) for _, end in mention.fragments):
        lost.note("mentions of white space at the end", True)
        return None
    type = re.sub(r"\s", "_", mention.type) or "Entity"
    ids = tuple(re.sub(r"\s", "_", id) for id in mention.ids if id)
    lost.note("types that are empty or hold white space", type != mention.type)
    lost.note("identifiers that are empty or hold white space", ids != mention.ids)
    lost.note("names of mentions", mention.id not in ("", name))
    return replace(mention, text=fragment_text(text, mention.fragments), type=type, ids=ids, id=name)


def _letter(relation: Relation, mentions: Mapping[str, str]) -> str | None:
    """The kind of line for a relation: E (with a trigger), R (two arguments), "" (Equiv), None if there is none."""
    arguments = relation.arguments
    if arguments and arguments[0].role == TRIGGER and arguments[0].target in mentions:
        return "E"
    if len(arguments) > 1 and not any(argument.role for argument in arguments):
        return ""
    return "R" if len(arguments) == 2 else None


def _hold_relations(
    relations: Iterable[Relation], mentions: Mapping[str, str], lost: _Lost
) -> tuple[Relation, ...]:
    kept = [(r, letter) for r in relations if (letter := _letter(r, mentions)) is not None]
    while True:  # a relation falls with the relation that it is about
        known = {*mentions, *(r.id for r, letter in kept if letter and r.id)}
        standing = [(r, letter) for r, letter in kept if all(a.target in known for a in r.arguments)]
        if len(standing) == len(kept):
            break
        kept = standing
    lost.update({_UNHELD: n} if (n := sum(1 for _ in relations) - len(kept)) else {})
    names = _names([r.id for r, _ in kept], [letter for _, letter in kept])
    places = dict(mentions)
    for (relation, letter), name in zip(kept, names, strict=True):
        if letter and relation.id:
            places.setdefault(relation.id, name)
    return tuple(_hold_relation(r, name, places, lost) for (r, _), name in zip(kept, names, strict=True))


def _hold_relation(relation: Relation, name: str, places: Mapping[str, str], lost: _Lost) -> Relation:
    type = re.sub(r"[\s:]", "_", relation.type) or "Relation"
    arguments = tuple(
        Argument(
            (re.sub(r"[\s:]", "_", a.role) or f"Arg{number}") if name else "",
            places[a.target],
        )
        for number, a in enumerate(relation.arguments, 1)
    )
    lost.note("types that are empty or hold white space", type != relation.type)
    roles = [a.role for a in relation.arguments]
    lost.note("roles that are empty or hold white space", [a.role for a in arguments] != roles)
    lost.note("names of relations", relation.id not in ("", name))
    score, infons = (relation.score, relation.infons) if name else (None, {})
    lost.note("scores and infons of equivalences", (score, infons) != (relation.score, relation.infons))
    return Relation(type, arguments, score, name, infons)
