"""Checkpoints of a run, tuned and scored: F1 by the number of steps, beside the paper's Table 6."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import biosmith.tasks
from bench.checks import stand_in, write_model
from biosmith.artefact import Manifest
from biosmith.bench import jobs, steps
from biosmith.bench.mock import FOLDER
from biosmith.bench.steps import REPORTED, run_steps
from biosmith.cli import main
from biosmith.errors import UsageError


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run with checkpoints of three steps, whose export is a model's folder; fine-tuning is the stand-in."""
    for step in (10, 1_000, 200):
        folder = tmp_path / "run" / "checkpoints" / f"step-{step}"
        folder.mkdir(parents=True)
        (folder / "state.json").touch()
    exported: list[int | None] = []

    def export(run: Path, out: Path, *, step: int | None = None) -> None:
        exported.append(step)
        Manifest(kind="model").save(write_model(out.parent, out.name))

    monkeypatch.setattr(steps, "export_run", export)
    module = stand_in([])
    monkeypatch.setitem(sys.modules, "biosmith.tasks.fitting", module)
    monkeypatch.setattr(biosmith.tasks, "fitting", module, raising=False)
    monkeypatch.setattr(steps, "EXPORTED", exported, raising=False)
    jobs._load_split.cache_clear()
    return tmp_path / "run"


def command(run: Path, out: Path, *more: str) -> int:
    arguments = ["bench", "steps", str(run), "--data", str(FOLDER), "--out", str(out), "--tasks", "mock-ner"]
    return main([*arguments, "--seeds", "1", "--device", "cpu", "--override", "learning_rate=3e-5", *more])


def test_a_row_is_a_number_of_steps_in_order_with_the_papers_figure_where_there_is_one(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(REPORTED, "mock-ner", {1_000: 63.2})
    assert command(run, tmp_path / "results", "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert [row["step"] for row in shown["rows"]] == [10, 200, 1_000]
    assert [row["reported"] for row in shown["rows"]] == [{}, {}, {"mock-ner": 63.2}]
    assert all(0 < row["measured"]["mock-ner"]["mean"] <= 1 for row in shown["rows"])
    assert shown["runs"] == 3 and shown["problems"] == []
    # Again, with a table: nothing is exported or tuned anew.
    assert command(run, tmp_path / "results") == 0
    table = capsys.readouterr().out
    assert "Shin et al. (2020)" in table and "reported 63.2" in table
    assert sorted(steps.EXPORTED) == [10, 200, 1_000]  # type: ignore[attr-defined]


def test_some_steps_only_and_a_step_that_was_not_kept_is_refused_with_those_that_were(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(run, tmp_path / "results", "--steps", "200", "--json") == 0
    assert [row["step"] for row in json.loads(capsys.readouterr().out)["rows"]] == [200]
    assert command(run, tmp_path / "none", "--jobs", "0") == 2  # it reaches the runs
    assert "jobs must be at least 1" in capsys.readouterr().err
    with pytest.raises(UsageError, match=r"no checkpoint of step 5; it has 10, 200, 1,000"):
        run_steps(run, FOLDER, tmp_path / "other", steps=[5])
    with pytest.raises(UsageError, match="has no checkpoint yet"):
        run_steps(tmp_path, FOLDER, tmp_path / "other")


def test_the_figures_are_those_of_table_6() -> None:
    best = {dataset: max(figures, key=figures.__getitem__) for dataset, figures in REPORTED.items()}
    # The paper prints these in bold.
    assert best == {"BC5-chem": 400_000, "BC5-disease": 400_000, "ChemProt": 200_000}
    assert all(len(figures) == 7 for figures in REPORTED.values())
