"""Two networks as one engine: a fast one reads everything, a careful one again what was close. Imports no torch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from biosmith.annotate.sequences import Engine, Places, Scores, Sequences


class Cascade:
    """See `Engine`. A sequence with a close decision gets all its scores from the careful engine.

    Attributes:
        fast, careful: engines with the same outputs.
        columns: outputs of each head.
        threshold: see `close_sequences`.
    """

    def __init__(
        self,
        fast: Engine,
        careful: Engine,
        columns: Sequence[slice],
        threshold: float,
        *,
        reason: str = "",
    ) -> None:
        self.name, self.outputs, self.reason = fast.name, fast.outputs, reason
        self.fast, self.careful = fast, careful
        self.columns, self.threshold = columns, threshold

    def __call__(self, sequences: Sequences) -> Scores:
        """See `Engine`."""
        scores = self.fast(sequences)
        close = close_sequences(sequences, scores, self.columns, self.threshold)
        if len(close):
            again, rows = sequences.take(close)
            scores[rows] = self.careful(again)
        return scores


def close_sequences(
    sequences: Sequences, scores: Scores, columns: Sequence[slice], threshold: float
) -> Places:
    """Sequences in which a head's best label beats the second by less than `threshold` at some pick, ascending.

    Args:
        sequences: that were scored.
        scores: logits of the picks [P, K], so a difference of two is in log-odds.
        columns: outputs of each head.
        threshold: in log-odds.
    """
    close = np.zeros(len(scores), bool)
    for labels in columns:
        two_best = np.partition(scores[:, labels], -2, axis=1)[:, -2:]
        close |= two_best[:, 1] - two_best[:, 0] < threshold
    return np.unique(np.searchsorted(sequences.begins, sequences.picks[close], side="right") - 1)
