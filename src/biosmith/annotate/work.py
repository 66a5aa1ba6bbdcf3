"""What a worker does, here, in another process or on another machine: chunks in, annotated and encoded ones out."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from biosmith.annotate import load
from biosmith.annotate.annotator import Annotated, Annotator, Counts, OnLong
from biosmith.annotate.engines import Precision
from biosmith.annotate.units import Chunk
from biosmith.errors import BiosmithError
from biosmith.progress import say
from biosmith.rejects import Rejects
from biosmith.text.document import Document
from biosmith.text.formats.jsonl import dump_line

Encoding = Literal["jsonl", "arrow"]


@dataclass(frozen=True)
class Options:
    """How to annotate; whatever of it changes the result is part of the plan of a run."""

    engine: str = "auto"
    device: str = "auto"
    on_long: OnLong = "window"
    keep: bool = False
    format: str | None = None
    workers: int = 1
    precision: Precision = "auto"
    normalise: bool = False
    link: Path | None = None
    pairs: tuple[str, str] | None = None

    def open(self, models: Sequence[Path], threads: int | None = None) -> Annotator:
        """The annotator of these options, on so many cores; None is all, and says what runs. Raises as `biosmith.load`."""
        nlp = load(
            models,
            engine=self.engine,
            device=self.device,
            on_long=self.on_long,
            keep=self.keep,
            precision=self.precision,
            threads=threads,
            normalise=self.normalise,
            link=self.link,
            pairs=self.pairs,
        )
        if threads is None:
            for name, engine in nlp.engines.items():
                say(f"{name} runs on {engine}")
        return nlp

    def decisive(self) -> dict[str, Any]:
        """Those that change what is found."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("format", "workers")}


@dataclass
class Outcome:
    """What became of a chunk.

    Attributes:
        unit, number, last, rejects: as in the chunk.
        read: documents in the chunk.
        payload: the annotated documents, encoded.
        counts: what was done.
        relations: in the payload.
        failures: documents that could not be annotated or encoded, as `Rejects` lists them.
    """

    unit: int
    number: int
    last: bool
    read: int
    payload: bytes = b""
    counts: Counts = field(default_factory=Counts)
    relations: int = 0
    failures: list[dict[str, str]] = field(default_factory=list)
    rejects: list[dict[str, str]] = field(default_factory=list)

    @staticmethod
    def of(chunk: Chunk) -> Outcome:
        """Nothing done yet."""
        return Outcome(chunk.unit, chunk.number, chunk.last, len(chunk.documents), rejects=chunk.rejects)


def annotate_chunk(nlp: Annotator, chunk: Chunk, encoding: Encoding) -> Outcome:
    """Annotate and encode a chunk; documents that fail at either are listed and left out."""
    if not chunk.documents:
        return Outcome.of(chunk)
    rejects = Rejects(keep=len(chunk.documents))
    nlp.counts = Counts()
    done = nlp.annotate_chunk(chunk.documents, rejects)
    return encode_chunk(chunk, Annotated(done, nlp.counts, rejects.items), encoding)


def encode_chunk(chunk: Chunk, done: Annotated, encoding: Encoding) -> Outcome:
    """The outcome of a chunk that was annotated."""
    outcome = Outcome.of(chunk)
    if not chunk.documents:
        return outcome
    began = time.perf_counter()
    rejects = Rejects(keep=len(chunk.documents))
    encoded, outcome.payload = _encoded(done.documents, ENCODERS[encoding], rejects)
    outcome.counts, outcome.failures = done.counts, [*done.failures, *rejects.items]
    outcome.counts.documents = len(encoded)
    outcome.counts.mentions = sum(len(d.mentions) for d in encoded)
    outcome.counts.failed = len(chunk.documents) - len(encoded)
    outcome.counts.seconds += time.perf_counter() - began
    outcome.relations = sum(len(d.relations) for d in encoded)
    return outcome


def lost_chunk(chunk: Chunk, reason: str) -> Outcome:
    """The outcome of a chunk none of whose documents could be annotated."""
    outcome = Outcome.of(chunk)
    outcome.failures = [{"file": "annotate", "record": d.id, "reason": reason} for d in chunk.documents]
    outcome.counts.failed = len(chunk.documents)
    return outcome


def join_outcomes(outcomes: Sequence[Outcome]) -> Outcome:
    """The outcomes of the parts of a chunk, in order, as that of the chunk."""
    whole = outcomes[0]
    for part in outcomes[1:]:
        whole.read += part.read
        whole.payload += part.payload
        whole.counts.add(part.counts)
        whole.relations += part.relations
        whole.failures += part.failures
    return whole


def _encoded(
    documents: list[Document], encode: Callable[[Sequence[Document]], bytes], rejects: Rejects
) -> tuple[list[Document], bytes]:
    """The documents that can be encoded, and their code; the others go to `rejects`."""
    try:
        return documents, encode(documents)
    except MemoryError:
        raise
    except Exception:
        good = [d for d in documents if _is_encodable(d, encode, rejects)]
        return good, encode(good)


def _is_encodable(
    document: Document, encode: Callable[[Sequence[Document]], bytes], rejects: Rejects
) -> bool:
    try:
        encode([document])
    except Exception as error:
        rejects.add("write", document.id, f"{type(error).__name__}: {error}")
        return False
    return True


def _as_lines(documents: Sequence[Document]) -> bytes:
    return b"".join(dump_line(document) for document in documents)


def _as_table(documents: Sequence[Document]) -> bytes:
    """A table of the Parquet form as a stream of Arrow's."""
    import pyarrow as pa  # here, for it takes a while to load and most runs do without it

    from biosmith.text.formats.parquet import to_table

    if not documents:
        return b""
    table = to_table(documents)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


ENCODERS: dict[Encoding, Callable[[Sequence[Document]], bytes]] = {"jsonl": _as_lines, "arrow": _as_table}

# In a worker process: the annotator, or why it could not be opened.
_opened: Annotator | BiosmithError | None = None
_encoding: Encoding = "jsonl"


def begin(models: Sequence[Path], options: Options, encoding: Encoding, threads: int) -> None:
    """Open the annotator of this process; an error is kept for the first chunk, which can report it."""
    global _opened, _encoding
    _encoding = encoding
    try:
        _opened = options.open(models, threads)
    except BiosmithError as error:
        _opened = error


def work(chunk: Chunk) -> Outcome:
    """Annotate a chunk with the annotator of this process. Raises what opening it raised."""
    if isinstance(_opened, BiosmithError):
        raise _opened
    assert _opened is not None, "begin was not called in this process"
    return annotate_chunk(_opened, chunk, _encoding)
