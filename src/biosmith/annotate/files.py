"""Files in, one annotated file out: exactly once, however often the work was stopped."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from biosmith.annotate.annotator import Counts
from biosmith.annotate.cluster import annotate_on_cluster
from biosmith.annotate.journal import Journal
from biosmith.annotate.processes import annotate_here, annotate_in_processes
from biosmith.annotate.units import Chunk, Shard, Unit, find_inputs, list_units, read_chunks
from biosmith.annotate.work import Encoding, Options, Outcome
from biosmith.artefact import (
    Manifest,
    describe_files,
    describe_input,
    digest_value,
    manifest_beside,
    require_writable,
    write_by_rename,
)
from biosmith.errors import BadInput, BiosmithError, UsageError
from biosmith.progress import progress, say
from biosmith.rejects import Rejects
from biosmith.text import formats
from biosmith.text.document import Document
from biosmith.text.formats.parquet import DOCUMENTS_IN_A_GROUP, SCHEMA

__all__ = ["AnnotateReport", "Options", "annotate_files"]


@dataclass
class AnnotateReport:
    """What was done.

    Attributes:
        counts: see `Counts`.
        relations: in the output.
        set_aside: records that could not be read, and documents that could not be annotated or written.
        set_aside_file: lists them with their reasons; None if there are none.
        lost: what the output format cannot hold -> how often.
        seconds: from the first byte read to the file written, in this call; loading the model is not in it.
        before: what an earlier call had done.
    """

    counts: Counts
    relations: int = 0
    set_aside: int = 0
    set_aside_file: Path | None = None
    lost: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    before: Counts = field(default_factory=Counts)

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        counts = self.counts
        seconds = max(self.seconds, 1e-9)
        return {
            "documents": counts.documents,
            "mentions": counts.mentions,
            "relations": self.relations,
            "failed": counts.failed,
            "windows": counts.windows,
            "truncated": counts.truncated,
            "clipped": counts.clipped,
            "tokens": counts.tokens,
            "unknown_rate": counts.unknown / max(1, counts.tokens),
            "linked": counts.linked,
            "unpaired": counts.unpaired,
            "documents_per_second": (counts.documents - self.before.documents) / seconds,
            "tokens_per_second": (counts.tokens - self.before.tokens) / seconds,
            "set_aside": self.set_aside,
            "lost": dict(self.lost),
        }


@dataclass(frozen=True)
class _Job:
    """One call: what, by what, to where."""

    inputs: list[Path]
    models: list[Path]
    out: Path
    options: Options
    shard: Shard
    cluster: str | None
    writer: str

    @property
    def encoding(self) -> Encoding:
        return "arrow" if self.writer == "parquet" else "jsonl"

    @property
    def rejects_file(self) -> Path:
        return self.out.with_name(f"{self.out.name}.rejects.jsonl")

    @property
    def manifest_file(self) -> Path:
        return manifest_beside(self.out)

    @property
    def used(self) -> list[Path]:
        """What annotates: models, and a vocabulary where there is one."""
        return [*self.models, *([] if self.options.link is None else [self.options.link])]

    def plan(self) -> str:
        """Digest of all that decides the output."""
        inputs = find_inputs(self.inputs, self.out)
        files = [(str(p), p.stat().st_size, p.stat().st_mtime_ns) for p in inputs]
        used = [describe_input(path) for path in self.used]
        made = {"inputs": files, "models": used, "shard": str(self.shard), "format": self.writer}
        return digest_value({**made, **self.options.decisive()})


def annotate_files(
    inputs: Sequence[Path],
    models: Sequence[Path],
    out: Path,
    options: Options | None = None,
    *,
    resume: bool = False,
    shard: Shard | None = None,
    cluster: str | None = None,
) -> AnnotateReport:
    """Annotate the documents of files, folders and archives and write them to one file.

    Documents that fail are listed in `<out>.rejects.jsonl` and the rest goes on. `<out>.manifest.json` says what made
    the file.

    Args:
        inputs: what to read.
        models: tuned taggers.
        out: the file to make.
        options: how.
        resume: go on with a run that was stopped, at whatever moment; begins where there is none, and is done at
            once where the file is finished.
        shard: annotate only this part of the input; every shard needs an `out` of its own.
        cluster: address of a Ray cluster ("auto" for the one this machine belongs to) that does the work; its
            machines must see inputs and models under the same paths.

    Raises:
        UsageError: `out` exists, its format cannot be written, a model or an input is missing, another process is
            making `out`, or what is to be resumed was begun with other arguments.
        BadInput: no input can be read at all.
    """
    options = options or Options()
    writer = formats.find_writer(out, options.format)
    job = _Job(list(inputs), list(models), out, options, shard or Shard(), cluster, writer)
    units = list_units(job.inputs, out, job.shard)
    if options.workers < 1:
        raise UsageError(f"workers is {options.workers}; it must be 1 or more")
    if not out.exists():
        require_writable(out)
    if not job.models:
        raise UsageError("no model was given")
    for model in job.models:
        if not (model / "config.json").is_file():
            what = (
                "has no config.json"
                if model.is_dir()
                else "is no folder"
                if model.exists()
                else "does not exist"
            )
            raise UsageError(f"{model} {what}; expected a tuned model's folder")
    plan = job.plan()
    if resume and (finished := _finished(job, plan)) is not None:
        return finished
    exists = UsageError(f"{out} exists already; choose another --out, or remove it")
    if out.exists() and not (resume and _is_begun(out)):
        raise exists
    annotate = _annotator(job)
    journal = Journal(out, plan, job.encoding, resume)
    try:
        if out.exists() and not journal.finished.chunks:  # another process made it meanwhile
            raise exists
        return _run(job, units, journal, annotate, plan)
    finally:
        if journal.finished.read:
            journal.close()
        else:  # nothing to go on with
            journal.remove()


def _is_begun(out: Path) -> bool:
    return out.with_name(f".{out.name}.partial").is_dir()


def _finished(job: _Job, plan: str) -> AnnotateReport | None:
    """The report of a run that is complete, if this one is."""
    file = job.manifest_file
    if not (job.out.exists() and file.is_file()):
        return None
    try:
        manifest = json.loads(file.read_text(encoding="utf-8"))
        if manifest["config"]["plan"] != plan:
            return None
    except (ValueError, KeyError, TypeError):  # damaged, or not the manifest of annotations
        return None
    say(f"{job.out} is finished already")
    shutil.rmtree(job.out.with_name(f".{job.out.name}.partial"), ignore_errors=True)
    counts = manifest["counts"]
    known = {name: counts[name] for name in vars(Counts()) if name in counts}
    listed = job.rejects_file if counts["set_aside"] else None
    return AnnotateReport(
        Counts(**known),
        counts["relations"],
        counts["set_aside"],
        listed,
        Counter(counts["lost"]),
        before=Counts(**known),
    )


Annotate = Any  # a function from the units and what is done of them to outcomes


def _annotator(job: _Job) -> Annotate:
    """What annotates: this process, several, or a cluster. A model that cannot be opened is found here if possible."""
    options, encoding = job.options, job.encoding
    if job.cluster is not None:
        address = job.cluster
        return lambda units, done: annotate_on_cluster(units, done, job.models, options, encoding, address)
    if options.workers > 1:
        return lambda units, done: annotate_in_processes(_chunks(units, done), job.models, options, encoding)
    nlp = options.open(job.models)
    return lambda units, done: annotate_here(_chunks(units, done), nlp, encoding)


def _chunks(units: Iterable[Unit], done: dict[int, tuple[int, bool]]) -> Iterator[Chunk]:
    """The chunks that are left to do."""
    for unit in units:
        chunks, finished = done.get(unit.number, (0, False))
        if not finished:
            yield from read_chunks(unit, chunks)


def _run(job: _Job, units: list[Unit], journal: Journal, annotate: Annotate, plan: str) -> AnnotateReport:
    for leftover in (*job.out.parent.glob(f".{job.out.name}.*.tmp"), job.rejects_file):
        _remove(leftover)
    _remove(job.manifest_file)
    report = AnnotateReport(Counts(), before=replace(journal.finished.counts))
    began = time.perf_counter()
    with Rejects(job.rejects_file) as rejects:
        _set_aside(journal.listed(), rejects)
        try:
            _annotate(annotate(units, dict(journal.finished.units)), journal, rejects)
            _write(job, journal, report, rejects)
        except OSError as error:
            if error.filename is not None and not str(error.filename).startswith(str(journal.folder)):
                raise
            kept = "; what is finished is kept, --resume goes on" if journal.finished.chunks else ""
            raise BiosmithError(f"{job.out} could not be written: {error.strerror or error}{kept}") from error
    report.set_aside = rejects.count
    report.set_aside_file = job.rejects_file if rejects.count else None
    report.seconds = time.perf_counter() - began
    _save_manifest(job, report, plan)
    journal.remove()
    return report


def _annotate(outcomes: Iterable[Outcome], journal: Journal, rejects: Rejects) -> None:
    with progress("Annotating") as advance:
        advance(journal.finished.read)
        try:
            for outcome in outcomes:
                journal.add(outcome)
                _set_aside(outcome.rejects, rejects)
                _set_aside(outcome.failures, rejects)
                advance(outcome.read)
        finally:
            journal.sync()


def _set_aside(items: Iterable[dict[str, str]], rejects: Rejects) -> None:
    for item in items:
        rejects.add(item["file"], item["record"], item["reason"], item.get("value"))


def _write(job: _Job, journal: Journal, report: AnnotateReport, rejects: Rejects) -> None:
    """The output from the journal, by rename."""
    if not journal.finished.read and job.shard.total == 1:
        first = rejects.items[0] if rejects.items else None
        if first is None:
            raise BadInput(", ".join(map(str, job.inputs)), "holds no document")
        raise BadInput(first["file"], first["reason"])
    report.counts, report.relations = replace(journal.finished.counts), journal.finished.relations
    if job.writer == "parquet":
        _write_tables(journal.tables(), job.out)
    elif job.writer == "jsonl" and job.out.suffix not in formats.files.COMPRESSED:
        _publish(journal.documents_file, job.out)
    else:
        _write_documents(job, journal, report, rejects)


def _write_tables(tables: Iterable[pa.Table], out: Path) -> None:
    with write_by_rename(out) as temporary, pq.ParquetWriter(temporary, SCHEMA, compression="zstd") as file:
        waiting: list[pa.Table] = []
        for table in tables:
            waiting.append(table)
            if sum(t.num_rows for t in waiting) >= DOCUMENTS_IN_A_GROUP:
                file.write_table(pa.concat_tables(waiting))
                waiting = []
        if waiting:
            file.write_table(pa.concat_tables(waiting))


def _publish(documents: Path, out: Path) -> None:
    """The journal's file under the output's name; it stays in the journal too, until the manifest is written."""
    with write_by_rename(out) as temporary:
        try:
            os.link(documents, temporary)
        except OSError:  # a file system without links
            shutil.copyfile(documents, temporary)


def _write_documents(job: _Job, journal: Journal, report: AnnotateReport, rejects: Rejects) -> None:
    """If a document breaks the writer, find out which and leave it out, with its reason."""
    try:
        written = formats.write(journal.documents(), job.out, format=job.writer)
    except (OSError, MemoryError):
        raise
    except Exception as error:
        say(f"A document breaks the writer ({type(error).__name__}: {error}); looking for it")
        before = rejects.count
        written = formats.write(_writable(job, journal, rejects), job.out, format=job.writer)
        report.counts.failed += rejects.count - before
    report.counts.documents, report.counts.mentions = written.documents, written.mentions
    report.relations, report.lost = written.relations, written.lost


def _writable(job: _Job, journal: Journal, rejects: Rejects) -> Iterator[Document]:
    trial = journal.folder / f"trial{formats.load_format(job.writer).SUFFIXES[0]}"
    for document in journal.documents():
        try:
            formats.write([document], trial, format=job.writer)
        except OSError:
            raise
        except Exception as error:
            rejects.add("write", document.id, f"{type(error).__name__}: {error}")
            continue
        finally:
            _remove(trial)
        yield document


def _remove(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


def _save_manifest(job: _Job, report: AnnotateReport, plan: str) -> None:
    """The manifest of a file lies beside it."""
    config = {"format": job.options.format, **job.options.decisive(), "shard": str(job.shard), "plan": plan}
    home = job.out.parent
    made = [p for p in job.out.rglob("*") if p.is_file()] if job.out.is_dir() else [job.out]
    manifest = Manifest(
        kind="annotations",
        config=config,
        inputs=[describe_input(path) for path in (*job.used, *job.inputs)],
        files=describe_files(home, sorted(str(p.relative_to(home)) for p in made)),
        counts=report.as_dict(),
    )
    manifest.save(home, job.manifest_file.name)
