"""Precision, recall and F1 from counts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Counts:
    """How many were found rightly, predicted and there; 0/0 is 0, as in seqeval and scikit-learn.

    >>> Counts(found=1, predicted=2, gold=4).recall
    0.25
    """

    found: int = 0
    predicted: int = 0
    gold: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.found + other.found, self.predicted + other.predicted, self.gold + other.gold)

    @property
    def precision(self) -> float:
        """Share of what was predicted that is right."""
        return self.found / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        """Share of what is there that was found."""
        return self.found / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        return 2 * self.found / (self.predicted + self.gold) if self.predicted + self.gold else 0.0

    def as_dict(self) -> dict[str, float]:
        """For JSON: precision, recall, f1 in [0, 1] and the three counts."""
        return {
            "precision": self.precision,
            "recall": self.recall,
            "f1": self.f1,
            "found": self.found,
            "predicted": self.predicted,
            "gold": self.gold,
        }
