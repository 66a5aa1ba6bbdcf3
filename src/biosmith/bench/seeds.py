"""Tune a model on datasets with several seeds and score it: a small table of means and standard deviations."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from biosmith.artefact import write_json
from biosmith.bench.statistics import Summary
from biosmith.tasks import ner
from biosmith.tasks.settings import TaggingSettings

SCORE = "score.json"


@dataclass(frozen=True)
class SeedScores:
    """The test scores of one model: dataset -> summary over seeds."""

    model: str
    datasets: Mapping[str, Summary]

    def as_dict(self) -> dict[str, Any]:
        """For `--json`, as `bench show` gives it."""
        return {"model": self.model, "datasets": {n: s.as_dict() for n, s in self.datasets.items()}}


def score_model(
    model: Path,
    data: Sequence[Path],
    out: Path,
    *,
    seeds: int = 3,
    settings: TaggingSettings | None = None,
    split: str = "test",
) -> SeedScores:
    """Fine-tune taggers with seeds 0, 1, ... and score each on the test split.

    Args:
        model: a Hugging Face folder.
        data: folders of datasets; their names are the names in the table.
        out: tuned models and scores go to `<out>/<dataset>/seed-N`; what is there already is not done again.
        seeds: how many.
        settings: of fine-tuning; the seed is replaced.
        split: which split is scored.
    """
    scores: dict[str, Summary] = {}
    for dataset in data:
        values = []
        for seed in range(seeds):
            tuned = out / dataset.name / f"seed-{seed}"
            wanted = replace(settings or TaggingSettings(), seed=seed)
            values.append(_score_seed(model, dataset, tuned, wanted, split))
        scores[dataset.name] = Summary.of(values)
    return SeedScores(model.name, scores)


def _score_seed(model: Path, data: Path, tuned: Path, settings: TaggingSettings, split: str) -> float:
    if not (tuned / "manifest.json").is_file():
        ner.finetune(model, data, tuned, settings)
    file = tuned.parent / f"{tuned.name}.{split}.{SCORE}"
    if not file.is_file():
        write_json(file, ner.evaluate(tuned, data, split, device=settings.device).as_dict())
    return float(json.loads(file.read_text(encoding="utf-8"))["value"])


def score_table(models: Sequence[SeedScores]) -> Any:
    """Models side by side: a row a dataset, mean and standard deviation in percent."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2))
    table.add_column("")
    for scores in models:
        table.add_column(Text(scores.model), justify="right")
    for dataset in dict.fromkeys(name for scores in models for name in scores.datasets):
        cells = [s.datasets[dataset].shown() if dataset in s.datasets else "–" for s in models]
        table.add_row(dataset, *cells)
    return table
