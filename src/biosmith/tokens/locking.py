"""One process at a time makes a corpus, a token store or a run: two would take away each other's half-written files."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from biosmith.errors import UsageError
from biosmith.processes import lock_file


@contextlib.contextmanager
def hold_output(out: Path) -> Iterator[None]:
    """Hold the name `out` inside the block, by a hidden file beside it; the system lets go however this process ends.

    Raises:
        UsageError: another process holds it.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    path = out.parent / f".{out.name}.lock"
    with path.open("ab") as stream:
        if not lock_file(stream):
            raise UsageError(f"another process is making {out}; wait for it, or choose another --out")
        try:
            yield
        finally:
            with contextlib.suppress(OSError):  # Windows removes no open file
                path.unlink()
