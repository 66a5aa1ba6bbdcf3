"""PubTator: columns, separators, and what the format cannot hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from biosmith.rejects import Rejects
from biosmith.text.document import Argument, Document, Mention, Passage, Relation
from biosmith.text.formats import pubtator, read, write

TITLE = "1|t|Aspirin and pain."
ABSTRACT = "1|a|Aspirin helps."


def read_text(
    tmp_path: Path, text: str | bytes, rejects: Rejects | None = None, **options: str
) -> list[Document]:
    path = tmp_path / "x.txt"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return list(read(path, rejects=rejects or Rejects(strict=True), **options))


def test_title_and_abstract_are_joined_by_one_character(tmp_path: Path) -> None:
    # The title is 17 characters long, so the abstract and the mention in it begin at 18.
    (document,) = read_text(tmp_path, f"{TITLE}\n{ABSTRACT}\n1\t18\t25\tAspirin\tChemical\tD001241\n")
    assert [(p.kind, p.offset) for p in document.passages] == [("title", 0), ("abstract", 18)]
    (mention,) = document.mentions
    assert document.text[mention.start : mention.end] == mention.text == "Aspirin"
    assert mention.ids == ("D001241",)


def test_mentions_have_five_six_or_seven_columns(tmp_path: Path) -> None:
    rows = [
        "1\t0\t7\tAspirin\tChemical",
        "1\t0\t7\tAspirin\tChemical\t",
        "1\t0\t7\tAspirin\tChemical\tD001241",
        "1\t0\t16\tAspirin and pain\tChemical\tD001241|D010146\tAspirin|pain",
    ]
    (document,) = read_text(tmp_path, "\n".join([TITLE, ABSTRACT, *rows]))
    assert [m.ids for m in document.mentions] == [(), (), ("D001241",), ("D001241", "D010146")]
    assert document.mentions[3].infons == {"identifier": "D001241|D010146", "parts": "Aspirin|pain"}


def test_relations_have_four_columns_or_a_fifth_for_novelty(tmp_path: Path) -> None:
    rows = ["1\tCID\tD001241\tD010146", "1\tAssociation\t5743\tp|SUB|R|620|W\tNovel"]
    (document,) = read_text(tmp_path, "\n".join([TITLE, ABSTRACT, *rows]))
    assert document.relations == (
        Relation("CID", (Argument("Chemical", "D001241"), Argument("Disease", "D010146"))),
        Relation(
            "Association",
            (Argument("entity1", "5743"), Argument("entity2", "p|SUB|R|620|W")),
            infons={"novel": "Novel"},
        ),
    )


@pytest.mark.parametrize("between", ["\n", "\n\n", "\n\n\n\n", "\r\n\r\n"])
@pytest.mark.parametrize("end", ["", "\n", "\n\n"])
def test_no_document_is_lost_however_they_are_separated(tmp_path: Path, between: str, end: str) -> None:
    # bioc 2.1 silently loses the first document where no blank line separates two.
    records = [f"{n}|t|Title {n}\n{n}|a|Aspirin.\n{n}\t8\t15\tAspirin\tChemical\tD1" for n in (1, 2, 3)]
    text = between.join(records) + end
    documents = read_text(
        tmp_path, text.replace("\n", "\r\n").replace("\r\r", "\r") if "\r" in between else text
    )
    assert [(d.id, d.text, len(d.mentions)) for d in documents] == [
        (str(n), f"Title {n} Aspirin.", 1) for n in (1, 2, 3)
    ]


def test_a_byte_order_mark_and_blank_lines_before_the_first_title_are_passed_over(tmp_path: Path) -> None:
    assert [d.id for d in read_text(tmp_path, f"\ufeff{TITLE}\n{ABSTRACT}\n")] == ["1"]
    assert [d.id for d in read_text(tmp_path, f"\n\n{TITLE}\n{ABSTRACT}\n")] == ["1"]


def test_the_same_id_twice_is_two_documents(tmp_path: Path) -> None:
    # As PMID 8528200 in the NCBI training set, and as every passage of an article in NLM-Chem.
    documents = read_text(tmp_path, "7|t|One\n7|a|\n\n7|t|Two\n7|a|\n")
    assert [(d.id, d.text) for d in documents] == [("7", "One"), ("7", "Two")]


def test_an_empty_abstract_is_no_passage_and_an_empty_title_keeps_its_place(tmp_path: Path) -> None:
    first, second = read_text(tmp_path, "1|t|Title\n1|a|\n\n2|t|\n2|a|Abstract\n2\t1\t9\tAbstract\tX\n")
    assert first.passages == (Passage("title", "Title"),)
    assert second.passages == (Passage("title", ""), Passage("abstract", "Abstract", 1))
    assert second.mentions[0].text == "Abstract"


def test_malformed_lines_are_set_aside_by_number_and_the_document_stays(tmp_path: Path) -> None:
    rejects = Rejects()
    rows = [
        "1\t0\t7",
        "2\t0\t7\tAspirin\tChemical",
        "what is this",
        "1\t0\t7\tAspirin\tChemical",
        "1\t90\t99\tgone\tX",
    ]
    (document,) = read_text(tmp_path, "\n".join([TITLE, ABSTRACT, *rows]), rejects)
    assert len(document.mentions) == 1
    assert [item["record"].partition(",")[0] for item in rejects.items] == [
        "line 3",
        "line 4",
        "line 5",
        "line 7",
    ]


def test_a_mention_that_is_not_where_the_file_says_is_kept_with_the_texts_words(tmp_path: Path) -> None:
    rejects = Rejects()
    (document,) = read_text(tmp_path, f"{TITLE}\n{ABSTRACT}\n1\t0\t7\tASPIRIN\tChemical\n", rejects)
    assert (document.mentions[0].text, document.mentions[0].infons) == ("Aspirin", {"stated_text": "ASPIRIN"})
    assert rejects.count == 1


def test_offsets_in_bytes_are_noticed(tmp_path: Path) -> None:
    # "α" is two bytes, so that Aspirin begins at byte 3 and at character 2.
    (document,) = read_text(tmp_path, "1|t|α Aspirin\n1|a|\n1\t3\t10\tAspirin\tChemical\n")
    assert (document.mentions[0].start, document.mentions[0].text) == (2, "Aspirin")


def test_a_space_at_the_end_of_the_title_that_is_not_counted_is_left_out(tmp_path: Path) -> None:
    # As in the dump of PubTator Central.
    rejects = Rejects()
    (document,) = read_text(tmp_path, "1|t|Title \n1|a|Aspirin\n1\t6\t13\tAspirin\tChemical\n", rejects)
    assert (document.text, document.mentions[0].text) == ("Title Aspirin", "Aspirin")
    assert rejects.count == 1


def test_a_discontinuous_mention_is_written_whole_and_reported(tmp_path: Path) -> None:
    mention = Mention(0, 24, "ovarian cancer", "Disease", fragments=((0, 7), (18, 24)))
    document = Document.build("1", [Passage("title", "ovarian or uterine cancer")], [mention])
    report = write([document], tmp_path / "x.pubtator")
    (back,) = read(tmp_path / "x.pubtator")
    assert back.mentions[0].text == "ovarian or uterine cance"  # from first to last character: 0 to 24
    assert report.lost == {"discontinuous mentions (written from first to last character)": 1}


def test_passages_beyond_two_stay_where_they_are_in_the_abstract(tmp_path: Path) -> None:
    passages = [Passage("title", "T"), Passage("abstract", "A"), Passage("paragraph", "Aspirin")]
    document = Document.build("1", passages, [Mention(4, 11, "Aspirin", "Chemical")])
    report = write([document], tmp_path / "x.pubtator")
    assert (tmp_path / "x.pubtator").read_text() == "1|t|T\n1|a|A Aspirin\n1\t4\t11\tAspirin\tChemical\t\n\n"
    assert report.lost == {"kinds, number or distance of passages": 1}


def test_a_relation_between_mentions_is_written_between_their_concepts(tmp_path: Path) -> None:
    mentions = [
        Mention(0, 7, "Aspirin", "Chemical", ids=("D1",), id="T1"),
        Mention(8, 12, "pain", "Disease", ids=("D2",), id="T2"),
    ]
    relation = Relation("CID", (Argument("Chemical", "T1"), Argument("Disease", "T2")))
    document = Document.build("1", [Passage("title", "Aspirin pain")], mentions, [relation])
    held = pubtator.project(document)
    assert [a.target for a in held.relations[0].arguments] == ["D1", "D2"]


def test_bytes_that_are_not_utf8_cost_their_document_or_mention_and_no_other(tmp_path: Path) -> None:
    # One name in Latin-1 among thousands of abstracts must not take all after it along. U+FFFD itself is no damage.
    first = b"1|t|One\n1|a|Gout.\n1\t4\t8\tGo\xfct\tDisease\tD1\n\n"
    content = first + b"2|t|M\xe9ni\xe8re\n2|a|Two\n\n3|t|" + "\ufffd".encode() + b"\n3|a|\n"
    rejects = Rejects()
    documents = read_text(tmp_path, content, rejects)
    assert [d.text for d in documents] == ["One Gout.", "\ufffd"]
    assert documents[0].mentions == ()
    records = [(item["record"], item["reason"].partition(":")[0]) for item in rejects.items]
    assert records == [("line 3, 1", "not UTF-8"), ("2", "not UTF-8")]


def test_offsets_of_several_parts_are_set_aside_and_are_no_relation(tmp_path: Path) -> None:
    rejects = Rejects()
    line = "1\t0;8\t7;11\tAspirin and\tChemical"
    (document,) = read_text(tmp_path, f"{TITLE}\n{ABSTRACT}\n{line}\n1\tCID\t1;2\t3\n", rejects)
    assert [r.type for r in document.relations] == ["CID"]
    assert [(item["reason"], item["value"]) for item in rejects.items] == [
        ("start and end of a mention are not one whole number each", line)
    ]
