"""The datasets, one file each: a new one is a file that defines `DATASET`, and a line here."""

from __future__ import annotations

import importlib
import re

from biosmith.bench.dataset import Dataset
from biosmith.bench.folds import Folds
from biosmith.errors import UsageError

# name -> module in this package
DATASETS: dict[str, str] = {
    "BC5-chem": "bc5_chem",
    "BC5-disease": "bc5_disease",
    "NCBI-disease": "ncbi_disease",
    "BC2GM": "bc2gm",
    "JNLPBA": "jnlpba",
    "EBM-PICO": "ebm_pico",
    "ChemProt": "chemprot",
    "DDI": "ddi",
    "GAD": "gad",
    "BIOSSES": "biosses",
    "HoC": "hoc",
    "PubMedQA": "pubmedqa",
    "BioASQ": "bioasq",
    "BC4CHEMD": "bc4chemd",
    "JNLPBA-BioBERT": "jnlpba_biobert",
    "LINNAEUS": "linnaeus",
    "S800": "s800",
    "ChemProt-BLUE": "chemprot_blue",
    "DDI-BLUE": "ddi_blue",
    "EU-ADR": "euadr",
    "GAD-10": "gad10",
    "HoC-BLUE": "hoc_blue",
    "LitCovid": "litcovid",
    "BioASQ-factoid": "bioasq_factoid",
    "SQuAD-v1.1": "squad1",
    "SQuAD-v2.0": "squad2",
    "COVID-QA": "covidqa",
    "AnatEM": "anatem",
    "BioRED": "biored",
    "NLM-Gene": "nlm_gene",
    "NLM-Chem": "nlm_chem",
    "tmVar3": "tmvar3",
    "SciCite": "scicite",
}


def find_dataset(name: str) -> Dataset:
    """A dataset by its name, whatever its case; dashes, dots and underscores do not count.

    `EU-ADR-fold3` is the third fold of a dataset that has folds.

    Raises:
        UsageError: there is no such dataset; names those there are.
    """
    wanted = _plain(name)
    if fold := re.fullmatch(r"(.+)fold(\d+)", wanted):
        whole = find_dataset(fold[1])
        if isinstance(whole, Folds):
            return whole.of_fold(int(fold[2]))
    for known, module in DATASETS.items():
        if _plain(known) == wanted:
            dataset: Dataset = importlib.import_module(f"{__name__}.{module}").DATASET
            return dataset
    from biosmith.bench.mock import MOCK  # stands on this module

    for known, mock in MOCK.items():
        if _plain(known) == wanted:
            return mock
    raise UsageError(f"dataset {name!r} is unknown; valid: {', '.join(DATASETS)}")


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "").replace(".", "")
