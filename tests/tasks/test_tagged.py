"""Tagged sentences from CoNLL files and from documents."""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path

import pytest

from biosmith.errors import BadInput, UsageError
from biosmith.rejects import Rejects
from biosmith.tasks.labels import Span, read_spans
from biosmith.tasks.tagged import find_splits, load_split, looks_like_conll, read_conll, tag_documents
from biosmith.text.document import Document, Mention, Passage


def write(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


def test_sentences_know_their_lines_and_quotes_are_words(tmp_path: Path) -> None:
    file = write(tmp_path / "train.tsv", '\ufeffA\tO\r\n"\tB-X\r\n\r\n\r\n-DOCSTART- (1)\r\n\r\nB\tI-X\r\n')
    first, second = read_conll(file)
    assert (first.words, first.tags, first.line, first.document) == (("A", '"'), ("O", "B-X"), 1, 0)
    assert (second.words, second.tags, second.line, second.document) == (("B",), ("I-X",), 7, 1)
    assert second.place(0) == "line 7"


def test_words_may_hold_any_separator_but_a_line_feed_and_a_tab(tmp_path: Path) -> None:
    file = write(tmp_path / "train.tsv", "a\u2028b\x85c\tO\nd\x0be\tB\n")
    (sentence,) = read_conll(file)
    assert sentence.words == ("a\u2028b\x85c", "d\x0be")


def test_the_tag_is_the_last_of_several_columns(tmp_path: Path) -> None:
    file = write(tmp_path / "test.txt", "-DOCSTART- (1)\n\nbudesonide NN O I-INT\n")
    assert [(s.words, s.tags) for s in read_conll(file)] == [(("budesonide",), ("I-INT",))]
    assert looks_like_conll(file)


@pytest.mark.parametrize(
    "text",
    [
        "###MEDLINE:95369245\n\nIL\u00a06\tB-DNA\n#\tO\n",  # GENIA's files of JNLPBA
        "# id = 1\n# text = whatever\nIL\u00a06 B-DNA\n# O\n",
        "IL\u00a06\tB-DNA \n#\tO\t\n \t\n",
    ],
)
def test_marks_of_documents_comments_and_white_space_at_the_end_are_no_words(
    tmp_path: Path, text: str
) -> None:
    file = write(tmp_path / "train.tsv", text)
    assert looks_like_conll(file)
    assert [(s.words, s.tags) for s in read_conll(file)] == [(("IL\u00a06", "#"), ("B-DNA", "O"))]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A\tO\nB\n", r"train.tsv, line 2: a word and a tag are expected \(found 'B'\)"),
        (
            "A\tO\nB\tDisease\n",
            r"train.tsv, line 2: the last column is not a tag; valid: O, B-Type, .* \(found 'Disease'\)",
        ),
        ("A\tO\n\tO\n", "line 2: a word and a tag"),
        ("A\tO\nB\t\n", "line 2: a word and a tag"),
        (
            "A\tO\rB\tB-X\r",
            "line 1: holds a carriage return",
        ),  # once read as one word with the tag of the last
    ],
)
def test_a_line_that_is_not_a_word_and_a_tag_is_named(tmp_path: Path, text: str, message: str) -> None:
    write(tmp_path / "train.tsv", text)
    with pytest.raises(BadInput, match=message):
        load_split(tmp_path, "train")


def test_a_file_that_is_no_text_or_is_cut_is_named_and_not_a_crash(tmp_path: Path) -> None:
    packed = gzip.compress(b"A\tO\n" * 5000)
    (tmp_path / "train.tsv.gz").write_bytes(packed[:-20])
    with pytest.raises(BadInput, match=r"train\.tsv\.gz, after line \d+: is damaged"):
        load_split(tmp_path, "train")
    write(tmp_path / "dev.tsv", "A\tO\n")
    (tmp_path / "dev.tsv").write_bytes(b"A\tO\n\xff\tO\n")
    with pytest.raises(BadInput, match="is not UTF-8"):
        load_split(tmp_path, "dev")


def test_an_empty_split_is_an_error(tmp_path: Path) -> None:
    write(tmp_path / "test.tsv", "\n\n")
    with pytest.raises(BadInput, match="holds no sentence"):
        load_split(tmp_path, "test")


def test_documents_that_all_are_set_aside_are_told_with_the_first_reason(tmp_path: Path) -> None:
    write(tmp_path / "train.json", '{"tokens": ["Aspirin"], "ner_tags": [1]}\n')
    with pytest.raises(BadInput, match=r"train.json, line 1: has no text: .*; no sentence is left"):
        load_split(tmp_path, "train")


def test_what_is_set_aside_of_a_split_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "train.pubtator.gz"
    text = "".join(f"{i}|t|Aspirin {i}\n{i}|a|It helps.\n\n" for i in range(2000))
    path.write_bytes(gzip.compress(text.encode())[:-2000])
    assert load_split(tmp_path, "train").set_aside == 1
    assert f"1 records were set aside; the first: {path}, after " in caplog.text
    assert "damaged compression" in caplog.text


def test_splits_are_found_under_upstream_names_in_any_compression(tmp_path: Path) -> None:
    (tmp_path / "train.tsv.gz").write_bytes(gzip.compress(b"A\tB-X\n"))
    (tmp_path / "devel.tsv").write_bytes(lzma.compress(b"B\tB-X\n"))  # compressed, whatever its name
    write(tmp_path / "test.tsv", "C\tB-X\n")
    write(tmp_path / "train_notes.txt", "not data")
    assert [load_split(tmp_path, s).sentences[0].words for s in ("train", "dev", "test")] == [
        ("A",),
        ("B",),
        ("C",),
    ]


def test_document_files_are_found_by_their_names_and_the_kind_with_all_splits_wins(tmp_path: Path) -> None:
    for name in (
        "CDR_TrainingSet.PubTator.txt",
        "CDR_DevelopmentSet.PubTator.txt",
        "CDR_TestSet.PubTator.txt",
        "CDR_TestSet.BioC.xml",
        "README.txt",
    ):
        write(tmp_path / name, "x")
    found = {split: [p.name for p in paths] for split, paths in find_splits(tmp_path).items()}
    assert found == {
        "train": ["CDR_TrainingSet.PubTator.txt"],
        "dev": ["CDR_DevelopmentSet.PubTator.txt"],
        "test": ["CDR_TestSet.PubTator.txt"],
    }


def test_folders_named_after_splits_hold_their_documents(tmp_path: Path) -> None:
    for name in ("Train", "devel", "test"):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "1.txt", f"Aspirin helps in {name}.")
        write(tmp_path / name / "1.ann", "T1\tChemical 0 7\tAspirin\n")
    write(tmp_path / "README-train.txt", "About the corpus.")
    assert sorted(find_splits(tmp_path)) == ["dev", "test", "train"]
    (sentence,) = load_split(tmp_path, "dev").sentences
    assert sentence.words == ("Aspirin", "helps", "in", "devel", ".")
    assert sentence.tags == ("B-Chemical", "O", "O", "O", "O")


def test_chemdners_evaluation_is_its_test_split(tmp_path: Path) -> None:
    for name in ("training", "development", "evaluation"):
        write(tmp_path / f"{name}.abstracts.txt", f"1\tNaCl of {name}\tIt helps a lot.\n")
        write(tmp_path / f"{name}.annotations.txt", "1\tT\t0\t4\tNaCl\tFORMULA\n")
    for split, name in (("train", "training"), ("dev", "development"), ("test", "evaluation")):
        first, _ = load_split(tmp_path, split).sentences
        assert (first.words, first.tags) == (("NaCl", "of", name), ("B-FORMULA", "O", "O"))


def test_a_missing_folder_split_or_name_is_said_with_what_there_is(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        load_split(tmp_path / "absent", "train")
    with pytest.raises(UsageError, match="no file named after a split"):
        load_split(tmp_path, "train")
    write(tmp_path / "train.tsv", "A\tO\n")
    with pytest.raises(UsageError, match="has no test split; it has: train"):
        load_split(tmp_path, "test")


def mention(text: str, start: int, end: int, type: str = "X", **more: object) -> Mention:
    return Mention(start, end, text[start:end], type, **more)  # type: ignore[arg-type]


def test_documents_become_sentences_whose_words_lie_in_the_text() -> None:
    text = "Title on asthma. Breast cancer is bad. No IL-2."
    document = Document(
        "7",
        text,
        (Passage("title", text[:16], 0), Passage("abstract", text[17:], 17)),
        (mention(text, 9, 15), mention(text, 17, 30)),
    )
    data = tag_documents([document], [Path("x")])
    assert [s.words[0] for s in data.sentences] == ["Title", "Breast", "No"]
    for sentence in data.sentences:
        assert sentence.offsets is not None
        assert tuple(text[a:b] for a, b in sentence.offsets) == sentence.words
        assert sentence.place(0) == "document 7"
    assert [read_spans(s.tags) for s in data.sentences] == [[Span(2, 3, "X")], [Span(0, 2, "X")], []]
    assert data.gold == [[Span(9, 15, "X"), Span(17, 30, "X")]]
    assert data.untaggable == 0


def test_what_tags_cannot_say_stays_in_the_gold_and_is_counted() -> None:
    text = "colorectal and breast cancers in IL2R cells"
    document = Document(
        "7",
        text,
        (Passage("title", text, 0),),
        (
            mention(text, 0, 29),  # kept: the longest
            mention(text, 15, 29),  # nested
            Mention(0, 29, "colorectal cancers", "X", fragments=((0, 10), (22, 29))),  # discontinuous
            mention(text, 33, 36),  # ends inside the word IL2R: takes all of it
        ),
    )
    data = tag_documents([document], [Path("x")])
    (sentence,) = data.sentences
    assert read_spans(sentence.tags) == [Span(0, 4, "X"), Span(5, 6, "X")]
    assert data.untaggable == 3
    assert data.gold is not None and len(data.gold[0]) == 4


@pytest.mark.parametrize(
    ("name", "split", "sentences", "tokens", "mentions"),
    [
        # SOURCES-token.md of the data; the mentions are those of the BLURB paper.
        ("NCBI-disease", "train", 5424, 135701, 5134),
        ("NCBI-disease", "test", 940, 24497, 960),
        ("s800", "dev", 830, 22217, 384),
        ("NCBI-disease/IOBES", "test", 940, 24497, 960),
    ],
)
def test_counts_of_real_files_are_those_of_the_papers(
    shared_data: Path, name: str, split: str, sentences: int, tokens: int, mentions: int
) -> None:
    data = load_split(shared_data / "benchmarks" / name, split)
    assert len(data.sentences) == sentences
    assert sum(len(s.words) for s in data.sentences) == tokens
    assert sum(len(read_spans(s.tags)) for s in data.sentences) == mentions


def test_every_bad_line_of_a_file_is_named_and_only_its_sentence_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "train.tsv"
    path.write_text("a\tO\nb\tDiease\n\nc\tO\n\nd\nE\tO\n\nf\tx\tO\n\ng\tB\n", encoding="utf-8")
    rejects = Rejects()
    sentences = list(read_conll(path, rejects))
    assert [s.words for s in sentences] == [("c",), ("g",)]
    assert [(i["record"], i["reason"][:22]) for i in rejects.items] == [
        ("line 2", "the last column is not"),
        ("line 6", "a word and a tag are e"),
        ("line 9", "has 3 columns where th"),
    ]
    # A first line without a tag does not make all others wrong.
    path.write_text("a\n\nb\tO\nc\tB\n", encoding="utf-8")
    rejects = Rejects()
    assert [s.words for s in read_conll(path, rejects)] == [("b", "c")]
    assert [i["record"] for i in rejects.items] == ["line 1"]
