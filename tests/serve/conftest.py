"""A service on a free port of this machine, with a tagger that has learnt a few diseases and drugs."""

from __future__ import annotations

import contextlib
import importlib.util
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

httpx = pytest.importorskip("httpx")
for extra in ("fastapi", "uvicorn", "prometheus_client"):
    pytest.importorskip(extra)

Start = Callable[..., AbstractContextManager[Any]]


@pytest.fixture(scope="session")
def tagger_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As in tests/annotate."""
    path = Path(__file__).parents[1] / "tasks" / "conftest.py"
    spec = importlib.util.spec_from_file_location("tests_tasks_conftest", path)
    assert spec is not None and spec.loader is not None
    tasks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tasks)
    from biosmith.tasks.ner import finetune
    from biosmith.tasks.settings import TaggingSettings

    root = tmp_path_factory.mktemp("serve")
    model = tasks.write_tiny_model(root / "model")
    (root / "data").mkdir()
    tasks.write_sentences(root / "data" / "train.tsv", 0, 20)
    settings = TaggingSettings(learning_rate=1e-2, batch_size=4, epochs=20, keep="last")
    finetune(model, root / "data", root / "diseases", settings)
    return root / "diseases"


@pytest.fixture(scope="session")
def start(tagger_folder: Path) -> Start:
    """A function that runs a service in a thread as long as its context lasts, and gives a client of it."""
    from biosmith.serve.server import Service, open_service

    @contextlib.contextmanager
    def run(prepare: Callable[[Service], None] | None = None, **options: Any) -> Iterator[Any]:
        service = open_service([tagger_folder], port=0, engine="torch", **options)
        if prepare is not None:
            prepare(service)
        thread = threading.Thread(target=service.run)
        thread.start()
        try:
            with httpx.Client(base_url=service.url, timeout=60) as client:
                yield client
        finally:
            service.server.should_exit = True
            thread.join()

    return run


@pytest.fixture(scope="session")
def client(start: Start) -> Iterator[Any]:
    """A client of a service with the usual limits, shared by the tests."""
    with start() as opened:
        yield opened
