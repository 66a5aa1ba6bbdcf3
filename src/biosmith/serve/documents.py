"""Requests to documents, and documents to answers; nothing in a request names a file of this machine."""

from __future__ import annotations

import io
import logging
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, get_args

from biosmith.errors import BadInput
from biosmith.rejects import Rejects
from biosmith.serve.schemas import AnnotateRequest, ConvertRequest, DocumentIn, Failed, ReadFormat
from biosmith.serve.settings import Limits
from biosmith.text import formats
from biosmith.text.document import Document
from biosmith.text.formats.jsonl import NotADocument, from_json, to_json
from biosmith.text.formats.tables import TEXTS, named

READ: tuple[str, ...] = get_args(ReadFormat)
# format -> (suffix of its files, media type)
WRITTEN = {
    "bioc-json": (".bioc.json", "application/json"),
    "bioc-xml": (".bioc.xml", "application/xml"),
    "pubtator": (".pubtator", "text/plain"),
    "jsonl": (".jsonl", "application/x-ndjson"),
    "conll": (".conll", "text/plain"),
    "html": (".html", "text/html"),
}
NAME = "the request"

log = logging.getLogger("biosmith")


class TooMuch(Exception):
    """More documents or text than one request may hold."""


class Unreadable(Exception):
    """The content is not what the request says."""


class _Allowance:
    """Counts documents and characters against the limits."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.documents = self.characters = 0

    def take(self, characters: int) -> None:
        self.documents += 1
        self.characters += characters
        if self.documents > self.limits.documents:
            raise TooMuch(f"more than {self.limits.documents:,} documents in one request")
        if self.characters > self.limits.characters:
            raise TooMuch(f"more than {self.limits.characters:,} characters in one request")


def from_request(request: AnnotateRequest, limits: Limits) -> tuple[list[Document], list[int], list[Failed]]:
    """The documents of a request, the place of each in it, and those that are none.

    Raises:
        TooMuch: the request is beyond the limits.
    """
    given = request.documents if request.text is None else [DocumentIn(text=request.text)]
    allowance = _Allowance(limits)
    documents: list[Document] = []
    places: list[int] = []
    failed: list[Failed] = []
    for index, item in enumerate(given or ()):
        value = item.model_dump(exclude_none=True)
        allowance.take(sum(_characters(part) for part in value.values()))
        value["id"] = item.id or str(index + 1)
        try:
            documents.append(from_json(value, Rejects(keep=0), NAME, index))
            places.append(index)
        except NotADocument as error:
            failed.append(Failed(index=index, id=item.id, reason=str(error)))
    return documents, places, failed


def _characters(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return max(len(value["text"]), value.get("offset") or 0)
    return sum(_characters(part) for part in value) if isinstance(value, list) else 0


def from_content(
    content: bytes, format: str | None, limits: Limits, name: str = ""
) -> tuple[list[Document], list[Failed]]:
    """The documents of an uploaded file, and the records that are none.

    Args:
        content: not compressed.
        format: None finds it by name and content, as the commands do.
        limits: see `Limits`.
        name: of the file; nothing of this name is opened.

    Raises:
        TooMuch: they are beyond the limits.
        Unreadable: the content is of none of the formats taken here, or of another than the one named.
    """
    head = content[: formats.files.HEAD]
    format = format or formats.recognise(name, head) or formats.recognise(_table_name(head), head) or "plain"
    if format not in READ:
        raise Unreadable(f"a file of format {format} is not taken here; taken: {', '.join(READ)}")
    if head.startswith(b"PK\x03\x04") or head[257:262] == b"ustar":
        raise Unreadable("archives are not taken here; send the files in it one by one")
    module = formats.load_format(format)
    rejects = Rejects(keep=1000)
    allowance = _Allowance(limits)
    documents: list[Document] = []
    file = name or NAME
    try:
        for document in module.read(io.BytesIO(content), rejects, file):
            allowance.take(len(document.text))
            documents.append(document)
    except BadInput as error:
        rejects.add(file, error.record or "file", error.reason)
    except UnicodeError as error:
        rejects.add(file, "file", f"undecodable text: {error}")
    except (TooMuch, MemoryError):
        raise
    except Exception as error:  # a fault of a reader, which costs the rest of the file, as in `annotate`
        log.exception("a file could not be read as %s", format)
        rejects.add(file, "file", f"{type(error).__name__}: {error}")
    failed = [Failed(index=None, id=item["record"], reason=item["reason"]) for item in rejects.items]
    if not documents:
        reason = failed[0].reason if failed else "it holds no document"
        raise Unreadable(f"nothing was read as {format}: {reason}")
    return documents, failed


def _table_name(head: bytes) -> str:
    """A name for content that begins with the header of a table, whose formats go by the suffix; else none."""
    header = head.decode("utf-8", "replace").removeprefix("\ufeff").partition("\n")[0].rstrip("\r")
    for separator, name in (("\t", "table.tsv"), (",", "table.csv"), (";", "table.csv")):
        columns = named([cell.strip('"') for cell in header.split(separator)])
        are_names = len(columns) > 1 and all(column.isidentifier() for column in columns)
        if are_names and not TEXTS.keys().isdisjoint(columns):
            return name
    return ""


def from_answer(request: ConvertRequest, limits: Limits) -> list[Document]:
    """Annotated documents as they were answered, checked against their own text.

    Raises:
        TooMuch: they are beyond the limits.
        Unreadable: a mention is not where it says.
    """
    allowance = _Allowance(limits)
    documents = []
    for index, item in enumerate(request.documents):
        allowance.take(max(len(item.text), *(p.offset for p in item.passages), 0))
        rejects = Rejects(keep=1)
        try:
            document = from_json(item.model_dump(), rejects, NAME, index)
        except (NotADocument, ValueError) as error:
            raise Unreadable(f"document {index}: {error}") from error
        if rejects.count:
            raise Unreadable(f"document {index}: {rejects.items[0]['reason']}")
        documents.append(document)
    return documents


def to_answer(documents: Iterable[Document]) -> list[dict[str, Any]]:
    """Documents as plain values of the answer's form."""
    return [to_json(document) for document in documents]


def to_file(documents: Sequence[Document], format: str) -> tuple[bytes, str, dict[str, int]]:
    """Documents as a file of a format: its content, its media type, and what the format could not hold.

    Raises:
        Unreadable: the format cannot hold the documents at all.
    """
    suffix, media = WRITTEN[format]
    with tempfile.TemporaryDirectory(prefix="biosmith-") as folder:
        path = Path(folder) / f"documents{suffix}"
        try:
            report = formats.write(documents, path, format=format)
        except ValueError as error:
            raise Unreadable(f"cannot be written as {format}: {error}") from error
        return path.read_bytes(), media, dict(report.lost)
