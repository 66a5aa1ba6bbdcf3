"""Results of benchmark runs as files: one JSON object a run with its predictions beside it, written by rename.

    RESULTS/manifest.json                       what was run, on which models and data (kind "results")
    RESULTS/MODEL/model.json                    the model: digest, size, lineage
    RESULTS/MODEL/DATASET/settings.json         the settings that count, and what they were chosen from
    RESULTS/MODEL/DATASET/search-KEY.json       a candidate's score on the development split
    RESULTS/MODEL/DATASET/seed-N-KEY.json       a run; KEY digests model, data, settings and seed
    RESULTS/MODEL/DATASET/seed-N-KEY.predictions.jsonl, seed-N-KEY.units.json

An arm of an ablation is a folder `DATASET@ARM`. A run counts once its JSON is there, which is written last.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

from biosmith.artefact import write_by_rename, write_json
from biosmith.bench.significance import bootstrap_interval
from biosmith.bench.statistics import Summary
from biosmith.bench.suites import Suite
from biosmith.bench.units import Units, load_units
from biosmith.errors import BadInput, UsageError

MODEL, SETTINGS = "model.json", "settings.json"
PREDICTIONS, UNITS = ".predictions.jsonl", ".units.json"


@dataclass(frozen=True)
class ModelMark:
    """Which model was run.

    Attributes:
        name: of its folder in the results.
        path, digest: where it lay; a digest over its files.
        parameters, layers, width, family: its size, None where its configuration does not say.
        lineage: the manifests behind it, as `biosmith trace` walks them, down to the raw files.
    """

    name: str
    path: str
    digest: str
    parameters: int | None = None
    layers: int | None = None
    width: int | None = None
    family: str = ""
    lineage: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Run:
    """One fine-tuning run and its score on the test split.

    Attributes:
        key: digest over model, data, kind, settings and seed: what the run is found by.
        model, model_digest: whose run it is.
        dataset, arm, kind: what was learnt; `arm` is "" outside ablations.
        metric, value, scores: as the dataset's scorer gives them.
        seed, settings: of the fine-tuning; `settings` without seed and device.
        truncated: words or inputs that did not fit the model and count as missed.
        instances: of the test split.
        dev_value, epoch: on the development split, and the epoch that was kept; None without one.
        train_seconds, predict_seconds, tokens_per_second, device: how long it took, where.
        protocol: see `bench.dataset.fingerprint`.
        digests: of the files of predictions and units.
    """

    key: str
    model: str
    model_digest: str
    dataset: str
    kind: str
    metric: str
    value: float
    seed: int
    settings: Mapping[str, Any]
    scores: Mapping[str, Any]
    truncated: int
    instances: int
    protocol: Mapping[str, Any]
    digests: Mapping[str, str]
    arm: str = ""
    dev_value: float | None = None
    epoch: int | None = None
    train_seconds: float = 0.0
    predict_seconds: float = 0.0
    tokens_per_second: float | None = None
    device: str = ""
    version: str = ""
    created: str = ""

    @property
    def stem(self) -> str:
        """Name of its files, without what comes after."""
        return f"seed-{self.seed}-{self.key[:12]}"


@dataclass(frozen=True)
class TaskResults:
    """All runs of one model on one dataset (or one arm of an ablation) that were made with the settings that count.

    Attributes:
        folder: where they lie.
        chosen: what `settings.json` says.
        runs: by seed.
    """

    folder: Path
    chosen: Mapping[str, Any]
    runs: tuple[Run, ...]

    def summary(self, suite: Suite | None = None) -> Summary:
        """Mean, standard deviation and Student's interval over seeds, of the value that counts in a suite."""
        other = suite.values.get(self.runs[0].dataset) if suite else None
        return Summary.of([float(run.scores[other]) if other else run.value for run in self.runs])

    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the mean over seeds when test instances are resampled, of the dataset's own metric."""
        return _interval(self.folder, tuple(run.stem for run in self.runs), tuple(r.key for r in self.runs))

    def units(self) -> list[Units]:
        """The scored units of each run."""
        return [load_units(self.folder / f"{run.stem}{UNITS}") for run in self.runs]

    def predictions(self, run: Run) -> list[tuple[str, Any]]:
        """(id, prediction) of each instance of a run."""
        text = (self.folder / f"{run.stem}{PREDICTIONS}").read_text(encoding="utf-8")
        # Not splitlines, which cuts at separators that JSON holds as they are (U+2028, U+0085).
        items = [json.loads(line) for line in text.split("\n") if line]
        return [(item["id"], item["prediction"]) for item in items]

    def as_dict(self, suite: Suite | None = None) -> dict[str, Any]:
        """For `bench show --json`: scores in [0, 1]; `ci95` is the half width of Student's interval over seeds, and
        `bootstrap95` the interval of the dataset's own metric over test instances."""
        run = self.runs[0]
        other = suite.values.get(run.dataset) if suite else None
        return {
            **self.summary(suite).as_dict(),
            "bootstrap95": list(self.interval()),
            "metric": other or run.metric,
            "instances": run.instances,
            "truncated": max(r.truncated for r in self.runs),
            "settings": dict(run.settings),
            "protocol": run.protocol.get("fingerprint", ""),
        }


@lru_cache(maxsize=1024)
def _interval(folder: Path, stems: tuple[str, ...], keys: tuple[str, ...]) -> tuple[float, float]:
    return bootstrap_interval([load_units(folder / f"{stem}{UNITS}") for stem in stems])


@dataclass(frozen=True)
class ModelResults:
    """Everything one model has in a results folder."""

    model: ModelMark
    folder: Path
    tasks: Mapping[tuple[str, str], TaskResults]  # by (dataset, arm)

    def of_suite(self, suite: Suite) -> dict[str, TaskResults]:
        """Its results on the datasets of a suite, in the suite's order, outside ablations."""
        names = [name for members in suite.groups.values() for name in members]
        return {name: self.tasks[name, ""] for name in names if (name, "") in self.tasks}


@dataclass(frozen=True)
class Results:
    """A results folder."""

    folder: Path
    suite: str
    models: tuple[ModelResults, ...]

    def model(self, name: str) -> ModelResults:
        """A model by its name here.

        Raises:
            UsageError: there is none of that name.
        """
        for model in self.models:
            if model.model.name == name:
                return model
        names = ", ".join(m.model.name for m in self.models) or "none"
        raise UsageError(f"{self.folder} has no model {name!r}; valid: {names}")


def group_scores(
    suite: Suite, means: Mapping[str, float]
) -> tuple[dict[str, float], float | None, list[str]]:
    """Scores of groups, the score of the suite, and the datasets that are missing.

    The score of a suite is the mean over its groups of the mean over their datasets (Gu et al., 2021, Table 6), or the
    mean over all datasets (Fang et al., 2023, Table 3); it is None while a dataset is missing. Groups without all their
    datasets are left out.
    """
    missing = [name for names in suite.groups.values() for name in names if name not in means]
    groups = {
        group: sum(means[name] for name in names) / len(names)
        for group, names in suite.groups.items()
        if names and not set(names) & set(missing)
    }
    averaged = groups if suite.average == "groups" else means
    whole = None if missing else sum(averaged.values()) / len(averaged)
    return groups, whole, missing


def show_model(results: ModelResults, suite: Suite) -> dict[str, Any]:
    """What `bench show --json` prints of a model: `blurb` (or the suite's name), `groups`, `datasets`, `missing`."""
    tasks = results.of_suite(suite)
    means = {name: task.summary(suite).mean for name, task in tasks.items()}
    groups, whole, missing = group_scores(suite, means)
    arms = {f"{dataset}@{arm}": task.as_dict() for (dataset, arm), task in results.tasks.items() if arm}
    return {
        "model": results.model.name,
        "digest": results.model.digest,
        "parameters": results.model.parameters,
        "suite": suite.name,
        suite.name: whole,
        "groups": groups,
        "datasets": {name: task.as_dict(suite) for name, task in tasks.items()},
        "missing": missing,
        **({"arms": arms} if arms else {}),
    }


def load_results(folder: Path) -> Results:
    """Read a results folder, or the folder of one model in one.

    Raises:
        UsageError: it is neither.
        BadInput: a record is damaged.
    """
    if (folder / MODEL).is_file():
        if folder.name in ("", ".."):  # their parent is not the folder above
            folder = folder.resolve()
        return Results(folder.parent, _suite(folder.parent), (_load_model(folder),))
    models = [_load_model(path.parent) for path in sorted(folder.glob(f"*/{MODEL}"))]
    if not models and not (folder / "plan.json").is_file():
        what = "holds no results" if folder.is_dir() else "does not exist"
        raise UsageError(f"{folder} {what}; expected a folder that `biosmith bench run --out` made")
    return Results(folder, _suite(folder), tuple(models))


def _suite(folder: Path) -> str:
    plan = folder / "plan.json"
    return str(read_record(plan).get("suite", "blurb")) if plan.is_file() else "blurb"


def _load_model(folder: Path) -> ModelResults:
    mark = ModelMark(**_known(ModelMark, read_record(folder / MODEL), folder / MODEL))
    tasks: dict[tuple[str, str], TaskResults] = {}
    for path in sorted(folder.glob(f"*/{SETTINGS}")):
        chosen = read_record(path)
        keys = counted_keys(chosen, path)
        runs = [load_run(file) for file in path.parent.glob("seed-*.json") if "." not in file.stem]
        counted = sorted((run for run in runs if run.key in keys), key=lambda run: run.seed)
        if counted:
            _require_one_task(path.parent, counted)
            tasks[counted[0].dataset, counted[0].arm] = TaskResults(path.parent, chosen, tuple(counted))
    return ModelResults(mark, folder, tasks)


def counted_keys(chosen: Mapping[str, Any], path: Path) -> set[str]:
    """The keys of the runs that count, by the content of a `settings.json`.

    Raises:
        BadInput: they are no list of keys.
    """
    keys = chosen.get("keys", [])
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise BadInput(path, "is not the settings of runs: its keys are no list of names", value=keys)
    return set(keys)


def _require_one_task(folder: Path, runs: Sequence[Run]) -> None:
    """Raise `BadInput` unless a folder's runs are of the dataset that it is named after, one a seed."""
    for before, run in zip((None, *runs), runs, strict=False):
        file = folder / f"{run.stem}.json"
        name = run.dataset + (f"@{run.arm}" if run.arm else "")
        if folder.name != name:
            raise BadInput(file, "lies in the folder of another dataset", value=name)
        if before is not None and before.seed == run.seed:
            raise BadInput(folder, "has two runs of one seed that both count", value=run.seed)


# What a field may hold, by its annotation.
_KINDS: dict[str, Any] = {
    "str": str,
    "int": int,
    "float": int | float,
    "int | None": int | None,
    "float | None": int | float | None,
    "Mapping[str, Any]": Mapping,
    "Mapping[str, str]": Mapping,
}


def load_run(path: Path) -> Run:
    """One run.

    Raises:
        BadInput: the file is no run, or that of another run.
    """
    run = Run(**_known(Run, read_record(path), path))
    for name, value in run.scores.items():
        if not isinstance(value, Mapping) and not _is_number(value):
            raise BadInput(path, f"is not a record of results: its {name} is no number", value=value)
    if path.stem != run.stem:  # a copy would count once more
        raise BadInput(path, f"is the record of {run.stem}, under another name")
    return run


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def read_record(path: Path) -> dict[str, Any]:
    """The JSON object of a file of the folder.

    Raises:
        BadInput: it is none.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise BadInput(path, f"cannot be read: {error}") from error
    if not isinstance(value, dict):
        raise BadInput(path, "is not a JSON object")
    return value


def _known(kind: type, values: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """The values that a record has fields for; later versions may write more."""
    known = {f.name: values[f.name] for f in fields(kind) if f.name in values}
    for f in fields(kind):
        value = known.get(f.name, f.default)
        of_kind = f.name not in known or isinstance(value, _KINDS[str(f.type)])
        number = not isinstance(value, bool | int | float) or _is_number(value)
        if not of_kind or not number:
            raise BadInput(path, f"is not a record of results: its {f.name} is of another kind", value=value)
    try:
        kind(**known)
    except TypeError as error:
        raise BadInput(path, f"is not a record of results: {error}") from error
    return known


def write_run(folder: Path, run: Run) -> None:
    """Write the record of a run; its predictions and units must be there."""
    write_json(folder / f"{run.stem}.json", run)


def write_predictions(path: Path, names: Sequence[str], predictions: Iterable[Any]) -> None:
    """Predictions as `bench score` reads them, by rename."""
    with write_by_rename(path) as temporary, temporary.open("w", encoding="utf-8") as stream:
        for name, prediction in zip(names, predictions, strict=True):
            stream.write(json.dumps({"id": name, "prediction": prediction}, ensure_ascii=False) + "\n")
