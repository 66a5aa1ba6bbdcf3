"""Where converted networks and compiled kernels are kept; nothing in there changes a result."""

from __future__ import annotations

import functools
import os
import tempfile
from pathlib import Path


@functools.cache
def _temporary() -> Path:
    """Of this process alone: a folder of a known name that all may write could hold another user's networks."""
    return Path(tempfile.mkdtemp(prefix="biosmith-"))


def cache_folder() -> Path:
    """A folder of the user's that can be written; a temporary one where there is none."""
    try:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "biosmith"
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # RuntimeError: there is no home
        return _temporary()
    return folder if os.access(folder, os.W_OK) else _temporary()
