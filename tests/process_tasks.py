"""What the worker processes of test_processes.py do; they must be able to import it."""

from __future__ import annotations

import os
import signal
import time

FACTOR = 1


def begin(factor: int) -> None:
    global FACTOR
    FACTOR = factor


def multiply(number: int) -> int:
    time.sleep(0.01 * (number % 3))
    return FACTOR * number


def dies_at_seven(number: int) -> int:
    if number == 7:
        os.kill(os.getpid(), signal.SIGKILL)
    return multiply(number)


def raises_at_seven(number: int) -> int:
    if number == 7:
        raise ValueError("seven")
    return number
