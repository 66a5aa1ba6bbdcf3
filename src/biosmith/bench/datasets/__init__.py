"""The datasets, one file each: a new one is a file that defines `DATASET`, and a line here."""

from __future__ import annotations

import importlib

from biosmith.bench.dataset import Dataset
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
}


def find_dataset(name: str) -> Dataset:
    """A dataset by its name, whatever its case; dashes and underscores are the same.

    Raises:
        UsageError: there is no such dataset; names those there are.
    """
    wanted = _plain(name)
    for known, module in DATASETS.items():
        if _plain(known) == wanted:
            dataset: Dataset = importlib.import_module(f"{__name__}.{module}").DATASET
            return dataset
    raise UsageError(f"dataset {name!r} is unknown; valid: {', '.join(DATASETS)}")


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")
