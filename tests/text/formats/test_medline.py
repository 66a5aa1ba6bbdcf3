"""MEDLINE/PubMed XML: every quirk that the real files have."""

from __future__ import annotations

import gzip
import io
import re
from pathlib import Path

import pytest

import biosmith
from biosmith.errors import BadInput
from biosmith.rejects import Rejects
from biosmith.text.document import Document
from biosmith.text.formats import medline


def citation(pmid: int = 1, article: str = "", citation: str = "", version: int = 1) -> str:
    title = "" if "<ArticleTitle" in article else "<ArticleTitle>A title.</ArticleTitle>"
    return f"""<PubmedArticle><MedlineCitation Status="MEDLINE"><PMID Version="{version}">{pmid}</PMID>
      <Article>{title}{article}</Article>{citation}</MedlineCitation>
      <PubmedData><ReferenceList><Reference><Citation>Other</Citation><ArticleIdList><ArticleId IdType="pmc">PMC999
      </ArticleId></ArticleIdList></Reference></ReferenceList></PubmedData></PubmedArticle>"""


def parse(xml: str | bytes, rejects: Rejects | None = None, **options: bool) -> list[Document]:
    data = xml.encode() if isinstance(xml, str) else xml
    return list(medline.read(io.BytesIO(data), rejects or Rejects(strict=True), "x.xml", **options))


def one(article: str = "", rest: str = "") -> Document:
    (document,) = parse(f"<PubmedArticleSet>{citation(7, article, rest)}</PubmedArticleSet>")
    return document


def passages(document: Document) -> list[tuple[str, str, str]]:
    for passage in document.passages:
        assert document.text[passage.offset : passage.end] == passage.text
    return [(p.kind, p.label, p.text) for p in document.passages]


def test_title_and_abstract_are_passages_one_character_apart() -> None:
    document = one("<Abstract><AbstractText>Some text.</AbstractText></Abstract>")
    assert document.id == "7"
    assert document.text == "A title. Some text."
    assert passages(document) == [("title", "", "A title."), ("abstract", "", "Some text.")]


def test_a_structured_abstract_keeps_its_labels_beside_the_text() -> None:
    document = one(
        """<Abstract><AbstractText Label="BACKGROUND" NlmCategory="BACKGROUND">Why.</AbstractText>
        <AbstractText Label="Aims and  scope" NlmCategory="UNASSIGNED">What.</AbstractText>
        <AbstractText Label="UNLABELLED">Loose.</AbstractText><AbstractText>More.</AbstractText></Abstract>"""
    )
    assert passages(document)[1:] == [
        ("abstract", "BACKGROUND", "Why."),
        ("abstract", "Aims and scope", "What."),
        ("abstract", "", "Loose."),
        ("abstract", "", "More."),
    ]
    assert [dict(p.infons) for p in document.passages[1:]] == [{"category": "BACKGROUND"}, {}, {}, {}]


def test_empty_sections_and_a_copyright_line_are_no_text() -> None:
    document = one(
        """<Abstract><AbstractText Label="A"/><AbstractText> </AbstractText><AbstractText Label="B">Text.</AbstractText>
        <CopyrightInformation>(c) 2020 Someone</CopyrightInformation></Abstract>"""
    )
    assert passages(document)[1:] == [("abstract", "B", "Text.")]


def test_an_abstract_that_begins_with_markup_keeps_its_first_words() -> None:
    # As PMID 31839741: element.text is None there, and readers that look at it alone find no abstract.
    document = one("<Abstract><AbstractText><b>Objective:</b> To <i>test</i>.</AbstractText></Abstract>")
    assert document.passages[1].text == "Objective: To test."


def test_escaped_markup_in_an_abstract_is_not_text() -> None:
    document = one(
        "<Abstract><AbstractText>&lt;p&gt;By &lt;italic&gt;en-face&lt;/italic&gt; images.&lt;/p&gt;.</AbstractText></Abstract>"
    )
    assert document.passages[1].text == "By en-face images."


def test_mathml_and_display_formulas_are_readable() -> None:
    math = '<mml:math xmlns:mml="m">\n <mml:msup>\n<mml:mn>10</mml:mn>\n <mml:mn>6</mml:mn></mml:msup>\n</mml:math>'
    document = one(
        f"<Abstract><AbstractText>about {math} cells<DispFormula>{math}</DispFormula>each</AbstractText></Abstract>"
    )
    assert document.passages[1].text == "about 10^6 cells 10^6 each"


def test_markup_in_titles_is_flattened() -> None:
    title = "<ArticleTitle>Ca<sup>2+</sup> in <i>E. coli</i>.</ArticleTitle>"
    assert one(title).passages[0].text == "Ca2+ in E. coli."


@pytest.mark.parametrize("title", ["", "[Not Available].", "[In Process Citation]"])
def test_a_missing_title_is_no_passage(title: str) -> None:
    article = f"<ArticleTitle>{title}</ArticleTitle><Abstract><AbstractText>Text.</AbstractText></Abstract>"
    assert passages(one(article)) == [("abstract", "", "Text.")]


def test_a_citation_without_title_and_abstract_is_a_document_without_passages() -> None:
    # So that one citation stays one document; PMID 41605226 is one.
    document = one("<ArticleTitle/>")
    assert (document.id, document.text, document.passages) == ("7", "", ())


def test_a_translated_title_keeps_its_brackets_and_the_vernacular_one_is_an_infon() -> None:
    document = one("<ArticleTitle>[On cells].</ArticleTitle><VernacularTitle>Über Zellen.</VernacularTitle>")
    assert passages(document) == [("title", "", "[On cells].")]
    assert document.passages[0].infons == {"translated": "true"}
    assert document.infons["vernacular_title"] == "Über Zellen."


def test_other_abstracts_in_english_are_passages_and_others_stay_out_of_the_text() -> None:
    document = one(
        "<Abstract><AbstractText>Main.</AbstractText></Abstract>",
        """<OtherAbstract Type="Publisher" Language="spa"><AbstractText Label="OBJETIVO">Uno.</AbstractText>
        <AbstractText>Dos.</AbstractText></OtherAbstract>
        <OtherAbstract Type="plain-language-summary" Language="eng"><AbstractText>Plain.</AbstractText></OtherAbstract>
        <OtherAbstract Type="PIP"><AbstractText>No language is English.</AbstractText></OtherAbstract>""",
    )
    assert passages(document)[1:] == [
        ("abstract", "", "Main."),
        ("other_abstract", "", "Plain."),
        ("other_abstract", "", "No language is English."),
    ]
    assert document.passages[2].infons == {"type": "plain-language-summary"}
    assert document.infons["other_abstract_spa"] == "OBJETIVO: Uno. Dos."


def test_versions_of_a_pmid_are_documents_that_say_which_they_are() -> None:
    revised = "<DateRevised><Year>2020</Year><Month>2</Month><Day>9</Day></DateRevised>"
    xml = citation(5, version=1, citation=revised) + citation(5, version=2)
    first, second = parse(f"<PubmedArticleSet>{xml}</PubmedArticleSet>")
    assert [d.id for d in (first, second)] == ["5", "5"]
    assert [d.infons["version"] for d in (first, second)] == ["1", "2"]
    assert first.infons["date_revised"] == "2020-02-09"


def test_deletions_are_read_when_asked_for_and_are_no_text_otherwise() -> None:
    xml = f"""<PubmedArticleSet>{citation(1)}<DeleteCitation><PMID Version="1">2</PMID><PMID Version="3">4</PMID>
    </DeleteCitation></PubmedArticleSet>"""
    assert [d.id for d in parse(xml)] == ["1"]
    deleted = parse(xml, deletions=True)[1:]
    assert [(d.id, d.text, dict(d.infons)) for d in deleted] == [
        ("2", "", {"pmid": "2", "version": "1", "deleted": "true"}),
        ("4", "", {"pmid": "4", "version": "3", "deleted": "true"}),
    ]


def test_infons_name_the_journal_year_language_types_and_identifiers() -> None:
    (document,) = parse(
        """<PubmedArticleSet><PubmedArticle><MedlineCitation><PMID Version="1">1</PMID><Article>
        <Journal><JournalIssue><PubDate><MedlineDate>1998 Dec-1999 Jan</MedlineDate></PubDate></JournalIssue>
        <Title>The Journal</Title></Journal><ArticleTitle>T.</ArticleTitle>
        <Language>eng</Language><Language>fre</Language><PublicationTypeList><PublicationType>Review</PublicationType>
        <PublicationType>Journal Article</PublicationType></PublicationTypeList></Article>
        <CommentsCorrectionsList><CommentsCorrections><PMID Version="1">99</PMID></CommentsCorrections>
        </CommentsCorrectionsList><MeshHeadingList><MeshHeading><DescriptorName MajorTopicYN="N">Cells</DescriptorName>
        <QualifierName MajorTopicYN="Y">drug effects</QualifierName></MeshHeading><MeshHeading>
        <DescriptorName MajorTopicYN="N">Humans</DescriptorName></MeshHeading></MeshHeadingList></MedlineCitation>
        <PubmedData><ArticleIdList><ArticleId IdType="pubmed">1</ArticleId><ArticleId IdType="doi">10.1/x</ArticleId>
        <ArticleId IdType="pmc">PMC12</ArticleId></ArticleIdList><ReferenceList><Reference><ArticleIdList>
        <ArticleId IdType="pmc">PMC999</ArticleId></ArticleIdList></Reference></ReferenceList></PubmedData>
        </PubmedArticle></PubmedArticleSet>""",
        mesh=True,
    )
    assert document.infons == {
        "pmid": "1",
        "version": "1",
        "journal": "The Journal",
        "year": "1998",
        "language": "eng; fre",
        "publication_types": "Review; Journal Article",
        "doi": "10.1/x",
        "pmcid": "PMC12",
        "mesh": "*Cells; Humans",
    }


BARE = '<MedlineCitation><PMID Version="1">3</PMID><Article><ArticleTitle>T.</ArticleTitle></Article></MedlineCitation>'


@pytest.mark.parametrize(
    "xml",
    [
        BARE,
        f"<PubmedArticle>{BARE}</PubmedArticle>",
        f"<MedlineCitationSet>{BARE}</MedlineCitationSet>",
        f"<PubmedArticleSet><PubmedArticle>{BARE}</PubmedArticle></PubmedArticleSet>",
        f"<eFetchResult><PubmedArticleSet><PubmedArticle>{BARE}</PubmedArticle></PubmedArticleSet></eFetchResult>",
        f'<?xml version="1.0"?>\n<!DOCTYPE PubmedArticle SYSTEM "nowhere.dtd">\n<!-- note -->\n<PubmedArticle>{BARE}</PubmedArticle>',
        f"\n\n  <?xml version='1.0'?><MedlineCitationSet>{BARE}</MedlineCitationSet>",
    ],
)
def test_every_root_is_read_with_or_without_declaration_and_doctype(xml: str) -> None:
    assert [d.id for d in parse(xml)] == ["3"]
    assert medline.looks_like(xml.encode())


def test_crlf_a_byte_order_mark_and_utf16_make_no_difference() -> None:
    title = "<ArticleTitle>α and\nβ.</ArticleTitle>"
    xml = f"<PubmedArticleSet>{citation(1, title)}</PubmedArticleSet>"
    expected = parse(xml)
    assert expected[0].text == "α and β."
    for data in (
        xml.replace("\n", "\r\n").encode(),
        b"\xef\xbb\xbf" + xml.encode(),
        ('<?xml version="1.0" encoding="UTF-16"?>' + xml).encode("utf-16"),
        b"\xfe\xff" + ('<?xml version="1.0" encoding="utf-16"?>' + xml).encode("utf-16-be"),
    ):
        assert parse(data) == expected
        assert medline.looks_like(data)


def test_a_book_and_a_chapter_are_documents() -> None:
    book = "<Book><BookTitle>The <i>book</i></BookTitle><PubDate><Year>2001</Year></PubDate></Book>"
    abstract = "<Abstract><AbstractText>About.</AbstractText></Abstract>"
    xml = f"""<PubmedArticleSet>
      <PubmedBookArticle><BookDocument><PMID Version="1">1</PMID>{book}<Language>eng</Language>{abstract}</BookDocument>
      <PubmedBookData><ArticleIdList><ArticleId IdType="doi">10.1/b</ArticleId></ArticleIdList></PubmedBookData></PubmedBookArticle>
      <PubmedBookArticle><BookDocument><PMID Version="1">2</PMID>{book}<ArticleTitle>Chapter</ArticleTitle>
      {abstract}</BookDocument></PubmedBookArticle></PubmedArticleSet>"""
    whole, chapter = parse(xml)
    assert passages(whole) == [("title", "", "The book"), ("abstract", "", "About.")]
    assert passages(chapter) == [("title", "", "Chapter"), ("abstract", "", "About.")]
    assert chapter.infons["book"] == "The book"
    assert whole.infons["year"] == "2001"
    assert whole.infons["doi"] == "10.1/b"


def test_citations_without_article_or_pmid_are_set_aside_and_the_rest_is_read() -> None:
    rejects = Rejects()
    xml = f"""<PubmedArticleSet><PubmedArticle><MedlineCitation><PMID Version="1">1</PMID></MedlineCitation></PubmedArticle>
    <PubmedArticle><MedlineCitation><Article><ArticleTitle>T.</ArticleTitle></Article></MedlineCitation></PubmedArticle>
    <PubmedArticle><PubmedData/></PubmedArticle>{citation(4)}</PubmedArticleSet>"""
    assert [d.id for d in parse(xml, rejects)] == ["4"]
    assert [item["record"] for item in rejects.items] == ["PMID 1", "line 2", "line 3"]


def many(count: int) -> str:
    body = "".join(
        citation(n, "<Abstract><AbstractText>Words of it.</AbstractText></Abstract>")
        for n in range(1, count + 1)
    )
    return f'<?xml version="1.0" encoding="utf-8"?>\n<PubmedArticleSet>\n{body}\n</PubmedArticleSet>\n'


@pytest.mark.parametrize("share", [0.3, 0.5, 0.999])
def test_xml_cut_in_the_middle_gives_every_complete_citation_and_one_reject(
    tmp_path: Path, share: float
) -> None:
    text = many(300)
    cut = text[: int(len(text) * share)]
    complete = cut.count("</PubmedArticle>")
    (tmp_path / "cut.xml").write_text(cut, encoding="utf-8")
    rejects = Rejects()
    documents = list(biosmith.read(tmp_path / "cut.xml", rejects=rejects))
    assert len(documents) == complete
    (item,) = rejects.items
    assert item["file"] == str(tmp_path / "cut.xml")
    assert item["record"] == f"after PMID {complete}"
    assert "broken XML" in item["reason"]


def test_a_truncated_gzip_file_gives_what_comes_before_the_cut_and_one_reject(tmp_path: Path) -> None:
    packed = gzip.compress(many(3000).encode())
    (tmp_path / "cut.xml.gz").write_bytes(packed[: len(packed) // 2])
    rejects = Rejects()
    documents = list(biosmith.read(tmp_path / "cut.xml.gz", rejects=rejects))
    assert [d.id for d in documents] == [str(n) for n in range(1, len(documents) + 1)]
    assert len(documents) > 1000
    (item,) = rejects.items
    assert item["record"] == f"after {len(documents)}"
    assert "damaged compression" in item["reason"]


def test_a_broken_character_in_the_middle_names_the_place_and_costs_its_citation(tmp_path: Path) -> None:
    data = many(50).encode().replace(b'<PMID Version="1">20</PMID>', b'<PMID Version="1">20</PMID><&bad>')
    rejects = Rejects()
    (tmp_path / "x.xml").write_bytes(data)
    documents = list(biosmith.read(tmp_path / "x.xml", rejects=rejects))
    assert [d.id for d in documents] == [str(n) for n in range(1, 51) if n != 20]
    assert [item["record"] for item in rejects.items] == ["after PMID 19"]
    assert re.search(r"line \d+", rejects.items[0]["value"])


def test_strict_reading_raises_at_the_cut_with_file_and_record(tmp_path: Path) -> None:
    (tmp_path / "cut.xml").write_text(many(10)[:-200], encoding="utf-8")
    with pytest.raises(BadInput, match=r"cut\.xml, after PMID 9: broken XML"):
        list(biosmith.read(tmp_path / "cut.xml", rejects=Rejects(strict=True)))


# What the reader fixtures hold: citations and books by name, counted in the XML by other means (grep).
COUNTS = {
    "pubmed20n1015.xml.gz": 756,
    "pubmed20n1016.xml.gz": 26,
    "pubmed21n1001.xml.gz": 37,
    "pubmed21n1004.xml.gz": 88,
    "pubmed26n1334.xml.gz": 30,
    "pubmed26n1335.xml.gz": 30,
    "pubmedsample18n0001.xml.gz": 177,
    "PubmedArticleSet.xml": 24,
    "PubmedBookArticleSet.xml": 2,
    "medline.xml": 2,
    "meshop_sample.xml": 3,
    "testfile.xml": 1,
    "pubmed_no_rows.xml": 0,
    "sample_article_20301577.xml": 1,
}


@pytest.mark.parametrize(("name", "count"), COUNTS.items())
def test_real_files_give_one_document_a_citation(shared_data: Path, name: str, count: int) -> None:
    rejects = Rejects()
    documents = list(biosmith.read(shared_data / "fixtures/pubmed" / name, rejects=rejects))
    assert len(documents) == count
    assert rejects.count == (2 if name == "pubmed_no_rows.xml" else 0)


def test_every_real_pubmed_file_reads_and_its_text_is_clean(shared_data: Path) -> None:
    rejects = Rejects()
    deleted = 0
    for document in biosmith.read(shared_data / "fixtures/pubmed", rejects=rejects, deletions=True):
        deleted += document.infons.get("deleted") == "true"
        passages(document)
        assert not re.search(r"\s\s|^\s|\s$|</|<(?:i|b|sup|sub|p)>", document.text), document.id
    assert deleted == 317
    assert {item["record"] for item in rejects.items} == {"PMID 1", "PMID 2"}


def test_known_records_of_the_baseline_file_are_read_right(shared_data: Path) -> None:
    documents: dict[str, list[Document]] = {}
    for document in biosmith.read(shared_data / "fixtures/pubmed/pubmed20n1015.xml.gz"):
        documents.setdefault(document.id, []).append(document)
    assert [d.infons["version"] for d in documents["31828225"]] == ["2", "3", "4"]
    assert documents["31839741"][0].passages[1].text.startswith("Objective: Currently, sorafenib")
    assert "full-field en-face images" in documents["31840442"][0].text
    assert {p.label for p in documents["31839847"][0].passages} > {""}


def test_what_follows_a_compressed_file_costs_none_of_its_citations(tmp_path: Path) -> None:
    inner = "".join(
        f'<PubmedArticle><MedlineCitation><PMID Version="1">{n}</PMID><Article><ArticleTitle>T {n}.'
        "</ArticleTitle></Article></MedlineCitation></PubmedArticle>"
        for n in range(1, 5)
    )
    path = tmp_path / "x.xml.gz"
    path.write_bytes(gzip.compress(f"<PubmedArticleSet>{inner}</PubmedArticleSet>".encode()) + b"no gzip")
    rejects = Rejects()
    assert [d.id for d in biosmith.read(path, rejects=rejects)] == ["1", "2", "3", "4"]
    assert [item["record"] for item in rejects.items] == ["after 4"]


@pytest.mark.parametrize(
    ("date", "year"),
    [("1998 Dec-1999 Jan", "1998"), ("Winter 1998", "1998"), ("Summer", None)],
)
def test_the_year_is_found_wherever_the_words_of_a_date_have_it(date: str, year: str | None) -> None:
    issue = f"<JournalIssue><PubDate><MedlineDate>{date}</MedlineDate></PubDate></JournalIssue>"
    assert one(f"<Journal>{issue}</Journal>").infons.get("year") == year


def test_the_words_for_an_abstract_that_nlm_does_not_have_are_none() -> None:
    def other(language: str) -> str:
        text = "Abstract available from the publisher."
        return f'<OtherAbstract Type="Publisher" Language="{language}"><AbstractText>{text}</AbstractText></OtherAbstract>'

    document = one(rest=other("eng") + other("fre"))
    assert passages(document) == [("title", "", "A title.")]
    assert "other_abstract_fre" not in document.infons


def test_the_error_of_a_server_is_no_empty_file() -> None:
    rejects = Rejects()
    assert parse("<eFetchResult><ERROR>ID list is empty!</ERROR></eFetchResult>", rejects) == []
    assert [(i["record"], i["value"]) for i in rejects.items] == [("line 1", "ID list is empty!")]


def test_citations_in_a_namespace_are_read_and_formulas_in_their_own_stay_formulas() -> None:
    formula = '<mml:math xmlns:mml="http://www.w3.org/1998/Math/MathML"><mml:mi>x</mml:mi><mml:mo>&lt;</mml:mo><mml:mn>2</mml:mn></mml:math>'
    text = f"<Abstract><AbstractText>With {formula} it <i>helps</i>.</AbstractText></Abstract>"
    plain = f"<PubmedArticleSet>{citation(1, text)}<DeleteCitation><PMID>2</PMID></DeleteCitation></PubmedArticleSet>"
    expected = parse(plain, deletions=True)
    assert len(expected) == 2 and "x < 2 it helps" in expected[0].text
    named = plain.replace("<PubmedArticleSet>", '<PubmedArticleSet xmlns="http://www.ncbi.nlm.nih.gov/">')
    assert parse(named, deletions=True) == expected
