"""The training loop of latent-variable models: micro-batches in, updates, log lines, scores and checkpoints out."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Any, cast

import torch

from biosmith.artefact import write_by_rename
from biosmith.errors import BiosmithError
from biosmith.models.vae import VariationalAutoencoder
from biosmith.models.vae_measures import collapse_warning
from biosmith.models.vae_scoring import VaeScores, score_sentences
from biosmith.pretraining.checkpoints import (
    RunState,
    list_checkpoints,
    load_checkpoint,
    remove_old_checkpoints,
    save_checkpoint,
)
from biosmith.pretraining.elbo import ElboTrainer, ElboWindow
from biosmith.pretraining.elbo_config import VaeRecipe
from biosmith.pretraining.elbo_run import VaeOutcome, micro_batches
from biosmith.pretraining.loading import Cursor, Loaded, load, requests
from biosmith.pretraining.loop import StopRequest, set_up, show_progress
from biosmith.pretraining.metrics import PICTURE, MetricsLog
from biosmith.pretraining.parallel import Devices, Vote
from biosmith.pretraining.reporting import MOST_SKIPPED, Speed, Stopwatch, explain_not_finite
from biosmith.pretraining.run import Settings
from biosmith.pretraining.schedules import learning_rate
from biosmith.pretraining.sentence_batches import SentenceBatchMaker, short_enough, split_documents
from biosmith.pretraining.sentences import READING, WRITING, SentenceStore
from biosmith.pretraining.tracking import find_trackers
from biosmith.progress import say
from biosmith.randomness import derive_key


def train(
    recipe: VaeRecipe,
    store: SentenceStore,
    out: Path,
    model: VariationalAutoencoder,
    settings: Settings,
    devices: Devices,
) -> VaeOutcome:
    """Train from the last checkpoint of the run folder, or from the model as it is, to the recipe's last step.

    SIGTERM and the first Ctrl-C end it after the step at hand, with a checkpoint.

    Raises:
        BiosmithError: the loss stays not finite, or the device's memory is too small.
    """
    run = _Run(recipe, store, out, model, settings, devices)
    try:
        with StopRequest(devices.first) as stop, show_progress("Training", devices, recipe.steps) as advance:
            run.go(stop, advance)
            return run.outcome()
    except torch.cuda.OutOfMemoryError as error:
        micro = recipe.batch.micro_batch_tokens or 0
        raise BiosmithError(
            f"not enough GPU memory for a micro-batch of {micro:,} tokens; lower it with "
            f"--override batch.micro_batch_tokens={micro // 2}"
        ) from error
    finally:
        run.close()


class _Run:
    """A run at some step."""

    def __init__(
        self,
        recipe: VaeRecipe,
        store: SentenceStore,
        out: Path,
        model: VariationalAutoencoder,
        settings: Settings,
        devices: Devices,
    ) -> None:
        self.recipe, self.store, self.out, self.settings, self.devices = recipe, store, out, settings, devices
        self.device = devices.device
        set_up(self.device, settings)
        compile = settings.compile or ("default" if self.device.type == "cuda" else "off")
        self.trainer = ElboTrainer(model, recipe, recipe.precision, devices, compile)
        training, held_out = split_documents(store, recipe.evaluation.documents, recipe.seed)
        self.held_out = short_enough(store, held_out, recipe.batch.length)
        self.maker = SentenceBatchMaker(
            store,
            training,
            tokens=recipe.batch.micro_batch_tokens or recipe.batch.length,
            length=recipe.batch.length,
            first_position=1 if recipe.model.memory else 0,
            seed=recipe.seed,
            trim=self.device.type == "cpu",
        )
        self.per_step = micro_batches(recipe, store)
        self.step, self.cursor, self.sentences, self.tokens, self.warned = 0, Cursor(), 0, 0, False
        checkpoints, before = list_checkpoints(out), ElboWindow(*[0.0] * len(ElboWindow._fields))
        if checkpoints:
            state = load_checkpoint(checkpoints[-1], model, self.trainer.optimizers)
            self.step, self.cursor, self.tokens = state.step, state.cursor, state.tokens
            self.sentences, self.warned = int(state.watch["sentences"]), bool(state.watch["warned"])
            self.trainer.window.copy_(torch.tensor(state.window, dtype=torch.float64))
            before = ElboWindow(*state.window)
        self.speed, self.sentence_speed = Speed(before.tokens), Speed(before.sentences)
        self.log = MetricsLog(out if devices.first else None, self.step)
        made = find_trackers(settings.track) if devices.first else []
        self.trackers = [make(out, cast(Any, recipe), self.step) for make in made]
        self.watch = Stopwatch(self.device)

    def go(self, stop: StopRequest, advance: Callable[[int], None]) -> None:
        """Train to the end, or until asked to stop."""
        recipe = self.recipe
        if self.devices.first:
            self._announce()
        advance(self.step)
        vote, stops = Vote(self.devices), False
        self.watch.start()
        # Its processes end here, whoever keeps this frame: at exit Python would wait for them for ever.
        with contextlib.closing(self._load()) as loader:
            while self.step < recipe.steps and not stops:
                loaded = list(itertools.islice(loader, self.per_step // self.devices.size))
                self.trainer.step(self.step, loaded)
                self.step, self.cursor = self.step + 1, loaded[-1].after
                self.watch.step_done()
                ends = self.step == recipe.steps
                evaluates = self._is_due(recipe.evaluation.every) or ends
                if self._is_due(recipe.log_every) or evaluates:
                    self._report(self._evaluate(final=ends) if evaluates else None)
                stops = vote.cast(stop.requested)
                if self._is_due(recipe.checkpoint_every) or ends or stops:
                    self._checkpoint()
                advance(1)
        vote.close()

    def _is_due(self, every: int) -> bool:
        return every > 0 and self.step % every == 0

    def _load(self) -> Generator[Loaded]:
        left = self.recipe.steps - self.step
        makers = cast(Any, [self.maker])
        wanted = requests(
            makers,
            self.cursor,
            itertools.repeat(0, left),
            itertools.repeat(None, left),
            self.per_step,
            self.devices.share,
        )
        on_gpu = self.device.type == "cuda"
        workers = self.settings.workers
        if workers is None:
            workers = min(2, max(1, (os.cpu_count() or 1) - 1)) if on_gpu else 0
        return load(wanted, makers, workers, pin=on_gpu)

    def _announce(self) -> None:
        recipe, maker = self.recipe, self.maker
        where = f"from step {self.step:,} " if self.step else ""
        steps = len(maker.plan(0)) / self.per_step
        say(
            f"{recipe.name} ({recipe.profile}): {self._parameters():,} parameters, latent size {recipe.model.latent_size}, "
            f"{recipe.steps:,} steps {where}of {self.per_step} x {maker.tokens:,} tokens on {self.devices} in "
            f"{recipe.precision}; {len(maker.members):,} sentences, an epoch is {steps:,.1f} steps"
        )
        if maker.left_out:
            say(
                f"{maker.left_out:,} sentences are longer than batch.length {maker.length} tokens and are left out"
            )
        if not len(self.held_out):
            say(
                "There will be no eval_loss: the store has too few documents to hold any out, or none of their sentences "
                f"has at most batch.length {maker.length} tokens"
            )

    def _parameters(self) -> int:
        return sum(p.numel() for p in self.trainer.model.parameters())

    def _evaluate(self, *, final: bool) -> VaeScores | None:
        if not len(self.held_out):
            return None
        chosen = self.held_out[: self.recipe.evaluation.sentences]
        reader = self.store.special(READING)
        with self.watch.paused():
            settings = self.recipe.evaluation
            return score_sentences(
                self.trainer.model,
                [[reader.begin, *self.store.pieces_of(READING, n), reader.end] for n in chosen],
                [self.store.pieces_of(WRITING, n) for n in chosen],
                samples=settings.final_samples if final else settings.samples,
                seed=derive_key(self.recipe.seed, "evaluation") % 2**63,
            )

    def _report(self, scores: VaeScores | None) -> None:
        window = self.trainer.read_window(reset=True)
        seconds = self.watch.lap()
        self.tokens += int(window.tokens)
        self.sentences += int(window.sentences)
        line = self._line(window, seconds) | (_scored(scores, self.recipe) if scores else {})
        if not self.devices.first:
            return
        self.log.add(line)
        for tracker in self.trackers:
            tracker.add(line)
        say(_shown(line, self.recipe.steps))
        self._warn(scores)
        if window.skipped_in_a_row >= MOST_SKIPPED:
            rate = self.recipe.optimizer.learning_rate
            raise BiosmithError(explain_not_finite(self.step, window, rate, self.trainer.model))

    def _line(self, window: ElboWindow, seconds: float) -> dict[str, Any]:
        recipe, sentences = self.recipe, max(1.0, window.sentences)
        last = self.step - 1
        return {
            "step": self.step,
            "loss": window.objective / sentences,
            "reconstruction_loss": window.reconstruction / sentences,
            "kl": window.divergence / sentences,
            "token_loss": window.reconstruction / max(1.0, window.tokens),
            "beta": recipe.objective.beta_at(last, recipe.steps),
            "learning_rate": learning_rate(
                recipe.schedule, recipe.optimizer.learning_rate, last, recipe.steps
            ),
            "gradient_norm": window.gradient_norm,
            "sentences_per_second": round(self.sentence_speed.lap(window.sentences, seconds), 1),
            "tokens_per_second": round(self.speed.lap(window.tokens, seconds), 1),
            "sentences": self.sentences,
            "tokens": self.tokens,
            "epoch": round(
                self.cursor.epoch + self.cursor.index / len(self.maker.plan(self.cursor.epoch)), 4
            ),
            "skipped_steps": int(window.skipped),
        }

    def _warn(self, scores: VaeScores | None) -> None:
        """Say once that the posterior has collapsed, where beta counts."""
        if scores is None or scores.active_units is None or self.warned:
            return
        # With beta at 0 nothing draws the posterior to the prior: the encoder only has not learnt yet.
        if self.recipe.objective.beta_at(self.step - 1, self.recipe.steps) == 0:
            return
        size = self.recipe.model.latent_size
        warning = collapse_warning(scores.active_units, size, scores.mutual_information or 0.0)
        if warning is not None:
            self.warned = True
            say(f"Warning: step {self.step}: {warning}")

    def _checkpoint(self) -> None:
        window = tuple(self.trainer.window.tolist())  # waits for the device
        with self.watch.paused():
            watch = {"sentences": self.sentences, "warned": self.warned}
            state = RunState(self.step, self.cursor, window, self.tokens, watch)
            save_checkpoint(self.out, self.trainer.model, self.trainer.optimizers, state, self.devices)
            if self.devices.first:
                remove_old_checkpoints(self.out, self.recipe.keep_checkpoints)
                draw_losses(self.out, self.log.lines, self.out.name)
            self.devices.wait()

    def outcome(self) -> VaeOutcome:
        """What the run has come to."""
        last = self.log.last
        active, size = last("active_units"), self.recipe.model.latent_size
        information = last("mutual_information")
        collapsed = (
            active is not None
            and self.recipe.objective.beta > 0
            and collapse_warning(active, size, information or 0.0) is not None
        )
        return VaeOutcome(
            steps=self.step,
            sentences=self.sentences,
            tokens=self.tokens,
            sentences_per_second=self.sentence_speed.mean or last("sentences_per_second"),
            tokens_per_second=self.speed.mean or last("tokens_per_second"),
            loss=last("loss"),
            eval_loss=last("eval_loss"),
            reconstruction=last("eval_reconstruction"),
            kl=last("eval_kl"),
            active_units=active,
            mutual_information=information,
            collapsed=collapsed,
            stopped=self.step < self.recipe.steps,
            skipped_steps=last("skipped_steps") or 0,
            parameters=self._parameters(),
        )

    def close(self) -> None:
        """Close the log and the trackers."""
        self.log.close()
        for tracker in self.trackers:
            tracker.close()


def _scored(scores: VaeScores, recipe: VaeRecipe) -> dict[str, Any]:
    """Scores by the names of the log; `eval_loss` is the negative ELBO whatever beta."""
    names = {
        "negative_elbo": "eval_loss",
        "reconstruction": "eval_reconstruction",
        "kl": "eval_kl",
        "negative_log_likelihood": "eval_negative_log_likelihood",
        "perplexity": "eval_perplexity",
        "reconstruction_perplexity": "eval_reconstruction_perplexity",
        "active_units": "active_units",
        "mutual_information": "mutual_information",
        "samples": "samples",
    }
    found = scores.as_dict()
    return {name: found[key] for key, name in names.items()}


def _shown(line: Mapping[str, Any], steps: int) -> str:
    text = (
        f"step {line['step']:,}/{steps:,}  loss {line['loss']:.3f}  reconstruction {line['reconstruction_loss']:.3f}  "
        f"KL {line['kl']:.3f}  beta {line['beta']:.2f}"
    )
    if line.get("eval_loss") is not None:
        text += f"  held out {line['eval_loss']:.3f}"
    if line.get("active_units") is not None:
        text += f"  active units {line['active_units']}  mutual information {line['mutual_information']:.2f}"
    return f"{text}  {line['sentences_per_second']:,.0f} sentences/s"


def draw_losses(run: Path, lines: list[dict[str, Any]], title: str) -> None:
    """Draw `loss.png`: reconstruction and KL against steps, in training and held out, and beta below."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5.5), layout="constrained")
    axes, below = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    for key, label, style in (
        ("reconstruction_loss", "reconstruction, training", {"color": "#1f6f8b"}),
        ("kl", "KL, training", {"color": "#8d99ae"}),
        (
            "eval_reconstruction",
            "reconstruction, held out",
            {"color": "#d1495b", "marker": "o", "markersize": 3},
        ),
        ("eval_kl", "KL, held out", {"color": "#edae49", "marker": "o", "markersize": 3}),
    ):
        points = [(line["step"], line[key]) for line in lines if line.get(key) is not None]
        if points:
            axes.plot(*zip(*points, strict=True), label=label, **style)
    axes.set(ylabel="nats a sentence", title=title)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)
    below.plot([line["step"] for line in lines], [line["beta"] for line in lines], color="#555555")
    below.set(xlabel="step", ylabel="beta")
    with write_by_rename(run / PICTURE) as temporary:
        FigureCanvasAgg(figure).print_png(str(temporary))
