"""Ctrl-C stays Ctrl-C: the signal stacks that OpenVINO gives and takes are put back."""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys

import pytest

from biosmith.annotate.engines.signal_stack import _Stack, kept_signal_stack

TWO_ENGINES = """
import signal, numpy as np, openvino
from openvino import opset13 as op
from biosmith.annotate.engines.openvino_engine import OpenVinoEngine

def engine():
    ids = op.parameter([1, 8], np.float32)
    model = openvino.Model([op.relu(ids)], [ids])
    return OpenVinoEngine(model, 8, 8, hint="f32", threads=1)

first = engine()
second = engine()
del first   # the stack of the second came after it, and was put in place of the first's
del second  # and would put the first's back, which is gone
try:
    signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_an_interrupt_after_two_engines_went_is_an_interrupt() -> None:
    pytest.importorskip("openvino")
    run = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", TWO_ENGINES], capture_output=True, text=True
    )  # faulthandler has handlers run on the signal stack
    assert (run.returncode, run.stdout.strip()) == (0, "interrupted"), run.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="other systems keep the stack that they have")
def test_a_stack_that_is_set_inside_the_block_is_put_back() -> None:
    libc, before, after = ctypes.CDLL(None), _Stack(), _Stack()
    libc.sigaltstack(None, ctypes.byref(before))
    memory = ctypes.create_string_buffer(1 << 16)
    with kept_signal_stack():
        given = _Stack(ctypes.addressof(memory), 0, len(memory))
        assert libc.sigaltstack(ctypes.byref(given), None) == 0
        signal.raise_signal(signal.SIGWINCH)
    libc.sigaltstack(None, ctypes.byref(after))
    assert (after.base, after.flags) == (before.base, before.flags)
