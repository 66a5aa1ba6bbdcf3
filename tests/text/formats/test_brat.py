"""brat standoff: pairs of files, all kinds of lines, and what the format cannot hold."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from biosmith.errors import UsageError
from biosmith.rejects import Rejects
from biosmith.text.document import Argument, Document, Mention, Passage, Relation
from biosmith.text.formats import brat, read, write

TEXT = "Breast and ovarian cancer\nBRCA1 binds BARD1.\n"


def read_pair(
    folder: Path, annotations: str, text: str | bytes = TEXT, rejects: Rejects | None = None
) -> Document:
    folder.mkdir(exist_ok=True)
    (folder / "a.txt").write_bytes(text if isinstance(text, bytes) else text.encode())
    (folder / "a.ann").write_bytes(annotations.encode())
    (document,) = read(folder, rejects=rejects or Rejects(strict=True))
    return document


def test_lines_are_passages_and_offsets_count_the_file(tmp_path: Path) -> None:
    # The second line begins after 25 characters and a line break, at 26.
    document = read_pair(tmp_path, "T1\tGene 26 31\tBRCA1\n")
    assert [(p.kind, p.text, p.offset) for p in document.passages] == [
        ("paragraph", "Breast and ovarian cancer", 0),
        ("paragraph", "BRCA1 binds BARD1.", 26),
    ]
    assert document.id == "a"
    assert (document.mentions[0].text, document.mentions[0].id) == ("BRCA1", "T1")


def test_discontinuous_mentions_keep_their_parts(tmp_path: Path) -> None:
    (mention,) = read_pair(tmp_path, "T1\tDisease 0 6;19 25\tBreast cancer\n").mentions
    assert (mention.fragments, mention.text) == (((0, 6), (19, 25)), "Breast cancer")


def test_every_kind_of_line_is_kept(tmp_path: Path) -> None:
    document = read_pair(
        tmp_path,
        "T1\tGene 26 31\tBRCA1\n"
        "T2\tGene 38 43\tBARD1\n"
        "T3\tBinding 32 37\tbinds\n"
        "R1\tInteracts Arg1:T1 Arg2:T2\n"
        "E1\tBinding:T3 Theme:T1 Theme2:T2\n"
        "*\tEquiv T1 T2\n"
        "A1\tNegation E1\n"
        "A2\tConfidence T1 High\n"
        "A3\tscore T1 0.75\n"
        "N1\tReference T1 NCBIGene:672\tBRCA1 DNA repair associated\n"
        "#1\tAnnotatorNotes T1\tsure\n"
        "#2\tAnnotatorNotes T1\tvery sure\n",
    )
    assert document.mentions[0].ids == ("NCBIGene:672",)
    assert document.mentions[0].score == 0.75
    assert document.mentions[0].infons == {
        "Confidence": "High",
        "name NCBIGene:672": "BRCA1 DNA repair associated",
        "note": "sure\nvery sure",
    }
    interacts, binding, equivalence = document.relations
    assert interacts.arguments == (Argument("Arg1", "T1"), Argument("Arg2", "T2"))
    assert binding.arguments == (Argument("trigger", "T3"), Argument("Theme", "T1"), Argument("Theme2", "T2"))
    assert binding.infons == {"Negation": "true"}
    assert (equivalence.type, equivalence.arguments) == ("Equiv", (Argument("", "T1"), Argument("", "T2")))
    # All of it is written again.
    report = write([document], tmp_path / "out", format="brat")
    assert list(read(tmp_path / "out")) == [document]
    assert not report.lost


def test_crlf_counts_as_two_or_as_one_whatever_the_mentions_say(tmp_path: Path) -> None:
    # "BARD1" is at 38 in a file with \n; with \r\n counted as two it is at 39.
    text = TEXT.replace("\n", "\r\n").encode()
    as_two = read_pair(tmp_path / "two", "T1\tGene 39 44\tBARD1\r\n", text)
    as_one = read_pair(tmp_path / "one", "T1\tGene 38 43\tBARD1\r\n", text)
    assert as_two.mentions[0].text == as_one.mentions[0].text == "BARD1"
    assert (as_two.passages[1].offset, as_one.passages[1].offset) == (27, 26)


def test_a_file_without_annotations_is_a_document_and_so_is_one_without_a_text_not(tmp_path: Path) -> None:
    assert read_pair(tmp_path / "a", "").mentions == ()
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "x.ann").write_text("T1\tGene 0 5\tBRCA1\n", encoding="utf-8")
    rejects = Rejects()
    assert list(read(tmp_path / "b", rejects=rejects)) == []
    assert "no .txt file" in rejects.items[0]["reason"]


def test_bad_lines_are_set_aside_by_number(tmp_path: Path) -> None:
    rejects = Rejects()
    lines = [
        "T1\tGene 26 31\tBRCA1",
        "T2\tGene 26\tBRCA1",
        "X1\twhat",
        "A1\tNegation T9",
        "T3\tGene 0 99\tfar",
    ]
    document = read_pair(tmp_path, "\n".join(lines), rejects=rejects)
    assert [m.id for m in document.mentions] == ["T1"]
    assert [item["record"] for item in rejects.items] == ["line 2", "line 3", "line 4", "line 5"]


def test_pairs_are_read_from_an_archive(tmp_path: Path) -> None:
    path = tmp_path / "x.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, content in {
            "d/b.ann": "T1\tGene 26 31\tBRCA1\n",
            "d/b.txt": TEXT,
            "d/c.txt": "alone",
        }.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content.encode()))
    documents = {d.id: d for d in read(path, rejects=Rejects(strict=True))}
    assert documents["b"].mentions[0].text == "BRCA1"
    assert documents["c"].text == "alone"  # a text without annotations beside it is plain text


@pytest.mark.parametrize("id", ["10.1016/j.molcel.2016", "a b", ".hidden", "x~2", "", "ß", "%41"])
def test_any_id_is_a_file_name(tmp_path: Path, id: str) -> None:
    write([Document.build(id, [Passage("paragraph", "x")])], tmp_path / "out", format="brat")
    assert [d.id for d in read(tmp_path / "out")] == [id]


def test_the_same_id_twice_is_two_files(tmp_path: Path) -> None:
    documents = [Document.build("7", [Passage("paragraph", text)]) for text in ("one", "two")]
    write(documents, tmp_path / "out", format="brat")
    assert sorted(p.name for p in (tmp_path / "out").glob("*.txt")) == ["7.txt", "7~2.txt"]
    assert list(read(tmp_path / "out")) == documents


def test_what_brat_cannot_hold_is_reported(tmp_path: Path) -> None:
    passages = [Passage("title", "Aspirin", label="L"), Passage("abstract", "a\nb")]
    relation = Relation("CID", (Argument("Chemical", "D1"), Argument("Disease", "D2")))
    document = Document.build(
        "1", passages, [Mention(0, 7, "Aspirin", "", id="m1")], [relation], {"year": "2020"}
    )
    report = write([document], tmp_path / "out", format="brat")
    assert set(report.lost) == {
        "infons of documents",
        "kinds of passages",
        "labels of passages",
        "number of passages, or line breaks in them",
        "types that are empty or hold white space",
        "names of mentions",
        "relations that are not between two mentions or relations, nor events, nor equivalences",
    }
    assert list(read(tmp_path / "out")) == [brat.project(document)]


def test_a_folder_that_holds_something_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / "there.txt").touch()
    with pytest.raises(UsageError, match="exists already"):
        write([], tmp_path, format="brat")


def test_a_text_whose_annotations_are_a_blank_line_is_read(tmp_path: Path) -> None:
    document = read_pair(tmp_path, "\n")
    assert (document.id, document.mentions) == ("a", ())
    assert document.text == TEXT.strip().replace("\n", " ")


def test_a_text_that_is_not_utf8_is_named_and_shown(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("Café BRCA1".encode("cp1252"))
    (tmp_path / "a.ann").write_text("T1\tGene 5 10\tBRCA1\n", encoding="utf-8")
    rejects = Rejects()
    assert list(read(tmp_path, rejects=rejects)) == []
    (item,) = rejects.items
    assert (item["record"], item["value"]) == ("the .txt file beside it", "Caf\ufffd BRCA1")
    assert item["reason"].startswith("not UTF-8")


def test_annotations_are_found_beside_a_name_that_is_longer_in_lower_case(tmp_path: Path) -> None:
    # "İ" is two characters in lower case.
    (tmp_path / "İx.txt").write_text("BRCA1", encoding="utf-8")
    (tmp_path / "İx.ann").write_text("T1\tGene 0 5\tBRCA1\n", encoding="utf-8")
    (document,) = read(tmp_path, rejects=Rejects(strict=True))
    assert (document.id, len(document.mentions)) == ("İx", 1)
