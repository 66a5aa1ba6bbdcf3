"""Independent tasks in worker processes, with one progress bar."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context, parent_process
from types import TracebackType
from typing import Any, TypeVar

from biosmith.errors import BiosmithError, UsageError
from biosmith.machine import usable_cores
from biosmith.progress import progress

Task = TypeVar("Task")
Advance = Callable[[int], None]

_LOOK_EVERY_SECONDS = 0.5
_counter: Any = None  # in a worker: the number of items done by all workers, shared with the parent


class Workers:
    """Worker processes, started when they are first needed; a context manager.

    Args:
        processes: 1 works in this process; None takes the cores that this process may use.

    Raises:
        UsageError: fewer than one process.
    """

    def __init__(self, processes: int | None) -> None:
        if processes is not None and processes < 1:
            raise UsageError(f"workers is {processes}; it must be 1 or more")
        self.processes = usable_cores() if processes is None else processes
        self._context = get_context("spawn")
        self._counter: Any = self._context.Value("q", 0)
        self._stop = self._context.Event()
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            if error is not None:
                self._stop.set()  # what they are doing is done again when the work goes on
            self._pool.shutdown(wait=True, cancel_futures=True)

    def run(
        self,
        function: Callable[[Task, Advance], None],
        tasks: Sequence[Task],
        what: str,
        total: int | None = None,
    ) -> None:
        """Do every task once, in any order; the first error stops the rest.

        Args:
            function: takes a task and a function that is told of progress; must be picklable, as the tasks must.
            tasks: what is to be done.
            what: what the progress bar says.
            total: documents in all tasks together, if known.

        Raises:
            BiosmithError: a worker process was killed, for example because memory ran out.
        """
        with progress(what, total=total) as advance:
            if min(self.processes, len(tasks)) <= 1:
                for task in tasks:
                    function(task, advance)
                return
            try:
                self._run_in_processes(function, tasks, advance)
            except BrokenProcessPool as error:
                message = "a worker process was killed (is there enough memory?); --resume goes on from here"
                raise BiosmithError(message) from error

    def _run_in_processes(
        self, function: Callable[[Task, Advance], None], tasks: Sequence[Task], advance: Advance
    ) -> None:
        if self._pool is None:
            self._pool = ProcessPoolExecutor(
                self.processes,
                mp_context=self._context,
                initializer=_begin,
                initargs=(self._counter, self._stop),
            )
        shown = self._counter.value
        waiting = {self._pool.submit(partial(_do, function), task) for task in tasks}
        while waiting:
            done, waiting = wait(waiting, timeout=_LOOK_EVERY_SECONDS, return_when=FIRST_EXCEPTION)
            for future in done:
                future.result()
            advance(self._counter.value - shown)
            shown = self._counter.value


def _begin(counter: Any, stop: Any) -> None:
    global _counter
    _counter = counter
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent tells when to stop
    # One process a core is all the parallelism there is; libraries must not add threads of their own.
    os.environ["RAYON_NUM_THREADS"] = "1"
    import pyarrow

    pyarrow.set_cpu_count(1)
    threading.Thread(target=_watch, args=(stop,), daemon=True).start()


def _watch(stop: Any) -> None:
    """End this process when it is told to, or when its parent is gone: one that was killed can tell nobody."""
    parent = parent_process()
    while not stop.wait(_LOOK_EVERY_SECONDS):
        if parent is not None and not parent.is_alive():
            break
    os._exit(1)


def _do(function: Callable[[Task, Advance], None], task: Task) -> None:
    function(task, _count)


def _count(items: int) -> None:
    with _counter.get_lock():
        _counter.value += items
