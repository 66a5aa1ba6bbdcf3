"""Fitting of taggers: mentions in sentences (kind "tagging") and words of classes (kind "words", PICO)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from biosmith.artefact import MANIFEST, Manifest, load_manifest
from biosmith.errors import UsageError
from biosmith.tasks.fitting import Predictions, Score, require_instances_of
from biosmith.tasks.inputs import InputTransform
from biosmith.tasks.joining import marked_types, right_answers, unmarked_sets
from biosmith.tasks.labels import LabelSet, read_spans, write_tags
from biosmith.tasks.layers import prepare_layers
from biosmith.tasks.metrics.entities import score_tags
from biosmith.tasks.metrics.words import score_words
from biosmith.tasks.network import AnyTagger, EncoderTagger, TransformersTagger, new_tagger
from biosmith.tasks.settings import TaggingSettings
from biosmith.tasks.tagged import TaggedSentence
from biosmith.tasks.tagging import (
    Tagger,
    TorchEngine,
    chain_of,
    check_tags,
    training_examples,
)
from biosmith.tasks.training import History, choose_device, seeded, train
from biosmith.tasks.tuned_folder import kept_epoch, write_tuned

LEAST_STRIDE = 128


class TunedTagger:
    """See `fitting.Tuned`.

    Attributes:
        tagger: words in, tags out, with `network` behind it.
        settings: None for a folder without a manifest.
        counts: of what it was trained on.
    """

    def __init__(
        self,
        kind: str,
        tagger: Tagger,
        network: AnyTagger,
        settings: TaggingSettings | None = None,
        history: History | None = None,
        counts: Mapping[str, Any] | None = None,
    ) -> None:
        self.kind, self.tagger, self.network = kind, tagger, network
        self.settings, self.history, self.counts = settings, history, dict(counts or {})

    @property
    def labels(self) -> Sequence[str]:
        """See `Tuned`."""
        return self.tagger.label_set.labels

    def predict(self, instances: Sequence[TaggedSentence]) -> Predictions:
        """See `Tuned`: BIO tags, whatever the scheme of the model; words that were not read are O."""
        require_instances_of(self.kind, instances)
        tagged = self.tagger.tag([s.words for s in instances], on_long="truncate")
        tags = [write_tags(read_spans(self.tagger.tags(t)), len(t.labels)) for t in tagged]
        return Predictions(tags, sum(t.truncated > 0 for t in tagged))

    def save(self, folder: Path, manifest: Manifest) -> None:
        """See `Tuned`."""
        config = {"settings": self.settings, "max_length": self.tagger.max_length}
        counts = {**self.counts, "longest_mention": self.tagger.stride}
        write_tuned(
            folder,
            self.network,
            manifest,
            kind=self.kind,
            labels=self.labels,
            config=config,
            counts=counts,
            history=self.history,
        )


def fit(
    kind: str,
    model: Path,
    train_split: Sequence[TaggedSentence],
    dev: Sequence[TaggedSentence] | None,
    settings: TaggingSettings,
    *,
    labels: Sequence[str] = (),
    score: Score | None = None,
    work: Path | None = None,
    identity: Any = None,
) -> TunedTagger:
    """See `fitting.fit`; `labels` are types of mentions."""
    types = set(labels) or set(marked_types(train_split))
    if not types:
        raise UsageError("the training split has no mention")
    label_set = LabelSet.of_types(types, settings.scheme)
    for split in (train_split, dev or ()):
        check_tags(split, label_set)
    with seeded(settings.seed, "head"):
        network = new_tagger(model, label_set.labels, settings.dropout, settings.head)
        prepare_layers(network, settings)
    if (right := right_answers(unmarked_sets(train_split), label_set)) is not None:
        if network.chain is not None:
            raise UsageError("head=crf needs corpora that mark the same types; use head=linear or bilstm")
        network.right = torch.from_numpy(right)
    transform = InputTransform(model)
    engine = TorchEngine(network, choose_device(settings.device))
    max_length = min(settings.max_length, network.positions)
    tagger = Tagger(transform, label_set, engine, max_length, longest_mention(train_split, transform))
    examples = training_examples(train_split, transform, label_set, max_length, settings.labelled)
    tuned = TunedTagger(kind, tagger, network, settings)

    def score_dev() -> Mapping[str, float]:
        assert dev is not None
        tagger.chain = chain_of(network)
        predicted = tuned.predict(dev).values
        return {"value": score(predicted)} if score is not None else _plain_score(kind, dev, predicted)

    history = train(
        network,
        examples,
        network.loss,
        settings,
        score=None if dev is None else score_dev,
        work=work,
        identity=identity,
    )
    tagger.chain = chain_of(network)
    tuned.history = history
    tuned.counts = {
        "sentences": len(train_split),
        "words": sum(len(s.words) for s in train_split),
        "sequences": len(examples),
        "epoch": kept_epoch(history, settings.keep),
        "dev_value": history.best_score,
    }
    return tuned


def _plain_score(
    kind: str, dev: Sequence[TaggedSentence], predicted: Sequence[Sequence[str]]
) -> dict[str, float]:
    gold = [s.tags for s in dev]
    if kind == "words":
        return {"value": score_words(gold, predicted).macro_f1}
    overall = score_tags(gold, predicted).overall
    return {"value": overall.f1, "precision": overall.precision, "recall": overall.recall}


def longest_mention(
    sentences: Sequence[TaggedSentence], transform: InputTransform, least: int = LEAST_STRIDE
) -> int:
    """Pieces of the longest mention, at least `least`: what overlapping windows have to share."""
    mentions = [s.words[a:b] for s in sentences for a, b, _ in read_spans(s.tags)]
    longest = sorted(mentions, key=lambda words: sum(map(len, words)))[-100:]
    return int(np.max([least, *(len(p.ids) for p in transform.cut_words(longest))])) if longest else least


def load(kind: str, folder: Path, device: str = "auto", max_length: int | None = None) -> TunedTagger:
    """See `fitting.load_tuned`: maximum length and window stride are those of the manifest, or the model's."""
    stride = LEAST_STRIDE
    if (folder / MANIFEST).is_file():
        manifest = load_manifest(folder)
        max_length = max_length or manifest.config.get("max_length")
        stride = int(manifest.counts.get("longest_mention", stride))
    tagger = Tagger.load(folder, device=device, max_length=max_length)
    tagger.stride = stride
    assert isinstance(tagger.engine, TorchEngine)
    network = tagger.engine.network
    assert isinstance(network, EncoderTagger | TransformersTagger)
    return TunedTagger(kind, tagger, network)
