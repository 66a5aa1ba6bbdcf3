"""Two models compared dataset by dataset on the same test instances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from biosmith.bench.results import ModelResults, load_results
from biosmith.bench.significance import RESAMPLES, Comparison, compare, holm
from biosmith.bench.submission import opened
from biosmith.errors import UsageError
from biosmith.progress import say

ALPHA = 0.05


@dataclass(frozen=True)
class Row:
    """One dataset.

    Attributes:
        task: its name.
        comparison: A beside B.
        bootstrap_holm, randomisation_holm: p-values adjusted for the number of datasets.
    """

    task: str
    comparison: Comparison
    bootstrap_holm: float
    randomisation_holm: float

    def as_dict(self) -> dict[str, Any]:
        """For JSON; `significant` is whether both adjusted p-values are below 0.05."""
        adjusted = {"bootstrap_holm": self.bootstrap_holm, "randomisation_holm": self.randomisation_holm}
        significant = max(adjusted.values()) < ALPHA
        return {"dataset": self.task, **asdict(self.comparison), **adjusted, "significant": significant}


@dataclass(frozen=True)
class Compared:
    """A comparison of two models.

    Attributes:
        a, b: their names.
        rows: datasets that both have.
        left_out: dataset -> why it could not be compared.
    """

    a: str
    b: str
    rows: tuple[Row, ...]
    left_out: dict[str, str]


def compare_results(a: Path, b: Path, *, resamples: int = RESAMPLES, seed: int = 0) -> Compared:
    """Compare the models of two results folders (or of two folders of models in one), or of submissions.

    Raises:
        UsageError: a folder holds several models, nothing can be compared, or `resamples` is below 1.
    """
    if resamples < 1:
        raise UsageError(f"resamples must be at least 1, not {resamples}")
    with opened(a) as (of_a, changed_a), opened(b) as (of_b, changed_b):
        for path, changed in ((a, changed_a), (b, changed_b)):
            if changed:
                say(f"{path} was changed after it was packed; `biosmith bench verify` says where")
        return _compare(_only_model(of_a), _only_model(of_b), f"{a} and {b}", resamples, seed)


def _compare(left: ModelResults, right: ModelResults, both: str, resamples: int, seed: int) -> Compared:
    compared: list[tuple[str, Comparison]] = []
    left_out: dict[str, str] = {}
    for key in dict.fromkeys([*left.tasks, *right.tasks]):
        name = "@".join(part for part in key if part)
        if key not in left.tasks or key not in right.tasks:
            left_out[name] = f"only {left.model.name if key in left.tasks else right.model.name} has it"
            continue
        mine, theirs = left.tasks[key], right.tasks[key]
        files = [run.protocol.get("files") for run in (mine.runs[0], theirs.runs[0])]
        if files[0] != files[1]:
            left_out[name] = "they were scored on different files"
            continue
        compared.append((name, compare(mine.units(), theirs.units(), resamples=resamples, seed=seed)))
    if not compared:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in left_out.items()) or "no runs"
        raise UsageError(f"{both} have nothing to compare ({reasons})")
    return Compared(left.model.name, right.model.name, tuple(_adjust(compared)), left_out)


def _adjust(compared: Sequence[tuple[str, Comparison]]) -> list[Row]:
    bootstrap = holm([c.bootstrap_p for _, c in compared])
    randomisation = holm([c.randomisation_p for _, c in compared])
    return [Row(name, c, p, q) for (name, c), p, q in zip(compared, bootstrap, randomisation, strict=True)]


def _only_model(folder: Path) -> ModelResults:
    models = load_results(folder).models
    if len(models) > 1:
        paths = ", ".join(str(model.folder) for model in models)
        raise UsageError(f"{folder} holds {len(models)} models; name one: {paths}")
    if not models:
        raise UsageError(f"{folder} holds no model")
    return models[0]
