"""`biosmith bench`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from biosmith.cli import Report


def score(
    dataset: Annotated[str, tyro.conf.Positional],
    *,
    data: Path,
    predictions: Path,
    split: str | None = None,
) -> Report:
    """Score anybody's predictions under the exact protocol of a dataset.

    Example:
        biosmith bench score chemprot --data benchmarks --predictions predictions.jsonl

    Args:
        dataset: a name of `biosmith data ls`.
        data: the folder that holds the dataset's folder, or that folder itself.
        predictions: one line an instance, in the order of the file: an object with id and prediction, where prediction
            is a list of tags (NER, PICO), a label, a number (similarity), a list of labels (HoC: one line a
            sentence), a string (SQuAD) or a list of answers, best first (BioASQ factoid: one line a question).
        split: which split was predicted; the one whose score is published if not given.
    """
    from biosmith.bench.datasets import find_dataset
    from biosmith.bench.scoring import score_predictions

    values = score_predictions(find_dataset(dataset), data, predictions, split)
    shown = "".join(f", {key} {100 * values[key]:.2f}" for key in ("precision", "recall") if key in values)
    text = (
        f"{values['dataset']} {values['split']}: {values['metric']} {100 * values['value']:.2f}{shown} over "
        f"{values['instances']:,} instances (protocol {values['protocol']['fingerprint']})"
    )
    return Report(values, text)
