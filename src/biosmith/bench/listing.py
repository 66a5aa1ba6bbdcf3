"""What of a suite is in a folder, beside what the papers count."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from biosmith.bench.dataset import SPLITS, Dataset, Paper
from biosmith.bench.datasets.bioasq import BioASQ
from biosmith.errors import BiosmithError, UsageError


def list_splits(datasets: Sequence[Dataset], data: Path) -> list[dict[str, Any]]:
    """A row a split: counts measured here, the paper's, whether they match, and why not where that is known.

    Splits that are not there have None for `instances` and say so in `note`; a split that the dataset does not have at
    all has none and matches. `listed` is the number of ids where only those may be shipped. Where the paper counts all
    splits together, `paper` is None and `whole` says both sums; they match if the sums do.
    """
    if not data.is_dir():
        raise UsageError(f"{data} does not exist" if not data.exists() else f"{data} is not a folder")
    return [row for dataset in datasets for row in _rows(dataset, data)]


def _rows(dataset: Dataset, data: Path) -> list[dict[str, Any]]:
    rows = [_row(dataset, data, split) for split in SPLITS]
    whole, counted = dataset.about.whole, dataset.about.counted
    if whole is not None:
        here = sum(row.get(counted) or 0 for row in rows)
        for row in rows:
            if row["paper"] is None and row["instances"] is not None:
                row["whole"] = {"here": here, "paper": whole.count}
                row["matches"] = here == whole.count
                row["note"] = f"all splits together: {here:,} {counted} here, {whole.count:,} in the paper"
                row["note"] += f"; {whole.difference}" if whole.difference else ""
    return rows


def _row(dataset: Dataset, data: Path, split: str) -> dict[str, Any]:
    about = dataset.about
    paper = about.paper.get(split, Paper(None))
    row: dict[str, Any] = {"dataset": about.name, "split": split, "task": about.task, "instances": None}
    row |= {"counted": about.counted, "paper": paper.count, "matches": False, "note": ""}
    try:
        if paper.count == 0 and split not in dataset.find(data):
            return {**row, "instances": 0, about.counted: 0, "matches": True, "note": f"has no {split} split"}
        counts = dataset.count(dataset.load(data, split))
    except UsageError as error:
        if isinstance(dataset, BioASQ) and (listed := _listed(dataset, data, split)) is not None:
            row["listed"] = listed
            return {**row, "note": f"only the ids of the questions are here. {about.source}"}
        return {**row, "note": f"missing: {paper.difference or error}"}
    except BiosmithError as error:
        return {**row, "note": str(error)}
    row |= counts
    row["matches"] = paper.count is not None and counts[about.counted] == paper.count
    row["note"] = "" if row["matches"] else paper.difference
    return row


def _listed(dataset: BioASQ, data: Path, split: str) -> int | None:
    with contextlib.suppress(UsageError):
        return dataset.listed(data, split)
    return None
