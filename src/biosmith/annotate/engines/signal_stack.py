"""A guard against a fault of OpenVINO 2026: it leaves a thread with a signal stack that no longer exists.

Its CPU plugin gives the thread that compiles a network an alternate signal stack and takes it away with the plugin. Where
plugins do not go in the reverse order of their coming, or go in another thread, the thread keeps a stack that is freed,
and the next signal that Python handles (Ctrl-C) ends the process with a segmentation fault.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
from collections.abc import Iterator


class _Stack(ctypes.Structure):
    """`stack_t` of signal.h."""

    _fields_ = (("base", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t))


@contextlib.contextmanager
def kept_signal_stack() -> Iterator[None]:
    """This thread ends the block with the alternate signal stack that it had before; does nothing beside Linux."""
    if sys.platform != "linux":
        yield
        return
    libc, before = ctypes.CDLL(None), _Stack()
    libc.sigaltstack(None, ctypes.byref(before))
    try:
        yield
    finally:
        libc.sigaltstack(ctypes.byref(before), None)
