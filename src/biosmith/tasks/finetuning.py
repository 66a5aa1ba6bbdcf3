"""Fine-tune on a source of instances and save; score a saved model on a split of one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from biosmith.artefact import Manifest, describe_input, require_new_folder, write_by_rename
from biosmith.errors import BadInput, UsageError
from biosmith.progress import say
from biosmith.rejects import Rejects
from biosmith.tasks.data_files import require_instances
from biosmith.tasks.fit_answers import gold_answers, group_keys
from biosmith.tasks.fitting import Tuned, fit, kind_of, load_tuned
from biosmith.tasks.instances import Question
from biosmith.tasks.locking import by_name, finish, hold, work_folder
from biosmith.tasks.settings import TrainingSettings
from biosmith.tasks.tuned_folder import describe_model, kept_epoch


class Source(Protocol):
    """Where instances come from and how they are scored: a dataset of the benchmarks, or `data_files.OwnData`."""

    @property
    def name(self) -> str:
        """Of the dataset; "" for a user's own."""

    @property
    def kind(self) -> str:
        """Of task (see `fitting`)."""

    @property
    def labels(self) -> tuple[str, ...]:
        """All labels; none where only the training split tells them."""

    def files(self, split: str) -> list[Path]:
        """The files of a split; none if it is not there."""

    def load(self, split: str, rejects: Rejects) -> Sequence[Any]:
        """The instances of a split."""

    def score(self, instances: Sequence[Any], predictions: Sequence[Any]) -> dict[str, Any]:
        """`metric`, `value` and what belongs to them."""


def finetune(task: str, source: Source, model: Path, out: Path, settings: TrainingSettings) -> dict[str, Any]:
    """Train on the train split, keep the best epoch on the dev split (never on test), and save.

    A run that was stopped goes on from its last checkpoint when it is started again with the same arguments.

    Args:
        task: its name for people.
        source: of instances.
        model: a Hugging Face folder, or for answers a tuned one.
        out: the folder to make.
        settings: of the source's kind.

    Returns:
        What `--json` prints.

    Raises:
        UsageError: `out` exists or another process is making it, no training split, the model cannot be loaded.
        BadInput: a file cannot be read, a label is not one of the source's.
    """
    out = by_name(out)
    work = work_folder(out)
    require_new_folder(out)
    with hold(work, out):
        tuned, inputs, set_aside = fit_source(source, model, settings, work)
        config = {"task": task, "dataset": source.name} if source.name else {"task": task}
        manifest = Manifest("tuned", config, settings.seed, inputs)
        finish(work, out, lambda folder: tuned.save(folder, manifest))
    return {**training_report(task, tuned, settings), "dataset": source.name, "set_aside": set_aside}


def fit_source(
    source: Source, model: Path, settings: TrainingSettings, work: Path | None = None
) -> tuple[Tuned, list[dict[str, Any]], int]:
    """Train on a source, without saving: the model, what it was made from, and how many records were set aside.

    Raises:
        UsageError, BadInput: as `finetune`.
    """
    rejects = Rejects()
    training = _load(source, "train", rejects)
    # A file of a user's own is every split: nothing is left that could choose the best epoch.
    is_one_file = not source.name and source.files("dev") == source.files("train")
    splits = ["train"] if is_one_file or not source.files("dev") else ["train", "dev"]
    dev = _load(source, "dev", rejects) if "dev" in splits else None
    if dev is not None:
        _require_scorable(source, "dev", dev)
        _say_new_labels(source, training, dev)
    elif settings.keep == "best":
        say("There is no dev split: the last epoch is kept")
    _warn(rejects)
    inputs = [describe_model(model)]
    inputs += [describe_input(path) for split in splits for path in source.files(split)]
    tuned = fit(
        source.kind,
        model,
        training,
        dev,
        settings,
        labels=source.labels,
        score=None if dev is None else lambda predicted: float(source.score(dev, predicted)["value"]),
        work=work,
        identity=[source.kind, source.name, *(item.get("digest") for item in inputs)],
    )
    return tuned, inputs, rejects.count


def training_report(task: str, tuned: Tuned, settings: TrainingSettings) -> dict[str, Any]:
    """What `finetune --json` prints of a model that was trained just now."""
    history = tuned.history
    assert history is not None
    last = history.lines[-1]
    seconds = sum(line["seconds"] for line in history.lines)
    return {
        "task": task,
        "epochs": history.epoch,
        "epoch": kept_epoch(history, settings.keep),
        "steps": last["step"],
        "loss": last["loss"],
        "dev_value": history.best_score,
        "labels": list(tuned.labels),
        **{k: v for k, v in tuned.counts.items() if k not in ("epoch", "dev_value")},
        "seconds": seconds,
        "tokens_per_second": sum(x["tokens_per_second"] * x["seconds"] for x in history.lines) / seconds,
    }


def evaluate(
    tuned: Path, source: Source, split: str, *, device: str = "auto", predictions: Path | None = None
) -> dict[str, Any]:
    """Score a tuned model on a split.

    Args:
        tuned: its folder.
        source: of instances; of the model's kind.
        split: train, dev or test.
        device: auto, cpu, cuda, ...
        predictions: a file to write, one JSON object an instance, as `bench score` reads it.

    Returns:
        `metric`, `value`, precision, recall and f1 where they apply, `instances`, `truncated`, `set_aside`.

    Raises:
        UsageError: no tuned model, one of another kind, no such split.
        BadInput: a file cannot be read.
    """
    if kind_of(tuned) != source.kind:
        raise UsageError(f"{tuned} was tuned for {kind_of(tuned)}, the data is for {source.kind}")
    model = load_tuned(tuned, device)
    rejects = Rejects()
    instances = _load(source, split, rejects)
    _warn(rejects)
    _require_scorable(source, split, instances)
    check_labels(tuned, model, instances)
    predicted = model.predict(instances)
    if predictions is not None:
        write_predictions(predictions, instances, predicted.values)
    return {
        "dataset": source.name,
        "split": split,
        **source.score(instances, predicted.values),
        "instances": len(instances),
        "truncated": predicted.truncated,
        "set_aside": rejects.count,
    }


def check_labels(tuned: Path, model: Tuned, instances: Sequence[Any]) -> None:
    """Raise `BadInput` at the first instance with a label that the model does not know; names both label sets."""
    if not model.labels:
        return
    known = set(model.labels)
    found = [(i, _labels(i)) for i in instances]
    for instance, labels in found:
        unknown = [label for label in labels if label not in known]
        if unknown:
            all_labels = sorted({label for _, labels in found for label in labels})
            raise BadInput(
                instance.file or "instances",
                f"the label is not one that {tuned} knows (this data has {', '.join(all_labels)})",
                record=f"line {instance.line}" if isinstance(instance.line, int) else instance.line,
                value=unknown[0],
                valid=list(model.labels),
            )


def write_predictions(path: Path, instances: Sequence[Any], values: Sequence[Any]) -> None:
    """Write predictions as `bench score` reads them; a group of questions has one line."""
    if instances and isinstance(instances[0], Question) and isinstance(values[0], list):
        groups = dict(zip(group_keys(instances), instances, strict=True))
        names = [question.group or question.id for question in groups.values()]
    else:
        names = [str(getattr(i, "id", n)) for n, i in enumerate(instances)]
    with write_by_rename(path) as temporary:
        lines = [
            json.dumps({"id": name, "prediction": value}, ensure_ascii=False)
            for name, value in zip(names, values, strict=True)
        ]
        temporary.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _load(source: Source, split: str, rejects: Rejects) -> Sequence[Any]:
    """A split with at least one instance, for a score over none would be 0."""
    instances = source.load(split, rejects)
    require_instances(instances, source.files(split), rejects)
    return instances


def _require_scorable(source: Source, split: str, instances: Sequence[Any]) -> None:
    """Raise `BadInput` for a split that no score can be had of; say so where it would be 0 whatever is predicted."""
    if source.kind == "similarity" and len(instances) < 2:
        raise BadInput(source.files(split)[0], "holds one pair; a correlation needs two or more")
    if source.kind in ("squad", "factoid") and not any(map(gold_answers, instances)):
        say(f"No question of {source.files(split)[0]} has an answer: the score says nothing of the model")


def _labels(instance: Any) -> tuple[str, ...]:
    return instance.label if isinstance(instance.label, tuple) else (str(instance.label),)


def _say_new_labels(source: Source, training: Sequence[Any], dev: Sequence[Any]) -> None:
    """Say which labels of the dev split nothing is learnt of: every score on it counts them as wrong."""
    if source.kind in ("tagging", "words", "similarity", "squad", "factoid"):
        return
    known = {*source.labels, *(label for instance in training for label in _labels(instance))}
    new = sorted({label for instance in dev for label in _labels(instance)} - known)
    if new:
        say(
            f"{source.files('dev')[0]} has labels that the train split lacks, never right there: {', '.join(new)}"
        )


def _warn(rejects: Rejects) -> None:
    for item in rejects.items[:3]:
        say(f"set aside: {item['file']}, {item['record']}: {item['reason']}")
    if rejects.count > 3:
        say(f"set aside: {rejects.count - 3:,} more records")
