"""What a run would take, from a sample that is really read and annotated: hours, disk, shards."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from biosmith.annotate.annotator import Counts
from biosmith.annotate.processes import annotate_here, annotate_in_processes
from biosmith.annotate.units import Chunk, Shard, Unit, list_units, read_chunks
from biosmith.annotate.work import Encoding, Options
from biosmith.errors import BadInput, UsageError
from biosmith.progress import progress, say
from biosmith.rejects import Rejects
from biosmith.text import formats
from biosmith.text.formats.parquet import count_documents

# How long the sample is annotated and documents are counted, and how much of it is only for warming up.
MEASURE_SECONDS, COUNT_SECONDS = 20.0, 20.0
HOURS_OF_A_SHARD = 4.0  # queues of clusters mostly let jobs of a few hours through soon
SAMPLED_UNITS = 8


@dataclass(frozen=True)
class AnnotationPlan:
    """What a run would take.

    Attributes:
        files, bytes: of the input, or of the shard.
        documents: in them; `counted` says whether all were counted, else it is estimated from some files' bytes.
        tokens: pieces to read, over all models.
        documents_per_second, tokens_per_second: measured on `sampled` documents, with the workers asked for.
        hours: for this call, on this machine.
        output_bytes: size of the finished file (JSON lines or Parquet as asked; other formats lie between).
        working_bytes: what the finished part takes beside it until the run ends.
        shards: how many runs would bring each below four hours.
        failed: documents of the sample that failed.
    """

    files: int
    bytes: int
    documents: int
    counted: bool
    tokens: int
    sampled: int
    failed: int
    documents_per_second: float
    tokens_per_second: float
    hours: float
    output_bytes: int
    working_bytes: int
    shards: int
    workers: int

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return asdict(self)


def plan_annotation(
    inputs: Sequence[Path],
    models: Sequence[Path],
    out: Path,
    options: Options | None = None,
    shard: Shard | None = None,
) -> AnnotationPlan:
    """Annotate a sample of the input and say what all of it would take; nothing is written.

    Raises:
        UsageError: as `annotate_files`.
        BadInput: the input has no file, or the sample holds no document.
    """
    options = options or Options()
    writer = formats.find_writer(out, options.format)
    encoding: Encoding = "arrow" if writer == "parquet" else "jsonl"
    units = list_units(inputs, out, shard)
    files = [path for unit in units for path in unit.paths]
    if not files:
        if shard is None:
            raise BadInput(", ".join(map(str, inputs)), "holds no document")
        raise UsageError(f"shard {shard} of these inputs has no file")
    total_bytes = sum(path.stat().st_size for path in files)
    step = units[0].step
    documents_there, counted = _count(files)
    documents = documents_there // step
    sample = _measure(units, models, options, encoding)
    read = sample.counts.documents + sample.counts.failed
    if not read:
        if step > 1 and documents_there:
            raise UsageError(f"shard {shard} of these inputs has no document")
        raise BadInput(files[0], "holds no document")
    if not counted and documents < read:
        documents = read
    seconds = documents / sample.documents_per_second
    working = round(documents * sample.payload_bytes / read)
    return AnnotationPlan(
        files=len(files),
        bytes=total_bytes,
        documents=documents,
        counted=counted,
        tokens=round(documents * sample.counts.tokens / read),
        sampled=read,
        failed=sample.counts.failed,
        documents_per_second=sample.documents_per_second,
        tokens_per_second=sample.counts.tokens / read * sample.documents_per_second,
        hours=seconds / 3600,
        output_bytes=round(documents * sample.written_bytes / read),
        working_bytes=working,
        shards=max(1, math.ceil(seconds / 3600 / HOURS_OF_A_SHARD)),
        workers=options.workers,
    )


@dataclass
class _Sample:
    counts: Counts
    documents_per_second: float
    payload_bytes: int
    written_bytes: int


def _measure(units: Sequence[Unit], models: Sequence[Path], options: Options, encoding: Encoding) -> _Sample:
    """Annotate for a while. The clock runs from the first outcome on, so that loading the models is not in it."""
    say("Annotating a sample")
    clock = _Clock()
    chunks = clock.until(_spread(units), MEASURE_SECONDS)
    if options.workers > 1:
        outcomes = annotate_in_processes(chunks, models, options, encoding)
    else:
        outcomes = annotate_here(chunks, options.open(models), encoding)
    counts, payload, written = Counts(), 0, 0
    first = at = None
    warm = 0
    for outcome in outcomes:
        clock.start()
        at = time.monotonic()
        if first is None:
            first, warm = at, outcome.read
        counts.add(outcome.counts)
        payload += len(outcome.payload)
        written += _written_bytes(outcome.payload, encoding)
    read = counts.documents + counts.failed
    if first is None or at is None:
        return _Sample(counts, math.inf, 0, 0)
    # A sample of one chunk has no second outcome to time; its own seconds are all there is.
    rate = (read - warm) / (at - first) if read > warm and at > first else read / max(counts.seconds, 1e-9)
    return _Sample(counts, rate, payload, written)


def _written_bytes(payload: bytes, encoding: Encoding) -> int:
    if encoding == "jsonl" or not payload:
        return len(payload)
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(pa.ipc.open_stream(payload).read_all(), sink, compression="zstd")
    return len(sink.getvalue())


class _Clock:
    """Starts when the first outcome is there."""

    def __init__(self) -> None:
        self.started: float | None = None

    def start(self) -> None:
        if self.started is None:
            self.started = time.monotonic()

    def until(self, chunks: Iterator[Chunk], seconds: float) -> Iterator[Chunk]:
        for chunk in chunks:
            if self.started is not None and time.monotonic() - self.started > seconds:
                return
            if chunk.documents:
                yield chunk


def _spread(units: Sequence[Unit]) -> Iterator[Chunk]:
    """Chunks from units spread over the input, a chunk of each in turn."""
    chosen = [units[len(units) * i // SAMPLED_UNITS] for i in range(SAMPLED_UNITS)]
    streams = [read_chunks(unit) for unit in dict.fromkeys(chosen)]
    while streams:
        for stream in list(streams):
            chunk = next(stream, None)
            if chunk is None:
                streams.remove(stream)
            else:
                yield chunk


def _count(files: Sequence[Path]) -> tuple[int, bool]:
    """Documents in the files, and whether all were counted; after a while the rest is estimated by bytes."""
    began = time.monotonic()
    documents = bytes_read = 0
    order = sorted(range(len(files)), key=lambda i: (i * 0.6180339887498949) % 1)  # spread over the input
    with progress("Counting documents") as advance:
        for done, index in enumerate(order):
            path = files[index]
            if done and time.monotonic() - began > COUNT_SECONDS:
                total = sum(f.stat().st_size for f in files)
                return round(documents * total / max(1, bytes_read)), False
            found = _documents_in(path)
            documents += found
            bytes_read += path.stat().st_size
            advance(found)
    return documents, True


def _documents_in(path: Path) -> int:
    if path.name.endswith(".parquet"):
        try:
            return count_documents(path)
        except BadInput:
            return 0  # listed when it is read
    return sum(1 for _ in formats.read_file(path, rejects=Rejects()))
