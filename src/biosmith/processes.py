"""The same work in several processes: tasks go out, results come back in order, a bounded number at a time."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import IO, Any, TypeVar
from weakref import WeakSet

from biosmith.errors import BiosmithError, UsageError

Task = TypeVar("Task")
Result = TypeVar("Result")

LOOK_EVERY_SECONDS = 0.5
KILLED = "a worker process was killed, most likely for memory; use fewer --workers"


def map_in_order(
    function: Callable[[Task], Result],
    tasks: Iterable[Task],
    workers: int,
    *,
    initializer: Callable[..., None],
    arguments: tuple[Any, ...],
    tasks_of_a_worker: int | None = None,
    rescue: Callable[[Task], Iterable[Result]] | None = None,
) -> Iterator[Result]:
    """Results in the order of the tasks, at most two tasks a worker ahead of the caller.

    With one worker everything runs in this process. Workers end themselves when this process is killed.

    Args:
        function: takes a task; it and the tasks must be picklable.
        tasks: read as needed.
        workers: processes.
        initializer: called as `initializer(*arguments)` once in each worker.
        arguments: its arguments.
        tasks_of_a_worker: workers are replaced after this many, so that no leak of a library adds up.
        rescue: does a task that was under way when a worker was killed; then the work goes on with new workers.
            None makes the kill an error.

    Raises:
        BiosmithError: a worker was killed, mostly for memory, and there is no `rescue`.
    """
    if workers <= 1:
        initializer(*arguments)
        yield from map(function, tasks)
        return
    source = iter(tasks)
    waiting: deque[tuple[Task, Future[Result]]] = deque()
    while True:
        pool = _pool(workers, initializer, arguments, tasks_of_a_worker)
        unsent: Task | None = None
        try:
            for unsent in source:
                waiting.append((unsent, pool.submit(function, unsent)))
                unsent = None
                while len(waiting) >= 2 * workers:
                    yield waiting[0][1].result()
                    waiting.popleft()
            while waiting:
                yield waiting[0][1].result()
                waiting.popleft()
            return
        except BrokenProcessPool as error:
            if rescue is None:
                raise BiosmithError(KILLED) from error
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
        left = [*waiting] if unsent is None else [*waiting, (unsent, Future())]
        waiting.clear()
        for task, future in left:
            if future.done() and not future.cancelled() and future.exception() is None:
                yield future.result()
            else:
                yield from rescue(task)


def run_alone(
    function: Callable[[Task], Result],
    task: Task,
    *,
    initializer: Callable[..., None],
    arguments: tuple[Any, ...],
) -> Result:
    """The result of one task in a process of its own, so that whatever it does to the process stays there.

    Raises:
        BrokenProcessPool: the process was killed.
    """
    with _pool(1, initializer, arguments, None) as pool:
        return pool.submit(function, task).result()


def end_with_parent() -> None:
    """End this worker process when the process that started it is gone; one that was killed can tell nobody."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        while parent is not None and parent.is_alive():
            parent.join(LOOK_EVERY_SECONDS)
        os._exit(1)

    if parent is not None:
        threading.Thread(target=watch, daemon=True, name="watches the parent").start()


def _pool(
    workers: int, initializer: Callable[..., None], arguments: tuple[Any, ...], tasks: int | None
) -> ProcessPoolExecutor:
    # "spawn": a forked child would inherit the locks of the threads that Arrow and the tokenizers library run.
    return ProcessPoolExecutor(
        workers,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_start_worker,
        initargs=(initializer, arguments),
        max_tasks_per_child=tasks,
    )


def _start_worker(initializer: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    import pyarrow

    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent tells when to stop
    pyarrow.set_cpu_count(1)  # one core a worker, or the workers get in each other's way
    initializer(*arguments)


_HELD: WeakSet[IO[bytes]] = WeakSet()


def _let_go() -> None:
    for stream in list(_HELD):
        stream.close()


if hasattr(os, "register_at_fork"):
    # A forked child shares the hold, and would keep it where this process is killed.
    os.register_at_fork(after_in_child=_let_go)


def lock_file(stream: IO[bytes]) -> bool:
    """Hold a file for as long as it is open here, however this process ends; False if another process holds it.

    Forked children close it. On a file system that has no locks nobody is kept out.
    """
    _HELD.add(stream)
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(stream.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:
        return True
    return True


@contextlib.contextmanager
def hold_output(out: Path) -> Iterator[None]:
    """Hold the name `out` inside the block, by a hidden file beside it; the system lets go however this process ends.

    One process at a time makes a corpus, a token store or a run: two would take away each other's half-written files.

    Raises:
        UsageError: another process holds it, or nothing can be made there.
    """
    # Of "." and "..", too: a file in a folder that has to be empty would be one that is there already.
    place = out if out.name not in ("", "..") else out.resolve()
    path = place.parent / f".{place.name}.lock"
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        opened = path.open("ab")
    except PermissionError as error:
        raise UsageError(f"{out} cannot be written: no permission to write to {place.parent}") from error
    except (FileExistsError, NotADirectoryError) as error:
        raise UsageError(f"{out} cannot be written: {place.parent} is no folder") from error
    with opened as stream:
        if not lock_file(stream):
            raise UsageError(f"another process is making {out}; wait for it, or choose another --out")
        try:
            yield
        finally:
            with contextlib.suppress(OSError):  # Windows removes no open file
                path.unlink()
