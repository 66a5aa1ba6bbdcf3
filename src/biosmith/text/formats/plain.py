"""Plain text in UTF-8 (or UTF-16 with a byte order mark): one document a file, or one a paragraph or a line.

As one document a file, paragraphs (separated by blank lines) are its passages; offsets count the file's own
characters, line breaks inside a paragraph stay. Documents are named after the file, with the number of the paragraph
or line where there are several.

Written are the texts and nothing else: a passage a line, line breaks in it as spaces, a blank line after each
document; so `read(..., by="paragraph")` finds the documents again. `WriteReport.lost` counts all the rest.
"""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Literal

from biosmith.errors import BadInput
from biosmith.rejects import Rejects
from biosmith.text import files
from biosmith.text.document import Document, Passage
from biosmith.text.formats.report import WriteReport

NAME = "plain"
SUFFIXES = (".txt", ".text")

_NOT_UTF8 = re.compile("[\udc80-\udcff]+")  # as "surrogateescape" decodes such bytes
LARGEST_FILE = 256 * 2**20  # characters of one document; a larger file has to be read by paragraph or line


def read(
    stream: IO[bytes], rejects: Rejects, file: str, *, by: Literal["file", "paragraph", "line"] = "file"
) -> Iterator[Document]:
    """Stream documents.

    Args:
        stream: decompressed text.
        rejects: receives lines and paragraphs that are not UTF-8, where these are the documents.
        file: name for messages, and of the documents.
        by: what a document is.

    Raises:
        BadInput: binary data, or a single document that is too large or not UTF-8.
    """
    text = _decode(stream, file)
    stem = files.stem(file)
    if by == "line":
        for number, line in enumerate(text, 1):
            if line.strip() and _is_text(line, rejects, file, f"line {number}"):
                yield Document.build(f"{stem}-{number}", [Passage("paragraph", line.strip())])
    elif by == "paragraph":
        for number, (_, paragraph) in enumerate(_paragraphs(text), 1):
            if _is_text(paragraph, rejects, file, f"paragraph {number}"):
                yield Document.build(f"{stem}-{number}", [Passage("paragraph", paragraph)])
    else:
        passages, size = [], 0
        for offset, paragraph in _paragraphs(text):
            if bad := _NOT_UTF8.search(paragraph):
                raise BadInput(file, "not UTF-8", value=_shown(paragraph, bad))
            passages.append(Passage("paragraph", paragraph, offset))
            size += len(paragraph)
            if size > LARGEST_FILE:
                raise BadInput(
                    file, f"is more than {LARGEST_FILE:,} characters; read it by paragraph or line"
                )
        if passages:
            try:
                yield Document.at_offsets(stem, passages)
            except ValueError as error:
                raise BadInput(
                    file, "has more blank than other characters; read it by paragraph or line"
                ) from error
        else:
            rejects.add(file, "file", "holds white space only")


def write(documents: Iterable[Document], path: Path) -> WriteReport:
    """Write the texts of documents; what is lost is in the report."""
    report = WriteReport()
    with files.create(path) as stream:
        for document in documents:
            passages = document.passages or (Passage("paragraph", document.text),)
            lines = [" ".join(passage.text.splitlines()) for passage in passages if passage.text.strip()]
            stream.write(("\n".join(lines) + "\n\n").encode())
            report.documents += 1
            report.lost["mentions"] += len(document.mentions)
            report.lost["relations"] += len(document.relations)
            report.lost["ids, kinds, labels and infons"] += 1
    report.lost = +report.lost
    return report


def _is_text(text: str, rejects: Rejects, file: str, record: str) -> bool:
    bad = _NOT_UTF8.search(text)
    if bad is not None:
        rejects.add(file, record, "not UTF-8", _shown(text, bad))
    return bad is None


def _shown(text: str, bad: re.Match[str]) -> str:
    """What stands around bytes that are not UTF-8."""
    return _NOT_UTF8.sub("\ufffd", text[max(0, bad.start() - 40) : bad.end() + 40].strip())


def _decode(stream: IO[bytes], file: str) -> io.TextIOWrapper:
    start = stream.read(4096)
    if start.startswith(codecs.BOM_UTF32_LE):  # which begins as UTF-16 does
        raise BadInput(file, "UTF-32 is not read; save it as UTF-8")
    wide = start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    if b"\0" in start and not wide:
        raise BadInput(file, "binary data, not text")
    joined = io.BufferedReader(_Again(start, stream))
    encoding, errors = ("utf-16", "strict") if wide else ("utf-8-sig", "surrogateescape")
    return io.TextIOWrapper(joined, encoding=encoding, errors=errors, newline="\n")


def _paragraphs(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Offset and text of each run of lines that are not blank, without the last line end."""
    parts: list[str] = []
    position = begin = 0
    for line in lines:
        if line.strip():
            begin = begin if parts else position
            parts.append(line)
        elif parts:
            yield begin, re.sub(r"\r?\n$", "", "".join(parts))
            parts = []
        position += len(line)
    if parts:
        yield begin, re.sub(r"\r?\n$", "", "".join(parts))


class _Again(io.RawIOBase):
    """The bytes that were looked at, and then the rest of the stream."""

    def __init__(self, start: bytes, stream: IO[bytes]) -> None:
        self._start, self._stream = start, stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._start[: len(buffer)] or self._stream.read(len(buffer))
        self._start = self._start[len(data) :]
        buffer[: len(data)] = data
        return len(data)
