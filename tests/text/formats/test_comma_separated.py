"""Comma-separated tables: quoted cells, names of columns, rows that are set aside."""

from __future__ import annotations

from pathlib import Path

import pytest

import biosmith
from biosmith.rejects import Rejects
from biosmith.text.document import Document


def read(path: Path, content: bytes) -> tuple[list[Document], list[tuple[str, str]]]:
    path.write_bytes(content)
    rejects = Rejects()
    documents = list(biosmith.read(path, rejects=rejects))
    return documents, [(item["record"], item["reason"]) for item in rejects.items]


def test_cells_may_hold_commas_quotes_and_line_breaks(tmp_path: Path) -> None:
    content = b'\xef\xbb\xbfPMID,Title,Abstract,journal\r\n1,"Aspirin, again","One.\nLine ""two"".",J\r\n\r\n,No id,x,K\r\n'
    (one, other), reasons = read(tmp_path / "t.csv", content)
    assert [(p.kind, p.text) for p in one.passages] == [
        ("title", "Aspirin, again"),
        ("abstract", 'One.\nLine "two".'),
    ]
    assert (one.id, dict(one.infons), other.id) == ("1", {"journal": "J"}, "t-5")
    assert reasons == []


def test_a_bad_row_costs_itself_only(tmp_path: Path) -> None:
    content = b'id,text\n1,a\n2,b,c\n3,\xff\n4,d\n5,"open,e\n'
    documents, reasons = read(tmp_path / "t.csv", content)
    assert [document.id for document in documents] == ["1", "4"]
    assert reasons == [
        ("line 3", "has 3 cells, not the 2 of id, text"),
        ("line 4", "not UTF-8"),
        ("line 6", "is no row: unexpected end of data"),
    ]


def test_semicolons_separate_where_the_header_has_no_comma(tmp_path: Path) -> None:
    ((one,), reasons) = read(tmp_path / "t.csv", b"id;text\n1;Pain, mild.\n")
    assert (one.id, one.text, reasons) == ("1", "Pain, mild.", [])


def test_a_table_separated_by_tabs_may_be_named_csv(tmp_path: Path) -> None:
    ((one,), reasons) = read(tmp_path / "t.csv", b"id\ttitle, short\ttext\n1\ta\tPain, mild.\n")
    assert (one.id, one.text, reasons) == ("1", "Pain, mild.", [])


def test_a_reader_that_ends_leaves_others_their_long_cells(tmp_path: Path) -> None:
    text = "word " * 100_000
    (tmp_path / "a.csv").write_text(f"id,text\n1,a\n2,{text}\n", encoding="utf-8")
    first = biosmith.read(tmp_path / "a.csv")
    assert next(first).text == "a"
    assert len(list(biosmith.read(tmp_path / "a.csv"))) == 2
    assert [document.text for document in first] == [text]


def test_a_cell_may_be_longer_than_the_library_takes_by_itself(tmp_path: Path) -> None:
    text = "word " * 100_000
    ((one,), reasons) = read(tmp_path / "t.csv", f"id,text\n1,{text}\n".encode())
    assert (one.text, reasons) == (text, [])


@pytest.mark.parametrize("content", [b"a,b\n1,2\n", b"one,two\n"])
def test_a_table_without_text_is_set_aside(tmp_path: Path, content: bytes) -> None:
    documents, reasons = read(tmp_path / "t.csv", content)
    assert documents == []
    assert reasons[0][1].startswith("has no column of text (sentence, sent1")


def test_a_quotation_mark_that_is_never_closed_costs_its_line_and_not_the_rest_of_the_file(
    tmp_path: Path,
) -> None:
    content = b'id,text\n1,a\n2,"open\n3,b\n4,"c\nd"\n5,e\n6,"open too\n7,f\n'
    documents, reasons = read(tmp_path / "t.csv", content)
    # The mark of line 3 is closed by the next one, of line 5, where no cell ends: that costs both rows.
    assert [document.id for document in documents] == ["1", "5", "7"]
    assert reasons[-1] == ("line 8", "is no row: unexpected end of data")
    content = b'id,text\n1,a\n2,"open\n3,b\n4,c\n'
    documents, reasons = read(tmp_path / "t.csv", content)
    assert [(document.id, document.text) for document in documents] == [("1", "a"), ("3", "b"), ("4", "c")]
    assert reasons == [("line 3", "is no row: unexpected end of data")]


def test_lines_may_end_as_those_of_spreadsheets_on_old_macs(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b'id,title,abstract\r1,T,"A\rb"\r2,T,A c\r')
    found = [(d.id, d.text) for d in biosmith.read(path, rejects=Rejects(strict=True))]
    assert found == [("1", "T A\rb"), ("2", "T A c")]


def test_a_header_that_is_not_utf8_is_shown_in_the_list_of_rejects(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"caf\xe9,n\n1,2\n")
    with Rejects(tmp_path / "rejects.jsonl") as rejects:
        assert list(biosmith.read(tmp_path / "t.csv", rejects=rejects)) == []
    assert [(item["record"], item["value"]) for item in rejects.items] == [("line 1", "caf\ufffd,n")]
