"""The Parquet schema that corpus, annotations and tokens share."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from biosmith.errors import BadInput
from biosmith.rejects import Rejects
from biosmith.text.document import Document, Mention, Passage
from biosmith.text.formats import parquet, read, write
from biosmith.text.formats.mentions import DIFFERS, OUTSIDE


def some(count: int) -> list[Document]:
    passages = [
        Passage("title", "Aspirin"),
        Passage("abstract", "It helps. 𝒳", label="AIM", infons={"a": "b"}),
    ]
    mention = Mention(0, 7, "Aspirin", "Chemical", 0.25, ("D001241", "x"), id="T1", infons={"k": "v"})
    return [Document.build(str(number), passages, [mention]) for number in range(count)]


def test_row_groups_are_closed_by_number_so_that_memory_stays_flat(tmp_path: Path) -> None:
    # 4096 documents fill a group, the rest makes a second one.
    documents = some(parquet.DOCUMENTS_IN_A_GROUP + 10)
    write(documents, tmp_path / "x.parquet")
    assert parquet.count_by_row_group(tmp_path / "x.parquet") == [parquet.DOCUMENTS_IN_A_GROUP, 10]
    assert list(read(tmp_path / "x.parquet")) == documents


def test_row_groups_are_closed_by_size_for_full_texts(tmp_path: Path) -> None:
    # Three documents of half the limit: two fill a group.
    long = Document.build("long", [Passage("paragraph", "x" * (parquet.CHARACTERS_IN_A_GROUP // 2))])
    write([long] * 3, tmp_path / "x.parquet")
    assert parquet.count_by_row_group(tmp_path / "x.parquet") == [2, 1]


def test_texts_are_iterated_without_documents_and_in_order(tmp_path: Path) -> None:
    documents = [*some(3), Document("none", ""), Document("no passages", "but text")]
    write(documents, tmp_path / "x.parquet")
    texts = [each for batch in parquet.iterate_texts(tmp_path / "x.parquet", batch=2) for each in batch]
    assert texts == [["Aspirin", "It helps. 𝒳"]] * 3 + [[], ["but text"]]
    assert [i for ids in parquet.iterate_ids(tmp_path / "x.parquet", 2) for i in ids] == [
        d.id for d in documents
    ]
    assert parquet.count_documents(tmp_path / "x.parquet") == 5


def test_text_outside_passages_is_kept(tmp_path: Path) -> None:
    # The gap between the passages is not spaces, and there is text after the last one: only `text` says so.
    document = Document("x", "ab--cd!", (Passage("title", "ab"), Passage("abstract", "cd", 4)))
    write([document], tmp_path / "x.parquet")
    assert list(read(tmp_path / "x.parquet")) == [document]


def test_an_error_in_the_block_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), parquet.ParquetWriter(tmp_path / "x.parquet") as writer:
        writer.write(some(1)[0])
        raise RuntimeError("stopped")
    assert list(tmp_path.iterdir()) == []


def test_a_stream_that_cannot_seek_is_read_too(tmp_path: Path) -> None:
    # Parquet is read from its end, a decompressed stream is not.
    write(some(2), tmp_path / "x.parquet")
    with gzip.open(tmp_path / "x.parquet.gz", "wb") as stream:
        stream.write((tmp_path / "x.parquet").read_bytes())
    assert list(read(tmp_path / "x.parquet.gz")) == some(2)


def test_a_parquet_file_of_something_else_is_refused_with_the_columns(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "x.parquet")
    with pytest.raises(
        BadInput, match=r"x\.parquet: is not a Parquet file of documents .*valid: id, passages"
    ):
        list(read(tmp_path / "x.parquet", rejects=Rejects(strict=True)))


def test_a_cut_parquet_file_is_refused() -> None:
    with pytest.raises(BadInput, match="is not a readable Parquet file"):
        list(parquet.read(io.BytesIO(b"PAR1 and then nothing"), Rejects(), "x.parquet"))


@pytest.mark.parametrize(
    ("where", "change", "reason"),
    [
        ("passages", {"offset": -5}, "is no document"),
        ("passages", {"offset": None}, "is no document"),
        ("mentions", {"start": None, "fragments": None}, "is no document"),
        ("mentions", {"start": 500, "end": 501, "fragments": None}, OUTSIDE),
        ("mentions", {"text": "Ibuprofen"}, DIFFERS),
        ("mentions", {"start": 3}, None),  # its fragments say otherwise, as does its text
    ],
)
def test_a_row_that_another_program_damaged_costs_what_is_damaged_and_no_more(
    tmp_path: Path, where: str, change: dict[str, object], reason: str | None
) -> None:
    path = tmp_path / "x.parquet"
    write(some(3), path)
    rows = pq.read_table(path).to_pylist()
    rows[1][where][-1].update(change)
    pq.write_table(pa.Table.from_pylist(rows, schema=parquet.SCHEMA), path)
    rejects = Rejects()
    found = list(read(path, rejects=rejects))
    assert [d.id for d in found] == (["0", "2"] if reason == "is no document" else ["0", "1", "2"])
    assert [(i["record"], i["reason"]) for i in rejects.items] == ([("row 2, 1", reason)] if reason else [])
    for document in found:
        assert all(m.text == document.text[m.start : m.end] == "Aspirin" for m in document.mentions)


def test_a_passage_that_is_not_the_text_is_no_document(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    write(some(1), path)
    rows = pq.read_table(path).to_pylist()
    rows[0]["text"] = "Another text altogether."
    pq.write_table(pa.Table.from_pylist(rows, schema=parquet.SCHEMA), path)
    rejects = Rejects()
    assert list(read(path, rejects=rejects)) == []
    assert "a passage is not the document's text" in rejects.items[0]["value"]


def test_ids_of_other_programs_may_be_whole_numbers(tmp_path: Path) -> None:
    passages = [[{"kind": "title", "text": "A title.", "offset": 0}]]
    pq.write_table(pa.table({"id": [7], "passages": passages}), tmp_path / "x.parquet")
    (document,) = read(tmp_path / "x.parquet", rejects=Rejects(strict=True))
    assert (document.id, document.text) == ("7", "A title.")
