"""BioC XML: collections of documents with passages, sentences, annotations and relations; read one document at a time.

What becomes what, and why nothing is lost, is said in `bioc.py`. Offsets may be code points, UTF-8 bytes or UTF-16
units. Elements may be in a namespace, whichever it is. The writer makes code points, no sentences, no namespace and no
date, so that the same documents give the same bytes. Characters that XML has no way to hold (most control characters)
are written as U+FFFD, one for one, and exactly in the infon `biosmith:document`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from lxml import etree
from lxml.etree import _Element as Element

from biosmith.errors import BadInput
from biosmith.rejects import Rejects
from biosmith.text import files
from biosmith.text.document import Document
from biosmith.text.formats.bioc import Decoder, Json, encode
from biosmith.text.formats.offsets import NotReadable, Unit
from biosmith.text.formats.report import WriteReport
from biosmith.text.xml import XmlSource, as_utf8, drop_namespace, records, root_name

NAME = "bioc-xml"
SUFFIXES = (".bioc.xml", ".xml")

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_WITHIN = re.compile(rb"<(?:[\w.-]+:)?(?:document>|source)")
_DOCTYPE = '<!DOCTYPE collection SYSTEM "BioC.dtd">'


def looks_like(head: bytes) -> bool:
    """Whether the root is a BioC collection, and not some other collection."""
    text = as_utf8(head)
    return root_name(head) == "collection" and _WITHIN.search(text) is not None


def read(stream: IO[bytes], rejects: Rejects, file: str, *, offset_unit: Unit = "auto") -> Iterator[Document]:
    """Stream documents.

    Args:
        stream: decompressed XML.
        rejects: receives documents that cannot be read, and mentions that are not where the file says; and places where
            the XML is cut or broken, where the documents before and after those are read.
        file: name for messages.
        offset_unit: what offsets and lengths count; "auto" finds it for each document by its mentions.
    """
    decoder = Decoder(rejects, file, offset_unit, clean)
    collection: dict[str, str] | None = None
    last = None

    def set_aside(error: BadInput) -> None:
        rejects.add(file, f"after {last}" if last else "start of file", error.reason, error.value)

    source = XmlSource(stream)
    for element in records(source, ("document",), file, set_aside):
        drop_namespace(element)
        if collection is None:
            parent = element.getparent()
            collection = {} if parent is None else _infons(parent)
        try:
            yield decoder.decode(_document(element), collection)
            last = element.findtext("id")
        except NotReadable as error:
            record = element.findtext("id") or f"line {source.line_of(element)}"
            rejects.add(file, record, error.reason, error.value)


def write(documents: Iterable[Document], path: Path) -> WriteReport:
    """Write documents as one collection; nothing is lost."""
    report = WriteReport()
    with files.create(path) as stream, etree.xmlfile(stream, encoding="UTF-8") as xml:
        xml.write_declaration()
        xml.write_doctype(_DOCTYPE)
        with xml.element("collection"):
            xml.write("\n", _leaf("source", "biosmith"), _leaf("date", ""), _leaf("key", ""), "\n")
            for document in documents:
                xml.write(_build_document(encode(document, clean)), "\n")
                report.add(document)
    return report


def clean(text: str) -> str:
    """The text with what XML cannot hold as U+FFFD; offsets do not change."""
    return _NOT_XML.sub("\ufffd", text) if _NOT_XML.search(text) else text


def _document(element: Element) -> Json:
    return {
        "id": _text(element.find("id")) or "",
        "infons": _infons(element),
        "passages": [_stretch(passage) for passage in element.iterchildren("passage")],
        "annotations": [_annotation(annotation) for annotation in element.iterchildren("annotation")],
        "relations": [_relation(relation) for relation in element.iterchildren("relation")],
    }


def _stretch(element: Element) -> Json:
    """A passage or a sentence."""
    return {
        "offset": _text(element.find("offset")),
        "infons": _infons(element),
        "text": _text(element.find("text")),
        "sentences": [_stretch(sentence) for sentence in element.iterchildren("sentence")],
        "annotations": [_annotation(annotation) for annotation in element.iterchildren("annotation")],
        "relations": [_relation(relation) for relation in element.iterchildren("relation")],
    }


def _annotation(element: Element) -> Json:
    return {
        "id": element.get("id", ""),
        "infons": _infons(element),
        "text": _text(element.find("text")),
        "locations": [dict(location.attrib) for location in element.iterchildren("location")],
    }


def _relation(element: Element) -> Json:
    return {
        "id": element.get("id", ""),
        "infons": _infons(element),
        "nodes": [dict(node.attrib) for node in element.iterchildren("node")],
    }


def _infons(element: Element) -> dict[str, str]:
    """The infons of an element; a key that comes several times has its values joined by "; "."""
    found: dict[str, str] = {}
    for infon in element.iterchildren("{*}infon"):
        key, value = infon.get("key", ""), _text(infon) or ""
        found[key] = f"{found[key]}; {value}" if key in found else value
    return found


def _text(element: Element | None) -> str | None:
    """An element's text; an entity that is not expanded stays as it is spelled."""
    if element is None:
        return None
    parts = [element.text or ""]
    for child in element:
        parts += [child.text or "" if child.tag is etree.Entity else "", child.tail or ""]
    return "".join(parts)


def _build_document(value: Json) -> Element:
    element = etree.Element("document")
    element.append(_leaf("id", value["id"]))
    _add_infons(element, value)
    for passage in value["passages"]:
        part = etree.SubElement(element, "passage")
        _add_infons(part, passage)
        part.append(_leaf("offset", str(passage["offset"])))
        part.append(_leaf("text", passage["text"]))
        for annotation in passage["annotations"]:
            part.append(_build_annotation(annotation))
    for relation in value["relations"]:
        part = etree.SubElement(element, "relation", _named(relation))
        _add_infons(part, relation)
        for node in relation["nodes"]:
            etree.SubElement(part, "node", node)
    return element


def _build_annotation(value: Json) -> Element:
    element = etree.Element("annotation", _named(value))
    _add_infons(element, value)
    for location in value["locations"]:
        etree.SubElement(element, "location", {key: str(number) for key, number in location.items()})
    element.append(_leaf("text", value["text"]))
    return element


def _named(value: Json) -> dict[str, str]:
    return {"id": value["id"]} if value["id"] else {}


def _add_infons(element: Element, value: Json) -> None:
    for key, item in value["infons"].items():
        etree.SubElement(element, "infon", {"key": key}).text = item


def _leaf(tag: str, text: str) -> Any:
    element = etree.Element(tag)
    element.text = text
    return element
