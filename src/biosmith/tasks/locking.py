"""One process at a time makes a folder: two would take away each other's checkpoints."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from biosmith.errors import UsageError
from biosmith.processes import lock_file

LOCK = "lock"


def by_name(out: Path) -> Path:
    """`out` with a name of its own, beside which a work folder can lie: `.` and `..` as the folders that they are."""
    return out if out.name not in ("", "..") else out.resolve()


@contextlib.contextmanager
def hold(work: Path, out: Path) -> Iterator[None]:
    """Hold the work folder of `out` inside the block; the system lets go of it however this process ends.

    A work folder with nothing else in it is removed afterwards.

    Raises:
        UsageError: another process holds it.
    """
    work.mkdir(parents=True, exist_ok=True)
    with (work / LOCK).open("ab") as stream:
        if not lock_file(stream):
            raise UsageError(f"another process is making {out}; wait for it, or choose another --out")
        try:
            yield
        finally:
            if work.is_dir() and [path.name for path in work.iterdir()] == [LOCK]:
                with contextlib.suppress(OSError):  # Windows removes no open file
                    (work / LOCK).unlink()
                    work.rmdir()
