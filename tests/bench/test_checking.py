"""What is wrong with a dataset's files, by file and line; what is only odd."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from biosmith.bench.checking import Check, check_dataset
from biosmith.bench.datasets import find_dataset
from biosmith.cli import main
from biosmith.errors import UsageError
from biosmith.rejects import Rejects


def write(path: Path, *rows: Sequence[object]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join("\t".join(map(str, row)) + "\n" for row in rows), encoding="utf-8")
    return path


def listed(rejects: Rejects) -> list[tuple[str, str, str]]:
    return [(Path(item["file"]).name, item["record"], item["reason"]) for item in rejects.items]


def chemprot(folder: Path) -> Path:
    for split in ("train", "dev", "test"):
        write(
            folder / "chemprot" / "blurb" / f"{split}.tsv", (f"{split}.T1.T2", "@CHEMICAL$ @GENE$", "CPR:3")
        )
    return folder


def check(name: str, data: Path) -> Check:
    return check_dataset(find_dataset(name), data)


def test_a_folder_without_any_split_is_not_called_sound(tmp_path: Path) -> None:
    # The ids of BioASQ's questions may lie where the questions do not.
    write(tmp_path / "bioasq" / "indexing" / "train_id.tsv", ("5118dd1305c10fae750000010001",))
    with pytest.raises(UsageError, match=r"BioASQ has no train split here \(found: none\)"):
        check("bioasq", tmp_path)


def test_an_empty_text_and_missing_blank_lines_are_odd(tmp_path: Path) -> None:
    write(chemprot(tmp_path) / "chemprot" / "blurb" / "dev.tsv", ("dev.T1.T2", "", "false"))
    assert listed(check("chemprot", tmp_path).oddities) == [("dev.tsv", "line 1", "has no text")]
    # The words of a whole file run on: they would be cut at the length of the model, and the rest never seen.
    for split, words in (("train", 401), ("devel", 400), ("test", 1)):
        write(tmp_path / "NCBI-disease" / f"{split}.tsv", *[(f"{split}{n}", "O") for n in range(words)])
    assert listed(check("ncbi_disease", tmp_path).oddities) == [
        ("train.tsv", "line 1", "a sentence of 401 words; are blank lines between sentences missing?")
    ]


def test_everything_that_is_wrong_with_a_table_is_named(tmp_path: Path) -> None:
    folder = chemprot(tmp_path) / "chemprot" / "blurb"
    write(
        folder / "train.tsv",
        ("a.T1.T2", 'an "unbalanced quote is text', "false"),
        ("b.T1.T2", "two columns"),
        ("c.T1.T2", "an unknown label", "CPR:1"),
        ("test.T1.T2", "an id of the test split", "false"),
        ("d.T1.T2", "one", "false"),
        ("d.T1.T2", "the same id", "false"),
    )
    write(folder / "dev.tsv")
    found = check("chemprot", tmp_path)
    assert listed(found.problems) == [
        ("train.tsv", "line 2", "has 2 columns, not 3 (id, sentence, label)"),
        (
            "train.tsv",
            "line 3",
            "label 'CPR:1' is unknown; valid: false, CPR:3, CPR:4, CPR:5, CPR:6, CPR:9",
        ),
        ("dev.tsv", "dev split", "is empty"),
        ("test.tsv", "line 1", "test.T1.T2 is in the train split too (train.tsv, line 4)"),
    ]
    assert listed(found.oddities) == [
        ("train.tsv", "line 6", "the id d.T1.T2 stands at line 5 too"),
        ("train.tsv", "line 1", "has a quote that is not closed; read as it stands"),
    ]


def test_a_quote_swallows_no_row(tmp_path: Path) -> None:
    # pandas and csv.reader read these three rows as one.
    folder = chemprot(tmp_path) / "chemprot" / "blurb"
    rows = [("a.T1.T2", '"open', "false"), ("b.T1.T2", "x", "CPR:3"), ("c.T1.T2", 'close"', "false")]
    write(folder / "train.tsv", *rows)
    instances = find_dataset("chemprot").load(tmp_path, "train")
    assert [i.text for i in instances] == ['"open', "x", 'close"']
    assert [record for _, record, _ in listed(check("chemprot", tmp_path).oddities)] == ["line 1", "line 3"]


def test_everything_that_is_wrong_with_a_tagging_file_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "NCBI-disease"
    write(
        folder / "train.tsv",
        ("gout", "B-Disease"),
        ("is", "O"),
        (),
        ("rare",),
        ("x", "y", "O"),
        (),
        ("no", "Disease"),
        (),
        ("ache", "B-Diease"),
        ("ache", "I-Disease"),
    )
    write(folder / "devel.tsv", ('"acute', "O"), ("gout", "I-Disease"), ("ends", "B-Disease"))
    write(folder / "test.tsv")
    found = check("NCBI-disease", tmp_path)
    assert listed(found.problems) == [
        ("train.tsv", "line 4", "a word and a tag are expected"),
        ("train.tsv", "line 5", "has 3 columns where the first line has 2"),
        (
            "train.tsv",
            "line 7",
            "the last column is not a tag; valid: O, B-Type, I-Type, E-Type, S-Type, B, I",
        ),
        ("test.tsv", "test split", "is empty"),
        ("train.tsv", "line 9", "the type of the tag is unknown; valid: Disease"),
    ]
    assert listed(found.oddities) == [
        ("devel.tsv", "line 1", "has a quote that is not closed; read as it stands"),
        ("train.tsv", "line 10", "I-Disease follows B-Diease; read as the beginning of a mention"),
        ("devel.tsv", "line 2", "I-Disease follows O; read as the beginning of a mention"),
    ]


def test_types_that_the_protocol_merges_are_checked_all_the_same(tmp_path: Path) -> None:
    write(tmp_path / "JNLPBA" / "train.tsv", ("IL-2", "B-protein"), ("gene", "I-protien"))
    assert listed(check("JNLPBA", tmp_path).problems) == [
        (
            "train.tsv",
            "line 2",
            "the type of the tag is unknown; valid: DNA, RNA, cell_line, cell_type, protein",
        )
    ]


def test_ids_that_number_the_rows_are_no_ids_and_all_others_are(tmp_path: Path) -> None:
    header = ("pair_id", "sent1", "sent2", "score")
    for split, ids in (("train", (88, 7, 3)), ("dev", (12,)), ("test", (5, 7))):
        rows = [(id, f"first {split} {id}", "second", 2.0) for id in ids]
        write(tmp_path / "biosses" / f"{split}.tsv", header, *rows)
        rows = [(n, f"text {split} {n}", 1) for n in range(len(ids))]
        write(tmp_path / "gad" / "blurb" / f"{split}.tsv", ("index", "sentence", "label"), *rows)
    assert listed(check("BIOSSES", tmp_path).problems) == [
        ("test.tsv", "line 3", "7 is in the train split too (train.tsv, line 3)")
    ]
    assert check("GAD", tmp_path).problems.items == []


PUBTATOR = "1|t|Aspirin and gout\n1|a|Gout is rare.\n1\t0\t7\tAspirin\tChemicalEntity\tD1\n1\t12\t16\tgout\tDiseaseOrPhenotypicFeature\tD2\n"


def test_offsets_that_are_off_by_one_are_named_and_leave_nothing_out(tmp_path: Path) -> None:
    folder = tmp_path / "BioRED"
    folder.mkdir()
    (folder / "Train.PubTator").write_text(PUBTATOR.replace("12\t16", "13\t17"), encoding="utf-8")
    (folder / "Dev.PubTator").write_text(PUBTATOR.replace("1|", "2|").replace("1\t", "2\t"), encoding="utf-8")
    (folder / "Test.PubTator").write_text(PUBTATOR, encoding="utf-8")
    found = check("BioRED", tmp_path)
    problems = [(Path(i["file"]).name, i["record"], i.get("value")) for i in found.problems.items]
    assert ("Train.PubTator", "line 4, 1", "'gout' at 13-17, where the text is 'out '") in problems
    # Document 1 is in two splits.
    assert any(name == "Test.PubTator" and record == "document 1" for name, record, _ in problems)
    assert len(find_dataset("BioRED").load(tmp_path, "train")) == 2


def test_mentions_that_tags_cannot_say_are_odd(tmp_path: Path) -> None:
    (tmp_path / "BioRED").mkdir()
    for split in ("Train", "Dev", "Test"):
        text = (
            PUBTATOR.replace("1|", f"{split}|")
            .replace("1\t0", f"{split}\t0")
            .replace("1\t12", f"{split}\t12")
        )
        text = text.replace("0\t7\tAspirin", "0\t4\tAspi") if split == "Dev" else text
        (tmp_path / "BioRED" / f"{split}.PubTator").write_text(text, encoding="utf-8")
    found = check("BioRED", tmp_path)
    assert found.problems.items == []
    items = [(i["record"], i["reason"], i["value"]) for i in found.oddities.items if "value" in i]
    assert items == [
        ("document Dev", "the mention begins or ends inside a word", "ChemicalEntity 'Aspi' at 0-4")
    ]


def squad(*answers: tuple[str, int]) -> str:
    asked = [
        {"id": f"q{i}", "question": "What?", "answers": [{"text": text, "answer_start": start}]}
        for i, (text, start) in enumerate(answers)
    ]
    return json.dumps({"data": [{"paragraphs": [{"context": "gout and gout", "qas": asked}]}]})


def test_answers_are_looked_for_where_offsets_are_off(tmp_path: Path) -> None:
    folder = tmp_path / "squad"
    folder.mkdir()
    (folder / "train-v1.1.json").write_text(squad(("gout", 0), ("gout", 10), ("flu", 0)), encoding="utf-8")
    (folder / "dev-v1.1.json").write_text(squad(("gout", -1)), encoding="utf-8")
    found = check("SQuAD-v1.1", tmp_path)
    assert listed(found.problems) == [
        (
            "train-v1.1.json",
            "question q1",
            "answer_start is 10, where the context has 'out'; the answer is at 9 (-1)",
        ),
        ("train-v1.1.json", "question q2", "answer 'flu' is not in the context"),
        ("dev-v1.1.json", "question q0", "answer_start of 'gout' is -1, not a place in the context"),
    ]
    questions = find_dataset("SQuAD-v1.1").load(tmp_path, "train", Rejects())
    assert [q.answers[0].start for q in questions] == [0, 9]


def test_files_that_cannot_be_read_at_all_are_problems_not_crashes(tmp_path: Path) -> None:
    folder = chemprot(tmp_path) / "chemprot" / "blurb"
    (folder / "train.tsv").write_bytes(b"a\t\xff\tfalse\n")
    (folder / "dev.tsv").unlink()
    (folder / "dev.tsv.gz").write_bytes(b"\x1f\x8b\x08\x00cut")
    found = check("chemprot", tmp_path)
    names = [(name, record) for name, record, _ in listed(found.problems)]
    assert names == [("train.tsv", "line 1"), ("dev.tsv.gz", "dev split")]
    assert "not UTF-8" in found.problems.items[0]["reason"]
    write(tmp_path / "hoc" / "train.tsv", ("label", "sentence", "index"))
    assert listed(check("HoC", tmp_path).problems) == [
        ("train.tsv", "line 1", "has another header; valid: labels, sentence, index")
    ]


def test_files_of_questions_without_their_parts_are_problems_not_crashes(tmp_path: Path) -> None:
    record = {"QUESTION": "q", "CONTEXTS": ["c"], "final_decision": "yes"}
    (tmp_path / "pubmedqa").mkdir()
    for name, value in (("ori_pqal.json", {"1": record}), ("pqal_splits.json", {"folds": [], "test": ["1"]})):
        (tmp_path / "pubmedqa" / name).write_text(json.dumps(value), encoding="utf-8")
    assert listed(check("PubMedQA", tmp_path).problems) == [
        ("pqal_splits.json", "train split", "has no list of the train split"),
        ("pqal_splits.json", "dev split", "has no list of the dev split"),
    ]
    folder = tmp_path / "bioasq"
    for split in ("train", "dev", "test"):
        write(folder / "indexing" / f"{split}_id.tsv", (split,))
    question = {"body": None, "exact_answer": "yes", "snippets": None}
    questions = [{"id": split, **question} for split in ("train", "dev", "test")]
    (folder / "7b.json").write_text(json.dumps({"questions": questions}), encoding="utf-8")
    assert [(i.text, i.pair) for i in find_dataset("BioASQ").load(tmp_path, "train")] == [("", "")]
    questions[1]["snippets"] = 3
    (folder / "7b.json").write_text(json.dumps({"questions": questions}), encoding="utf-8")
    assert listed(check("BioASQ", tmp_path).problems) == [
        ("dev_id.tsv", "question dev", "its snippets are no list: 3")
    ]


def test_the_files_at_hand_have_nothing_wrong_but_what_is_known(shared_data: Path) -> None:
    for name in ("ChemProt", "HoC", "BIOSSES", "PubMedQA", "S800", "EU-ADR", "SciCite"):
        assert check(name, shared_data / "benchmarks").problems.items == []
    # The authors' earlier version of COVID-QA has answers that are some characters off.
    reasons = [i["reason"] for i in check("COVID-QA", shared_data / "benchmarks").problems.items]
    assert len(reasons) == 38 and all(reason.startswith("answer_start is") for reason in reasons)


def test_the_command_prints_problems_and_oddities(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = chemprot(tmp_path)
    assert main(["data", "check", "chemprot", "--data", str(data)]) == 0
    assert "nothing is wrong" in capsys.readouterr().out
    write(data / "chemprot" / "blurb" / "train.tsv", ("a.T1.T2", 'a "quote', "false"))
    assert main(["data", "check", "chemprot", "--data", str(data), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["problems"], found["warnings"]) == (0, 1)
    assert found["warning_items"][0]["record"] == "line 1"
    write(data / "chemprot" / "blurb" / "train.tsv", ("a.T1.T2", "x"))
    assert main(["data", "check", "chemprot", "--data", str(data)]) == 3
    shown = capsys.readouterr().out
    assert "train.tsv, line 1: has 2 columns, not 3" in shown


@pytest.mark.parametrize("qas", [3, [{"id": "1", "question": "q", "answers": 3}], "DEEP"])
def test_questions_of_another_form_are_problems_not_crashes(tmp_path: Path, qas: object) -> None:
    (tmp_path / "squad").mkdir()
    content = json.dumps({"data": [{"paragraphs": [{"context": "c", "qas": qas}]}]})
    content = content.replace('"DEEP"', "[" * 100_000)
    (tmp_path / "squad" / "dev-v1.1.json").write_text(content, encoding="utf-8")
    assert [name for name, _, _ in listed(check("SQuAD-v1.1", tmp_path).problems)] == ["dev-v1.1.json"]


def test_lines_that_are_nested_too_deeply_are_problems_not_crashes(tmp_path: Path) -> None:
    (tmp_path / "scicite").mkdir()
    (tmp_path / "scicite" / "train.txt").write_text("[" * 100_000 + "\n", encoding="utf-8")
    assert [record for _, record, _ in listed(check("SciCite", tmp_path).problems)] == ["line 1"]


def test_half_letters_of_json_are_replaced(tmp_path: Path) -> None:
    # No tokenizer reads a lone surrogate, which JSON can spell; a whole pair is the letter that it spells.
    line = json.dumps({"string": "\ud800 😀", "label": "background", "unique_id": "1"})
    (tmp_path / "scicite").mkdir()
    (tmp_path / "scicite" / "train.txt").write_text(line + "\n", encoding="utf-8")
    assert [i.text for i in find_dataset("SciCite").load(tmp_path, "train")] == ["\ufffd 😀"]
    paragraph = {"context": "a \udc00 😀", "qas": [{"id": "1", "question": "q\ud83d?", "answers": []}]}
    (tmp_path / "squad").mkdir()
    (tmp_path / "squad" / "dev-v2.0.json").write_text(json.dumps({"data": [{"paragraphs": [paragraph]}]}))
    (question,) = find_dataset("SQuAD-v2.0").load(tmp_path, "dev")
    assert (question.text, question.context) == ("q\ufffd?", "a \ufffd 😀")
