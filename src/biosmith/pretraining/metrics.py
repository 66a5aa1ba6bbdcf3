"""What a run says about itself: metrics.jsonl, the picture of the loss, and the warning when it does not learn."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from biosmith.artefact import write_by_rename
from biosmith.errors import BadInput
from biosmith.pretraining.batches import TokenSource

FILE, PICTURE = "metrics.jsonl", "loss.png"


class MetricsLog:
    """`metrics.jsonl`: one line a logged step.

    Args:
        run: the run's folder; None keeps lines in memory only.
        after: the step from which the run goes on; lines of later steps are taken out, as those steps come again.
    """

    def __init__(self, run: Path | None, after: int) -> None:
        self.lines: list[dict[str, Any]] = []
        self._stream: IO[str] | None = None
        if run is not None:
            self.lines = [line for line in read_metrics(run) if line["step"] <= after]
            with write_by_rename(run / FILE) as temporary:
                text = "".join(json.dumps(line) + "\n" for line in self.lines)
                temporary.write_text(text, encoding="utf-8")
            self._stream = (run / FILE).open("a", encoding="utf-8")

    def add(self, line: Mapping[str, Any]) -> None:
        """Append a line. It is with the operating system when this returns, so a killed process loses none."""
        # JSON knows no NaN; a loss that is none is null.
        plain = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in line.items()}
        self.lines.append(plain)
        if self._stream is not None:
            self._stream.write(json.dumps(plain) + "\n")
            self._stream.flush()

    def last(self, key: str) -> Any:
        """The newest value of a key, None if no line has one."""
        return next((line[key] for line in reversed(self.lines) if line.get(key) is not None), None)

    def close(self) -> None:
        """Close the file."""
        if self._stream is not None:
            self._stream.close()


def read_metrics(run: Path) -> list[dict[str, Any]]:
    """The lines of a run's `metrics.jsonl`; a last line that a kill cut off is left out.

    Raises:
        BadInput: another line is not JSON, or no line of a log.
    """
    path = run / FILE
    if not path.is_file():
        return []
    found = []
    for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], start=1):
        try:
            value = json.loads(line)
        except ValueError as error:
            raise BadInput(path, f"is no line of a log: {error}", record=f"line {number}") from error
        if not isinstance(value, dict) or not isinstance(value.get("step"), int):
            raise BadInput(
                path, "is no line of a log: it names no step", record=f"line {number}", value=value
            )
        found.append(value)
    return found


def unigram_entropy(source: TokenSource, most_tokens: int = 20_000_000) -> float:
    """Entropy of the token distribution in nats: the loss of a model that knows how frequent tokens are, and no more.

    Counted over documents spread evenly over the store, `most_tokens` at most.
    """
    lengths = source.lengths
    total = int(lengths.sum(dtype=np.int64))
    every = max(1, math.ceil(total / most_tokens))
    chosen = np.arange(0, len(lengths), every)
    counts = np.zeros(source.vocabulary.size, dtype=np.int64)
    for start in range(0, len(chosen), 10_000):
        read = source.gather(chosen[start : start + 10_000])
        counts += np.bincount(read.ids, minlength=len(counts))
    shares = counts[counts > 0] / max(1, counts.sum())
    return float(-(shares * np.log(shares)).sum())


class PlateauWatch:
    """Notices a masked-language loss that sits at the unigram plateau: the model has learned how frequent tokens are,
    and nothing from their context.

    Two windows of steps in a row, after the warm-up, whose means lie within `near` of the entropy or above it and
    differ by less than `still`, make a warning, once a run.
    """

    def __init__(
        self, entropy: float, warmup: int, steps: int, near: float = 0.25, still: float = 0.05
    ) -> None:
        self.entropy, self.near, self.still = entropy, near, still
        self.begin = warmup
        self.window = max(100, steps // 50)
        self.state: dict[str, Any] = {"sum": 0.0, "steps": 0, "last": None, "warned": False}

    def see(self, step: int, loss: float, steps: int) -> str | None:
        """Take the mean loss of the `steps` steps that end at `step`; the warning, if it is time for one."""
        state = self.state
        if step <= self.begin or not math.isfinite(loss):
            return None
        state["sum"] += loss * steps
        state["steps"] += steps
        if state["steps"] < self.window:
            return None
        mean, before = state["sum"] / state["steps"], state["last"]
        state.update(sum=0.0, steps=0, last=mean)
        stuck = before is not None and min(mean, before) > self.entropy - self.near
        if not stuck or abs(before - mean) >= self.still or state["warned"]:
            return None
        state["warned"] = True
        return (
            f"step {step}: the loss sits at {mean:.2f}, the unigram plateau ({self.entropy:.2f}): the model learns how "
            "frequent tokens are, but nothing from their context. Look for many duplicates in the corpus, a learning "
            "rate that is too high or too low for the batch, or too short a warm-up; initial_positions=sinusoidal helps a model "
            "with position embeddings to leave it."
        )


def draw_loss(run: Path, lines: list[dict[str, Any]], entropy: float, title: str) -> None:
    """Draw `loss.png`: training and held-out loss against steps, and the unigram entropy."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    for key, label, style in (
        ("mlm_loss", "masked tokens, training", {"color": "#1f6f8b"}),
        ("eval_mlm_loss", "masked tokens, held out", {"color": "#d1495b", "marker": "o", "markersize": 3}),
        ("nsp_loss", "next sentence, training", {"color": "#8d99ae", "linewidth": 1}),
        ("sop_loss", "sentence order, training", {"color": "#8d99ae", "linewidth": 1}),
        ("rtd_loss", "replaced tokens, training", {"color": "#8d99ae", "linewidth": 1}),
        ("replaced_accuracy", "share of replaced tokens found", {"color": "#2a9d8f", "linewidth": 1}),
    ):
        points = [(line["step"], line[key]) for line in lines if line.get(key) is not None]
        if points:
            axes.plot(*zip(*points, strict=True), label=label, **style)
    axes.axhline(
        entropy, color="#555555", linestyle="--", linewidth=1, label=f"unigram entropy {entropy:.2f}"
    )
    axes.set(xlabel="step", ylabel="loss (nats)", title=title)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)
    with write_by_rename(run / PICTURE) as temporary:
        FigureCanvasAgg(figure).print_png(str(temporary))
