"""What of a suite is in a folder, beside what the papers count; and what is wrong with a dataset's files."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from biosmith.bench.dataset import SPLITS, Dataset, Paper
from biosmith.bench.datasets.bioasq import BioASQ
from biosmith.errors import BiosmithError, UsageError
from biosmith.rejects import Rejects


def list_splits(datasets: Sequence[Dataset], data: Path) -> list[dict[str, Any]]:
    """A row a split: counts measured here, the paper's, whether they match, and why not where that is known.

    Splits that are not there have None for `instances` and say so in `note`; `listed` is the number of ids where only
    those may be shipped.
    """
    if not data.is_dir():
        raise UsageError(f"{data} does not exist" if not data.exists() else f"{data} is not a folder")
    return [_row(dataset, data, split) for dataset in datasets for split in SPLITS]


def _row(dataset: Dataset, data: Path, split: str) -> dict[str, Any]:
    about = dataset.about
    paper = about.paper.get(split, Paper(None))
    row: dict[str, Any] = {"dataset": about.name, "split": split, "task": about.task, "instances": None}
    row |= {"counted": about.counted, "paper": paper.count, "matches": False, "note": ""}
    try:
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


def check_dataset(dataset: Dataset, data: Path) -> Rejects:
    """All that is wrong with a dataset's files, by file and line: bad records, empty splits, ids in two splits."""
    problems = Rejects()
    seen: dict[str, list[tuple[str, str, int | str]]] = defaultdict(list)
    found = dataset.find(data)
    for split in SPLITS:
        if split not in found:
            problems.add(data, f"{split} split", "is not there")
            continue
        before = problems.count
        try:
            instances = dataset.load(data, split, problems)
        except BiosmithError as error:
            problems.add(data, f"{split} split", str(error))
            continue
        if not instances and problems.count == before:
            problems.add(data, f"{split} split", "is empty")
        if dataset.about.task not in ("ner", "pico"):
            for instance in instances:
                if instance.group or dataset.about.task in ("relations", "answers"):
                    seen[instance.group or instance.id].append((split, instance.file, instance.line))
    for id, places in seen.items():
        splits = sorted({split for split, _, _ in places})
        if len(splits) > 1 and not _counts_rows(id):
            _, file, line = places[-1]
            problems.add(file, f"line {line}", f"{id} is in several splits: {', '.join(splits)}")
    return problems


def _counts_rows(id: str) -> bool:
    """Whether an id is just the number of a row, which says nothing across files (GAD)."""
    return id.isdecimal() and len(id) < 6
