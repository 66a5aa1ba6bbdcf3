"""Suites: what is run, what is kept, what a grid may see."""

from __future__ import annotations

import gzip
import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import biosmith.tasks
from bench.checks import stand_in, write_model
from biosmith.artefact import load_manifest
from biosmith.bench import devices, jobs
from biosmith.bench.dataset import Dataset
from biosmith.bench.evaluating import run_models, show_results
from biosmith.bench.grids import GRIDS, find_grid
from biosmith.bench.mock import FOLDER, MOCK, SUITE
from biosmith.bench.results import load_results, show_model
from biosmith.bench.runs import Task, best_candidate, run_suite
from biosmith.errors import BiosmithError, UsageError
from biosmith.rejects import Rejects
from biosmith.tasks.locking import hold

ALL = [Task(name) for name in MOCK]


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, float]]:
    """Fine-tuning by a stand-in; the list tells what was tuned."""
    done: list[tuple[str, int, float]] = []
    module = stand_in(done)
    monkeypatch.setitem(sys.modules, "biosmith.tasks.fitting", module)
    monkeypatch.setattr(biosmith.tasks, "fitting", module, raising=False)
    jobs._load_split.cache_clear()
    return done


def records(out: Path) -> dict[str, dict[str, Any]]:
    """What each run's record says, without times."""
    timed = ("train_seconds", "predict_seconds", "created")
    return {
        str(path.relative_to(out)): {
            k: v for k, v in json.loads(path.read_text("utf-8")).items() if k not in timed
        }
        for path in out.rglob("seed-*.json")
        if "." not in path.stem
    }


def test_a_suite_is_run_scored_and_averaged_over_groups(tmp_path: Path, fits: list[Any]) -> None:
    model = write_model(tmp_path)
    report = run_suite([model], ALL, FOLDER, tmp_path / "out", suite="mock", seeds=2, device="cpu")
    assert report.problems == () and report.runs == 2 * len(MOCK) == len(fits)
    shown = show_model(load_results(tmp_path / "out").models[0], SUITE)
    means = {name: d["mean"] for name, d in shown["datasets"].items()}
    assert set(means) == set(MOCK) and shown["missing"] == []
    # Two datasets of one group count half each; every group counts the same.
    pair = (means["mock-documents"] + means["mock-classes"]) / 2
    assert shown["groups"]["Document classification"] == pytest.approx(pair)
    three = (means["mock-answers"] + means["mock-factoid"] + means["mock-squad"]) / 3
    alone = sum(means[f"mock-{name}"] for name in ("ner", "pico", "relations", "similarity"))
    assert shown["mock"] == pytest.approx((pair + three + alone) / 6)
    ner = shown["datasets"]["mock-ner"]
    assert len(ner["seeds"]) == 2 and ner["sd"] is not None and ner["bootstrap95"][0] <= ner["bootstrap95"][1]


def test_a_dataset_is_a_suite_of_its_own(tmp_path: Path, fits: list[Any]) -> None:
    # As `biosmith.evaluate(model, biosmith.task("mock-answers"), out=...)` runs it; what it leaves can be shown.
    out, name = tmp_path / "out", "mock-answers"
    report, _, _ = run_models(
        [str(write_model(tmp_path))],
        suite=name,
        data=None,
        out=out,
        tasks=(),
        seeds=1,
        grid="fixed",
        device="cpu",
        override=(),
    )
    shown, _ = show_results(out, None)
    assert report.runs == 1 and set(shown["datasets"]) == set(shown["groups"]) == {name}


def test_a_run_that_was_killed_goes_on_repeats_nothing_and_ends_the_same(
    tmp_path: Path, fits: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = write_model(tmp_path)

    def run(out: Path) -> None:
        run_suite([model], ALL, FOLDER, out, suite="mock", seeds=3, device="cpu")

    run(tmp_path / "whole")
    whole = list(fits)
    fits.clear()
    real = jobs.write_run
    written: list[Path] = []

    def killed(folder: Path, run: Any) -> None:
        # Dies after the predictions of the eighth run are there and before its record is.
        if len(written) == 7:
            raise KeyboardInterrupt
        written.append(folder)
        real(folder, run)

    monkeypatch.setattr(jobs, "write_run", killed)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "killed")
    monkeypatch.setattr(jobs, "write_run", real)
    assert len(records(tmp_path / "killed")) == 7
    before = list(fits)
    fits.clear()
    run(tmp_path / "killed")
    # The eighth was not finished: it alone is tuned twice.
    assert before[:7] + fits == whole
    assert records(tmp_path / "killed") == records(tmp_path / "whole")
    fits.clear()
    run(tmp_path / "killed")
    assert fits == []


def test_more_seeds_other_settings_and_another_model_are_run_and_the_rest_is_kept(
    tmp_path: Path, fits: list[Any]
) -> None:
    model, tasks, out = write_model(tmp_path), [Task("mock-answers")], tmp_path / "out"
    run_suite([model], tasks, FOLDER, out, suite="mock", seeds=2, device="cpu")
    assert run_suite([model], tasks, FOLDER, out, suite="mock", seeds=3, device="cpu").kept == 2
    assert [seed for _, seed, _ in fits] == [0, 1, 2]
    report = run_suite(
        [model], tasks, FOLDER, out, suite="mock", seeds=1, device="cpu", override={"epochs": 2}
    )
    assert (report.runs, report.kept) == (1, 0)
    # Only the runs with the settings asked for last are averaged.
    task = load_results(out).models[0].tasks["mock-answers", ""]
    assert [run.settings["epochs"] for run in task.runs] == [2]
    other = write_model(tmp_path, "other")
    report = run_suite([model, other], tasks, FOLDER, out, suite="mock", seeds=1, device="cpu")
    assert (report.runs, report.kept) == (1, 1)
    # Changed weights are another model, whatever the folder is called: their runs must not be taken for one model's.
    (other / "config.json").write_text((other / "config.json").read_text("utf-8") + " ", encoding="utf-8")
    before = sorted(out.rglob("*"))
    with pytest.raises(UsageError, match="has runs of another model of that name"):
        run_suite([other], [Task("mock-ner")], FOLDER, out, suite="mock", seeds=1, device="cpu")
    assert sorted(out.rglob("*")) == before
    run_suite([write_model(tmp_path, "third")], tasks, FOLDER, out, suite="mock", seeds=1, device="cpu")
    assert load_manifest(out).counts["models"] == 3


def test_a_file_that_was_changed_is_read_anew(tmp_path: Path) -> None:
    # A key of a run digests the file as it is now; instances kept from before would be scored under it.
    data = tmp_path / "mock"
    shutil.copytree(FOLDER, data)
    before = jobs.load_split("mock-answers", data, "train")
    assert jobs.load_split("mock-answers", data, "train") is before
    (file,) = MOCK["mock-answers"].find(data)["train"]
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    file.write_text("".join(lines[:-1]), encoding="utf-8")
    assert list(jobs.load_split("mock-answers", data, "train")) == list(before)[:-1]


def test_two_processes_do_not_share_a_results_folder(tmp_path: Path, fits: list[Any]) -> None:
    model, tasks, out = write_model(tmp_path), [Task("mock-answers")], tmp_path / "out"
    run_suite([model], tasks, FOLDER, out, suite="mock", seeds=1, device="cpu")
    before = sorted(out.rglob("*"))
    with hold(out / ".work", out), pytest.raises(UsageError, match="another process is making"):
        run_suite([model], tasks, FOLDER, out, suite="mock", seeds=2, device="cpu")
    assert sorted(out.rglob("*")) == before
    assert run_suite([model], tasks, FOLDER, out, suite="mock", seeds=2, device="cpu").runs == 1


@pytest.mark.parametrize(
    ("override", "reason"),
    [
        ({"epochs": "three"}, "settings of yesno, epochs: 'three' is not a whole number"),
        ({"batch_size": 1.5}, "settings of yesno, batch_size: 1.5 is not a whole number"),
        ({"keep": "bst"}, "settings of yesno, keep: 'bst' is not one of best, last"),
        ({"rate": 1}, "has no field 'rate'; valid: learning_rate"),
    ],
)
def test_settings_that_do_not_fit_are_named(
    tmp_path: Path, fits: list[Any], override: dict[str, Any], reason: str
) -> None:
    tasks, out = [Task("mock-answers")], tmp_path / "out"
    report = run_suite(
        [write_model(tmp_path)], tasks, FOLDER, out, suite="mock", device="cpu", override=override
    )
    assert reason in report.problems[0].reason and fits == []


def test_seed_and_device_are_no_overrides(tmp_path: Path, fits: list[Any]) -> None:
    model, tasks, out = write_model(tmp_path), [Task("mock-answers")], tmp_path / "out"
    with pytest.raises(UsageError, match="override 'seed' has no effect"):
        run_suite([model], tasks, FOLDER, out, suite="mock", device="cpu", override={"seed": 3})
    assert not out.exists()


class Guarded:
    """A dataset whose test split must not be looked into while `closed`."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset, self.about, self.closed = dataset, dataset.about, True
        self.labels = getattr(dataset, "labels", ())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dataset, name)

    def load(self, data: Path, split: str, rejects: Rejects | None = None) -> Sequence[Any]:
        assert not (self.closed and split == "test"), "the test split was opened"
        return self._dataset.load(data, split, rejects)


def test_a_grid_never_sees_the_test_split(
    tmp_path: Path, fits: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    guarded = {name: Guarded(dataset) for name, dataset in MOCK.items()}
    monkeypatch.setattr(jobs, "find_task", guarded.__getitem__)
    monkeypatch.setattr("biosmith.bench.runs.find_task", guarded.__getitem__)
    searched: list[str] = []
    real = devices.run_job

    def run(job: jobs.Job, device: str, at_once: int) -> None:
        # Every search comes before any run; only runs may open the test split.
        guarded[job.dataset].closed = job.split == "dev"
        searched.append(job.split)
        real(job, device, at_once)

    monkeypatch.setattr(devices, "run_job", run)
    model = write_model(tmp_path)
    report = run_suite(
        [model], ALL, FOLDER, tmp_path / "out", suite="blurb", grid="paper", seeds=1, device="cpu"
    )
    assert report.problems == ()
    assert searched == ["dev"] * 30 * len(ALL) + ["test"] * len(ALL)


def test_the_choice_is_the_same_whatever_the_test_split_says(tmp_path: Path, fits: list[Any]) -> None:
    # The test split is replaced by one with other labels: the settings chosen and the keys of the search stay.
    model, data = write_model(tmp_path), tmp_path / "data"
    (data / "answers").mkdir(parents=True)
    chosen = []
    for label in ("yes", "no"):
        for path in (FOLDER / "answers").iterdir():
            text = path.read_text("utf-8")
            if path.name == "test.tsv":
                text = "".join(f"{line.rsplit(chr(9), 1)[0]}\t{label}\n" for line in text.splitlines())
            (data / "answers" / path.name).write_text(text, encoding="utf-8")
        jobs._load_split.cache_clear()
        out = tmp_path / label
        run_suite(
            [model],
            [Task("mock-answers")],
            data,
            out,
            suite="bioformer15",
            grid="paper",
            seeds=1,
            device="cpu",
        )
        folder = out / "tiny" / "mock-answers"
        chosen.append(json.loads((folder / "settings.json").read_text("utf-8"))["settings"])
        searches = sorted(path.name for path in folder.glob("search-*.json"))
        assert len(searches) == 9
        chosen.append(searches)
    assert chosen[:2] == chosen[2:]
    # The stand-in does best at 3e-5: the development split finds it.
    assert chosen[0]["learning_rate"] == 3e-5


def test_without_a_development_split_a_tenth_of_the_training_split_decides(
    tmp_path: Path, fits: list[Any]
) -> None:
    data = tmp_path / "data" / "answers"
    data.mkdir(parents=True)
    for name in ("train.tsv", "test.tsv"):
        (data / name).write_bytes((FOLDER / "answers" / name).read_bytes())
    report = run_suite(
        [write_model(tmp_path)],
        [Task("mock-answers")],
        tmp_path / "data",
        tmp_path / "out",
        suite="bioformer15",
        grid="paper",
        seeds=1,
        device="cpu",
    )
    assert report.problems == ()
    run = load_results(tmp_path / "out").models[0].tasks["mock-answers", ""].runs[0]
    assert run.settings["learning_rate"] == 3e-5 and run.dev_value is None


@pytest.mark.parametrize(("has_dev", "keep"), [(True, "best"), (False, "last")])
def test_a_candidate_is_scored_at_the_epoch_that_its_runs_will_keep(
    tmp_path: Path, fits: list[Any], monkeypatch: pytest.MonkeyPatch, has_dev: bool, keep: str
) -> None:
    # Without a development split a run keeps its last epoch; a candidate's best one would promise more than that.
    data = tmp_path / "data" / "answers"
    data.mkdir(parents=True)
    for name in ("train.tsv", "test.tsv", *(["dev.tsv"] if has_dev else [])):
        (data / name).write_bytes((FOLDER / "answers" / name).read_bytes())
    module, kept = sys.modules["biosmith.tasks.fitting"], []
    real = module.fit

    def fit(*arguments: Any, **options: Any) -> Any:
        kept.append((options["score"] is not None, arguments[4].keep))
        return real(*arguments, **options)

    monkeypatch.setattr(module, "fit", fit)
    tasks, out = [Task("mock-answers")], tmp_path / "out"
    run_suite(
        [write_model(tmp_path)],
        tasks,
        data.parent,
        out,
        suite="bioformer15",
        grid="paper",
        seeds=1,
        device="cpu",
    )
    assert kept == [(True, keep)] * 9 + [(has_dev, "best")]


def test_sentences_of_one_document_are_held_out_together() -> None:
    train = MOCK["mock-documents"].load(FOLDER, "train")
    kept, held = jobs.hold_out(train)
    assert len(kept) + len(held) == len(train) and held
    assert not {i.group for i in kept} & {i.group for i in held}


def test_what_cannot_be_run_is_told_and_the_rest_goes_on(
    tmp_path: Path, fits: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = sys.modules["biosmith.tasks.fitting"]
    real = module.fit

    def fit(kind: str, *arguments: Any, **options: Any) -> Any:
        if kind == "similarity":
            raise BiosmithError("the loss is not a number")
        if kind == "words":
            raise ZeroDivisionError("somewhere deep")
        return real(kind, *arguments, **options)

    monkeypatch.setattr(module, "fit", fit)
    tasks = [*ALL, Task("BioASQ")]
    report = run_suite([write_model(tmp_path)], tasks, FOLDER, tmp_path / "out", suite="mock", device="cpu")
    reasons = {problem.task: problem.reason for problem in report.problems}
    assert set(reasons) == {"mock-similarity", "mock-pico", "BioASQ"}
    assert "Register at bioasq.org" in reasons["BioASQ"]
    assert reasons["mock-similarity"] == "the loss is not a number"
    assert reasons["mock-pico"].startswith("ZeroDivisionError: somewhere deep")
    shown = show_model(report.results.models[0], SUITE)
    # An incomplete suite has no score, and says what it lacks.
    assert shown["mock"] is None and shown["missing"] == ["mock-pico", "mock-similarity"]
    assert len(shown["datasets"]) == len(MOCK) - 2


def test_a_damaged_test_split_is_told_and_the_rest_goes_on(tmp_path: Path, fits: list[Any]) -> None:
    data = tmp_path / "data"
    shutil.copytree(FOLDER, data)
    path = data / "ner" / "test.tsv"
    path.with_name("test.tsv.gz").write_bytes(gzip.compress(path.read_bytes())[:-9])
    path.unlink()
    tasks = [Task("mock-ner"), Task("mock-answers")]
    report = run_suite([write_model(tmp_path)], tasks, data, tmp_path / "out", suite="mock", device="cpu")
    assert [(p.task, "is damaged" in p.reason) for p in report.problems] == [("mock-ner", True)]
    assert report.runs == 1


def test_equal_scores_leave_the_first_candidate() -> None:
    scores = [{"value": 0.5, "n": 0}, {"value": 0.7, "n": 1}, {"value": 0.7, "n": 2}]
    assert best_candidate(scores)["n"] == 1


def test_grids_are_the_papers() -> None:
    # Gu et al., 6.2: three rates, two batches, epochs from 2 to 60. Fang et al.: three batches, three rates, 20 epochs.
    pubmedbert = find_grid("paper", "blurb").candidates("tagging", "BC2GM", 12_500)
    assert {c["learning_rate"] for c in pubmedbert} == {1e-5, 3e-5, 5e-5}
    assert {c["batch_size"] for c in pubmedbert} == {16, 32}
    assert {c["epochs"] for c in pubmedbert} >= {2, 60} and len(pubmedbert) == 30
    bioformer = find_grid("paper", "bioformer15").candidates("relation", "DDI", 25_000)
    assert len(bioformer) == 9 and {c["epochs"] for c in bioformer} == {20}
    # Alrowili and Vijay-Shanker, Table 4, NER: 5 epochs at 2e-4 in batches of 48 for base models.
    biom = find_grid("paper", "biom").candidates("tagging", "BC5-chem", 4560)
    assert {"epochs": 5, "learning_rate": 2e-4, "batch_size": 48} in biom
    rates = find_grid("rates", "blurb").candidates("tagging", "BC5-chem", 4560)
    assert [c["learning_rate"] for c in rates] == [1e-4, 2e-4, 4e-4]
    assert len({(c["batch_size"], c["epochs"]) for c in rates}) == 1
    with pytest.raises(UsageError, match="valid: paper, fixed"):
        find_grid("best", "blurb")
    with pytest.raises(
        UsageError, match="no paper has a grid for suite extras; valid: fixed, rates, pubmedbert"
    ):
        find_grid("paper", "extras")
    # Small sets are seen more often, within bounds.
    fixed = GRIDS["fixed"].candidates
    assert [fixed("tagging", "x", n)[0]["epochs"] for n in (100, 10_000, 10**6)] == [20, 10, 5]


def test_a_folder_with_something_else_in_it_is_not_touched(tmp_path: Path, fits: list[Any]) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("", encoding="utf-8")
    with pytest.raises(UsageError, match="is no results folder"):
        run_suite([write_model(tmp_path)], ALL, FOLDER, tmp_path / "out", suite="mock", device="cpu")
