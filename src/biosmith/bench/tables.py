"""Results as tables for the terminal: models side by side, and comparisons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from biosmith.bench.comparing import Row
from biosmith.bench.results import ModelResults, TaskResults, group_scores
from biosmith.bench.suites import Suite


def suite_table(models: Sequence[ModelResults], suite: Suite) -> Table:
    """A row a dataset, by group: mean and standard deviation in percent; then groups and the suite's score."""
    table = Table(box=None, padding=(0, 2 if len(models) < 5 else 1))
    table.add_column("", no_wrap=True)
    for model in models:  # beside many others names are folded: cut short, several would be one
        table.add_column(Text(model.model.name, overflow="fold"), justify="right", overflow="fold")
    tasks = [model.of_suite(suite) for model in models]
    scores = [group_scores(suite, {n: t.summary(suite).mean for n, t in found.items()}) for found in tasks]
    for group, names in suite.groups.items():
        means = [_percent(groups.get(group)) for groups, _, _ in scores]
        table.add_row(Text(group, style="bold"), *(Text(m, style="bold") for m in means))
        for name in names:
            table.add_row(f"  {name}", *(_cell(found.get(name), suite) for found in tasks))
    table.add_section()
    table.add_row(
        Text(f"{suite.name} score", style="bold"),
        *(Text(_percent(whole), style="bold") for _, whole, _ in scores),
    )
    missing = sorted({name for _, _, names in scores for name in names})
    caption = "mean ± standard deviation over seeds (how many), in percent"
    if missing:
        caption += f"; no {suite.name} score without {', '.join(missing)}"
    table.caption = caption
    return table


def _cell(task: TaskResults | None, suite: Suite) -> str:
    return "–" if task is None else f"{task.summary(suite).shown()} ({len(task.runs)})"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.2f}"


def comparison_table(rows: Sequence[Row], names: tuple[str, str]) -> Table:
    """A row a dataset: both means, their difference with its interval, p-values adjusted for their number."""
    table = Table(box=None, padding=(0, 1), title_justify="left")
    for column in ("", "A", "B", "A − B", "95 % interval", "p boot.", "p rand."):
        table.add_column(column, justify="left" if not column else "right", no_wrap=True)
    for row in rows:
        c = row.comparison
        mark = "*" if max(row.bootstrap_holm, row.randomisation_holm) < 0.05 else ""
        table.add_row(
            row.task,
            f"{100 * c.a:.2f}",
            f"{100 * c.b:.2f}",
            f"{100 * c.difference:+.2f}{mark}",
            f"{100 * c.low:+.2f}, {100 * c.high:+.2f}",
            f"{row.bootstrap_holm:.4f}",
            f"{row.randomisation_holm:.4f}",
        )
    table.title = Text(f"A: {names[0]}, B: {names[1]}")
    table.caption = (
        f"p-values of the paired bootstrap and of approximate randomisation are adjusted for {len(rows)} comparisons (Holm); * both below 0.05. They are about these test "
        "instances and the seeds at hand"
    )
    return table


def problem_lines(problems: Sequence[Any]) -> list[str]:
    """A line for each thing that could not be run."""
    return [f"{p.model}, {p.task}: {p.reason}" for p in problems]


def plain_rows(rows: Sequence[Row]) -> list[Mapping[str, Any]]:
    """Comparisons for JSON."""
    return [row.as_dict() for row in rows]
