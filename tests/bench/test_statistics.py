"""Summaries over seeds."""

from __future__ import annotations

import pytest

from biosmith.bench.statistics import Summary


def test_the_interval_is_students() -> None:
    # Mean 0.8, sample sd 0.1, n = 3: half width 4.303 * 0.1 / sqrt(3).
    summary = Summary.of([0.7, 0.8, 0.9])
    assert summary.mean == pytest.approx(0.8)
    assert summary.sd == pytest.approx(0.1)
    assert summary.ci95 == pytest.approx(4.303 * 0.1 / 3**0.5)
    assert summary.shown() == "80.00 ± 10.00"


def test_quantiles_are_scipys() -> None:
    stats = pytest.importorskip("scipy.stats")
    for n in (2, 5, 10, 31):
        values = [0.0] * (n - 1) + [1.0]
        summary = Summary.of(values)
        assert summary.sd is not None and summary.ci95 is not None
        assert summary.ci95 * n**0.5 / summary.sd == pytest.approx(stats.t.ppf(0.975, n - 1), abs=1e-3)


def test_one_seed_has_no_spread() -> None:
    summary = Summary.of([0.5])
    assert (summary.sd, summary.ci95, summary.shown()) == (None, None, "50.00")
