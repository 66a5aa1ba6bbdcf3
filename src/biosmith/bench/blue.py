"""Files of the BLUE benchmark (Peng et al., 2019), whose cuts of the corpora Bioformer uses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from biosmith.bench.kinds import Classes, one_of
from biosmith.rejects import Rejects
from biosmith.tasks.instances import Instance, read_table, with_entities

COLUMNS = ("index", "sentence", "label")


@dataclass(frozen=True)
class BlueRelations(Classes):
    """Rows of index, sentence and label, with a header as BLUE writes them or without one as BLURB does."""

    def read(self, path: Path, split: str, rejects: Rejects) -> Iterator[Instance]:
        """See `Table`."""
        yield from with_entities(path, read_table(path, COLUMNS, self._make, rejects, header=False))

    def _make(self, cells: dict[str, str]) -> Instance:
        return Instance(cells["index"], cells["sentence"], one_of(cells["label"], self.labels))
