"""Agreement of numbers: what BIOSSES is scored by."""

from __future__ import annotations

import math
from collections.abc import Sequence


def pearson(gold: Sequence[float], predicted: Sequence[float]) -> float:
    """Pearson's correlation; 0 where one side does not vary, for then it is not defined and nothing was told apart.

    Raises:
        ValueError: fewer than two pairs, or not as many on both sides.
    """
    if len(gold) != len(predicted) or len(gold) < 2:
        raise ValueError(
            f"two numbers or more on both sides are needed, not {len(gold)} and {len(predicted)}"
        )
    # By the numbers themselves: the mean of three times 0.1 is not 0.1, and would leave a spread.
    if min(gold) == max(gold) or min(predicted) == max(predicted):
        return 0.0
    gold_mean, predicted_mean = math.fsum(gold) / len(gold), math.fsum(predicted) / len(gold)
    gold, predicted = _scaled([g - gold_mean for g in gold]), _scaled([p - predicted_mean for p in predicted])
    pairs = list(zip(gold, predicted, strict=True))
    spread = math.sqrt(math.fsum(g * g for g, _ in pairs) * math.fsum(p * p for _, p in pairs))
    return math.fsum(g * p for g, p in pairs) / spread if spread else 0.0


def _scaled(values: Sequence[float]) -> list[float]:
    """By the power of two that leaves the largest below 1, so that no square overflows or vanishes; no digit changes."""
    exponent = math.frexp(max(map(abs, values)))[1]
    return [math.ldexp(value, -exponent) for value in values]
