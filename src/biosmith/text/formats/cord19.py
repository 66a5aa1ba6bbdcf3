"""CORD-19 JSON: parses of PDF (`pdf_json`) and of PMC XML (`pmc_json`), an article a file or one after another.

Passages: "title", "abstract" and "paragraph" with the section as label, "fig_caption" and "table_caption", and
"back_matter". Numeric citation marks are left out where the file marks them: the rule of `text/citations.py`. The id
is `paper_id` (a PMCID, or the SHA-1 of the PDF). Authors and the bibliography are not read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import IO, Any

from biosmith.errors import BadInput
from biosmith.rejects import Rejects
from biosmith.surrogates import replace_surrogates
from biosmith.text.citations import MARK, is_number_mark, remove_marks
from biosmith.text.document import Document, Passage
from biosmith.text.markup import clean

NAME = "cord19"
SUFFIXES = (".xml.json", ".json", ".jsonl")

_PARTS = (("abstract", "abstract"), ("body_text", "paragraph"), ("back_matter", "back_matter"))
_CAPTIONS = {"figure": "fig_caption", "table": "table_caption"}


def looks_like(head: bytes) -> bool:
    """Whether the file begins with a JSON object that has the keys of a CORD-19 article."""
    begin = head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"{"
    return begin and b'"paper_id"' in head and (b'"body_text"' in head or b'"bib_entries"' in head)


def read(stream: IO[bytes], rejects: Rejects, file: str) -> Iterator[Document]:
    """Yield the articles of a file; one file is in memory at a time.

    Args:
        stream: UTF-8 JSON.
        rejects: receives articles that lack an id or text, or have fields of another type.
        file: name for messages.

    Raises:
        BadInput: the JSON is cut or broken; every complete article before that place was yielded.
    """
    text = stream.read().decode("utf-8-sig")
    decoder, position, number = json.JSONDecoder(), 0, 0
    while (position := _after_space(text, position)) < len(text):
        number += 1
        try:
            article, position = decoder.raw_decode(text, position)
        except (json.JSONDecodeError, RecursionError) as error:
            raise BadInput(file, f"broken JSON: {error}", record=f"article {number}") from error
        document = _read_article(article, number, rejects, file)
        if document is not None:
            yield document


def _after_space(text: str, position: int) -> int:
    while text[position : position + 1].isspace():
        position += 1
    return position


def _read_article(article: Any, number: int, rejects: Rejects, file: str) -> Document | None:
    identifier = article.get("paper_id") if isinstance(article, dict) else None
    if not isinstance(identifier, str) or not identifier:
        rejects.add(file, f"article {number}", "no paper_id")
        return None
    try:
        title = _line(article.get("metadata", {}).get("title"))
        passages = [Passage("title", title)] if title else []
        for key, kind in _PARTS:
            for paragraph in article.get(key) or ():
                text = _paragraph(paragraph)
                if text:
                    passages.append(Passage(kind, text, label=_label(paragraph, kind)))
        for entry in (article.get("ref_entries") or {}).values():
            caption = _CAPTIONS.get(entry.get("type") or "")
            if caption is not None and (text := _line(entry.get("text"))):
                passages.append(Passage(caption, text))
    except (AttributeError, TypeError, KeyError) as error:
        rejects.add(file, identifier, f"not the form of CORD-19: {error}")
        return None
    if not passages:
        rejects.add(file, identifier, "article without title, abstract or body")
        return None
    infons = {"pmcid": identifier} if identifier.startswith("PMC") else {}
    return Document.build(replace_surrogates(identifier), passages, infons=infons)


def _label(paragraph: Mapping[str, Any], kind: str) -> str:
    label = _line(paragraph.get("section"))
    return "" if kind == "abstract" and label.lower() == "abstract" else label


def _paragraph(paragraph: Mapping[str, Any]) -> str:
    text = paragraph["text"] or ""
    for span in sorted(paragraph.get("cite_spans") or (), key=lambda s: s["start"], reverse=True):
        start, end = span["start"], span["end"]
        if 0 <= start < end <= len(text) and is_number_mark(text[start:end].strip().rstrip(".")):
            text = text[:start] + MARK + text[end:]
    return remove_marks(_line(text))


def _line(text: str | None) -> str:
    return clean(" ".join(replace_surrogates(text or "").split()))
