"""Fitting on whole texts: relations, similarity, documents with several labels, classes, yes or no."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from biosmith.artefact import MANIFEST, Manifest, load_manifest
from biosmith.errors import BadInput, UsageError
from biosmith.tasks.batches import length_order, pack
from biosmith.tasks.fitting import Predictions, Score, require_instances_of, settings_of
from biosmith.tasks.folders import read_labels
from biosmith.tasks.inputs import Example, InputTransform
from biosmith.tasks.instances import Instance
from biosmith.tasks.layers import prepare_layers
from biosmith.tasks.metrics.classification import accuracy, document_micro_f1, labels_of_documents
from biosmith.tasks.metrics.similarity import pearson
from biosmith.tasks.relations import dummy_pairs
from biosmith.tasks.sequence_network import (
    PICKS,
    AnySequences,
    Target,
    form_of,
    load_sequence_network,
    new_sequence_network,
    with_spread,
)
from biosmith.tasks.settings import RelationSettings, SequenceSettings
from biosmith.tasks.tagging import BUDGET
from biosmith.tasks.texts import TextExamples, relation_examples, text_examples, with_target
from biosmith.tasks.training import History, choose_device, seeded, train
from biosmith.tasks.tuned_folder import kept_epoch, write_tuned

TARGETS: dict[str, Target] = {"similarity": "number", "documents": "classes"}
DTYPES = {"class": np.int64, "classes": np.float32, "number": np.float32}
NUMBER = ("score",)  # the name of a regression's only output

AnySettings = SequenceSettings | RelationSettings


class TunedSequences:
    """See `fitting.Tuned`. `pairs` are the types of the dummies that a model of relations was trained with."""

    def __init__(
        self,
        kind: str,
        network: AnySequences,
        transform: InputTransform,
        outputs: Sequence[str],
        settings: AnySettings,
        device: torch.device,
    ) -> None:
        self.kind, self.transform, self.settings = kind, transform, settings
        self.network = network.to(device)
        self.device, self.outputs = device, tuple(outputs)
        self.max_length = min(settings.max_length, network.positions)
        self.history: History | None = None
        self.counts: dict[str, Any] = {}
        self.pairs: tuple[tuple[str, str], ...] = ()

    @property
    def labels(self) -> Sequence[str]:
        """See `Tuned`."""
        return () if self.kind == "similarity" else self.outputs

    def examples(self, instances: Sequence[Instance]) -> TextExamples:
        """Instances as sequences, without targets."""
        if isinstance(self.settings, RelationSettings):
            return relation_examples(instances, self.transform, self.max_length, self.settings)
        return text_examples(
            instances,
            self.transform,
            self.max_length,
            pairs=True if self.kind in ("similarity", "yesno") else None,
            shorten="second" if self.kind == "yesno" else "longest",
        )

    @torch.inference_mode()
    def scores(self, examples: Sequence[Example]) -> NDArray[np.float32]:
        """Scores [N, outputs] of sequences, in their order."""
        was_training = self.network.training
        self.network.eval()
        lengths = np.array([len(e.ids) for e in examples], dtype=np.int64)
        scores = np.zeros((len(examples), len(self.outputs)), np.float32)
        for members in length_order(lengths, BUDGET[self.device.type]):
            batch = pack(examples, members).to(self.device)
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
                scores[batch.members] = self.network.logits(batch).float().cpu().numpy()
        self.network.train(was_training)
        return scores

    def predict(self, instances: Sequence[Instance]) -> Predictions:
        """See `Tuned`."""
        require_instances_of(self.kind, instances)
        made = self.examples(instances)
        return Predictions(self._values(self.scores(made.examples)), sum(made.truncated))

    def _values(self, scores: NDArray[np.float32]) -> list[Any]:
        if self.kind == "similarity":
            return [float(x) for x in scores[:, 0]]
        if self.kind == "documents":
            assert isinstance(self.settings, SequenceSettings)
            least = float(np.log(self.settings.threshold / (1 - self.settings.threshold)))
            return [[self.outputs[i] for i in np.flatnonzero(row > least)] for row in scores]
        return [self.outputs[i] for i in scores.argmax(1)]

    def save(self, folder: Path, manifest: Manifest) -> None:
        """See `Tuned`."""
        config: dict[str, Any] = {"settings": self.settings, "max_length": self.max_length}
        if self.pairs:
            config["pairs"] = self.pairs
        write_tuned(
            folder,
            self.network,
            manifest,
            kind=self.kind,
            labels=self.outputs,
            config=config,
            counts=self.counts,
            history=self.history,
        )


def fit(
    kind: str,
    model: Path,
    train_split: Sequence[Instance],
    dev: Sequence[Instance] | None,
    settings: AnySettings,
    *,
    labels: Sequence[str] = (),
    score: Score | None = None,
    work: Path | None = None,
    identity: Any = None,
) -> TunedSequences:
    """See `fitting.fit`."""
    outputs = _outputs(kind, train_split, labels)
    target = TARGETS.get(kind, "class")
    form = form_of(settings, target)
    with seeded(settings.seed, "head"):
        network = new_sequence_network(model, outputs, form, settings.dropout)
        prepare_layers(network, settings)
    tuned = TunedSequences(
        kind, network, InputTransform(model), outputs, settings, choose_device(settings.device)
    )
    if isinstance(settings, RelationSettings):
        tuned.pairs = dummy_pairs(train_split, settings)
    answers = [_target(kind, instance, outputs) for instance in train_split]
    if target == "number":
        with_spread(network, answers)
    made = tuned.examples(train_split)
    examples = [
        with_target(example, answer, DTYPES[target], form.features)
        for example, answer in zip(made.examples, answers, strict=True)
    ]

    def score_dev() -> Mapping[str, float]:
        assert dev is not None
        predicted = tuned.predict(dev).values
        return {"value": score(predicted) if score is not None else _plain_score(kind, dev, predicted)}

    tuned.history = train(
        network,
        examples,
        network.loss,
        settings,
        score=None if dev is None else score_dev,
        work=work,
        identity=identity,
    )
    tuned.counts = {
        "instances": len(train_split),
        "truncated": sum(made.truncated),
        "epoch": kept_epoch(tuned.history, settings.keep),
        "dev_value": tuned.history.best_score,
    }
    return tuned


def _outputs(kind: str, instances: Sequence[Instance], labels: Sequence[str]) -> tuple[str, ...]:
    """The names of the outputs: the labels as given, or those of the instances, sorted."""
    if kind == "similarity":
        return NUMBER
    if labels:
        return tuple(labels)
    found: set[str] = set()
    for instance in instances:
        found |= set(instance.label) if isinstance(instance.label, tuple) else {str(instance.label)}
    if len(found) < (1 if kind == "documents" else 2):
        raise UsageError(f"{kind}: the training split has no two labels to tell apart, but {sorted(found)}")
    return tuple(sorted(found))


def _target(kind: str, instance: Instance, outputs: Sequence[str]) -> Any:
    """The right answer of an instance as a number, or as numbers."""
    label = instance.label
    if kind == "similarity":
        if isinstance(label, tuple | str) or not math.isfinite(label):
            raise _bad(instance, "a number is expected as label", label, None)
        return float(label)
    if kind == "documents":
        if not isinstance(label, tuple):
            raise _bad(instance, "labels are expected, not one label", label, None)
        unknown = [x for x in label if x not in outputs]
        if unknown:
            raise _bad(instance, "has an unknown label", unknown[0], outputs)
        return np.array([output in label for output in outputs], np.float32)
    if str(label) not in outputs:
        raise _bad(instance, "has an unknown label", label, outputs)
    return outputs.index(str(label))


def _bad(instance: Instance, reason: str, value: Any, valid: Sequence[str] | None) -> BadInput:
    record = f"line {instance.line}" if isinstance(instance.line, int) else instance.line
    return BadInput(
        instance.file or "instances", reason, record=f"{record} ({instance.id})", value=value, valid=valid
    )


def group_names(instances: Sequence[Instance]) -> list[str]:
    """What each instance is scored with: the others of its group, or nothing else whatever its id is."""
    return [f"group {i.group}" if i.group else str(n) for n, i in enumerate(instances)]


def _plain_score(kind: str, dev: Sequence[Instance], predicted: Sequence[Any]) -> float:
    """Pearson's correlation, micro F1 of groups, or accuracy."""
    if kind == "similarity":
        return pearson([float(i.label) for i in dev if not isinstance(i.label, tuple)], predicted)
    if kind == "documents":
        groups = group_names(dev)
        gold = labels_of_documents(groups, (i.label if isinstance(i.label, tuple) else () for i in dev))
        return document_micro_f1(gold, labels_of_documents(groups, predicted)).f1
    return accuracy([str(i.label) for i in dev], predicted)


def load(kind: str, folder: Path, device: str = "auto") -> TunedSequences:
    """See `fitting.load_tuned`."""
    settings = settings_from(kind, folder)
    assert isinstance(settings, SequenceSettings | RelationSettings)
    outputs = read_labels(folder)
    form = form_of(settings, TARGETS.get(kind, "class"))
    if form.features not in PICKS:
        raise BadInput(folder, "its manifest names unknown features", value=form.features, valid=PICKS)
    network = load_sequence_network(folder, outputs, form)
    tuned = TunedSequences(kind, network, InputTransform(folder), outputs, settings, choose_device(device))
    tuned.pairs = _pairs(folder)
    return tuned


def _pairs(folder: Path) -> tuple[tuple[str, str], ...]:
    """The pairs of types that a model of relations learnt; none where its folder does not say."""
    given = load_manifest(folder).config.get("pairs", []) if (folder / MANIFEST).is_file() else []
    try:
        if all(isinstance(type, str) for pair in given for type in pair):
            return tuple((one, other) for one, other in given)
    except (TypeError, ValueError):
        pass
    raise BadInput(folder / MANIFEST, "has to be pairs of types", record="config.pairs", value=given)


def settings_from(kind: str, folder: Path) -> Any:
    """The settings that a folder was tuned with, those of the kind without a manifest; fields that this version does not
    have are left out.

    Raises:
        BadInput: one is of another type than the field.
    """
    new = settings_of(kind)()
    if not (folder / MANIFEST).is_file():
        return new
    values = dict(load_manifest(folder).config.get("settings") or {})
    known: dict[str, Any] = {}
    for field in dataclasses.fields(new):
        if field.name not in values:
            continue
        value, default = values[field.name], getattr(new, field.name)
        known[field.name] = tuple(value) if isinstance(value, list) else value
        if not _is_like(known[field.name], default):
            place = f"config.settings.{field.name}"
            raise BadInput(folder / MANIFEST, f"has to be like {default!r}", record=place, value=value)
    return dataclasses.replace(new, **known)


def _is_like(value: Any, default: Any) -> bool:
    """Whether a value has the type of a field, told by its default; None stands for what may be true, false or open."""
    if default is None:
        return value is None or isinstance(value, bool)
    if isinstance(default, tuple):
        return isinstance(value, tuple) and [*map(type, value)] == [*map(type, default)]
    return type(value) is type(default) or (isinstance(default, float) and type(value) is int)
