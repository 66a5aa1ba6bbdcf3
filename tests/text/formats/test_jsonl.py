"""JSON lines: three forms in, one out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from biosmith.rejects import Rejects
from biosmith.text.document import Document, Passage
from biosmith.text.formats import read, recognise, write


def documents_of(tmp_path: Path, *lines: Any, rejects: Rejects | None = None) -> list[Document]:
    path = tmp_path / "x.jsonl"
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return list(read(path, rejects=rejects or Rejects(strict=True)))


def test_id_and_text_make_one_paragraph(tmp_path: Path) -> None:
    (document,) = documents_of(tmp_path, {"id": 7, "text": "Aspirin."})
    assert (document.id, document.text) == ("7", "Aspirin.")
    assert document.passages == (Passage("paragraph", "Aspirin."),)


def test_title_abstract_and_body_are_passages_one_space_apart(tmp_path: Path) -> None:
    line = {"id": "a", "title": "T", "abstract": "A b.", "body": ["P1", "P2"], "license": "CC0", "year": 2020}
    (document,) = documents_of(tmp_path, line)
    assert document.text == "T A b. P1 P2"
    assert [(p.kind, p.offset) for p in document.passages] == [
        ("title", 0),
        ("abstract", 2),
        ("paragraph", 7),
        ("paragraph", 10),
    ]
    assert document.infons == {"license": "CC0", "year": "2020"}


def test_labelled_sections_of_an_abstract_keep_their_labels(tmp_path: Path) -> None:
    line = {"id": "a", "title": "", "abstract": [{"label": "AIM", "text": "To see."}, "Seen."]}
    (document,) = documents_of(tmp_path, line)
    assert [(p.kind, p.label, p.text) for p in document.passages] == [
        ("abstract", "AIM", "To see."),
        ("abstract", "", "Seen."),
    ]


def test_passages_keep_their_offsets_and_are_laid_out_without_them(tmp_path: Path) -> None:
    placed = {
        "id": "a",
        "passages": [{"kind": "title", "text": "T", "offset": 0}, {"text": "x", "offset": 5}],
    }
    free = {"id": "b", "passages": [{"kind": "title", "text": "T"}, {"text": "x"}]}
    first, second = documents_of(tmp_path, placed, free)
    assert (first.text, first.passages[1].offset) == ("T    x", 5)
    assert (second.text, second.passages[1].offset) == ("T x", 2)


def test_a_bad_line_is_set_aside_with_its_number_and_reading_goes_on(tmp_path: Path) -> None:
    rejects = Rejects()
    lines = [
        '{"id": "1", "text": "ok"}',
        "{broken",
        '["a list"]',
        '{"id": "2"}',
        '{"id": "3", "text": 5}',
        '{"id": "4", "passages": [{"text": "abc", "offset": 0}, {"text": "d", "offset": 1}]}',
        '{"id": "5", "text": "x", "mentions": [{"start": "0", "end": 1}]}',
        "",
        '{"id": "6", "text": "ok"}',
    ]
    assert [d.id for d in documents_of(tmp_path, *lines, rejects=rejects)] == ["1", "6"]
    assert [item["record"] for item in rejects.items] == [f"line {n}" for n in (2, 3, 4, 5, 6, 7)]
    assert "none of the keys text, title" in rejects.items[2]["reason"]
    assert "text is a JSON number" in rejects.items[3]["reason"]


def test_a_line_nested_too_deep_is_set_aside_even_where_it_is_the_first(tmp_path: Path) -> None:
    rejects = Rejects()
    deep = '{"id": "1", "text": "x", "y": ' + "[" * 9000 + "]" * 9000 + "}"
    assert [d.id for d in documents_of(tmp_path, deep, '{"id": "2", "text": "x"}', rejects=rejects)] == ["2"]
    assert [item["record"] for item in rejects.items] == ["line 1"]


def test_one_fault_in_many_lines_is_one_reason_and_the_value_shows_the_place(tmp_path: Path) -> None:
    rejects = Rejects()
    lines = ['{"id": "1", "text": "ok"}', *(f'{{"id": "{"x" * n * 100}", "te' for n in range(1, 9))]
    assert len(documents_of(tmp_path, *lines, rejects=rejects)) == 1
    assert len(rejects.reasons) == 1 and rejects.count == 8
    assert all(item["value"].endswith('", "te') for item in rejects.items)


def test_the_documents_text_wins_over_the_mentions_text(tmp_path: Path) -> None:
    rejects = Rejects()
    mentions = [{"start": 0, "end": 7, "text": "aspirine"}, {"start": 5, "end": 99, "text": "x"}]
    (document,) = documents_of(
        tmp_path, {"id": "1", "text": "Aspirin.", "mentions": mentions}, rejects=rejects
    )
    (mention,) = document.mentions
    assert (mention.text, mention.infons) == ("Aspirin", {"stated_text": "aspirine"})
    assert sum(rejects.reasons.values()) == 2


def test_a_line_without_an_id_is_named_after_file_and_line(tmp_path: Path) -> None:
    assert [d.id for d in documents_of(tmp_path, {"text": "a"}, {"text": "b"})] == ["x-1", "x-2"]


def test_lone_surrogates_become_the_replacement_character_at_the_same_place(tmp_path: Path) -> None:
    # json.loads lets "\ud800" through, but it is no text and no file can hold it.
    (document,) = documents_of(tmp_path, '{"id": "1", "text": "a\\ud800b"}')
    assert document.text == "a\ufffdb"
    write([document], tmp_path / "y.parquet")


def test_the_output_form_has_the_keys_of_the_contract(tmp_path: Path) -> None:
    source = {
        "id": "1",
        "text": "a b",
        "mentions": [{"start": 0, "end": 3, "fragments": [[0, 1], [2, 3]], "type": "X"}],
    }
    write(documents_of(tmp_path, source), tmp_path / "y.jsonl")
    value = json.loads((tmp_path / "y.jsonl").read_text(encoding="utf-8"))
    assert set(value) == {"id", "text", "passages", "mentions", "relations"}
    (mention,) = value["mentions"]
    assert mention == {
        "start": 0,
        "end": 3,
        "text": "a b",
        "type": "X",
        "score": None,
        "ids": [],
        "fragments": [[0, 1], [2, 3]],
    }


@pytest.mark.parametrize(
    ("head", "format"),
    [
        (b'{"text": "a", "label": "b"}\n{"text": "c"}\n', "jsonl"),
        (
            b'{"pmid": "1", "record": {"id": "1", "passages": [{"infons": {}, "annotations": []}]}}\n',
            "bioc-json",
        ),
        (b'{"data": [{"paragraphs": [{"context": "x", "qas": []}]}]}', "squad"),
        (b'{"1234567": "yes", "1234568": "no"}', "pubmedqa"),
    ],
)
def test_json_is_told_apart_by_its_content(head: bytes, format: str) -> None:
    assert recognise("x.txt", head) == format
    assert recognise("x.json", head) == format


def test_a_line_without_an_id_is_named_by_its_pmid_else_by_file_and_line(tmp_path: Path) -> None:
    lines = [
        '{"pmid": 38048813, "abstract": "Gout."}',
        '{"id": 7, "pmid": 8, "text": "Gout."}',
        '{"text": "Gout."}',
    ]
    for name in ("abstracts.jsonl", "abstracts"):
        (tmp_path / name).write_text("\n".join(lines), encoding="utf-8")
        documents = list(read(tmp_path / name, format="jsonl"))
        assert [d.id for d in documents] == ["38048813", "7", "abstracts-3"]
        assert documents[0].infons == {"pmid": "38048813"}


@pytest.mark.parametrize("key", ["id", "pmid"])
def test_true_is_no_name(tmp_path: Path, key: str) -> None:
    # Python takes true for the number 1: the document would be called "True".
    path = tmp_path / "x.jsonl"
    lines = [{key: True, "text": "a"}, {"id": 7, "text": "b"}]
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    rejects = Rejects()
    found = [d.id for d in read(path, rejects=rejects)]
    assert found == (["7"] if key == "id" else ["x-1", "7"])
    assert list(rejects.reasons) == (
        ["id is a JSON boolean, not a string or a whole number"] if key == "id" else []
    )


@pytest.mark.parametrize("key", ["annotations", "record", "documents", "locations"])
def test_keys_that_other_formats_have_too_are_infons_of_a_line_with_a_text(tmp_path: Path, key: str) -> None:
    (tmp_path / "x.jsonl").write_text(f'{{"id": "1", "text": "Some text.", "{key}": 3}}\n', encoding="utf-8")
    (document,) = read(tmp_path / "x.jsonl", rejects=Rejects(strict=True))
    assert (document.text, document.infons) == ("Some text.", {key: "3"})


def test_an_identifier_that_is_null_is_none(tmp_path: Path) -> None:
    line = {"id": "1", "text": "BRCA1", "mentions": [{"start": 0, "end": 5, "ids": [None, 672]}]}
    (tmp_path / "x.jsonl").write_text(json.dumps(line), encoding="utf-8")
    (document,) = read(tmp_path / "x.jsonl", rejects=Rejects(strict=True))
    assert document.mentions[0].ids == ("672",)
