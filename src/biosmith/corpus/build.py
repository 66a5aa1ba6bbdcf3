"""From any mix of files of text to a corpus: a folder of clean, de-duplicated Parquet shards with a manifest.

Three stages: every unit of source files is read, cleaned, filtered and signed by a worker (`intake`); one process
decides what stays (`duplicates`); the shards are written by workers (`shards`). While this goes on the folder holds
`.building/`: the plan, and the intermediate files, each written by rename. They are the journal: whatever is there
under its name is finished, so that a build that was killed at any moment goes on with `resume` and ends with the
same bytes. A build of the same files and options gives the same shards with any number of workers.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from biosmith.artefact import (
    MANIFEST,
    Manifest,
    describe_files,
    describe_input,
    digest_value,
    is_artefact,
    load_manifest,
    require_new_folder,
    to_plain,
    write_by_rename,
)
from biosmith.corpus.duplicates import Records, Selection, select
from biosmith.corpus.exclusion import read_exclusion
from biosmith.corpus.intake import load_summary, read_unit
from biosmith.corpus.options import BuildOptions
from biosmith.corpus.shards import Shard, count_staying, missing, plan_shards, write_shard
from biosmith.corpus.units import Plan, Unit, make_plan, require_same_plan
from biosmith.corpus.workers import Workers
from biosmith.errors import BadInput, BiosmithError, UsageError
from biosmith.processes import hold_output
from biosmith.progress import say
from biosmith.rejects import REJECTS

BUILDING = ".building"
LISTED_INPUTS = 5000  # of more source files the manifest lists folders instead

Sources = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def build_corpus(
    sources: Sources,
    out: str | os.PathLike[str],
    options: BuildOptions | None = None,
    *,
    workers: int | None = 1,
    resume: bool = False,
) -> Manifest:
    """Build a corpus.

    Args:
        sources: files, folders and archives in any format that `biosmith.read` knows.
        out: the folder to make. What it holds is no source, where it lies in one.
        options: what stays; see `BuildOptions`.
        workers: number of processes; None takes the cores there are. In a script, more than one needs the usual
            `if __name__ == "__main__":` guard.
        resume: go on with a build that was stopped; a finished one is left as it is.

    Returns:
        The manifest. Its counts: documents, passages, words, characters (of what stayed); read; duplicates (exact
        and near together, each also alone); filtered (reason -> count); set_aside, with its reasons; boilerplate
        (what cleaning removed from the ends of abstracts). read = documents + duplicates + all that was filtered.

    Raises:
        UsageError: `out` exists and `resume` is not set, or it was begun with other options or sources, or another process
            is making it; a source does not exist.
        BadInput: the sources hold nothing to read; the first bad record if the options are strict.
        BiosmithError: the disk is full; nothing is left after filtering.
    """
    out = Path(out)
    options = options or BuildOptions()
    if not resume:
        _require_free(out)  # before anything is read, which may take long
    exclusion = read_exclusion(options.exclude) if options.exclude else None
    plan = make_plan(sources, options, None if exclusion is None else exclusion.digest, out=out)
    with hold_output(out), Workers(workers) as processes:
        finished = _prepare(out, plan, resume)
        if exclusion is not None and finished is None:
            exclusion.save(out / BUILDING)
        return finished or _run(_Build(out, plan, processes))


def _run(build: _Build) -> Manifest:
    try:
        return build.run()
    except OSError as error:
        if error.errno == errno.ENOSPC or "No space left" in str(error):
            raise BiosmithError(
                f"{build.out}: no space left on the disk; what is finished is kept, --resume goes on"
            ) from error
        raise


def load_counts(folder: str | os.PathLike[str]) -> Mapping[str, Any]:
    """The counts of a corpus; see `build_corpus`.

    Raises:
        UsageError: the folder is not a corpus, or one that is not finished.
    """
    folder = Path(folder)
    if (folder / BUILDING).is_dir() and not (folder / MANIFEST).is_file():
        raise UsageError(f"{folder} is an unfinished corpus; build it again with --resume")
    return load_manifest(folder, "corpus").counts


@dataclass(frozen=True)
class _Reading:
    """Task of the first stage, as it travels to a worker."""

    folder: Path
    options: BuildOptions

    def __call__(self, unit: Unit, advance: Callable[[int], None]) -> None:
        read_unit(unit, self.folder, self.options, advance)


@dataclass(frozen=True)
class _Writing:
    """Task of the third stage."""

    folder: Path
    out: Path

    def __call__(self, shard: Shard, advance: Callable[[int], None]) -> None:
        write_shard(shard, self.folder, self.out, advance)


@dataclass(frozen=True)
class _Build:
    out: Path
    plan: Plan
    workers: Workers

    def run(self) -> Manifest:
        folder, options = self.out / BUILDING, self.plan.options
        units = self.plan.units()
        undone = [unit for unit in units if load_summary(folder, unit) is None]
        if len(undone) < len(units):
            say(f"{len(units) - len(undone)} of {len(units)} parts of the input were read before")
        times = [time.monotonic()]
        self.workers.run(_Reading(folder, options), undone, "Reading")
        times.append(time.monotonic())
        summary = _sum_up(folder, units)
        records = Records(folder, units)
        selection = select(records, deduplicate=options.deduplicate, similarity_threshold=options.similarity)
        counts = self._counts(summary, records, selection)
        if not counts["documents"]:
            raise self._nothing_left(counts)
        times.append(time.monotonic())
        shards = plan_shards(records, selection, folder, options.shard_characters)
        unwritten = missing(shards, self.out)
        total = sum(shard.documents for shard in unwritten)
        self.workers.run(_Writing(folder, self.out), unwritten, "Writing", total)
        _collect_rejects(folder, units, self.out / REJECTS)
        manifest = self._finish(counts, summary["inputs"])
        times.append(time.monotonic())
        seconds = zip(("reading", "choosing", "writing"), (b - a for a, b in pairwise(times)), strict=True)
        say(", ".join(f"{stage} {took:.1f} s" for stage, took in seconds))
        return manifest

    def _counts(self, summary: Mapping[str, Any], records: Records, selection: Selection) -> dict[str, Any]:
        removed = selection.removed
        exact, near = removed["exact duplicate"], removed["near duplicate"]
        filtered = Counter(summary["filtered"])
        filtered.update({reason: n for reason, n in removed.items() if "duplicate" not in reason})
        return {
            **count_staying(records, selection),
            "read": summary["read"],
            "duplicates": exact + near,
            "exact_duplicates": exact,
            "near_duplicates": near,
            "set_aside": sum(summary["set_aside"].values()),
            "set_aside_reasons": dict(sorted(summary["set_aside"].items())),
            "filtered": dict(sorted(filtered.items())),
            "boilerplate": dict(sorted(summary["boilerplate"].items())),
            "buckets_cut": selection.similar_bucket_cuts,
        }

    def _nothing_left(self, counts: Mapping[str, Any]) -> BiosmithError:
        rejected = [json.loads(line) for line in _reject_lines(self.out / BUILDING, self.plan.units())]
        shutil.rmtree(self.out / BUILDING)
        with contextlib.suppress(
            OSError
        ):  # the working directory stays, as does one with something else in it
            self.out.rmdir()
        if counts["read"]:
            reasons = ", ".join(f"{reason}: {count:,}" for reason, count in counts["filtered"].items())
            return BiosmithError(f"no document is left of {counts['read']:,} that were read ({reasons})")
        if len(rejected) == 1:
            return BadInput(rejected[0]["file"], rejected[0]["reason"], record=rejected[0]["record"])
        first = f"; the first: {rejected[0]['file']}: {rejected[0]['reason']}" if rejected else ""
        return BiosmithError(f"no document could be read from {len(self.plan.sources):,} files{first}")

    def _finish(self, counts: Mapping[str, Any], inputs: Sequence[Mapping[str, Any]]) -> Manifest:
        names = sorted(path.name for path in self.out.iterdir() if path.is_file() and path.name[0] != ".")
        files = describe_files(self.out, [name for name in names if name != MANIFEST])
        shards = {name: about["digest"] for name, about in files.items() if name != REJECTS}
        manifest = Manifest(
            kind="corpus",
            config={
                **to_plain(self.plan.options),
                "exclusion": self.plan.exclusion,
                "plan": self.plan.digest,
            },
            inputs=_shorten(_name_artefacts(inputs)),
            files=files,
            counts={**counts, "digest": digest_value(shards)},
        ).save(self.out)
        shutil.rmtree(self.out / BUILDING)
        return manifest


def _prepare(out: Path, plan: Plan, resume: bool) -> Manifest | None:
    """Make the folder, or find out where a stopped build is; a finished one gives its manifest."""
    folder = out / BUILDING
    if not resume:
        _require_free(out)
    if (out / MANIFEST).is_file():
        manifest = load_manifest(out, "corpus")
        if manifest.config.get("plan") != plan.digest:
            raise UsageError(f"{out} is a finished corpus of other sources or options; choose another --out")
        shutil.rmtree(folder, ignore_errors=True)
        return manifest
    if folder.is_dir() and (folder / "plan.json").is_file():
        require_same_plan(folder / "plan.json", plan)
        for leftover in [*out.glob(".*.tmp"), *folder.glob(".*.tmp")]:
            leftover.unlink()
        return None
    if not folder.is_dir():
        require_new_folder(out)
    folder.mkdir(parents=True, exist_ok=True)
    plan.save(folder / "plan.json")
    return None


def _require_free(out: Path) -> None:
    if (out / BUILDING).is_dir() and not (out / MANIFEST).is_file():
        raise UsageError(f"{out} holds an unfinished corpus; go on with --resume, or choose another --out")
    require_new_folder(out)


def _sum_up(folder: Path, units: Sequence[Unit]) -> dict[str, Any]:
    """Counts of all units together."""
    counters: dict[str, Counter[str]] = {
        "filtered": Counter(),
        "boilerplate": Counter(),
        "set_aside": Counter(),
    }
    read, inputs = 0, []
    for unit in units:
        summary = load_summary(folder, unit)
        if summary is None:
            raise BiosmithError(f"{folder / unit.stem}.json is gone; start again with another --out")
        read += summary["read"]
        inputs += summary["inputs"]
        for name, counter in counters.items():
            counter.update(summary[name])
    return {"read": read, "inputs": inputs, **counters}


def _reject_lines(folder: Path, units: Sequence[Unit]) -> Iterator[str]:
    for unit in units:
        with (folder / f"{unit.stem}.rejects.jsonl").open(encoding="utf-8") as stream:
            yield from stream


def _collect_rejects(folder: Path, units: Sequence[Unit], path: Path) -> None:
    lines = _reject_lines(folder, units)
    first = next(lines, None)
    if first is None:
        return
    with write_by_rename(path) as temporary, temporary.open("w", encoding="utf-8") as stream:
        stream.write(first)
        stream.writelines(lines)


def _name_artefacts(inputs: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The inputs, each artefact in place of its files, so that the way back goes on beyond it."""
    folders = {Path(one["path"]).parent for one in inputs}
    artefacts = {folder: load_manifest(folder) for folder in folders if is_artefact(folder)}
    named: dict[str, Mapping[str, Any]] = {}
    for one in inputs:
        path = Path(one["path"])
        held = artefacts[path.parent].files.get(path.name, {}) if path.parent in artefacts else {}
        if held and held.get("digest") == one.get("digest"):
            named.setdefault(str(path.parent), describe_input(path.parent))
        else:
            named[str(path)] = one
    return list(named.values())


def _shorten(inputs: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Inputs as the manifest lists them: file by file, or folder by folder if there are very many."""
    if len(inputs) <= LISTED_INPUTS:
        return inputs
    folders: dict[str, list[Mapping[str, Any]]] = {}
    for one in inputs:
        folders.setdefault(str(Path(one["path"]).parent), []).append(one)
    return [
        {
            "path": path,
            "kind": "folder",
            "files": len(held),
            "bytes": sum(one["bytes"] for one in held),
            "digest": digest_value([[Path(one["path"]).name, one.get("digest")] for one in held]),
        }
        for path, held in folders.items()
    ]
