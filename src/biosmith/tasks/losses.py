"""The losses of an epoch's steps, and what is known of one that is not finite."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class NotFinite:
    """Where losses were not finite.

    Attributes:
        first: the first such step of the epoch, counted from 1.
        count: how many such steps there were.
        steps: of the epoch, so far.
        is_first_step: it was the first step since training began or was resumed.
        spoilt: a parameter that was not finite then already, if one is known.
    """

    first: int
    count: int
    steps: int
    is_first_step: bool
    spoilt: str | None

    def explain(self, epoch: int, learning_rate: float) -> str:
        """What is known, and what to do."""
        known = f"the loss is not finite at step {self.first} of epoch {epoch} ({self.count} of {self.steps} steps so far)"
        if self.spoilt is not None:
            return (
                f"{known}: the weights that training began with hold NaN or an infinite number in {self.spoilt!r}; "
                "take another copy or checkpoint of the model"
            )
        if self.is_first_step:
            return (
                f"{known}: it was the first step, so that learning_rate is not the cause; "
                "look at the model's weights and the training data"
            )
        return (
            f"{known}: lower learning_rate ({learning_rate:g}); if it ends at the same step again, look at the "
            "training data"
        )


class Losses:
    """Sums over the steps of an epoch, kept on the device: nothing here waits for it but what reads them."""

    def __init__(self, device: torch.device) -> None:
        self._total, self._count, self._before = (torch.zeros((), device=device) for _ in range(3))

    def add(self, loss: Tensor) -> None:
        """Take the loss of a step; may be captured in a CUDA graph."""
        is_bad = (~loss.isfinite()).float()
        self._total += loss
        self._count += is_bad
        self._before += self._count == 0

    def clear(self) -> None:
        """Begin an epoch."""
        for tensor in (self._total, self._count, self._before):
            tensor.zero_()

    @property
    def total(self) -> float:
        """Their sum."""
        return float(self._total)

    def not_finite(self) -> tuple[int, int] | None:
        """The first step whose loss was not finite, counted from 1, and how many there were; None if all were."""
        count = int(self._count)
        return (int(self._before) + 1, count) if count else None
