"""Named entity recognition: fine-tune a tagger on a dataset, and score one on a split."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from biosmith.artefact import (
    MANIFEST,
    Manifest,
    describe_files,
    describe_input,
    folder_by_rename,
    load_manifest,
    require_new_folder,
    to_plain,
)
from biosmith.errors import BadInput, UsageError
from biosmith.models.checkpoint import WEIGHTS
from biosmith.progress import say
from biosmith.tasks.batches import Batch
from biosmith.tasks.inputs import InputTransform
from biosmith.tasks.labels import OUTSIDE, LabelSet, Span, read_spans, split_tag
from biosmith.tasks.metrics.entities import EntityScore, score_spans, score_tags
from biosmith.tasks.network import EncoderTagger, TransformersTagger, new_tagger
from biosmith.tasks.settings import TaggingSettings
from biosmith.tasks.tagged import TaggedData, find_splits, load_split, read_tagged
from biosmith.tasks.tagging import Tagger, TorchEngine, check_tags, training_examples
from biosmith.tasks.training import History, choose_device, seeded, train

METRICS = "metrics.jsonl"


@dataclass(frozen=True)
class NerReport:
    """What a tagger scores on a split.

    Attributes:
        conll, strict: the two readings of entity-level precision, recall and F1.
        sentences, words: how many were scored.
        truncated: words that the model did not read; mentions among them count as missed.
        truncated_sentences, truncated_mentions: sentences with such words, gold mentions with at least one.
        set_aside: records of the data that could not be read.
    """

    conll: EntityScore
    strict: EntityScore
    sentences: int
    words: int
    truncated: int
    truncated_sentences: int
    truncated_mentions: int
    set_aside: int = 0

    def as_dict(self) -> dict[str, Any]:
        """For `--json`: shares in [0, 1]."""
        overall = self.conll.overall
        return {
            "metric": "entity_f1",
            "value": overall.f1,
            "precision": overall.precision,
            "recall": overall.recall,
            "f1": overall.f1,
            "strict": self.strict.overall.as_dict(),
            "types": self.conll.as_dict()["types"],
            "mentions": overall.gold,
            "predicted": overall.predicted,
            "sentences": self.sentences,
            "words": self.words,
            "truncated": self.truncated,
            "truncated_sentences": self.truncated_sentences,
            "truncated_mentions": self.truncated_mentions,
        }


def finetune(model: Path, data: Path, out: Path, settings: TaggingSettings | None = None) -> dict[str, Any]:
    """Fine-tune a tagger and save it as a folder that `transformers` loads.

    A run that was stopped goes on from its last finished epoch when it is started again with the same arguments.

    Args:
        model: a Hugging Face folder; the fast encoder reads BERT-shaped ones, AutoModel any other.
        data: a dataset's folder (train, and dev if there is one), or one file to train on.
        out: the folder to make.
        settings: see `TaggingSettings`.

    Returns:
        What `--json` prints: epochs, steps, loss, dev scores, words and tokens a second.

    Raises:
        UsageError: `out` exists, no training split, the model cannot be loaded.
        BadInput: a line without a tag, a tag of the development split that the training split does not have.
    """
    settings = settings or TaggingSettings()
    require_new_folder(out)
    training = load_split(data, "train") if data.is_dir() else read_tagged([data])
    development = load_split(data, "dev") if data.is_dir() and "dev" in find_splits(data) else None
    if settings.keep == "best" and development is None:
        say(f"{data} has no dev split: the last epoch is kept")
    label_set = _label_set(data, training, development, settings)
    tagger, network = _new_tagger(model, training, label_set, settings)
    examples = training_examples(training.sentences, tagger.transform, label_set, tagger.max_length)

    def loss_of(batch: Batch) -> torch.Tensor:
        return F.cross_entropy(network.logits(batch).float(), batch.target)

    def score() -> Mapping[str, float]:
        assert development is not None
        overall = score_data(tagger, development).conll.overall
        return {"value": overall.f1, "precision": overall.precision, "recall": overall.recall}

    inputs = [_describe_model(model), *(describe_input(f) for f in training.files)]
    inputs += [describe_input(f) for f in (development.files if development else [])]
    work = out.parent / f".{out.name}.partial"
    history = train(
        network,
        examples,
        loss_of,
        settings,
        score=score if development is not None else None,
        work=work,
        identity=[item.get("digest") for item in inputs],
    )
    counts = _counts(training, len(examples), tagger, history, settings)
    config = {
        "task": "ner",
        "settings": settings,
        "labels": label_set.labels,
        "max_length": tagger.max_length,
    }
    manifest = Manifest("tuned", config, settings.seed, inputs, counts=counts)
    with folder_by_rename(out) as temporary:
        network.save(temporary, labels=label_set.labels, manifest=manifest, card=_card(out, manifest))
        _add_metrics(temporary, history)
    shutil.rmtree(work, ignore_errors=True)
    return _finetune_report(history, counts, label_set, training.set_aside)


def _label_set(
    data: Path, training: TaggedData, development: TaggedData | None, settings: TaggingSettings
) -> LabelSet:
    """The labels of the training split; the development split must have no others."""
    tags = {tag for sentence in training.sentences for tag in sentence.tags} - {OUTSIDE}
    if not tags:
        raise BadInput(data, "its training split has no mention")
    label_set = LabelSet.of_types((split_tag(tag)[1] for tag in tags), settings.scheme)
    if development is not None:
        check_tags(development.sentences, label_set)
    if training.untaggable:
        say(
            f"train: {training.untaggable:,} mentions are nested, discontinuous or end inside a word; "
            "tags cannot say them exactly"
        )
    return label_set


def _new_tagger(
    model: Path, training: TaggedData, label_set: LabelSet, settings: TaggingSettings
) -> tuple[Tagger, EncoderTagger | TransformersTagger]:
    """A tagger to train, with its network, on the device of the settings."""
    with seeded(settings.seed, "head"):
        network = new_tagger(model, label_set.labels, settings.dropout)
    transform = InputTransform(model)
    engine = TorchEngine(network, choose_device(settings.device))
    max_length = min(settings.max_length, network.positions)
    return Tagger(transform, label_set, engine, max_length, _longest_mention(training, transform)), network


def _counts(
    training: TaggedData, sequences: int, tagger: Tagger, history: History, settings: TaggingSettings
) -> dict[str, Any]:
    return {
        "sentences": len(training.sentences),
        "words": sum(len(s.words) for s in training.sentences),
        "sequences": sequences,
        "untaggable": training.untaggable,
        "longest_mention": tagger.stride,
        "epoch": history.best_epoch if settings.keep == "best" and history.best_epoch else history.epoch,
        "dev_f1": history.best_score,
    }


def _finetune_report(
    history: History, counts: Mapping[str, Any], label_set: LabelSet, set_aside: int
) -> dict[str, Any]:
    last = history.lines[-1]
    seconds = sum(line["seconds"] for line in history.lines)
    return {
        "task": "ner",
        "epochs": history.epoch,
        "epoch": counts["epoch"],
        "steps": last["step"],
        "loss": last["loss"],
        "dev_f1": history.best_score,
        "labels": list(label_set.labels),
        "sentences": counts["sentences"],
        "words": counts["words"],
        "seconds": seconds,
        "tokens_per_second": sum(x["tokens_per_second"] * x["seconds"] for x in history.lines) / seconds,
        "set_aside": set_aside,
    }


def _longest_mention(data: TaggedData, transform: InputTransform, least: int = 128) -> int:
    """Pieces of the longest mention, at least `least`: what overlapping windows have to share."""
    mentions = [s.words[a:b] for s in data.sentences for a, b, _ in read_spans(s.tags)]
    longest = sorted(mentions, key=lambda words: sum(map(len, words)))[-100:]
    return max(least, *(len(p.ids) for p in transform.cut_words(longest)), 0) if longest else least


def _describe_model(folder: Path) -> dict[str, Any]:
    """A model as an input: by its manifest, or by its weights where it has none."""
    if (folder / MANIFEST).is_file() or not (folder / WEIGHTS).is_file():
        return describe_input(folder)
    return describe_input(folder / WEIGHTS)


def _add_metrics(folder: Path, history: History) -> None:
    """Write metrics.jsonl into a model's folder and its manifest."""
    lines = "".join(json.dumps(to_plain(line)) + "\n" for line in history.lines)
    (folder / METRICS).write_text(lines, encoding="utf-8")
    manifest = load_manifest(folder)
    files = {**manifest.files, **describe_files(folder, [METRICS])}
    Manifest(**{**vars(manifest), "files": files}).save(folder)


def _card(out: Path, manifest: Manifest) -> str:
    config, counts = manifest.config, manifest.counts
    dev = "" if counts["dev_f1"] is None else f"Development entity F1: {100 * counts['dev_f1']:.2f}\n\n"
    return (
        "---\nlibrary_name: transformers\npipeline_tag: token-classification\ntags:\n- biology\n- biomedical\n---\n\n"
        f"# {out.name}\n\nA tagger made by biosmith {manifest.version} (`finetune ner`). "
        f"Labels: {', '.join(config['labels'])}.\n\n{dev}"
        "`manifest.json` names the model and data it was made from, by digest, and every setting.\n"
    )


def evaluate(
    tuned: Path,
    data: Path,
    split: str = "test",
    *,
    device: str = "auto",
    max_length: int | None = None,
) -> NerReport:
    """Score a tuned tagger on a split of a dataset's folder, or on a file.

    Raises:
        UsageError: no tuned model, no such split.
        BadInput: a tag that the model does not know; both label sets are named, with file and line.
    """
    tagger = load_tuned(tuned, device=device, max_length=max_length)
    gold = load_split(data, split)
    check_tags(gold.sentences, tagger.label_set)
    return score_data(tagger, gold)


def load_tuned(folder: Path, *, device: str = "auto", max_length: int | None = None) -> Tagger:
    """A tagger with the maximum length and the window stride that its manifest names; other folders use the model's."""
    stride = 128
    if (folder / MANIFEST).is_file():
        manifest = load_manifest(folder)
        if manifest.config.get("task", "ner") != "ner":
            raise UsageError(f"{folder} was tuned for {manifest.config['task']}, not for ner")
        max_length = max_length or manifest.config.get("max_length")
        stride = int(manifest.counts.get("longest_mention", stride))
    tagger = Tagger.load(folder, device=device, max_length=max_length)
    tagger.stride = stride
    return tagger


def score_data(tagger: Tagger, data: TaggedData) -> NerReport:
    """Tag a split and score it; what the model could not read counts as missed."""
    tagged = tagger.tag([s.words for s in data.sentences], on_long="truncate")
    gold_tags = [s.tags for s in data.sentences]
    predicted_tags = [tagger.tags(t) for t in tagged]
    if data.gold is None:
        conll = score_tags(gold_tags, predicted_tags)
        strict = score_tags(gold_tags, predicted_tags, strict=True)
    else:
        conll = strict = score_spans(data.gold, _document_spans(data, predicted_tags))
    cut = [t.truncated for t in tagged]
    return NerReport(
        conll,
        strict,
        sentences=len(data.sentences),
        words=sum(len(s.words) for s in data.sentences),
        truncated=sum(cut),
        truncated_sentences=int(np.count_nonzero(cut)),
        truncated_mentions=sum(
            span.end > len(s.words) - missing
            for s, missing in zip(data.sentences, cut, strict=True)
            if missing
            for span in read_spans(s.tags)
        ),
        set_aside=data.set_aside,
    )


def _document_spans(data: TaggedData, predicted: Sequence[Sequence[str]]) -> list[list[Span]]:
    """Predicted spans in characters, document by document."""
    assert data.gold is not None
    found: list[list[Span]] = [[] for _ in data.gold]
    for sentence, tags in zip(data.sentences, predicted, strict=True):
        assert sentence.offsets is not None
        for a, b, type in read_spans(tags):
            found[sentence.document].append(Span(sentence.offsets[a][0], sentence.offsets[b - 1][1], type))
    return found
