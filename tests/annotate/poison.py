"""Ways to break on one word, for worker processes: importable, so that spawned processes can be poisoned too."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from biosmith.annotate.pieces import PieceCutter
from biosmith.annotate.units import Chunk
from biosmith.annotate.work import ENCODERS, Encoding, Options, Outcome

WORD = "poisoned"


def break_tokenizer(monkeypatch: Any) -> None:
    """Cutting the word raises."""
    cut = PieceCutter.cut

    def fragile(self: PieceCutter, words: Sequence[str]) -> Any:
        if WORD in words:
            raise RuntimeError("a poisoned word")
        return cut(self, words)

    monkeypatch.setattr(PieceCutter, "cut", fragile)


def begin(models: Sequence[Path], options: Options, encoding: Encoding, threads: int) -> None:
    """Opens nothing: what is tested is what becomes of chunks, and models take long to open."""


def work_and_die(chunk: Chunk) -> Outcome:
    """Gives documents back as they are; the word ends the process, as a fault in a library would."""
    if any(WORD in document.text for document in chunk.documents):
        os.kill(os.getpid(), signal.SIGKILL)
    outcome = Outcome.of(chunk)
    outcome.payload = ENCODERS["jsonl"](chunk.documents)
    outcome.counts.documents = len(chunk.documents)
    return outcome
