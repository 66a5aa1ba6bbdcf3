"""A run packed to be handed in, and the check of what is handed in.

A submission is one .zip: the records of the runs with their predictions and units, the models' lineage down to the
raw files, and `SUBMISSION.json` with the digest of every file. It holds no gold label and
no text of any dataset, but for the answers that a model took from the texts of questions (SQuAD, BioASQ factoid).
Everything in it is checked against everything else: digests, scores recomputed from the predictions (with the data at
hand), summaries, protocol.
"""

from __future__ import annotations

import hashlib
import json
import math
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

from biosmith.artefact import MANIFEST, digest_file, require_writable, write_by_rename
from biosmith.bench.dataset import Mistake, data_digests
from biosmith.bench.mock import find_task
from biosmith.bench.results import (
    MODEL,
    PREDICTIONS,
    SETTINGS,
    UNITS,
    ModelResults,
    Run,
    TaskResults,
    counted_keys,
    load_results,
    read_record,
)
from biosmith.bench.units import TOLERANCE, load_units, score_units
from biosmith.errors import BadInput, BiosmithError, UsageError
from biosmith.lineage import without_paths
from biosmith.version import __version__

INDEX = "SUBMISSION.json"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # zip's first day: the same results always make the same bytes
LARGEST = 4 << 30  # bytes that a submission may unpack to
# What reading an entry raises that is damaged, encrypted, or compressed as nothing here is.
UNREADABLE = (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, NotImplementedError)


@dataclass(frozen=True)
class Difference:
    """What does not hold: in which file or run, what it says, and what was found."""

    where: str
    what: str
    said: Any
    found: Any

    def __str__(self) -> str:
        return f"{self.where}: {self.what} is said to be {self.said}, found {self.found}"


@dataclass(frozen=True)
class Verified:
    """Outcome of a check.

    Attributes:
        runs: how many there are; `recomputed` of them were scored anew.
        differences: what does not hold.
        unchecked: run or dataset -> why it could not be scored anew.
    """

    runs: int
    recomputed: int
    differences: tuple[Difference, ...]
    unchecked: Mapping[str, str]


def pack(results: Path, out: Path) -> dict[str, Any]:
    """Pack a results folder, or one model of it, into a .zip; the same results make the same bytes.

    Returns:
        `out`, `models`, `runs`, `files`, `bytes`, `digest`.

    Raises:
        UsageError: `out` exists or is no .zip, or there are no results.
        BadInput: a file of a run, or a run that counts, is missing.
    """
    if out.suffix != ".zip":
        raise UsageError(f"{out} must end in .zip")
    if out.exists():
        raise UsageError(f"{out} exists already; choose another --out, or remove it")
    require_writable(out)
    loaded = load_results(results)
    root = loaded.folder
    for model in loaded.models:
        for difference in _missing_runs(model):
            raise BadInput(
                model.folder / Path(difference.where).name,
                f"has {difference.found} of the {difference.said} runs that count; make the others with bench run",
            )
    files = {str(path.relative_to(root)): path for model in loaded.models for path in _files_of(model)}
    for name in (MANIFEST, "plan.json"):
        if (root / name).is_file():
            files[name] = root / name
    for path in files.values():
        if not path.is_file():
            raise BadInput(path, "is missing; the run that it belongs to has to be made again")
    contents = {name: _published(path) for name, path in sorted(files.items())}
    runs = sum(len(task.runs) for model in loaded.models for task in model.tasks.values())
    index = {
        "format": 1,
        "version": __version__,
        "suite": loaded.suite,
        "models": {
            m.model.name: {"digest": m.model.digest, "lineage": without_paths(m.model.lineage) or None}
            for m in loaded.models
        },
        "runs": runs,
        "files": {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()},
    }
    with write_by_rename(out) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
        text = json.dumps(index, indent=2, ensure_ascii=False) + "\n"
        _add(archive, INDEX, text.encode())
        for name, content in contents.items():
            _add(archive, name, content)
    return {
        "out": str(out),
        "models": len(loaded.models),
        "runs": runs,
        "files": len(files),
        "bytes": out.stat().st_size,
        "digest": digest_file(out),
    }


def _published(path: Path) -> bytes:
    """What a file says to others: what names models and data does so without the folders of this machine."""
    content = path.read_bytes()
    if path.name not in (MODEL, MANIFEST):
        return content
    return (json.dumps(without_paths(json.loads(content)), indent=2, ensure_ascii=False) + "\n").encode()


def _files_of(model: ModelResults) -> Iterator[Path]:
    """The files of the runs that count."""
    yield model.folder / MODEL
    for task in model.tasks.values():
        yield task.folder / SETTINGS
        yield from sorted(task.folder.glob("search-*.json"))
        for run in task.runs:
            yield from (task.folder / f"{run.stem}{suffix}" for suffix in (".json", PREDICTIONS, UNITS))


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(name.replace("\\", "/"), _EPOCH)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    archive.writestr(entry, content)


def verify(submission: Path, data: Path | None = None) -> Verified:
    """Check a submission or a results folder.

    Args:
        submission: a .zip of `pack`, or a results folder.
        data: the folder of the datasets; without it (or without a dataset in it) scores are not computed anew, but
            are compared with the units beside the predictions.

    Raises:
        UsageError, BadInput: it is neither.
    """
    with opened(submission) as (folder, differences):
        loaded = load_results(folder)
        unchecked: dict[str, str] = {}
        runs = recomputed = 0
        for model in loaded.models:
            differences += _missing_runs(model)
            for task in model.tasks.values():
                for run in task.runs:
                    runs += 1
                    where = f"{model.model.name}/{task.folder.name}/{run.stem}"
                    differences += _check_files(task, run, where, model)
                    try:
                        differences += _rescore(task, run, where, data)
                        recomputed += 1
                    except _NotHere as error:
                        unchecked[where] = str(error)
        return Verified(runs, recomputed, tuple(differences), unchecked)


class _NotHere(Exception):
    """The data for a run is not at hand."""


@contextmanager
def opened(submission: Path) -> Iterator[tuple[Path, list[Difference]]]:
    """The folder of a submission, and what its index does not agree with."""
    if submission.is_dir():
        yield submission, []
        return
    if not zipfile.is_zipfile(submission):
        what = "is no .zip" if submission.exists() else "does not exist"
        raise UsageError(
            f"{submission} {what}; expected what `biosmith bench submit` made, or a results folder"
        )
    try:
        archive = zipfile.ZipFile(submission)
    except UNREADABLE as error:
        raise BadInput(submission, f"is a damaged archive: {error}") from error
    with TemporaryDirectory(prefix="biosmith-") as name, archive:
        folder = Path(name)
        yield folder, _unpack(archive, folder, submission)


def _unpack(archive: zipfile.ZipFile, folder: Path, submission: Path) -> list[Difference]:
    if sum(entry.file_size for entry in archive.infolist()) > LARGEST:
        raise BadInput(submission, f"would unpack to more than {LARGEST:,} bytes")
    try:
        index = json.loads(archive.read(INDEX))
        listed = {str(name): str(digest) for name, digest in index["files"].items()}
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError, *UNREADABLE) as error:
        raise BadInput(submission, f"has no readable {INDEX}: {error}") from error
    there = Counter(entry.filename for entry in archive.infolist() if not entry.is_dir())
    differences = []
    for name in sorted({*listed, *there, INDEX}):
        if there[name] > 1:  # which of them is read depends on who reads
            differences.append(Difference(name, "the file", "in the archive once", f"{there[name]} times"))
        if name == INDEX:
            continue
        if name not in listed:
            differences.append(Difference(name, "the file", "absent", "in the archive"))
            continue
        try:
            content = archive.read(name)
        except (KeyError, *UNREADABLE):
            differences.append(Difference(name, "the file", "in the archive", "absent or damaged"))
            continue
        found = hashlib.sha256(content).hexdigest()
        if found != listed[name]:
            differences.append(Difference(name, "its digest", listed[name][:12], found[:12]))
        path = folder / name
        if PurePosixPath(name).as_posix() != name or not path.resolve().is_relative_to(folder.resolve()):
            raise BadInput(submission, "holds a file that would lie outside its folder", value=name)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        except (OSError, ValueError) as error:  # a name that no file may have, or that of a folder
            raise BadInput(
                submission, f"holds a file that cannot be unpacked: {error}", value=name
            ) from error
    return differences


def _missing_runs(model: ModelResults) -> list[Difference]:
    """Datasets that have fewer runs than count: a mean over chosen seeds is not the model's."""
    found = {task.folder: {run.key for run in task.runs} for task in model.tasks.values()}
    differences = []
    for path in sorted(model.folder.glob(f"*/{SETTINGS}")):
        keys = counted_keys(read_record(path), path)
        there = len(keys & found.get(path.parent, set()))
        if there < len(keys):
            where = f"{model.model.name}/{path.parent.name}"
            differences.append(Difference(where, "the number of its runs", len(keys), there))
    return differences


def _check_files(task: TaskResults, run: Run, where: str, model: ModelResults) -> list[Difference]:
    """Digests that the record gives, the record's own numbers, and the model."""
    differences = []
    for name, suffix in (("predictions", PREDICTIONS), ("units", UNITS)):
        path = task.folder / f"{run.stem}{suffix}"
        found = digest_file(path) if path.is_file() else "nothing"
        if found != run.digests.get(name):
            said = str(run.digests.get(name, "nothing"))
            differences.append(Difference(where, f"the digest of its {name}", said[:12], found[:12]))
    if run.model_digest != model.model.digest:
        differences.append(Difference(where, "its model", run.model_digest[:12], model.model.digest[:12]))
    if run.settings != task.chosen.get("settings"):
        differences.append(Difference(where, "its settings", task.chosen.get("settings"), dict(run.settings)))
    differences += _differing(where, "value", run.scores.get("value"), run.value)
    try:
        claimed = load_units(task.folder / f"{run.stem}{UNITS}").score
    except BadInput as error:
        return [*differences, Difference(where, "the units", "readable", str(error))]
    return differences + _differing(where, "value of its units", run.value, claimed)


def _rescore(task: TaskResults, run: Run, where: str, data: Path | None) -> list[Difference]:
    """Score the predictions anew.

    Raises:
        _NotHere: the data is not at hand.
    """
    try:
        dataset = find_task(run.dataset)
        if data is None:
            raise _NotHere("no --data to score the predictions against")
        digests = data_digests(dataset, data, dataset.about.evaluated)
        if not digests:
            raise _NotHere(f"{data} has no {dataset.about.evaluated} split of {run.dataset}")
        gold = dataset.load(data, dataset.about.evaluated)
    except UsageError as error:
        raise _NotHere(str(error)) from error
    if digests != run.protocol.get("files"):
        return [Difference(where, "the data it was scored on", run.protocol.get("files"), digests)]
    try:
        lines = task.predictions(run)
        values = [prediction for _, prediction in lines]
        if [name for name, _ in lines] != dataset.names(gold):
            return [Difference(where, "the list of instances", "the dataset's", "another")]
        scores = dataset.score(gold, values)
        units = score_units(dataset, gold, values, scores)
    except (Mistake, BiosmithError, ValueError, KeyError, TypeError, OSError) as error:
        return [Difference(where, "its predictions", "readable", f"{type(error).__name__}: {error}")]
    differences = _differing(where, "value", run.value, float(scores["value"]))
    for name, value in scores.items():
        if isinstance(value, int | float) and name != "value":
            differences += _differing(where, name, run.scores.get(name), value)
    differences += _differing(where, "instances", run.instances, len(values))
    try:
        saved = load_units(task.folder / f"{run.stem}{UNITS}")
    except BadInput:
        return differences  # `_check_files` has told
    if saved.rows.shape != units.rows.shape or abs(saved.rows - units.rows).max(initial=0) > TOLERANCE:
        differences.append(Difference(where, "the units", "those of its predictions", "others"))
    return differences


def _differing(where: str, what: str, said: Any, found: float) -> list[Difference]:
    same = isinstance(said, int | float) and math.isclose(said, found, abs_tol=TOLERANCE)
    return [] if same else [Difference(where, what, said, found)]


def verified_dict(result: Verified) -> dict[str, Any]:
    """For JSON."""
    return {
        "runs": result.runs,
        "recomputed": result.recomputed,
        "sound": not result.differences,
        "differences": [vars(d) for d in result.differences],
        "unchecked": dict(result.unchecked),
    }


def verified_lines(result: Verified) -> Sequence[str]:
    """For people."""
    lines = [f"{result.recomputed:,} of {result.runs:,} runs were scored anew from their predictions"]
    lines += [str(difference) for difference in result.differences]
    reasons = dict.fromkeys(result.unchecked.values())
    lines += [
        f"{sum(r == reason for r in result.unchecked.values()):,} runs not scored anew: {reason}"
        for reason in reasons
    ]
    lines.append(
        "Sound: nothing differs" if not result.differences else f"{len(result.differences):,} differences"
    )
    return lines
