"""Format to format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from biosmith.bench.datasets import find_dataset
from biosmith.bench.prepare.bioasq import find_answers
from biosmith.bench.prepare.conversion import convert
from biosmith.cli import main
from biosmith.errors import BadInput, UsageError
from biosmith.tasks.labels import read_spans
from biosmith.tasks.tagged import read_conll
from biosmith.text import formats

PUBTATOR = """1|t|Aspirin and gout
1|a|Rare NFkappaB-gout is painful. It hurts.
1	0	7	Aspirin	Chemical	D1
1	12	16	gout	Disease	D2
1	22	30	NFkappaB	Gene	G1
1	24	30	kappaB	Gene	G2
1	31	35	gout	Disease	D2
1	22	35	NFkappaB-gout	Disease	D3
1	39	49	painful. It	Symptom	S1

"""


def reasons(report: Path) -> list[tuple[str, str]]:
    lines = report.read_text(encoding="utf-8").splitlines()
    return [(item["reason"], item.get("value", "")) for item in map(json.loads, lines)]


def test_documents_become_tags_and_what_tags_cannot_say_is_listed(tmp_path: Path) -> None:
    source = tmp_path / "Test.PubTator"
    source.write_text(PUBTATOR.replace("39\t49\tpainful. It", "39\t50\tpainful. It"), encoding="utf-8")
    made = convert(source, tmp_path / "test.tsv")
    sentences = list(read_conll(tmp_path / "test.tsv"))
    said = [[(s.words[a:b], type) for a, b, type in read_spans(s.tags)] for s in sentences]
    # Of the mentions that overlap the longest is kept; "painful. It" runs over a full stop and is tagged in both parts.
    assert said[0] == [(("Aspirin",), "Chemical"), (("gout",), "Disease")]
    assert (("NFkappaB", "-", "gout"), "Disease") in said[1]
    found = {value: reason for reason, value in reasons(tmp_path / "test.tsv.report.jsonl")}
    assert found == {
        "Gene 'kappaB' at 24-30": "the mention begins or ends inside a word",
        "Gene 'NFkappaB' at 22-30": "the mention overlaps another mention that is longer or comes first",
        "Disease 'gout' at 31-35": "the mention overlaps another mention that is longer or comes first",
        "Symptom 'painful. It' at 39-50": "the mention runs over the end of a sentence",
    }
    assert (made.counts["mentions"], made.counts["tagged"], made.set_aside) == (7, 3, 4)


def test_a_folder_of_splits_becomes_a_folder_of_splits(tmp_path: Path) -> None:
    source = tmp_path / "corpus"
    source.mkdir()
    for split in ("Train", "Dev", "Test"):
        (source / f"{split}.PubTator").write_text(PUBTATOR, encoding="utf-8")
    made = convert(source, tmp_path / "out", "conll")
    assert sorted(p.name for p in made.files) == ["dev.tsv", "test.tsv", "train.tsv"]
    assert made.counts["documents"] == 3
    with pytest.raises(UsageError, match="out"):
        convert(source, tmp_path / "out", "conll")


def test_documents_go_to_any_other_format(tmp_path: Path) -> None:
    source = tmp_path / "a.pubtator"
    source.write_text(PUBTATOR.replace("39\t49", "39\t50"), encoding="utf-8")
    made = convert(source, tmp_path / "a.bioc.json")
    assert (made.format, made.counts["mentions"], made.report) == ("bioc-json", 7, None)
    assert [len(d.mentions) for d in formats.read(tmp_path / "a.bioc.json")] == [7]
    with pytest.raises(UsageError, match="does not exist"):
        convert(tmp_path / "nothing", tmp_path / "b.tsv")
    with pytest.raises(UsageError, match="cannot be written"):
        convert(source, tmp_path / "b", "medline")


def test_mentions_that_are_off_by_one_are_in_the_report(tmp_path: Path) -> None:
    (tmp_path / "a.pubtator").write_text(PUBTATOR, encoding="utf-8")
    convert(tmp_path / "a.pubtator", tmp_path / "a.tsv")
    listed = reasons(tmp_path / "a.tsv.report.jsonl")
    assert any(
        reason.startswith("mention text differs") and "'painful. I'" in value for reason, value in listed
    )


QUESTIONS: dict[str, Any] = {
    "questions": [
        {
            "id": "q1",
            "type": "factoid",
            "body": "Which enzyme?",
            "exact_answer": [["cox-1", "cyclooxygenase 1"]],
            "snippets": [
                {"text": "Aspirin blocks COX 1, that is cyclooxygenase-1."},
                {"text": "Nothing is said here."},
                {"text": "Aspirin blocks COX 1, that is cyclooxygenase-1."},
            ],
        },
        {
            "id": "q2",
            "type": "factoid",
            "body": "Which gene?",
            "exact_answer": "BRCA1",
            "snippets": [{"text": "BRCA12"}],
        },
        {"id": "q3", "type": "factoid", "body": "Which drug?", "exact_answer": ["x"], "snippets": []},
        {"id": "q4", "type": "yesno", "body": "Is it?", "exact_answer": "yes"},
        {"id": "q5", "type": "factoid", "body": "Which one?"},
    ]
}


def test_bioasq_becomes_squad_with_every_place_of_every_synonym(tmp_path: Path) -> None:
    source = tmp_path / "training7b.json"
    source.write_text(json.dumps(QUESTIONS), encoding="utf-8")
    made = convert(source, tmp_path / "out.json")
    paragraphs = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))["data"][0]["paragraphs"]
    (asked,) = [q for p in paragraphs for q in p["qas"]]
    assert asked["id"] == "q1_001"
    assert asked["answers"] == [
        {"text": "COX 1", "answer_start": 15},
        {"text": "cyclooxygenase-1", "answer_start": 30},
    ]
    assert dict(made.counts) == {
        "questions": 4,
        "pairs": 1,
        "answers": 2,
        "unanswered_pairs": 2,
        "skipped_yesno": 1,
    }
    report = (tmp_path / "out.json.report.jsonl").read_text(encoding="utf-8").splitlines()
    listed = [(item["record"], item["reason"]) for item in map(json.loads, report)]
    assert listed == [
        ("question q2", "no snippet holds an answer"),
        ("question q3", "has no snippet"),
        ("question q5", "has no snippet"),
        ("question q5", "has no exact_answer"),
    ]


def test_what_was_converted_is_read_back_as_factoid_questions(tmp_path: Path) -> None:
    golden = tmp_path / "bioasq" / "factoid" / "7B1_golden.json"
    golden.parent.mkdir(parents=True)
    golden.write_text(json.dumps({"questions": QUESTIONS["questions"][:1]}), encoding="utf-8")
    out = golden.with_name("BioASQ-test-factoid-7b-1.json")
    convert(golden, out, "squad", keep_unanswered=True)
    dataset = find_dataset("BioASQ-factoid")
    questions = dataset.load(tmp_path, "test")
    assert [q.id for q in questions] == ["q1_001", "q1_002"]
    assert dataset.names(questions) == ["q1"]
    assert questions[0].gold == ("cox-1", "cyclooxygenase 1")
    # The second of five answers is right: strict 0, lenient 1, reciprocal rank 1/2.
    scores = dataset.score(questions, [["TNF", "Cyclooxygenase 1"]])
    assert (scores["strict_accuracy"], scores["lenient_accuracy"], scores["value"]) == (0.0, 1.0, 0.5)
    assert scores["mean_of_three"] == 0.5


def test_answers_are_whole_words_and_the_longest_of_those_that_overlap() -> None:
    assert find_answers("BRCA12 and BRCA1", ("BRCA1",)) == [{"text": "BRCA1", "answer_start": 11}]
    assert find_answers("left ventricle", ("ventricle", "left ventricle")) == [
        {"text": "left ventricle", "answer_start": 0}
    ]
    assert find_answers("a+b (c)", ("(c)", "a+b")) == [
        {"text": "a+b", "answer_start": 0},
        {"text": "(c)", "answer_start": 4},
    ]
    assert find_answers("text", ("", " - ")) == []


def test_a_file_without_questions_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(
        '{"questions": [{"id": "a", "body": "b", "type": "list"}]}', encoding="utf-8"
    )
    with pytest.raises(BadInput, match="no factoid question"):
        convert(tmp_path / "x.json", tmp_path / "y.json")


def test_the_command_says_what_was_set_aside(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.pubtator").write_text(PUBTATOR, encoding="utf-8")
    out = tmp_path / "a.tsv"
    assert main(["data", "convert", str(tmp_path / "a.pubtator"), "--out", str(out), "--json"]) == 3
    printed = capsys.readouterr()
    values = json.loads(printed.out)
    assert (values["format"], values["documents"], values["set_aside"]) == ("conll", 1, 5)
    assert f"listed in {out}.report.jsonl" in printed.err


@pytest.mark.parametrize("name", ["BioRED", "NLM-Gene", "tmVar3"])
def test_every_mention_of_a_real_corpus_is_tagged_or_listed(
    shared_data: Path, tmp_path: Path, name: str
) -> None:
    source = next((shared_data / "benchmarks" / name).glob("*Test.PubTator"))
    made = convert(source, tmp_path / "test.tsv")
    listed = [r for r, _ in reasons(tmp_path / "test.tsv.report.jsonl") if r.startswith("the mention")]
    assert made.counts["mentions"] == made.counts["tagged"] + len(listed)
    assert made.counts["tagged"] > 0.98 * made.counts["mentions"]


def test_a_conversion_that_is_refused_leaves_the_report_of_the_one_before(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "Test.PubTator").write_text(PUBTATOR, encoding="utf-8")
    convert(source, tmp_path / "out", "conll")
    before = reasons(tmp_path / "out.report.jsonl")
    for to in ("conll", "brat", "medline", "nothing"):  # the folder is there; not written; no format
        with pytest.raises(UsageError):
            convert(source, tmp_path / "out", to)
        assert reasons(tmp_path / "out.report.jsonl") == before


def test_questions_of_another_form_are_set_aside_and_half_letters_replaced(tmp_path: Path) -> None:
    # A lone surrogate, which JSON can spell, can be written to no file of UTF-8.
    about = {"type": "factoid", "body": "Which?", "exact_answer": [["gene \ud800", "q"]]}
    snippets: list[Any] = [3, [{"text": "The gene \ud800 q."}]]
    questions = [{"id": str(i), **about, "snippets": s} for i, s in enumerate(snippets)]
    (tmp_path / "a.json").write_text(json.dumps({"questions": questions}), encoding="utf-8")
    made = convert(tmp_path / "a.json", tmp_path / "out.json")
    assert reasons(tmp_path / "out.json.report.jsonl") == [("its snippets are no list", "3")]
    (paragraph,) = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))["data"][0]["paragraphs"]
    assert (made.counts["answers"], paragraph["context"]) == (2, "The gene \ufffd q.")


def test_what_is_converted_is_not_written_over(tmp_path: Path) -> None:
    # Into the same format, as by a wrong completion in the shell: what that cannot hold would be gone for good.
    source = tmp_path / "corpus"
    source.mkdir()
    file, link = source / "a.pubtator", tmp_path / "link.pubtator"
    file.write_text(PUBTATOR, encoding="utf-8")
    link.symlink_to(file)
    for given, out in ((file, file), (file, link), (link, file), (source, file), (source, link)):
        with pytest.raises(UsageError, match=r"is what is converted, or part of it; choose another --out"):
            convert(given, out)
    assert file.read_text(encoding="utf-8") == PUBTATOR


def test_a_conversion_into_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, here = tmp_path / "corpus", tmp_path / "here"
    for folder in (source, here):
        folder.mkdir()
    (source / "Test.PubTator").write_text(PUBTATOR, encoding="utf-8")
    monkeypatch.chdir(here)
    convert(source, Path(), "conll")
    assert [path.name for path in here.iterdir()] == ["test.tsv"]
    assert reasons(tmp_path / "here.report.jsonl")


def test_an_output_that_cannot_be_made_is_named_and_not_its_report(tmp_path: Path) -> None:
    (tmp_path / "a.pubtator").write_text(PUBTATOR, encoding="utf-8")
    with pytest.raises(UsageError, match=r"out\.jsonl cannot be written: .*a\.pubtator is no folder"):
        convert(tmp_path / "a.pubtator", tmp_path / "a.pubtator" / "out.jsonl")
