"""How close a decision has to be for a cascade to read its sequence again, and what that costs."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from biosmith.annotate.engines.cascade import Cascade
from biosmith.annotate.sequences import Engine, Scores, Sequences

STEP = 0.1  # of log-odds
SECONDS = 1.0

Verdict = TypeVar("Verdict")


@dataclass(frozen=True)
class Found(Generic[Verdict]):
    """A threshold that is good enough.

    Attributes:
        threshold: in log-odds.
        again: share of tokens that the careful engine reads, too.
        verdict: of the cascade with it.
    """

    threshold: float
    again: float
    verdict: Verdict


def find_threshold(
    fast: Engine,
    careful: Engine,
    judge: Callable[[Engine], Verdict],
    fits: Callable[[Verdict], bool],
    most: float,
) -> Found[Verdict] | None:
    """The smallest threshold, in steps of `STEP`, of a cascade that fits.

    Args:
        fast, careful: engines of one head.
        judge: of engines; lets them score the same sequences each time.
        fits: whether a verdict is good enough.
        most: share of tokens that the careful engine may read, too.

    Returns:
        None if it would have to read more.
    """
    kept_fast, kept_careful = _Kept(fast), _Kept(careful)
    for step in itertools.count(1):
        threshold = round(step * STEP, 6)
        verdict = judge(Cascade(kept_fast, kept_careful, [slice(None)], threshold))
        again = kept_careful.tokens / max(1, kept_fast.tokens)
        if again > most:
            break
        if fits(verdict):
            return Found(threshold, again, verdict)
    return None


class _Kept:
    """An engine that scores each sequence once.

    Attributes:
        tokens: of the sequences that were scored.
    """

    def __init__(self, engine: Engine) -> None:
        self.name, self.reason, self.outputs = engine.name, engine.reason, engine.outputs
        self.engine, self.tokens = engine, 0
        self._scores: dict[tuple[bytes, bytes], Scores] = {}

    def __call__(self, sequences: Sequences) -> Scores:
        """See `Engine`."""
        inner = sequences.begins[1:-1]
        ids = np.split(sequences.ids, inner)
        picks = np.split(sequences.picks, np.searchsorted(sequences.picks, inner))
        keys = [
            (i.tobytes(), (p - b).tobytes()) for i, p, b in zip(ids, picks, sequences.begins, strict=False)
        ]
        new = {key: number for number, key in enumerate(keys) if key not in self._scores}
        if new:
            unread, _ = sequences.take(np.array(list(new.values())))
            scores = np.split(self.engine(unread), np.searchsorted(unread.picks, unread.begins[1:-1]))
            self._scores.update(zip(new, scores, strict=True))
            self.tokens += len(unread.ids)
        return np.concatenate([self._scores[key] for key in keys])


def tokens_a_second(engine: Engine, sequences: Sequences) -> float:
    """Tokens that an engine reads a second, of the same sequences over and over."""
    engine(sequences)  # the first pass chooses kernels
    began, tokens = time.perf_counter(), 0
    while time.perf_counter() - began < SECONDS:
        engine(sequences)
        tokens += len(sequences.ids)
    return tokens / (time.perf_counter() - began)
