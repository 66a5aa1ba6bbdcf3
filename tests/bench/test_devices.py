"""Workers: an interrupt ends a run at once, without their tracebacks; a killed run leaves none behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SCRIPT = """
import os, sys, time
from biosmith.bench import devices

class Slow:
    record = __import__("pathlib").Path("nowhere")

def attempt(job, device, at_once):
    with open(sys.argv[1] + "/begun", "a") as begun:
        print(os.getpid(), file=begun)
    time.sleep(600)

if __name__ == "__main__":
    devices._attempt = attempt
    try:
        devices.run_jobs([Slow(), Slow(), Slow()], ["cpu", "cpu"], lambda job, problem: print("done", problem))
    except KeyboardInterrupt:
        print("interrupted")
"""


@pytest.mark.slow
def test_workers_end_with_a_parent_that_was_killed(tmp_path: Path) -> None:
    # Nobody tells them: without a watch they would train on, beside the run that is started next.
    run = start(tmp_path)
    workers = {int(pid) for pid in (tmp_path / "begun").read_text().split()}
    run.kill()
    run.communicate(timeout=30)
    deadline = time.monotonic() + 60
    while any(is_there(pid) for pid in workers):
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.slow
def test_an_interrupt_ends_the_workers_at_once(tmp_path: Path) -> None:
    run = start(tmp_path)
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=30)
    assert (out, err) == ("interrupted\n", "")


def start(tmp_path: Path) -> subprocess.Popen[str]:
    """A run with two workers that have begun."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    run = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    begun = tmp_path / "begun"
    deadline = time.monotonic() + 120
    while not (begun.exists() and begun.read_text().count("\n") == 2):
        assert time.monotonic() < deadline and run.poll() is None
        time.sleep(0.1)
    return run


def is_there(pid: int) -> bool:
    """Whether a process runs."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
