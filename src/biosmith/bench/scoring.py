"""Anybody's predictions under the exact protocol of a dataset."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from biosmith.bench.dataset import Dataset, Mistake, fingerprint
from biosmith.errors import BadInput
from biosmith.text import files


def score_predictions(
    dataset: Dataset, data: Path, predictions: Path, split: str | None = None
) -> dict[str, Any]:
    """Score a file of predictions.

    Args:
        dataset: whose protocol decides.
        data: where its files lie.
        predictions: one JSON object a line: `{"id": ..., "prediction": ...}`, in the order of the file.
            Ids that are those of the dataset must be so line by line, or be all of them in another order; other ids,
            and plain counting, are the user's own.
        split: which split was predicted; None for the one whose score is published.

    Returns:
        `metric`, `value`, precision, recall and f1 where they apply, and the protocol with its fingerprint.

    Raises:
        UsageError: the dataset or split is not there.
        BadInput: a line is not a prediction, or the numbers of lines and instances differ; names file and line.
    """
    split = split or dataset.about.evaluated
    instances = dataset.load(data, split)
    lines = read_predictions(predictions)
    ordered = _align(lines, dataset.names(instances), predictions)
    try:
        scores = dataset.score(instances, [prediction for _, prediction in ordered])
    except Mistake as error:
        number = 1 + lines.index(ordered[error.index])
        raise BadInput(predictions, error.reason, record=f"line {number}", value=error.value) from error
    about = dataset.about
    return {
        "dataset": about.name,
        "task": about.task,
        "split": split,
        "metric": about.metric,
        **scores,
        "instances": len(ordered),
        "truncated": 0,
        "protocol": fingerprint(dataset, data, split),
    }


def read_predictions(path: Path) -> list[tuple[str | None, Any]]:
    """The (id, prediction) of each line.

    Raises:
        BadInput: a line is not a JSON object with a prediction.
    """
    lines: list[tuple[str | None, Any]] = []
    with files.open_decompressed(path) as stream:
        for number, raw in enumerate(stream, start=1):
            if not raw.strip():
                continue
            try:
                value = json.loads(raw)
            except (json.JSONDecodeError, UnicodeDecodeError) as error:
                raise BadInput(path, f"is not JSON: {error}", record=f"line {number}") from error
            if not isinstance(value, dict) or "prediction" not in value:
                raise BadInput(
                    path,
                    'an object with "id" and "prediction" is expected',
                    record=f"line {number}",
                    value=value,
                )
            lines.append((None if value.get("id") is None else str(value["id"]), value["prediction"]))
    return lines


def _align(
    lines: Sequence[tuple[str | None, Any]], names: Sequence[str], path: Path
) -> list[tuple[str | None, Any]]:
    if len(lines) != len(names):
        raise BadInput(path, f"has {len(lines):,} predictions for {len(names):,} instances")
    ids = [id for id, _ in lines]
    counted = any(ids == [str(i) for i in range(first, first + len(ids))] for first in (0, 1))
    if counted or ids == list(names) or not set(ids) & set(names):
        return list(lines)
    if len(set(names)) == len(names) and set(ids) == set(names):
        by_id = dict(zip(ids, lines, strict=True))
        return [by_id[name] for name in names]
    at = next(i for i, (id, name) in enumerate(zip(ids, names, strict=True)) if id != name)
    raise BadInput(
        path, f"the instance in this place is {names[at]!r}", record=f"line {at + 1}", value=ids[at]
    )
