"""Where converted networks and compiled kernels are kept; nothing in there changes a result."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def cache_folder() -> Path:
    """A folder of the user's that can be written; a temporary one where there is none."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    for folder in (
        Path(base).expanduser() / "biosmith",
        Path(tempfile.gettempdir()) / f"biosmith-{os.getuid()}",
    ):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            return folder
    return Path(tempfile.mkdtemp(prefix="biosmith-"))
