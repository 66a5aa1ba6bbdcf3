"""One way to every task: `fit` a model to instances, `predict`, `save`, and load the folder again.

A kind of task says what instances hold and what predictions are:

| kind | instances | a prediction |
|---|---|---|
| tagging | `TaggedSentence` | list of BIO tags, scored by mention |
| words | `TaggedSentence` | list of BIO tags, scored by word (PICO) |
| relation | `Instance` with entities, dummies or markers | a label |
| similarity | `Instance` with a pair | a number |
| documents | `Instance` with a tuple of labels | list of labels |
| classification | `Instance` | a label |
| yesno | `Instance`: question and context | a label |
| factoid | `Question` | list of answers, best first: one a group, over all its contexts together |
| squad | `Question` | a string, empty where there is no answer |
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from biosmith.artefact import MANIFEST, Manifest, load_manifest
from biosmith.errors import UsageError
from biosmith.tasks.folders import read_json
from biosmith.tasks.instances import Instance, Question
from biosmith.tasks.settings import (
    AnswerSettings,
    RelationSettings,
    SequenceSettings,
    TaggingSettings,
    TrainingSettings,
)
from biosmith.tasks.tagged import TaggedSentence
from biosmith.tasks.training import History

Score = Callable[[list[Any]], float]


@dataclass(frozen=True)
class Predictions:
    """What a tuned model says.

    Attributes:
        values: one an instance (factoid: one a group of instances), in the JSON form of `bench score`.
        truncated: instances (sentences, texts) that were not read in full.
    """

    values: list[Any]
    truncated: int


class Tuned(Protocol):
    """A fine-tuned model.

    Attributes:
        kind: of task.
        history: of its training; None for one that was loaded.
        labels: what it can say; empty for answers.
        counts: of what it was trained on; empty for one that was loaded.
    """

    kind: str
    history: History | None
    counts: dict[str, Any]

    @property
    def labels(self) -> Sequence[str]:
        """See above."""

    def predict(self, instances: Sequence[Any]) -> Predictions:
        """Predictions for instances; their labels are not looked at. Raises `UsageError` for other values."""

    def save(self, folder: Path, manifest: Manifest) -> None:
        """Write a folder that `load_tuned` reads, and `transformers` where it has the architecture; by rename.

        The manifest's config gets the kind, the settings and what else is needed to load it.
        """


@dataclass(frozen=True)
class _Kind:
    """Where a kind is implemented (`fit` and `load` of a module), its settings, and what its instances are."""

    module: str
    settings: type[TrainingSettings]
    instances: type


KINDS: dict[str, _Kind] = {
    "tagging": _Kind("fit_tagging", TaggingSettings, TaggedSentence),
    "words": _Kind("fit_tagging", TaggingSettings, TaggedSentence),
    "relation": _Kind("fit_sequences", RelationSettings, Instance),
    "similarity": _Kind("fit_sequences", SequenceSettings, Instance),
    "documents": _Kind("fit_sequences", SequenceSettings, Instance),
    "classification": _Kind("fit_sequences", SequenceSettings, Instance),
    "yesno": _Kind("fit_sequences", SequenceSettings, Instance),
    "factoid": _Kind("fit_answers", AnswerSettings, Question),
    "squad": _Kind("fit_answers", AnswerSettings, Question),
}


def fit(
    kind: str,
    model: Path,
    train: Sequence[Any],
    dev: Sequence[Any] | None,
    settings: TrainingSettings,
    *,
    labels: Sequence[str] = (),
    score: Score | None = None,
    work: Path | None = None,
    identity: Any = None,
) -> Tuned:
    """Fine-tune a model; the same seed gives the same model on the CPU.

    Args:
        kind: a name in `KINDS`.
        model: a Hugging Face folder: those shaped like BERT, ELECTRA, ALBERT or ModernBERT run through the fast
            encoder, others through AutoModel; for answers also a tuned one, whose head is trained on (two stages:
            SQuAD, then BioASQ).
        train: training instances.
        dev: development instances, which decide the best epoch; without any the last is kept.
        settings: an instance of `settings_of(kind)`.
        labels: all labels; by default those of the training instances.
        score: the dataset's own score of predictions for `dev`; by default a plain one of the kind.
        work: folder for checkpoints, from which a stopped run goes on; None keeps none.
        identity: whatever else decides the result; checkpoints of another identity are not taken up.

    Raises:
        UsageError: an unknown kind, settings or instances of another kind, no training instances, a model that cannot
            be loaded.
        BadInput: an instance that the kind has no use for, a label that is not one of `labels`.
    """
    known = _find(kind)
    if not isinstance(settings, known.settings):
        raise UsageError(f"{kind} takes {known.settings.__name__}, not {type(settings).__name__}")
    if not train:
        raise UsageError(f"{kind}: there is nothing to train on")
    require_instances_of(kind, train)
    require_instances_of(kind, dev or ())
    module = importlib.import_module(f"biosmith.tasks.{known.module}")
    tuned: Tuned = module.fit(
        kind, model, train, dev or None, settings, labels=labels, score=score, work=work, identity=identity
    )
    return tuned


def require_instances_of(kind: str, instances: Sequence[Any]) -> None:
    """Raise `UsageError` if what a model is given is not a list of the kind's instances."""
    wanted = _find(kind).instances
    for instance in instances if isinstance(instances, Iterable) else [None]:
        if not isinstance(instance, wanted):
            given = f"not of {type(instance).__name__}" if instance is not None else "in a list"
            raise UsageError(
                f"{kind} takes instances of {wanted.__name__}, {given} (see {wanted.__module__})"
            )


def settings_of(kind: str) -> type[TrainingSettings]:
    """The settings dataclass of a kind. Raises `UsageError` for an unknown one."""
    return _find(kind).settings


def load_tuned(folder: Path, device: str = "auto") -> Tuned:
    """A model that `Tuned.save` wrote, or any folder of `transformers` with a head for tokens, sequences or answers.

    Raises:
        UsageError: the folder does not exist, or has no such head.
        BadInput: it is damaged.
    """
    kind = kind_of(folder)
    module = importlib.import_module(f"biosmith.tasks.{_find(kind).module}")
    tuned: Tuned = module.load(kind, folder, device)
    return tuned


# The end of an architecture's name in transformers -> the kind it can be used for.
ARCHITECTURES = {
    "ForTokenClassification": "tagging",
    "ForSequenceClassification": "classification",
    "ForQuestionAnswering": "squad",
}
# What config.json says of a head over whole texts, if it is not one label of several.
PROBLEMS = {"regression": "similarity", "multi_label_classification": "documents"}


def kind_of(folder: Path) -> str:
    """The kind of a tuned folder: what its manifest says, else what its architecture can be used for.

    Raises:
        UsageError: it is no tuned folder.
    """
    if (folder / MANIFEST).is_file():
        config = load_manifest(folder).config
        if config.get("kind") in KINDS:
            return str(config["kind"])
        if config.get("task") == "ner":
            return "tagging"
    written = read_json(folder / "config.json")
    named = str((written.get("architectures") or [""])[0])
    for end, kind in ARCHITECTURES.items():
        if named.endswith(end):
            return _kind_of_sequences(written) if kind == "classification" else kind
    raise UsageError(f"{folder} is not a tuned model ({named or 'no architecture'} in its config.json)")


def _kind_of_sequences(written: Mapping[str, Any]) -> str:
    """What a head over whole texts can be used for. Like `transformers`, takes one of a single output for a regression
    where `problem_type` does not say."""
    labels = written.get("id2label")
    is_number = isinstance(labels, Mapping) and len(labels) == 1
    problem = written.get("problem_type") or ("regression" if is_number else None)
    return PROBLEMS.get(str(problem), "classification")


def _find(kind: str) -> _Kind:
    if kind not in KINDS:
        raise UsageError(f"task kind {kind!r} is unknown; valid: {', '.join(KINDS)}")
    return KINDS[kind]
