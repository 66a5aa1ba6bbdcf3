"""Run the papers' ablations on any models, and print them in the papers' layout with the reported figures beside.

The user says which model plays which role: `--model standard=models/mine domain-piece=models/other`. An arm without a
model is left out. An arm is kept under its settings (`DATASET@scheme=IO`), so that arms, ablations and suites that ask
for the same thing share one run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from biosmith.artefact import write_json
from biosmith.bench.ablation_tables import ABLATIONS, Ablation, Arm
from biosmith.bench.dataset import Dataset
from biosmith.bench.datasets import find_dataset
from biosmith.bench.model_marks import find_model, mark_models
from biosmith.bench.results import ModelResults, Results, TaskResults, group_scores
from biosmith.bench.runs import Problem, RunReport, Task, run_suite
from biosmith.bench.statistics import Summary
from biosmith.bench.suites import find_suite
from biosmith.errors import BiosmithError, UsageError
from biosmith.tasks.metrics.bias import answer_bias, label_bias, labelling_statistics, tag_bias

ROLES = "ablations.json"


def run_ablations(
    models: Sequence[str],
    data: Path,
    out: Path,
    *,
    tasks: Sequence[str],
    seeds: int | None,
    grid: str,
    device: str,
    jobs: int = 1,
    override: Mapping[str, Any],
) -> RunReport:
    """Run ablations.

    Args:
        models: `role=folder`; a role may come several times (`bioformer-figure-2`), a model may play several.
        data, out, seeds, grid, device, jobs, override: see `run_suite`.
        tasks: names of ablations, of datasets, or both; () for all that the roles allow.

    Raises:
        UsageError: an unknown role, ablation or dataset.
    """
    chosen, datasets = _chosen(tasks)
    roles: dict[str, list[Path]] = {}
    for model in models:
        role, equals, given = model.partition("=")
        if not equals:
            raise UsageError(
                f"model {model!r} is not of the form role=folder; roles: {', '.join(_roles(chosen))}"
            )
        if role not in _roles(list(ABLATIONS.values())):
            raise UsageError(f"role {role!r} is unknown; valid: {', '.join(_roles(chosen))}")
        roles.setdefault(role, []).append(find_model(given))
    folders = list(dict.fromkeys(folder for paths in roles.values() for folder in paths))
    marks = mark_models(folders)
    names = {folder: mark.name for folder, mark in zip(folders, marks, strict=True)}
    planned: dict[str, list[Task]] = {name: [] for name in names.values()}
    for ablation in chosen:
        for dataset in _of(ablation, datasets):
            for arm in ablation.arms if ablation.kind == "scores" else ():
                settings = {**ablation.settings.get(dataset, {}), **arm.settings}
                task = Task(dataset, arm_name(settings), settings)
                for folder in roles.get(arm.role, ()):
                    if task not in planned[names[folder]]:
                        planned[names[folder]].append(task)
    report = run_suite(
        folders,
        planned,
        data,
        out,
        suite="ablations",
        seeds=seeds,
        grid=grid,
        device=device,
        jobs=jobs,
        override=override,
        names=list(names.values()),
    )
    counted, problems = _count(chosen, datasets, roles, names, data)
    _save_roles(
        out,
        {role: [names[folder] for folder in paths] for role, paths in roles.items()},
        [ablation.name for ablation in chosen],
        counted,
    )
    known = {(p.model, p.task) for p in report.problems}
    extra = tuple(p for p in problems if (p.model, p.task) not in known)
    return RunReport(out, report.runs, report.kept, report.problems + extra, report.seconds)


def arm_name(settings: Mapping[str, Any]) -> str:
    """The name of an arm by what it sets; "" for nothing."""
    return ",".join(f"{key}={value}" for key, value in sorted(settings.items()))


def _chosen(tasks: Sequence[str]) -> tuple[list[Ablation], set[str] | None]:
    """The ablations and the datasets that were asked for; None for all datasets."""
    names = [task for task in tasks if task in ABLATIONS]
    datasets = set()
    for task in tasks:
        if task in ABLATIONS:
            continue
        try:
            datasets.add(find_dataset(task).about.name)
        except UsageError as error:
            raise UsageError(
                f"{task!r} is no ablation and no dataset; ablations: {', '.join(ABLATIONS)}"
            ) from error
    return [ABLATIONS[name] for name in names or ABLATIONS], datasets or None


def _roles(ablations: Sequence[Ablation]) -> list[str]:
    return list(dict.fromkeys(arm.role for a in ablations for arm in a.arms if arm.role))


def _of(ablation: Ablation, datasets: set[str] | None) -> list[str]:
    return [name for name in ablation.datasets if datasets is None or name in datasets]


def _count(
    ablations: Sequence[Ablation],
    datasets: set[str] | None,
    roles: Mapping[str, Sequence[Path]],
    names: Mapping[Path, str],
    data: Path,
) -> tuple[dict[str, dict[str, float]], list[Problem]]:
    """What needs no fine-tuning: ablation -> "dataset@column" -> value in [0, 1] or pieces a word."""
    counted: dict[str, dict[str, float]] = {}
    problems = []
    for ablation in ablations:
        if ablation.kind == "scores":
            continue
        values: dict[str, float] = {}
        for name in _of(ablation, datasets):
            dataset = find_dataset(name)
            try:
                train = dataset.load(data, "train")
                if ablation.kind == "bias":
                    values[f"{name}@"] = _bias(dataset, train)
                for arm in ablation.arms if ablation.kind == "pieces" else ():
                    for folder in roles.get(arm.role, ()):
                        values[f"{name}@{names[folder]}"] = _pieces_per_word(train, folder)
            except BiosmithError as error:
                problems.append(Problem(ablation.name, name, str(error)))
        counted[ablation.name] = values
    return counted, problems


def _bias(dataset: Dataset, train: Sequence[Any]) -> float:
    if dataset.about.task in ("ner", "pico"):
        return tag_bias(sentence.tags for sentence in train)
    if dataset.about.task == "spans":
        # The paper speaks of repeated pairs of a question and its answer (section 5.5).
        return answer_bias(f"{q.text}\t{q.answers[0].text}" for q in train if q.answers)
    return label_bias(str(instance.label) for instance in train)


def _pieces_per_word(train: Sequence[Any], folder: Path) -> float:
    from biosmith.tasks.inputs import InputTransform

    transform = InputTransform(folder)
    pieces = {
        id(s.words): p.end - p.first
        for s, p in zip(train, transform.cut_words([list(s.words) for s in train]), strict=True)
    }
    statistics = labelling_statistics(
        ((s.words, s.tags) for s in train), lambda words: [int(n) for n in pieces[id(words)]]
    )
    return statistics.pieces_per_word


def _save_roles(
    out: Path, roles: Mapping[str, list[str]], chosen: list[str], counted: Mapping[str, Mapping[str, float]]
) -> None:
    """Keep which model plays which role; what earlier calls said is kept too."""
    before = _load_roles(out)
    merged = {
        role: list(dict.fromkeys([*before["roles"].get(role, []), *roles.get(role, [])]))
        for role in dict.fromkeys([*before["roles"], *roles])
    }
    values = {
        name: {**before["counted"].get(name, {}), **counted.get(name, {})}
        for name in dict.fromkeys([*before["counted"], *counted])
    }
    names = list(dict.fromkeys([*before["ablations"], *chosen]))
    write_json(out / ROLES, {"roles": merged, "ablations": names, "counted": values})


def _load_roles(out: Path) -> dict[str, Any]:
    empty: dict[str, Any] = {"roles": {}, "ablations": [], "counted": {}}
    path = out / ROLES
    return {**empty, **json.loads(path.read_text(encoding="utf-8"))} if path.is_file() else empty


def show_ablations(results: Results) -> tuple[dict[str, Any], Any]:
    """The object for `--json` and the tables of all ablations of a results folder that have something measured."""
    saved = _load_roles(results.folder)
    shown: dict[str, Any] = {}
    tables: list[Any] = []
    for name in saved["ablations"]:
        ablation = ABLATIONS[name]
        columns = list(_columns(ablation, saved["roles"], results))
        cells = {
            dataset: [_measured(ablation, dataset, c, saved["counted"].get(name, {})) for c in columns]
            for dataset in ablation.datasets
        }
        if not any(cell for row in cells.values() for cell in row):
            continue
        shown[name] = _as_dict(ablation, columns, cells)
        tables += [_table(ablation, columns, cells), ""]
    if not tables:
        raise UsageError(f"{results.folder} has no ablation with anything measured")
    return {"suite": "ablations", "ablations": shown}, Group(*tables)


class _Column:
    """An arm with the model that plays its role, if there is one."""

    def __init__(self, arm: Arm, place: int, model: ModelResults | None, several: bool) -> None:
        self.arm, self.place, self.model = arm, place, model
        mark = model.model if model else None
        self.name = f"{arm.name} ({mark.layers} × {mark.width})" if several and mark else arm.name


def _columns(ablation: Ablation, roles: Mapping[str, list[str]], results: Results) -> Iterator[_Column]:
    by_name = {model.model.name: model for model in results.models}
    for place, arm in enumerate(ablation.arms):
        models = [by_name[name] for name in roles.get(arm.role, ()) if name in by_name]
        for model in models or [None]:  # type: ignore[list-item]
            yield _Column(arm, place, model, ablation.name == "bioformer-figure-2")


def _measured(
    ablation: Ablation, dataset: str, column: _Column, counted: Mapping[str, float]
) -> dict[str, Any] | None:
    """What was measured in a cell: value -> summary."""
    if ablation.kind == "bias":
        value = counted.get(f"{dataset}@")
        return None if value is None else {"bias": Summary.of([value])}
    if column.model is None:
        return None
    if ablation.kind == "pieces":
        value = counted.get(f"{dataset}@{column.model.model.name}")
        return None if value is None else {"pieces a word": Summary.of([value])}
    settings = {**ablation.settings.get(dataset, {}), **column.arm.settings}
    task = column.model.tasks.get((dataset, arm_name(settings)))
    return None if task is None else _summaries(task, ablation.values)


def _summaries(task: TaskResults, values: Sequence[str]) -> dict[str, Any]:
    if not values:
        return {task.runs[0].metric: task.summary()}
    return {value: Summary.of([float(run.scores[value]) for run in task.runs]) for value in values}


def _reported(ablation: Ablation, dataset: str, column: _Column) -> list[float | None]:
    width = max(1, len(ablation.values))
    figures = ablation.reported.get(dataset, ())
    return list(figures[column.place * width : (column.place + 1) * width]) or [None] * width


def _score(ablation: Ablation, index: int, cells: Mapping[str, list[dict[str, Any] | None]]) -> float | None:
    means = {
        dataset: next(iter(row[index].values())).mean  # type: ignore[union-attr]
        for dataset, row in cells.items()
        if row[index]
    }
    return group_scores(find_suite("blurb"), means)[1] if ablation.score else None


def _as_dict(
    ablation: Ablation, columns: Sequence[_Column], cells: Mapping[str, list[dict[str, Any] | None]]
) -> dict[str, Any]:
    rows = []
    for dataset, row in cells.items():
        for column, cell in zip(columns, row, strict=True):
            figures = _reported(ablation, dataset, column)
            names = list(cell) if cell else list(ablation.values) or [""]
            rows.append(
                {
                    "dataset": dataset,
                    "arm": column.arm.name,
                    "role": column.arm.role,
                    "model": column.model.model.name if column.model else None,
                    "measured": {n: s.as_dict() for n, s in cell.items()} if cell else None,
                    "reported": dict(zip(names, figures, strict=True)),
                }
            )
    missing = list(dict.fromkeys(c.arm.role for c in columns if c.model is None and c.arm.role))
    scores = {c.name: _score(ablation, i, cells) for i, c in enumerate(columns)} if ablation.score else {}
    about = {"title": ablation.title, "source": ablation.source, "note": ablation.note}
    return {**about, "rows": rows, "roles_without_a_model": missing, "blurb": scores}


def _table(
    ablation: Ablation, columns: Sequence[_Column], cells: Mapping[str, list[dict[str, Any] | None]]
) -> Table:
    """In the paper's layout: measured above, reported below it in grey."""
    table = Table(title=f"{ablation.title}\n{ablation.source}", title_justify="left", padding=(0, 1))
    table.add_column("")
    for column in columns:
        table.add_column(Text(column.name), justify="right")
    for other in ablation.others:
        table.add_column(f"{other} (reported)", justify="right", style="dim")
    for dataset, row in cells.items():
        shown = [
            _cell(cell, _reported(ablation, dataset, column), ablation.kind)
            for column, cell in zip(columns, row, strict=True)
        ]
        others = [f"{v[dataset]:.1f}" if dataset in v else "" for v in ablation.others.values()]
        table.add_row(dataset, *shown, *others)
    if ablation.score:
        values = [_score(ablation, i, cells) for i in range(len(columns))]
        reported = [_reported(ablation, "blurb", column) for column in columns]
        scores = [Summary.of([v]) if v is not None else None for v in values]
        shown = [_cell({"": s} if s else None, r, "scores") for s, r in zip(scores, reported, strict=True)]
        table.add_section()
        table.add_row(Text("BLURB score", style="bold"), *shown)
    names = f" ({', '.join(ablation.values)})" if ablation.values else ""
    table.caption = f"measured{names}; below it, in brackets, what the paper reports" + (
        f". {ablation.note}" if ablation.note else ""
    )
    return table


def _cell(cell: Mapping[str, Summary] | None, reported: Sequence[float | None], kind: str) -> Text:
    plain = kind == "pieces"  # not in percent
    values = (cell or {}).values()
    text = Text(" / ".join(f"{s.mean:.3f}" if plain else s.shown() for s in values) or "–")
    if any(figure is not None for figure in reported):
        figures = " / ".join("–" if figure is None else f"{figure:.2f}" for figure in reported)
        text.append(f"\n[reported {figures}]", style="dim")
    return text


def describe_ablations(names: Sequence[str]) -> tuple[Any, Any]:
    """For `bench ablations`: all in a line each, or some in full."""
    unknown = [name for name in names if name not in ABLATIONS]
    if unknown:
        raise UsageError(f"ablation {unknown[0]!r} is unknown; valid: {', '.join(ABLATIONS)}")
    chosen = [ABLATIONS[name] for name in names or ABLATIONS]
    if names:
        empty = [(a, [_Column(arm, i, None, False) for i, arm in enumerate(a.arms)]) for a in chosen]
        tables: list[Any] = []
        for ablation, columns in empty:
            roles = ", ".join(_roles([ablation])) or "none"
            tables += [_table(ablation, columns, {d: [None] * len(columns) for d in ablation.datasets})]
            tables += [Text(f"roles: {roles}\n")]
        return {a.name: a for a in chosen}, Group(*tables)
    table = Table(box=None, padding=(0, 2))
    for heading in ("ablation", "asks for", "source", "roles of models"):
        table.add_column(heading, no_wrap=heading == "ablation")
    for a in chosen:
        table.add_row(a.name, a.title, a.source, ", ".join(_roles([a])) or "none")
    return [
        {"name": a.name, "title": a.title, "source": a.source, "roles": _roles([a])} for a in chosen
    ], table
