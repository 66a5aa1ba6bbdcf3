"""Files in, one annotated file out: parts by rename, so that a stopped run goes on and no document comes twice."""

from __future__ import annotations

import itertools
import json
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from biosmith.annotate import load
from biosmith.annotate.annotator import Annotator, Counts, OnLong, chunked
from biosmith.annotate.processes import annotate_in_processes
from biosmith.artefact import Manifest, describe_input, digest_value, write_json
from biosmith.errors import BadInput, BiosmithError, UsageError
from biosmith.progress import progress, say
from biosmith.rejects import Rejects
from biosmith.text import formats
from biosmith.text.document import Document

DOCUMENTS_A_PART = 1000
PLAN = "plan.json"


@dataclass(frozen=True)
class Options:
    """How to annotate; whatever of it changes the result is part of the plan of a run."""

    engine: str = "auto"
    device: str = "auto"
    on_long: OnLong = "window"
    keep: bool = False
    format: str | None = None
    workers: int = 1


@dataclass
class AnnotateReport:
    """What was done.

    Attributes:
        counts: see `Counts`.
        relations: in the output (kept ones; taggers find none).
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
            "tokens": counts.tokens,
            "documents_per_second": (counts.documents - self.before.documents) / seconds,
            "tokens_per_second": (counts.tokens - self.before.tokens) / seconds,
            "set_aside": self.set_aside,
            "lost": dict(self.lost),
        }


def annotate_files(
    inputs: Sequence[Path],
    models: Sequence[Path],
    out: Path,
    options: Options | None = None,
    *,
    resume: bool = False,
) -> AnnotateReport:
    """Annotate the documents of files, folders and archives and write them to one file.

    Documents that fail are listed in `<out>.rejects.jsonl` and the rest goes on. `<out>.manifest.json` says what made
    the file.

    Raises:
        UsageError: `out` exists, its format cannot be written, a model or an input is missing, or there is nothing to
            resume that was begun with these arguments.
        BadInput: no input can be read at all.
    """
    options = options or Options()
    if out.exists():
        raise UsageError(f"{out} exists already; choose another --out, or remove it")
    writer = formats.find_writer(out, options.format)
    formats.find_files(list(inputs))
    nlp = load(
        models, engine=options.engine, device=options.device, on_long=options.on_long, keep=options.keep
    )
    parts = _Parts(out, _plan(inputs, models, options), resume)
    rejects_file = out.with_name(f"{out.name}.rejects.jsonl")
    rejects_file.unlink(missing_ok=True)
    began = time.perf_counter()
    try:
        with Rejects(rejects_file) as rejects:
            report = _run(list(inputs), nlp, models, options, parts, out, writer, rejects)
    except OSError as error:
        if error.filename is not None:
            raise
        kept = "; what is finished is kept, --resume goes on" if parts.finished else ""
        raise BiosmithError(f"{out} could not be written: {error.strerror or error}{kept}") from error
    finally:
        if not parts.finished:
            shutil.rmtree(parts.folder, ignore_errors=True)
    report.set_aside_file = rejects_file if report.set_aside else None
    report.seconds = time.perf_counter() - began
    _save_manifest(out, inputs, models, options, report)
    shutil.rmtree(parts.folder, ignore_errors=True)
    return report


def _plan(inputs: Sequence[Path], models: Sequence[Path], options: Options) -> dict[str, Any]:
    files = [(str(p), p.stat().st_size, p.stat().st_mtime_ns) for p in formats.find_files(list(inputs))]
    settings = {"on_long": options.on_long, "keep": options.keep, "engine": options.engine}
    return {"inputs": files, "models": [describe_input(m) for m in models], **settings}


def _run(
    inputs: list[Path],
    nlp: Annotator,
    models: Sequence[Path],
    options: Options,
    parts: _Parts,
    out: Path,
    writer: str,
    rejects: Rejects,
) -> AnnotateReport:
    report = AnnotateReport(Counts(), before=parts.counts())
    for failed in parts.failures():
        rejects.add("annotate", failed["record"], failed["reason"])
    documents = formats.read(inputs[0] if len(inputs) == 1 else inputs, rejects=rejects)
    source = itertools.islice(documents, parts.documents_read(), None)
    _annotate_parts(source, nlp, models, options, parts, rejects)
    written = _write(parts, out, writer, rejects)
    report.counts = parts.counts()
    report.counts.documents, report.counts.mentions = written.documents, written.mentions
    report.counts.failed += parts.unwritable
    report.relations, report.lost = written.relations, written.lost
    report.set_aside = rejects.count
    return report


def _annotate_parts(
    documents: Iterator[Document],
    nlp: Annotator,
    models: Sequence[Path],
    options: Options,
    parts: _Parts,
    rejects: Rejects,
) -> None:
    with progress("Annotating") as advance:
        advance(parts.documents_read())
        chunks = chunked(documents)
        results = (
            annotate_in_processes(chunks, models, vars(options))
            if options.workers > 1
            else _annotate_here(chunks, nlp)
        )
        for read, done, counts, failures in results:
            for failed in failures:
                rejects.add("annotate", failed["record"], failed["reason"])
            parts.add(read, done, counts, failures)
            advance(read)
        parts.flush()


Result = tuple[int, list[Document], Counts, list[dict[str, str]]]


def _annotate_here(chunks: Iterator[list[Document]], nlp: Annotator) -> Iterator[Result]:
    for chunk in chunks:
        nlp.counts = Counts()
        collected = Rejects()
        done = nlp.annotate_chunk(chunk, collected)
        yield len(chunk), done, nlp.counts, collected.items


class _Parts:
    """What is finished, in a folder beside the output: documents as JSON lines, and beside them what they count.

    A part is there when its `.json` is; both files come by rename, the counts last.
    """

    def __init__(self, out: Path, plan: dict[str, Any], resume: bool) -> None:
        self.folder = out.with_name(f".{out.name}.partial")
        self.unwritable = 0
        digest = {"digest": digest_value(plan)}
        file = self.folder / PLAN
        if resume:
            if not file.is_file():
                raise UsageError(f"there is nothing to resume for {out}; leave --resume out")
            if json.loads(file.read_text(encoding="utf-8")) != digest:
                raise UsageError(f"{out} was begun with other inputs, models or options; leave --resume out")
        else:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder.mkdir(parents=True)
            write_json(file, digest)
        self.finished = [
            json.loads(p.read_text(encoding="utf-8")) for p in sorted(self.folder.glob("part-*.json"))
        ]
        if self.finished:
            say(f"Going on after {self.documents_read():,} documents, as found in {self.folder}")
        self._read, self._done = 0, list[Document]()
        self._counts, self._failures = Counts(), list[dict[str, str]]()

    def documents_read(self) -> int:
        """How many documents of the input are done with, well or not."""
        return sum(part["read"] for part in self.finished)

    def counts(self) -> Counts:
        """The sum over the finished parts."""
        total = Counts()
        for part in self.finished:
            total.add(Counts(**part["counts"]))
        return total

    def failures(self) -> Iterator[dict[str, str]]:
        """Documents of finished parts that could not be annotated."""
        for part in self.finished:
            yield from part["failures"]

    def add(self, read: int, done: list[Document], counts: Counts, failures: list[dict[str, str]]) -> None:
        """Add annotated documents; written when there are enough of them."""
        self._read += read
        self._done += done
        self._counts.add(counts)
        self._failures += failures
        if self._read >= DOCUMENTS_A_PART:
            self.flush()

    def flush(self) -> None:
        """Write what there is as a part."""
        if not self._read:
            return
        stem = f"part-{len(self.finished):06d}"
        formats.write(self._done, self.folder / f"{stem}.jsonl", format="jsonl")
        part = {"read": self._read, "counts": vars(self._counts), "failures": self._failures}
        write_json(self.folder / f"{stem}.json", part)
        self.finished.append(part)
        self._read, self._done = 0, []
        self._counts, self._failures = Counts(), []

    def documents(self) -> Iterator[Document]:
        """All finished documents, in the order of the input."""
        for number in range(len(self.finished)):
            path = self.folder / f"part-{number:06d}.jsonl"
            if path.stat().st_size:
                yield from formats.read(path, format="jsonl", rejects=Rejects(strict=True))


def _write(parts: _Parts, out: Path, writer: str, rejects: Rejects) -> Any:
    """Write the output; if a document breaks the writer, find out which and leave it out, with its reason."""
    if not parts.finished:
        raise BadInput(out, "nothing was read: the inputs hold no document")
    try:
        return formats.write(parts.documents(), out, format=writer)
    except (OSError, MemoryError):
        raise
    except Exception as error:
        say(f"A document breaks the writer ({type(error).__name__}: {error}); looking for it")
        return formats.write(_writable(parts, writer, rejects), out, format=writer)


def _writable(parts: _Parts, writer: str, rejects: Rejects) -> Iterator[Document]:
    trial = parts.folder / f"trial{formats.load_format(writer).SUFFIXES[0]}"
    for document in parts.documents():
        try:
            formats.write([document], trial, format=writer)
        except OSError:
            raise
        except Exception as error:
            parts.unwritable += 1
            rejects.add("write", document.id, f"{type(error).__name__}: {error}")
            continue
        finally:
            shutil.rmtree(trial, ignore_errors=True) if trial.is_dir() else trial.unlink(missing_ok=True)
        yield document


def _save_manifest(
    out: Path, inputs: Sequence[Path], models: Sequence[Path], options: Options, report: AnnotateReport
) -> None:
    """The manifest of a file lies beside it."""
    manifest = Manifest(
        kind="annotations",
        config={"format": options.format, "on_long": options.on_long, "engine": options.engine},
        inputs=[*(describe_input(m) for m in models), *(describe_input(i) for i in inputs)],
        counts=report.as_dict(),
    )
    manifest.save(out.parent, f"{out.name}.manifest.json")
