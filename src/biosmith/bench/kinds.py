"""The kinds of datasets: taggers, relations, pairs, documents, questions. A dataset is one of these with its facts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from biosmith.bench.dataset import About, Mistake, find_file, find_folder, missing_split, no_instances
from biosmith.errors import BadInput
from biosmith.rejects import Rejects
from biosmith.tasks.instances import BadRow, Instance, read_table, with_entities
from biosmith.tasks.labels import OUTSIDE, read_spans, split_tag
from biosmith.tasks.metrics.classification import (
    accuracy,
    document_micro_f1,
    label_counts,
    labels_of_documents,
    macro_f1,
    micro_f1,
)
from biosmith.tasks.metrics.counts import Counts
from biosmith.tasks.metrics.entities import score_tags
from biosmith.tasks.metrics.similarity import pearson
from biosmith.tasks.metrics.words import score_words
from biosmith.tasks.tagged import SPLITS as SPLIT_NAMES
from biosmith.tasks.tagged import TaggedSentence, read_conll


@dataclass(frozen=True)
class Tagging:
    """Sentences with a tag a word, in CoNLL files; scored by mentions, or (EBM PICO) by words.

    Attributes:
        types: of the mentions in the files of the upstream; `data check` names others.
        one_type: whether types are left out, of the files and of predictions, so that only the place of a mention counts.
    """

    about: About
    by_words: bool = False
    types: tuple[str, ...] = ()
    suffixes: tuple[str, ...] = (".tsv", ".txt", ".conll")
    one_type: bool = False

    def find(self, data: Path) -> dict[str, list[Path]]:
        """See `Dataset`."""
        names = {s: [stem + x for x in self.suffixes for stem in SPLIT_NAMES[s]] for s in SPLIT_NAMES}
        folder = find_folder(self.about, data, [n for all_names in names.values() for n in all_names])
        found = {s: next((f for n in names[s] if (f := find_file(folder, n))), None) for s in names}
        return {split: [path] for split, path in found.items() if path is not None}

    def load(self, data: Path, split: str, rejects: Rejects | None = None) -> Sequence[TaggedSentence]:
        """See `Dataset`."""
        found = self.find(data)
        if split not in found:
            raise missing_split(self.about, split, found)
        sentences: list[TaggedSentence] = []
        for path in found[split]:
            try:
                sentences += list(read_conll(path, rejects))
            except BadInput as error:
                if rejects is None:
                    raise
                rejects.add(error.file, error.record or "file", error.reason, error.value)
        if not sentences and not (rejects and rejects.count):
            raise no_instances(self.about, found[split])
        if self.one_type:
            sentences = [replace(s, tags=tuple(_without_types(s.tags))) for s in sentences]
        return sentences

    def count(self, instances: Sequence[TaggedSentence]) -> dict[str, int]:
        """Sentences, words with a tag, and mentions unless words are scored."""
        words = sum(tag != OUTSIDE for s in instances for tag in s.tags)
        counts = {"instances": len(instances), "words": words}
        return (
            counts
            if self.by_words
            else {**counts, "mentions": sum(len(read_spans(s.tags)) for s in instances)}
        )

    def names(self, instances: Sequence[TaggedSentence]) -> list[str]:
        """Sentences have no names of their own; they are numbered from 0."""
        return [str(i) for i in range(len(instances))]

    def score(self, instances: Sequence[TaggedSentence], predictions: Sequence[Any]) -> dict[str, Any]:
        """See `Dataset`; a prediction is a list of tags, one a word."""
        for i, (sentence, tags) in enumerate(zip(instances, predictions, strict=True)):
            if not isinstance(tags, list) or len(tags) != len(sentence.words):
                raise Mistake(i, f"a list of {len(sentence.words)} tags is expected", tags)
            for tag in tags:
                try:
                    split_tag(tag)
                except (ValueError, TypeError, AttributeError) as error:
                    raise Mistake(i, "not a tag", tag) from error
        gold = [s.tags for s in instances]
        if self.one_type:
            predictions = [_without_types(tags) for tags in predictions]
        if self.by_words:
            words = score_words(gold, predictions)
            return {
                "value": words.macro_f1,
                **words.as_dict(),
                "f1": words.macro_f1,
                "micro": words.overall.as_dict(),
            }
        report = score_tags(gold, predictions)
        strict = score_tags(gold, predictions, strict=True)
        return {"value": report.overall.f1, **report.as_dict(), "strict": strict.overall.as_dict()}


def _without_types(tags: Sequence[str]) -> list[str]:
    return [tag.partition("-")[0] for tag in tags]


@dataclass(frozen=True)
class Table:
    """Texts or pairs of texts with a label, a row each.

    Attributes:
        columns, header: of the files.
        make: an instance from the cells of a row; None where a dataset has a `read` of its own.
        names_of: split -> names its file may have.
    """

    about: About
    columns: tuple[str, ...]
    header: bool
    make: Callable[[dict[str, str]], Instance] | None = None
    names_of: tuple[tuple[str, tuple[str, ...]], ...] = (
        ("train", ("train.tsv",)),
        ("dev", ("dev.tsv", "devel.tsv")),
        ("test", ("test.tsv",)),
    )

    def find(self, data: Path) -> dict[str, list[Path]]:
        """See `Dataset`."""
        folder = find_folder(self.about, data, [n for _, names in self.names_of for n in names])
        found = {
            split: next((f for n in names if (f := find_file(folder, n))), None)
            for split, names in self.names_of
        }
        return {split: [path] for split, path in found.items() if path is not None}

    def load(self, data: Path, split: str, rejects: Rejects | None = None) -> list[Instance]:
        """See `Dataset`."""
        found = self.find(data)
        if split not in found:
            raise missing_split(self.about, split, found)
        collected = Rejects(strict=True) if rejects is None else rejects
        instances = [i for path in found[split] for i in self.read(path, split, collected)]
        if not instances and not collected.count:
            raise no_instances(self.about, found[split])
        return instances

    def read(self, path: Path, split: str, rejects: Rejects) -> Iterator[Instance]:
        """The instances of a file; bad records go to `rejects`."""
        assert self.make is not None, f"{self.about.name} has neither a make nor a read of its own"
        yield from with_entities(path, read_table(path, self.columns, self.make, rejects, header=self.header))

    def count(self, instances: Sequence[Instance]) -> dict[str, int]:
        """Rows."""
        return {"instances": len(instances)}

    def names(self, instances: Sequence[Instance]) -> list[str]:
        """The ids of the rows."""
        return [i.id for i in instances]


@dataclass(frozen=True)
class Classes(Table):
    """One class a text, scored over all classes but the negative one if there is one.

    Attributes:
        labels, negative: the classes, and the one that is never rewarded.
        average: "micro" (without a negative class: accuracy), or "macro": the mean F1 of the classes.
    """

    labels: tuple[str, ...] = ()
    negative: str | None = None
    average: Literal["micro", "macro"] = "micro"

    def count(self, instances: Sequence[Instance]) -> dict[str, int]:
        """Rows, and how many are not of the negative class."""
        counts = {"instances": len(instances)}
        if self.negative is not None:
            counts["positives"] = sum(i.label != self.negative for i in instances)
        return counts

    def score(self, instances: Sequence[Instance], predictions: Sequence[Any]) -> dict[str, Any]:
        """See `Dataset`; a prediction is a label."""
        given = [str(p) if isinstance(p, int) and not isinstance(p, bool) else p for p in predictions]
        for i, label in enumerate(given):
            if label not in self.labels:
                raise Mistake(i, f"not a label; valid: {', '.join(self.labels)}", predictions[i])
        gold = [str(i.label) for i in instances]
        scored = [label for label in self.labels if label != self.negative]
        scores: dict[str, Any] = {"macro_f1": macro_f1(gold, given, scored)}
        scores["labels"] = {name: c.as_dict() for name, c in label_counts(gold, given).items()}
        if self.negative is None:
            scores["accuracy"] = accuracy(gold, given)
        else:
            scores |= micro_f1(gold, given, {self.negative}).as_dict()
        by_metric = {"macro": "macro_f1", "micro": "accuracy" if self.negative is None else "f1"}
        return {"value": scores[by_metric[self.average]], **scores}


@dataclass(frozen=True)
class Similarity(Table):
    """A number for a pair of texts, scored by Pearson's correlation."""

    def score(self, instances: Sequence[Instance], predictions: Sequence[Any]) -> dict[str, Any]:
        """See `Dataset`; a prediction is a number."""
        for i, value in enumerate(predictions):
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if not is_number or not abs(value) <= sys.float_info.max:
                raise Mistake(i, "a number is expected", value)
        gold = [float(i.label) for i in instances if not isinstance(i.label, tuple)]
        value = pearson(gold, [float(p) for p in predictions])
        return {"value": value, "pearson": value, "pairs": len(gold)}


@dataclass(frozen=True)
class Documents(Table):
    """Any number of classes a sentence; a document has those of its sentences, and documents are scored."""

    labels: tuple[str, ...] = ()

    def count(self, instances: Sequence[Instance]) -> dict[str, int]:
        """Documents, their sentences, and labels of documents."""
        gold = labels_of_documents((i.group for i in instances), map(_label_set, instances))
        return {
            "instances": len(gold),
            "sentences": len(instances),
            "positives": sum(map(len, gold.values())),
        }

    def score(self, instances: Sequence[Instance], predictions: Sequence[Any]) -> dict[str, Any]:
        """See `Dataset`; a prediction is the list of labels of a sentence."""
        for i, labels in enumerate(predictions):
            unknown = [x for x in labels if x not in self.labels] if isinstance(labels, list) else [labels]
            if unknown:
                raise Mistake(i, f"a list of labels is expected; valid: {', '.join(self.labels)}", unknown[0])
        groups = [i.group for i in instances]
        gold = labels_of_documents(groups, map(_label_set, instances))
        given = labels_of_documents(groups, map(set, predictions))
        counts = document_micro_f1(gold, given)
        by_label = {
            label: Counts(
                sum(label in gold[d] and label in given[d] for d in gold),
                sum(label in given[d] for d in gold),
                sum(label in gold[d] for d in gold),
            ).as_dict()
            for label in self.labels
        }
        return {"value": counts.f1, **counts.as_dict(), "documents": len(gold), "labels": by_label}


def _label_set(instance: Instance) -> set[str]:
    return set(instance.label) if isinstance(instance.label, tuple) else set()


def one_of(label: str, labels: Sequence[str]) -> str:
    """The label, if it is one of those.

    Raises:
        BadRow: it is not.
    """
    if label not in labels:
        raise BadRow(f"label {label!r} is unknown; valid: {', '.join(labels)}")
    return label


def number(cell: str, low: float, high: float) -> float:
    """A cell as a number in a range.

    Raises:
        BadRow: it is not.
    """
    try:
        value = float(cell)
    except ValueError:
        raise BadRow(f"{cell!r} is not a number") from None
    if not low <= value <= high:
        raise BadRow(f"{value} does not lie in [{low}, {high}]")
    return value
