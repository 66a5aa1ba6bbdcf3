"""JATS and its forerunners (NLM DTD, TaxonX): PMC, publishers' and preprint articles; one article in memory at a time.

A file holds one article or many (`pmc-articleset`, answers of OAI-PMH), in any namespace. An article becomes one
`Document`, and so does each sub-article and response (translations, reviews, replies, abstracts of a meeting), after
the article that it belongs to.

- Id: the PMCID ("PMC3747765"), else the PMID, the DOI, the publisher's id. A sub-article without an id of its own is
  "PMC3747765.S2", and has the infon "parent".
- Passages in the order of the article: "title"; "abstract"; "other_abstract" for digests, author summaries and
  other abstracts of a type (infon "type"; the first one is the "abstract" of an article that has no other, unless it
  is a teaser); "paragraph"; "list_item"; "formula" where one stands by itself;
  "fig_caption", "table_caption", "supplementary_caption"; "footnote", "table_footnote"; "back_matter" for
  acknowledgements, notes and glossaries. Captions and footnotes inside a paragraph come after it. Cells of tables and
  references are not read.
- `Passage.label`: the heading of the section, or the label of the figure or table ("Figure 1"). Headings are not
  part of the text. The infon "section" has all headings down to the passage where there are several.
- Citation marks made of numbers (`[1,2]`, raised `3-5`) are left out with the brackets and separators that hold
  nothing else, and so are marks of footnotes; marks with names ("Smith et al., 2010") are words of the sentence.
- Formulas and inline markup: the rule of `text/markup.py`; of alternatives one is taken.
- A trans-abstract in English is an "other_abstract" (infon "language"); in another language it is the infon
  "other_abstract_LANGUAGE", and a translated title "title_LANGUAGE".
- Infons: pmid, pmcid, doi, journal, year, article_type, language, license.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import IO

from lxml.etree import _Element as Element

from biosmith.errors import BadInput
from biosmith.rejects import Rejects
from biosmith.text.document import Document, Passage
from biosmith.text.formats.jats_blocks import BlockReader, Place, inline_text
from biosmith.text.markup import local_name
from biosmith.text.xml import XmlSource, records, root_name

NAME = "jats"
SUFFIXES = (".nxml", ".jats.xml", ".jats", ".xml")

_ROOTS = frozenset(("article", "pmc-articleset", "OAI-PMH", "articles", "article-set"))
# Abstracts of these types never stand for a missing main abstract.
_NOT_MAIN = frozenset(
    [
        "toc",
        "teaser",
        "precis",
        "short",
        "graphical",
        "key-points",
        "web-summary",
        "editor",
        "editors-summary",
    ]
)
_PARTS = ("sub-article", "response")
_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
_HREF = "{http://www.w3.org/1999/xlink}href"
_LICENSE_LINK = re.compile(r"https?://creativecommons\.org/[^\s)\"'>]+")
_IDENTIFIERS = {
    "pmid": "pmid",
    "pmc": "pmcid",
    "pmcid": "pmcid",
    "doi": "doi",
    "publisher-id": "publisher_id",
}


def looks_like(head: bytes) -> bool:
    """Whether the file begins an XML document with a root that holds JATS articles."""
    return root_name(head) in _ROOTS


def read(stream: IO[bytes], rejects: Rejects, file: str) -> Iterator[Document]:
    """Stream the articles of a file.

    Args:
        stream: decompressed XML.
        rejects: receives articles without text, and places where the XML is cut or broken; the articles before and
            after those are read.
        file: name for messages.

    Raises:
        BadInput: the XML holds no article.
    """
    last, found, broken = None, 0, False

    def set_aside(error: BadInput) -> None:
        nonlocal broken
        broken = True
        rejects.add(file, f"after {last}" if last else "start of file", error.reason, error.value)

    for element in records(XmlSource(stream), ("article",), file, set_aside):
        found += 1
        for document in _read_article(element, None, found):
            if document.passages:
                last = document.id
                yield document
            else:
                rejects.add(file, document.id, "article without title, abstract or body")
    if not found and not broken:
        raise BadInput(file, "XML without an article element")


def _read_article(article: Element, parent: Document | None, number: int) -> Iterator[Document]:
    front = _first(article, "front", "front-stub")
    meta = None if front is None else _first(front, "article-meta")
    meta = front if meta is None else meta
    infons = {"article_type": article.get("article-type", ""), "language": article.get(_LANGUAGE, "").lower()}
    if parent is not None:
        inherited = ("journal", "year", "license", "language")
        infons = {key: parent.infons.get(key, "") for key in inherited} | {
            k: v for k, v in infons.items() if v
        }
    infons["language"] = infons["language"] or "en"
    passages: list[Passage] = []
    if meta is not None:
        _read_identifiers(meta, infons)
        _read_about(meta, infons)
        passages += _read_title(meta, infons)
        passages += _read_abstracts(meta, infons)
    if front is not None:
        for title in front.iter("{*}journal-title"):
            infons["journal"] = inline_text(title)
            break
    for child in article:
        name = local_name(child)
        if name in ("body", "floats-group", "floats-wrap"):
            passages += BlockReader().read(child, Place("paragraph"))
        elif name == "back":
            passages += BlockReader().read(child, Place("back_matter"))
    identifier = _choose_id(article, infons, parent, number)
    document = Document.build(
        identifier, passages, infons={key: value for key, value in infons.items() if value}
    )
    yield document
    for position, part in enumerate((c for c in article if local_name(c) in _PARTS), 1):
        yield from _read_article(part, document, position)


def _choose_id(article: Element, infons: dict[str, str], parent: Document | None, number: int) -> str:
    names = [infons[key] for key in ("pmcid", "pmid", "doi", "publisher_id") if infons.get(key)]
    infons.pop("publisher_id", None)
    if parent is None:
        return names[0] if names else article.get("id") or f"article-{number}"
    infons["parent"] = parent.id
    own = infons.get("pmcid") or infons.get("pmid")
    if own and own not in (parent.infons.get("pmcid"), parent.infons.get("pmid")):
        return own
    return f"{parent.id}.{article.get('id') or number}"


def _read_identifiers(meta: Element, infons: dict[str, str]) -> None:
    for child in meta.iterchildren("{*}article-id"):
        key = _IDENTIFIERS.get(child.get("pub-id-type", ""))
        text = (child.text or "").strip()
        if key is not None and text:
            if key == "pmcid" and text.isdigit():
                text = f"PMC{text}"
            infons.setdefault(key, text)


def _read_about(meta: Element, infons: dict[str, str]) -> None:
    years = [
        text
        for date in meta.iterchildren("{*}pub-date")
        for year in _named(date, "year")
        if (text := (year.text or "").strip())
    ]
    if years:
        infons["year"] = min(years)  # the first time that it was published, in print or on the web
    for license in meta.iter("{*}license"):
        link = license.get(_HREF) or next((e.get(_HREF) or "" for e in license.iter("{*}ext-link")), "")
        stated = _LICENSE_LINK.search(link or inline_text(license))
        infons["license"] = stated[0].rstrip(".") if stated else link or license.get("license-type", "")
        break


def _read_title(meta: Element, infons: dict[str, str]) -> list[Passage]:
    group = _first(meta, "title-group")
    if group is None:
        return []
    title = " ".join(inline_text(child) for child in _named(group, "article-title")).strip()
    for child in _named(group, "subtitle"):
        subtitle = inline_text(child)
        if subtitle:
            title += f"{'' if title[-1:] in ':?!.-—' else ':'} {subtitle}"
    for translated in _named(group, "trans-title-group"):
        language = translated.get(_LANGUAGE, "") or "unknown"
        infons[f"title_{language}"] = " ".join(inline_text(c) for c in translated if local_name(c))
    return [Passage("title", title)] if title else []


def _read_abstracts(meta: Element, infons: dict[str, str]) -> list[Passage]:
    passages: list[Passage] = []
    others: list[Passage] = []
    main = any(not child.get("abstract-type") for child in _named(meta, "abstract"))
    for child in meta:
        name = local_name(child)
        if name == "abstract":
            kind = child.get("abstract-type", "")
            place = Place("other_abstract", infons={"type": kind}) if kind else Place("abstract")
            found = BlockReader().read(child, place)
            if kind and not main and kind not in _NOT_MAIN and found:
                main = True
                passages += [replace(p, kind="abstract") for p in found]
            else:
                (others if kind else passages).extend(found)
        elif name == "trans-abstract":
            language = child.get(_LANGUAGE, "").lower() or "unknown"
            read = BlockReader().read(child, Place("other_abstract", infons={"language": language}))
            if language[:2] == "en":
                others += read
            else:
                key, text = f"other_abstract_{language}", " ".join(p.text for p in read)
                infons[key] = f"{infons[key]} {text}" if infons.get(key) else text
    return passages + others


def _first(element: Element, *names: str) -> Element | None:
    return next((child for child in element if local_name(child) in names), None)


def _named(element: Element, name: str) -> Iterator[Element]:
    return element.iterchildren(f"{{*}}{name}")
