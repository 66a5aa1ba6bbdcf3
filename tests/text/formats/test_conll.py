"""CoNLL: columns, tag schemes, documents, and the writer."""

from __future__ import annotations

from pathlib import Path

import pytest

from biosmith.rejects import Rejects
from biosmith.text.document import Document, Mention, Passage
from biosmith.text.formats import read, write
from biosmith.text.formats.conll import read_tags


def read_text(tmp_path: Path, text: str, rejects: Rejects | None = None) -> list[Document]:
    path = tmp_path / "train.tsv"
    path.write_bytes(text.encode())
    return list(read(path, format="conll", rejects=rejects or Rejects(strict=True)))


# "A B C" with a mention over B and C, then one over D, in every scheme that can say so.
@pytest.mark.parametrize(
    ("tags", "spans"),
    [
        ("O B-X I-X B-X", [(1, 2, "X"), (3, 3, "X")]),
        ("O I-X I-X B-X", [(1, 2, "X"), (3, 3, "X")]),  # IOB1: B only where a mention follows another
        ("O B-X E-X S-X", [(1, 2, "X"), (3, 3, "X")]),
        ("O B-X L-X U-X", [(1, 2, "X"), (3, 3, "X")]),
        ("O B I B", [(1, 2, ""), (3, 3, "")]),
        ("O I-X I-X I-Y", [(1, 2, "X"), (3, 3, "Y")]),  # IO: another type is another mention
        ("I-X O O I-X", [(0, 0, "X"), (3, 3, "X")]),
        ("B-X-Y I-X-Y O O", [(0, 1, "X-Y")]),  # only the first hyphen divides
    ],
)
def test_mentions_are_read_from_every_scheme(tags: str, spans: list[tuple[int, int, str]]) -> None:
    assert list(read_tags(tags.split())) == spans


def test_a_sentence_is_a_document_of_tokens_joined_by_spaces(tmp_path: Path) -> None:
    first, second = read_text(tmp_path, "IL\tB-Gene\n-\tI-Gene\n2\tI-Gene\nrises\tO\n\n\nAspirin\tB-Drug\n")
    assert (first.id, first.text, first.passages[0].kind) == ("train-1", "IL - 2 rises", "sentence")
    (mention,) = first.mentions
    assert (mention.start, mention.end, mention.text, mention.type) == (0, 6, "IL - 2", "Gene")
    assert second.id == "train-2"


def test_docstart_lines_make_documents_of_sentences(tmp_path: Path) -> None:
    text = "-DOCSTART- (10037531)\n\nAspirin\tB-Drug\n\nIt\tO\nhelps\tO\n\n-DOCSTART-\tO\n\nPain\tB-Disease\n"
    first, second = read_text(tmp_path, text)
    assert (first.id, first.text, len(first.passages)) == ("10037531", "Aspirin It helps", 2)
    assert (second.id, second.mentions[0].text) == ("train-2", "Pain")


def test_genias_files_of_jnlpba_are_documents_by_pmid(tmp_path: Path) -> None:
    path = tmp_path / "Genia4ERtask1.iob2"
    path.write_text("###MEDLINE:95369245\n\nIL-2\tB-DNA\ngene\tI-DNA\n\n###MEDLINE:95333264\n\nHere\tO \n")
    first, second = read(path)
    assert [(d.id, d.text) for d in (first, second)] == [("95369245", "IL-2 gene"), ("95333264", "Here")]
    assert [m.text for m in first.mentions] == ["IL-2 gene"]


def test_comments_before_a_sentence_are_no_tokens_and_a_token_may_be_the_sign(tmp_path: Path) -> None:
    (document,) = read_text(tmp_path, "# id = 1\n# B-X\nAspirin O\n")
    assert document.text == "# Aspirin"


def test_four_columns_by_spaces_keep_the_middle_ones(tmp_path: Path) -> None:
    (document,) = read_text(tmp_path, "Aspirin NN O B-INT\nhelps VB O O\n")
    assert document.passages[0].infons == {"column 2": "NN VB", "column 3": "O O"}
    assert document.mentions[0].type == "INT"


def test_a_no_break_space_does_not_divide_columns(tmp_path: Path) -> None:
    (document,) = read_text(tmp_path, "IL\u00a06  B-Gene\nrises O\n")
    assert [m.text for m in document.mentions] == ["IL\u00a06"]


def test_a_bad_line_sets_its_sentence_aside_and_names_the_line(tmp_path: Path) -> None:
    rejects = Rejects()
    text = "a\tO\n\nb\tO\nc\nd\tO\n\ne\tO\n\nf\tB-Diease x\n\n\tO\n\ng\tQ-X\n\nh\tO\r\n"
    assert [d.text for d in read_text(tmp_path, text, rejects)] == ["a", "e", "h"]
    assert [item["record"] for item in rejects.items] == ["line 4", "line 9", "line 11", "line 13"]
    assert rejects.items[0]["reason"].startswith("has 1 columns where the first line has 2")
    assert "none of: O, or B, I, E, S, L, U" in rejects.items[3]["reason"]


def test_tokens_may_hold_spaces_where_tabs_separate(tmp_path: Path) -> None:
    (document,) = read_text(tmp_path, "New York\tB-Place\n\u00a0\u2009x\tO\n")
    assert document.mentions[0].text == "New York"


def test_written_tokens_are_cut_where_mentions_begin_and_end(tmp_path: Path) -> None:
    # "TNF" is a mention inside the run TNFalpha, which is cut for it.
    passage = Passage("abstract", "TNFalpha binds. It helps.")
    document = Document.build(
        "7", [passage], [Mention(0, 3, "TNF", "Gene"), Mention(9, 14, "binds", "Process")]
    )
    write([document], tmp_path / "x.conll")
    assert (tmp_path / "x.conll").read_text() == (
        "-DOCSTART- (7)\n\nTNF\tB-Gene\nalpha\tO\nbinds\tB-Process\n.\tO\n\nIt\tO\nhelps\tO\n.\tO\n\n"
    )
    (back,) = read(tmp_path / "x.conll", rejects=Rejects(strict=True))
    assert [(m.text, m.type) for m in back.mentions] == [("TNF", "Gene"), ("binds", "Process")]


def test_a_mention_is_not_cut_by_the_end_of_a_sentence(tmp_path: Path) -> None:
    passage = Passage("abstract", "It was E. coli. Then it went.")
    document = Document.build("7", [passage], [Mention(7, 20, passage.text[7:20], "X")])  # runs over the stop
    write([document], tmp_path / "x.conll")
    (back,) = read(tmp_path / "x.conll", rejects=Rejects(strict=True))
    assert [m.text for m in back.mentions] == ["E . coli . Then"]


def test_what_the_writer_leaves_out_is_reported(tmp_path: Path) -> None:
    mentions = [
        Mention(0, 14, "ovarian cancer", "Disease", 0.5, ("D1",)),
        Mention(8, 14, "cancer", "Disease"),
        Mention(0, 14, "ovarian cancer", "Disease", fragments=((0, 7), (8, 14))),
    ]
    report = write(
        [Document.build("1", [Passage("title", "ovarian cancer")], mentions)], tmp_path / "x.conll"
    )
    assert report.mentions == 1
    assert report.lost == {
        "overlapping mentions": 1,
        "discontinuous mentions": 1,
        "ids of mentions": 1,
        "scores of mentions": 1,
        "white space, kinds, labels and infons": 1,  # tokens have none of them
    }


def test_bytes_that_are_not_utf8_cost_their_sentence_alone(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_bytes(
        b"Gout\tB-D\nhurts\tO\n\nM\xe9ni\xe8re\tB-D\nhurts\tO\n\nPain\tB-D\nhurts\tO\n"
    )
    rejects = Rejects()
    documents = list(read(tmp_path / "train.tsv", format="conll", rejects=rejects))
    assert [d.text for d in documents] == ["Gout hurts", "Pain hurts"]
    (item,) = rejects.items
    assert item["record"] == "line 4"
    assert item["reason"] == "is not UTF-8 (invalid continuation byte); its sentence is left out"


def test_a_document_without_words_comes_back_and_one_whose_sentences_are_bad_does_not(tmp_path: Path) -> None:
    documents = [
        Document.build("1", []),
        Document.build("2", [Passage("paragraph", "Fever.")]),
        Document.build("3", []),
    ]
    write(documents, tmp_path / "x.conll")
    assert [(d.id, d.text) for d in read(tmp_path / "x.conll")] == [("1", ""), ("2", "Fever ."), ("3", "")]
    # The first of these is no document without text: its text is what was set aside.
    (tmp_path / "y.conll").write_text(
        "-DOCSTART- (1)\n\na\tB-X\nb\tnonsense\n\n-DOCSTART- (2)\n\na\tO\nb\tO\nc\tO\n", encoding="utf-8"
    )
    rejects = Rejects()
    assert [d.id for d in read(tmp_path / "y.conll", format="conll", rejects=rejects)] == ["2"]
    assert rejects.count == 1
