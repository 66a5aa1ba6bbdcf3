"""CHEMDNER (Krallinger et al., 2015): abstracts and their chemicals in two tables without headers.

`NAME.abstracts.txt` (PMID, title, abstract) is read together with the `NAME.annotations.txt` beside it (PMID, T or A,
start, end, text, type), whose offsets count from the beginning of the title (T) or of the abstract (A).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import IO

from biosmith.rejects import Rejects
from biosmith.text import files
from biosmith.text.document import Document, Mention, Passage
from biosmith.text.formats.mentions import place_mention

NAME = "chemdner"
SUFFIXES = (".abstracts.txt",)
COMPANIONS = (".annotations.txt",)
NEEDS_SUFFIX = True
_PARTS = {"T": 0, "A": 1}

Rows = dict[str, list[tuple[str, list[str]]]]  # PMID -> (where, the other cells)


def looks_like(head: bytes) -> bool:
    """Whether the first line has three columns, the first an identifier."""
    return re.match(rb"(?:\xef\xbb\xbf)?[^\s\t]+\t[^\t\n]*\t[^\t\n]*(?:\n|$)", head) is not None


def read(
    stream: IO[bytes], rejects: Rejects, file: str, *, companion: Callable[[str], IO[bytes] | None]
) -> Iterator[Document]:
    """Stream abstracts; the annotations are held in memory. Malformed rows go to `rejects`."""
    annotations = _annotations(companion(COMPANIONS[0]), rejects, file)
    for number, line in files.text_lines(stream, rejects, file):
        cells = line.split("\t")
        if len(cells) != 3:
            reason = f"has {len(cells)} columns, not PMID, title and abstract"
            rejects.add(file, f"line {number}", reason, "\t".join(cells))
            continue
        id, title, abstract = cells
        document = Document.build(id, [Passage("title", title), Passage("abstract", abstract)])
        mentions = [
            found
            for where, row in annotations.pop(id, [])
            if (found := _mention(row, document, where, rejects, file)) is not None
        ]
        mentions.sort(key=lambda mention: (mention.start, mention.end))
        yield Document(id, document.text, document.passages, tuple(mentions))
    for id, rows in annotations.items():
        rejects.add(file, rows[0][0], "is of an abstract that is not in the file", id)


def _annotations(stream: IO[bytes] | None, rejects: Rejects, file: str) -> Rows:
    rows: Rows = defaultdict(list)
    if stream is None:
        return rows
    for number, line in files.text_lines(stream, rejects, file, f"*{COMPANIONS[0]}, line"):
        id, *cells = line.split("\t")
        where = f"*{COMPANIONS[0]}, line {number}"
        if len(cells) != 5 or cells[0] not in _PARTS or not (cells[1].isdecimal() and cells[2].isdecimal()):
            reason = "is not PMID, T or A, start, end, text and type"
            rejects.add(file, where, reason, "\t".join([id, *cells]))
        else:
            rows[id].append((where, cells))
    return rows


def _mention(row: list[str], document: Document, where: str, rejects: Rejects, file: str) -> Mention | None:
    part, start, end, stated, type = row
    offset = document.passages[_PARTS[part]].offset
    fragments = [(offset + int(start), offset + int(end))]
    return place_mention(
        document.text, fragments, stated, rejects=rejects, file=file, record=where, type=type
    )
