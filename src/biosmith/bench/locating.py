"""Which dataset a folder holds, so that a dataset's own folder can be given to `finetune` and `evaluate`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from biosmith.bench.dataset import Dataset, fingerprint
from biosmith.bench.datasets import DATASETS, find_dataset
from biosmith.bench.grids import fit_kind
from biosmith.errors import UsageError
from biosmith.rejects import Rejects


@dataclass(frozen=True)
class Located:
    """A dataset and where it lies.

    Attributes:
        dataset: whose protocol decides the score.
        data: the folder that holds its folder, or its own.
        kind: of task (see `biosmith.tasks.fitting`).
    """

    dataset: Dataset
    data: Path
    kind: str

    @property
    def name(self) -> str:
        """Of the dataset."""
        return self.dataset.about.name

    @property
    def labels(self) -> tuple[str, ...]:
        """All labels of the dataset; none where it has no list of them."""
        return tuple(getattr(self.dataset, "labels", ()))

    def files(self, split: str) -> list[Path]:
        """The files of a split; none if it is not there."""
        return list(self.dataset.find(self.data).get(split, ()))

    def load(self, split: str, rejects: Rejects) -> Sequence[Any]:
        """The instances of a split. Raises as `Dataset.load`."""
        return self.dataset.load(self.data, split, rejects)

    def score(self, instances: Sequence[Any], predictions: Sequence[Any]) -> dict[str, Any]:
        """`metric`, `value` and what belongs to them."""
        return {"metric": self.dataset.about.metric, **self.dataset.score(instances, predictions)}

    def protocol(self, split: str, **choices: Any) -> dict[str, Any]:
        """What a score rests on."""
        return fingerprint(self.dataset, self.data, split, **choices)


def locate(data: Path, kinds: Sequence[str], name: str | None = None) -> Located | None:
    """The dataset that a folder is of.

    Args:
        data: the dataset's own folder, or with `name` also one that holds it.
        kinds: kinds of tasks that it may be for.
        name: which dataset it is; None finds out by the folder's name.

    Returns:
        None if no name is given and the folder's name is not one of a dataset.

    Raises:
        UsageError: no dataset of that name, one of another kind, or its files are not there.
    """
    if name is not None:
        dataset = find_dataset(name)
        kind = fit_kind(dataset)
        if kind not in kinds:
            raise UsageError(f"{dataset.about.name} is for {kind}, not for {' or '.join(kinds)}")
        for base in (data, *_bases(data, dataset)):
            if _splits(dataset, base):
                return Located(dataset, base, kind)
        dataset.find(data)  # raises, and says what is missing
        raise UsageError(f"{data} has no split of {dataset.about.name}. {dataset.about.source}")
    if not data.is_dir():
        return None
    found = [
        Located(dataset, base, fit_kind(dataset))
        for dataset in _datasets(kinds)
        for base in _bases(data, dataset)
        if _splits(dataset, base)
    ]
    # Several datasets may share a folder (SQuAD 1.1 and 2.0): one that can be trained on comes first.
    return max(found, key=lambda one: "train" in _splits(one.dataset, one.data), default=None)


def _datasets(kinds: Iterable[str]) -> Iterator[Dataset]:
    for name in DATASETS:
        dataset = find_dataset(name)
        if fit_kind(dataset) in kinds:
            yield dataset


def _bases(data: Path, dataset: Dataset) -> Iterator[Path]:
    """Folders above `data` below which the dataset's own folder is `data`, or begins with it."""
    place = data.resolve()
    names = [part.lower() for part in place.parts]
    for folder in dataset.about.folders:
        wanted = [part.lower() for part in Path(folder).parts]
        for depth in range(len(wanted), 0, -1):
            if names[-depth:] == wanted[:depth]:
                yield place.parents[depth - 1]


def _splits(dataset: Dataset, base: Path) -> dict[str, list[Path]]:
    try:
        return dataset.find(base)
    except UsageError:
        return {}
