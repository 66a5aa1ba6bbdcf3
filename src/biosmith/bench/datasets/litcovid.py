"""LitCovid: which of seven topics an article on COVID-19 has (BioCreative VII). Read from the user's own copy.

Bioformer scores the development split (Table 3, note 1), which was all that had labels at the time; the test split has
been released since.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from biosmith.bench.dataset import About, Paper
from biosmith.bench.kinds import Documents, one_of
from biosmith.bench.records import read_csv
from biosmith.rejects import Rejects
from biosmith.tasks.instances import BadRow, Instance

LABELS = (
    "Case Report",
    "Diagnosis",
    "Epidemic Forecasting",
    "Mechanism",
    "Prevention",
    "Transmission",
    "Treatment",
)


@dataclass(frozen=True)
class LitCovid(Documents):
    """CSV files with a record an article; the text is its title and abstract."""

    def read(self, path: Path, split: str, rejects: Rejects) -> Iterator[Instance]:
        """See `Table`."""
        yield from read_csv(path, self.columns, _make, rejects)


def _make(cells: dict[str, str]) -> Instance:
    labels = [one_of(label.strip(), LABELS) for label in cells["label"].split(";") if label.strip()]
    if not labels:
        raise BadRow("has no label")
    text = " ".join(part for part in (cells["title"].strip(), cells["abstract"].strip()) if part)
    return Instance(cells["pmid"], text, tuple(sorted(set(labels))), group=cells["pmid"])


DATASET = LitCovid(
    About(
        name="LitCovid",
        task="documents",
        metric="micro_f1",
        counted="instances",
        folders=("litcovid", "LitCovid", "BC7-LitCovid"),
        citation="Chen et al. (2022), BioCreative VII LitCovid track",
        licence="terms of BioCreative; abstracts of PubMed",
        source=(
            "Get BC7-LitCovid-Train.csv, BC7-LitCovid-Dev.csv and BC7-LitCovid-Test-GS.csv from the LitCovid track of "
            "BioCreative VII and put them into a folder litcovid."
        ),
        paper={"train": Paper(24960), "dev": Paper(6239), "test": Paper(2500)},  # Bioformer, Table 2
        evaluated="dev",
    ),
    columns=("pmid", "title", "abstract", "label"),
    header=True,
    names_of=(
        ("train", ("BC7-LitCovid-Train.csv", "train.csv")),
        ("dev", ("BC7-LitCovid-Dev.csv", "dev.csv")),
        ("test", ("BC7-LitCovid-Test-GS.csv", "BC7-LitCovid-Test.csv", "test.csv")),
    ),
    labels=LABELS,
)
