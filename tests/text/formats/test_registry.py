"""`biosmith.read` and `biosmith.write`: finding formats, folders, archives, and what cannot be read."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import inspect
import io
import logging
import lzma
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import biosmith
from biosmith.errors import BadInput, UsageError
from biosmith.rejects import Rejects
from biosmith.text import formats
from biosmith.text.document import Document

MEDLINE = "<PubmedArticleSet><PubmedArticle><MedlineCitation><PMID>1</PMID><Article><ArticleTitle>One.</ArticleTitle></Article></MedlineCitation></PubmedArticle></PubmedArticleSet>"
JATS = "<article><front><article-meta><article-id pub-id-type='pmc'>2</article-id><title-group><article-title>Two.</article-title></title-group></article-meta></front></article>"


def ids(source: object, rejects: Rejects | None = None, **options: object) -> list[str]:
    return [d.id for d in biosmith.read(source, rejects=rejects or Rejects(strict=True), **options)]


@pytest.mark.parametrize("name", ["x.xml", "x.nxml", "x", "x.txt", "x.gz", "x.json"])
def test_the_content_decides_where_the_name_does_not_or_is_wrong(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(MEDLINE, encoding="utf-8")
    assert ids(tmp_path / name) == ["1"]
    (tmp_path / name).write_bytes(gzip.compress(JATS.encode()))
    assert ids(tmp_path / name) == ["PMC2"]


def test_folders_are_read_in_sorted_order_and_unknown_files_are_set_aside_with_the_reason(
    tmp_path: Path,
) -> None:
    (tmp_path / "b.xml").write_text(MEDLINE, encoding="utf-8")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "z.nxml").write_text(JATS, encoding="utf-8")
    (tmp_path / "noise.xml").write_bytes(bytes(range(256)) * 10)
    (tmp_path / "empty.xml").write_bytes(b"")
    (tmp_path / "empty.xml.gz").write_bytes(gzip.compress(b""))
    (tmp_path / "note.doc").write_text("<html>", encoding="utf-8")
    rejects = Rejects()
    assert ids(tmp_path, rejects) == ["PMC2", "1"]
    reasons = {Path(item["file"]).name: item["reason"] for item in rejects.items}
    assert reasons["empty.xml"] == reasons["empty.xml.gz"] == "empty file"
    assert reasons["noise.xml"].startswith("binary data of no known format")
    assert reasons["note.doc"].startswith("text of no known format")


def test_open_files_and_single_documents_are_refused_by_what_to_give_instead(tmp_path: Path) -> None:
    path = tmp_path / "a.xml"
    path.write_text(MEDLINE, encoding="utf-8")
    with path.open() as stream, pytest.raises(UsageError, match="from paths, not from open files"):
        biosmith.read(stream)
    (document,) = biosmith.read(path)
    for wrong in (document, "Aspirin helps."):
        with pytest.raises(UsageError, match=r"write\(\[document\], path\)"):
            biosmith.write(wrong, tmp_path / "out.jsonl")


def test_several_sources_are_read_one_after_another_each_file_once(tmp_path: Path) -> None:
    for name, content in (("a.xml", MEDLINE), ("b.xml", JATS)):
        (tmp_path / name).write_text(content, encoding="utf-8")
    assert ids([tmp_path / "b.xml", str(tmp_path), tmp_path / "a.xml"]) == ["PMC2", "1"]


def test_archives_are_read_and_members_named(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "x.tar.gz", "w:gz") as archive:
        for name, data in (
            ("d/a.nxml", JATS.encode()),
            ("d/b.xml.gz", gzip.compress(MEDLINE.encode())),
            ("d/c.pdf", b"%PDF\0"),
        ):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    rejects = Rejects()
    assert ids(tmp_path / "x.tar.gz", rejects) == ["PMC2", "1"]
    assert [item["file"] for item in rejects.items] == [f"{tmp_path}/x.tar.gz/d/c.pdf"]


@pytest.mark.parametrize("share", [0.4, 0.9])
def test_a_damaged_archive_gives_what_comes_before_and_one_reject(tmp_path: Path, share: float) -> None:
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        for number in range(20):
            member = tarfile.TarInfo(f"{number:02d}.nxml")
            member.size = len(JATS)
            archive.addfile(member, io.BytesIO(JATS.encode()))
    data = (tmp_path / "x.tar").read_bytes()
    (tmp_path / "x.tar.gz").write_bytes(gzip.compress(data[: int(1024 * 20 * share) + 100]))
    rejects = Rejects()
    assert len(ids(tmp_path / "x.tar.gz", rejects)) == int(20 * share)
    assert rejects.count == 1


def test_a_missing_path_an_unknown_format_and_an_unknown_option_are_wrong_calls(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text(MEDLINE, encoding="utf-8")
    with pytest.raises(UsageError, match="does not exist"):
        biosmith.read(tmp_path / "b.xml")
    with pytest.raises(UsageError, match=r"'medlin' is not a format; valid: .*medline"):
        biosmith.read(tmp_path / "a.xml", format="medlin")
    with pytest.raises(UsageError, match=r"'mash' is not an option of medline; valid: deletions, mesh"):
        biosmith.read(tmp_path / "a.xml", format="medline", mash=True)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "empty file"),
        (b"\0\1\2" * 50, "binary data"),
        (gzip.compress(MEDLINE.encode(), mtime=0)[:12], "damaged"),
    ],
)
def test_a_single_file_that_cannot_be_read_is_bad_input_with_the_reason(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    (tmp_path / "x.xml").write_bytes(content)
    with pytest.raises(BadInput, match=rf"x\.xml: {reason}"):
        ids(tmp_path / "x.xml", Rejects())


def test_compression_that_is_not_read_is_named(tmp_path: Path) -> None:
    # Of ".xml.bz2" a list of formats would say nothing; XML is among them.
    (tmp_path / "x.xml.bz2").write_bytes(bz2.compress(MEDLINE.encode()))
    with pytest.raises(BadInput, match=r"x\.xml\.bz2: bzip2 is not read; unpack or convert it first"):
        ids(tmp_path / "x.xml.bz2", Rejects())
    inner = tmp_path / "inner.zip"
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("a.xml", MEDLINE)
    with zipfile.ZipFile(tmp_path / "outer.zip", "w") as archive:
        archive.write(inner, "inner.zip")
    rejects = Rejects()
    with pytest.raises(BadInput):
        ids(tmp_path / "outer.zip", rejects)
    assert rejects.items[0]["reason"].startswith("a zip archive inside of another archive is not read")


def test_a_zip_archive_without_members_holds_nothing(tmp_path: Path) -> None:
    zipfile.ZipFile(tmp_path / "x.zip", "w").close()
    with pytest.raises(BadInput, match="holds no readable file"):
        ids(tmp_path / "x.zip", Rejects())


def test_a_folder_without_readable_files_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="holds no readable file"):
        ids(tmp_path, Rejects())
    (tmp_path / "x.bin").write_bytes(b"\0\1\2")
    (tmp_path / "y.bin").write_bytes(b"\0\1\2")
    with pytest.raises(BadInput, match="holds no readable file"):
        ids(tmp_path, Rejects())
    sources = [tmp_path / "x.bin", tmp_path / "y.bin"]
    for several, name in ((sources[:1], "x.bin: "), (sources, "x.bin, and 1 more: "), ([], "no file: ")):
        with pytest.raises(BadInput) as error:
            list(biosmith.read(several, rejects=Rejects()))
        assert str(error.value).startswith(f"{tmp_path}/{name}" if several else name)


def test_without_rejects_what_is_set_aside_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "a.xml").write_text(MEDLINE[:-5], encoding="utf-8")
    (tmp_path / "b.xml").write_text(MEDLINE, encoding="utf-8")
    with caplog.at_level(logging.WARNING, logger="biosmith"):
        assert len(list(biosmith.read(tmp_path))) == 2
    assert "1 records were set aside: broken XML" in caplog.text


def test_reading_begins_with_the_first_document_and_not_with_the_whole_file(tmp_path: Path) -> None:
    # The file is broken behind the first piece; the first document is there before that is seen.
    head, tail = MEDLINE.replace("</PubmedArticleSet>", ""), " " * 1_000_000 + "<broken"
    (tmp_path / "x.xml").write_text(head + tail, encoding="utf-8")
    rejects = Rejects()
    documents = biosmith.read(tmp_path / "x.xml", rejects=rejects)
    assert next(documents).id == "1"
    assert rejects.count == 0
    assert list(documents) == []
    assert rejects.count == 1


def test_a_suffix_that_no_format_writes_is_a_wrong_call_that_names_the_formats(tmp_path: Path) -> None:
    # `--to`, `--format` and `format=` ask alike: the message names none of them, which the caller may not have.
    with pytest.raises(UsageError, match="no format is written to this suffix; name one: parquet, bioc-xml"):
        biosmith.write([], tmp_path / "x.unknown")
    with pytest.raises(UsageError, match="cannot be written"):
        biosmith.write([], tmp_path / "x.xml", format="medline")


@pytest.mark.parametrize("name", formats.FORMATS)
def test_every_format_keeps_to_the_form_of_the_table(name: str) -> None:
    module = formats.load_format(name)
    assert name == module.NAME
    assert module.__doc__
    assert all(s == s.lower() and not s.endswith((".gz", ".xz")) for s in module.SUFFIXES)
    assert hasattr(module, "read") or hasattr(module, "write")
    if hasattr(module, "read"):
        assert list(inspect.signature(module.read).parameters)[:3] == ["stream", "rejects", "file"]
    assert hasattr(module, "looks_like") or module.SUFFIXES


def test_a_zip_archive_with_a_password_is_bad_input(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("a.xml", MEDLINE)
    data = bytearray((tmp_path / "x.zip").read_bytes())
    for header, flags in (
        (b"PK\3\4", 6),
        (b"PK\1\2", 8),
    ):  # bit 0 of the flags says that the member is encrypted
        data[data.find(header) + flags] |= 1
    (tmp_path / "x.zip").write_bytes(bytes(data))
    with pytest.raises(BadInput, match=r"damaged archive: .*encrypted"):
        ids(tmp_path / "x.zip", Rejects())


def make_samples() -> dict[str, bytes]:
    """A file of each kind that is read here, as bytes."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        member = tarfile.TarInfo("a.nxml")
        member.size = len(JATS)
        archive.addfile(member, io.BytesIO(JATS.encode()))
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("a.nxml", JATS)
    return {
        "a.xml": MEDLINE.encode(),
        "a.xml.gz": gzip.compress(MEDLINE.encode()),
        "a.xml.xz": lzma.compress(MEDLINE.encode()),
        "utf16.xml": ('<?xml version="1.0" encoding="utf-16"?>' + MEDLINE).encode("utf-16"),
        "a.nxml": JATS.encode(),
        "a.tar.gz": buffer.getvalue(),
        "a.zip": zipped.getvalue(),
        "a.nbib": b"PMID- 1\nTI  - One.\n",
        "a.json": b'{"paper_id": "x", "metadata": {"title": "T"}, "body_text": [{"text": "Words."}]}',
    }


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_a_damaged_file_gives_documents_rejects_or_bad_input_and_nothing_else(
    tmp_path: Path, data: st.DataObject
) -> None:
    samples = make_samples()
    name = data.draw(st.sampled_from(sorted(samples)))
    content = bytearray(samples[name])
    for _ in range(data.draw(st.integers(0, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    del content[data.draw(st.integers(0, len(content))) :]
    path = tmp_path / name
    path.write_bytes(bytes(content))
    rejects = Rejects()
    try:
        documents = list(biosmith.read(path, rejects=rejects))
    except BadInput as error:
        assert str(path) in str(error)
    else:
        assert documents or rejects.count


@pytest.mark.parametrize("wrong", [None, 7, [None], b"a.xml"])
def test_what_is_no_path_is_refused_by_what_to_give_instead(wrong: object) -> None:
    with pytest.raises(UsageError, match="documents are read from a path or several, not from"):
        biosmith.read(wrong)


def test_a_text_in_place_of_a_path_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: File name too long"):
        biosmith.read("A long abstract. " * 300)


def test_two_members_of_one_name_are_both_read(tmp_path: Path) -> None:
    with (
        zipfile.ZipFile(tmp_path / "x.zip", "w") as archive,
        pytest.warns(UserWarning, match="Duplicate name"),
    ):
        for text in ("One.", "Two."):
            archive.writestr("a.txt", text)
    assert [d.text for d in biosmith.read(tmp_path / "x.zip")] == ["One.", "Two."]


@pytest.mark.parametrize("name", ["x.jsonl", "x.pubtator", "x.tsv", "x.csv"])
def test_text_in_utf16_is_named_as_such_where_a_format_does_not_read_it(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes('{"id": "1", "text": "Some text."}\n'.encode("utf-16"))
    rejects = Rejects()
    with contextlib.suppress(BadInput):  # where no file is left
        assert not ids(tmp_path / name, rejects)
    assert [item["reason"] for item in rejects.items] == [
        "UTF-16, in which only XML and plain text are read; save it as UTF-8"
    ]


def test_text_in_utf32_is_refused_and_not_read_as_utf16(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_bytes("Some text.".encode("utf-32"))
    rejects = Rejects()
    assert ids(tmp_path / "x.txt", rejects) == []
    assert [item["reason"] for item in rejects.items] == ["UTF-32 is not read; save it as UTF-8"]


def test_a_member_of_an_unknown_compression_does_not_cost_the_members_after_it(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        for name in ("a", "b"):
            archive.writestr(f"{name}.txt", f"Text of {name}.")
    data = bytearray((tmp_path / "x.zip").read_bytes())
    data[data.index(b"PK\x01\x02") + 10] = 9  # Deflate64, with which Windows packs large files
    (tmp_path / "x.zip").write_bytes(data)
    rejects = Rejects()
    assert ids(tmp_path / "x.zip", rejects) == ["b"]
    (item,) = rejects.items
    assert "1 of 2 members cannot be opened, the first: a.txt: " in item["reason"]


@pytest.mark.parametrize("packed", [False, True])
def test_texts_beside_annotations_are_read_where_they_are_asked_for_as_plain(
    tmp_path: Path, packed: bool
) -> None:
    folder = tmp_path / "brat"
    folder.mkdir()
    (folder / "a.txt").write_text("BRCA1 here.", encoding="utf-8")
    (folder / "a.ann").write_text("T1\tGene 0 5\tBRCA1\n", encoding="utf-8")
    if packed:
        with tarfile.open(tmp_path / "x.tar", "w") as archive:
            archive.add(folder, "brat")
    found = biosmith.read(
        tmp_path / "x.tar" if packed else folder, format="plain", rejects=Rejects(strict=True)
    )
    assert [d.text for d in found] == ["T1\tGene 0 5\tBRCA1", "BRCA1 here."]


@pytest.mark.parametrize(
    "name", ["x.jsonl", "x.bioc.json", "x.bioc.xml", "x.pubtator", "x.html", "x.parquet", "x.txt.gz"]
)
def test_what_is_no_document_is_not_written_and_said(tmp_path: Path, name: str) -> None:
    given: list[Any] = [
        ["Aspirin helps."],
        [Document("1", "a"), None],
        ({"id": "1", "text": "a"} for _ in "a"),
        3,
    ]
    for documents in given:
        with pytest.raises(
            UsageError, match=r"write takes documents, not ('Aspirin helps.'|None|{'id': '1'.*|3)$"
        ):
            biosmith.write(documents, tmp_path / name)
    assert not list(tmp_path.iterdir())
