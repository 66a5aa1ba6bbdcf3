"""MEDLINE/PubMed XML: baseline and update files, E-utilities answers, books, bare citations; read in constant memory.

A citation becomes one `Document` whose id is the PMID.

- Passages: "title", then one "abstract" for each section. The label of a section ("METHODS") is `Passage.label` and
  not part of the text; its NLM category is the infon "category". Inline markup: the rule of `text/markup.py`.
- Titles are kept as NLM writes them: a title in square brackets is NLM's translation (infon "translated": "true" of
  the passage). "[Not Available]." and "[In Process Citation]." say that there is no title: no passage. The title in
  the language of the article is the infon "vernacular_title".
- OtherAbstract: in English (plain-language summaries, abstracts of other agencies) passages of kind
  "other_abstract" after the abstract; in any other language kept out of the text, in the infon
  "other_abstract_LANGUAGE", so that the text of a document is English as far as NLM knows. "Abstract available from
  the publisher." is none.
- Infons: pmid, version, date_revised (YYYY-MM-DD), language ("eng", "chi; eng"), journal, year, publication_types
  ("; " between them), doi, pmcid. With `mesh=True` also mesh: descriptors, "*" before major topics.
- Several versions of a PMID, and the same PMID in several files, are several documents: whoever collects them keeps
  the one with the highest version and then the latest revision. DeleteCitation and DeleteDocument are read with
  `deletions=True` only: a document without text whose infon "deleted" is "true".
- Authors, affiliations, copyright lines, references, grants and chemicals are not read.
- A citation with neither title nor abstract is a document without passages; one without an Article element or
  without a PMID is set aside.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import IO

from lxml.etree import _Element as Element

from biosmith.errors import BadInput
from biosmith.rejects import Rejects
from biosmith.text.document import Document, Passage
from biosmith.text.markup import text_of
from biosmith.text.xml import XmlSource, drop_namespace, records, root_name

NAME = "medline"
SUFFIXES = (".medline.xml", ".pubmed.xml", ".pxml", ".xml")

_CITATIONS = ("PubmedArticle", "MedlineCitation", "PubmedBookArticle", "BookDocument")
_DELETIONS = ("DeleteCitation", "DeleteDocument")
_WRAPPED, _BARE = _CITATIONS[::2], _CITATIONS[1::2]  # a PubmedArticle holds a MedlineCitation
_ERRORS = {"eFetchResult": ("ERROR",)}  # of E-utilities, in place of what they were asked for
_SETS = frozenset(f"{name}Set" for name in _CITATIONS)
_ROOTS = frozenset((*_CITATIONS, *_SETS, "eFetchResult"))
_ARTICLE_PARTS = (
    *(
        "ArticleTitle",
        "Abstract",
        "Journal",
        "Language",
        "PublicationTypeList",
        "VernacularTitle",
        "ELocationID",
    ),
)
_NO_TITLE = frozenset(
    ("[not available].", "[not available]", "[in process citation].", "[in process citation]")
)
NOT_HERE = "abstract available from the publisher"  # NLM's words for one that it does not have
YEAR = re.compile(r"\d{4}", re.ASCII)
_MONTHS = {
    name: f"{i:02d}"
    for i, name in enumerate(
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"], 1
    )
}


def looks_like(head: bytes) -> bool:
    """Whether the file begins an XML document with one of the roots of PubMed."""
    return root_name(head) in _ROOTS


def read(
    stream: IO[bytes], rejects: Rejects, file: str, *, deletions: bool = False, mesh: bool = False
) -> Iterator[Document]:
    """Stream the citations of a file.

    Args:
        stream: decompressed XML.
        rejects: receives citations without an article or a PMID, and places where the XML is cut or broken; the
            citations before and after those are read.
        file: name for messages.
        deletions: also yield a document without text for each deleted PMID.
        mesh: also read MeSH headings.
    """
    last = None

    def set_aside(error: BadInput) -> None:
        rejects.add(file, f"after PMID {last}" if last else "start of file", error.reason, error.value)

    source = XmlSource(stream)
    bare = (source.root or "").removesuffix("Set") in _BARE
    names = (*(_BARE if bare else _WRAPPED), *_DELETIONS, *_ERRORS.get(source.root or "", ()))
    for element in records(source, names, file, set_aside, flat=source.root in _SETS):
        drop_namespace(element)
        if element.tag == "ERROR":
            rejects.add(file, f"line {source.line_of(element)}", "is the error of a server", text_of(element))
        elif element.tag in _DELETIONS:
            if deletions:
                for pmid in element.iterchildren("PMID"):
                    yield _deletion(pmid)
        elif element.tag in _CITATIONS:
            document = _read_citation(element, mesh, rejects, file, source)
            if document is not None:
                last = document.id
                yield document


def _deletion(pmid: Element) -> Document:
    name = (pmid.text or "").strip()
    return Document(name, "", infons={"pmid": name, "version": pmid.get("Version", "1"), "deleted": "true"})


def _read_citation(
    element: Element, mesh: bool, rejects: Rejects, file: str, source: XmlSource
) -> Document | None:
    citation: Element | None = element
    if element.tag in ("PubmedArticle", "PubmedBookArticle"):
        citation = next(element.iterchildren("MedlineCitation", "BookDocument"), None)
    if citation is None:
        rejects.add(file, f"line {source.line_of(element)}", f"{element.tag} holds no citation")
        return None
    if citation.tag == "BookDocument":
        infons, passages = _read_book(citation)
    else:
        infons, passages = _read_article(citation, mesh)
    pmid = infons.get("pmid")
    if not pmid:
        rejects.add(file, f"line {source.line_of(citation)}", "citation without a PMID")
        return None
    if not passages and citation.tag == "MedlineCitation" and citation.find("Article") is None:
        rejects.add(file, f"PMID {pmid}", "citation without an article")
        return None
    if citation is not element:
        for history in element.iterchildren("PubmedData", "PubmedBookData"):
            _read_article_ids(history, infons)
    return Document.build(pmid, passages, infons=infons)


def _read_article(citation: Element, mesh: bool) -> tuple[dict[str, str], list[Passage]]:
    infons: dict[str, str] = {}
    passages: list[Passage] = []
    others: list[Passage] = []
    for child in citation.iterchildren("PMID", "DateRevised", "Article", "OtherAbstract", "MeshHeadingList"):
        tag = child.tag
        if tag == "PMID":
            _read_pmid(child, infons)
        elif tag == "DateRevised":
            infons["date_revised"] = _date(child)
        elif tag == "Article":
            for part in child.iterchildren(*_ARTICLE_PARTS):
                _read_article_part(part, infons, passages)
        elif tag == "OtherAbstract":
            others += _read_other_abstract(child, infons)
        elif mesh and tag == "MeshHeadingList":
            infons["mesh"] = "; ".join(
                ("*" if any(e.get("MajorTopicYN") == "Y" for e in heading) else "") + (heading[0].text or "")
                for heading in child.iterchildren("MeshHeading")
                if len(heading)
            )
    return infons, passages + others


def _read_article_part(part: Element, infons: dict[str, str], passages: list[Passage]) -> None:
    tag = part.tag
    if tag == "ArticleTitle":
        passages += title_passages(text_of(part))
    elif tag == "Abstract":
        passages += _sections(part, "abstract")
    elif tag == "Journal":
        _read_journal(part, infons)
    elif tag == "Language":
        _append(infons, "language", part.text)
    elif tag == "PublicationTypeList":
        infons["publication_types"] = "; ".join(
            e.text for e in part.iterchildren("PublicationType") if e.text
        )
    elif tag == "VernacularTitle":
        _put(infons, "vernacular_title", text_of(part))
    elif tag == "ELocationID" and part.get("EIdType") == "doi" and part.get("ValidYN") != "N":
        _put(infons, "doi", part.text)


def _read_book(book: Element) -> tuple[dict[str, str], list[Passage]]:
    """A book or a chapter: the chapter's title if there is one, otherwise the book's."""
    infons: dict[str, str] = {"language": "", "publication_types": ""}
    passages: list[Passage] = []
    book_title: list[Passage] = []
    others: list[Passage] = []
    for child in book:
        tag = child.tag
        if tag == "PMID":
            _read_pmid(child, infons)
        elif tag == "ArticleTitle":
            passages = title_passages(text_of(child)) + passages
        elif tag == "Abstract":
            passages += _sections(child, "abstract")
        elif tag == "OtherAbstract":
            others += _read_other_abstract(child, infons)
        elif tag == "VernacularTitle":
            _put(infons, "vernacular_title", text_of(child))
        elif tag == "Language":
            _append(infons, "language", child.text)
        elif tag == "PublicationType":
            _append(infons, "publication_types", child.text)
        elif tag == "DateRevised":
            infons["date_revised"] = _date(child)
        elif tag == "Book":
            for part in child.iterchildren("BookTitle"):
                book_title = title_passages(text_of(part))
                infons["book"] = book_title[0].text if book_title else ""
            _put(infons, "year", child.findtext("PubDate/Year"))
    _read_article_ids(book, infons)
    if not any(passage.kind == "title" for passage in passages):
        passages = book_title + passages
    return {key: value for key, value in infons.items() if value}, passages + others


def title_passages(text: str) -> list[Passage]:
    """The title as a passage; none for an empty title and for NLM's words for a missing one."""
    if not text or text.lower() in _NO_TITLE:
        return []
    if text[0] == "[" and text.rstrip(".?! ").endswith("]"):
        return [Passage("title", text, infons={"translated": "true"})]
    return [Passage("title", text)]


def _sections(abstract: Element, kind: str, infons: dict[str, str] | None = None) -> list[Passage]:
    """The sections of an abstract that have text."""
    passages = []
    for section in abstract.iterchildren("AbstractText"):
        text = text_of(section)
        if not text:
            continue
        label, category, about = section.get("Label"), section.get("NlmCategory"), dict(infons or ())
        if category and category not in ("UNASSIGNED", "UNLABELLED"):
            about["category"] = category
        label = " ".join(label.split()) if label and label.upper() != "UNLABELLED" else ""
        passages.append(Passage(kind, text, 0, label, about))
    return passages


def _read_other_abstract(element: Element, infons: dict[str, str]) -> list[Passage]:
    language = element.get("Language", "eng")  # the default of the DTD
    kind = element.get("Type", "")
    sections = [
        section
        for section in _sections(element, "other_abstract", {"type": kind} if kind else {})
        if not section.text.lower().startswith(NOT_HERE)
    ]
    if language == "eng":
        return sections
    text = " ".join(f"{s.label}: {s.text}" if s.label else s.text for s in sections)
    key = f"other_abstract_{language}"
    _put(infons, key, f"{infons[key]} {text}" if key in infons else text)
    return []


def _read_pmid(element: Element, infons: dict[str, str]) -> None:
    infons["pmid"] = (element.text or "").strip()
    infons["version"] = element.get("Version", "1")


def _read_journal(journal: Element, infons: dict[str, str]) -> None:
    for child in journal.iterchildren("Title", "JournalIssue"):
        if child.tag == "Title":
            _put(infons, "journal", child.text)
            continue
        for date in child.iterchildren("PubDate"):
            for year in date.iterchildren("Year", "MedlineDate"):  # "1998 Dec-1999 Jan", "Winter 1998"
                found = YEAR.search(year.text or "")
                _put(infons, "year", found and found[0])


def _read_article_ids(parent: Element, infons: dict[str, str]) -> None:
    for identifiers in parent.iterchildren("ArticleIdList"):
        for identifier in identifiers.iterchildren("ArticleId"):
            kind = identifier.get("IdType")
            if kind == "pmc":
                _put(infons, "pmcid", identifier.text)
            elif kind == "doi" and "doi" not in infons:
                _put(infons, "doi", identifier.text)


def _date(element: Element) -> str:
    year, month, day = [*[(child.text or "").strip() for child in element], "1", "1"][
        :3
    ]  # in the order of the DTD
    return f"{year}-{_MONTHS.get(month[:3].lower()) or month.zfill(2)}-{day.zfill(2)}"


def _put(infons: dict[str, str], key: str, value: str | None) -> None:
    if value is not None and (value := value.strip()):
        infons[key] = value


def _append(infons: dict[str, str], key: str, value: str | None) -> None:
    if value is not None and (value := value.strip()):
        infons[key] = f"{infons[key]}; {value}" if infons.get(key) else value
