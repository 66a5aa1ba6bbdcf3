"""The commands for every task, on the mock datasets and on files of a user's own."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import biosmith.bench.mock
from biosmith.artefact import Manifest, digest_file, load_manifest
from biosmith.bench.locating import locate
from biosmith.bench.scoring import score_predictions
from biosmith.cli import main
from biosmith.errors import BadInput, UsageError
from biosmith.rejects import Rejects
from biosmith.tasks.data_files import OwnData, own_kind, score_kind
from biosmith.tasks.finetuning import evaluate, fit_source, write_predictions
from biosmith.tasks.instances import Answer, Entity, Instance, Question
from biosmith.tasks.locking import hold
from biosmith.tasks.settings import AnswerSettings, SequenceSettings

MOCK = Path(biosmith.bench.mock.__file__).parent
Command = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    def run(*arguments: object) -> tuple[int, dict[str, Any]]:
        code = main([*map(str, arguments), "--json"])
        printed = capsys.readouterr()
        return code, json.loads(printed.out) if printed.out.strip() else {"error": printed.err}

    return run


@pytest.mark.parametrize(("task", "folder"), [("pico", "pico"), ("relation", "relations")])
def test_two_processes_do_not_make_one_folder(
    task: str, folder: str, tiny_model: Path, tmp_path: Path, command: Command
) -> None:
    # The second would go on from the first one's checkpoints, and remove them when it is done.
    out, work = tmp_path / "out", tmp_path / ".out.partial"
    call = (
        "finetune",
        task,
        "--model",
        tiny_model,
        "--data",
        MOCK / folder,
        "--out",
        out,
        "--override",
        "epochs=1",
    )
    with hold(work, out):
        code, made = command(*call)
    assert code == 2 and f"another process is making {out}" in made["error"]
    assert not out.exists() and not work.exists()
    assert command(*call)[0] == 0 and not work.exists()


# Kills itself where it would call a function of a module; of those that remove a folder, with the whole work folder.
KILLED_BEFORE = """
import os, signal, sys
from biosmith.cli import main
from biosmith.tasks import locking, tuned_folder

def die(path, *args, **options):
    if name == "_add_metrics" or path.name == ".out.partial":
        os.kill(os.getpid(), signal.SIGKILL)

name = sys.argv[1]
setattr(tuned_folder if name == "_add_metrics" else locking.shutil, name, die)
main(sys.argv[2:])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no signal there that cannot be caught")
@pytest.mark.parametrize("task", ["classification", "pico"])
def test_what_a_killed_run_leaves_is_gone_after_the_next_one(
    task: str, tiny_model: Path, tmp_path: Path, command: Command
) -> None:
    data = MOCK / {"classification": "classes", "pico": "pico"}[task]
    home = tmp_path / "home"
    call = ["finetune", task, "--model", tiny_model, "--data", data, "--out", home / "out"]
    call += ["--override", "epochs=1", "device=cpu"]

    def kill(before: str) -> list[str]:
        run = [sys.executable, "-c", KILLED_BEFORE, before, *map(str, call)]
        assert subprocess.run(run, capture_output=True).returncode == -signal.SIGKILL
        return sorted(path.name for path in home.iterdir())

    assert kill("_add_metrics") == [".out.partial"], "half a model lies where it is found"
    assert command(*call)[0] == 0
    assert [path.name for path in home.iterdir()] == ["out"]
    assert load_manifest(home / "out").kind == "tuned"
    shutil.rmtree(home / "out")
    assert kill("rmtree") == [".out.partial", "out"], "killed when all was there"
    code, made = command(*call)
    assert code == 2 and "exists already" in made["error"]
    assert [path.name for path in home.iterdir()] == ["out"]


def test_the_checkpoints_of_a_run_outlast_another_model_at_its_place(
    tiny_model: Path, tmp_path: Path, command: Command
) -> None:
    work = tmp_path / ".out.partial"
    work.mkdir()
    (work / "checkpoint.pt").write_bytes(b"days of work")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").write_text("of the user", encoding="utf-8")
    call = ("finetune", "classification", "--model", tiny_model, "--data", MOCK / "classes", "--out")
    assert command(*call, tmp_path / "out")[0] == 2
    assert (work / "checkpoint.pt").read_bytes() == b"days of work"


@pytest.mark.parametrize(
    ("task", "folder", "metric"),
    [
        ("relation", "relations", "micro_f1"),
        ("similarity", "similarity", "pearson"),
        ("document", "documents", "micro_f1"),
        ("classification", "classes", "accuracy"),
        ("yesno", "answers", "accuracy"),
        ("answers", "squad", "f1"),
        ("pico", "pico", "word_f1_macro"),
    ],
)
def test_every_task_is_tuned_and_scored_by_the_commands(
    task: str, folder: str, metric: str, tiny_model: Path, tmp_path: Path, command: Command
) -> None:
    out, data = tmp_path / "out", MOCK / folder
    quick = ("--override", "epochs=1", "learning_rate=0.005", "device=cpu")
    code, made = command("finetune", task, "--model", tiny_model, "--data", data, "--out", out, *quick)
    assert code == 0, made
    assert made["task"] == task and made["epochs"] == 1 and made["tokens_per_second"] > 0
    manifest = load_manifest(out, "tuned")
    digests = {item["digest"] for item in manifest.inputs}
    suffix = ".json" if folder == "squad" else ".tsv"
    assert {digest_file(data / f"{split}{suffix}") for split in ("train", "dev")} <= digests
    assert digest_file(data / f"test{suffix}") not in digests
    code, scored = command("evaluate", out, "--data", data, "--device", "cpu")
    assert code == 0, scored
    assert scored["metric"] == metric and -1 <= scored["value"] <= 1
    assert scored["task"] == task and scored["split"] == "test" and scored["truncated"] >= 0
    if metric == "micro_f1":
        assert {"precision", "recall", "f1"} <= set(scored)


def test_predictions_are_written_for_bench_score(tiny_model: Path, tmp_path: Path, command: Command) -> None:
    out, file = tmp_path / "out", tmp_path / "predictions.jsonl"
    data = MOCK / "classes"
    quick = ("--override", "epochs=1", "device=cpu")
    command("finetune", "classification", "--model", tiny_model, "--data", data, "--out", out, *quick)
    command("evaluate", out, "--data", data, "--device", "cpu", "--predictions", file)
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    rows = (data / "test.tsv").read_text(encoding="utf-8").splitlines()
    assert [line["id"] for line in lines] == [row.split("\t")[0] for row in rows]
    assert {line["prediction"] for line in lines} <= {"background", "method", "result"}


@pytest.mark.parametrize(("task", "folder"), [("ner", "ner"), ("pico", "pico")])
def test_tags_are_written_for_bench_score_which_gives_the_same_score(
    task: str, folder: str, tiny_model: Path, tmp_path: Path, command: Command
) -> None:
    out, data, file = tmp_path / "out", MOCK / folder, tmp_path / "predictions.jsonl"
    quick = ("--override", "epochs=20", "learning_rate=0.01", "batch_size=4", "device=cpu")
    command("finetune", task, "--model", tiny_model, "--data", data, "--out", out, *quick)
    code, scored = command("evaluate", out, "--data", data, "--device", "cpu", "--predictions", file)
    assert code == 0 and scored["value"] > 0, scored
    dataset = biosmith.bench.mock.MOCK[f"mock-{folder}"]
    again = score_predictions(dataset, MOCK, file)
    assert {key: scored[key] for key in ("value", "precision", "recall")} == {
        key: again[key] for key in ("value", "precision", "recall")
    }
    assert again["instances"] == scored["sentences"]


def test_options_that_would_have_no_effect_are_refused(
    tiny_model: Path, tmp_path: Path, command: Command
) -> None:
    out, data = tmp_path / "out", MOCK / "classes"
    call = ("finetune", "classification", "--model", tiny_model, "--data", data, "--out", out)
    code, made = command(*call, "--rename", "method=Method", "--override", "epochs=1", "device=cpu")
    assert code == 2 and "--rename has no effect on classification" in made["error"]
    assert command(*call, "--override", "epochs=1", "device=cpu")[0] == 0
    for option in (("--max-length", 8), ("--rename", "method=Method")):
        code, said = command("evaluate", out, "--data", data, *option)
        assert code == 2 and f"{option[0]} has no effect on classification" in said["error"]


def test_choices_come_by_override_and_impossible_ones_are_refused(
    tiny_model: Path, tmp_path: Path, command: Command
) -> None:
    arguments = (
        "finetune",
        "relation",
        "--model",
        tiny_model,
        "--data",
        MOCK / "relations",
        "--out",
        tmp_path / "o",
    )
    code, made = command(*arguments, "--override", "text=markers")
    assert code == 2 and "has dummies in its texts already" in made["error"]
    code, made = command(*arguments, "--override", "features=nose")
    assert code == 2 and "pooled, cls, mentions, starts" in made["error"]
    code, made = command(*arguments, "--override", "epochs=1", "features=mentions", "head=mlp", "device=cpu")
    assert code == 0
    settings = load_manifest(tmp_path / "o").config["settings"]
    assert (settings["features"], settings["head"]) == ("mentions", "mlp")


def test_a_model_of_another_kind_is_refused(tuned: Path, tmp_path: Path, command: Command) -> None:
    code, said = command("evaluate", tuned, "--data", tmp_path, "--split", "testing")
    assert code == 2 and "valid: train, dev, test" in said["error"]


def test_a_label_that_the_model_does_not_know_is_named_with_both_lists(
    tiny_model: Path, tmp_path: Path, command: Command
) -> None:
    write(tmp_path / "train.tsv", "gout\tyes\nrare\tno\n")
    write(tmp_path / "test.tsv", "gout\tyes\nrare\tnever\n")
    quick = ("--override", "epochs=1", "device=cpu")
    out = tmp_path / "out"
    command("finetune", "classification", "--model", tiny_model, "--data", tmp_path, "--out", out, *quick)
    code, said = command("evaluate", out, "--data", tmp_path, "--device", "cpu")
    assert code == 1
    assert "test.tsv, line 2" in said["error"] and "'never'" in said["error"]
    assert "this data has never, yes" in said["error"] and "valid: no, yes" in said["error"]


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def read(kind: str, folder: Path, split: str = "train") -> list[Any]:
    return OwnData(folder, kind).load(split, Rejects(strict=True))


def test_tables_are_read_by_their_header_or_by_their_columns(tmp_path: Path) -> None:
    write(tmp_path / "train.tsv", 'label\tsentence\tid\nyes\tgout is "rare\ta1\n')
    (named,) = read("classification", tmp_path)
    assert (named.id, named.text, named.label, named.line) == ("a1", 'gout is "rare', "yes", 2)
    write(tmp_path / "dev.tsv", "7\tgout\tyes\n")
    (three,) = read("classification", tmp_path, "dev")
    assert (three.id, three.text, three.pair, three.label) == ("7", "gout", "", "yes")
    (pair,) = read("yesno", tmp_path, "dev")
    assert (pair.text, pair.pair, pair.label) == ("7", "gout", "yes")
    write(tmp_path / "test.tsv", "1\tgout\trare\t2.5\n")
    (number,) = read("similarity", tmp_path, "test")
    assert (number.pair, number.label) == ("rare", 2.5)
    write(tmp_path / "train.tsv", "a\tgrowth, vessels\nb\t\n")
    assert [i.label for i in read("documents", tmp_path)] == [("growth", "vessels"), ()]


def test_a_split_of_which_nothing_is_left_is_no_score_of_zero(
    tiny_model: Path, tmp_path: Path, command: Command
) -> None:
    # White space for tabs: every row of the file is set aside.
    data, out = tmp_path / "chemprot", tmp_path / "out"
    data.mkdir()
    for split, end in (("train", "\t"), ("dev", " "), ("test", " ")):
        write(data / f"{split}.tsv", f"{split}.T1.T2{end}@CHEMICAL$ @GENE${end}CPR:3\n")
    call = ("finetune", "relation", "--model", tiny_model, "--data", data, "--out", out)
    quick = ("--override", "epochs=1", "device=cpu")
    code, made = command(*call, *quick)
    assert code == 1 and f"{data / 'dev.tsv'}, line 1: has 1 columns, not 3" in " ".join(
        made["error"].split()
    )
    (data / "dev.tsv").unlink()
    assert command(*call, *quick)[0] == 0
    code, said = command("evaluate", out, "--data", data, "--device", "cpu")
    assert code == 1 and f"{data / 'test.tsv'}, line 1: has 1 columns, not 3" in " ".join(
        said["error"].split()
    )


@pytest.mark.parametrize(
    ("entities", "covered"),
    [
        ([[0, 99, "DRUG"], [9, 13, "DISEASE"]], "from 0 to 99 does not fit the text of 14"),
        ([[-1, 7, "DRUG"], [9, 13, "DISEASE"]], "from -1 to 7 does not fit"),
        ([[7, 0, "DRUG"], [9, 13, "DISEASE"]], "from 7 to 0 does not fit"),
        ([[0, 8, "DRUG"], [9, 13, "DISEASE"]], r"from 0 to 8 does not fit .* there is 'Aspirin '"),
    ],
)
def test_entities_outside_of_their_text_are_named(tmp_path: Path, entities: list[Any], covered: str) -> None:
    line = {"text": "Aspirin  gout.", "label": "treats", "entities": entities}
    write(tmp_path / "train.jsonl", json.dumps(line) + "\n")
    with pytest.raises(BadInput, match=f"train.jsonl, line 1: the entity {covered}"):
        OwnData(tmp_path, "relation").load("train", Rejects(strict=True))


@pytest.mark.parametrize(
    ("kind", "content", "line"),
    [
        ("classification", '[{"text": "a", "label": "x"},\n {"text": "b", "label"}]', 2),
        ("squad", '{\n "version": "1.1",\n "data": [\n', 4),
    ],
)
def test_a_broken_json_file_is_named_with_the_line_of_the_fault(
    tmp_path: Path, kind: str, content: str, line: int
) -> None:
    write(tmp_path / "train.json", content)
    with pytest.raises(BadInput, match=f"train.json, line {line}: is not JSON"):
        OwnData(tmp_path, kind).load("train", Rejects())


@pytest.mark.parametrize("value", ["[" * 100_000, "9" * 5000], ids=["too deep", "too long a number"])
def test_json_that_python_refuses_is_set_aside_like_any_other(tmp_path: Path, value: str) -> None:
    lines = f'{{"text": "a", "label": {value}}}\n{{"text": "b", "label": "x"}}\n'
    write(tmp_path / "train.jsonl", lines)
    rejects = Rejects()
    assert [i.text for i in OwnData(tmp_path, "classification").load("train", rejects)] == ["b"]
    assert rejects.items[0]["record"] == "line 1" and rejects.items[0]["reason"].startswith("is not JSON")


def test_json_lines_may_bring_entities(tmp_path: Path) -> None:
    record = {
        "id": 1,
        "text": "aspirin, gout",
        "label": "x",
        "entities": [[0, 7, "DRUG"], [9, 13, "DISEASE"]],
    }
    write(tmp_path / "train.jsonl", json.dumps(record) + "\n")
    (instance,) = read("relation", tmp_path)
    assert instance.entities == (Entity(0, 7, "DRUG"), Entity(9, 13, "DISEASE"))


@pytest.mark.parametrize(
    ("kind", "name", "text", "message"),
    [
        ("classification", "train.tsv", "a\tx\nb\ty\tz\tw\tv\n", "line 2: has 5 columns"),
        ("classification", "train.tsv", "text\tlabel\nb\ty\tz\n", "line 2: has 3 columns, the header 2"),
        ("similarity", "train.tsv", "a\tb\thigh\n", "line 1: the label 'high' is not a number"),
        ("yesno", "train.tsv", "a\tyes\n", "line 1: a second text is expected"),
        ("relation", "train.jsonl", '{"text": "a"}\n', "line 1: a text and a label are expected"),
        ("relation", "train.jsonl", '{"text": "a", \n', "line 1: is not JSON"),
        (
            "relation",
            "train.jsonl",
            '{"text": "a", "label": "x", "entities": [[1, 2]]}\n',
            "line 1: entities are not",
        ),
        ("squad", "train.jsonl", '{"question": "a"}\n', "line 1: a question and a context"),
        (
            "squad",
            "train.jsonl",
            '{"question": "a", "context": "gout", "answers": [{"text": "out", "start": 0}]}\n',
            "line 1: the answer 'out' does not stand at 0",
        ),
    ],
)
def test_bad_rows_are_named_by_file_and_line(
    kind: str, name: str, text: str, message: str, tmp_path: Path
) -> None:
    write(tmp_path / name, text)
    with pytest.raises(BadInput) as caught:
        read(kind, tmp_path)
    assert f"{name}, {message}" in str(caught.value)
    # Unless it is strict, the row is set aside and the others are read.
    rejects = Rejects()
    good = "good\tx\n" if name.endswith(".tsv") else '{"text": "good", "label": "x"}\n'
    if kind in ("classification", "relation") and "header" not in message:
        write(tmp_path / name, good + text)
        assert OwnData(tmp_path, kind).load("train", rejects)[0].text == "good"
        assert rejects.count == 1


def test_a_json_list_is_read_as_its_records(tmp_path: Path) -> None:
    records: list[Any] = [{"text": "a", "label": "x"}, {"id": "2", "sentence": "b", "label": "y"}, 3]
    write(tmp_path / "train.json", json.dumps(records, indent=1))
    rejects = Rejects()
    found = OwnData(tmp_path, "classification").load("train", rejects)
    assert [(i.id, i.text, i.label, i.line) for i in found] == [
        ("record 1", "a", "x", "record 1"),
        ("2", "b", "y", "record 2"),
    ]
    assert [(item["record"], item["reason"]) for item in rejects.items] == [
        ("record 3", "is not a JSON object")
    ]


def test_a_brace_begins_a_text_and_a_header_without_a_label_is_no_instance(tmp_path: Path) -> None:
    write(tmp_path / "train.tsv", "{1} gout\tx\nache\ty\n")
    assert [i.text for i in read("classification", tmp_path)] == ["{1} gout", "ache"]
    write(tmp_path / "train.tsv", "sentence\tgold\nache\ty\n")
    with pytest.raises(BadInput, match=r"line 1: the header names no label \(found \['sentence', 'gold'\]\)"):
        read("classification", tmp_path)
    write(tmp_path / "train.tsv", "text\tlabel\tclass\nache\ty\tz\n")
    with pytest.raises(BadInput, match="line 1: two columns of the header mean the same"):
        read("classification", tmp_path)


def test_answers_may_be_lists_as_hugging_face_writes_them_and_odd_ones_are_named(tmp_path: Path) -> None:
    lists = {"text": ["gout"], "answer_start": [2]}
    plain = {"id": "1", "question": "what", "context": "a gout"}
    odd: list[Any] = ["gout", ["gout"], {"text": ["gout"]}, [{"text": "gout", "answer_start": -4}]]
    lines = [{**plain, "answers": answers} for answers in (lists, *odd)]
    write(tmp_path / "train.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    rejects = Rejects()
    (question,) = OwnData(tmp_path, "squad").load("train", rejects)
    assert question.answers == (Answer("gout", 2),)
    assert [item["record"] for item in rejects.items] == [f"line {n}" for n in (2, 3, 4, 5)]
    paragraphs = [{"context": "a gout", "qas": [{"id": "1", "question": "what"}, 7]}, 8]
    write(tmp_path / "train.jsonl", json.dumps({"data": [{"paragraphs": paragraphs}, 9]}))
    rejects = Rejects()
    assert len(OwnData(tmp_path, "squad").load("train", rejects)) == 1
    assert [item["record"] for item in rejects.items] == [
        "article 1, paragraph 1",
        "article 1, paragraph 2",
        "article 2",
    ]


def test_missing_splits_and_empty_files_are_named(tmp_path: Path) -> None:
    write(tmp_path / "dev.tsv", "")
    with pytest.raises(UsageError, match=r"has no train split \(found: dev\)"):
        read("relation", tmp_path)
    with pytest.raises(BadInput, match="holds no instance"):
        read("relation", tmp_path, "dev")
    with pytest.raises(UsageError, match="does not exist"):
        read("relation", tmp_path / "absent")


def test_questions_in_groups_are_a_factoid_task(tmp_path: Path) -> None:
    line = {
        "id": "q_1",
        "question": "which",
        "context": "aspirin",
        "answers": [{"text": "aspirin", "start": 0}],
    }
    write(tmp_path / "train.jsonl", json.dumps(line) + "\n")
    assert own_kind(tmp_path, ("squad", "factoid")) == "squad"
    write(tmp_path / "train.jsonl", json.dumps({**line, "group": "q"}) + "\n")
    assert own_kind(tmp_path, ("squad", "factoid")) == "factoid"
    (question,) = read("factoid", tmp_path)
    assert question == Question(
        "q_1", "which", "aspirin", (Answer("aspirin", 0),), (), "q", str(tmp_path / "train.jsonl"), "line 1"
    )


def test_pairs_without_a_relation_are_never_rewarded() -> None:
    # One of two relations found, none invented: precision 1, recall 1/2; the right "false" counts nowhere.
    gold = [Instance(str(n), "", label) for n, label in enumerate(("false", "a", "b"))]
    scores = score_kind("relation", gold, ["false", "a", "false"])
    assert (scores["precision"], scores["recall"]) == (1.0, 0.5)
    assert scores["value"] == pytest.approx(2 / 3) and scores["negative"] == ["false"]


@pytest.mark.parametrize(
    ("folder", "kind", "name"),
    [
        ("chemprot", "relation", "ChemProt"),
        ("ddi/blurb", "relation", "DDI"),
        ("gad", "relation", "GAD"),
        ("biosses", "similarity", "BIOSSES"),
        ("hoc", "documents", "HoC"),
        ("pubmedqa", "yesno", "PubMedQA"),
        ("scicite", "classification", "SciCite"),
        ("squad", "squad", "SQuAD-v1.1"),
        ("EBM-NLP", "words", "EBM-PICO"),
    ],
)
def test_a_datasets_own_folder_says_which_dataset_it_is(
    folder: str, kind: str, name: str, shared_data: Path
) -> None:
    found = locate(shared_data / "benchmarks" / folder, [kind])
    assert found is not None and found.name == name
    assert found.files("dev")
    assert locate(shared_data / "benchmarks", [kind], name.lower()) is not None


def test_a_folder_of_another_name_is_no_dataset_unless_it_is_said_to_be(tmp_path: Path) -> None:
    write(tmp_path / "train.tsv", "1\t@DRUG$ and @DRUG$\tDDI-int\n")
    assert locate(tmp_path, ["relation"]) is None
    found = locate(tmp_path, ["relation"], "ddi")
    assert found is not None and found.name == "DDI" and len(found.load("train", Rejects())) == 1
    with pytest.raises(UsageError, match="DDI is for relation, not for similarity"):
        locate(tmp_path, ["similarity"], "ddi")
    with pytest.raises(UsageError, match="PubMedQA is not in"):
        locate(tmp_path, ["yesno"], "pubmedqa")


def test_a_file_named_like_its_split_comes_before_others_that_begin_like_it(tmp_path: Path) -> None:
    write(tmp_path / "train-old.tsv", "old\tx\n")
    write(tmp_path / "train.2020.tsv", "older\tx\n")
    write(tmp_path / "train.tsv", "new\tx\n")
    write(tmp_path / "train.entities.jsonl", "{}\n")
    assert [i.text for i in read("relation", tmp_path)] == ["new"]
    for name in ("train.tsv", "train.2020.tsv"):
        (tmp_path / name).unlink()
    assert [i.text for i in read("relation", tmp_path)] == ["old"]


def test_a_table_without_a_header_has_the_columns_of_its_first_row(tmp_path: Path) -> None:
    # A tab inside a text: "b" is not an id.
    write(tmp_path / "train.tsv", "a\tx\nb\tc\tx\nd\ty\n")
    rejects = Rejects()
    found = OwnData(tmp_path, "classification").load("train", rejects)
    assert [i.text for i in found] == ["a", "d"]
    assert rejects.items[0]["reason"] == "has 3 columns, the first row 2"


@pytest.mark.parametrize("header", ["abstract\tlabel", "premise\thypothesis\tLabel", "id\tabstract\tscore"])
def test_a_header_that_names_no_text_is_no_instance(tmp_path: Path, header: str) -> None:
    write(tmp_path / "train.tsv", header + "\n" + "\t".join(["a"] * len(header.split("\t"))) + "\n")
    with pytest.raises(BadInput, match="line 1: the header names no text"):
        read("classification", tmp_path)


def test_of_keys_that_mean_the_same_our_own_name_counts_or_none(tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = [
        {"text": "gout", "document": "D1", "label": "x", "score": 0.5, "id": 7, "pmid": "8"},
        {"sentence": "gout", "document": "D1", "label": "x"},
    ]
    write(tmp_path / "train.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    rejects = Rejects()
    (one,) = OwnData(tmp_path, "classification").load("train", rejects)
    assert (one.id, one.text, one.label) == ("7", "gout", "x")
    assert rejects.items[0]["reason"] == "sentence and document both mean the text"


def test_json_files_hold_json_however_it_is_laid_out(tmp_path: Path) -> None:
    write(tmp_path / "train.jsonl", ' {"text": "gout", "label": "x"}\n["ache", "y"]\n')
    rejects = Rejects()
    assert [i.text for i in OwnData(tmp_path, "classification").load("train", rejects)] == ["gout"]
    assert rejects.items[0]["reason"] == "is not a JSON object"
    write(tmp_path / "dev.json", json.dumps({"text": "ache", "label": "y"}, indent=1))
    assert [i.text for i in read("classification", tmp_path, "dev")] == ["ache"]
    write(tmp_path / "test.json", json.dumps({"data": []}, indent=1))
    with pytest.raises(BadInput, match="record 1: a text and a label are expected, found data"):
        read("classification", tmp_path, "test")


def test_group_0_is_a_group_and_no_label_is_none(tmp_path: Path) -> None:
    lines = [{"text": "a", "labels": ["x"], "group": 0}, {"text": "b", "labels": None, "group": 0}]
    write(tmp_path / "train.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    first, second = read("documents", tmp_path)
    assert (first.group, second.group, second.label) == ("0", "0", ())
    # One document, whose only label was found: with each sentence alone the second would have one that is wrong.
    assert score_kind("documents", [first, second], [["x"], ["x"]])["value"] == 1.0
    # The third instance has no group, and is not one of the group that has its number for a name.
    gold = [Instance("1", "", ("x",), group="2"), Instance("1", "", ("x",)), Instance("1", "", ("x",))]
    assert score_kind("documents", gold, [["x"], ["x"], []])["recall"] == pytest.approx(2 / 3)


@pytest.mark.parametrize("kind", ["classification", "squad"])
def test_lone_surrogates_of_json_are_replaced(kind: str, tmp_path: Path) -> None:
    # Half of a character can be spelled in JSON; no tokenizer reads it, and no file can hold it.
    record = {"text": "go\ud800ut", "label": "\udfffx", "question": "go\ud800ut", "context": "a"}
    record.pop("question" if kind == "classification" else "text")
    for name, content in (("train.jsonl", json.dumps(record)), ("train.json", json.dumps([record]))):
        write(tmp_path / name, content)
        (found,) = read(kind, tmp_path)
        assert found.text == "go\ufffdut"
        (tmp_path / name).unlink()


def test_a_file_by_itself_is_no_dev_split(tiny_model: Path, tmp_path: Path, command: Command) -> None:
    file = write(tmp_path / "train.tsv", "gout\tyes\nrare\tno\n")
    quick = ("--override", "epochs=1", "device=cpu")
    call = ("finetune", "classification", "--model", tiny_model, "--data", file, "--out", tmp_path / "out")
    code, made = command(*call, *quick)
    assert code == 0 and made["dev_value"] is None
    assert len(load_manifest(tmp_path / "out").inputs) == 2  # the model and one file


def test_one_pair_has_no_correlation(tiny_model: Path, tmp_path: Path, command: Command) -> None:
    write(tmp_path / "train.tsv", "a\tb\t1\nb\tc\t2\n")
    write(tmp_path / "dev.tsv", "a\tb\t1\n")
    out = tmp_path / "out"
    call = ("finetune", "similarity", "--model", tiny_model, "--data", tmp_path, "--out", out)
    quick = ("--override", "epochs=1", "device=cpu")
    code, said = command(*call, *quick)
    assert code == 1 and "dev.tsv: holds one pair; a correlation needs two" in said["error"]
    (tmp_path / "dev.tsv").rename(tmp_path / "test.tsv")
    assert command(*call, *quick)[0] == 0
    code, said = command("evaluate", out, "--data", tmp_path, "--device", "cpu")
    assert code == 1 and "test.tsv: holds one pair; a correlation needs two" in said["error"]


def test_labels_of_the_dev_split_that_are_not_learnt_are_said(
    tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "train.tsv", "gout\tyes\nrare\tno\n")
    write(tmp_path / "dev.tsv", "gout\tyes\nrare\tnever\n")
    settings = SequenceSettings(epochs=1, device="cpu")
    fit_source(OwnData(tmp_path, "classification"), tiny_model, settings)
    said = " ".join(capsys.readouterr().err.split())
    assert "has labels that the train split lacks, never right there: never" in said


def test_predictions_of_groups_are_named_by_them_however_many_texts_each_has(tmp_path: Path) -> None:
    def names(*groups: str) -> list[str]:
        questions = [Question("1", "which", "gout", group=group) for group in groups]
        count = len(set(groups) - {""}) + groups.count("")
        write_predictions(tmp_path / "p.jsonl", questions, [["gout"]] * count)
        return [json.loads(x)["id"] for x in (tmp_path / "p.jsonl").read_text("utf-8").splitlines()]

    assert names("q", "q", "r") == ["q", "r"]
    assert names("q", "r") == ["q", "r"]  # one text each
    assert names("", "", "q", "q") == ["1", "1", "q"]  # questions alone, of one id


def test_questions_without_answers_are_said_to_have_no_score(
    tiny_model: Path, tmp_path: Path, command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    line = {"id": "1", "question": "what", "context": "gout"}
    write(
        tmp_path / "train.jsonl",
        json.dumps({**line, "answers": [{"text": "gout", "answer_start": 0}]}) + "\n",
    )
    write(tmp_path / "test.jsonl", json.dumps(line) + "\n")
    fit_source(OwnData(tmp_path, "squad"), tiny_model, AnswerSettings(epochs=1, device="cpu"))[0].save(
        tmp_path / "out", Manifest("tuned")
    )
    evaluate(tmp_path / "out", OwnData(tmp_path, "squad"), "test", device="cpu")
    assert "test.jsonl has an answer: the score says nothing" in " ".join(capsys.readouterr().err.split())


def test_a_relation_of_one_mention_is_set_aside(tmp_path: Path) -> None:
    # Found when the texts are made, it would end the run.
    entities = [[0, 7, "DRUG"], [9, 13, "DISEASE"]]
    lines = [{"text": "aspirin, gout", "label": "x", "entities": entities[:n]} for n in (1, 2)]
    write(tmp_path / "train.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    rejects = Rejects()
    (one,) = OwnData(tmp_path, "relation").load("train", rejects)
    assert len(one.entities) == 2
    assert rejects.items[0]["reason"] == "two entities are expected, not 1"


TAGGED = "Gout\tB-Disease\nis\tO\nrare\tO\n\nNo\tO\ngout\tB-Disease\n\n"


@pytest.mark.parametrize("kind", ["documents", "classification", "relation"])
def test_tagged_words_are_no_texts_with_labels(tmp_path: Path, kind: str) -> None:
    write(tmp_path / "train.tsv", TAGGED)
    with pytest.raises(UsageError, match=r"train\.tsv holds words with tags, .*`finetune ner`"):
        read(kind, tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        TAGGED.replace("\n\n", "\n"),  # no blocks
        TAGGED.replace("B-Disease", "Disease"),  # labels that are no tags
        TAGGED.replace("O\n", "S-phase\n"),  # nothing outside
        TAGGED.replace("Gout", "Gout is rare"),  # a text
    ],
)
def test_short_texts_with_labels_like_tags_are_read(tmp_path: Path, content: str) -> None:
    write(tmp_path / "train.tsv", content)
    assert len(read("classification", tmp_path)) == 5


def test_a_csv_has_commas_or_tabs(tmp_path: Path) -> None:
    write(tmp_path / "train.csv", 'text,label\n"Gout, ""rare""\nand old",yes\n\nanemia,no\n')
    first, second = read("classification", tmp_path)
    assert (first.text, first.label, first.line) == ('Gout, "rare"\nand old', "yes", 2)
    assert (second.text, second.label, second.line) == ("anemia", "no", 5)
    write(tmp_path / "dev.csv", "Gout, rare\tyes\n")
    assert [(i.text, i.label) for i in read("classification", tmp_path, "dev")] == [("Gout, rare", "yes")]
    write(tmp_path / "test.csv", "Gout;yes\n")
    with pytest.raises(BadInput, match=r"line 1: has one column; .* tabs between them, or commas in a \.csv"):
        read("classification", tmp_path, "test")
    write(tmp_path / "test.csv", 'gout,yes\n"anemia,no\n')
    with pytest.raises(BadInput, match=r"test\.csv, line 2: is not CSV"):
        read("classification", tmp_path, "test")
    write(tmp_path / "train.tsv", "aspirin\tyes\n")  # what was read before a .csv was
    assert [i.text for i in read("classification", tmp_path)] == ["aspirin"]


def test_predictions_that_cannot_be_written_are_refused_before_the_work(
    tiny_model: Path, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "train.tsv", "gout\tyes\nrare\tno\n")
    source = OwnData(tmp_path / "train.tsv", "classification")
    tuned = fit_source(source, tiny_model, SequenceSettings(epochs=1, device="cpu"))[0]
    tuned.save(tmp_path / "out", Manifest("tuned"))

    def work(*_: object, **__: object) -> None:
        raise AssertionError("has begun")

    monkeypatch.setattr("biosmith.tasks.finetuning.load_tuned", work)
    for path in (tmp_path, tmp_path / "train.tsv" / "predictions.jsonl"):
        call = ("evaluate", tmp_path / "out", "--data", tmp_path / "train.tsv", "--predictions", path)
        code, said = command(*call)
        assert code == 2 and f"{path} cannot be written" in said["error"]
