"""PubMedQA (Jin et al., 2019): a JSON object from PMIDs to questions over abstracts.

An entry is a document: the question (kind "question") and the sections of the abstract (kind "abstract", labelled),
the conclusion of the abstract, which must not be shown to a model that answers, is the infon `long_answer`, the
answer the infon `final_decision`; the rest are infons too. The files with splits and with answers only, which hold no
text, are set aside.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import IO, Any

import ijson

from biosmith.errors import shorten
from biosmith.rejects import Rejects
from biosmith.text import files
from biosmith.text.document import Document, Passage
from biosmith.text.formats.jsonl import infons_of

NAME = "pubmedqa"
SUFFIXES = (".json",)

_ENTRY = re.compile(rb'\s*\{\s*"[^"]{1,40}"\s*:\s*\{\s*"QUESTION"\s*:')
_NO_TEXT = re.compile(
    rb'\s*\{\s*(?:"\d+"\s*:\s*"(?:yes|no|maybe)"|"(?:train|dev|test|fold\d*)"\s*:\s*(?:\[\s*"\d+"|\{))'
)
_TEXTS = ("QUESTION", "CONTEXTS", "LABELS")


def looks_like(head: bytes) -> bool:
    """Whether JSON begins that is a file of PubMedQA, with text or without."""
    head = head.removeprefix(b"\xef\xbb\xbf")
    return _ENTRY.match(head) is not None or _NO_TEXT.match(head) is not None


def read(stream: IO[bytes], rejects: Rejects, file: str) -> Iterator[Document]:
    """Stream the entries; one without a question or contexts goes to `rejects`."""
    last = "start of file"
    try:
        for id, entry in ijson.kvitems(files.JsonStream(stream, rejects, file), "", use_float=True):
            last = f"after {id}"
            if not isinstance(entry, dict):
                rejects.add(file, "file", "holds ids or answers but no text", shorten({id: entry}))
                return
            if not isinstance(entry.get("QUESTION"), str) or not isinstance(entry.get("CONTEXTS"), list):
                rejects.add(file, id, "has no QUESTION or no CONTEXTS", shorten(entry))
                continue
            yield _entry(id, entry)
    except ijson.JSONError as error:
        reason = str(error).split("\n", 1)[0].strip()
        rejects.add(file, last, f"broken JSON: {reason}")


def _entry(id: str, entry: dict[str, Any]) -> Document:
    contexts = [str(context) for context in entry["CONTEXTS"]]
    given = entry.get("LABELS")
    labels = [str(label) for label in given] if isinstance(given, list) else []
    labels += [""] * (len(contexts) - len(labels))
    passages = [Passage("question", entry["QUESTION"])]
    passages += [Passage("abstract", c, label=label) for c, label in zip(contexts, labels, strict=False)]
    rest = {key.lower(): value for key, value in entry.items() if key not in _TEXTS}
    return Document.build(id, passages, infons=infons_of(rest))
