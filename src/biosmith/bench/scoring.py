"""Anybody's predictions under the exact protocol of a dataset."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from biosmith.bench.dataset import Dataset, Mistake, fingerprint
from biosmith.errors import BadInput
from biosmith.text import files


class Line(NamedTuple):
    """A line of a file of predictions: its number, the id that it gives or None, and the prediction."""

    number: int
    id: str | None
    prediction: Any


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
        scores = dataset.score(instances, [line.prediction for line in ordered])
    except Mistake as error:
        record = f"line {ordered[error.index].number}"
        raise BadInput(predictions, error.reason, record=record, value=error.value) from error
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


def read_predictions(path: Path) -> list[Line]:
    """The lines of a file of predictions, without blank ones.

    Raises:
        BadInput: a line is not a JSON object with a prediction, or the file is damaged.
    """
    lines: list[Line] = []
    number = 0
    with files.open_decompressed(path) as stream:
        try:
            for number, raw in enumerate(stream, start=1):
                if raw.strip():
                    lines.append(_read_line(path, number, raw))
        except files.BROKEN as error:
            raise BadInput(path, f"is damaged: {error}", record=f"after line {number}") from error
    return lines


def _read_line(path: Path, number: int, raw: bytes) -> Line:
    record = f"line {number}"
    try:
        value = json.loads(raw.decode("utf-8-sig" if number == 1 else "utf-8"))
    except (ValueError, RecursionError) as error:
        raise BadInput(path, f"is not JSON: {error}", record=record) from error
    if not isinstance(value, dict) or "prediction" not in value:
        raise BadInput(path, 'an object with "id" and "prediction" is expected', record=record, value=value)
    return Line(number, None if value.get("id") is None else str(value["id"]), value["prediction"])


def _align(lines: Sequence[Line], names: Sequence[str], path: Path) -> list[Line]:
    if len(lines) != len(names):
        raise BadInput(path, f"has {len(lines):,} predictions for {len(names):,} instances")
    ids = [line.id for line in lines]
    if len(set(names)) == len(names) and set(ids) == set(names):
        by_id = {line.id: line for line in lines}
        return [by_id[name] for name in names]
    counted = any(ids == [str(i) for i in range(first, first + len(ids))] for first in (0, 1))
    if counted or ids == list(names) or not set(ids) & set(names):
        return list(lines)
    if len(set(names)) == len(names):
        first: dict[str | None, Line] = {}
        for line in lines:
            if first.setdefault(line.id, line) is not line:
                reason = f"this id stands on line {first[line.id].number} already"
                raise BadInput(path, reason, record=f"line {line.number}", value=line.id)
    line, name = next(pair for pair in zip(lines, names, strict=True) if pair[0].id != pair[1])
    reason = f"the instance in this place is {name!r}"
    raise BadInput(path, reason, record=f"line {line.number}", value=line.id)
