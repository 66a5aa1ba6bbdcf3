"""The training loop: batches in, updates, log lines, evaluations and checkpoints out."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import torch

from biosmith.errors import BiosmithError
from biosmith.pretraining.batches import TokenSource
from biosmith.pretraining.checkpoints import (
    RunState,
    list_checkpoints,
    load_checkpoint,
    remove_old_checkpoints,
    save_checkpoint,
)
from biosmith.pretraining.config import Recipe
from biosmith.pretraining.evaluation import evaluate
from biosmith.pretraining.loading import Cursor, Loaded, load, requests
from biosmith.pretraining.metrics import unigram_entropy
from biosmith.pretraining.parallel import Devices, Vote
from biosmith.pretraining.preparing import (
    EVALUATION_STEPS,
    make_batch_makers,
    make_evaluation_maker,
    micro_batches,
    phase_of,
)
from biosmith.pretraining.reporting import PAIR_LOSSES, Reporter, Stopwatch
from biosmith.pretraining.run import Outcome, Settings
from biosmith.pretraining.step import Trainable, Trainer, reset_window
from biosmith.pretraining.tracking import find_trackers
from biosmith.progress import progress, say


def train(
    recipe: Recipe,
    store: TokenSource,
    out: Path,
    model: Trainable,
    settings: Settings,
    devices: Devices,
    check: Callable[[], None] = lambda: None,
) -> Outcome:
    """Train from the last checkpoint of the run folder, or from the model as it is, to the recipe's last step.

    SIGTERM and the first Ctrl-C end it after the step at hand, with a checkpoint. `check` is called at every step.

    Raises:
        BiosmithError: what `check` raises; the loss stays not finite, or the device's memory is too small.
    """
    run = _Run(recipe, store, out, model, settings, devices)
    try:
        with (
            StopRequest(devices.first) as stop,
            show_progress("Pretraining", devices, recipe.steps) as advance,
        ):
            run.go(stop, advance, check)
            return run.outcome()
    except torch.cuda.OutOfMemoryError as error:
        micro = recipe.batch.micro_batch_tokens or 0
        raise BiosmithError(
            f"not enough GPU memory for a micro-batch of {micro:,} tokens; lower it with "
            f"--override batch.micro_batch_tokens={micro // 2}"
        ) from error
    finally:
        run.reporter.close()


class _Run:
    """A run at some step."""

    def __init__(
        self,
        recipe: Recipe,
        store: TokenSource,
        out: Path,
        model: Trainable,
        settings: Settings,
        devices: Devices,
    ) -> None:
        self.recipe, self.out, self.settings, self.devices = recipe, out, settings, devices
        self.device = devices.device
        set_up(self.device, settings)
        compile = settings.compile or ("default" if self.device.type == "cuda" else "off")
        self.trainer = Trainer(
            model, recipe, recipe.precision, devices, compile, settings.activation_checkpointing
        )
        self.makers = make_batch_makers(recipe, store)
        self.held_out = make_evaluation_maker(recipe, store, self.makers[-1])
        entropy = unigram_entropy(store)
        self.step, self.cursor = 0, Cursor()
        state, checkpoints = None, list_checkpoints(out)
        if checkpoints:
            state = load_checkpoint(checkpoints[-1], model, self.trainer.optimizers)
            self.step, self.cursor = state.step, state.cursor
            self.trainer.window.copy_(torch.tensor(state.window, dtype=torch.float64))
        trackers = find_trackers(settings.track)
        self.reporter = Reporter(recipe, out, entropy, state, not devices.first, trackers, model)
        self.watch = Stopwatch(self.device)

    def go(self, stop: StopRequest, advance: Callable[[int], None], check: Callable[[], None]) -> None:
        """Train to the end, or until asked to stop."""
        recipe, reporter, per_step = self.recipe, self.reporter, micro_batches(self.recipe)
        if self.devices.first:
            self._announce()
        advance(self.step)
        vote, stops = Vote(self.devices), False
        self.watch.start()
        # Its processes end here, whoever keeps this frame: at exit Python would wait for them for ever.
        with contextlib.closing(self._load(per_step)) as loader:
            while self.step < recipe.steps and not stops:
                check()
                loaded = list(itertools.islice(loader, per_step // self.devices.replicas))
                self.trainer.step(self.step, loaded)
                self.step, self.cursor = self.step + 1, loaded[-1].after
                self.watch.step_done()
                ends = self.step == recipe.steps
                evaluates = self._is_due(recipe.evaluation.every) or ends
                if self._is_due(recipe.log_every) or evaluates:
                    seconds = self.watch.lap()
                    reporter.take(
                        self.step,
                        self.trainer.window,
                        self._epoch(),
                        seconds,
                        self._evaluate() if evaluates else {},
                    )
                    reset_window(self.trainer.window)
                reporter.write()
                stops = vote.cast(stop.requested)
                if self._is_due(recipe.checkpoint_every) or ends or stops:
                    self._checkpoint()
                advance(1)
        vote.close()

    def _is_due(self, every: int) -> bool:
        return every > 0 and self.step % every == 0

    def _load(self, per_step: int) -> Generator[Loaded]:
        recipe, on_gpu = self.recipe, self.device.type == "cuda"
        phases = (phase_of(recipe, step) for step in range(self.step, recipe.steps))
        masked = recipe.objective("masked_language_model")
        rates = (masked.rate_at(step, recipe.steps) for step in range(self.step, recipe.steps))
        wanted = requests(self.makers, self.cursor, phases, rates, per_step, self.devices.share)
        workers = self.settings.workers
        if workers is None:
            workers = min(4, max(1, (os.cpu_count() or 1) - 1)) if on_gpu else 1
        return load(wanted, self.makers, workers, pin=on_gpu)

    def _announce(self) -> None:
        recipe, per_step, maker = self.recipe, micro_batches(self.recipe), self.makers[-1]
        parameters = self._parameters()
        where = f"from step {self.step:,} " if self.step else ""
        say(
            f"{recipe.name} ({recipe.profile}): {parameters:,} parameters, {recipe.steps:,} steps {where}of {per_step} x "
            f"{recipe.batch.micro_batch_tokens:,} tokens on {self.devices} in {recipe.precision}; an epoch is "
            f"{len(maker.plan(0)) / per_step:,.1f} steps; unigram entropy {self.reporter.entropy:.2f} nats"
        )
        if self.held_out is None:
            say("The store has too few documents to hold any out: there will be no eval_loss.")

    def _parameters(self) -> int:
        return sum(p.numel() for p in self.trainer.model.parameters())

    def _epoch(self) -> float:
        plan = self.makers[self.cursor.phase].plan(self.cursor.epoch)
        return round(self.cursor.epoch + self.cursor.index / max(1, len(plan)), 4)

    def _evaluate(self) -> dict[str, Any]:
        if self.held_out is None:
            return {}
        with self.watch.paused():
            found = evaluate(self.trainer, self.held_out, EVALUATION_STEPS * self.recipe.batch.tokens)
        line: dict[str, Any] = {"eval_loss": found.total(self.recipe), "eval_mlm_loss": found.masked_language}
        if found.replaced_tokens is not None:
            line |= {
                "eval_rtd_loss": found.replaced_tokens,
                "eval_replaced_accuracy": found.replaced_accuracy,
            }
        key = PAIR_LOSSES[pairs.kind] if (pairs := self.recipe.pair_objective) else ""
        return line if found.next_sentence is None else line | {f"eval_{key}": found.next_sentence}

    def _checkpoint(self) -> None:
        window = tuple(self.trainer.window.tolist())  # waits for the device
        self.reporter.write(wait=True)
        with self.watch.paused():
            state = RunState(self.step, self.cursor, window, self.reporter.tokens, self.reporter.watch.state)
            save_checkpoint(self.out, self.trainer.model, self.trainer.optimizers, state, self.devices)
            if self.devices.first:
                remove_old_checkpoints(self.out, self.recipe.keep_checkpoints)
                self.reporter.draw()
            self.devices.wait()

    def outcome(self) -> Outcome:
        """What the run has come to."""
        last = self.reporter.log.last
        return Outcome(
            steps=self.step,
            tokens=self.reporter.tokens,
            tokens_per_second=self.reporter.speed.mean or last("tokens_per_second"),
            loss=last("loss"),
            eval_loss=last("eval_loss"),
            stopped=self.step < self.recipe.steps,
            skipped_steps=last("skipped_steps") or 0,
            parameters=self._parameters(),
        )


def show_progress(what: str, devices: Devices, steps: int) -> AbstractContextManager[Callable[[int], None]]:
    """A bar of the steps, on one process."""
    if devices.first:
        return progress(what, steps, "steps")
    return contextlib.nullcontext(lambda done: None)


def set_up(device: torch.device, settings: Settings) -> None:
    """Set torch's precision of products and its choice of algorithms."""
    if device.type == "cuda":
        torch.set_float32_matmul_precision("high")
    if settings.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)


class StopRequest:
    """Notes SIGTERM and the first Ctrl-C instead of dying of them; a second Ctrl-C interrupts as usual."""

    def __init__(self, talks: bool = True) -> None:
        self.requested, self.talks = False, talks
        self._before: dict[int, Any] = {}

    def __enter__(self) -> StopRequest:
        for number in (signal.SIGTERM, signal.SIGINT):
            try:
                self._before[number] = signal.signal(number, self._note)
            except ValueError:  # not in the main thread: whoever runs us handles signals
                return self
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.requested = True
        if self.talks:
            say("Asked to stop: finishing this step and saving a checkpoint.")
