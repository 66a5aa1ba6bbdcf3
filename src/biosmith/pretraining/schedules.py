"""The learning rate of each update, as a pure function of the update's number."""

from __future__ import annotations

from biosmith.pretraining.config import Schedule


def learning_rate(schedule: Schedule, peak: float, step: int, steps: int) -> float:
    """Learning rate of the update that follows `step` finished updates, in a run of `steps` updates.

    Counting starts at 0 as in the original BERT code (google-research/bert, `optimization.py`), so the first update
    of a warm-up has rate 0.
    """
    warmup = schedule.warm_up_length(steps)
    warmed = min(1.0, step / warmup) if warmup else 1.0
    if schedule.mode == "multiplies":
        return peak * warmed * _decayed(step / steps, schedule.final)
    if step < warmup:
        return peak * warmed
    if schedule.mode == "triangle":
        return peak * _decayed((step - warmup) / max(1, steps - warmup), schedule.final)
    return peak * _decayed(step / steps, schedule.final)


def _decayed(done: float, final: float) -> float:
    """Share of the peak that a linear decay to `final` leaves when a share `done` of it is over."""
    return (1 - final) * (1 - min(done, 1.0)) + final
