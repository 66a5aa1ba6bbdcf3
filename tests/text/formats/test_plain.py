"""Plain text: a document a file, a paragraph or a line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from biosmith.errors import BadInput, UsageError
from biosmith.rejects import Rejects
from biosmith.text.document import Document, Passage
from biosmith.text.formats import read, write

TEXT = "\nFirst paragraph,\ntwo lines.\n\n  \nSecond.\n"


def test_a_file_is_a_document_whose_passages_are_paragraphs_at_their_offsets(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text(TEXT, encoding="utf-8")
    (document,) = read(tmp_path / "note.txt")
    assert document.id == "note"
    assert [(p.text, p.offset) for p in document.passages] == [
        ("First paragraph,\ntwo lines.", 1),
        ("Second.", TEXT.index("Second")),
    ]
    assert all(TEXT.startswith(p.text, p.offset) for p in document.passages)


@pytest.mark.parametrize(
    ("by", "texts"),
    [
        ("paragraph", ["First paragraph,\ntwo lines.", "Second."]),
        ("line", ["First paragraph,", "two lines.", "Second."]),
    ],
)
def test_paragraphs_and_lines_can_be_documents(tmp_path: Path, by: str, texts: list[str]) -> None:
    (tmp_path / "note.txt").write_text(TEXT, encoding="utf-8")
    assert [d.text for d in read(tmp_path / "note.txt", format="plain", by=by)] == texts


def test_binary_data_with_the_name_of_a_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_bytes(b"\x7fELF\x00\x01\x02" * 100)
    with pytest.raises(BadInput, match="binary data"):
        list(read(tmp_path / "x.txt", rejects=Rejects(strict=True)))


def test_text_that_is_not_utf8_is_refused_and_utf16_with_a_mark_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("Müller".encode("latin-1"))
    rejects = Rejects()
    assert list(read(tmp_path / "a.txt", rejects=rejects)) == []
    assert [(item["reason"], item["value"]) for item in rejects.items] == [("not UTF-8", "M\ufffdller")]
    (tmp_path / "b.txt").write_bytes("Müller α".encode("utf-16"))
    assert [d.text for d in read(tmp_path / "b.txt")] == ["Müller α"]


@pytest.mark.parametrize(("by", "record"), [("line", "line 2"), ("paragraph", "paragraph 2")])
def test_a_bad_byte_costs_its_line_or_paragraph_and_not_the_rest_of_the_file(
    tmp_path: Path, by: str, record: str
) -> None:
    end = b"\n" if by == "line" else b"\n\n"
    (tmp_path / "x.txt").write_bytes(end.join([b"one", b"t\xffo", "drei α".encode()]))
    rejects = Rejects()
    found = [d.text for d in read(tmp_path / "x.txt", format="plain", by=by, rejects=rejects)]
    assert found == ["one", "drei α"]
    assert [(item["record"], item["value"]) for item in rejects.items] == [(record, "t\ufffdo")]


def test_written_documents_are_found_again_as_paragraphs(tmp_path: Path) -> None:
    documents = [
        Document.build(str(n), [Passage("title", f"T{n}"), Passage("abstract", "a\nb")]) for n in (1, 2)
    ]
    report = write(documents, tmp_path / "x.txt")
    assert [d.text for d in read(tmp_path / "x.txt", format="plain", by="paragraph")] == [
        "T1\na b",
        "T2\na b",
    ]
    assert report.lost["ids, kinds, labels and infons"] == 2


def test_documents_are_named_as_their_file_is_capitals_and_all(tmp_path: Path) -> None:
    (tmp_path / "NCT01.TXT").write_text("Some text.", encoding="utf-8")
    assert [d.id for d in read(tmp_path / "NCT01.TXT")] == ["NCT01"]
    (tmp_path / "Smith.jsonl").write_text('{"text": "Some text."}\n', encoding="utf-8")
    assert [d.id for d in read(tmp_path / "Smith.jsonl")] == ["Smith-1"]


def test_a_name_that_is_not_utf8_gives_an_id_that_every_format_can_write(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/caf\xe9.txt"
    try:
        Path(os.fsdecode(path)).write_text("Some text.", encoding="utf-8")
    except (OSError, UnicodeError):
        pytest.skip("this file system has no such names")
    (document,) = read(tmp_path)
    assert document.id == "caf\ufffd"
    for name in ("x.parquet", "x.pubtator", "x.conll"):
        assert write([document], tmp_path / name).documents == 1


def test_a_long_text_of_short_paragraphs_is_read_though_its_blank_lines_are_many(tmp_path: Path) -> None:
    # 600,000 times two line ends are more than `MOST_GAPS`, and less than the text between them.
    (tmp_path / "x.txt").write_text("Some text.\n\n" * 600_000, encoding="utf-8")
    (document,) = read(tmp_path / "x.txt")
    assert (len(document.passages), document.passages[-1].offset) == (600_000, 12 * 599_999)


def test_a_file_of_blank_lines_mostly_is_set_aside_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("a" + "\n" * 1_100_000 + "b", encoding="utf-8")
    rejects = Rejects()
    assert list(read(tmp_path / "x.txt", rejects=rejects)) == []
    assert [item["reason"] for item in rejects.items] == [
        "has more blank than other characters; read it by paragraph or line"
    ]


def test_a_choice_that_an_option_does_not_have_is_refused_with_those_that_it_has(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("Some text.", encoding="utf-8")
    with pytest.raises(UsageError, match="by='lines' is unknown; valid: file, paragraph, line"):
        read(tmp_path / "x.txt", by="lines")
    with pytest.raises(UsageError, match="valid: auto, codepoint, byte, utf16"):
        read(tmp_path / "x.txt", format="bioc-json", offset_unit="bytes")
