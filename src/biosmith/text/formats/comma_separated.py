"""Comma-separated tables with a header, as spreadsheets and BioCreative's LitCovid have them: a row is a document.

Columns are known by name, in capitals or not, as those of tab-separated tables (`tables`): `title`, `abstract`, `text` and
`sentence` are texts, `id` and `pmid` name the document, the others are its infons. Quoted cells may hold commas and line
breaks. Semicolons separate where the header has no comma.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import IO

from biosmith.rejects import Rejects
from biosmith.text import files
from biosmith.text.document import Document
from biosmith.text.formats.tables import TEXTS, named, row_document

NAME = "csv"
SUFFIXES = (".csv",)

_NOT_UTF8 = re.compile("[\udc80-\udcff]")  # as "surrogateescape" decodes such bytes
LARGEST_CELL = 256 * 2**20  # characters; the library's own limit is shorter than a full text


def read(stream: IO[bytes], rejects: Rejects, file: str) -> Iterator[Document]:
    """Stream the rows; one with another number of cells, or that is not UTF-8, goes to `rejects` with its line number."""
    # Bytes that are not UTF-8 become surrogates, so that they cost their row only.
    lines = (line.decode("utf-8", "surrogateescape") for line in stream)
    header = next(lines, "").removeprefix("\ufeff")
    delimiter = ";" if ";" in header and "," not in header else ","
    columns = named(next(csv.reader([header], delimiter=delimiter), []))
    if not any(name in TEXTS for name in columns):
        rejects.add(file, "line 1", f"has no column of text ({', '.join(TEXTS)})", header.strip())
        return
    stem = files.strip_compression(PurePath(file).name).rpartition(".")[0] or PurePath(file).name
    before = csv.field_size_limit(LARGEST_CELL)
    rows = csv.reader(lines, delimiter=delimiter, strict=True)
    try:
        while True:
            first = rows.line_num + 2  # the header is line 1
            try:
                cells = next(rows)
            except StopIteration:
                return
            except csv.Error as error:
                rejects.add(file, f"line {first}", f"is no row: {error}")
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
    finally:
        csv.field_size_limit(before)
