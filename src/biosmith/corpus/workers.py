"""Independent tasks in worker processes, with one progress bar."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context
from typing import Any, TypeVar

from biosmith.errors import BiosmithError, UsageError
from biosmith.progress import progress

Task = TypeVar("Task")
Advance = Callable[[int], None]

_LOOK_EVERY_SECONDS = 0.5
_counter: Any = None  # in a worker: the number of items done by all workers, shared with the parent


def available_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


def run_all(
    function: Callable[[Task, Advance], None],
    tasks: Sequence[Task],
    *,
    workers: int | None,
    what: str,
    total: int | None = None,
    unit: str = "documents",
) -> None:
    """Do every task once, in any order; the first error stops the rest.

    Args:
        function: takes a task and a function that is told of progress; must be picklable, as the tasks must.
        tasks: what is to be done.
        workers: number of processes; 1 works in this process, None takes the cores there are.
        what: what the progress bar says.
        total: items that all tasks together make, if known.
        unit: what the items are called.

    Raises:
        BiosmithError: a worker process was killed, for example because memory ran out.
    """
    if workers is not None and workers < 1:
        raise UsageError(f"workers is {workers}; it must be 1 or more")
    processes = min(available_cores() if workers is None else workers, len(tasks))
    with progress(what, total=total, unit=unit) as advance:
        if processes <= 1:
            for task in tasks:
                function(task, advance)
            return
        _run_in_processes(function, tasks, processes, advance)


def _run_in_processes(
    function: Callable[[Task, Advance], None], tasks: Sequence[Task], processes: int, advance: Advance
) -> None:
    context = get_context("spawn")
    counter = context.Value("q", 0)
    shown = 0
    pool = ProcessPoolExecutor(processes, mp_context=context, initializer=_begin, initargs=(counter,))
    try:
        waiting = {pool.submit(partial(_do, function), task) for task in tasks}
        while waiting:
            done, waiting = wait(waiting, timeout=_LOOK_EVERY_SECONDS, return_when=FIRST_EXCEPTION)
            for future in done:
                future.result()
            advance(counter.value - shown)
            shown = counter.value
    except BrokenProcessPool as error:
        raise BiosmithError(
            "a worker process was killed (is there enough memory?); --resume goes on from here"
        ) from error
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _begin(counter: Any) -> None:
    global _counter
    _counter = counter
    # One process a core is all the parallelism there is; libraries must not add threads of their own.
    os.environ["RAYON_NUM_THREADS"] = "1"
    import pyarrow

    pyarrow.set_cpu_count(1)


def _do(function: Callable[[Task, Advance], None], task: Task) -> None:
    function(task, _count)


def _count(items: int) -> None:
    with _counter.get_lock():
        _counter.value += items
