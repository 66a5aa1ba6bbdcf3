"""SciCite: what a citation is for: background, method or result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from biosmith.bench.dataset import About, Paper
from biosmith.bench.kinds import Classes, one_of
from biosmith.bench.records import read_json_lines
from biosmith.rejects import Rejects
from biosmith.tasks.instances import BadRow, Instance

LABELS = ("background", "method", "result")


@dataclass(frozen=True)
class SciCite(Classes):
    """A JSON object a line: `text` and `label` (SciBERT's files), or `string` and `label` (the authors' own)."""

    def read(self, path: Path, split: str, rejects: Rejects) -> Iterator[Instance]:
        """See `Table`."""
        yield from read_json_lines(path, _make, rejects)


def _make(record: Mapping[str, Any], number: int) -> Instance:
    text = record.get("text", record.get("string"))
    if not isinstance(text, str):
        raise BadRow("has no text")
    id = record.get("unique_id", record.get("id", number))
    return Instance(str(id), text, one_of(str(record.get("label")), LABELS))


DATASET = SciCite(
    About(
        name="SciCite",
        task="classes",
        metric="macro_f1",
        counted="instances",
        folders=("scicite", "sci-cite", "SciCite"),
        citation="Cohan et al. (2019), SciCite",
        licence="Apache-2.0",
        source="Get it from allenai/scicite on GitHub, or from allenai/scibert, folder data/text_classification/sci-cite.",
        paper={
            "train": Paper(8243, "the files released with SciBERT hold fewer: 7,320"),
            "dev": Paper(916),
            "test": Paper(1861),
        },
    ),
    columns=(),
    header=False,
    names_of=(
        ("train", ("train.jsonl", "train.txt")),
        ("dev", ("dev.jsonl", "dev.txt")),
        ("test", ("test.jsonl", "test.txt")),
    ),
    labels=LABELS,
    average="macro",
)
