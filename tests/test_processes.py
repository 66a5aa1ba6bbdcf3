"""Work in several processes: in order, bounded, and what becomes of it when processes are killed."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pytest

from biosmith.errors import BiosmithError, UsageError
from biosmith.processes import hold_output, map_in_order, run_alone
from process_tasks import begin, dies_at_seven, multiply, raises_at_seven


@pytest.mark.parametrize("workers", [1, 3])
def test_results_come_in_the_order_of_the_tasks(workers: int) -> None:
    results = map_in_order(multiply, range(20), workers, initializer=begin, arguments=(10,))
    assert list(results) == [10 * i for i in range(20)]


def test_tasks_are_read_at_most_two_a_worker_ahead() -> None:
    read = 0

    def endless() -> Iterator[int]:
        nonlocal read
        while True:
            read += 1
            yield read

    results = map_in_order(multiply, endless(), 2, initializer=begin, arguments=(1,))
    assert [next(results) for _ in range(3)] == [1, 2, 3]
    assert read <= 3 + 4
    results.close()  # type: ignore[attr-defined]


def test_an_error_of_a_task_is_the_callers() -> None:
    results = map_in_order(raises_at_seven, range(20), 2, initializer=begin, arguments=(1,))
    with pytest.raises(ValueError, match="seven"):
        list(results)


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is of POSIX")
def test_a_killed_worker_is_an_error_that_says_so() -> None:
    results = map_in_order(dies_at_seven, range(20), 2, initializer=begin, arguments=(1,))
    with pytest.raises(BiosmithError, match="a worker process was killed"):
        list(results)


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is of POSIX")
def test_with_a_rescue_the_rest_is_done_once_and_in_order() -> None:
    rescued = []

    def rescue(number: int) -> Iterator[int]:
        rescued.append(number)
        try:
            yield run_alone(dies_at_seven, number, initializer=begin, arguments=(10,))
        except BrokenProcessPool:
            yield -number

    results = map_in_order(dies_at_seven, range(30), 2, initializer=begin, arguments=(10,), rescue=rescue)
    assert list(results) == [-7 if i == 7 else 10 * i for i in range(30)]
    # Only what was under way is done again: at most two tasks a worker, and the one being handed out.
    assert 7 in rescued and len(rescued) <= 5


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="looks at the processes of Linux")
def test_workers_end_when_the_process_that_started_them_is_killed(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import time\n"
        "from biosmith.processes import map_in_order\n"
        "def begin():\n    pass\n"
        "def work(i):\n    time.sleep(600 if i else 0)\n"
        "if __name__ == '__main__':\n"
        "    for _ in map_in_order(work, range(9), 2, initializer=begin, arguments=()):\n"
        "        print('begun', flush=True)\n",
        encoding="utf-8",
    )
    run = subprocess.Popen([sys.executable, program], stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None and run.stdout.readline() == "begun\n"
    children = [int(p) for p in Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()]
    run.kill()
    run.stdout.close()
    run.wait()
    deadline = time.monotonic() + 30
    while any(Path(f"/proc/{pid}").exists() for pid in children):
        assert time.monotonic() < deadline, "workers outlive the process that started them"
        time.sleep(0.05)
    assert len(children) >= 2


FORKING = """
import os, signal, sys, time
from biosmith.processes import lock_file
with open(sys.argv[1], "ab") as stream:
    assert lock_file(stream)
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    with open(sys.argv[1], "ab") as other:
        assert not lock_file(other)
    time.sleep(0.5)  # the child has begun
with open(sys.argv[1], "ab") as other:
    held = lock_file(other)
os.kill(child, signal.SIGKILL)
sys.exit(0 if held else 1)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_does_not_go_on_holding_a_file(tmp_path: Path) -> None:
    # As the workers of a data loader, where the process that holds a run's folder is killed.
    subprocess.run([sys.executable, "-c", FORKING, str(tmp_path / "lock")], check=True, timeout=60)


def test_holding_the_working_directory_leaves_it_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A hidden file in it would be taken for an output that is there already.
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with hold_output(Path()):
        assert list(Path().iterdir()) == []
        with pytest.raises(UsageError, match="another process"), hold_output(tmp_path / "here"):
            pass


def test_a_place_where_nothing_can_be_made_is_a_wrong_call_that_names_the_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The hidden file beside it is nothing that a user knows of.
    (tmp_path / "file").touch()
    with (
        pytest.raises(UsageError, match=r"run cannot be written: .*file is no folder"),
        hold_output(tmp_path / "file" / "run"),
    ):
        pass

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", ".run.lock")

    monkeypatch.setattr(Path, "open", refuse)
    with (
        pytest.raises(UsageError, match=r"run cannot be written: no permission to write to"),
        hold_output(tmp_path / "run"),
    ):
        pass
