"""The mock suite: every kind of dataset in miniature, written for this project, so that a run can be tried offline.

Its scores say that everything works from file to table; they say nothing about a model.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from biosmith.bench.dataset import About, Dataset
from biosmith.bench.datasets import find_dataset
from biosmith.bench.kinds import Classes, Documents, Similarity, Tagging, number, one_of
from biosmith.bench.spans import Factoid, Squad
from biosmith.bench.suites import Suite
from biosmith.tasks.instances import Instance

FOLDER = Path(__file__).parent
RELATIONS = ("false", "activates", "inhibits")
TOPICS = ("growth", "vessels")
SECTIONS = ("background", "method", "result")
ANSWERS = ("yes", "no", "maybe")


def _about(name: str, task: str, metric: str, counted: str = "instances") -> About:
    return About(
        name=f"mock-{name}",
        task=task,
        metric=metric,
        counted=counted,
        folders=(name,),
        citation="written for biosmith",
        licence="Apache-2.0",
        source="It comes with biosmith.",
        seeds=1,
    )


def _relation(cells: dict[str, str]) -> Instance:
    return Instance(cells["id"], cells["sentence"], one_of(cells["label"], RELATIONS))


def _pair(cells: dict[str, str]) -> Instance:
    return Instance(cells["id"], cells["first"], number(cells["score"], 0, 4), cells["second"])


def _sentence(cells: dict[str, str]) -> Instance:
    labels = tuple(one_of(label, TOPICS) for label in cells["labels"].split(",") if label)
    return Instance(cells["id"], cells["sentence"], labels, group=cells["id"].rpartition("_s")[0])


def _section(cells: dict[str, str]) -> Instance:
    return Instance(cells["id"], cells["sentence"], one_of(cells["label"], SECTIONS))


def _question(cells: dict[str, str]) -> Instance:
    return Instance(cells["id"], cells["question"], one_of(cells["answer"], ANSWERS), cells["text"])


_DATASETS: tuple[Any, ...] = (
    Tagging(_about("ner", "ner", "entity_f1", "mentions")),
    Tagging(_about("pico", "pico", "word_f1_macro", "words"), by_words=True),
    Classes(
        _about("relations", "relations", "micro_f1"),
        ("id", "sentence", "label"),
        header=False,
        make=_relation,
        labels=RELATIONS,
        negative="false",
    ),
    Similarity(
        _about("similarity", "similarity", "pearson"),
        ("id", "first", "second", "score"),
        header=False,
        make=_pair,
    ),
    Documents(
        _about("documents", "documents", "micro_f1"),
        ("id", "sentence", "labels"),
        header=False,
        make=_sentence,
        labels=TOPICS,
    ),
    Classes(
        _about("classes", "classes", "accuracy"),
        ("id", "sentence", "label"),
        header=False,
        make=_section,
        labels=SECTIONS,
    ),
    Classes(
        _about("answers", "answers", "accuracy"),
        ("id", "question", "text", "answer"),
        header=False,
        make=_question,
        labels=ANSWERS,
    ),
    Factoid(_about("factoid", "spans", "mean_reciprocal_rank")),
    Squad(
        _about("squad", "spans", "f1"),
        (("train", ("train.json",)), ("dev", ("dev.json",)), ("test", ("test.json",))),
    ),
)
MOCK: dict[str, Dataset] = {dataset.about.name: dataset for dataset in _DATASETS}

SUITE = Suite(
    "mock",
    {
        "NER": ("mock-ner",),
        "PICO": ("mock-pico",),
        "Relation extraction": ("mock-relations",),
        "Sentence similarity": ("mock-similarity",),
        "Document classification": ("mock-documents", "mock-classes"),
        "Question answering": ("mock-answers", "mock-factoid", "mock-squad"),
    },
)


def find_task(name: str) -> Dataset:
    """A dataset by its name, a mock one or a real one.

    Raises:
        UsageError: there is none of that name.
    """
    return MOCK[name] if name in MOCK else find_dataset(name)
