"""What each instance gives to a score: small rows of numbers that add up, so that resampling takes no time.

Every score of the benchmarks is a function of sums over units: counts for F1, right answers for accuracy, moments for
Pearson's correlation. A unit is what is scored as one: a sentence, a pair, a question, or an abstract whose sentences
belong together. Whether they add up to the dataset's own score is checked each time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from biosmith.artefact import write_by_rename
from biosmith.bench.dataset import Dataset
from biosmith.errors import BadInput, BiosmithError
from biosmith.tasks.metrics.counts import Counts

Numbers = NDArray[np.float64]
TOLERANCE = 1e-9


@dataclass(frozen=True)
class Units:
    """The numbers of one set of predictions.

    Attributes:
        measure: a name in `MEASURES`.
        rows: [units, columns].
    """

    measure: str
    rows: Numbers

    def value(self, sums: Numbers) -> Numbers:
        """Scores of sums over units: [..., columns] -> [...]."""
        return MEASURES[self.measure](sums)

    @property
    def score(self) -> float:
        """The score over all units."""
        return float(self.value(self.rows.sum(0)))

    def save(self, path: Path) -> None:
        """Write as JSON, by rename; whole numbers as such."""
        rows = [[int(x) if x == int(x) else x for x in row] for row in self.rows.tolist()]
        with write_by_rename(path) as temporary:
            text = json.dumps({"measure": self.measure, "rows": rows}, separators=(",", ":"))
            temporary.write_text(text + "\n", encoding="utf-8")


def load_units(path: Path) -> Units:
    """Read what `Units.save` wrote.

    Raises:
        BadInput: it is something else.
    """
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
        units = Units(plain["measure"], np.asarray(plain["rows"], dtype=np.float64))
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadInput(path, f"is not a file of scored units: {error}") from error
    if not isinstance(units.measure, str) or units.measure not in MEASURES:
        raise BadInput(path, "is not a file of scored units", value=units.measure, valid=MEASURES)
    rows, columns = units.rows, COLUMNS[units.measure]
    if rows.ndim != 2 or not rows.size or not np.isfinite(rows).all():
        raise BadInput(path, "is not a file of scored units: its rows are no table of numbers")
    if rows.shape[1] != columns and (units.measure != "macro_f1" or rows.shape[1] % columns):
        raise BadInput(path, f"has {rows.shape[1]} columns, not the {columns} of {units.measure}")
    return units


def micro_f1(sums: Numbers) -> Numbers:
    """F1 of (found, predicted, gold)."""
    return _f1(sums[..., 0], sums[..., 1], sums[..., 2])


def macro_f1(sums: Numbers) -> Numbers:
    """Mean F1 of several classes, three columns each; a class that no unit of the sample has counts as 0."""
    return np.asarray(_f1(sums[..., 0::3], sums[..., 1::3], sums[..., 2::3]).mean(-1))


def mean(sums: Numbers) -> Numbers:
    """The mean of (value, 1)."""
    return np.asarray(sums[..., 0] / np.maximum(sums[..., 1], 1))


def pearson(sums: Numbers) -> Numbers:
    """Pearson's correlation of (1, x, y, xx, yy, xy); 0 where one side does not vary."""
    n, x, y, xx, yy, xy = np.moveaxis(sums, -1, 0)
    n = np.maximum(n, 1)
    spread = np.maximum(xx - x * x / n, 0) * np.maximum(yy - y * y / n, 0)
    varies = spread > 1e-18
    return np.where(varies, (xy - x * y / n) / np.sqrt(np.where(varies, spread, 1)), 0.0)


MEASURES: dict[str, Callable[[Numbers], Numbers]] = {
    "micro_f1": micro_f1,
    "macro_f1": macro_f1,
    "mean": mean,
    "pearson": pearson,
}


def _f1(found: Numbers, predicted: Numbers, gold: Numbers) -> Numbers:
    whole = predicted + gold
    return np.asarray(2 * found / np.where(whole > 0, whole, 1))


# Columns of the rows of each; macro F1 has so many for each class.
COLUMNS = {"micro_f1": 3, "macro_f1": 3, "mean": 2, "pearson": 6}


def score_units(
    dataset: Dataset, instances: Sequence[Any], predictions: Sequence[Any], scores: Mapping[str, Any]
) -> Units:
    """The units of a set of predictions.

    Args:
        dataset: whose score they make.
        instances, predictions: of the split, in order; a prediction an instance, or one a unit.
        scores: what `dataset.score` says of all of them.

    Raises:
        BiosmithError: the units do not add up to the dataset's score.
    """
    units_of = unit_members(instances)
    if len(predictions) == len(instances):
        of_unit = [[predictions[i] for i in members] for members in units_of]
    else:  # BioASQ factoid: one prediction for a question with several contexts
        of_unit = [[prediction] for prediction in predictions]
    groups = [
        ([instances[i] for i in members], given) for members, given in zip(units_of, of_unit, strict=True)
    ]
    measure, rows = _measure(dataset, groups, scores)
    units = Units(measure, np.asarray(rows, dtype=np.float64))
    if abs(units.score - scores["value"]) > TOLERANCE:
        raise BiosmithError(
            f"{dataset.about.name}: {dataset.about.metric} is {scores['value']}, but its instances add up to "
            f"{units.score} ({measure}); valid measures: {', '.join(MEASURES)}"
        )
    return units


def unit_members(instances: Sequence[Any]) -> list[list[int]]:
    """Places of the instances of each unit: those of one group together, all others alone; in file order."""
    members: dict[object, list[int]] = {}
    for i, instance in enumerate(instances):
        group = getattr(instance, "group", "")
        members.setdefault(("group", group) if group else i, []).append(i)
    return list(members.values())


def _measure(
    dataset: Dataset, groups: Sequence[tuple[list[Any], list[Any]]], scores: Mapping[str, Any]
) -> tuple[str, list[list[float]]]:
    """The measure of a dataset's metric, and the row of each unit."""
    if "pearson" in scores:
        pairs = [(float(i.label), float(p)) for unit in groups for i, p in zip(*unit, strict=True)]
        return "pearson", [[1, x, y, x * x, y * y, x * y] for x, y in _centred(pairs)]
    alone = [dataset.score(*unit) for unit in groups]
    if "macro" in dataset.about.metric:
        key = "types" if "types" in scores else "labels"
        negative = getattr(dataset, "negative", None)
        classes = [c for c in getattr(dataset, "labels", ()) or scores[key] if c != negative]
        by_class = _counts_by_class(dataset, groups, alone, key, classes)
        return "macro_f1", [[n for c in classes for n in counts[c]] for counts in by_class]
    if all("found" in s for s in alone):
        return "micro_f1", [_counts(s) for s in alone]
    return "mean", [[s["value"] * len(unit[1]), len(unit[1])] for s, unit in zip(alone, groups, strict=True)]


def _counts_by_class(
    dataset: Dataset,
    groups: Sequence[tuple[list[Any], list[Any]]],
    alone: Sequence[Mapping[str, Any]],
    key: str,
    names: Sequence[str],
) -> list[dict[str, list[float]]]:
    """Counts of each class in each unit.

    A scorer may leave out a class that the gold of a unit lacks. So each unit is scored beside a few that have all
    classes between them, and what these give alone is taken off.
    """
    beside: tuple[list[Any], list[Any]] = ([], [])
    covered: set[str] = set()
    for unit, scores in zip(groups, alone, strict=True):
        there = {name for name, counts in scores[key].items() if counts.get("gold")}
        if there - covered:
            covered |= there
            beside = (beside[0] + unit[0], beside[1] + unit[1])
    base = dataset.score(*beside)[key] if beside[0] else {}
    rows = []
    for unit in groups:
        both = dataset.score(beside[0] + unit[0], beside[1] + unit[1])[key]
        rows.append(
            {
                name: [
                    x - y
                    for x, y in zip(_counts(both.get(name, {})), _counts(base.get(name, {})), strict=True)
                ]
                for name in names
            }
        )
    return rows


def _counts(scores: Mapping[str, Any]) -> list[float]:
    empty = Counts().as_dict()
    return [float(scores.get(key, empty[key])) for key in ("found", "predicted", "gold")]


def _centred(pairs: Sequence[tuple[float, float]]) -> Sequence[tuple[float, float]]:
    """Pairs around their means: the correlation stays as it is, and sums of squares lose no digits."""
    both = np.asarray(pairs)
    centred: list[tuple[float, float]] = [(float(x), float(y)) for x, y in both - both.mean(0)]
    return centred
