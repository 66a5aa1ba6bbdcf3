"""JATS: articles, their parts, and what publishers do with them."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

import biosmith
from biosmith.errors import BadInput
from biosmith.rejects import Rejects
from biosmith.text.document import Document
from biosmith.text.formats import jats

TITLE = "<title-group><article-title>A title</article-title></title-group>"


def article(body: str = "", meta: str = "", back: str = "", rest: str = "", attributes: str = "") -> str:
    return f"""<article xmlns:xlink="http://www.w3.org/1999/xlink" xmlns:mml="http://www.w3.org/1998/Math/MathML"
      {attributes}><front><article-meta><article-id pub-id-type="pmc">12</article-id>{TITLE}{meta}</article-meta></front>
      <body>{body}</body><back>{back}</back>{rest}</article>"""


def parse(xml: str, rejects: Rejects | None = None) -> list[Document]:
    documents = list(jats.read(io.BytesIO(xml.encode()), rejects or Rejects(strict=True), "x.nxml"))
    for document in documents:
        for passage in document.passages:
            assert document.text[passage.offset : passage.end] == passage.text
    return documents


def body_of(xml_body: str, **parts: str) -> list[tuple[str, str, str]]:
    (document,) = parse(article(xml_body, **parts))
    return [(p.kind, p.label, p.text) for p in document.passages[1:]]


def sentence(inner: str) -> str:
    ((_, _, text),) = body_of(f"<p>{inner}</p>")
    return text


def test_paragraphs_have_the_heading_of_their_section_and_the_way_to_it() -> None:
    (document,) = parse(
        article(
            """<p>Before.</p><sec><title>Methods</title><p>One.</p><sec><title>Mice <xref ref-type="bibr">1</xref></title>
            <p>Two.</p></sec><p>Three.</p></sec>"""
        )
    )
    assert [(p.label, p.text, p.infons.get("section")) for p in document.passages[1:]] == [
        ("", "Before.", None),
        ("Methods", "One.", None),
        ("Mice", "Two.", "Methods > Mice"),
        ("Methods", "Three.", None),
    ]


def test_abstracts_keep_their_section_labels_and_typed_ones_are_other_abstracts() -> None:
    (document,) = parse(
        article(
            meta="""<abstract><sec><title>Background</title><p>Why.</p></sec><sec><title>Results</title><p>What.</p></sec></abstract>
            <abstract abstract-type="executive-summary"><title>eLife digest</title><p>In short.</p>
            <p><bold>DOI:</bold> <ext-link>http://dx.doi.org/10.7554/eLife.00013.002</ext-link></p></abstract>"""
        )
    )
    assert [(p.kind, p.label, p.text) for p in document.passages[1:]] == [
        ("abstract", "Background", "Why."),
        ("abstract", "Results", "What."),
        (
            "other_abstract",
            "eLife digest",
            "In short.",
        ),  # the paragraph that is only an identifier is no text
    ]
    assert document.passages[3].infons["type"] == "executive-summary"


def test_translations_of_title_and_abstract_stay_out_of_the_text_unless_english() -> None:
    meta = """<abstract><p>Principal.</p></abstract><trans-abstract xml:lang="{}"><p>Other.</p></trans-abstract>"""
    (spanish,) = parse(article(meta=meta.format("es"), attributes='xml:lang="en"'))
    assert spanish.infons["other_abstract_es"] == "Other."
    assert "Other." not in spanish.text
    (english,) = parse(article(meta=meta.format("en"), attributes='xml:lang="pt"'))
    assert english.passages[-1].kind == "other_abstract"
    assert english.infons["language"] == "pt"
    xml = article().replace(
        "</article-title>",
        '</article-title><trans-title-group xml:lang="es"><trans-title>Un título</trans-title></trans-title-group>',
    )
    assert parse(xml)[0].infons["title_es"] == "Un título"


@pytest.mark.parametrize(
    ("marked", "text"),
    [
        ('shown [<xref ref-type="bibr">1</xref>,<xref ref-type="bibr">2</xref>].', "shown."),
        ('shown <xref ref-type="bibr">[1]</xref>.', "shown."),
        ('shown<sup><xref ref-type="bibr">1</xref>–<xref ref-type="bibr">3</xref></sup>.', "shown."),
        ('shown<xref ref-type="bibr"><sup>12</sup></xref> before', "shown before"),
        ('by (<xref ref-type="bibr">4</xref>) and', "by and"),
        ('(<xref ref-type="bibr">Smith et al., 2010</xref>).', "(Smith et al., 2010)."),
        ('Smith (<xref ref-type="bibr">2010</xref>)', "Smith (2010)"),
        ('(<xref ref-type="fig">Fig. 1</xref>A)', "(Fig. 1A)"),
        ('in <xref ref-type="table">Table 2</xref>', "in Table 2"),
        ('value<xref ref-type="table-fn">*</xref> of', "value of"),
        ("5<sup>2</sup> and 10<sup><italic>n</italic></sup>", "5^2 and 10n"),
        ("drawn (<inline-graphic/>).", "drawn."),
    ],
)
def test_numeric_citation_marks_are_left_out_and_named_ones_are_words(marked: str, text: str) -> None:
    assert sentence(marked) == text


def test_captions_come_after_the_paragraph_that_holds_them_with_their_label() -> None:
    figure = """<fig id="f1"><label>Figure 1</label><caption><title>The title.</title><p>The <bold>text</bold>.</p></caption>
    <graphic xlink:href="f1"/></fig>"""
    table = """<table-wrap><label>Table 2</label><caption><p>Counts</p></caption><table><tr><td>cell</td></tr></table>
    <table-wrap-foot><fn><label>*</label><p>Note.</p></fn></table-wrap-foot></table-wrap>"""
    extra = """<supplementary-material><label>File S1</label><caption><title>Data.</title></caption></supplementary-material>"""
    assert body_of(f"<p>As {figure}shown{table} here.</p>{extra}") == [
        ("paragraph", "", "As shown here."),
        ("fig_caption", "Figure 1", "The title."),
        ("fig_caption", "Figure 1", "The text."),
        ("table_caption", "Table 2", "Counts"),
        ("table_footnote", "Table 2", "Note."),
        ("supplementary_caption", "File S1", "Data."),
    ]


def test_lists_quotes_boxes_and_definitions_are_read_in_place() -> None:
    assert body_of(
        """<p>First:<list><list-item><label>1</label><p>one</p></list-item><list-item><p>two<list><list-item><p>deep</p>
        </list-item></list></p></list-item></list>then.</p><disp-quote><p>Quoted.</p></disp-quote>
        <boxed-text><caption><title>Box 1</title></caption><p>Boxed.</p></boxed-text>
        <def-list><def-item><term>AB</term><def><p>antibody</p></def></def-item></def-list>"""
    ) == [
        ("paragraph", "", "First:"),
        ("list_item", "", "one"),
        ("list_item", "", "two"),
        ("list_item", "", "deep"),
        ("paragraph", "", "then."),
        ("paragraph", "", "Quoted."),
        ("paragraph", "Box 1", "Boxed."),
        ("paragraph", "", "AB: antibody"),
    ]


def test_footnotes_acknowledgements_appendices_and_glossaries_have_their_kinds_and_references_are_not_read() -> (
    None
):
    back = """<ack><title>Thanks</title><p>To all.</p></ack><fn-group><fn fn-type="conflict"><p>None.</p></fn></fn-group>
    <app-group><app><title>Appendix A</title><p>More.</p></app></app-group>
    <glossary><def-list><def-item><term>X</term><def><p>y</p></def></def-item></def-list></glossary>
    <ref-list><title>References</title><ref><mixed-citation>Someone 2010.</mixed-citation></ref></ref-list>"""
    assert body_of("<p>Text<fn><p>Inline note.</p></fn> goes on.</p>", back=back) == [
        ("paragraph", "", "Text goes on."),
        ("footnote", "", "Inline note."),
        ("back_matter", "Thanks", "To all."),
        ("footnote", "", "None."),
        ("paragraph", "Appendix A", "More."),
        ("back_matter", "", "X: y"),
    ]


def test_formulas_are_part_of_their_sentence_and_taken_once() -> None:
    math = "<mml:math><mml:mi>x</mml:mi><mml:mo>=</mml:mo><mml:mn>1</mml:mn></mml:math>"
    both = f"<alternatives><tex-math>$x=1$</tex-math>{math}<graphic/></alternatives>"
    assert sentence(f"where <inline-formula>{both}</inline-formula>,") == "where x = 1,"
    assert sentence(f"gives<disp-formula><label>(1)</label>{both}</disp-formula>where") == "gives x = 1 where"
    assert body_of(f"<sec><disp-formula>{math}</disp-formula></sec>") == [("formula", "", "x = 1")]


def test_comments_and_processing_instructions_break_no_word() -> None:
    assert sentence("Meth<!-- &nbsp; --><?A3B2 tlsb=-0.2mm?>ods <?x?>are") == "Methods are"


def test_elements_that_are_not_known_lose_no_words() -> None:
    assert body_of(
        """<strange><p>One.</p><stranger><sec><title>T</title><p>Two.</p></sec></stranger></strange><odd>Three.</odd>"""
    ) == [("paragraph", "", "One."), ("paragraph", "T", "Two."), ("paragraph", "", "Three.")]


def test_taxonx_treatments_and_name_parts_are_read() -> None:
    xml = """<tp:taxon-treatment xmlns:tp="http://www.plazi.org/taxpub"><tp:nomenclature><tp:taxon-name>
    <tp:taxon-name-part>Aus</tp:taxon-name-part><tp:taxon-name-part>bus</tp:taxon-name-part></tp:taxon-name></tp:nomenclature>
    <tp:treatment-sec><title>Description</title><p>Large.</p></tp:treatment-sec></tp:taxon-treatment>"""
    assert body_of(xml) == [("paragraph", "", "Aus bus"), ("paragraph", "Description", "Large.")]


def test_sub_articles_and_responses_are_documents_of_their_own() -> None:
    rest = f"""<sub-article id="s2" article-type="translation" xml:lang="es"><front-stub>{TITLE}</front-stub>
      <body><p>Texto.</p></body><response id="r1"><front-stub>{TITLE}</front-stub><body><p>Reply.</p></body></response>
      </sub-article><sub-article><front-stub><article-id pub-id-type="pmc">99</article-id>{TITLE}</front-stub>
      <body><p>Own id.</p></body></sub-article>"""
    documents = parse(article("<p>Main.</p>", rest=rest))
    assert [d.id for d in documents] == ["PMC12", "PMC12.s2", "PMC12.s2.r1", "PMC99"]
    assert [d.text for d in documents] == [
        "A title Main.",
        "A title Texto.",
        "A title Reply.",
        "A title Own id.",
    ]
    assert [d.infons.get("parent") for d in documents] == [None, "PMC12", "PMC12.s2", "PMC12"]
    assert documents[1].infons["language"] == "es"


def test_several_articles_in_one_file_and_oai_answers_in_a_namespace_are_read() -> None:
    one = article("<p>Text.</p>")
    assert len(parse(f"<pmc-articleset>{one}{one}</pmc-articleset>")) == 2
    oai = f"""<?xml version="1.0"?><OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/"><ListRecords><record><metadata>
    {one.replace("<article ", '<article xmlns="https://jats.nlm.nih.gov/ns/archiving/1.3/" ')}</metadata></record>
    </ListRecords></OAI-PMH>"""
    assert [d.text for d in parse(oai)] == ["A title Text."]
    assert jats.looks_like(oai.encode())


def test_infons_give_identifiers_journal_year_and_license() -> None:
    (document,) = parse(
        f"""<article article-type="research-article" xmlns:xlink="http://www.w3.org/1999/xlink"><front><journal-meta>
        <journal-title-group><journal-title>The Journal</journal-title></journal-title-group></journal-meta><article-meta>
        <article-id pub-id-type="pmid">5</article-id><article-id pub-id-type="pmcid">PMC6</article-id>
        <article-id pub-id-type="doi">10.1/x</article-id>{TITLE}<pub-date><year>2012</year></pub-date><pub-date><year>2011</year>
        </pub-date><permissions><license xlink:href="http://creativecommons.org/licenses/by/4.0/"><license-p>CC.</license-p>
        </license></permissions></article-meta></front></article>"""
    )
    assert document.id == "PMC6"
    assert document.infons == {
        "article_type": "research-article",
        "language": "en",
        "pmid": "5",
        "pmcid": "PMC6",
        "doi": "10.1/x",
        "journal": "The Journal",
        "year": "2011",
        "license": "http://creativecommons.org/licenses/by/4.0/",
    }


def test_a_subtitle_follows_its_title() -> None:
    xml = article().replace("</article-title>", "</article-title><subtitle>Second part</subtitle>")
    assert parse(xml)[0].text == "A title: Second part"


def test_named_entities_without_the_dtd_are_characters() -> None:
    doctype = '<!DOCTYPE article PUBLIC "-//NLM//DTD" "journalpublishing.dtd">'
    (document,) = parse(doctype + article("<p>TGF-&beta;&nbsp;&mdash; up</p>"))
    assert document.passages[1].text == "TGF-β — up"


def test_an_article_without_text_is_set_aside_and_xml_without_articles_is_bad_input() -> None:
    rejects = Rejects()
    assert parse("<article><front><article-meta/></front></article>", rejects) == []
    assert rejects.items[0]["reason"] == "article without title, abstract or body"
    with pytest.raises(BadInput, match="without an article"):
        parse("<pmc-articleset><error>not found</error></pmc-articleset>")


def test_articles_before_a_cut_are_read() -> None:
    xml = f"<pmc-articleset>{article('<p>Text.</p>')}{article('<p>Lost.</p>')}</pmc-articleset>"
    stream = io.BytesIO(xml.encode()[:-200])
    rejects = Rejects()
    assert [document.id for document in jats.read(stream, rejects, "x.xml")] == ["PMC12"]
    assert [item["record"] for item in rejects.items] == ["after PMC12"]
    assert rejects.items[0]["reason"].startswith("broken XML")


def test_the_two_hundred_articles_read_with_their_sub_articles(shared_data: Path) -> None:
    rejects = Rejects()
    documents = list(biosmith.read(shared_data / "fixtures/jats/jats200.tar.gz", rejects=rejects))
    assert rejects.count == 0
    main = [d for d in documents if "parent" not in d.infons]
    assert len(main) == 200
    assert len({d.id for d in documents}) == len(documents)
    # The fixtures' list says that 12 articles have no main abstract.
    assert sum(not any(p.kind == "abstract" for p in d.passages) for d in main) == 12
    for document in documents:
        assert not re.search("\uffff|\\s\\s|<(?:italic|sup|xref)", document.text), document.id


# What the README of the fixtures says is odd, and what must come of it.
QUIRKS = {
    "PMC3747765.nxml.gz": lambda documents: len(documents) == 53,
    "PMC4222443.nxml": lambda documents: (
        "R^(m+n)" in documents[0].text and "documentclass" not in documents[0].text
    ),
    "scielo_t89qs8VFNXD66bM5Jg3NM5J.xml": lambda documents: (
        documents[1].infons["article_type"] == "translation"
    ),
    "scielo_FngWzPqXpsVJGyxLD5PSHPg.xml": lambda documents: "other_abstract_es" in documents[0].infons,
    "pubchunks_hindawi_1.xml": lambda documents: documents[0].id.startswith(("10.1155", "PMC")),
    "pubchunks_pensoft_2.xml": lambda documents: len(documents[0].passages) > 100,
    "pubchunks_copernicus_1.xml": lambda documents: "A3B2" not in documents[0].text,
    "elife-kitchen-sink.xml": lambda documents: len(documents) == 3,
}


@pytest.mark.parametrize("name", QUIRKS)
def test_quirks_of_publishers_are_read_right(shared_data: Path, name: str) -> None:
    documents = list(biosmith.read(shared_data / "fixtures/jats/quirks" / name, rejects=Rejects(strict=True)))
    assert QUIRKS[name](documents)


def test_every_quirky_article_reads_with_nothing_set_aside(shared_data: Path) -> None:
    folder = shared_data / "fixtures/jats/quirks"
    documents = list(biosmith.read(folder, rejects=Rejects(strict=True)))
    assert len({d.id for d in documents if "parent" not in d.infons}) == len(list(folder.iterdir()))


@pytest.mark.parametrize(
    ("inner", "text"),
    [
        ("<sup>a</sup>Includes hypotension.", "Includes hypotension."),
        (" <sup><italic>b</italic></sup> Data are means.", "Data are means."),
        ("<sup>1</sup>Values are means.", "Values are means."),
        ("<sup>†</sup>P &lt; 0.05.", "P < 0.05."),
        ("<sup>13</sup>C NMR.", "13C NMR."),  # isotopes
        ("<sup>3</sup>He was used.", "3He was used."),
        ("AUC<sup>a</sup> is given.", "AUCa is given."),  # not where the footnote begins
    ],
)
def test_the_mark_that_a_footnote_begins_with_is_no_letter_of_its_first_word(inner: str, text: str) -> None:
    table = f"<table-wrap><label>Table 1</label><table-wrap-foot><fn><p>{inner}</p></fn></table-wrap-foot></table-wrap>"
    assert [t for kind, _, t in body_of(table) if kind == "table_footnote"] == [text]


def test_an_isotope_that_begins_a_paragraph_is_no_mark() -> None:
    assert sentence("<sup>a</sup>Includes this.") == "aIncludes this."


def test_two_translated_abstracts_of_one_language_are_both_kept() -> None:
    meta = "".join(
        f'<trans-abstract xml:lang="es"><p>{text}</p></trans-abstract>' for text in ("Resumen.", "Otro.")
    )
    (document,) = parse(article(meta=meta))
    assert document.infons["other_abstract_es"] == "Resumen. Otro."


def test_comments_are_no_part_of_a_translated_title() -> None:
    group = "<trans-title>Titel</trans-title><!-- checked -->"
    xml = article().replace(
        "</article-title>", f'</article-title><trans-title-group xml:lang="de">{group}</trans-title-group>'
    )
    (document,) = parse(xml)
    assert document.infons["title_de"] == "Titel"


@pytest.mark.parametrize(
    ("body", "kinds"),
    [
        ("<sec>\n  {f}\n  <p>Text.</p></sec>", ["formula", "paragraph"]),
        ("<p>\n  {f}\n</p>", ["formula"]),
        ("<p>{f}\n{f} where x is small.</p>", ["formula", "paragraph"]),
        ("<p>{f} <italic>x</italic> is small.</p>", ["paragraph"]),
    ],
)
def test_a_formula_stands_by_itself_whether_lines_break_after_it_or_not(body: str, kinds: list[str]) -> None:
    formula = "<disp-formula><mml:math><mml:mi>x</mml:mi></mml:math></disp-formula>"
    assert [kind for kind, _, _ in body_of(body.format(f=formula))] == kinds


def test_a_year_that_is_empty_does_not_stand_for_another() -> None:
    meta = "<pub-date><year/></pub-date><pub-date><year>2011</year></pub-date>"
    assert parse(article(meta=meta))[0].infons["year"] == "2011"


@pytest.mark.parametrize("kind", ["fig", "table-wrap"])
def test_captions_of_groups_are_captions_with_their_titles(kind: str) -> None:
    one = f"<{kind}><label>A</label><caption><p>One.</p></caption></{kind}>"
    caption = "<label>3</label><caption><title>Group.</title><p>Of two.</p></caption>"
    name = f"{kind.partition('-')[0]}_caption"
    assert body_of(f"<{kind}-group>{caption}{one}</{kind}-group>") == [
        (name, "3", "Group."),
        (name, "3", "Of two."),
        (name, "A", "One."),
    ]
