"""A model scored over seeds."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from rich.console import Console

from biosmith.bench import seeds
from biosmith.bench.seeds import score_model, score_table
from biosmith.tasks.settings import TaggingSettings


def test_each_seed_is_tuned_once_and_scored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = Path(__file__).parents[1] / "tasks" / "conftest.py"
    spec = importlib.util.spec_from_file_location("tests_tasks_conftest", path)
    assert spec is not None and spec.loader is not None
    tasks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tasks)
    model = tasks.write_tiny_model(tmp_path / "tiny")
    data = tmp_path / "diseases"
    data.mkdir()
    tasks.write_sentences(data / "train.tsv", 0, 20)
    tasks.write_sentences(data / "test.tsv", 20, 8)
    settings = TaggingSettings(learning_rate=1e-2, batch_size=4, epochs=8, keep="last")
    first = score_model(model, [data], tmp_path / "out", seeds=2, settings=settings)
    summary = first.datasets["diseases"]
    assert len(summary.values) == 2 and summary.mean > 0.5
    # A second call finds everything done.
    monkeypatch.setattr(seeds.ner, "finetune", None)
    assert score_model(model, [data], tmp_path / "out", seeds=2, settings=settings) == first
    console = Console(record=True, width=80)
    console.print(score_table([first]))
    shown = console.export_text()
    assert "diseases" in shown and "±" in shown
    assert first.as_dict()["datasets"]["diseases"]["mean"] == summary.mean
