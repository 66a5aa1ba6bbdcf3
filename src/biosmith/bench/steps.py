"""How long has a model to be trained before it is good? The checkpoints of a run, each tuned and scored (Shin et al., 2020,
BioMegatron, Table 6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from biosmith.bench.mock import find_task
from biosmith.bench.results import Results
from biosmith.bench.runs import RunReport, Task, run_suite
from biosmith.errors import UsageError
from biosmith.pretraining.checkpoints import list_checkpoints
from biosmith.pretraining.exporting import export_run

SOURCE = (
    "Shin et al. (2020), Table 6: F1 of the general-domain 1.2b model after more and more steps on PubMed"
)
# Steps -> F1, in percent, as the paper reports them.
REPORTED: dict[str, dict[int, float]] = {
    "BC5-chem": {
        1_000: 63.2,
        10_000: 74.3,
        100_000: 89.7,
        200_000: 89.37,
        300_000: 91.8,
        400_000: 92.1,
        500_000: 91.2,
    },
    "BC5-disease": {
        1_000: 39.4,
        10_000: 63.6,
        100_000: 79.8,
        200_000: 81.2,
        300_000: 79.2,
        400_000: 81.9,
        500_000: 81.8,
    },
    "ChemProt": {
        1_000: 0.0,
        10_000: 34.1,
        100_000: 63.4,
        200_000: 71.1,
        300_000: 70.4,
        400_000: 69.7,
        500_000: 68.3,
    },
}
SUITE = "blurb"  # whose grids and groups count


def run_steps(
    run: Path,
    data: Path,
    out: Path,
    *,
    steps: Sequence[int] = (),
    datasets: Sequence[str] = (),
    models: Path | None = None,
    seeds: int | None = None,
    grid: str = "fixed",
    device: str = "auto",
    jobs: int = 1,
    override: Mapping[str, Any] | None = None,
) -> RunReport:
    """Export checkpoints of a run, tune each on every dataset, and score it.

    Args:
        run: folder of a pretraining run that kept its checkpoints (`keep_checkpoints=0`).
        data, out, seeds, grid, device, jobs, override: see `run_suite`.
        steps: of the checkpoints; all that are there by default.
        datasets: names; those of Table 6 by default.
        models: folder for the exported models; `exports` in the run by default. What is there is used again.

    Raises:
        UsageError: the run has no such checkpoint; the steps that it has are named.
    """
    kept = {int(path.name.removeprefix("step-")): path for path in list_checkpoints(run)}
    if not kept:
        raise UsageError(f"{run} has no checkpoint yet")
    missing = [step for step in steps if step not in kept]
    if missing:
        raise UsageError(
            f"{run} kept no checkpoint of step {missing[0]:,}; it has {', '.join(f'{s:,}' for s in kept)} "
            "(--override keep_checkpoints=0 keeps all)"
        )
    names = [find_task(name).about.name for name in datasets or REPORTED]
    home = run / "exports" if models is None else models
    folders = []
    for step in sorted(set(steps or kept)):
        folder = home / f"step-{step}"
        if not (folder / "manifest.json").is_file():
            export_run(run, folder, step=step)
        folders.append(folder)
    return run_suite(
        folders,
        [Task(name) for name in names],
        data,
        out,
        suite=SUITE,
        seeds=seeds,
        grid=grid,
        device=device,
        jobs=jobs,
        override=override,
    )


def show_steps(results: Results) -> tuple[dict[str, Any], Table]:
    """The object for `--json` and the table: a row a number of steps, a column a dataset."""
    found = {
        int(model.model.name.removeprefix("step-")): model.tasks
        for model in results.models
        if model.model.name.removeprefix("step-").isdigit()
    }
    if not found:
        raise UsageError(f"{results.folder} holds no model called step-N, as `bench steps` names them")
    datasets = list(dict.fromkeys(dataset for tasks in found.values() for dataset, arm in tasks if not arm))
    rows: list[dict[str, Any]] = []
    table = Table(title=SOURCE, title_justify="left", padding=(0, 1))
    table.add_column("steps", justify="right")
    for dataset in datasets:
        table.add_column(dataset, justify="right")
    for step, tasks in sorted(found.items()):
        measured = {dataset: tasks[(dataset, "")].summary() for dataset in datasets if (dataset, "") in tasks}
        reported = {d: REPORTED[d][step] for d in datasets if step in REPORTED.get(d, {})}
        rows.append(
            {
                "step": step,
                "measured": {dataset: summary.as_dict() for dataset, summary in measured.items()},
                "reported": reported,
            }
        )
        cells = []
        for dataset in datasets:
            cell = Text(measured[dataset].shown() if dataset in measured else "–")
            if dataset in reported:
                cell.append(f"\n[reported {reported[dataset]:.1f}]", style="dim")
            cells.append(cell)
        table.add_row(f"{step:,}", *cells)
    table.caption = "measured; below it what the paper reports after as many steps of its own"
    return {"source": SOURCE, "rows": rows}, table
