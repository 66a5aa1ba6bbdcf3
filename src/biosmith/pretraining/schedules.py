"""The learning rate of each update, as a pure function of the update's number."""

from __future__ import annotations

import math

from biosmith.pretraining.config import Linear, Polynomial, Schedule


def learning_rate(schedule: Schedule, peak: float, step: int, steps: int) -> float:
    """Learning rate of the update that follows `step` finished updates, in a run of `steps` updates.

    Counting starts at 0 as in the original BERT code (google-research/bert, `optimization.py`), so the first update
    of a warm-up has rate 0.
    """
    warmup = schedule.warm_up_length(steps)
    warmed = min(1.0, step / warmup) if warmup else 1.0
    if isinstance(schedule, Linear) and schedule.mode == "multiplies":
        return peak * warmed * _between(1 - step / steps, schedule.final)
    if step < warmup:
        return peak * warmed
    return peak * _between(_left(schedule, step, steps, warmup), schedule.final)


def _left(schedule: Schedule, step: int, steps: int, warmup: int) -> float:
    """What the decay leaves after the warm-up, from 1 to 0."""
    after_warmup = (step - warmup) / max(1, steps - warmup)
    if isinstance(schedule, Linear):
        return 1 - (after_warmup if schedule.mode == "triangle" else step / steps)
    if isinstance(schedule, Polynomial):
        return float(max(0.0, 1 - after_warmup) ** schedule.power)
    begins = steps - round(schedule.decay * steps)
    decayed = max(0.0, (step - begins) / max(1, steps - begins))
    return 1 - (math.sqrt(decayed) if schedule.shape == "sqrt" else decayed)


def _between(left: float, final: float) -> float:
    """`left` in [0, 1] mapped to [final, 1]."""
    return (1 - final) * max(0.0, left) + final
