"""Is a difference more than chance? Resampling over instances, and what several comparisons do to it.

`bootstrap_interval` is the percentile bootstrap (Efron, 1979); `paired_bootstrap` resamples the instances that two
models share (Koehn, 2004; Berg-Kirkpatrick et al., 2012); `approximate_randomisation` swaps the two models' outputs
instance by instance (Noreen, 1989; Yeh, 2000); `holm` keeps the family-wise error over several datasets (Holm, 1979).
All draw from a counter-based generator of their own seed, so the same predictions always give the same numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from biosmith.bench.units import Numbers, Units
from biosmith.errors import UsageError
from biosmith.randomness import derive_key

RESAMPLES = 2000
_AT_ONCE = 250  # resamples drawn together, so that memory stays flat


@dataclass(frozen=True)
class Comparison:
    """Two models on the instances of one dataset; differences are A minus B.

    Attributes:
        a, b: mean scores over the seeds.
        difference: of the means.
        low, high: 95 % interval of the difference over instances.
        bootstrap_p, randomisation_p: two-sided.
        instances, seeds: how many were compared.
    """

    a: float
    b: float
    difference: float
    low: float
    high: float
    bootstrap_p: float
    randomisation_p: float
    instances: int
    seeds: int


def bootstrap_interval(
    runs: Sequence[Units], *, resamples: int = RESAMPLES, seed: int = 0, level: float = 0.95
) -> tuple[float, float]:
    """Interval of the mean score over runs, instances drawn with replacement (the same ones for every run)."""
    values = _bootstrap(runs, resamples, seed)
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def compare(
    a: Sequence[Units], b: Sequence[Units], *, resamples: int = RESAMPLES, seed: int = 0
) -> Comparison:
    """Compare the runs of two models on the same instances; where one has more seeds, its first ones are taken.

    Raises:
        UsageError: the two have other numbers of instances, or none was scored.
    """
    n = min(len(a), len(b))
    if not n:
        raise UsageError("nothing to compare: a side has no run")
    a, b = a[:n], b[:n]
    sizes = sorted({len(units.rows) for units in (*a, *b)})
    if len(sizes) > 1:
        raise UsageError(f"the runs were scored on different numbers of instances: {sizes}")
    score_a, score_b = (sum(units.score for units in side) / n for side in (a, b))
    differences = _bootstrap(a, resamples, seed) - _bootstrap(b, resamples, seed)
    low, high = np.quantile(differences, [0.025, 0.975])
    return Comparison(
        score_a,
        score_b,
        score_a - score_b,
        float(low),
        float(high),
        _bootstrap_p(differences),
        approximate_randomisation(a, b, resamples=resamples, seed=seed),
        sizes[0],
        n,
    )


def paired_bootstrap(
    a: Sequence[Units], b: Sequence[Units], *, resamples: int = RESAMPLES, seed: int = 0
) -> float:
    """Two-sided p of no difference: how often resampled differences lie on the other side of 0, twice."""
    return _bootstrap_p(_bootstrap(a, resamples, seed) - _bootstrap(b, resamples, seed))


def _bootstrap_p(differences: Numbers) -> float:
    # Ties count on both sides, so that two equal models have p = 1; the 1 is the sample itself.
    sides = (np.count_nonzero(differences <= 0), np.count_nonzero(differences >= 0))
    return float(min(1.0, 2 * (min(sides) + 1) / (len(differences) + 1)))


def approximate_randomisation(
    a: Sequence[Units], b: Sequence[Units], *, resamples: int = RESAMPLES, seed: int = 0
) -> float:
    """Two-sided p of no difference: how often swapping outputs at random makes as large a difference."""
    observed = abs(float(np.mean([x.score for x in a])) - float(np.mean([x.score for x in b])))
    generator = _generator(seed, "randomisation")
    size = len(a[0].rows)
    at_least = 0
    for count in _portions(resamples):
        swapped = generator.integers(0, 2, (count, size)).astype(np.float64)
        moved = np.zeros(count)
        for x, y in zip(a, b, strict=True):
            shift = swapped @ (y.rows - x.rows)
            moved += x.value(x.rows.sum(0) + shift) - y.value(y.rows.sum(0) - shift)
        at_least += int(np.count_nonzero(np.abs(moved) / len(a) >= observed - 1e-12))
    return (at_least + 1) / (resamples + 1)


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values in the given order; the smallest is multiplied by their number, the next by one less, ..."""
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for rank, i in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = highest
    return adjusted


def _bootstrap(runs: Sequence[Units], resamples: int, seed: int) -> Numbers:
    """Mean score over runs of each resample; the draws depend on seed and number of units only."""
    size = len(runs[0].rows)
    if not size:
        raise UsageError("no instance was scored")
    generator = _generator(seed, "bootstrap")
    parts: list[NDArray[np.float64]] = []
    for count in _portions(resamples):
        drawn = generator.integers(0, size, (count, size))
        offsets = np.arange(count)[:, None] * size
        weights = np.bincount((drawn + offsets).ravel(), minlength=count * size).reshape(count, size)
        weights = weights.astype(np.float64)
        parts.append(np.mean([units.value(weights @ units.rows) for units in runs], axis=0))
    return np.concatenate(parts)


def _portions(resamples: int) -> list[int]:
    return [min(_AT_ONCE, resamples - done) for done in range(0, resamples, _AT_ONCE)]


def _generator(seed: int, stream: str) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=derive_key(seed, stream)))
