"""Comparisons, units and tables of real records."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from biosmith.bench.comparing import compare_results
from biosmith.bench.evaluating import show_results
from biosmith.bench.mock import FOLDER, MOCK
from biosmith.bench.results import group_scores, load_results
from biosmith.bench.seeds import SeedScores, score_table
from biosmith.bench.submission import pack
from biosmith.bench.suites import Suite, find_suite
from biosmith.bench.tables import suite_table
from biosmith.bench.units import load_units, score_units
from biosmith.cli import main
from biosmith.errors import BadInput, BiosmithError, UsageError
from biosmith.tasks.instances import Question
from biosmith.tasks.tagged import TaggedSentence


def test_a_better_model_is_better_and_p_values_are_raised_for_their_number(mock_results: Path) -> None:
    compared = compare_results(mock_results / "of-good", mock_results / "of-poor")
    assert (compared.a, compared.b, compared.left_out) == ("good", "poor", {})
    assert len(compared.rows) == len(MOCK)
    for row in compared.rows:
        assert row.comparison.difference > 0
        assert row.comparison.seeds == 3
        assert row.randomisation_holm >= row.comparison.randomisation_p
    # Ten questions are few: 9 in 10 against 5 in 10 is no proof once nine datasets are compared.
    answers = next(row for row in compared.rows if row.task == "mock-answers")
    assert answers.comparison.instances == 10 and not answers.as_dict()["significant"]


def test_compare_asks_which_model_where_there_are_several(mock_results: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        compare_results(mock_results / "of-nobody", mock_results / "of-poor")
    both = tmp_path / "both"
    both.mkdir()
    for name in ("good", "poor"):
        (both / name).symlink_to(mock_results / f"of-{name}" / name)
    with pytest.raises(UsageError, match=r"holds 2 models; name one: .*good, .*poor"):
        compare_results(both, mock_results / "of-poor")
    assert compare_results(both / "good", both / "poor").rows


def test_submissions_are_shown_and_compared_as_their_folders_are(mock_results: Path, tmp_path: Path) -> None:
    packed = {}
    for name in ("good", "poor"):
        packed[name] = tmp_path / f"{name}.zip"
        pack(mock_results / f"of-{name}", packed[name])
    folders = compare_results(mock_results / "of-good", mock_results / "of-poor")
    assert compare_results(packed["good"], packed["poor"]) == folders
    assert show_results(packed["good"], None)[0] == show_results(mock_results / "of-good", None)[0]
    (tmp_path / "notes.txt").write_text("no results", encoding="utf-8")
    with pytest.raises(UsageError, match=r"notes.txt is no .zip; expected"):
        show_results(tmp_path / "notes.txt", None)


def test_every_kind_of_dataset_has_a_measure_that_adds_up_to_its_score(mock_results: Path) -> None:
    measures = {}
    for task in load_results(mock_results / "of-good").models[0].tasks.values():
        for run, units in zip(task.runs, task.units(), strict=True):
            assert units.score == pytest.approx(run.value, abs=1e-9)
            measures[run.dataset] = (units.measure, len(units.rows))
    assert measures["mock-ner"] == ("micro_f1", 10)
    assert measures["mock-pico"] == ("macro_f1", 10)
    assert measures["mock-similarity"] == ("pearson", 10)
    assert measures["mock-answers"] == ("mean", 10)
    # Ten sentences make five documents; thirteen contexts belong to ten questions.
    assert measures["mock-documents"] == ("micro_f1", 5)
    assert measures["mock-factoid"] == ("mean", 10)


def test_a_resample_of_units_scores_as_the_dataset_scores_those_instances() -> None:
    # Half the sentences, scored by the scorer and by the sums of their units: PICO's macro F1 is no mean over sentences.
    rng = np.random.default_rng(0)
    for name in ("mock-ner", "mock-pico", "mock-relations", "mock-squad"):
        dataset = MOCK[name]
        gold = list(dataset.load(FOLDER, "train"))
        predicted = [wrong(instance) if rng.random() < 0.3 else right(instance) for instance in gold]
        units = score_units(dataset, gold, predicted, dataset.score(gold, predicted))
        half = [i for i in range(len(gold)) if i % 2]
        expected = dataset.score([gold[i] for i in half], [predicted[i] for i in half])["value"]
        assert float(units.value(units.rows[half].sum(0))) == pytest.approx(expected), name


def right(instance: object) -> object:
    if isinstance(instance, TaggedSentence):
        return list(instance.tags)
    if isinstance(instance, Question):
        return instance.answers[0].text if instance.answers else ""
    return instance.label  # type: ignore[attr-defined]


def wrong(instance: object) -> object:
    if isinstance(instance, TaggedSentence):
        inside = max(
            instance.tags
        )  # "O" sorts after every "B-..." and "I-...", so this is "O" where there is any
        return [inside] * (len(instance.words) - 1) + [min(instance.tags)]
    return "" if isinstance(instance, Question) else "false"


def test_a_score_that_does_not_add_up_is_refused() -> None:
    dataset = MOCK["mock-answers"]
    gold = dataset.load(FOLDER, "test")
    predicted = [str(i.label) for i in gold]
    with pytest.raises(BiosmithError, match=r"but its instances add up to 1\.0"):
        score_units(dataset, gold, predicted, {"value": 0.123})


def test_damaged_units_are_named(tmp_path: Path) -> None:
    path = tmp_path / "x.units.json"
    path.write_text('{"measure": "magic", "rows": [[1]]}', encoding="utf-8")
    with pytest.raises(BadInput, match="magic"):
        load_units(path)
    path.write_text("[" * 100_000, encoding="utf-8")
    with pytest.raises(BadInput, match="is not a file of scored units"):
        load_units(path)


def test_the_blurb_score_of_pubmedbert_is_the_papers() -> None:
    # Gu et al., Table 6: the mean over six groups of the means over their datasets is printed as 81.10... from these:
    means = dict(
        zip(
            [n for names in find_suite("blurb").groups.values() for n in names],
            (93.33, 85.62, 87.82, 84.52, 80.06, 73.38, 77.24, 82.36, 82.34, 92.30, 82.32, 55.84, 87.56),
            strict=True,
        )
    )
    groups, score, missing = group_scores(find_suite("blurb"), means)
    # NER 86.27, PICO 73.38, relations 80.65, similarity 92.30, documents 82.32, answers 71.70.
    assert groups["NER"] == pytest.approx(86.27) and groups["Question answering"] == pytest.approx(71.70)
    assert score == pytest.approx(81.10, abs=0.005) and missing == []
    del means["BioASQ"]
    groups, score, missing = group_scores(find_suite("blurb"), means)
    assert score is None and missing == ["BioASQ"] and "Question answering" not in groups


def test_a_suite_may_be_averaged_over_its_datasets() -> None:
    suite = Suite("x", {"a": ("p", "q"), "b": ("r",)}, average="datasets")
    assert group_scores(suite, {"p": 1.0, "q": 0.0, "r": 0.5})[1] == 0.5
    assert group_scores(suite, {"p": 1.0, "q": 1.0, "r": 0.4})[1] == pytest.approx(0.8)


def test_show_and_compare_print_the_keys_of_the_contract(
    mock_results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "show", str(mock_results / "of-good"), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert {"groups", "datasets", "mock", "missing"} <= set(shown)
    assert {"mean", "sd", "seeds", "ci95"} <= set(shown["datasets"]["mock-ner"])
    # The suite of another name: nothing of it is there, and it says so.
    assert main(["bench", "show", str(mock_results / "of-good"), "--suite", "blurb", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["blurb"] is None and len(shown["missing"]) == 13
    folders = [str(mock_results / "of-good"), str(mock_results / "of-poor")]
    assert main(["bench", "compare", *folders, "--json", "--resamples", "200"]) == 0
    compared = json.loads(capsys.readouterr().out)
    assert compared["comparisons"] == 9 and compared["adjusted"] == "Holm"
    assert main(["bench", "compare", *folders]) == 0
    assert "Holm" in capsys.readouterr().out


def test_names_of_models_are_shown_as_they_are(
    mock_results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # What stands in square brackets would be taken for a style, and a closing one for a fault.
    shutil.copytree(mock_results / "of-good", tmp_path / "results")
    path = tmp_path / "results" / "good" / "model.json"
    path.write_text(path.read_text("utf-8").replace('"name": "good"', '"name": "a[red]b[/c]"'), "utf-8")
    assert main(["bench", "show", str(tmp_path / "results")]) == 0
    assert "a[red]b[/c]" in capsys.readouterr().out
    call = ["bench", "compare", str(tmp_path / "results"), str(mock_results / "of-poor"), "--resamples", "9"]
    assert main(call) == 0
    assert "A: a[red]b[/c], B: poor" in capsys.readouterr().out
    assert "a[red]b[/c]" in str(score_table([SeedScores("a[red]b[/c]", {})]).columns[1].header)


@pytest.mark.parametrize("resamples", [0, -1])
def test_without_a_resample_nothing_is_compared(
    mock_results: Path, resamples: int, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(mock_results / "of-good")
    assert main(["bench", "compare", folder, folder, "--resamples", str(resamples)]) == 2
    assert f"resamples must be at least 1, not {resamples}" in capsys.readouterr().err


def test_a_models_folder_is_itself_also_from_inside(
    mock_results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = show_results(mock_results / "of-good" / "good", None)[0]
    pack(mock_results / "of-good" / "good", tmp_path / "outside.zip")
    for here, folder in (("", Path()), ("mock-ner", Path(".."))):
        monkeypatch.chdir(mock_results / "of-good" / "good" / here)
        assert show_results(folder, None)[0] == shown and shown["suite"] == "mock"
        pack(folder, tmp_path / f"inside-{here}.zip")
        assert (tmp_path / f"inside-{here}.zip").read_bytes() == (tmp_path / "outside.zip").read_bytes()


def test_beside_many_models_no_name_and_no_score_is_cut_short(mock_results: Path) -> None:
    # "bioform…" twice would be two models of one name, and nine rows "mock…" would be nothing at all.
    model = load_results(mock_results / "of-good").models[0]
    names = ["bioformer-8l", "bioformer-16l", "pubmedbert-abstract", "biobert-v1.1", "biolinkbert", "mine"]
    models = [replace(model, model=replace(model.model, name=name)) for name in names]
    console = Console(width=80, file=StringIO(), record=True)
    console.print(suite_table(models, find_suite("mock")))
    shown = console.export_text()
    assert "…" not in shown and all(f"  {name} " in shown for name in MOCK)
    assert shown.count("96.08") == 2 * len(models)  # of the dataset and of its group, in one piece


@pytest.mark.parametrize("width", [200, 80, 72, 60, 40, 24])
def test_a_comparison_in_a_narrow_window_cuts_no_number(
    mock_results: Path, width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    call = [
        "bench",
        "compare",
        str(mock_results / "of-good"),
        str(mock_results / "of-poor"),
        "--resamples",
        "50",
    ]
    assert main([*call, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["datasets"]
    assert main(call) == 0
    shown = capsys.readouterr().out
    assert "…" not in shown and all(name in shown for name in MOCK)
    for row in rows:
        numbers = [f"{100 * row[key]:.2f}" for key in ("a", "b")]
        numbers += [
            f"{100 * row['difference']:+.2f}",
            f"{100 * row['low']:+.2f},",
            f"{100 * row['high']:+.2f}",
        ]
        numbers += [f"{row[key]:.4f}" for key in ("bootstrap_holm", "randomisation_holm")]
        assert set(numbers) <= {word.rstrip("*") for word in shown.split()}
