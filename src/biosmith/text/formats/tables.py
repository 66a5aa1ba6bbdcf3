"""Tab-separated tables with a text in each row, as benchmarks ship them: GAD, EU-ADR, BIOSSES, HoC, ChemProt, DDI.

A row is a document of a passage (or two, for pairs) of kind "sentence"; the other columns are its infons. With a
header the columns are known by name, in capitals or not; without one, two columns are text and label, three are id,
text and label. Quotes are literal: a cell ends at a tab, a row at a line end. Rows without an id are named after the
file and their index or line. Lists of ids and labels without any text, which come with the same suffixes, are set aside,
and so are EU-ADR's files of annotations.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import IO

from biosmith.rejects import Rejects
from biosmith.text import files
from biosmith.text.document import Document, Passage

NAME = "table"
SUFFIXES = (".tsv", ".list", ".txt")
NEEDS_SUFFIX = True  # lines with equally many tabs are no sign of a table under another name

TEXTS = {"sentence": "sentence", "sent1": "sentence", "sent2": "sentence", "text": "paragraph"} | {
    "title": "title",
    "abstract": "abstract",
}
IDS = ("id", "pair_id", "pmid", "index")
_WITHOUT_HEADER = {2: ("sentence", "label"), 3: ("id", "sentence", "label")}
# What can be done with EU-ADR's own files, which no command can convert.
EU_ADR = (
    "holds annotations of EU-ADR but not the abstracts that they are of; BioBERT's folds have the sentences"
)
_LIST_ITEM = re.compile(r"[^\s,<>{}\[\]\"]*[\d/][^\s,<>{}\[\]\"]*")
_PATH = re.compile(r"[^\t<>{}]*/[^\t<>{}]*\.\w{2,5}")
_HOC_LABELS = re.compile(r"<[^<>{}]*(?:<[^<>{}]*)*")


def looks_like(head: bytes) -> bool:
    """Whether the first rows are a table of a known shape, or a list without text."""
    lines = _whole_lines(head)
    return bool(lines) and (_columns(lines) is not None or _is_list(lines) or _is_eu_adr(lines))


def read(stream: IO[bytes], rejects: Rejects, file: str) -> Iterator[Document]:
    """Stream the rows; one with another number of columns goes to `rejects` with its line number."""
    numbered = files.text_lines(stream, rejects, file)
    first = list(itertools.islice(numbered, 200))
    lines = [line for _, line in first if line.strip()]
    columns = _columns(lines)
    if columns is None and _is_eu_adr(lines):
        rejects.add(file, "file", EU_ADR)
        return
    if columns is None:
        rejects.add(file, "file", "holds names, ids or labels but no text")
        return
    stem = files.stem(file)
    for number, line in itertools.chain(first, numbered):
        cells = tuple(line.split("\t"))
        if not line.strip() or named(cells) == columns:
            continue
        if len(cells) != len(columns):
            reason = f"has {len(cells)} columns, not the {len(columns)} of {', '.join(columns)}"
            rejects.add(file, f"line {number}", reason, line)
            continue
        yield row_document(dict(zip(columns, cells, strict=True)), stem, number)


def row_document(cells: dict[str, str], stem: str, number: int) -> Document:
    """The document of a row: cells by column, the stem of the file's name, the number of the line."""
    id = next((cells[name] for name in IDS if name in cells), "")
    if not id or (id.isdecimal() and "index" in cells):
        id = f"{stem}-{id or number}"
    passages = [Passage(TEXTS[name], text) for name, text in cells.items() if name in TEXTS]
    infons = {name: text for name, text in cells.items() if name not in TEXTS and name not in IDS}
    return Document.build(id, passages, infons=infons)


def _columns(lines: Sequence[str]) -> tuple[str, ...] | None:
    """The names of the columns, from the header or from the shape of the rows; None if this is no such table."""
    if not lines:
        return None
    names = named(lines[0].split("\t"))
    if (
        len(names) > 1
        and any(name in TEXTS for name in names)
        and all(re.fullmatch(r"\w[\w .()/-]*", name) for name in names)
    ):
        return names
    rows = [line.split("\t") for line in lines]
    columns = _WITHOUT_HEADER.get(len(rows[0]))
    if columns is None:
        return None
    good = [row for row in rows if len(row) == len(columns) and _fits(dict(zip(columns, row, strict=True)))]
    return columns if len(good) >= 0.8 * len(rows) else None


def named(header: Sequence[str]) -> tuple[str, ...]:
    """The cells of a header, those that mean something in lower case: "PMID", "Title", "Abstract" are met as often.

    A name that comes again gets its number ("text 2"), so that its column is an infon and not lost.
    """
    times: Counter[str] = Counter()
    names = []
    for cell in header:
        name = cell.lower() if cell.lower() in TEXTS or cell.lower() in IDS else cell
        times[name] += 1
        names.append(name if times[name] == 1 else f"{name} {times[name]}")
    return tuple(names)


def _fits(cells: dict[str, str]) -> bool:
    one_word = all(re.fullmatch(r"\S+", text) for name, text in cells.items() if name != "sentence")
    return one_word and " " in cells["sentence"].strip()


def _is_list(lines: Sequence[str]) -> bool:
    if _HOC_LABELS.fullmatch(lines[0]) and len(lines) == 1:
        return True
    if len(lines) >= 5 and all(_PATH.fullmatch(line) for line in lines):
        return True
    items = [item for line in lines for item in line.rstrip(",").split(",")]
    return len(items) >= 5 and sum(_LIST_ITEM.fullmatch(item) is not None for item in items) >= 0.9 * len(
        items
    )


def is_eu_adr(head: bytes) -> bool:
    """Whether the first bytes of a file are EU-ADR's annotations: rows of offsets into abstracts that are not there."""
    return _is_eu_adr(_whole_lines(head))


def _is_eu_adr(lines: Sequence[str]) -> bool:
    rows = [line.split("\t") for line in lines]
    return bool(rows) and all(len(row) > 8 and row[2] in ("concept", "relation") for row in rows)


def _whole_lines(head: bytes) -> list[str]:
    text = head.decode("utf-8", "replace").removeprefix("\ufeff")
    lines = text.split("\n")
    if len(head) >= files.HEAD and len(lines) > 1:
        lines.pop()  # cut
    return [line.rstrip("\r") for line in lines if line.strip()][:200]
