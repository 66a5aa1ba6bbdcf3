"""One process at a time makes a folder: two would take away each other's checkpoints. What a killed one leaves lies in
one work folder beside the output, where the next one finds it."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from biosmith.artefact import require_new_folder
from biosmith.errors import UsageError
from biosmith.processes import lock_file

LOCK = "lock"
SAVED = "saved"  # in a work folder: where the output is written before it is renamed; empty afterwards


def by_name(out: Path) -> Path:
    """`out` with a name of its own, beside which a work folder can lie: `.` and `..` as the folders that they are."""
    return out if out.name not in ("", "..") else out.resolve()


def work_folder(out: Path) -> Path:
    """The work folder of `out`. One that a process left which was killed when its output was there already goes."""
    work = out.parent / f".{out.name}.partial"
    saved = work / SAVED
    if out.is_dir() and any(out.iterdir()) and saved.is_dir() and not any(saved.iterdir()):
        with contextlib.suppress(UsageError), hold(work, out):
            shutil.rmtree(work, ignore_errors=True)
    return work


def finish(work: Path, out: Path, save: Callable[[Path], None]) -> None:
    """Save a finished output and remove its work folder, which is held; whenever this process is killed, what it leaves
    lies in the work folder.

    Args:
        work: see `work_folder`.
        out: does not exist, or is empty.
        save: writes a folder, which is called as `out` is.

    Raises:
        UsageError: `out` holds something by now.
    """
    require_new_folder(out)
    saved = work / SAVED
    shutil.rmtree(saved, ignore_errors=True)
    save(saved / out.name)
    if out.is_dir():
        out.rmdir()
    (saved / out.name).replace(out)
    # In this order: an empty folder in it says that the output is there.
    for path in work.iterdir():
        if path.name not in (SAVED, LOCK):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.rmtree(work, ignore_errors=True)


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
