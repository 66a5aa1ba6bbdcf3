"""Parquet: the one columnar schema that corpus shards, annotated documents and the token stage share.

Lossless for every `Document`. A row is a document:

| column | type | what |
|---|---|---|
| id | string | name of the document |
| passages | list of (kind, text, offset, label, infons) | the text; offsets in code points |
| mentions | list of (start, end, text, type, score, ids, fragments, id, infons) | score is null for gold |
| relations | list of (type, arguments, score, id, infons) | an argument is (role, target) |
| infons | map string -> string | what else the source says of the document |
| text | string | null wherever the passages at their offsets, gaps filled with spaces, are the whole text |

`iterate_texts` reads nothing but the passages' texts; `ParquetWriter` streams documents into row groups.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import IO, Any, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from biosmith.artefact import write_by_rename
from biosmith.errors import BadInput
from biosmith.rejects import Rejects
from biosmith.text.document import Argument, Document, Mention, Passage, Relation, fragment_text
from biosmith.text.formats.mentions import place_mention
from biosmith.text.formats.report import WriteReport

NAME = "parquet"
SUFFIXES = (".parquet",)

_INFONS = pa.map_(pa.string(), pa.string())
_PASSAGE = pa.struct(
    [
        ("kind", pa.string()),
        ("text", pa.string()),
        ("offset", pa.int32()),
        ("label", pa.string()),
        ("infons", _INFONS),
    ]
)
_FRAGMENT = pa.struct([("start", pa.int32()), ("end", pa.int32())])
_MENTION = pa.struct(
    [
        ("start", pa.int32()),
        ("end", pa.int32()),
        ("text", pa.string()),
        ("type", pa.string()),
        ("score", pa.float64()),
        ("ids", pa.list_(pa.string())),
        ("fragments", pa.list_(_FRAGMENT)),
        ("id", pa.string()),
        ("infons", _INFONS),
    ]
)
_ARGUMENT = pa.struct([("role", pa.string()), ("target", pa.string())])
_RELATION = pa.struct(
    [
        ("type", pa.string()),
        ("arguments", pa.list_(_ARGUMENT)),
        ("score", pa.float64()),
        ("id", pa.string()),
        ("infons", _INFONS),
    ]
)
SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("passages", pa.list_(_PASSAGE)),
        pa.field("mentions", pa.list_(_MENTION)),
        pa.field("relations", pa.list_(_RELATION)),
        pa.field("infons", _INFONS),
        pa.field("text", pa.string()),
    ]
)

# A row group is closed at either bound, so that memory stays flat for abstracts and for full texts.
DOCUMENTS_IN_A_GROUP = 4096
CHARACTERS_IN_A_GROUP = 16 * 2**20


class ParquetWriter:
    """Stream documents into one Parquet file, row group by row group.

    A context manager: the file appears under its name only when the block ends without an error.

    Args:
        path: the file to write.
        compression: any codec of Parquet.

    Attributes:
        report: what was written so far.
    """

    def __init__(self, path: Path, *, compression: str = "zstd") -> None:
        self.path, self.compression = Path(path), compression
        self.report = WriteReport()
        self._waiting: list[Document] = []
        self._characters = 0
        self._rename: AbstractContextManager[Path] = write_by_rename(self.path)
        self._file: pq.ParquetWriter | None = None

    def __enter__(self) -> ParquetWriter:
        temporary = self._rename.__enter__()
        self._file = pq.ParquetWriter(temporary, SCHEMA, compression=self.compression)
        return self

    def write(self, document: Document) -> None:
        """Add one document."""
        self._waiting.append(document)
        self._characters += len(document.text)
        self.report.add(document)
        if len(self._waiting) >= DOCUMENTS_IN_A_GROUP or self._characters >= CHARACTERS_IN_A_GROUP:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            assert self._file is not None, "ParquetWriter is used outside its with block"
            self._file.write_table(to_table(self._waiting), row_group_size=len(self._waiting))
        self._waiting, self._characters = [], 0

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._flush()
            if self._file is not None:
                self._file.close()
        except BaseException as failure:
            self._rename.__exit__(type(failure), failure, failure.__traceback__)
            raise
        self._rename.__exit__(kind, error, trace)


def write(documents: Iterable[Document], path: Path) -> WriteReport:
    """Write documents as one Parquet file; nothing is lost."""
    with ParquetWriter(path) as writer:
        for document in documents:
            writer.write(document)
    return writer.report


def read(stream: IO[bytes], rejects: Rejects, file: str) -> Iterator[Document]:
    """Stream documents, one row group in memory at a time.

    Args:
        stream: of the file; copied to disk where it cannot seek.
        rejects: receives rows that are no documents, and mentions that are not where the row says.
        file: name for messages.

    Raises:
        BadInput: not a Parquet file, or one without the columns of the schema.
    """
    number = 0
    with _open(stream, file) as parquet:
        for batch in _batches(parquet, file, SCHEMA.names, DOCUMENTS_IN_A_GROUP // 4):
            columns = {name: batch.column(name).to_pylist() for name in batch.schema.names}
            for row in range(batch.num_rows):
                number += 1
                record = f"row {number}, {columns['id'][row]}"
                try:
                    document = _document({name: values[row] for name, values in columns.items()})
                    right = all(_is_placed(mention, document.text) for mention in document.mentions)
                except (ValueError, TypeError, KeyError) as error:
                    rejects.add(file, record, "is no document", f"{type(error).__name__}: {error}")
                    continue
                yield document if right else _with_placed(document, rejects, file, record)


def _is_placed(mention: Mention, text: str) -> bool:
    """Whether a mention is what the text says at its fragments."""
    starts, ends = zip(*mention.fragments, strict=True)
    return (
        mention.text == fragment_text(text, mention.fragments)
        and 0 <= mention.start == min(starts)
        and mention.end == max(ends)
    )


def _with_placed(document: Document, rejects: Rejects, file: str, record: str) -> Document:
    """The document with the mentions that lie in its text, each with the text that it covers."""
    mentions = [
        place_mention(
            document.text,
            m.fragments,
            m.text,
            rejects=rejects,
            file=file,
            record=record,
            type=m.type,
            score=m.score,
            ids=m.ids,
            id=m.id,
            infons=m.infons,
        )
        for m in document.mentions
    ]
    return replace(document, mentions=tuple(m for m in mentions if m is not None))


def iterate_texts(
    path: Path, batch: int = 1024, row_groups: Sequence[int] | None = None
) -> Iterator[list[list[str]]]:
    """The passages' texts of each document, `batch` documents at a time, without making `Document`s.

    A document that has text but no passages gives its text as the only one. `row_groups` reads only those.

    Raises:
        BadInput: not a Parquet file of this schema.
    """
    with _open(path, str(path)) as parquet:
        for records in _batches(
            parquet, str(path), ["id", "passages.list.element.text", "text"], batch, row_groups
        ):
            passages = records.column("passages")
            texts = passages.flatten().field("text").to_pylist()
            ends = pc.list_value_length(passages).fill_null(0).to_numpy(zero_copy_only=False).cumsum()
            starts = [0, *ends.tolist()]
            found = [texts[start:end] for start, end in pairwise(starts)]
            if "text" in records.schema.names and records.column("text").null_count < records.num_rows:
                whole = records.column("text").to_pylist()
                found = [parts or ([text] if text else []) for parts, text in zip(found, whole, strict=True)]
            yield found


def iterate_ids(path: Path, batch: int = 16_384) -> Iterator[list[str]]:
    """The documents' ids, `batch` at a time, in the order of the file.

    Raises:
        BadInput: not a Parquet file of this schema.
    """
    with _open(path, str(path)) as parquet:
        for records in _batches(parquet, str(path), ["id"], batch):
            yield records.column("id").to_pylist()


def count_documents(path: Path) -> int:
    """Number of documents, from the file's footer alone.

    Raises:
        BadInput: not a Parquet file.
    """
    with _open(path, str(path)) as parquet:
        return int(parquet.metadata.num_rows)


def count_by_row_group(path: Path) -> list[int]:
    """Number of documents in each row group, from the file's footer alone.

    Raises:
        BadInput: not a Parquet file.
    """
    with _open(path, str(path)) as parquet:
        metadata = parquet.metadata
        return [int(metadata.row_group(number).num_rows) for number in range(metadata.num_row_groups)]


def looks_like(head: bytes) -> bool:
    """Whether the first bytes are those of a Parquet file."""
    return head.startswith(b"PAR1")


@contextlib.contextmanager
def _open(source: IO[bytes] | Path, file: str) -> Iterator[pq.ParquetFile]:
    """Parquet is read from its end: a stream that cannot seek is copied to disk first."""
    with contextlib.ExitStack() as stack:
        if not isinstance(source, Path) and not source.seekable():
            copy = stack.enter_context(tempfile.TemporaryFile())
            shutil.copyfileobj(source, copy, 2**20)
            source = cast("IO[bytes]", copy)
        try:
            parquet = stack.enter_context(pq.ParquetFile(source))
        except (pa.ArrowInvalid, pa.ArrowIOError, EOFError) as error:
            raise BadInput(file, f"is not a readable Parquet file: {_first_line(error)}") from error
        yield parquet


def _batches(
    parquet: pq.ParquetFile,
    file: str,
    columns: Sequence[str],
    size: int,
    row_groups: Sequence[int] | None = None,
) -> Iterator[pa.RecordBatch]:
    present = parquet.schema_arrow.names
    wanted = [c for c in columns if c.partition(".")[0] in present]
    if "passages" not in present or "id" not in present:
        raise BadInput(file, "is not a Parquet file of documents", value=present, valid=SCHEMA.names)
    try:
        yield from parquet.iter_batches(batch_size=size, columns=wanted, row_groups=row_groups)
    except (pa.ArrowInvalid, pa.ArrowIOError, pa.ArrowNotImplementedError) as error:
        raise BadInput(file, f"is damaged: {_first_line(error)}") from error


def _first_line(error: BaseException) -> str:
    return str(error).split("\n", 1)[0]


def to_table(documents: Sequence[Document]) -> pa.Table:
    """Documents as one Arrow table of `SCHEMA`, built column by column."""
    passages = [p for d in documents for p in d.passages]
    mentions = [m for d in documents for m in d.mentions]
    relations = [r for d in documents for r in d.relations]
    columns = [
        pa.array([d.id for d in documents], pa.string()),
        _lists([len(d.passages) for d in documents], _passages(passages)),
        _lists([len(d.mentions) for d in documents], _mentions(mentions)),
        _lists([len(d.relations) for d in documents], _relations(relations)),
        _maps([d.infons for d in documents]),
        pa.array([d.text if not _is_laid_out(d) else None for d in documents], pa.string()),
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def _passages(passages: Sequence[Passage]) -> pa.Array:
    return _structs(
        _PASSAGE,
        [p.kind for p in passages],
        [p.text for p in passages],
        [p.offset for p in passages],
        [p.label for p in passages],
        _maps([p.infons for p in passages]),
    )


def _mentions(mentions: Sequence[Mention]) -> pa.Array:
    fragments = [f for m in mentions for f in m.fragments]
    return _structs(
        _MENTION,
        [m.start for m in mentions],
        [m.end for m in mentions],
        [m.text for m in mentions],
        [m.type for m in mentions],
        [m.score for m in mentions],
        _lists([len(m.ids) for m in mentions], pa.array([i for m in mentions for i in m.ids], pa.string())),
        _lists(
            [len(m.fragments) for m in mentions],
            _structs(_FRAGMENT, [f[0] for f in fragments], [f[1] for f in fragments]),
        ),
        [m.id for m in mentions],
        _maps([m.infons for m in mentions]),
    )


def _relations(relations: Sequence[Relation]) -> pa.Array:
    arguments = [a for r in relations for a in r.arguments]
    return _structs(
        _RELATION,
        [r.type for r in relations],
        _lists(
            [len(r.arguments) for r in relations],
            _structs(_ARGUMENT, [a.role for a in arguments], [a.target for a in arguments]),
        ),
        [r.score for r in relations],
        [r.id for r in relations],
        _maps([r.infons for r in relations]),
    )


def _structs(kind: pa.StructType, *columns: Any) -> pa.Array:
    arrays = [
        column if isinstance(column, pa.Array) else pa.array(column, field.type)
        for column, field in zip(columns, kind, strict=True)
    ]
    return pa.StructArray.from_arrays(arrays, fields=list(kind))


def _lists(lengths: Sequence[int], values: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(_offsets(lengths), values)


def _maps(infons: Sequence[Mapping[str, str]]) -> pa.Array:
    keys = [key for one in infons for key in one]
    items = [value for one in infons for value in one.values()]
    offsets = _offsets([len(one) for one in infons])
    return pa.MapArray.from_arrays(offsets, pa.array(keys, pa.string()), pa.array(items, pa.string()))


def _offsets(lengths: Sequence[int]) -> pa.Array:
    ends = [0]
    for length in lengths:
        ends.append(ends[-1] + length)
    return pa.array(ends, pa.int32())


def _is_laid_out(document: Document) -> bool:
    """Whether `Document.text` is nothing but the passages at their offsets and spaces between them."""
    text, position = document.text, 0
    for passage in document.passages:
        gap = text[position : passage.offset]
        if passage.offset < position or gap.strip(" ") or len(gap) != passage.offset - position:
            return False
        if not text.startswith(passage.text, passage.offset):
            return False
        position = passage.end
    return position == len(text)


def _document(row: Mapping[str, Any]) -> Document:
    passages = tuple(
        Passage(p["kind"] or "", p["text"] or "", p["offset"], p.get("label") or "", _infons(p.get("infons")))
        for p in row["passages"] or ()
    )
    mentions = tuple(_mention(m) for m in row.get("mentions") or ())
    relations = tuple(_relation(r) for r in row.get("relations") or ())
    infons = _infons(row.get("infons"))
    text, id = row.get("text"), str(row["id"])  # other programs write whole numbers, too
    if text is not None:
        for passage in passages:
            if passage.offset < 0 or not text.startswith(passage.text, passage.offset):
                raise ValueError(f"a passage is not the document's text at its offset ({passage.offset})")
        return Document(id, text, passages, mentions, relations, infons)
    return Document.at_offsets(id, passages, mentions, relations, infons)


def _mention(m: Mapping[str, Any]) -> Mention:
    return Mention(
        m["start"],
        m["end"],
        m["text"],
        m["type"] or "",
        m["score"],
        tuple(m["ids"] or ()),
        tuple((f["start"], f["end"]) for f in m["fragments"] or ()),
        m["id"] or "",
        _infons(m["infons"]),
    )


def _relation(r: Mapping[str, Any]) -> Relation:
    arguments = tuple(Argument(a["role"], a["target"]) for a in r["arguments"] or ())
    return Relation(r["type"], arguments, r["score"], r["id"] or "", _infons(r["infons"]))


def _infons(pairs: Sequence[tuple[str, str]] | None) -> Mapping[str, str]:
    return dict(pairs or ())
