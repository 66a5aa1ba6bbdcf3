"""LINNAEUS and S800 as they are released."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import biosmith
from biosmith.bench.prepare import prepare
from biosmith.bench.prepare.conversion import convert
from biosmith.bench.prepare.species import find_release, read_release
from biosmith.errors import BadInput, UsageError
from biosmith.rejects import Rejects
from biosmith.tasks.labels import read_spans
from biosmith.tasks.tagged import read_conll
from biosmith.text.document import Document

HEADER = "#species id\tdocument\tstart\tend\ttext\tcode\n"
YEAST = "Growth of yeast\nAbstract\nThe β-subunit of S. cerevisiae binds.\n\nMouse cells do not.\n"
MOUSE = "No effect in mice\nWild-type mice were fed.\n"


def write_linnaeus(
    folder: Path, texts: dict[str, str], rows: list[tuple[str, str, int, int, str, str]]
) -> Path:
    (folder / "txt").mkdir(parents=True)
    for name, text in texts.items():
        (folder / "txt" / f"{name}.txt").write_bytes(text.encode())
    lines = ["\t".join(map(str, row)) + "\n" for row in rows]
    (folder / "tags.tsv").write_bytes((HEADER + "".join(lines)).encode())
    (folder / "filtered_tags.tsv").write_text(
        HEADER, encoding="utf-8"
    )  # another choice of the same; not read
    (folder / "README.txt").write_text("Files: txt/", encoding="utf-8")
    return folder


def linnaeus(folder: Path) -> Path:
    rows = [
        ("species:ncbi:4932", "pmcA1", 10, 15, "yeast", ""),
        (
            "species:ncbi:4932",
            "pmcA1",
            YEAST.index("S. c"),
            YEAST.index("S. c") + 13,
            "S. cerevisiae",
            "20|4",
        ),
        ("species:ncbi:0", "pmcA1", YEAST.index("Mouse"), YEAST.index("Mouse") + 5, "Mouse", "4"),
    ]
    return write_linnaeus(folder, {"pmcA1": YEAST, "pmcA2": MOUSE}, rows)


def s800(folder: Path) -> Path:
    (folder / "abstracts").mkdir(parents=True)
    for name, text in (("bacteriology001", YEAST), ("zoology001", MOUSE)):
        (folder / "abstracts" / f"{name}.txt").write_bytes(text.encode())
    # The end is that of the last character.
    (folder / "S800.tsv").write_text("4932\tbacteriology001:111\t10\t14\tyeast\n", encoding="utf-8")
    ids = "bacteriology001\tPMID:111\tBacteriology\nzoology001\tPMID:222\tZoology\n"
    (folder / "pubmedid.tsv").write_text(ids, encoding="utf-8")
    return folder


def read(source: Path) -> tuple[list[Document], Rejects]:
    release, rejects = find_release(source), Rejects()
    assert release is not None
    return list(read_release(release, rejects)), rejects


def test_linnaeus_is_read_with_its_identifiers_and_categories(tmp_path: Path) -> None:
    (first, second), rejects = read(linnaeus(tmp_path / "manual-corpus-species-1.0"))
    assert (first.id, second.id, second.mentions, rejects.count) == ("pmcA1", "pmcA2", (), 0)
    assert [(m.text, m.type, m.ids, dict(m.infons)) for m in first.mentions] == [
        ("yeast", "Species", ("4932",), {}),
        ("S. cerevisiae", "Species", ("4932",), {"category": "20|4"}),
        ("Mouse", "Species", (), {"category": "4"}),  # 0 is no taxon
    ]
    # Offsets stay those of the file: a line is a passage, and a space stands for the end of a line.
    assert first.text == YEAST.rstrip("\n").replace("\n", " ")
    assert [p.kind for p in first.passages] == ["title", "paragraph", "paragraph", "paragraph"]


def test_the_ends_of_s800_are_those_of_the_last_character(tmp_path: Path) -> None:
    (first, second), rejects = read(s800(tmp_path / "S800"))
    assert [(m.start, m.end, m.text, m.ids) for m in first.mentions] == [(10, 15, "yeast", ("4932",))]
    assert (first.id, second.id, rejects.count) == ("111", "222", 0)  # that of a text without a mention too


@pytest.mark.parametrize("write", [linnaeus, s800])
def test_the_folder_around_it_and_the_archive_are_read_alike(tmp_path: Path, write: object) -> None:
    assert callable(write)
    folder = write(tmp_path / "around" / "release")
    archive = tmp_path / "release.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(folder, "release")
        # What a Mac packs beside each file.
        tar.add(
            folder / "README.txt" if write is linnaeus else folder / "S800.tsv", "release/txt/._pmcA1.txt"
        )
    expected, _ = read(folder)
    assert read(tmp_path / "around")[0] == read(archive)[0] == expected


def test_what_is_wrong_with_rows_is_listed_and_the_rest_is_read(tmp_path: Path) -> None:
    rows = [
        ("species:ncbi:4932", "pmcA1", 10, 15, "Yeast", ""),
        ("species:ncbi:4932", "pmcA1", 10, 9999, "yeast", ""),
        ("species:ncbi:10090", "pmcA9", 0, 5, "mouse", ""),
    ]
    folder = write_linnaeus(tmp_path / "linnaeus", {"pmcA1": YEAST}, rows)
    with (folder / "tags.tsv").open("a", encoding="utf-8") as stream:
        stream.write("species:ncbi:1\tpmcA1\tten\t15\tyeast\t\nspecies:ncbi:1 pmcA1 10 15 yeast\n")
    (folder / "txt" / "pmcA3.txt").write_bytes(b"Caf\xe9")
    (document,), rejects = read(folder)
    assert [m.text for m in document.mentions] == ["yeast"]  # the text wins
    assert {(item["record"], item["reason"]) for item in rejects.items} == {
        ("line 2", "mention text differs from the document's text at its offsets"),
        ("line 3", "mention lies outside the text"),
        ("line 4", "is of a text that is not in txt"),
        ("line 5", "start or end is no number"),
        ("line 6", "is not species, document, start, end, text"),
        ("file", "is not UTF-8: unexpected end of data"),
    }


def test_they_are_converted_to_documents_and_by_their_lists_to_splits(tmp_path: Path) -> None:
    folder = linnaeus(tmp_path / "linnaeus")
    made = convert(folder, tmp_path / "linnaeus.bioc.json")
    assert (made.counts["documents"], made.counts["mentions"], made.set_aside) == (2, 3, 0)
    assert [m.text for d in biosmith.read(made.files[0]) for m in d.mentions] == [
        "yeast",
        "S. cerevisiae",
        "Mouse",
    ]
    convert(folder, tmp_path / "all.tsv")
    with pytest.raises(UsageError, match=r"devel\.txt"):
        convert(folder, tmp_path / "splits", "conll")
    (folder / "split").mkdir()
    for split, ids in (("train", "pmcA1\n"), ("devel", "pmcA2\n"), ("test", "pmcA7\npmcA2\n")):
        (folder / "split" / f"{split}.txt").write_text(ids, encoding="utf-8")
    made = convert(folder, tmp_path / "splits", "conll")
    assert [path.name for path in made.files] == ["train.tsv", "dev.tsv", "test.tsv"]
    said = [
        s.words[a:b] for s in read_conll(tmp_path / "splits" / "train.tsv") for a, b, _ in read_spans(s.tags)
    ]
    assert said == [("yeast",), ("S", ".", "cerevisiae"), ("Mouse",)]
    assert made.report is not None
    (item,) = map(json.loads, made.report.read_text(encoding="utf-8").splitlines())
    assert (item["record"], item["reason"]) == ("pmcA7", "is the id of no document of the release")


LINES = st.text(st.sampled_from("aé😀 .\t\u2028-"), max_size=20)


@settings(max_examples=60, deadline=None)
@given(lines=st.lists(LINES, min_size=1, max_size=6), data=st.data())
def test_every_mention_is_where_the_file_says(lines: list[str], data: st.DataObject) -> None:
    text = "\n".join(lines)
    places = [
        (start, end)
        for start, end in data.draw(st.lists(st.tuples(st.integers(0, len(text)), st.integers(0, len(text)))))
        if start < end and text[start:end].strip() and not set("\n\t\u2028") & set(text[start:end])
    ]
    rows = [("species:ncbi:1", "a", start, end, text[start:end], "") for start, end in places]
    with TemporaryDirectory() as folder:
        (document,), rejects = read(write_linnaeus(Path(folder) / "linnaeus", {"a": text}, rows))
    assert rejects.count == 0
    assert [(m.start, m.end, m.text) for m in document.mentions] == [
        (a, b, text[a:b]) for a, b in sorted(places)
    ]


def test_what_is_not_prepared_says_what_can_be_done(tmp_path: Path) -> None:
    for name, word in (("LINNAEUS", "data convert"), ("s800", "data convert"), ("EU-ADR", "no texts")):
        with pytest.raises(UsageError, match=word):
            prepare(name, tmp_path, tmp_path / "out")


def test_the_annotations_of_eu_adr_do_not_pass_for_text(tmp_path: Path) -> None:
    rows = (
        "1\tTrue\tconcept\tasthma\t10\t16\t-\t-\t-\t-\tDisorder\t\n"
        "2\tTrue\trelation\tasthma\tADRB2\t-\t-\t10:16\t30:35\tPA\t-\tt_10022882_rel_1\n"
    )
    folder = tmp_path / "euadr_corpus"
    folder.mkdir()
    (folder / "10022882.txt").write_text(rows, encoding="utf-8")
    for source in (folder, folder / "10022882.txt"):
        with pytest.raises(BadInput, match="EU-ADR"):
            convert(source, tmp_path / "out.bioc.json")
    assert not (tmp_path / "out.bioc.json").exists()
