"""Cross-validation in folders 1, 2, ...: the relation datasets of BioBERT."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from biosmith.bench.dataset import find_file, find_folder
from biosmith.bench.kinds import Classes, one_of
from biosmith.errors import UsageError
from biosmith.rejects import Rejects
from biosmith.tasks.instances import Instance, read_table


@dataclass(frozen=True)
class Folds(Classes):
    """A fold is a folder with train.tsv (sentence, label, no header) and test.tsv (index, sentence, label); no
    development split.

    Attributes:
        fold: which one is read; the first is the one that papers count.
    """

    fold: int = 1

    def of_fold(self, fold: int) -> Folds:
        """The same dataset, another fold, under the name NAME-foldN.

        Raises:
            UsageError: there is no such fold.
        """
        if not 1 <= fold <= self.about.folds:
            raise UsageError(f"{self.about.name} has folds 1 to {self.about.folds}, not {fold}")
        name = f"{self.about.name.partition('-fold')[0]}-fold{fold}"
        return replace(self, fold=fold, about=replace(self.about, name=name))

    def find(self, data: Path) -> dict[str, list[Path]]:
        """See `Dataset`."""
        names = {split: f"{self.fold}/{split}.tsv" for split in ("train", "test")}
        folder = find_folder(self.about, data, list(names.values()))
        found = {split: find_file(folder, name) for split, name in names.items()}
        return {split: [path] for split, path in found.items() if path is not None}

    def read(self, path: Path, split: str, rejects: Rejects) -> Iterator[Instance]:
        """See `Table`; rows of the training file are named by their number, from 0."""
        if split == "test":
            yield from read_table(path, ("index", "sentence", "label"), self._make, rejects, header=True)
            return
        rows = read_table(path, ("sentence", "label"), self._make, rejects, header=False)
        for number, row in enumerate(rows):
            yield replace(row, id=str(number))

    def _make(self, cells: dict[str, str]) -> Instance:
        return Instance(cells.get("index", ""), cells["sentence"], one_of(cells["label"], self.labels))
