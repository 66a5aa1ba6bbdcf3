"""The papers' ablations: declarations, roles, shared runs, tables."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import biosmith.tasks
from bench.checks import stand_in, write_model
from biosmith.bench import jobs
from biosmith.bench.ablation_tables import ABLATIONS
from biosmith.bench.ablations import arm_name, run_ablations, show_ablations
from biosmith.bench.datasets import find_dataset
from biosmith.bench.grids import fit_kind
from biosmith.bench.results import group_scores, load_results
from biosmith.bench.suites import find_suite
from biosmith.cli import main
from biosmith.errors import UsageError
from biosmith.tasks.fitting import settings_of


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, float]]:
    """Fine-tuning by a stand-in that takes the settings of each kind."""
    done: list[tuple[str, int, float]] = []
    module = stand_in(done)
    module.settings_of = settings_of  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "biosmith.tasks.fitting", module)
    monkeypatch.setattr(biosmith.tasks, "fitting", module, raising=False)
    jobs._load_split.cache_clear()
    return done


def write_data(folder: Path) -> Path:
    """BC5-chem, BC5-disease and JNLPBA in miniature."""
    for name, type in (("BC5CDR-chem", "Chemical"), ("BC5CDR-disease", "Disease"), ("JNLPBA", "protein")):
        for split, count in (("train", 12), ("devel", 4), ("test", 6)):
            path = folder / name / f"{split}.tsv"
            path.parent.mkdir(parents=True, exist_ok=True)
            rows = [f"We\tO\nsaw\tO\nthing{i}\tB-{type}\nagain\tI-{type}\n.\tO\n" for i in range(count)]
            path.write_text("\n".join(rows), encoding="utf-8")
    return folder


def run(models: list[str], data: Path, out: Path, *tasks: str) -> Any:
    return run_ablations(
        models, data, out, tasks=tasks, seeds=2, grid="fixed", device="cpu", override={"epochs": 1}
    )


def test_every_arm_names_settings_that_its_kind_has() -> None:
    for ablation in ABLATIONS.values():
        for name in ablation.datasets:
            dataset = find_dataset(name)
            for arm in ablation.arms:
                settings = {**ablation.settings.get(name, {}), **arm.settings}
                settings_of(fit_kind(dataset))(**settings)


def test_every_reported_figure_has_an_arm() -> None:
    for ablation in ABLATIONS.values():
        width = len(ablation.arms) * max(1, len(ablation.values))
        for name, figures in ablation.reported.items():
            assert name in (*ablation.datasets, "blurb")
            assert len(figures) == width, (ablation.name, name)


@pytest.mark.parametrize("name", ["pubmedbert-table-7", "pubmedbert-table-8", "pubmedbert-table-9"])
def test_reported_blurb_scores_follow_from_the_reported_figures(name: str) -> None:
    # Each column's BLURB score is the mean over groups of means over datasets; a wrong digit would show here.
    ablation = ABLATIONS[name]
    for place in range(len(ablation.arms)):
        means = {dataset: ablation.reported[dataset][place] for dataset in ablation.datasets}
        score = group_scores(find_suite("blurb"), {n: v for n, v in means.items() if v is not None})[1]
        assert score == pytest.approx(ablation.reported["blurb"][place], abs=0.011)


def test_arms_that_ask_for_the_same_thing_share_one_run(tmp_path: Path, fits: list[Any]) -> None:
    # Tables 10 and 11 and the study of labelling all have BC5's linear layer with BIO tags: it is tuned once a seed.
    data = write_data(tmp_path / "data")
    model = write_model(tmp_path)
    names = ("pubmedbert-table-10", "pubmedbert-table-11", "biomegatron-labelling", "BC5-chem", "BC5-disease")
    report = run([f"standard={model}"], data, tmp_path / "out", *names)
    assert report.problems == ()
    # Two datasets, two seeds; arms: standard, Bi-LSTM, BIOUL, IO, all pieces labelled.
    assert report.runs == len(fits) == 2 * 2 * 5
    arms = {arm for dataset, arm in load_results(tmp_path / "out").models[0].tasks if dataset == "BC5-chem"}
    assert arms == {"", "head=bilstm", "scheme=BIOUL", "scheme=IO", "labelled=all"}
    assert run([f"standard={model}"], data, tmp_path / "out", *names).runs == 0


def test_tables_have_the_papers_layout_with_reported_figures_beside(tmp_path: Path, fits: list[Any]) -> None:
    data, out = write_data(tmp_path / "data"), tmp_path / "out"
    report = run([f"standard={write_model(tmp_path)}"], data, out, "pubmedbert-table-11")
    assert report.problems == ()
    shown, tables = show_ablations(load_results(out))
    rows = shown["ablations"]["pubmedbert-table-11"]["rows"]
    io = next(row for row in rows if row["dataset"] == "JNLPBA" and row["arm"] == "IO")
    assert io["reported"] == {"entity_f1": 80.01}
    assert len(io["measured"]["entity_f1"]["seeds"]) == 2
    console = Console(record=True, width=100)
    console.print(tables)
    text = console.export_text()
    assert "Gu et al. (2021), Table 11" in text and "[reported 80.01]" in text and "±" in text
    assert [name for name in ("BIO", "BIOUL", "IO") if name in text] == ["BIO", "BIOUL", "IO"]


def test_an_absent_dataset_is_told_and_the_other_arms_run(tmp_path: Path, fits: list[Any]) -> None:
    data = write_data(tmp_path / "data")
    report = run([f"standard={write_model(tmp_path)}"], data, tmp_path / "out", "pubmedbert-table-10")
    assert {p.task.partition("@")[0] for p in report.problems} == {"ChemProt", "DDI", "GAD"}
    assert report.runs == 3 * 2 * 2


def test_a_role_may_have_several_models_in_depth_against_width(tmp_path: Path, fits: list[Any]) -> None:
    data = tmp_path / "data"
    for split, count in (("train", 12), ("devel", 4), ("test", 6)):
        path = data / "NCBI-disease" / f"{split}.tsv"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(f"gout{i}\tB-Disease\n.\tO\n" for i in range(count)), encoding="utf-8")
    models = []
    for role, layers, width in (("base", 12, 768), ("depth", 6, 768), ("depth", 3, 768), ("width", 12, 384)):
        model = write_model(tmp_path, f"{layers}x{width}")
        config = {"model_type": "bert", "num_hidden_layers": layers, "hidden_size": width}
        (model / "config.json").write_text(json.dumps(config), encoding="utf-8")
        models.append(f"{role}={model}")
    run(models, data, tmp_path / "out", "bioformer-figure-2", "NCBI-disease")
    _, tables = show_ablations(load_results(tmp_path / "out"))
    console = Console(record=True, width=160)
    console.print(tables)
    text = console.export_text()
    for heading in (
        "base (12 × 768)",
        "fewer layers (6 × 768)",
        "fewer layers (3 × 768)",
        "narrower (12 × 384)",
    ):
        assert heading in text


def test_label_bias_needs_no_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Twelve sentences of five words, two of them in a mention: 24 tagged words to 36 others.
    data, out = write_data(tmp_path / "data"), tmp_path / "out"
    arguments = ["--tasks", "biomegatron-table-9", "BC5-chem", "--data", str(data), "--out", str(out)]
    assert main(["bench", "run", "--suite", "ablations", *arguments, "--device", "cpu", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["ablations"]["biomegatron-table-9"]["rows"]
    chem = next(row for row in rows if row["dataset"] == "BC5-chem")
    assert chem["measured"]["bias"]["mean"] == pytest.approx(24 / 36)


def test_roles_and_names_are_checked(
    tmp_path: Path, fits: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    data, model = write_data(tmp_path / "data"), write_model(tmp_path)
    with pytest.raises(UsageError, match="role 'teacher' is unknown; valid: standard"):
        run([f"teacher={model}"], data, tmp_path / "out", "pubmedbert-table-11")
    with pytest.raises(UsageError, match="is not of the form role=folder"):
        run([str(model)], data, tmp_path / "out")
    with pytest.raises(UsageError, match="no ablation and no dataset"):
        run([f"standard={model}"], data, tmp_path / "out", "table-11")
    assert main(["bench", "ablations"]) == 0
    assert "biomegatron-table-5" in capsys.readouterr().out
    assert main(["bench", "ablations", "pubmedbert-table-12"]) == 0
    assert "50.52" in capsys.readouterr().out
    assert arm_name({"b": 1, "a": "x"}) == "a=x,b=1"
