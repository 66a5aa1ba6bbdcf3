"""Run a suite: several models, every dataset, several seeds; what is finished is never repeated.

A run has three steps: look at what is there, let the development split choose among a grid's candidates (where there
are several), and fine-tune and score with every seed. Each step is a list of jobs; a job whose record is there is
skipped, so a run that was killed goes on when it is started again, from the last checkpoint of what it was at.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from biosmith.artefact import MANIFEST, Manifest, describe_files, describe_input, write_json
from biosmith.bench.dataset import Dataset, data_digests
from biosmith.bench.devices import find_devices, run_jobs
from biosmith.bench.grids import Grid, find_grid, fit_kind
from biosmith.bench.jobs import Job, load_split, make_settings, new_job
from biosmith.bench.mock import find_task
from biosmith.bench.model_marks import mark_models
from biosmith.bench.results import MODEL, SETTINGS, ModelMark, Results, load_results
from biosmith.errors import BiosmithError, UsageError
from biosmith.progress import say
from biosmith.tasks.locking import hold

PLAN, WORK = "plan.json", ".work"
SEARCH_SEED = 0


@dataclass(frozen=True)
class Task:
    """One dataset to run, or one arm of an ablation on it.

    Attributes:
        dataset: its name.
        arm: the arm's name; "" outside ablations.
        settings: what the arm sets; it wins over the grid's.
    """

    dataset: str
    arm: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Problem:
    """What could not be run, and why."""

    model: str
    task: str
    reason: str


@dataclass(frozen=True)
class RunReport:
    """What a call did.

    Attributes:
        folder: of the results.
        runs: fine-tuning runs that it made; `kept` those that were there.
        problems: what could not be run.
        seconds: it took.
    """

    folder: Path
    runs: int
    kept: int
    problems: tuple[Problem, ...]
    seconds: float

    @property
    def results(self) -> Results:
        """What lies in the folder now."""
        return load_results(self.folder)


@dataclass
class _Planned:
    """A task of one model, on its way."""

    mark: ModelMark
    task: Task
    dataset: Dataset
    kind: str
    folder: Path
    seeds: int
    candidates: list[dict[str, Any]]
    search: list[Job] = field(default_factory=list)


def run_suite(
    models: Sequence[Path],
    tasks: Sequence[Task] | Mapping[str, Sequence[Task]],
    data: Path,
    out: Path,
    *,
    suite: str,
    seeds: int | None = None,
    grid: str = "fixed",
    device: str = "auto",
    jobs: int = 1,
    override: Mapping[str, Any] | None = None,
    names: Sequence[str] | None = None,
) -> RunReport:
    """Run tasks on models.

    Args:
        models: Hugging Face folders.
        tasks: for every model, or model name -> those of it.
        data: the folder that holds the datasets' folders.
        out: the results folder; what it holds already is kept.
        suite: its name is kept with the results, and decides which grid is the paper's.
        seeds: runs a task, with seeds 0, 1, ...; by default as many as the dataset's paper averages (5 or 10).
        grid: "fixed", "paper", or a name in `grids.GRIDS`.
        device: "auto", "cpu", "cuda", or several separated by commas; a worker process each.
        jobs: runs at once on each device, a worker process each.
        override: settings that win over all others.
        names: of the models in the results; by default those of their folders.

    Raises:
        UsageError: no such model, grid or device; `out` is no results folder, another process is at it,
            or it has runs of another model under the name of one of these; `override` sets what is not the settings'.
    """
    began = time.perf_counter()
    chosen = find_grid(grid, suite)
    devices = find_devices(device) * jobs
    if jobs < 1:
        raise UsageError(f"jobs must be at least 1, not {jobs}")
    if seeds is not None and seeds < 1:
        raise UsageError(f"seeds must be at least 1, not {seeds}")
    if given := {"seed", "device"} & set(override or {}):
        raise UsageError(
            f"override {min(given)!r} has no effect; every seed from 0 is run (seeds), on the device given"
        )
    _require_results_folder(out)
    marks = mark_models(models, names)
    for mark in marks:
        _require_same_model(out / mark.name, mark)
    config = {
        "suite": suite,
        "grid": chosen.name,
        "seeds": seeds,
        "override": dict(override or {}),
        "models": [mark.name for mark in marks],
    }
    work = _Work(data, out, chosen, devices, seeds, dict(override or {}))
    with hold(out / WORK, out):
        write_json(out / PLAN, config)
        for mark in marks:
            write_json(out / mark.name / MODEL, mark)
            work.plan(mark, tasks[mark.name] if isinstance(tasks, Mapping) else tasks)
        work.search()
        work.test()
        _write_manifest(out, config, marks, work.inputs())
    return RunReport(out, work.made, work.kept, tuple(work.problems), time.perf_counter() - began)


class _Work:
    def __init__(
        self,
        data: Path,
        out: Path,
        grid: Grid,
        devices: Sequence[str],
        seeds: int | None,
        override: Mapping[str, Any],
    ) -> None:
        self.data, self.out, self.grid, self.devices = data, out, grid, devices
        self.seeds, self.override = seeds, override
        self.planned: list[_Planned] = []
        self.problems: list[Problem] = []
        self.made = self.kept = 0

    def plan(self, mark: ModelMark, tasks: Sequence[Task]) -> None:
        for task in tasks:
            try:
                self.planned.append(self._plan(mark, task))
            except BiosmithError as error:
                self._tell(mark.name, task, str(error))

    def _plan(self, mark: ModelMark, task: Task) -> _Planned:
        dataset = find_task(task.dataset)
        about, kind = dataset.about, fit_kind(dataset)
        there = dataset.find(self.data)
        for split in ("train", about.evaluated):
            if split not in there:
                raise UsageError(f"{about.name} has no {split} split in {self.data}. {about.source}")
        for split in there:
            data_digests(dataset, self.data, split)  # tells now what is damaged
        size = len(load_split(about.name, self.data, "train"))
        candidates = [
            {**candidate, **task.settings, **self.override}
            for candidate in self.grid.candidates(kind, about.name, size)
        ]
        unique = list({json.dumps(c, sort_keys=True): c for c in candidates}.values())
        for candidate in unique:
            make_settings(kind, candidate, 0, "cpu")
        folder = self.out / mark.name / (about.name + (f"@{task.arm}" if task.arm else ""))
        return _Planned(mark, task, dataset, kind, folder, self.seeds or about.seeds, unique)

    def _job(self, planned: _Planned, settings: Mapping[str, Any], seed: int, split: Any) -> Job:
        mark = planned.mark
        return new_job(
            (Path(mark.path), mark.name, mark.digest),
            planned.dataset,
            self.data,
            planned.kind,
            settings,
            seed,
            split,
            planned.folder,
            self.out / WORK,
            planned.task.arm,
        )

    def search(self) -> None:
        """Score every candidate of a grid on the development split; no test split is opened."""
        for planned in self.planned:
            if len(planned.candidates) > 1:
                planned.search = [self._job(planned, c, SEARCH_SEED, "dev") for c in planned.candidates]
        self._run([job for planned in self.planned for job in planned.search], "candidates")

    def test(self) -> None:
        """Write which settings count, and make the runs with every seed."""
        jobs: list[Job] = []
        for planned in self.planned:
            settings, scores = planned.candidates[0], []
            if planned.search:
                scores = [_read(job.record) for job in planned.search if job.record.is_file()]
                if not scores:
                    self._tell(planned.mark.name, planned.task, "no candidate could be scored")
                    continue
                settings = best_candidate(scores)["settings"]
            runs = [self._job(planned, settings, seed, "test") for seed in range(planned.seeds)]
            write_json(
                planned.folder / SETTINGS,
                {
                    "dataset": planned.dataset.about.name,
                    "arm": planned.task.arm,
                    "kind": planned.kind,
                    "settings": dict(runs[0].settings),
                    "grid": self.grid.name,
                    "source": self.grid.source,
                    "candidates": [{k: s[k] for k in ("settings", "value", "epoch")} for s in scores],
                    "keys": [job.key for job in runs],
                },
            )
            jobs += runs
        there = sum(job.record.is_file() for job in jobs)
        self.kept += there
        if there:
            say(f"{there:,} of {len(jobs):,} runs are there already")
        self.made += self._run(jobs, "runs")

    def _run(self, jobs: Sequence[Job], what: str) -> int:
        """Do jobs; how many were done."""
        waiting = [job for job in jobs if not job.record.is_file()]
        began, finished, failed = time.perf_counter(), 0, 0

        def done(job: Job, problem: str) -> None:
            nonlocal finished, failed
            finished += 1
            if problem:
                failed += 1
                self._tell(job.model_name, Task(job.dataset, job.arm), problem, job.name)
                return
            value = float(_read(job.record)["value"])
            seconds = time.perf_counter() - began
            left = seconds / finished * (len(waiting) - finished)
            split = "dev" if job.split == "dev" else "test"
            say(
                f"{finished:,} of {len(waiting):,} {what}: {job.name}: {split} {100 * value:.2f}; "
                f"about {_duration(left)} left"
            )

        run_jobs(waiting, self.devices, done)
        return finished - failed

    def _tell(self, model: str, task: Task, reason: str, name: str = "") -> None:
        shown = task.dataset + (f"@{task.arm}" if task.arm else "")
        say(f"{name or f'{model}, {shown}'}: {reason}")
        problem = Problem(model, shown, reason)
        if problem not in self.problems:
            self.problems.append(problem)

    def inputs(self) -> list[Path]:
        """The data files that were used."""
        found = [planned.dataset.find(self.data) for planned in self.planned]
        return sorted({path for splits in found for paths in splits.values() for path in paths})


def best_candidate(scores: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The candidate with the best development score; the first of them in the grid's order where several have it."""
    return max(scores, key=lambda s: float(s["value"]))


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes else f"{round(seconds)} s"


def _read(path: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return value


def _require_results_folder(out: Path) -> None:
    """Raise `UsageError` if `out` holds something that is no results folder."""
    if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not (out / PLAN).is_file())):
        raise UsageError(f"{out} exists and is no results folder; choose another --out, or remove it")


def _require_same_model(folder: Path, mark: ModelMark) -> None:
    """Raise `UsageError` if a model's folder in the results has runs of another model of that name."""
    if not (folder / MODEL).is_file() or not any(folder.glob("*/se*-*.json")):
        return
    before = load_results(folder).models[0].model
    if before.digest != mark.digest:
        raise UsageError(
            f"{folder} has runs of another model of that name (digest {before.digest[:12]}, not {mark.digest[:12]}); "
            "choose another --out, or call the model's folder something else"
        )


def _write_manifest(out: Path, config: Any, marks: Sequence[ModelMark], data: Sequence[Path]) -> None:
    inputs = [describe_input(Path(mark.path)) for mark in marks]
    for entry, mark in zip(inputs, marks, strict=True):
        if entry["kind"] == "folder":
            entry |= describe_input(
                next(iter(sorted(Path(mark.path).glob("*.safetensors"))), Path(mark.path))
            )
    inputs += [describe_input(path) for path in data]
    names = [
        str(p.relative_to(out))
        for p in sorted(out.rglob("*"))
        if p.is_file()
        and p.name != MANIFEST
        and not any(part.startswith(".") for part in p.relative_to(out).parts)
    ]
    counts = {
        "models": sum(n.count("/") == 1 and n.endswith(f"/{MODEL}") for n in names),
        "runs": sum("/seed-" in n and n.count(".") == 1 for n in names),
    }
    manifest = Manifest("results", config, inputs=inputs, counts=counts)
    replace(manifest, files=describe_files(out, names)).save(out)
