"""A corpus folder as parts that workers read one by one, and the processes that do it.

A part is one row group of one Parquet shard. What a command makes of a corpus depends on the parts and their order
alone, never on the number of workers.
"""

from __future__ import annotations

import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from biosmith.artefact import load_manifest
from biosmith.errors import BadInput, BiosmithError
from biosmith.text.formats.parquet import count_by_row_group, iterate_texts

Task = TypeVar("Task")
Result = TypeVar("Result")

DOCUMENTS_AT_ONCE = 256  # full texts of 40,000 characters: some 10 MB
TASKS_OF_A_WORKER = 200  # workers are replaced after this many tasks, so that no leak of a library adds up


@dataclass(frozen=True, slots=True)
class Part:
    """One row group of a Parquet shard."""

    path: Path
    row_group: int
    documents: int


def list_parts(corpus: Path) -> list[Part]:
    """The parts of a corpus in order.

    Raises:
        UsageError: the folder is not a corpus.
        BadInput: a shard is missing, cannot be read, or the corpus has no documents.
    """
    manifest = load_manifest(corpus, "corpus")
    names = sorted(name for name in manifest.files if name.endswith(".parquet"))
    for name in names:
        if not (corpus / name).is_file():
            raise BadInput(corpus / name, "is missing; build the corpus again, or copy it again")
    parts = [
        Part(corpus / name, number, documents)
        for name in names
        for number, documents in enumerate(count_by_row_group(corpus / name))
        if documents
    ]
    if not parts:
        raise BadInput(corpus, "has no documents")
    return parts


def read_part(part: Part) -> Iterator[list[list[str]]]:
    """The passages' texts of each document of a part, some documents at a time."""
    for documents in iterate_texts(part.path, DOCUMENTS_AT_ONCE, [part.row_group]):
        yield [[text for text in passages if text] for passages in documents]


def default_workers() -> int:
    """As many as the processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


def map_in_order(
    function: Callable[[Task], Result],
    tasks: Iterable[Task],
    workers: int,
    *,
    initializer: Callable[..., None],
    arguments: tuple[Any, ...],
) -> Iterator[Result]:
    """Results in the order of the tasks, at most two tasks a worker ahead of the caller.

    With one worker everything runs in this process. `initializer(*arguments)` is called once in each worker.

    Raises:
        BiosmithError: a worker was killed, mostly for memory.
    """
    if workers <= 1:
        initializer(*arguments)
        yield from map(function, tasks)
        return
    # "spawn": a forked child would inherit the locks of the threads that Arrow and the tokenizers library run.
    pool = ProcessPoolExecutor(
        workers,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_start_worker,
        initargs=(initializer, arguments),
        max_tasks_per_child=TASKS_OF_A_WORKER,
    )
    waiting: deque[Future[Result]] = deque()
    try:
        for task in tasks:
            waiting.append(pool.submit(function, task))
            if len(waiting) >= 2 * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool as error:
        raise BiosmithError(
            "a worker process was killed, most likely for memory; use fewer --workers"
        ) from error
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _start_worker(initializer: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    import pyarrow as pa

    pa.set_cpu_count(1)  # one core a worker, or the workers get in each other's way
    initializer(*arguments)
