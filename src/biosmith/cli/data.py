"""`biosmith data`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import tyro

from biosmith.cli import Report


def ls(*, suite: str = "blurb", data: Path) -> Report:
    """List the datasets of a suite: what is in each split here, beside what the paper counts.

    Example:
        biosmith data ls --suite blurb --data benchmarks

    Args:
        suite: blurb.
        data: the folder that holds the datasets' folders.
    """
    from biosmith.bench.listing import list_splits
    from biosmith.bench.suites import find_suite

    rows = list_splits(find_suite(suite).datasets, data)
    return Report(rows, _table(rows))


def prepare(
    dataset: Annotated[str, tyro.conf.Positional],
    *,
    raw: Path,
    out: Path,
    splits: Path | None = None,
) -> Report:
    """Make a dataset's instances from its raw corpus, exactly as BLURB makes them.

    Example:
        biosmith data prepare chemprot --raw ChemProt_Corpus --out chemprot

    Args:
        dataset: chemprot or ddi.
        raw: the corpus as its authors release it: a folder, or (DDI) the archive.
        out: the folder to make, with train.tsv, dev.tsv and test.tsv.
        splits: DDI: the folder with train_files.tsv, dev_files.tsv and test_files.tsv; looked for beside the corpus.
    """
    from biosmith.bench.prepare import prepare as make

    counts = make(dataset, raw, out, splits)
    text = f"{out}: " + ", ".join(f"{split} {count:,}" for split, count in counts.items())
    return Report({"dataset": dataset, "out": str(out), "instances": counts}, text)


def check(dataset: Annotated[str, tyro.conf.Positional], *, data: Path) -> Report:
    """Say what is wrong with a dataset's files, by file and line.

    Example:
        biosmith data check chemprot --data benchmarks

    Args:
        dataset: a name of `biosmith data ls`.
        data: the folder that holds the dataset's folder, or that folder itself.
    """
    from biosmith.bench.datasets import find_dataset
    from biosmith.bench.listing import check_dataset

    problems = check_dataset(find_dataset(dataset), data)
    values = {
        "dataset": dataset,
        "problems": problems.count,
        "reasons": dict(problems.reasons),
        "items": problems.items,
    }
    if problems.count == 0:
        return Report(values, f"{dataset}: nothing is wrong")
    lines = [
        f"{item['file']}, {item['record']}: {item['reason']}"
        + (f" (found {item['value']!r})" if "value" in item else "")
        for item in problems.items
    ]
    return Report(values, "\n".join(lines), set_aside=problems.count)


def _table(rows: list[dict[str, Any]]) -> Any:
    from rich.console import Group
    from rich.table import Table

    table = Table(box=None, padding=(0, 1))
    for column in ("dataset", "split", "instances", "counted", "here", "paper", ""):
        right = column in ("instances", "here", "paper")
        table.add_column(column, justify="right" if right else "left", no_wrap=True)
    notes: dict[str, int] = {}
    for row in rows:
        here = row.get(row["counted"])
        shown = ["–" if value is None else f"{value:,}" for value in (row["instances"], here, row["paper"])]
        mark = "matches" if row["matches"] else "missing" if row["instances"] is None else "differs"
        if row["note"]:
            mark += f" [{notes.setdefault(row['note'], len(notes) + 1)}]"
        counted = [row["counted"], shown[1], shown[2], mark.replace("[", r"\[")]
        table.add_row(row["dataset"], row["split"], shown[0], *counted)
    return Group(table, *(f"[dim]\\[{number}][/] {note}" for note, number in notes.items()))
