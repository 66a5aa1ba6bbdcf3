"""The tagged text form of MEDLINE."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

import biosmith
from biosmith.errors import BadInput
from biosmith.rejects import Rejects
from biosmith.text.document import Document
from biosmith.text.formats import medline_text

RECORDS = """
PMID- 11
OWN - NLM
LR  - 20200102
DP  - 1998 Dec
TI  - A title that goes
      on here.
LID - 10.1/x [doi]
AB  - BACKGROUND: Words of
      the abstract. RESULTS: More
      words.
LA  - eng
LA  - fre
PT  - Journal Article
TA  - J Test
JT  - Journal of tests
MH  - *Cells
PMC - PMC5

PMID- 12
TI  - [On cells].
TT  - Ueber Zellen.
OAB - Publisher: Abstract available from the publisher.
OABL- ger
"""


def parse(text: str | bytes, rejects: Rejects | None = None, **options: bool) -> list[Document]:
    data = text.encode() if isinstance(text, str) else text
    return list(medline_text.read(io.BytesIO(data), rejects or Rejects(strict=True), "x.txt", **options))


def test_records_are_read_with_lines_that_go_on_and_labels_in_the_text() -> None:
    first, second = parse(RECORDS, mesh=True)
    assert [(p.kind, p.text) for p in first.passages] == [
        ("title", "A title that goes on here."),
        ("abstract", "BACKGROUND: Words of the abstract. RESULTS: More words."),
    ]
    assert first.infons == {
        "pmid": "11",
        "version": "1",
        "language": "eng; fre",
        "publication_types": "Journal Article",
        "pmcid": "PMC5",
        "journal": "Journal of tests",
        "year": "1998",
        "date_revised": "2020-01-02",
        "doi": "10.1/x",
        "mesh": "*Cells",
    }
    assert second.passages[0].infons == {"translated": "true"}
    assert second.infons["vernacular_title"] == "Ueber Zellen."
    assert "other_abstract_ger" not in second.infons  # the words only say that there is one elsewhere


def test_line_ends_and_a_byte_order_mark_make_no_difference() -> None:
    text = RECORDS.strip()
    assert parse(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode()) == parse(text)


def test_a_record_that_is_not_utf8_is_set_aside_and_its_neighbours_are_read() -> None:
    rejects = Rejects()
    data = RECORDS.replace("Ueber", "\u00dcber").encode("latin-1") + b"\nPMID- 13\nTI  - Third.\n"
    assert [d.id for d in parse(data, rejects)] == ["11", "13"]
    (item,) = rejects.items
    assert (item["record"], item["value"]) == ("record at line 20", "PMID- 12")


def test_a_record_without_a_number_is_set_aside_and_its_neighbours_are_read() -> None:
    rejects = Rejects()
    documents = parse("PMID- 1\nTI  - One.\n\nPMID- \nTI  - Two.\n\nPMID- 3\nTI  - Three.\n", rejects)
    assert [d.id for d in documents] == ["1", "3"]
    assert [(i["record"], i["reason"]) for i in rejects.items] == [
        ("record at line 4", "citation without a PMID")
    ]


def test_text_before_the_first_record_and_lines_without_tags_are_set_aside_by_line() -> None:
    rejects = Rejects()
    text = "Page 1\n\nPMID- 1\nTI  - One.\nloose line\nAB  - Text.\n"
    assert [d.text for d in parse(text, rejects)] == ["One. Text."]
    assert [(item["record"], item["value"]) for item in rejects.items] == [
        ("line 1", "Page 1"),
        ("line 5", "loose line"),
    ]


def test_asn1_is_refused_with_what_to_do() -> None:
    asn1 = b"Pubmed-entry ::= {\n  pmid 25950269,\n  medent {\n"
    assert medline_text.looks_like(asn1)  # so that no other format takes it for plain text
    with pytest.raises(BadInput, match="save the records as MEDLINE text"):
        parse(asn1)


def test_the_real_files_read_and_the_asn1_file_is_one_clear_reject(shared_data: Path) -> None:
    rejects = Rejects()
    documents = list(biosmith.read(shared_data / "fixtures/medline-text", rejects=rejects))
    # 206 lines of the four files begin with "PMID-", 206 with "TI  -" and 202 with "AB  -".
    assert len(documents) == 206
    assert sum(p.kind == "abstract" for d in documents for p in d.passages) == 202
    (item,) = rejects.items
    assert Path(item["file"]).name == "efetch_asn1.txt"
    assert item["reason"].startswith("ASN.1 is not read")


def test_lines_may_end_in_carriage_returns_alone() -> None:
    data = b"PMID- 1\rTI  - A title\r      goes on.\rAB  - Text.\r\rPMID- 2\rTI  - Another.\r"
    found = medline_text.read(io.BytesIO(data), Rejects(strict=True), "x.nbib")
    assert [(d.id, d.text) for d in found] == [("1", "A title goes on. Text."), ("2", "Another.")]


def test_two_other_abstracts_of_one_language_are_both_kept() -> None:
    data = b"PMID- 1\nTI  - T.\nOAB - Un.\nOABL- fre\nOAB - Deux.\nOABL- fre\n"
    (document,) = medline_text.read(io.BytesIO(data), Rejects(strict=True), "x.nbib")
    assert document.infons["other_abstract_fre"] == "Un. Deux."


def test_the_year_stands_anywhere_in_the_words_of_a_date() -> None:
    data = b"PMID- 1\nTI  - T.\nDP  - Winter 1998\n"
    (document,) = medline_text.read(io.BytesIO(data), Rejects(strict=True), "x.nbib")
    assert document.infons["year"] == "1998"
