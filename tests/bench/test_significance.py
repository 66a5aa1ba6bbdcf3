"""Intervals and tests on differences."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from biosmith.bench.significance import (
    approximate_randomisation,
    bootstrap_interval,
    compare,
    holm,
    paired_bootstrap,
)
from biosmith.bench.units import Units, macro_f1, micro_f1, pearson
from biosmith.errors import UsageError


def right_or_wrong(pattern: str) -> Units:
    """Accuracy of answers: 1 is right."""
    return Units("mean", np.array([[float(c), 1.0] for c in pattern]))


def test_the_bootstrap_interval_of_a_share_is_the_binomials() -> None:
    # Resampling 200 answers of which 160 are right draws from Binomial(200, 0.8): its quantiles are the interval.
    stats = pytest.importorskip("scipy.stats")
    units = right_or_wrong("1" * 160 + "0" * 40)
    low, high = bootstrap_interval([units], resamples=20_000)
    exact_low, exact_high = (stats.binom.ppf(q, 200, 0.8) / 200 for q in (0.025, 0.975))
    assert low == pytest.approx(exact_low, abs=0.006)
    assert high == pytest.approx(exact_high, abs=0.006)


def test_the_bootstrap_agrees_with_scipys_on_a_correlation() -> None:
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(0)
    x = rng.normal(size=60)
    y = x + rng.normal(size=60)
    rows = np.stack([np.ones(60), x, y, x * x, y * y, x * y], axis=1)
    units = Units("pearson", rows)
    assert units.score == pytest.approx(stats.pearsonr(x, y)[0])
    low, high = bootstrap_interval([units], resamples=5000)
    reference = stats.bootstrap(
        (x, y),
        lambda a, b: stats.pearsonr(a, b)[0],
        paired=True,
        vectorized=False,
        method="percentile",
        n_resamples=2000,
        random_state=1,
    ).confidence_interval
    assert (low, high) == pytest.approx((reference.low, reference.high), abs=0.03)


def test_randomisation_agrees_with_all_swaps_counted_out() -> None:
    # 10 instances have 1,024 ways to swap; the exact p is the share with a difference at least as large as 0.3.
    a, b = right_or_wrong("1111110110"), right_or_wrong("1010110010")
    difference = np.array([x - y for (x, _), (y, _) in zip(a.rows, b.rows, strict=True)])
    swaps = itertools.product((1, -1), repeat=10)
    exact = np.mean([abs(float(np.dot(s, difference))) >= 3 - 1e-9 for s in swaps])
    assert approximate_randomisation([a], [b], resamples=20_000) == pytest.approx(exact, abs=0.01)


def test_randomisation_agrees_with_scipys_permutation_test() -> None:
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(3)
    x, y = rng.random(80), rng.random(80) - 0.12
    a, b = (Units("mean", np.stack([v, np.ones(80)], axis=1)) for v in (x, y))
    reference = stats.permutation_test(
        (x, y), lambda p, q: np.mean(p) - np.mean(q), permutation_type="samples", n_resamples=5000, rng=1
    ).pvalue
    assert approximate_randomisation([a], [b], resamples=10_000) == pytest.approx(reference, abs=0.02)


def test_equal_models_do_not_differ_and_a_clear_winner_does() -> None:
    same = right_or_wrong("10" * 50)
    assert paired_bootstrap([same], [same]) == 1.0
    assert approximate_randomisation([same], [same]) == 1.0
    better = right_or_wrong("1" * 90 + "0" * 10)
    worse = right_or_wrong("1" * 60 + "0" * 40)
    # 30 answers only the better one has right, none the other way: the chance of that under swaps is 2^-29.
    result = compare([better], [worse])
    assert result.difference == pytest.approx(0.3)
    assert 0.2 < result.low < 0.3 < result.high < 0.4
    assert result.bootstrap_p < 0.002 and result.randomisation_p < 0.002


def test_comparisons_do_not_depend_on_who_is_first() -> None:
    a, b = right_or_wrong("1101101011" * 5), right_or_wrong("1001101110" * 5)
    forth, back = compare([a, a], [b, b]), compare([b, b], [a, a])
    assert forth.difference == pytest.approx(-back.difference)
    assert forth.low == pytest.approx(-back.high)
    assert forth.randomisation_p == back.randomisation_p
    assert forth.bootstrap_p == back.bootstrap_p


def test_f1_is_recomputed_on_each_resample_and_not_averaged_over_instances() -> None:
    # Two sentences, (found, predicted, gold) = (1, 1, 1) and (0, 9, 1): F1 is 2 * 1 / (10 + 2), not the mean of 1 and 0.
    sums = np.array([[1.0, 1, 1], [0, 9, 1]]).sum(0)
    assert micro_f1(sums) == pytest.approx(1 / 6)
    # Macro: class one has F1 1, class two 0.5.
    assert macro_f1(np.array([2.0, 2, 2, 1, 2, 2])) == pytest.approx(0.75)
    # Nothing predicted, nothing there: 0, as scikit-learn counts it.
    assert micro_f1(np.zeros(3)) == 0 and pearson(np.array([3.0, 3, 3, 3, 3, 3])) == 0


def test_holm_multiplies_the_smallest_by_their_number_and_never_falls() -> None:
    # 0.01 * 4 = 0.04; 0.02 * 3 = 0.06; 0.03 * 2 = 0.06; 0.04 * 1 = 0.04, raised to 0.06.
    assert holm([0.03, 0.01, 0.04, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    assert holm([]) == []


def test_the_same_predictions_always_give_the_same_interval() -> None:
    units = right_or_wrong("1101" * 20)
    assert bootstrap_interval([units]) == bootstrap_interval([units])
    assert bootstrap_interval([units], resamples=99) != bootstrap_interval([units], seed=1, resamples=99)


def test_runs_on_other_instances_are_not_compared() -> None:
    with pytest.raises(UsageError, match=r"different numbers of instances: \[2, 3\]"):
        compare([right_or_wrong("10")], [right_or_wrong("101")])
    with pytest.raises(UsageError, match="nothing to compare"):
        compare([], [right_or_wrong("1")])
    assert math.isclose(compare([right_or_wrong("10")] * 5, [right_or_wrong("01")]).seeds, 1)
