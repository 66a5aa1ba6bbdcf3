"""Errors and examples of one model on one dataset: what is right, what is wrong, and in which way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from biosmith.bench.dataset import Dataset, data_digests
from biosmith.bench.errors import analyse_mentions
from biosmith.bench.jobs import load_split
from biosmith.bench.mock import FOLDER, find_task
from biosmith.bench.results import Run, TaskResults
from biosmith.errors import BiosmithError
from biosmith.tasks.instances import Instance, Question
from biosmith.tasks.labels import read_spans
from biosmith.tasks.metrics.breakdown import confusion
from biosmith.tasks.tagged import TaggedSentence
from biosmith.text.document import Document, Mention

EXAMPLES = 200  # shown of a run, wrong ones first
TABLES = {
    "by_length": "By length in words",
    "by_seen": "Mentions that training has, or not",
    "by_abbreviation": "Abbreviations and others",
}


@dataclass(frozen=True)
class Example:
    """One instance of a dataset without mentions.

    Attributes:
        id, text, pair: as the dataset has them.
        gold, predicted: shown as text.
        right: whether they are the same.
    """

    id: str
    text: str
    pair: str
    gold: str
    predicted: str
    right: bool


@dataclass(frozen=True)
class Detail:
    """What the page of a dataset says of a model.

    Attributes:
        run: the one that is shown: of all seeds the nearest to the mean.
        reason: why there is nothing more; "" if there is.
        kinds: of errors -> how many.
        breakdown: table -> row -> counts with precision, recall and F1.
        labels, confusion: gold labels in rows, predicted ones in columns.
        documents, gold: for the viewer of mentions; some sentences, those with errors first.
        sentences: of the whole split.
        examples: for the viewer of everything else.
    """

    run: Run
    reason: str = ""
    kinds: dict[str, int] = field(default_factory=dict)
    breakdown: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)
    labels: tuple[str, ...] = ()
    confusion: tuple[tuple[int, ...], ...] = ()
    documents: tuple[Document, ...] = ()
    gold: tuple[Document, ...] = ()
    sentences: int = 0
    examples: tuple[Example, ...] = ()


def typical_run(task: TaskResults) -> Run:
    """The run whose score is nearest to the mean."""
    mean = task.summary().mean
    return min(task.runs, key=lambda run: (abs(run.value - mean), run.seed))


def make_detail(task: TaskResults, data: Path | None) -> Detail:
    """The errors of a typical run; with the reason where they cannot be told."""
    run = typical_run(task)
    try:
        dataset = find_task(run.dataset)
        folder = FOLDER if run.dataset.startswith("mock-") else data
        if folder is None:
            return Detail(run, "errors are shown when the site is built with --data")
        if "not redistributable" in dataset.about.licence:
            return Detail(run, f"its texts may not be shown ({dataset.about.licence})")
        split = dataset.about.evaluated
        if data_digests(dataset, folder, split) != run.protocol.get("files"):
            return Detail(run, "the data at hand is not what it was scored on")
        gold = load_split(run.dataset, folder, split)
        predictions = [prediction for _, prediction in task.predictions(run)]
        dataset.score(gold, predictions)  # raises where they are not of the right kind
        return _detail(run, dataset, gold, predictions, load_split(run.dataset, folder, "train"))
    except BiosmithError as error:
        return Detail(run, str(error))
    except (ValueError, TypeError, KeyError, OSError) as error:  # anybody's submission must not stop the site
        return Detail(run, f"its predictions do not fit the data: {error}")


def _detail(
    run: Run, dataset: Dataset, gold: Sequence[Any], predictions: list[Any], train: Sequence[Any]
) -> Detail:
    if gold and isinstance(gold[0], TaggedSentence):
        return _tagged(run, gold, predictions, train)
    if gold and isinstance(gold[0], Question):
        return Detail(run, examples=_questions(dataset, gold, predictions))
    examples = _instances(gold, predictions)
    labels: tuple[str, ...] = ()
    counts: tuple[tuple[int, ...], ...] = ()
    if dataset.about.task in ("relations", "classes", "answers"):
        known = tuple(getattr(dataset, "labels", ()))
        table = confusion([str(i.label) for i in gold], [str(p) for p in predictions], known or None)
        labels, counts = table.labels, table.counts
    return Detail(run, labels=labels, confusion=counts, examples=examples)


def _tagged(
    run: Run, gold: Sequence[TaggedSentence], predictions: list[list[str]], train: Sequence[TaggedSentence]
) -> Detail:
    analysis = analyse_mentions(gold, predictions, train).as_dict()
    wrong = [i for i, (s, tags) in enumerate(zip(gold, predictions, strict=True)) if list(s.tags) != tags]
    right = [
        i for i in range(len(gold)) if list(gold[i].tags) == predictions[i] and set(gold[i].tags) != {"O"}
    ]
    shown = sorted(_spread(wrong, EXAMPLES * 3 // 4) + _spread(right, EXAMPLES // 4))
    return Detail(
        run,
        kinds=analysis["kinds"],
        breakdown={title: analysis[key] for key, title in TABLES.items()},
        labels=tuple(analysis["types"]["labels"]),
        confusion=tuple(tuple(row) for row in analysis["types"]["counts"]),
        documents=tuple(_document(i, gold[i].words, predictions[i]) for i in shown),
        gold=tuple(_document(i, gold[i].words, list(gold[i].tags)) for i in shown),
        sentences=len(gold),
    )


def _spread(places: list[int], most: int) -> list[int]:
    """At most so many of them, evenly from the whole split."""
    if len(places) <= most:
        return places
    return [places[i * len(places) // most] for i in range(most)]


def _document(number: int, words: Sequence[str], tags: Sequence[str]) -> Document:
    """A sentence as a document; words are joined by single blanks."""
    starts, position = [], 0
    for word in words:
        starts.append(position)
        position += len(word) + 1
    text = " ".join(words)
    mentions = []
    for first, end, type in read_spans(tags):
        start, stop = starts[first], starts[end - 1] + len(words[end - 1])
        mentions.append(Mention(start, stop, text[start:stop], type or "mention"))
    return Document(id=f"sentence {number + 1}", text=text, mentions=tuple(mentions))


def _instances(gold: Sequence[Instance], predictions: list[Any]) -> tuple[Example, ...]:
    examples = []
    for instance, prediction in zip(gold, predictions, strict=True):
        if isinstance(instance.label, float):
            right = abs(instance.label - prediction) <= 0.5
            shown, said = f"{instance.label:.2f}", f"{prediction:.2f}"
        elif isinstance(instance.label, tuple):
            right = set(instance.label) == set(prediction)
            shown, said = (", ".join(sorted(x)) or "(none)" for x in (instance.label, prediction))
        else:
            shown, said = str(instance.label), str(prediction)
            right = shown == said
        examples.append(Example(instance.id, instance.text, instance.pair, shown, said, right))
    return _some(examples)


def _questions(dataset: Dataset, gold: Sequence[Question], predictions: list[Any]) -> tuple[Example, ...]:
    groups: dict[str, list[Question]] = {}
    for question in gold:
        groups.setdefault(question.group or question.id, []).append(question)
    examples = []
    for (name, questions), prediction in zip(groups.items(), predictions, strict=True):
        first = questions[0]
        answers = dict.fromkeys(first.gold or (a.text for a in first.answers))
        said = "; ".join(prediction) if isinstance(prediction, list) else prediction
        right = dataset.score(questions, [prediction])["value"] == 1
        shown = "; ".join(answers) or "(no answer)"
        examples.append(Example(name, first.text, first.context, shown, said or "(no answer)", right))
    return _some(examples)


def _some(examples: list[Example]) -> tuple[Example, ...]:
    """Wrong ones, and some right ones after them."""
    wrong = [e for e in examples if not e.right]
    right = [e for e in examples if e.right]
    count = min(len(wrong), max(EXAMPLES * 3 // 4, EXAMPLES - len(right)))
    kept = [wrong[i * len(wrong) // count] for i in range(count)] if count else []
    rest = min(len(right), EXAMPLES - len(kept))
    return (*kept, *(right[i * len(right) // rest] for i in range(rest)))
