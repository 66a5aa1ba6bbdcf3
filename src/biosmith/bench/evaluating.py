"""A suite on models from a call: for `biosmith bench run` and `biosmith.evaluate`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.table import Table

from biosmith.bench.dataset import Dataset
from biosmith.bench.mock import FOLDER, MOCK, find_task
from biosmith.bench.model_marks import find_model, folder_name
from biosmith.bench.results import Results, load_results, show_model
from biosmith.bench.runs import RunReport, Task, run_suite
from biosmith.bench.submission import opened
from biosmith.bench.suites import Suite, find_suite
from biosmith.bench.tables import suite_table
from biosmith.errors import BiosmithError, UsageError
from biosmith.progress import say


def evaluate(
    model: str | Path | Sequence[str | Path],
    suite: Suite | Dataset | str,
    seeds: int | None = None,
    *,
    data: str | Path | None = None,
    out: str | Path | None = None,
    grid: str = "fixed",
    device: str = "auto",
    jobs: int = 1,
    **override: Any,
) -> dict[str, Any] | list[dict[str, Any]]:
    """Fine-tune a model on a suite or a dataset with several seeds and score it.

    Args:
        model: a Hugging Face folder or a hub id; or several.
        suite: `biosmith.suite("blurb")`, `biosmith.task("chemprot")`, or the name of a suite.
        seeds: runs a dataset; by default as many as its paper averages (5 or 10).
        data: the folder that holds the datasets' folders, `benchmarks` by default; the mock suite needs none.
        out: results folder, which lets a stopped run go on; none is kept by default.
        grid, device, jobs: see `biosmith bench run`.
        **override: settings that win over all others, such as `epochs=3`.

    Returns:
        What `bench show --json` gives: the suite's score under its name, `groups`, `datasets` (mean, sd, ci95, seeds),
        `missing`, and `problems`: what could not be run, and why. A list of those for several models.

    Raises:
        UsageError: no such model, suite or folder.
        BiosmithError: nothing at all could be run.
    """
    models = [model] if isinstance(model, str | Path) else list(model)
    chosen = _suite(suite)
    with TemporaryDirectory(prefix="biosmith-") as temporary:
        folder = Path(temporary) / "results" if out is None else Path(out)
        report = _run(
            models, chosen, data, folder, seeds=seeds, grid=grid, device=device, jobs=jobs, override=override
        )
        if report.problems and not (report.runs or report.kept):
            raise BiosmithError("; ".join(f"{p.task}: {p.reason}" for p in report.problems))
        told = _by_model(report)
        shown = [
            {**show_model(results, chosen), "problems": told.get(results.model.name, [])}
            for results in load_results(folder).models
        ]
    return shown[0] if isinstance(model, str | Path) else shown


def run_models(
    models: Sequence[str],
    *,
    suite: str,
    data: Path | None,
    out: Path,
    tasks: Sequence[str],
    seeds: int | None,
    grid: str,
    device: str,
    jobs: int = 1,
    override: Sequence[str],
) -> tuple[RunReport, dict[str, Any], Table]:
    """What `bench run` does: the report, the object for `--json`, and the table."""
    if suite == "ablations":
        from biosmith.bench.ablations import run_ablations

        report = run_ablations(
            models,
            data_folder(suite, data),
            out,
            tasks=tasks,
            seeds=seeds,
            grid=grid,
            device=device,
            jobs=jobs,
            override=read_override(override),
        )
        shown, table = show_results(out, suite)
        return report, shown, table
    chosen = find_suite(suite)
    report = _run(
        models,
        chosen,
        data,
        out,
        seeds=seeds,
        grid=grid,
        device=device,
        jobs=jobs,
        override=read_override(override),
        tasks=tasks,
    )
    shown, table = show_results(out, suite)
    return report, shown, table


def show_results(results: Path, suite: str | None) -> tuple[dict[str, Any], Any]:
    """The object for `--json` and the table of a results folder or a submission; of one model its own keys, of several
    `models`."""
    with opened(results) as (folder, differences):
        if differences:
            say(f"{results} was changed after it was packed; `biosmith bench verify` says where")
        return _show(load_results(folder), suite)


def _show(loaded: Results, suite: str | None) -> tuple[dict[str, Any], Any]:
    if (suite or loaded.suite) == "ablations":
        from biosmith.bench.ablations import show_ablations

        return show_ablations(loaded)
    chosen = find_suite(suite or loaded.suite)
    if not loaded.models:
        raise UsageError(f"{loaded.folder} holds no model")
    shown = [show_model(model, chosen) for model in loaded.models]
    table = suite_table(loaded.models, chosen)
    return (shown[0] if len(shown) == 1 else {"suite": chosen.name, "models": shown}), table


def read_override(assignments: Sequence[str]) -> dict[str, Any]:
    """`["epochs=3", "scheme=IO"]` as a mapping; numbers, true, false and null are read as such.

    Raises:
        UsageError: an assignment without "=".
    """
    import json

    values: dict[str, Any] = {}
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals:
            raise UsageError(f"override {assignment!r} is not of the form key=value")
        try:
            values[key.strip()] = json.loads(text)
        except ValueError:
            values[key.strip()] = text.strip()
    return values


def _run(
    models: Sequence[str | Path],
    suite: Suite,
    data: str | Path | None,
    out: Path,
    *,
    tasks: Sequence[str] = (),
    **options: Any,
) -> RunReport:
    names = [name for members in suite.groups.values() for name in members]
    if tasks:
        wanted = {_own_name(_full(task, names)) for task in tasks}
        if other := wanted - set(names):
            raise UsageError(
                f"{', '.join(sorted(other))} is not in suite {suite.name}; valid: {', '.join(names)}"
            )
        names = [name for name in names if name in wanted]
    folder = data_folder(suite.name, data)
    found = [find_model(str(model)) for model in models]
    given = [name if "/" in (name := str(m)) and not Path(name).is_dir() else "" for m in models]
    return run_suite(
        found,
        [Task(name) for name in names],
        folder,
        out,
        suite=suite.name,
        names=_names(found, given),
        **options,
    )


def _full(task: str, names: Sequence[str]) -> str:
    """mock's datasets may be named without "mock-"."""
    return f"mock-{task}" if f"mock-{task}" in names else task


def _own_name(task: str) -> str:
    """A dataset's own name; the task as it is where there is none: what the suite has says more than all datasets."""
    try:
        return find_task(task).about.name
    except UsageError:
        return task


def _names(found: Sequence[Path], hub_ids: Sequence[str]) -> list[str] | None:
    """Names of models in the results: hub ids with their slash replaced; folders keep their own."""
    if not any(hub_ids):
        return None
    return [hub.replace("/", "--") or folder_name(path) for path, hub in zip(found, hub_ids, strict=True)]


def data_folder(suite: str, data: str | Path | None) -> Path:
    """Where the data of a suite lies.

    Raises:
        UsageError: it is not given, and the default is not there.
    """
    if suite == "mock" or suite in MOCK:
        return FOLDER
    folder = Path("benchmarks") if data is None else Path(data)
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder; --data names the folder that holds the datasets' folders")
    return folder


def _suite(suite: Suite | Dataset | str) -> Suite:
    if isinstance(suite, Suite):
        return suite
    return find_suite(suite if isinstance(suite, str) else suite.about.name)


def _by_model(report: RunReport) -> dict[str, list[dict[str, str]]]:
    problems: dict[str, list[dict[str, str]]] = {}
    for problem in report.problems:
        problems.setdefault(problem.model, []).append({"task": problem.task, "reason": problem.reason})
    return problems
