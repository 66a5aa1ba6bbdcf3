"""A tagger that has learnt a few diseases and drugs; see tests/tasks/conftest.py."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest


def _tasks_conftest() -> ModuleType:
    path = Path(__file__).parents[1] / "tasks" / "conftest.py"
    spec = importlib.util.spec_from_file_location("tests_tasks_conftest", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def tagger_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tuned tagger of two types that reads 64 pieces."""
    from biosmith.tasks.ner import finetune
    from biosmith.tasks.settings import TaggingSettings

    tasks = _tasks_conftest()
    root = tmp_path_factory.mktemp("annotate")
    model = tasks.write_tiny_model(root / "model")
    (root / "data").mkdir()
    tasks.write_sentences(root / "data" / "train.tsv", 0, 20)
    settings = TaggingSettings(learning_rate=1e-2, batch_size=4, epochs=20, keep="last")
    finetune(model, root / "data", root / "diseases", settings)
    return root / "diseases"
