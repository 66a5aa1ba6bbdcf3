"""Suites: which datasets belong together, in which groups their scores are averaged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from biosmith.bench.dataset import Dataset
from biosmith.bench.datasets import find_dataset
from biosmith.errors import UsageError


@dataclass(frozen=True)
class Suite:
    """Datasets in groups.

    Attributes:
        name: of the suite.
        groups: group -> its datasets.
        average: what the score of the suite is the mean over: "groups", each the mean over its datasets (BLURB), or
            "datasets" (Bioformer, Table 3, note 4).
        values: dataset -> the value of its scorer that counts here, where it is not the one that its metric names.
    """

    name: str
    groups: Mapping[str, tuple[str, ...]]
    average: Literal["groups", "datasets"] = "groups"
    values: Mapping[str, str] = field(default_factory=dict)

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
    "bioformer15": Suite(
        "bioformer15",  # Fang et al. (2023), Table 2
        {
            "NER": (
                "BC2GM",
                "BC4CHEMD",
                "BC5-chem",
                "BC5-disease",
                "JNLPBA-BioBERT",
                "LINNAEUS",
                "NCBI-disease",
                "S800",
            ),
            "Relation extraction": ("ChemProt-BLUE", "DDI-BLUE", "EU-ADR", "GAD-10"),
            "Document classification": ("HoC-BLUE", "LitCovid"),
            "Question answering": ("BioASQ-factoid",),
        },
        average="datasets",
        values={"BioASQ-factoid": "mean_of_three"},  # with and without SQuAD 1.1 before it, in the paper
    ),
    "biom": Suite(
        "biom",  # Alrowili and Vijay-Shanker (2021), Table 2
        {
            "NER": ("BC5-chem", "BC5-disease", "NCBI-disease"),
            "Relation extraction": ("ChemProt",),
            "Question answering": ("SQuAD-v2.0", "BioASQ-factoid"),
        },
    ),
    "extras": Suite(
        "extras",
        {
            "NER": ("AnatEM", "BioRED", "NLM-Gene", "NLM-Chem", "tmVar3"),
            "Document classification": ("SciCite",),
            "Question answering": ("SQuAD-v1.1", "COVID-QA"),
        },
    ),
}


def find_suite(name: str) -> Suite:
    """A suite by its name; a dataset's name is a suite of that dataset alone.

    Raises:
        UsageError: there is no such suite; names those there are.
    """
    if name == "mock":
        from biosmith.bench.mock import SUITE  # stands on this module

        return SUITE
    if name in SUITES:
        return SUITES[name]
    try:
        alone = find_dataset(name).about.name
    except UsageError:
        valid = ", ".join([*SUITES, "mock"])
        raise UsageError(f"suite {name!r} is unknown; valid: {valid}, or the name of a dataset") from None
    return Suite(alone, {alone: (alone,)})
