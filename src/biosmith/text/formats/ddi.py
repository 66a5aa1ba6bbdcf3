"""DDI-2013 XML (Herrero-Zazo et al., 2013): a document of sentences with drugs and pairs of drugs.

Sentences are passages of kind "sentence", one space apart, their ids the infon `id`. `charOffset` counts characters of
the sentence, its ends are inclusive, parts of a discontinuous mention are separated by ";". Pairs with `ddi="true"`
are relations between mentions (roles e1 and e2) of their `type`, empty where the file has none; pairs without an
interaction are not kept, for they are all the other pairs of a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import IO

from lxml.etree import _Element as Element

from biosmith.rejects import Rejects
from biosmith.text.document import Argument, Document, Mention, Passage, Relation
from biosmith.text.formats.mentions import place_mention
from biosmith.text.xml import as_utf8, drop_namespace, elements, root_name

NAME = "ddi"
SUFFIXES = (".ddi.xml", ".xml")

_OFFSETS = re.compile(r"\d+-\d+(;\d+-\d+)*", re.ASCII)


def looks_like(head: bytes) -> bool:
    """Whether the root is a document of sentences that have their text in an attribute."""
    return root_name(head) == "document" and re.search(rb"<sentence\s[^>]*text=", as_utf8(head)) is not None


def read(stream: IO[bytes], rejects: Rejects, file: str) -> Iterator[Document]:
    """Stream documents (one a file in the releases); mentions that are not where the file says go to `rejects`.

    Raises:
        BadInput: the XML is cut or broken.
    """
    for element in elements(stream, ("{*}document",), file):
        drop_namespace(element)
        sentences = list(element.iterchildren("sentence"))
        document = Document.build(
            element.get("id", ""),
            [
                Passage("sentence", sentence.get("text", ""), infons={"id": sentence.get("id", "")})
                for sentence in sentences
            ],
        )
        mentions: list[Mention] = []
        relations: list[Relation] = []
        for sentence, passage in zip(sentences, document.passages, strict=True):
            for entity in sentence.iterchildren("entity"):
                mention = _mention(entity, document.text, passage.offset, rejects, file)
                if mention is not None:
                    mentions.append(mention)
            relations += [_relation(p) for p in sentence.iterchildren("pair") if p.get("ddi") == "true"]
        yield Document(document.id, document.text, document.passages, tuple(mentions), tuple(relations))


def _mention(entity: Element, text: str, start: int, rejects: Rejects, file: str) -> Mention | None:
    id, offsets = entity.get("id", ""), entity.get("charOffset", "")
    if not _OFFSETS.fullmatch(offsets):
        rejects.add(file, id, "charOffset is not of the form 0-11 or 0-4;9-11", offsets)
        return None
    spans = [[int(number) for number in part.split("-")] for part in offsets.split(";")]
    return place_mention(
        text,
        [(start + first, start + last + 1) for first, last in spans],
        entity.get("text"),
        rejects=rejects,
        file=file,
        record=id,
        type=entity.get("type", ""),
        id=id,
    )


def _relation(pair: Element) -> Relation:
    arguments = tuple(Argument(role, pair.get(role, "")) for role in ("e1", "e2"))
    return Relation(pair.get("type", ""), arguments, id=pair.get("id", ""))
