"""Settings of fine-tuning: fixed ones, and the papers' grids, from which the development split chooses.

A grid gives candidates for a dataset; it sees the kind of task, the dataset's name and the number of training
instances, nothing else. With a single candidate there is nothing to search.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from biosmith.bench.dataset import Dataset
from biosmith.errors import UsageError

Candidate = Mapping[str, Any]

# the task of a dataset -> the kind of model that is fine-tuned for it (biosmith.tasks.fitting)
KINDS = {
    "ner": "tagging",
    "pico": "words",
    "relations": "relation",
    "similarity": "similarity",
    "documents": "documents",
    "classes": "classification",
    "answers": "yesno",
    "spans": "squad",
}

# Longest inputs in pieces (Gu et al., 2021, section 5.2): 256 for relations, 128 for GAD, 512 for answers.
LENGTHS = {"relation": 256, "similarity": 256, "factoid": 384, "squad": 384}
LENGTHS_OF_DATASETS = {"GAD": 128}


@dataclass(frozen=True)
class Grid:
    """A way to get settings.

    Attributes:
        name, source: what it is called and where its numbers are from.
        candidates: from the kind of task, the dataset's name and the number of training instances.
    """

    name: str
    source: str
    candidates: Callable[[str, str, int], list[Candidate]]


def fit_kind(dataset: Dataset) -> str:
    """The kind of model for a dataset.

    Raises:
        UsageError: there is none for its task.
    """
    task = dataset.about.task
    if task not in KINDS:
        raise UsageError(
            f"{dataset.about.name}: no model for task {task!r}; there are models for: {', '.join(KINDS)}"
        )
    # Both are answered by a span; BioASQ's factoid questions take several answers, best first.
    return "factoid" if task == "spans" and dataset.about.metric == "mean_reciprocal_rank" else KINDS[task]


def max_length(kind: str, dataset: str) -> int:
    """Longest input in pieces."""
    return LENGTHS_OF_DATASETS.get(dataset, LENGTHS.get(kind, 512))


@dataclass(frozen=True)
class _Fixed:
    """Fixed settings of a kind: enough epochs to see `seen` training instances, within bounds."""

    learning_rate: float
    batch_size: int
    seen: int
    least: int
    most: int

    def settings(self, instances: int) -> dict[str, Any]:
        epochs = min(self.most, max(self.least, round(self.seen / max(1, instances))))
        return {"learning_rate": self.learning_rate, "batch_size": self.batch_size, "epochs": epochs}


# For encoders of 20 to 110 million parameters; larger ones want lower rates.
_FIXED = {
    "tagging": _Fixed(1e-4, 32, 100_000, 5, 20),
    "words": _Fixed(5e-5, 32, 80_000, 2, 10),
    "relation": _Fixed(5e-5, 32, 100_000, 4, 10),
    "similarity": _Fixed(5e-5, 16, 10_000, 5, 40),
    "documents": _Fixed(1e-4, 32, 100_000, 5, 20),
    "classification": _Fixed(5e-5, 32, 100_000, 3, 10),
    "yesno": _Fixed(5e-5, 16, 10_000, 5, 15),
    "factoid": _Fixed(5e-5, 32, 40_000, 3, 5),
    "squad": _Fixed(5e-5, 32, 260_000, 2, 3),
}


def _fixed(kind: str, dataset: str, instances: int) -> list[Candidate]:
    return [_FIXED[kind].settings(instances)]


def _rates(kind: str, dataset: str, instances: int) -> list[Candidate]:
    # The rate that suits a model depends on its size and on how long it was pretrained; the rest hardly does.
    (fixed,) = _fixed(kind, dataset, instances)
    return [{**fixed, "learning_rate": factor * fixed["learning_rate"]} for factor in (1, 2, 4)]


def _mock(kind: str, dataset: str, instances: int) -> list[Candidate]:
    return [{"learning_rate": 1e-4, "batch_size": 8, "epochs": 1, "keep": "last", "max_length": 64}]


def _product(rates: tuple[float, ...], batches: tuple[int, ...], epochs: tuple[int, ...]) -> list[Candidate]:
    return [
        {"learning_rate": rate, "batch_size": batch, "epochs": number}
        for number, batch, rate in product(epochs, batches, rates)
    ]


def _pubmedbert(kind: str, dataset: str, instances: int) -> list[Candidate]:
    # The paper gives a range of epochs, 2 to 60; five points of it, and the best epoch of each run is kept.
    return _product((1e-5, 3e-5, 5e-5), (16, 32), (2, 5, 10, 20, 60))


def _bioformer(kind: str, dataset: str, instances: int) -> list[Candidate]:
    # Up to 20 epochs, the best of them kept.
    return _product((1e-5, 3e-5, 5e-5), (8, 16, 32), (20,))


# Alrowili and Vijay-Shanker (2021), Table 4: kind -> (epochs, learning rate, batch) of base, large and xxlarge models
_BIOM = {
    "tagging": ((5, 2e-4, 48), (5, 7e-5, 32), (4, 3e-5, 16)),
    "relation": ((4, 1e-4, 32), (4, 7e-5, 32), (5, 3e-5, 128)),
    "squad": ((2, 5e-5, 32), (3, 1e-4, 32), (3, 5e-5, 32), (5, 5e-5, 48), (2, 3e-5, 128)),
    "factoid": ((4, 2e-5, 24), (3, 1e-5, 128)),
}


def _biom(kind: str, dataset: str, instances: int) -> list[Candidate]:
    if kind not in _BIOM:
        raise UsageError(
            f"grid biom has no settings for {dataset} ({kind}); it has some for: {', '.join(_BIOM)}"
        )
    return [
        {"learning_rate": rate, "batch_size": batch, "epochs": epochs} for epochs, rate, batch in _BIOM[kind]
    ]


GRIDS = {
    "fixed": Grid("fixed", "biosmith's own, for encoders of 20 to 110 million parameters", _fixed),
    "rates": Grid(
        "rates", "biosmith's own: the fixed settings with 1, 2 and 4 times the learning rate", _rates
    ),
    "mock": Grid("mock", "one epoch, to see that everything runs", _mock),
    "pubmedbert": Grid("pubmedbert", "Gu et al. (2021), section 6.2", _pubmedbert),
    "bioformer": Grid(
        "bioformer", "Fang et al. (2023), Hyperparameter tuning and result reporting", _bioformer
    ),
    "biom": Grid("biom", "Alrowili and Vijay-Shanker (2021), Appendix A.1, Table 4", _biom),
}

# suite -> the grid of its paper
PAPER_GRIDS = {"blurb": "pubmedbert", "bioformer15": "bioformer", "biom": "biom", "ablations": "pubmedbert"}


def find_grid(name: str, suite: str) -> Grid:
    """A grid by its name; "paper" is that of the suite's paper, and the mock suite always has its own.

    Raises:
        UsageError: there is no such grid.
    """
    if suite == "mock":
        return GRIDS["mock"]
    known = PAPER_GRIDS.get(suite) if name == "paper" else name
    if known not in GRIDS or known == "mock":
        named = [n for n in GRIDS if n != "mock"]
        if name == "paper":
            raise UsageError(f"no paper has a grid for suite {suite}; valid: {', '.join(named)}")
        raise UsageError(f"grid {name!r} is unknown; valid: {', '.join(['paper', *named])}")
    return GRIDS[known]
