"""Named entity recognition: fine-tune a tagger on a dataset, and score one on a split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from biosmith.artefact import MANIFEST, Manifest, describe_input, load_manifest, require_new_folder
from biosmith.errors import BadInput, UsageError
from biosmith.progress import say
from biosmith.tasks import fit_tagging
from biosmith.tasks.finetuning import training_report, write_predictions
from biosmith.tasks.fitting import kind_of
from biosmith.tasks.joining import join, marked_types, only_types, rename_types
from biosmith.tasks.labels import Span, read_spans, write_tags
from biosmith.tasks.locking import by_name, finish, hold, work_folder
from biosmith.tasks.metrics.entities import EntityScore, score_spans, score_tags
from biosmith.tasks.metrics.words import score_words
from biosmith.tasks.settings import LEAST_LENGTH, TaggingSettings
from biosmith.tasks.tagged import TaggedData, find_splits, load_split, read_tagged
from biosmith.tasks.tagging import Tagger, check_tags
from biosmith.tasks.tuned_folder import describe_model

KINDS = {"ner": "tagging", "pico": "words"}  # task -> its kind (see `fitting`)


@dataclass(frozen=True)
class NerReport:
    """What a tagger scores on a split.

    Attributes:
        conll, strict: the two readings of entity-level precision, recall and F1.
        sentences, words: how many were scored.
        truncated: words that the model did not read; mentions among them count as missed.
        truncated_sentences, truncated_mentions: sentences with such words, gold mentions with at least one.
        set_aside: records of the data that could not be read.
        not_counted: predicted mentions of types that the split does not mark, which nobody can call right or wrong.
    """

    conll: EntityScore
    strict: EntityScore
    sentences: int
    words: int
    truncated: int
    truncated_sentences: int
    truncated_mentions: int
    set_aside: int = 0
    not_counted: int = 0

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
            "not_counted": self.not_counted,
        }


def finetune(
    model: Path,
    data: Path | Sequence[Path],
    out: Path,
    settings: TaggingSettings | None = None,
    *,
    task: str = "ner",
    names: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Fine-tune a tagger and save it as a folder that `transformers` loads.

    A run that was stopped goes on from its last checkpoint when it is started again with the same arguments.

    Args:
        model: a Hugging Face folder; the fast encoder reads those shaped like BERT, ELECTRA, ALBERT or ModernBERT,
            AutoModel any other.
        data: a dataset's folder (train, and dev if there is one), or one file to train on. Several may mark different
            types of mentions (see `joining`); the best epoch is that of the highest mean of their scores.
        out: the folder to make.
        settings: see `TaggingSettings`.
        task: "ner" is scored by mention, "pico" by word.
        names: other names for types of mentions.

    Returns:
        What `--json` prints: epochs, steps, loss, dev scores, words and tokens a second.

    Raises:
        UsageError: `out` exists or another process is making it, no training split, the model cannot be loaded, no
            mention has a type of `names`.
        BadInput: a line without a tag, a tag of the development split that the training split does not have.
    """
    settings = settings or TaggingSettings()
    out = by_name(out)
    work = work_folder(out)
    require_new_folder(out)
    corpora = [_Corpus.load(folder, names or {}) for folder in ([data] if isinstance(data, Path) else data)]
    given = sorted(set().union(*(corpus.given for corpus in corpora)))
    if unknown := sorted(set(names or {}) - set(given)):
        raise UsageError(
            f"no type {', '.join(map(repr, unknown))} can be renamed; the data has: {', '.join(given)}"
        )
    one = len(corpora) == 1
    scored = [corpus for corpus in corpora if corpus.dev is not None]
    for corpus in corpora:
        if settings.keep == "best" and corpus.dev is None:
            beside = "" if scored else ": the last epoch is kept"
            say(f"{corpus.folder} has no dev split{beside}")

    def score(predicted: list[Any]) -> float:
        values, begin = [], 0
        for corpus in scored:
            assert corpus.dev is not None
            end = begin + len(corpus.dev.sentences)
            values.append(corpus.score(task, predicted[begin:end]))
            begin = end
        if not one:
            shown = (f"{c.folder.name} {100 * value:.2f}" for c, value in zip(scored, values, strict=True))
            say(f"Dev: {', '.join(shown)}")
        return sum(values) / len(values)

    sentences = corpora[0].train.sentences if one else join([corpus.train for corpus in corpora])
    inputs = [describe_model(model), *(describe_input(f) for c in corpora for f in c.train.files)]
    inputs += [describe_input(f) for c in scored if c.dev is not None for f in c.dev.files]
    with hold(work, out):
        tuned = fit_tagging.fit(
            KINDS[task],
            model,
            sentences,
            [s for c in scored if c.dev is not None for s in c.dev.sentences] or None,
            settings,
            score=score if scored else None,
            work=work,
            identity=[task, *(item.get("digest") for item in inputs)],
        )
        config = {"task": task} if one else {"task": task, "marked": [c.types for c in corpora]}
        untaggable = sum(c.train.untaggable for c in corpora)
        manifest = Manifest("tuned", config, settings.seed, inputs, counts={"untaggable": untaggable})
        finish(work, out, lambda folder: tuned.save(folder, manifest))
    report = training_report(task, tuned, settings)
    set_aside = sum(c.train.set_aside for c in corpora)
    return {**report, "dev_f1": report["dev_value"], "set_aside": set_aside}


@dataclass(frozen=True)
class _Corpus:
    """A corpus to train on; `types` of mentions are those that its training split marks, `given` those of both splits
    under the names that the data has for them."""

    folder: Path
    train: TaggedData
    dev: TaggedData | None
    types: list[str]
    given: list[str]

    @staticmethod
    def load(data: Path, names: Mapping[str, str]) -> _Corpus:
        training = load_split(data, "train") if data.is_dir() else read_tagged([data])
        development = load_split(data, "dev") if data.is_dir() and "dev" in find_splits(data) else None
        both = [*training.sentences, *(development.sentences if development else ())]
        given = marked_types(both)
        training = rename_types(training, names)
        if not (types := marked_types(training.sentences)):
            raise BadInput(data, "its training split has no mention")
        if training.untaggable:
            say(
                f"{data}: {training.untaggable:,} mentions of the train split are nested, discontinuous or end inside "
                "a word; tags cannot say them exactly"
            )
        dev = None if development is None else rename_types(development, names)
        if dev is not None and _has_no_mention(dev):
            say(f"{data}: its dev split has no mention, and chooses no epoch")
            dev = None
        return _Corpus(data, training, dev, types, given)

    def score(self, task: str, predicted: Sequence[Sequence[str]]) -> float:
        """Of predictions for the dev split, mentions of other types left out."""
        assert self.dev is not None
        predicted = [only_types(tags, self.types) for tags in predicted]
        if task == "pico":
            return score_words([s.tags for s in self.dev.sentences], predicted).macro_f1
        return _score_tags(self.dev, predicted)[0].overall.f1


def evaluate(
    tuned: Path,
    data: Path,
    split: str = "test",
    *,
    device: str = "auto",
    max_length: int | None = None,
    names: Mapping[str, str] | None = None,
    predictions: Path | None = None,
) -> NerReport:
    """Score a tuned tagger on a split of a dataset's folder, or on a file.

    A tagger that was tuned on corpora of different types is scored on the types that the split marks. `predictions` is
    a file to write, a list of tags a sentence, as `bench score` reads it.

    Raises:
        UsageError: no tuned model, no such split.
        BadInput: a tag that the model does not know; both label sets are named, with file and line.
    """
    tagger = load_tuned(tuned, device=device, max_length=max_length)
    return score_split(tagger, tuned, data, split, names or {}, predictions)


def score_split(
    tagger: Tagger,
    tuned: Path,
    data: Path,
    split: str,
    names: Mapping[str, str],
    predictions: Path | None = None,
) -> NerReport:
    """As `evaluate`, with the tagger of the folder `tuned` on an engine of one's own."""
    gold = _load_gold(tagger, data, split, names)
    manifest = load_manifest(tuned) if (tuned / MANIFEST).is_file() else None
    return score_data(tagger, gold, scored_types(manifest, gold), predictions)


def _load_gold(tagger: Tagger, data: Path, split: str, names: Mapping[str, str]) -> TaggedData:
    gold = rename_types(load_split(data, split), names)
    check_tags(gold.sentences, tagger.label_set)
    if _has_no_mention(gold):
        say(f"{data}: its {split} split has no mention; the score says nothing of the model")
    return gold


def _has_no_mention(data: TaggedData) -> bool:
    return not any(data.gold or ()) and not marked_types(data.sentences)


def scored_types(manifest: Manifest | None, gold: TaggedData) -> list[str] | None:
    """The types that a split can judge: all (None), unless the tagger's corpora marked different ones."""
    joined = manifest is not None and "marked" in manifest.config
    return marked_types(gold.sentences) if joined else None


def evaluate_words(
    tuned: Path,
    data: Path,
    split: str = "test",
    *,
    device: str = "auto",
    max_length: int | None = None,
    names: Mapping[str, str] | None = None,
    predictions: Path | None = None,
) -> dict[str, Any]:
    """Score a tagger by word (PICO): the mean F1 of the classes, and precision and recall over all words.

    Returns:
        What `--json` prints; `truncated` counts words that the model did not read.

    Raises:
        UsageError, BadInput: as `evaluate`.
    """
    tagger = load_tuned(tuned, device=device, max_length=max_length)
    return score_words_of_split(tagger, data, split, names or {}, predictions)


def score_words_of_split(
    tagger: Tagger, data: Path, split: str, names: Mapping[str, str], predictions: Path | None = None
) -> dict[str, Any]:
    """As `evaluate_words`, with a tagger on an engine of one's own."""
    gold = _load_gold(tagger, data, split, names)
    tagged = tagger.tag([s.words for s in gold.sentences], on_long="truncate")
    predicted = [tagger.tags(t) for t in tagged]
    if predictions is not None:
        write_predictions(predictions, gold.sentences, predicted)
    score = score_words([s.tags for s in gold.sentences], predicted)
    return {
        "metric": "word_f1_macro",
        "value": score.macro_f1,
        **score.as_dict(),
        "f1": score.macro_f1,
        "micro_f1": score.overall.f1,
        "sentences": len(gold.sentences),
        "words": sum(len(s.words) for s in gold.sentences),
        "truncated": sum(t.truncated for t in tagged),
        "set_aside": gold.set_aside,
    }


def load_tuned(folder: Path, *, device: str = "auto", max_length: int | None = None) -> Tagger:
    """A tagger with the maximum length and the window stride that its manifest names; other folders use the model's.

    Raises:
        UsageError: it was tuned for another task, or `max_length` is below `settings.LEAST_LENGTH`.
    """
    if max_length is not None and max_length < LEAST_LENGTH:
        raise UsageError(f"max_length must be at least {LEAST_LENGTH}, not {max_length}")
    if (folder / MANIFEST).is_file():
        task = load_manifest(folder).config.get("task", "ner")
        if task not in KINDS and kind_of(folder) not in KINDS.values():
            raise UsageError(f"{folder} was tuned for {task}, not for {' or '.join(KINDS)}")
    return fit_tagging.load(KINDS["ner"], folder, device, max_length).tagger


def score_data(
    tagger: Tagger, data: TaggedData, types: Sequence[str] | None = None, predictions: Path | None = None
) -> NerReport:
    """Tag a split and score it; what the model could not read counts as missed, mentions of other `types` do not."""
    tagged = tagger.tag([s.words for s in data.sentences], on_long="truncate")
    predicted_tags = [write_tags(read_spans(tagger.tags(t)), len(t.labels)) for t in tagged]
    not_counted = 0
    if types is not None:
        found = sum(len(read_spans(tags)) for tags in predicted_tags)
        predicted_tags = [only_types(tags, types) for tags in predicted_tags]
        not_counted = found - sum(len(read_spans(tags)) for tags in predicted_tags)
    if predictions is not None:
        write_predictions(predictions, data.sentences, predicted_tags)
    conll, strict = _score_tags(data, predicted_tags)
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
        not_counted=not_counted,
    )


def _score_tags(data: TaggedData, predicted: Sequence[Sequence[str]]) -> tuple[EntityScore, EntityScore]:
    """The lenient and the strict reading; of documents, whose gold mentions have offsets, there is only one."""
    if data.gold is not None:
        score = score_spans(data.gold, _document_spans(data, predicted))
        return score, score
    gold = [s.tags for s in data.sentences]
    return score_tags(gold, predicted), score_tags(gold, predicted, strict=True)


def _document_spans(data: TaggedData, predicted: Sequence[Sequence[str]]) -> list[list[Span]]:
    """Predicted spans in characters, document by document."""
    assert data.gold is not None
    found: list[list[Span]] = [[] for _ in data.gold]
    for sentence, tags in zip(data.sentences, predicted, strict=True):
        assert sentence.offsets is not None
        for a, b, type in read_spans(tags):
            found[sentence.document].append(Span(sentence.offsets[a][0], sentence.offsets[b - 1][1], type))
    return found
