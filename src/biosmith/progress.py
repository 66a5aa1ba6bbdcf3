"""Progress on stderr: a rich bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

console = Console(stderr=True, soft_wrap=True)
LINE_EVERY_SECONDS = 15.0


@contextlib.contextmanager
def progress(what: str, total: int | None = None, unit: str = "documents") -> Iterator[Callable[[int], None]]:
    """Yield a function that takes the number of items done since the last call.

    >>> with progress("Reading", total=2) as advance:
    ...     advance(2)
    """
    if console.is_terminal:
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn(unit),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=console, transient=False) as bars:
            task = bars.add_task(what, total=total)
            yield lambda n: bars.advance(task, n)
        return
    state = {"done": 0, "shown": time.monotonic()}
    began = state["shown"]

    def advance(n: int) -> None:
        state["done"] += n
        now = time.monotonic()
        if now - state["shown"] >= LINE_EVERY_SECONDS:
            state["shown"] = now
            of = "" if total is None else f" of {total:,}"
            rate = state["done"] / (now - began)
            console.print(f"{what}: {int(state['done']):,}{of} {unit}, {rate:,.1f}/s", highlight=False)

    yield advance


def say(text: str) -> None:
    """One line for the user, on stderr."""
    console.print(text, highlight=False, markup=False)
