"""Instances from raw corpora, exactly as the benchmarks made them."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from pathlib import Path

from biosmith.errors import UsageError
from biosmith.rejects import Rejects

# dataset -> module in this package, whose `prepare(raw, out, splits, faults)` writes the files and returns instances by split
PREPARED: dict[str, str] = {
    "chemprot": "chemprot",
    "ddi": "ddi",
    "hoc": "hoc",
    "ebm-pico": "ebm_pico",
}
# Datasets whose instances nobody can make of the raw corpus as the benchmark did -> what can be done with it.
NOT_PREPARED: dict[str, str] = {
    "linnaeus": "biosmith data convert makes tagging files of its release; the published ones have other words",
    "s800": "biosmith data convert makes tagging files of its release; the published ones have other words",
    "euadr": "its release has no texts, and BioBERT's folds, which are scored, were drawn at random: get these",
}


def prepare(
    name: str, raw: Path, out: Path, splits: Path | None = None, faults: Rejects | None = None
) -> dict[str, int]:
    """Write the instances of a dataset from its raw corpus.

    Args:
        name: chemprot, ddi, hoc or ebm-pico.
        raw: the corpus as its authors release it: a folder, or the archive.
        out: the folder to make, with train.tsv, dev.tsv and test.tsv.
        splits: for all but ChemProt, the folder with the lists of files of each split; found beside `raw` if not given.
        faults: receives what is wrong with the corpus and was taken as it is, for BLURB took it so.

    Returns:
        Instances of each split (of EBM PICO: sentences).

    Raises:
        UsageError: the dataset is not one that is prepared, or the corpus or the lists are not there.
        BadInput: a record of the corpus cannot be used.
    """
    known = {key.lower(): key for key in PREPARED}
    if name.lower() not in known:
        instead = NOT_PREPARED.get(re.sub(r"\W|_", "", name.lower()))
        why = f" ({instead})" if instead else ""
        raise UsageError(f"dataset {name!r} is not made from a raw corpus{why}; valid: {', '.join(PREPARED)}")
    module = importlib.import_module(f"{__name__}.{PREPARED[known[name.lower()]]}")
    function: Callable[[Path, Path, Path | None, Rejects | None], dict[str, int]] = module.prepare
    return function(raw, out, splits, faults)
