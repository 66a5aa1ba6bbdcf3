"""Workers: an interrupt ends a run at once, without their tracebacks."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SCRIPT = """
import sys, time
from biosmith.bench import devices

class Slow:
    record = __import__("pathlib").Path("nowhere")

def attempt(job, device, at_once):
    open(sys.argv[1] + "/begun", "a").write("x")
    time.sleep(600)

if __name__ == "__main__":
    devices._attempt = attempt
    try:
        devices.run_jobs([Slow(), Slow(), Slow()], ["cpu", "cpu"], lambda job, problem: print("done", problem))
    except KeyboardInterrupt:
        print("interrupted")
"""


@pytest.mark.slow
def test_an_interrupt_ends_the_workers_at_once(tmp_path: Path) -> None:
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
    while not (begun.exists() and len(begun.read_text()) == 2):
        assert time.monotonic() < deadline and run.poll() is None
        time.sleep(0.1)
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=30)
    assert (out, err) == ("interrupted\n", "")
