"""A results folder that tests of the bench look at."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import biosmith.tasks
from bench.checks import stand_in, write_model
from biosmith.bench import jobs
from biosmith.bench.mock import FOLDER, MOCK
from biosmith.bench.runs import Task, run_suite


@pytest.fixture(scope="session")
def mock_results(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The mock suite of two models by the stand-in: "good" at the rate it does best with, "poor" at another."""
    folder = tmp_path_factory.mktemp("bench")
    good, poor = write_model(folder, "good"), write_model(folder, "poor")
    tasks = [Task(name) for name in MOCK]
    with pytest.MonkeyPatch.context() as patch:
        module = stand_in([])
        patch.setitem(sys.modules, "biosmith.tasks.fitting", module)
        patch.setattr(biosmith.tasks, "fitting", module, raising=False)
        for model, rate in ((good, 3e-5), (poor, 1e-5)):
            out = folder / f"of-{model.name}"
            override = {"learning_rate": rate}
            run_suite([model], tasks, FOLDER, out, suite="mock", seeds=3, device="cpu", override=override)
    jobs._load_split.cache_clear()
    yield folder
