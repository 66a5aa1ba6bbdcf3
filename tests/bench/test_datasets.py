"""Datasets: what is in their files, what is wrong with them, and scores of anybody's predictions."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from biosmith.bench.datasets import find_dataset
from biosmith.bench.listing import list_splits
from biosmith.bench.scoring import score_predictions
from biosmith.bench.suites import find_suite
from biosmith.cli import main
from biosmith.errors import BadInput, UsageError


def write(path: Path, *rows: Sequence[object]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join("\t".join(map(str, row)) + "\n" for row in rows), encoding="utf-8")
    return path


def predict(path: Path, predictions: Sequence[Any], ids: Sequence[object] | None = None) -> Path:
    names = range(len(predictions)) if ids is None else ids
    lines = [json.dumps({"id": id, "prediction": p}) for id, p in zip(names, predictions, strict=True)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


# What the public files are known to differ in from the paper (SOURCES-*.md of the data).
DIFFERENT = {("BC5-disease", "dev"), ("EBM-PICO", "train"), ("EBM-PICO", "dev")}
DIFFERENT |= {("BioASQ", split) for split in ("train", "dev", "test")}


def test_every_split_at_hand_counts_what_the_paper_counts(shared_data: Path) -> None:
    rows = list_splits(find_suite("blurb").datasets, shared_data / "benchmarks")
    assert len(rows) == 13 * 3
    assert {(r["dataset"], r["split"]) for r in rows if not r["matches"]} == DIFFERENT
    by_split = {(r["dataset"], r["split"]): r for r in rows}
    assert all(by_split[key]["note"] for key in DIFFERENT)
    assert by_split["BC5-disease", "dev"]["mentions"] == 4246
    assert by_split["EBM-PICO", "dev"]["words"] == 87308
    # Text of BioASQ may not be shipped: only the ids are there, as many as the paper counts.
    assert [by_split["BioASQ", s]["listed"] for s in ("train", "dev", "test")] == [670, 75, 140]
    # Label counts of SOURCES-sequence.md.
    assert by_split["ChemProt", "test"]["positives"] == 15745 - 12315
    assert by_split["DDI", "test"]["positives"] == 979
    assert by_split["GAD", "train"]["positives"] == 2227
    assert by_split["HoC", "test"]["sentences"] == 3547
    assert by_split["HoC", "test"]["positives"] == 62 + 14 + 19 + 24 + 53 + 65 + 23 + 79 + 105 + 40


BLURB = [d.about.name for d in find_suite("blurb").datasets]


@pytest.mark.parametrize("name", [name for name in BLURB if name != "BioASQ"])
def test_gold_as_prediction_scores_one(shared_data: Path, tmp_path: Path, name: str) -> None:
    dataset = find_dataset(name)
    instances = dataset.load(shared_data / "benchmarks", "test")
    gold = [
        list(i.tags) if hasattr(i, "tags") else list(i.label) if isinstance(i.label, tuple) else i.label
        for i in instances
    ]
    file = predict(tmp_path / "p.jsonl", gold, dataset.names(instances))
    scores = score_predictions(dataset, shared_data / "benchmarks", file)
    assert scores["value"] == pytest.approx(1.0)
    assert scores["instances"] == len(instances)
    assert len(scores["protocol"]["fingerprint"]) == 16


def chemprot(folder: Path) -> Path:
    labels = ["false", "false", "false", "CPR:3", "CPR:4"]
    for split in ("train", "dev", "test"):
        rows = [(f"{split}{i}.T1.T2", f"@CHEMICAL$ and @GENE$ {i}", x) for i, x in enumerate(labels)]
        write(folder / "chemprot" / "blurb" / f"{split}.tsv", *rows)
    return folder


def test_chemprot_never_rewards_the_negative_class(tmp_path: Path) -> None:
    # Gold: three negatives, CPR:3, CPR:4. All called negative: 3 of 5 labels are right, yet nothing is found.
    data = chemprot(tmp_path / "data")
    nothing = score_predictions(find_dataset("chemprot"), data, predict(tmp_path / "a", ["false"] * 5))
    assert (nothing["value"], nothing["precision"], nothing["recall"]) == (0.0, 0.0, 0.0)
    # One of two relations found, one negative called a relation: precision 1/2, recall 1/2.
    half = predict(tmp_path / "b", ["CPR:9", "false", "false", "CPR:3", "false"])
    assert score_predictions(find_dataset("chemprot"), data, half)["f1"] == 0.5


def test_ddi_is_micro_f1_over_four_types(tmp_path: Path) -> None:
    # Found: effect, effect of 3 relations; int taken for advise is wrong and missed: precision 2/3, recall 2/3. The
    # macro average over types would be (1 + 0 + 0 + 0) / 4.
    labels = ["DDI-effect", "DDI-effect", "DDI-int", "DDI-false"]
    data = tmp_path / "ddi"
    write(data / "test.tsv", *((f"d{i}", "@DRUG$ @DRUG$", x) for i, x in enumerate(labels)))
    file = predict(tmp_path / "p", ["DDI-effect", "DDI-effect", "DDI-advise", "DDI-false"])
    scores = score_predictions(find_dataset("DDI"), data, file)
    assert scores["value"] == pytest.approx(2 / 3)


def hoc_labels(*present: int) -> str:
    return ",".join(f"{k}_{int(k in present)}" for k in range(10))


def test_hoc_is_scored_by_abstract_over_all_abstracts(tmp_path: Path) -> None:
    # Abstract 1 has labels 3 (both sentences) and 5 (second sentence); abstract 2 has none. Predicted: 3 in the first
    # sentence only, 9 for abstract 2. By abstract: 1 of 2 predicted is right, 1 of 2 gold is found, so F1 is 1/2. By
    # sentence, recall would be 1 of 3; without the unlabelled abstract precision would be 1.
    write(
        tmp_path / "hoc" / "test.tsv",
        ("labels", "sentence", "index"),
        (hoc_labels(3), "a", "1_s0"),
        (hoc_labels(3, 5), "b", "1_s1"),
        (hoc_labels(), "c", "2_s0"),
    )
    file = predict(tmp_path / "p", [["3"], [], ["9"]], ["1_s0", "1_s1", "2_s0"])
    scores = score_predictions(find_dataset("hoc"), tmp_path, file)
    assert (scores["precision"], scores["recall"], scores["value"]) == (0.5, 0.5, 0.5)
    assert (scores["documents"], scores["instances"]) == (2, 3)


def test_biosses_is_pearson_over_the_pairs_of_the_test_split(tmp_path: Path) -> None:
    # 20 pairs with scores 0, 0.2, ... 3.8; predictions 1 - score / 4 fall exactly as they rise: r = -1.
    rows = [(i, f"a{i}", f"b{i}", i / 5) for i in range(20)]
    write(tmp_path / "biosses" / "test.tsv", ("pair_id", "sent1", "sent2", "score"), *rows)
    file = predict(tmp_path / "p", [1 - i / 20 for i in range(20)])
    scores = score_predictions(find_dataset("biosses"), tmp_path, file)
    assert scores["value"] == pytest.approx(-1.0)
    assert scores["pairs"] == 20


def test_ner_predictions_are_read_both_ways(tmp_path: Path) -> None:
    # A mention that begins with I is right for CoNLL's script and no mention for the strict reader.
    write(tmp_path / "NCBI-disease" / "test.tsv", ("gout", "B-Disease"), ("is", "O"), ("rare", "O"))
    file = predict(tmp_path / "p", [["I-Disease", "O", "O"]])
    scores = score_predictions(find_dataset("ncbi_disease"), tmp_path, file)
    assert (scores["value"], scores["strict"]["f1"]) == (1.0, 0.0)


def test_the_types_of_jnlpba_are_merged_into_one(tmp_path: Path) -> None:
    # Gu et al., sections 4.1 and 5.2: "we ignore the type distinction". Two gold mentions; one is found under another
    # type, one is missed, nothing is made up: precision 1, recall 1/2, F1 2/3. With types nothing would be right.
    rows = [("IL-2", "B-protein"), ("gene", "I-protein"), ("of", "O"), ("T", "B-cell_type")]
    write(tmp_path / "JNLPBA" / "test.tsv", *rows)
    dataset = find_dataset("JNLPBA")
    assert dataset.load(tmp_path, "test")[0].tags == ("B", "I", "O", "B")
    for tags in (["B-DNA", "I-DNA", "O", "O"], ["B", "I", "O", "O"]):
        scores = score_predictions(dataset, tmp_path, predict(tmp_path / "p", [tags]))
        assert (scores["precision"], scores["value"]) == (1.0, pytest.approx(2 / 3))
    assert scores["protocol"]["types"] == "merged into one"


def test_predictions_may_come_in_another_order_if_their_ids_say_so(tmp_path: Path) -> None:
    data = chemprot(tmp_path / "data")
    gold = ["false", "false", "false", "CPR:3", "CPR:4"]
    ids = [f"test{i}.T1.T2" for i in range(5)]
    file = predict(tmp_path / "p", gold[::-1], ids[::-1])
    assert score_predictions(find_dataset("chemprot"), data, file)["value"] == 1.0


def test_ids_that_are_numbers_are_no_mere_counting_where_the_dataset_has_them_too(tmp_path: Path) -> None:
    # The pairs of the file are 3, 1, 2; predictions sorted by id are the gold scores all the same.
    header = ("pair_id", "sent1", "sent2", "score")
    rows = [(3, "a", "b", 0.5), (1, "c", "d", 3.0), (2, "e", "f", 2.0)]
    write(tmp_path / "biosses" / "test.tsv", header, *rows)
    file = predict(tmp_path / "p", [3.0, 2.0, 0.5], ["1", "2", "3"])
    assert score_predictions(find_dataset("biosses"), tmp_path, file)["value"] == pytest.approx(1.0)


def test_lines_are_counted_as_in_the_file(tmp_path: Path) -> None:
    # Blank lines count, and equal predictions do not stand for each other (True == 1).
    header = ("pair_id", "sent1", "sent2", "score")
    write(tmp_path / "biosses" / "test.tsv", header, (1, "a", "b", 2.0), (2, "a", "b", 3.0))
    (tmp_path / "p").write_text('{"prediction": 1}\n\n{"prediction": true}\n', encoding="utf-8")
    with pytest.raises(BadInput, match="line 3: a number is expected"):
        score_predictions(find_dataset("biosses"), tmp_path, tmp_path / "p")
    damaged = tmp_path / "p.gz"
    damaged.write_bytes(gzip.compress((tmp_path / "p").read_bytes())[:-9])
    with pytest.raises(BadInput, match=r"p\.gz, after line \d: is damaged"):
        score_predictions(find_dataset("biosses"), tmp_path, damaged)


@pytest.mark.parametrize(
    ("predictions", "ids", "message"),
    [
        (["false"] * 4, None, "has 4 predictions for 5 instances"),
        (
            ["false", "CPR:7", "false", "false", "false"],
            None,
            r"line 2: not a label; valid: false, CPR:3.*'CPR:7'",
        ),
        # In another order, so that it is not the place that is wrong.
        (
            ["false"] * 5,
            [f"test{i}.T1.T2" for i in (4, 3, 3, 1, 0)],
            "line 3: this id stands on line 2 already",
        ),
        (["false"] * 5, ["test0.T1.T2", *"abcd"], r"line 2: the instance in this place is 'test1.T1.T2'"),
    ],
)
def test_predictions_that_do_not_fit_are_named_by_line(
    tmp_path: Path, predictions: list[str], ids: list[str] | None, message: str
) -> None:
    data = chemprot(tmp_path / "data")
    with pytest.raises(BadInput, match=message):
        score_predictions(find_dataset("chemprot"), data, predict(tmp_path / "p", predictions, ids))


@pytest.mark.parametrize(
    ("name", "prediction", "message"),
    [
        ("NCBI-disease", ["O"], "line 1: a list of 2 tags is expected"),
        ("NCBI-disease", "O", "line 1: a list of 2 tags is expected"),
        ("NCBI-disease", ["O", "Disease"], "line 1: not a tag"),
        ("BIOSSES", "4", "line 1: a number is expected"),
        ("BIOSSES", 10**400, "line 1: a number is expected"),  # of more digits than a float has
        ("HoC", ["11"], "line 1: a list of labels is expected; valid: 0, 1"),
        ("HoC", "3", "line 1: a list of labels is expected"),
    ],
)
def test_predictions_of_the_wrong_kind_are_refused(
    tmp_path: Path, name: str, prediction: object, message: str
) -> None:
    write(tmp_path / "NCBI-disease" / "test.tsv", ("gout", "B-Disease"), ("is", "O"))
    write(tmp_path / "hoc" / "test.tsv", ("labels", "sentence", "index"), (hoc_labels(3), "a", "1_s0"))
    header = ("pair_id", "sent1", "sent2", "score")
    write(tmp_path / "biosses" / "test.tsv", header, (1, "a", "b", 2.0), (2, "a", "b", 3.0))
    predictions = [prediction, 1.0] if name == "BIOSSES" else [prediction]
    with pytest.raises(BadInput, match=message):
        score_predictions(find_dataset(name), tmp_path, predict(tmp_path / "p", predictions))


def test_lines_that_are_no_prediction_are_named(tmp_path: Path) -> None:
    data = chemprot(tmp_path / "data")
    (tmp_path / "p").write_text('{"id": 1, "prediction": "false"}\n{"id": 2}\n', encoding="utf-8")
    with pytest.raises(BadInput, match=r'line 2: an object with "id" and "prediction"'):
        score_predictions(find_dataset("chemprot"), data, tmp_path / "p")


def test_bioasq_is_read_from_the_users_own_copy(tmp_path: Path) -> None:
    folder = tmp_path / "bioasq"
    write(folder / "indexing" / "test_id.tsv", ["q2,q1,q9"])
    questions = [
        {"id": "q1", "body": "Is it?", "type": "yesno", "exact_answer": "Yes", "snippets": [{"text": "A."}]},
        {
            "id": "q2",
            "body": "Does it?",
            "exact_answer": ["no"],
            "snippets": [{"text": "B."}, {"text": "C."}],
        },
    ]
    dataset = find_dataset("BioASQ")
    with pytest.raises(UsageError, match="Register at bioasq"):
        dataset.load(tmp_path, "test")
    (folder / "7B1_golden.json").write_text(json.dumps({"questions": questions}), encoding="utf-8")
    with pytest.raises(BadInput, match="question q9: is in none of the question files"):
        dataset.load(tmp_path, "test")
    write(folder / "indexing" / "test_id.tsv", ["q2,q1"])
    assert [(i.id, i.text, i.pair, i.label) for i in dataset.load(tmp_path, "test")] == [
        ("q2", "Does it?", "B. C.", "no"),
        ("q1", "Is it?", "A.", "yes"),
    ]


def test_bioasq_of_any_edition_is_read_from_its_own_folders(tmp_path: Path) -> None:
    def ask(id: str, type: str, **answer: str) -> dict[str, Any]:
        return {"id": id, "type": type, "body": "Is it?", "snippets": [{"text": "A."}], **answer}

    contents = {
        "BioASQ-training12b/training12b_new.json": [
            ask("a", "yesno", exact_answer="yes"),
            ask("b", "factoid", exact_answer="x"),
        ],
        "Task12BGoldenEnriched/12B1_golden.json": [ask("c", "yesno", exact_answer="no")],
        "phaseB/BioASQ-task12bPhaseB-testset1.json": [
            ask("c", "yesno")
        ],  # without answers, as given to the teams
    }
    for name, questions in contents.items():
        path = tmp_path / "bioasq" / name
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({"questions": questions}), encoding="utf-8")
    dataset = find_dataset("BioASQ")
    assert [(i.id, i.label) for s in ("train", "test") for i in dataset.load(tmp_path, s)] == [
        ("a", "yes"),
        ("c", "no"),
    ]
    # BLURB's lists go before the names of the files.
    write(tmp_path / "bioasq" / "indexing" / "dev_id.tsv", ["c,a"])
    assert [i.id for i in dataset.load(tmp_path, "dev")] == ["c", "a"]
    with pytest.raises(UsageError, match=r"has no train split here \(found: dev\)"):
        dataset.load(tmp_path, "train")


def test_tables_of_other_editions_are_read_by_the_names_of_their_columns(tmp_path: Path) -> None:
    # BLUE's BIOSSES and DDI: other names, other columns among them, a header where BLURB has none.
    header = ("index", "genre", "year", "sentence1", "sentence2", "score")
    write(tmp_path / "biosses/train.tsv", header, (7, "x", "y", "A", "B", 3.5), (8, "x", "y", "A"))
    with pytest.raises(BadInput, match=r"line 3: has 4 columns, not 6 \(index, genre, .*, score\)"):
        find_dataset("biosses").load(tmp_path, "train")
    write(tmp_path / "biosses/train.tsv", header, (7, "x", "y", "A", "B", 3.5))
    (pair,) = find_dataset("biosses").load(tmp_path, "train")
    assert (pair.id, pair.text, pair.pair, pair.label) == ("7", "A", "B", 3.5)
    write(tmp_path / "ddi/train.tsv", ("index", "sentence", "label"), ("d1", "@DRUG$", "DDI-int"))
    (relation,) = find_dataset("DDI").load(tmp_path, "train")
    assert (relation.id, relation.label, relation.line) == ("d1", "DDI-int", 2)


def test_missing_datasets_say_where_to_get_them(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"ChemProt is not in .*expected chemprot/blurb.*BioCreative"):
        find_dataset("chemprot").load(tmp_path, "test")
    with pytest.raises(UsageError, match="dataset 'xyz' is unknown; valid: BC5-chem"):
        find_dataset("xyz")
    with pytest.raises(UsageError, match="suite 'glue' is unknown; valid: blurb"):
        find_suite("glue")


def test_the_commands_print_their_contract(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = chemprot(tmp_path / "data")
    assert main(["data", "ls", "--suite", "blurb", "--data", str(data), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == 39
    row = next(r for r in rows if (r["dataset"], r["split"]) == ("ChemProt", "test"))
    assert (row["instances"], row["paper"], row["matches"]) == (5, 15745, False)
    assert main(["data", "check", "chemprot", "--data", str(data)]) == 0
    assert "nothing is wrong" in capsys.readouterr().out
    file = predict(tmp_path / "p.jsonl", ["false"] * 5)
    arguments = ["bench", "score", "chemprot", "--data", str(data), "--predictions", str(file)]
    assert main([*arguments, "--json"]) == 0
    scored = json.loads(capsys.readouterr().out)
    assert {"metric", "value", "precision", "recall", "f1", "truncated", "protocol"} <= set(scored)
    assert main(arguments) == 0
    assert "ChemProt test: micro_f1 0.00" in capsys.readouterr().out


def test_hoc_counts_all_371_test_abstracts_those_without_a_label_too(
    shared_data: Path, tmp_path: Path
) -> None:
    # The gold labels, and label 0 for the first sentence of each abstract that has none. SOURCES-sequence.md: 484 labels,
    # 53 abstracts without one. All 484 are found, 484 + 53 are predicted: F1 = 2 * 484 / (484 + 484 + 53). A scorer that
    # leaves the 53 abstracts out gives 1; one that scores sentences gives another value again.
    dataset = find_dataset("hoc")
    instances = dataset.load(shared_data / "benchmarks", "test")
    labelled = {i.group for i in instances if i.label}
    predictions, seen = [], set()
    for i in instances:
        invented = i.group not in labelled and i.group not in seen
        predictions.append(["0"] if invented else list(i.label))
        seen.add(i.group)
    file = predict(tmp_path / "p", predictions, dataset.names(instances))
    scores = score_predictions(dataset, shared_data / "benchmarks", file)
    assert (scores["documents"], len(seen - labelled)) == (371, 53)
    assert scores["value"] == pytest.approx(2 * 484 / (484 + 484 + 53))


@pytest.mark.parametrize(
    ("name", "label", "found", "relations", "pairs"),
    [("chemprot", "CPR:4", 1655, 3430, 15745), ("ddi", "DDI-effect", 360, 979, 5716)],
)
def test_relations_are_never_rewarded_for_the_negative_class(
    shared_data: Path, tmp_path: Path, name: str, label: str, found: int, relations: int, pairs: int
) -> None:
    dataset, data = find_dataset(name), shared_data / "benchmarks"
    # One label for every pair: right for `found` of them, predicted `pairs` times, against all relations.
    same = score_predictions(dataset, data, predict(tmp_path / "a", [label] * pairs))
    assert same["value"] == pytest.approx(2 * found / (pairs + relations))
    # The negative class throughout: four of five labels are right, and nothing is found.
    negative = predict(tmp_path / "b", [getattr(dataset, "negative", "")] * pairs)
    nothing = score_predictions(dataset, data, negative)
    assert (nothing["value"], nothing["gold"], nothing["predicted"]) == (0.0, relations, 0)


def test_biosses_correlates_the_twenty_pairs_of_its_test_split(shared_data: Path, tmp_path: Path) -> None:
    dataset = find_dataset("biosses")
    gold = [i.label for i in dataset.load(shared_data / "benchmarks", "test")]
    # Scores from 0 to 4 turned round: the correlation is -1 whatever their scale.
    file = predict(tmp_path / "p", [(4 - g) / 4 for g in gold])
    scores = score_predictions(dataset, shared_data / "benchmarks", file)
    assert (scores["value"], scores["pairs"]) == (pytest.approx(-1.0), 20)


def test_tasks_and_suites_are_public_and_importing_them_is_light(tmp_path: Path) -> None:
    import biosmith

    data = chemprot(tmp_path)
    task = biosmith.task("chemprot")
    assert (task.about.name, len(task.load(str(data), "test"))) == ("ChemProt", 5)
    assert biosmith.suite("blurb").groups["Sentence similarity"] == ("BIOSSES",)
    assert {"task", "suite"} <= set(biosmith.__all__)
    code = "import biosmith, sys; biosmith.task('chemprot'); print('torch' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout.strip()
        == b"False"
    )


def test_a_line_that_is_nested_too_deeply_is_named(tmp_path: Path) -> None:
    (tmp_path / "p").write_text('{"id": 0, "prediction": "false"}\n' + "[" * 100_000, encoding="utf-8")
    with pytest.raises(BadInput, match=r"p, line 2: is not JSON"):
        score_predictions(find_dataset("chemprot"), chemprot(tmp_path / "data"), tmp_path / "p")
