"""Suites: which datasets belong together, in which groups their scores are averaged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from biosmith.bench.dataset import Dataset
from biosmith.bench.datasets import find_dataset
from biosmith.errors import UsageError


@dataclass(frozen=True)
class Suite:
    """Datasets in groups; the score of a suite is the mean over groups of the mean over their datasets."""

    name: str
    groups: Mapping[str, tuple[str, ...]]

    @property
    def datasets(self) -> list[Dataset]:
        """All datasets, in order."""
        return [find_dataset(name) for names in self.groups.values() for name in names]


SUITES = {
    "blurb": Suite(
        "blurb",  # Gu et al. (2021), Table 2
        {
            "NER": ("BC5-chem", "BC5-disease", "NCBI-disease", "BC2GM", "JNLPBA"),
            "PICO": ("EBM-PICO",),
            "Relation extraction": ("ChemProt", "DDI", "GAD"),
            "Sentence similarity": ("BIOSSES",),
            "Document classification": ("HoC",),
            "Question answering": ("PubMedQA", "BioASQ"),
        },
    ),
}


def find_suite(name: str) -> Suite:
    """A suite by its name.

    Raises:
        UsageError: there is no such suite; names those there are.
    """
    if name not in SUITES:
        raise UsageError(f"suite {name!r} is unknown; valid: {', '.join(SUITES)}")
    return SUITES[name]
