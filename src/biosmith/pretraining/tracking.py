"""Log lines sent on to trackers. TensorBoard and Weights & Biases are here; others plug in by an entry point.

A plug-in is a function in the entry-point group `biosmith.trackers` that takes (run folder, recipe, step from which the run
goes on) and returns an object with `add(line)` and `close()`. What a tracker does never decides anything about a run.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from biosmith.artefact import digest_value, to_plain
from biosmith.errors import UsageError
from biosmith.pretraining.config import Recipe

GROUP = "biosmith.trackers"


class Tracker(Protocol):
    """Takes the lines of `metrics.jsonl` as they are written."""

    def add(self, line: Mapping[str, Any]) -> None:
        """A line; `step` says where it belongs."""

    def close(self) -> None:
        """The run is over, or stopped."""


class TensorBoard:
    """Writes `tensorboard/` in the run's folder; `tensorboard --logdir RUNS` shows it."""

    def __init__(self, run: Path, recipe: Recipe, step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(run / "tensorboard"), purge_step=step + 1)

    def add(self, line: Mapping[str, Any]) -> None:
        """See `Tracker`."""
        for name, value in numbers(line).items():
            self._writer.add_scalar(name, value, line["step"])

    def close(self) -> None:
        """See `Tracker`."""
        self._writer.close()


class WeightsAndBiases:
    """A run of the project "biosmith"; a resumed run goes on in the same one."""

    def __init__(self, run: Path, recipe: Recipe, step: int) -> None:
        import wandb  # type: ignore[import-not-found, unused-ignore]

        identity = digest_value([str(run.resolve()), to_plain(recipe)])[:16]
        self._run = wandb.init(
            project="biosmith",
            name=run.name,
            id=identity,
            dir=str(run),
            resume="allow",
            config=to_plain(recipe),
        )

    def add(self, line: Mapping[str, Any]) -> None:
        """See `Tracker`."""
        self._run.log(numbers(line), step=line["step"])

    def close(self) -> None:
        """See `Tracker`."""
        self._run.finish()


TRACKERS: dict[str, Callable[[Path, Recipe, int], Tracker]] = {
    "tensorboard": TensorBoard,
    "wandb": WeightsAndBiases,
}


def numbers(line: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a line but its step; losses, speed and the rest in groups of their own."""
    groups = {"loss": "loss", "rate": "rates", "share": "rates"}
    found = {}
    for key, value in line.items():
        if key != "step" and isinstance(value, int | float):
            group = next((g for end, g in groups.items() if key.endswith(end)), "run")
            found[f"{group}/{key}"] = float(value)
    return found


def find_trackers(names: Sequence[str]) -> list[Callable[[Path, Recipe, int], Tracker]]:
    """What makes the trackers of these names.

    Raises:
        UsageError: a name is unknown, or its package is not installed; the valid names are listed.
    """
    plugged = {point.name: point for point in importlib.metadata.entry_points(group=GROUP)}
    made: list[Callable[[Path, Recipe, int], Tracker]] = []
    for name in names:
        if name in TRACKERS:
            _require_package(name)
            made.append(TRACKERS[name])
        elif name in plugged:
            made.append(plugged[name].load())
        else:
            raise UsageError(f"tracker {name!r} is unknown; valid: {', '.join([*TRACKERS, *plugged])}")
    return made


def _require_package(name: str) -> None:
    if importlib.util.find_spec(name) is None:
        extra = 'pip install "biosmith[track]"' if name == "tensorboard" else f"pip install {name}"
        raise UsageError(f"tracker {name!r} needs a package that is not installed: {extra}")
