"""Comma-separated tables with a header, as spreadsheets and BioCreative's LitCovid have them: a row is a document.

Columns are known by name, in capitals or not, as those of tab-separated tables (`tables`): `title`, `abstract`, `text` and
`sentence` are texts, `id` and `pmid` name the document, the others are its infons. Quoted cells may hold commas and line
breaks. A header with a tab is separated by tabs, one without a comma by semicolons.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from typing import IO

from biosmith.errors import BadInput
from biosmith.rejects import Rejects
from biosmith.text import files
from biosmith.text.document import Document
from biosmith.text.formats.tables import TEXTS, named, row_document

NAME = "csv"
SUFFIXES = (".csv",)

_NOT_UTF8 = re.compile("[\udc80-\udcff]")  # as "surrogateescape" decodes such bytes
_LINE = re.compile(r"[^\r]*(?:\r\n?|$)")
LARGEST_CELL = 256 * 2**20  # characters; the library's own limit is shorter than a full text

# The limit is the whole process's, so it is raised once: what one reader put back, another would miss in mid-file.
csv.field_size_limit(max(LARGEST_CELL, csv.field_size_limit()))


def _cut(line: str) -> Sequence[str]:
    """The lines in what a line feed ends, for a carriage return by itself ends one, too."""
    return _LINE.findall(line)[:-1] if "\r" in line and "\r" in line.rstrip("\r\n") else (line,)


class _Lines:
    """The lines of a file, of which those of a row can be given once more.

    Attributes:
        number: of the last line that was given; the first is 1.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        # Bytes that are not UTF-8 become surrogates, so that they cost their row only.
        self._rest = (part for line in stream for part in _cut(line.decode("utf-8", "surrogateescape")))
        self._row: list[str] = []
        self.number = 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = next(self._rest)
        self._row.append(line)
        self.number += 1
        return line

    def begin_row(self) -> int:
        """The number of the line that comes next, which begins a row."""
        self._row = []
        return self.number + 1

    def take_back(self) -> None:
        """Give the lines since the row began once more, but for the first."""
        lines = self._row[1:]
        self._rest = (line for part in (lines, self._rest) for line in part)
        self.number -= len(lines)


def read(stream: IO[bytes], rejects: Rejects, file: str) -> Iterator[Document]:
    """Stream the rows; one with another number of cells, or that is not UTF-8, goes to `rejects` with its line number.

    A quotation mark that is never closed costs its own line.

    Raises:
        BadInput: the file is UTF-16.
    """
    lines = _Lines(stream)
    header = next(lines, "").removeprefix("\ufeff")
    delimiter = "\t" if "\t" in header else ";" if ";" in header and "," not in header else ","
    columns = named(next(csv.reader([header], delimiter=delimiter), []))
    if header.startswith(("\udcff\udcfe", "\udcfe\udcff")):
        raise BadInput(file, "UTF-16, in which only XML and plain text are read; save it as UTF-8")
    if not any(name in TEXTS for name in columns):
        shown = _NOT_UTF8.sub("\ufffd", header.strip())
        rejects.add(file, "line 1", f"has no column of text ({', '.join(TEXTS)})", shown)
        return
    stem = files.stem(file)
    rows = csv.reader(lines, delimiter=delimiter, strict=True)
    while True:
        first = lines.begin_row()
        try:
            cells = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            rejects.add(file, f"line {first}", f"is no row: {error}")
            if "unexpected end" in str(error) or "field limit" in str(error):
                lines.take_back()
                rows = csv.reader(lines, delimiter=delimiter, strict=True)
            continue
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) != len(columns):
            reason = f"has {len(cells)} cells, not the {len(columns)} of {', '.join(columns)}"
            rejects.add(file, f"line {first}", reason)
        elif _NOT_UTF8.search("".join(cells)):
            rejects.add(file, f"line {first}", "not UTF-8")
        else:
            yield row_document(dict(zip(columns, cells, strict=True)), stem, first)
