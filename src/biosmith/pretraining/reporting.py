"""Log lines of a run: taken from the device without waiting for it, written when they have arrived."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from biosmith.errors import BiosmithError
from biosmith.models.finite import find_not_finite
from biosmith.pretraining.batches import Counts
from biosmith.pretraining.checkpoints import RunState
from biosmith.pretraining.config import Recipe
from biosmith.pretraining.elbo import ElboWindow
from biosmith.pretraining.metrics import MetricsLog, PlateauWatch, draw_loss
from biosmith.pretraining.schedules import learning_rate
from biosmith.pretraining.step import OBJECTIVES, Window, read_window
from biosmith.pretraining.tracking import Tracker
from biosmith.progress import say

# Objective over pairs -> the key of its loss.
PAIR_LOSSES = {"next_sentence_prediction": "nsp_loss", "sentence_order_prediction": "sop_loss"}
# Updates in a row whose gradient is not finite, after which a run is given up.
MOST_SKIPPED = 25
# Steps the host may run ahead of a CUDA device.
STEPS_AHEAD = 2


@dataclass(frozen=True)
class _Taken:
    """A window on its way from the device."""

    step: int
    steps: int
    epoch: float
    seconds: float
    values: Tensor
    arrived: torch.cuda.Event | None
    more: Mapping[str, Any]


class Reporter:
    """Writes `metrics.jsonl` and `loss.png`, tells the user, and warns.

    Args:
        recipe: of the run.
        out: the run's folder.
        entropy: unigram entropy of the corpus, nats.
        state: where a resumed run stands; None at its beginning.
        quiet: write and say nothing (another process does).
        trackers: what makes the trackers that get every line too.
        model: looked at where the loss stays not finite.
    """

    def __init__(
        self,
        recipe: Recipe,
        out: Path,
        entropy: float,
        state: RunState | None = None,
        quiet: bool = False,
        trackers: Sequence[Callable[[Path, Recipe, int], Tracker]] = (),
        model: nn.Module | None = None,
    ) -> None:
        self.recipe, self.out, self.entropy, self.quiet = recipe, out, entropy, quiet
        self.model = model
        step, self.tokens = (0, 0) if state is None else (state.step, state.tokens)
        self.speed = Speed(0 if state is None else read_window(state.window)[1].tokens)
        self.trackers = [] if quiet else [make(out, recipe, step) for make in trackers]
        self.log = MetricsLog(None if quiet else out, step)
        self.watch = PlateauWatch(entropy, recipe.schedule.warm_up_length(recipe.steps), recipe.steps)
        if state is not None:
            self.watch.state = dict(state.watch)
        self._logged_step = self.log.lines[-1]["step"] if self.log.lines else 0
        self._waiting: deque[_Taken] = deque()

    def take(self, step: int, window: Tensor, epoch: float, seconds: float, more: Mapping[str, Any]) -> None:
        """Copy the window of the steps up to `step`, which took `seconds`; `more` goes into the line as it is."""
        arrived = None
        if window.is_cuda:
            values = torch.empty_like(window, device="cpu", pin_memory=True)
            values.copy_(window, non_blocking=True)
            arrived = torch.cuda.Event()
            arrived.record()
        else:
            values = window.clone()
        self._waiting.append(_Taken(step, step - self._logged_step, epoch, seconds, values, arrived, more))
        self._logged_step = step

    def write(self, wait: bool = False) -> None:
        """Write the lines that have arrived, or all of them.

        Raises:
            BiosmithError: the loss has not been finite for many steps.
        """
        while self._waiting:
            taken = self._waiting[0]
            if taken.arrived is not None and not taken.arrived.query():
                if not wait:
                    return
                taken.arrived.synchronize()
            self._write(self._waiting.popleft())

    def _write(self, taken: _Taken) -> None:
        window, counts = read_window(taken.values.tolist())
        self.tokens += counts.tokens
        line = self._line(taken, window, counts)
        self.log.add(line)
        for tracker in self.trackers:
            tracker.add(line)
        warning = self.watch.see(taken.step, line["mlm_loss"], taken.steps)
        if not self.quiet:
            say(_shown(line, self.recipe.steps))
        if warning is not None and not self.quiet:
            say(f"Warning: {warning}")
        if window.skipped_in_a_row >= MOST_SKIPPED:
            raise BiosmithError(
                explain_not_finite(taken.step, window, self.recipe.optimizer.learning_rate, self.model)
            )

    def _line(self, taken: _Taken, window: Window, counts: Counts) -> dict[str, Any]:
        recipe = self.recipe
        mlm = window.masked_language_loss / window.predicted if window.predicted else float("nan")
        nsp = window.next_sentence_loss / window.sequences if window.sequences else float("nan")
        adversarial = window.adversarial_loss / window.predicted if window.predicted else float("nan")
        rtd = window.replaced_token_loss / window.tokens if window.tokens else float("nan")
        pairs = recipe.pair_objective
        kinds = [OBJECTIVES[0], pairs.kind if pairs else OBJECTIVES[1], *OBJECTIVES[2:]]
        losses = {
            "mlm_loss": mlm,
            PAIR_LOSSES[kinds[1]]: nsp,
            "adversarial_loss": adversarial,
            "rtd_loss": rtd,
        }
        parts = {
            key: (recipe.weight_of(kind), value)
            for kind, (key, value) in zip(kinds, losses.items(), strict=True)
            if recipe.objective(kind) is not None
        }
        hidden, peak = max(1, counts.hidden), recipe.optimizer.learning_rate
        line = {
            "step": taken.step,
            "loss": sum(weight * value for weight, value in parts.values()),
            **{key: value for key, (_, value) in parts.items()},
            "learning_rate": learning_rate(recipe.schedule, peak, taken.step - 1, recipe.steps),
            "gradient_norm": window.gradient_norm,
            "tokens_per_second": round(self.speed.lap(counts.tokens, taken.seconds), 1),
            "tokens": self.tokens,
            "epoch": taken.epoch,
            "mask_rate": counts.hidden / max(1, counts.maskable),
            "masked_share": counts.masked / hidden,
            "random_share": counts.random / hidden,
            "kept_share": counts.kept / hidden,
            "random_pairs": counts.random_pairs / max(1, counts.sequences),
            "dropped_tokens": counts.dropped,
            "skipped_steps": int(window.skipped),
            **taken.more,
        }
        if "nsp_loss" not in parts:
            del line["random_pairs"]
        if "rtd_loss" in parts:
            originals = window.tokens - window.replaced
            line["replaced_share"] = window.replaced / max(1.0, window.tokens)
            line["replaced_accuracy"] = window.replaced_found / max(1.0, window.replaced)
            line["original_accuracy"] = window.originals_found / max(1.0, originals)
        if "sop_loss" in parts:
            line["exchanged_pairs"] = counts.random_pairs / max(1, counts.sequences)
        return line

    def close(self) -> None:
        """Close the log and the trackers."""
        self.log.close()
        for tracker in self.trackers:
            tracker.close()

    def draw(self) -> None:
        """Draw `loss.png` as it stands."""
        draw_loss(self.out, self.log.lines, self.entropy, self.out.name)


def explain_not_finite(
    step: int, window: Window | ElboWindow, learning_rate: float, model: nn.Module | None
) -> str:
    """What is known of a loss that stays not finite, and what to do."""
    skipped, row = int(window.skipped), int(window.skipped_in_a_row)
    known = f"step {step}: loss or gradient have not been finite for {row} steps ({skipped} of {step} in all)"
    # No such step has changed the weights.
    if model is not None and (name := find_not_finite(model)) is not None:
        return (
            f"{known}: the weights that training began with hold NaN or an infinite number in {name!r}; begin "
            "again from another model or checkpoint"
        )
    if skipped >= step:
        return (
            f"{known}, the first step among them, so that optimizer.learning_rate is not the cause; look at the model "
            "that training began with and at the data"
        )
    return (
        f"{known}; lower optimizer.learning_rate ({learning_rate:g}) or lengthen the warm-up and begin again; "
        "if it ends at the same step again, look at the data"
    )


def _shown(line: Mapping[str, Any], steps: int) -> str:
    text = f"step {line['step']:,}/{steps:,}  loss {line['loss']:.4f}"
    if "eval_loss" in line:
        text += f"  held out {line['eval_loss']:.4f}"
    return f"{text}  learning rate {line['learning_rate']:.2e}  {line['tokens_per_second']:,.0f} tokens/s"


class Speed:
    """How much is seen a second, by all devices together.

    Args:
        before: what of the first log window was seen before a run was resumed, in time that is not measured.
    """

    def __init__(self, before: float = 0) -> None:
        self._before = before
        self._laps: list[tuple[float, float]] = []

    def lap(self, amount: float, seconds: float) -> float:
        """Take a log window, and give its speed."""
        self._laps.append((amount - self._before, max(seconds, 1e-9)))
        self._before = 0
        return self._laps[-1][0] / self._laps[-1][1]

    @property
    def mean(self) -> float | None:
        """Over all windows but the first, in which everything warms up; over that if there is no other."""
        laps = self._laps[1:] or self._laps
        return sum(amount for amount, _ in laps) / sum(s for _, s in laps) if laps else None


class Stopwatch:
    """Time spent training, without evaluations and checkpoints; keeps the host close to the device."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._since = time.perf_counter()
        self._events: deque[torch.cuda.Event] = deque()

    def start(self) -> None:
        """Begin to measure."""
        self._since = time.perf_counter()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Leave out the time that something takes which is not training."""
        began = time.perf_counter()
        yield
        self._since += time.perf_counter() - began

    def step_done(self) -> None:
        """A step has been handed to the device; wait for the one before the last, which costs the device nothing."""
        if self.device.type == "cuda":
            event = torch.cuda.Event()
            event.record()
            self._events.append(event)
            if len(self._events) > STEPS_AHEAD:
                self._events.popleft().synchronize()

    def lap(self) -> float:
        """Seconds since the last lap, or `start`."""
        now = time.perf_counter()
        seconds, self._since = now - self._since, now
        return seconds
