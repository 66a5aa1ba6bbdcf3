"""Memory that stays flat over days: batches of ever other sizes leave holes that the C library would keep for itself."""

from __future__ import annotations

import ctypes
import os
import sys

ARENAS = 2  # of the C library; it makes eight a core, each with its own holes
_M_ARENA_MAX = -8  # malloc.h of glibc


def keep_few_pools() -> None:
    """Bound what libraries keep for later; call it before they are first used."""
    # oneDNN keeps compiled kernels of the last 1024 shapes, and hardly two batches have one shape.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
    library = _glibc()
    if library is not None:
        library.mallopt(_M_ARENA_MAX, ARENAS)


def give_back() -> None:
    """Return free memory to the system, where the C library can."""
    library = _glibc()
    if library is not None:
        library.malloc_trim(0)


def _glibc() -> ctypes.CDLL | None:
    if not sys.platform.startswith("linux"):
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "malloc_trim") and hasattr(library, "mallopt") else None
