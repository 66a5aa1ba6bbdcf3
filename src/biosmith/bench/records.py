"""Records of other shapes than tab-separated rows: JSON lines and CSV with quotes."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from biosmith.errors import BadInput
from biosmith.rejects import Rejects
from biosmith.surrogates import parse_json
from biosmith.tasks.instances import BadRow, Instance
from biosmith.text import files

# A line inside a cell that begins as a record does: a quote before it was left open.
_SWALLOWED = re.compile(r"\n\d{5,},")


def read_json_lines(
    path: Path, make: Callable[[Mapping[str, Any], int], Instance], rejects: Rejects
) -> Iterator[Instance]:
    """A JSON object a line as instances.

    Args:
        path: plain, .gz or .xz.
        make: an instance from an object and its number, from 0; raises `BadRow` where it is none.
        rejects: collects bad lines.

    Raises:
        BadInput: the file is damaged; a bad line where `rejects` is strict.
    """
    with files.open_decompressed(path) as stream:
        number = count = 0
        try:
            for number, raw in enumerate(stream, start=1):
                if not raw.strip():
                    continue
                try:
                    value = parse_json(raw)
                    if not isinstance(value, dict):
                        raise BadRow("is not a JSON object")
                    made = make(value, count)
                except (BadRow, ValueError, RecursionError) as error:
                    reason = str(error) if isinstance(error, BadRow) else f"is not JSON: {error}"
                    rejects.add(path, f"line {number}", reason, raw.decode("utf-8", "replace").rstrip("\n"))
                    continue
                count += 1
                yield Instance(made.id, made.text, made.label, made.pair, made.group, str(path), number)
        except files.BROKEN as error:
            raise BadInput(path, f"is damaged: {error}", record=f"after line {number}") from error


def read_text(path: Path) -> str:
    """The content of a file, plain, .gz or .xz, without a byte order mark.

    Raises:
        BadInput: the file is damaged or not UTF-8.
    """
    with files.open_decompressed(path) as stream:
        try:
            return decode(stream.read(), path)
        except files.BROKEN as error:
            raise BadInput(path, f"is damaged: {error}") from error


def decode(content: bytes, name: str | Path) -> str:
    """The text of a file of that name, without a byte order mark.

    Raises:
        BadInput: it is not UTF-8.
    """
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(name, f"is not UTF-8: {error.reason}") from error


def read_csv(
    path: Path, columns: Sequence[str], make: Callable[[dict[str, str]], Instance], rejects: Rejects
) -> Iterator[Instance]:
    """The records of a CSV file with a header as instances; cells in quotes may hold commas and line feeds.

    A cell that holds what looks like the next record is a quote that was left open, and set aside with the first line
    of its record: nothing is swallowed.

    Args:
        path: plain, .gz or .xz.
        columns: those that have to be there, in any order.
        make: an instance from the cells of a record by name; raises `BadRow` where they do not make one.
        rejects: collects bad records.

    Raises:
        BadInput: a column is missing, the file is damaged or not UTF-8; a bad record where `rejects` is strict.
    """
    reader = csv.reader(io.StringIO(read_text(path), newline=""), strict=True)
    header = next(reader, [])
    missing = [name for name in columns if name not in header]
    if missing:
        reason = f"has no column {', '.join(missing)}"
        raise BadInput(path, reason, record="line 1", value=",".join(header), valid=columns)
    line = reader.line_num + 1
    while True:
        try:
            cells = next(reader, None)
        except csv.Error as error:
            rejects.add(
                path,
                f"line {line}",
                f"a quote is not closed, or text follows a closed one ({error}); nothing after it is read",
            )
            return
        if cells is None:
            return
        first, line = line, reader.line_num + 1
        if not cells:
            continue
        try:
            yield _record(path, header, cells, first, make)
        except BadRow as error:
            rejects.add(path, f"line {first}", str(error), ",".join(cells)[:200])


def _record(
    path: Path,
    header: Sequence[str],
    cells: Sequence[str],
    line: int,
    make: Callable[[dict[str, str]], Instance],
) -> Instance:
    if any(_SWALLOWED.search(cell) for cell in cells):
        raise BadRow("a quote is not closed: a cell holds the records after it")
    if len(cells) != len(header):
        raise BadRow(f"has {len(cells)} columns, not {len(header)}")
    made = make(dict(zip(header, cells, strict=True)))
    return Instance(made.id, made.text, made.label, made.pair, made.group, str(path), line)
