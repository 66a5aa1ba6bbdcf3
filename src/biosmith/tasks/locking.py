"""One process at a time makes a folder: two would take away each other's checkpoints."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

from biosmith.errors import UsageError

LOCK = "lock"


@contextlib.contextmanager
def hold(work: Path, out: Path) -> Iterator[None]:
    """Hold the work folder of `out` inside the block; the system lets go of it however this process ends.

    A work folder with nothing else in it is removed afterwards.

    Raises:
        UsageError: another process holds it.
    """
    work.mkdir(parents=True, exist_ok=True)
    with (work / LOCK).open("ab") as stream:
        try:
            if sys.platform == "win32":
                import msvcrt

                msvcrt.locking(stream.fileno(), msvcrt.LK_NBLCK, 1)
            else:
                import fcntl

                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError) as error:
            raise UsageError(
                f"another process is making {out}; wait for it, or choose another --out"
            ) from error
        except OSError:
            pass  # a file system that has no locks
        try:
            yield
        finally:
            if work.is_dir() and [path.name for path in work.iterdir()] == [LOCK]:
                with contextlib.suppress(OSError):  # Windows removes no open file
                    (work / LOCK).unlink()
                    work.rmdir()
