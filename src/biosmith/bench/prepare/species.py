"""LINNAEUS and S800 as their authors release them: a table of the mentions of species, beside a folder of the texts.

| | table | columns | texts |
|---|---|---|---|
| LINNAEUS | `tags.tsv` | species, document, start, end, text, category | `txt/DOCUMENT.txt` |
| S800 | `S800.tsv` | species, DOCUMENT:PMID, start, end (inclusive), text | `abstracts/DOCUMENT.txt` |

A document is called as its text's file, in S800 by its PMID (`pubmedid.tsv` has those of texts without a mention). A line
of the text is a passage. Identifiers are NCBI Taxonomy's; where there is none, the table says 0.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from biosmith.bench.prepare.sources import find_lists, members, read_list
from biosmith.errors import BadInput
from biosmith.rejects import Rejects
from biosmith.text.document import Document, Passage
from biosmith.text.formats.mentions import place_mention
from biosmith.text.formats.offsets import lay_out

TYPE = "Species"
COLUMNS = ("species", "document", "start", "end", "text", "category")
LISTS = {"train": "train.txt", "dev": "devel.txt", "test": "test.txt"}
WHERE = "spyysalo/linnaeus-corpus and spyysalo/s800 on GitHub have them as split"
ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz")
LARGEST_ARCHIVE = 32 * 2**20  # bytes; a larger one is neither, and is not looked into


@dataclass(frozen=True)
class Release:
    """One of the two releases.

    Attributes:
        source: its folder, or its archive.
        table: name of the table of mentions.
        texts: name of the folder of texts.
        past_end: what has to be added to an end so that it is exclusive.
        ids: name of a table of documents and their PMIDs, if there is one.
    """

    source: Path
    table: str
    texts: str
    past_end: int
    ids: str = ""


def find_release(source: Path) -> Release | None:
    """The release that a folder or an archive holds, in itself or in its only folder; None if it is neither's."""
    inside = source.iterdir() if source.is_dir() else ()
    places = (source, *sorted(p for p in inside if p.is_dir() and not p.name.startswith(".")))
    releases = (
        release
        for place in places
        for release in (
            Release(place, "tags.tsv", "txt", 0),
            Release(place, "S800.tsv", "abstracts", 1, "pubmedid.tsv"),
        )
    )
    return next(filter(_holds, releases), None)


def _holds(release: Release) -> bool:
    source = release.source
    if source.is_dir():
        return (source / release.table).is_file() and (source / release.texts).is_dir()
    if not source.name.endswith(ARCHIVES) or source.stat().st_size > LARGEST_ARCHIVE:
        return False
    try:
        return any(PurePosixPath(path).name == release.table for path, _ in members(source, release.table))
    except BadInput:  # no archive, or a damaged one, of which its reader will tell
        return False


def read_release(release: Release, rejects: Rejects) -> Iterator[Document]:
    """The documents with their mentions, in order of their names.

    Rows that are none, and mentions that are not in their text, go to `rejects`; where a row's text is another than that
    at its offsets, the text wins.

    Raises:
        BadInput: the archive is damaged, or there is no text.
    """
    contents = _contents(release)
    table = next(path for path in contents if path.name == release.table)
    rows, names = _rows(release, table, contents[table], rejects)
    if release.ids:
        for path in contents:
            if path.name == release.ids:
                names = {**_names(contents[path]), **names}
    texts = [path for path in contents if path.parent.name == release.texts and path.suffix == ".txt"]
    if not texts:
        raise BadInput(release.source, f"has no text in {release.texts}")
    for path in texts:
        try:
            text = contents[path].decode("utf-8")
        except UnicodeDecodeError as error:
            rejects.add(path, "file", f"is not UTF-8: {error.reason}")
            rows.pop(path.stem, None)
            continue
        name, own = names.get(path.stem, path.stem), rows.pop(path.stem, [])
        yield _document(name, text, own, table, release.past_end, rejects)
    for line, cells in (row for left in rows.values() for row in left):
        rejects.add(table, f"line {line}", f"is of a text that is not in {release.texts}", cells["document"])


def read_splits(release: Release, rejects: Rejects) -> dict[str, list[Document]]:
    """The documents of each split, in the order of its list; ids that no document has go to `rejects`.

    Raises:
        UsageError: there are no lists beside the release.
        BadInput: as `read_release`.
    """
    lists = find_lists(release.source, None, LISTS, ("split", ".", "../split"), WHERE)
    documents = {document.id: document for document in read_release(release, rejects)}
    splits = {}
    for split, path in lists.items():
        ids = read_list(path)
        for id in ids:
            if id not in documents:
                rejects.add(path, id, "is the id of no document of the release")
        splits[split] = [documents[id] for id in ids if id in documents]
    return splits


def _contents(release: Release) -> dict[PurePosixPath, bytes]:
    """The files of the release, in order of their names; those that a Mac adds to archives are passed over."""
    found = {
        PurePosixPath(path): content
        for suffix in (".tsv", ".txt")
        for path, content in members(release.source, suffix)
    }
    return {path: found[path] for path in sorted(found) if not path.name.startswith(".")}


Row = tuple[int, dict[str, str]]  # line, and cells by column
Rows = defaultdict[str, list[Row]]  # by document


def _rows(
    release: Release, table: PurePosixPath, content: bytes, rejects: Rejects
) -> tuple[Rows, dict[str, str]]:
    """The rows of each document, and the name that they give it."""
    rows: Rows = defaultdict(list)
    names = {}
    for number, line in enumerate(_lines(content), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        cells = dict(zip(COLUMNS, line.split("\t"), strict=False))
        if len(cells) < len(COLUMNS) - 1:  # the last one is LINNAEUS's own
            rejects.add(table, f"line {number}", f"is not {', '.join(COLUMNS[:-1])}", line)
        elif not (cells["start"].isdecimal() and cells["end"].isdecimal()):
            rejects.add(table, f"line {number}", "start or end is no number", line)
        else:
            document, _, name = cells["document"].partition(":")
            rows[document].append((number, cells))
            names[document] = name or document
    return rows, names


def _names(content: bytes) -> dict[str, str]:
    """Document -> PMID, of the table that has them in its first columns."""
    rows = (line.split("\t") for line in _lines(content))
    return {row[0]: row[1].removeprefix("PMID:") for row in rows if len(row) > 1}


def _lines(content: bytes) -> list[str]:
    return content.decode("utf-8-sig", "replace").replace("\r\n", "\n").split("\n")


def _document(
    id: str, text: str, rows: Sequence[Row], table: PurePosixPath, past_end: int, rejects: Rejects
) -> Document:
    """A text with the mentions that its rows name; whether these count characters or bytes is found out."""
    places = [(int(c["start"]), int(c["end"]) + past_end) for _, c in rows]
    stated = [
        {"text": cells["text"], "locations": [{"offset": start, "length": end - start}]}
        for (_, cells), (start, end) in zip(rows, places, strict=True)
    ]
    layout = lay_out([{"offset": 0, "text": text}], stated)
    passages: list[Passage] = []
    position = layout.offsets[0]
    for line in layout.texts[0].split("\n"):
        if line.strip():
            kind = "paragraph" if passages else "title"
            passages.append(Passage(kind, line.rstrip("\r"), position))
        position += len(line) + 1
    document = Document.at_offsets(id, passages)
    mentions = []
    for (row, cells), fragments in zip(rows, layout.fragments, strict=True):
        number = cells["species"].rpartition(":")[2]
        mention = place_mention(
            document.text,
            fragments,
            cells["text"],
            rejects=rejects,
            file=str(table),
            record=f"line {row}",
            type=TYPE,
            ids=() if number in ("", "0") else (number,),
            infons={"category": cells["category"]} if cells.get("category") else {},
        )
        mentions += [] if mention is None else [mention]
    mentions.sort(key=lambda mention: (mention.start, mention.end))
    return replace(document, mentions=tuple(mentions))
