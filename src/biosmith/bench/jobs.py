"""One piece of work of a benchmark: fine-tune with one seed, and score on the development or on the test split.

A job that scores a candidate never opens the split whose score is published. What a job leaves behind depends on the job alone, not on
the process or device that does it, so that any number of workers gives the same files.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from biosmith import progress
from biosmith.artefact import digest_file, digest_value, write_json
from biosmith.bench.dataset import PROTOCOL, SPLITS, Dataset, Mistake, data_digests, fingerprint
from biosmith.bench.grids import max_length
from biosmith.bench.mock import find_task
from biosmith.bench.results import PREDICTIONS, UNITS, Run, write_predictions, write_run
from biosmith.bench.units import score_units, unit_members
from biosmith.errors import BiosmithError
from biosmith.pretraining.overrides import from_plain
from biosmith.version import __version__

# settings that change what is learnt, not only how well: they belong to the protocol
CHOICES = ("scheme", "labelled", "head", "text", "features", "pooling")
HELD_OUT = (
    10  # every tenth unit of the training split is held out for a search where there is no development split
)


@dataclass(frozen=True)
class Job:
    """What to do.

    Attributes:
        model, model_name, model_digest: the model's folder, its name in the results, its digest.
        dataset, data: what to learn, and the folder that holds it.
        kind: of the task (`biosmith.tasks.fitting`).
        settings: of the fine-tuning, without seed and device.
        seed: of the fine-tuning.
        split: "dev" scores a candidate of a search, "test" makes a run (on the split that the dataset publishes).
        folder: where its record goes.
        key: digest over all that decides its result.
        arm: of an ablation; "" otherwise.
        work: folder for checkpoints.
    """

    model: Path
    model_name: str
    model_digest: str
    dataset: str
    data: Path
    kind: str
    settings: Mapping[str, Any]
    seed: int
    split: Literal["dev", "test"]
    folder: Path
    key: str
    arm: str
    work: Path

    @property
    def record(self) -> Path:
        """The file that says that it is done."""
        stem = f"search-{self.key[:12]}" if self.split == "dev" else f"seed-{self.seed}-{self.key[:12]}"
        return self.folder / f"{stem}.json"

    @property
    def name(self) -> str:
        """For people."""
        arm = f" {self.arm}" if self.arm else ""
        what = f"seed {self.seed}" if self.split == "test" else f"candidate {_short(self.settings)}"
        return f"{self.model_name}, {self.dataset}{arm}, {what}"


def _short(settings: Mapping[str, Any]) -> str:
    names = {"learning_rate": "rate", "batch_size": "batch", "epochs": "epochs"}
    return ", ".join(f"{label} {settings[key]:g}" for key, label in names.items() if key in settings)


def new_job(
    model: tuple[Path, str, str],
    dataset: Dataset,
    data: Path,
    kind: str,
    settings: Mapping[str, Any],
    seed: int,
    split: Literal["dev", "test"],
    folder: Path,
    work: Path,
    arm: str = "",
) -> Job:
    """A job with its key; `model` is folder, name and digest.

    The maximum length is the protocol's unless the settings name another. A search is keyed without the test split.
    """
    path, name, digest = model
    full = {"max_length": max_length(kind, dataset.about.name), **settings}
    splits = [s for s in SPLITS if split == "test" or s != dataset.about.evaluated]
    decides = {
        "model": digest,
        "dataset": dataset.about.name,
        "data": {s: data_digests(dataset, data, s) for s in splits},
        "kind": kind,
        "settings": full,
        "seed": seed,
        "split": split,
        "scorer": PROTOCOL,
        **dataset.about.protocol,
    }
    key = digest_value(decides)
    return Job(
        path,
        name,
        digest,
        dataset.about.name,
        data,
        kind,
        full,
        seed,
        split,
        folder,
        key,
        arm,
        work / key[:16],
    )


def load_split(name: str, data: Path, split: str) -> Sequence[Any]:
    """The instances of a split, kept for the next seeds and models as long as its files stay the same."""
    return _load_split(name, data, split, tuple(data_digests(find_task(name), data, split).items()))


@lru_cache(maxsize=8)
def _load_split(name: str, data: Path, split: str, digests: tuple[tuple[str, str], ...]) -> Sequence[Any]:
    return find_task(name).load(data, split)


def run_job(job: Job, device: str = "auto", at_once: int = 1) -> None:
    """Do a job and write its record, last of all its files; `at_once` jobs share the device.

    Raises:
        BiosmithError: the data cannot be used, the model cannot be loaded, the loss is not a number, ...
    """
    from biosmith.tasks import fitting

    dataset = find_task(job.dataset)
    train = load_split(job.dataset, job.data, "train")
    # Where the development split is what is published, nothing may be chosen by it.
    has_dev = "dev" in dataset.find(job.data) and dataset.about.evaluated != "dev"
    dev = load_split(job.dataset, job.data, "dev") if has_dev else None
    settings = make_settings(job.kind, job.settings, job.seed, device)
    if dev is None and job.split == "dev":
        # The runs have nothing to choose an epoch by and keep their last, so that is the one to score.
        train, dev = hold_out(train)
        settings = replace(settings, keep="last")

    def score_dev(predictions: list[Any]) -> float:
        assert dev is not None
        return float(_scores(dataset, dev, predictions)["value"])

    began = time.perf_counter()
    with _quiet():
        tuned = fitting.fit(
            job.kind,
            job.model,
            train,
            dev,
            settings,
            labels=tuple(getattr(dataset, "labels", ())),
            score=None if dev is None else score_dev,
            work=job.work,
            identity=job.key,
        )
    seconds = time.perf_counter() - began
    if job.split == "dev":
        assert dev is not None
        _write_candidate(job, tuned, score_dev, dev, seconds)
    else:
        _write_test(job, tuned, dataset, seconds, device, at_once)
    shutil.rmtree(job.work, ignore_errors=True)


def make_settings(kind: str, settings: Mapping[str, Any], seed: int, device: str) -> Any:
    """The settings of a kind as its dataclass.

    Raises:
        UsageError: a name that the kind does not have, or a value that does not fit.
    """
    from biosmith.tasks import fitting

    given = {**settings, "seed": seed, "device": device}
    return from_plain(fitting.settings_of(kind), given, f"settings of {kind}")


def hold_out(train: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Training instances without every tenth unit, and those units."""
    members = unit_members(train)
    held = {i for number, unit in enumerate(members) if number % HELD_OUT == HELD_OUT - 1 for i in unit}
    kept = [x for i, x in enumerate(train) if i not in held]
    return kept, [train[i] for i in sorted(held)]


def _scores(dataset: Dataset, instances: Sequence[Any], predictions: list[Any]) -> dict[str, Any]:
    try:
        return dataset.score(instances, predictions)
    except Mistake as error:
        raise BiosmithError(
            f"{dataset.about.name}: prediction {error.index + 1} cannot be scored: {error.reason} ({error.value!r})"
        ) from error


def _write_candidate(job: Job, tuned: Any, score: Any, dev: Sequence[Any], seconds: float) -> None:
    value = tuned.history.best_score
    if value is None:
        value = score(tuned.predict(dev).values)
    write_json(
        job.record,
        {
            "key": job.key,
            "dataset": job.dataset,
            "settings": dict(job.settings),
            "seed": job.seed,
            "value": value,
            "epoch": _epoch(tuned.history),
            "seconds": seconds,
        },
    )


def _write_test(job: Job, tuned: Any, dataset: Dataset, seconds: float, device: str, at_once: int) -> None:
    test = load_split(job.dataset, job.data, dataset.about.evaluated)
    began = time.perf_counter()
    with _quiet():
        predicted = tuned.predict(test)
    predict_seconds = time.perf_counter() - began
    scores = _scores(dataset, test, predicted.values)
    run = Run(
        key=job.key,
        model=job.model_name,
        model_digest=job.model_digest,
        dataset=job.dataset,
        arm=job.arm,
        kind=job.kind,
        metric=dataset.about.metric,
        value=float(scores["value"]),
        seed=job.seed,
        settings=dict(job.settings),
        scores=scores,
        truncated=predicted.truncated,
        instances=len(predicted.values),
        dev_value=tuned.history.best_score,
        epoch=_epoch(tuned.history),
        train_seconds=seconds,
        predict_seconds=predict_seconds,
        tokens_per_second=_speed(tuned.history),
        device=describe_device(device) + (f", {at_once} runs at once" if at_once > 1 else ""),
        protocol=_protocol(job, dataset),
        digests={},
        version=__version__,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    predictions, units = (job.folder / f"{run.stem}{suffix}" for suffix in (PREDICTIONS, UNITS))
    write_predictions(predictions, dataset.names(test), predicted.values)
    score_units(dataset, test, predicted.values, scores).save(units)
    write_run(
        job.folder,
        replace(run, digests={"predictions": digest_file(predictions), "units": digest_file(units)}),
    )


def _protocol(job: Job, dataset: Dataset) -> dict[str, Any]:
    """What the score rests on, but for model, seed and rates."""
    return fingerprint(
        dataset,
        job.data,
        dataset.about.evaluated,
        trained_on={s: data_digests(dataset, job.data, s) for s in SPLITS if s != dataset.about.evaluated},
        kind=job.kind,
        max_length=job.settings["max_length"],
        truncation="what does not fit counts as missed, and is reported",
        **{key: job.settings[key] for key in CHOICES if key in job.settings},
    )


def _epoch(history: Any) -> int:
    return int(history.best_epoch or history.epoch)


def _speed(history: Any) -> float | None:
    lines = [line for line in history.lines if line.get("tokens_per_second") and line.get("seconds")]
    seconds = sum(line["seconds"] for line in lines)
    return sum(line["tokens_per_second"] * line["seconds"] for line in lines) / seconds if seconds else None


def describe_device(device: str) -> str:
    """The card's or the processor's name."""
    import torch

    from biosmith.machine import processor
    from biosmith.tasks.training import choose_device

    chosen = choose_device(device)
    return str(torch.cuda.get_device_name(chosen)) if chosen.type == "cuda" else processor().model


@contextmanager
def _quiet() -> Iterator[None]:
    """No line an epoch: a suite has hundreds of runs."""
    before = progress.console.quiet
    progress.console.quiet = True
    try:
        yield
    finally:
        progress.console.quiet = before
