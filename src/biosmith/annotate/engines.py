"""What scores sequences: one function behind a name, chosen by what the machine has."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from biosmith.errors import UsageError
from biosmith.tasks.ner import load_tuned
from biosmith.tasks.tagging import Tagger


def _torch(folder: Path, device: str) -> Tagger:
    return load_tuned(folder, device=device)


# name -> a function from (folder, device) to a tagger whose engine it is
ENGINES: dict[str, Callable[[Path, str], Tagger]] = {
    "torch": _torch,
}


def open_tagger(folder: Path, engine: str = "auto", device: str = "auto") -> Tagger:
    """A tuned tagger with the engine asked for; "auto" is the fastest that this machine and the folder allow.

    Raises:
        UsageError: the engine is unknown, or the folder is no tuned tagger.
    """
    if engine == "auto":
        engine = "torch"
    if engine not in ENGINES:
        raise UsageError(f"engine {engine!r} is unknown; valid: auto, {', '.join(ENGINES)}")
    return ENGINES[engine](folder, device)
