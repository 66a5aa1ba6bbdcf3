"""The mock suite with real fine-tuning: every kind of task from files to table."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

import biosmith
from biosmith.bench import devices, jobs
from biosmith.bench.checking import check_dataset
from biosmith.bench.mock import FOLDER, MOCK
from biosmith.bench.results import load_results
from biosmith.bench.runs import Task, run_suite
from biosmith.bench.submission import verify
from biosmith.cli import main
from biosmith.errors import BiosmithError, UsageError


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny BERT of the tests of tasks."""
    path = Path(__file__).parents[1] / "tasks" / "conftest.py"
    spec = importlib.util.spec_from_file_location("tests_tasks_conftest", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    folder: Path = module.write_tiny_model(tmp_path_factory.mktemp("models") / "tiny")
    return folder


@pytest.fixture(scope="session")
def run_of_tiny(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The mock suite of the tiny model, one seed."""
    out = tmp_path_factory.mktemp("results") / "out"
    assert (
        main(["bench", "run", "--suite", "mock", "--model", str(tiny), "--out", str(out), "--device", "cpu"])
        == 0
    )
    return out


def predictions(out: Path) -> dict[str, str]:
    return {
        path.name + path.parent.name: path.read_text("utf-8") for path in out.rglob("*.predictions.jsonl")
    }


def test_the_mock_suite_runs_every_kind_offline_and_verifies(
    run_of_tiny: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "show", str(run_of_tiny), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert set(shown["datasets"]) == set(MOCK) and shown["mock"] is not None
    kinds = {run.kind for task in load_results(run_of_tiny).models[0].tasks.values() for run in task.runs}
    assert len(kinds) == 9
    result = verify(run_of_tiny, FOLDER)
    assert (result.recomputed, result.differences) == (9, ())
    # The manifest names model and data, so that a score can be walked back.
    assert main(["trace", str(run_of_tiny), "--json"]) == 0
    traced = json.loads(capsys.readouterr().out)
    assert traced["kind"] == "results" and any("train.tsv" in path for path in traced["raw_files"])


def test_the_data_of_the_mock_suite_is_sound() -> None:
    for dataset in MOCK.values():
        assert check_dataset(dataset, FOLDER).problems.items == []


def test_two_runs_of_one_seed_predict_the_same_on_the_cpu(
    tiny: Path, run_of_tiny: Path, tmp_path: Path
) -> None:
    tasks = [Task(name) for name in ("mock-ner", "mock-relations", "mock-factoid")]
    run_suite([tiny], tasks, FOLDER, tmp_path / "again", suite="mock", device="cpu")
    first, again = predictions(run_of_tiny), predictions(tmp_path / "again")
    assert len(again) == 3 and again == {name: first[name] for name in again}


@pytest.mark.slow
def test_workers_make_the_files_that_one_process_makes(tiny: Path, run_of_tiny: Path, tmp_path: Path) -> None:
    model = load_results(run_of_tiny).models[0].model
    names = ("mock-ner", "mock-similarity", "mock-nowhere")
    made = []
    for name in names[:2]:
        settings = load_results(run_of_tiny).models[0].tasks[name, ""].runs[0].settings
        kind = {"mock-ner": "tagging", "mock-similarity": "similarity"}[name]
        folder, work = tmp_path / name, tmp_path / "work"
        origin = (tiny, model.name, model.digest)
        made.append(jobs.new_job(origin, MOCK[name], FOLDER, kind, settings, 0, "test", folder, work))
    # A third job names a dataset that does not exist: its worker tells, and the others go on.
    broken = jobs.Job(**{**vars(made[0]), "dataset": names[2], "folder": tmp_path / names[2]})
    told: dict[str, str] = {}
    devices.run_jobs(
        [*made, broken], ["cpu", "cpu"], lambda job, problem: told.update({job.dataset: problem})
    )
    assert told["mock-ner"] == told["mock-similarity"] == ""
    assert "is unknown" in told["mock-nowhere"]
    mine, theirs = predictions(tmp_path), predictions(run_of_tiny)
    assert len(mine) == 2 and mine == {name: theirs[name] for name in mine}
    (record,) = (path for path in (tmp_path / "mock-ner").glob("seed-0-*.json") if path.name.count(".") == 1)
    assert json.loads(record.read_text())["device"].endswith(", 2 runs at once")


def test_evaluate_is_the_same_in_python(tiny: Path, run_of_tiny: Path, tmp_path: Path) -> None:
    scores = biosmith.evaluate(tiny, biosmith.suite("mock"), 1, out=run_of_tiny, device="cpu")
    assert set(scores["datasets"]) == set(MOCK) and scores["problems"] == []
    with pytest.raises(BiosmithError, match="Register at bioasq"):
        biosmith.evaluate(tiny, biosmith.task("bioasq"), 1, data=FOLDER, device="cpu")
    with pytest.raises(UsageError, match="is no folder"):
        biosmith.evaluate(tiny, biosmith.task("bioasq"), 1, data=tmp_path / "nowhere")
    with pytest.raises(UsageError, match="expected a Hugging Face folder or a hub id"):
        biosmith.evaluate(str(tmp_path / "nowhere"), "mock")


def test_wrong_calls_say_what_is_valid(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = ["bench", "run", "--model", str(tiny), "--out", str(tmp_path / "out"), "--suite"]
    assert main([*run, "mock", "--tasks", "chemprot"]) == 2
    assert "valid: mock-ner" in capsys.readouterr().err
    assert main([*run, "mock", "--resume"]) == 2
    assert "nothing to resume" in capsys.readouterr().err
    assert main([*run, "mock", "--device", "cuda:99"]) == 2
    assert main([*run, "mock", "--override", "epoch=1"]) == 3
    assert "epoch" in capsys.readouterr().err
    assert main([*run, "glue"]) == 2
    assert main([*run, "mock", "--seeds", "0"]) == 2
    assert main([*run, "mock", "--jobs", "0"]) == 2


def test_an_unknown_task_is_told_the_datasets_of_the_suite(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call = [
        "bench",
        "run",
        "--suite",
        "mock",
        "--tasks",
        "nope",
        "--model",
        str(tiny),
        "--out",
        str(tmp_path / "x"),
    ]
    assert main(call) == 2
    said = capsys.readouterr().err
    assert f"nope is not in suite mock; valid: {', '.join(MOCK)}" in " ".join(said.split())
