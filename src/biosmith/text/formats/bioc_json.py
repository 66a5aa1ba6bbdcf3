"""BioC JSON: a collection, a list of collections or documents, single documents, and one of these a line.

That covers the BioC web services of NCBI (PMC and PubMed), the JSON of PubTator and PubTator 3 (also wrapped as
`{"PubTator3": [...]}` or `{"pmid": ..., "record": {...}}`) and what bioc and bconv write. Documents are read one at
a time, so that memory depends on the largest document only. What becomes what, and why nothing is lost, is said in
`bioc.py`. Keys of a document that BioC does not know (`journal`, `authors`, ...) become infons.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import ijson

from biosmith.rejects import Rejects
from biosmith.surrogates import replace_surrogates
from biosmith.text import files
from biosmith.text.document import Document
from biosmith.text.formats.bioc import Decoder, Json, encode, name_of
from biosmith.text.formats.offsets import NotReadable, Unit
from biosmith.text.formats.report import WriteReport

NAME = "bioc-json"
SUFFIXES = (".bioc.json", ".bioc.jsonl", ".json")

_DOCUMENTS = ("documents", "PubTator3")  # keys whose array holds documents
_LISTS = ("passages", "sentences", "annotations", "relations", "locations", "nodes")
_COLLECTION = re.compile(rb'"(?:documents|PubTator3)"\s*:\s*\[')
_PASSAGES = re.compile(rb'"passages"\s*:\s*\[')
_OF_A_PASSAGE = re.compile(rb'"(?:infons|annotations|sentences)"\s*:')
_OURS = re.compile(rb'"kind"\s*:')

Event = tuple[str, Any]


def looks_like(head: bytes) -> bool:
    """Whether JSON begins that holds BioC documents."""
    if head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] not in (b"{", b"["):
        return False
    if _COLLECTION.search(head):
        return True
    return bool(_PASSAGES.search(head) and _OF_A_PASSAGE.search(head) and not _OURS.search(head))


def read(stream: IO[bytes], rejects: Rejects, file: str, *, offset_unit: Unit = "auto") -> Iterator[Document]:
    """Stream documents.

    Args:
        stream: decompressed JSON, or JSON values one after another.
        rejects: receives documents that cannot be read, mentions that are not where the file says, and the place
            where the JSON is cut or broken.
        file: name for messages.
        offset_unit: what offsets and lengths count; "auto" finds it for each document by its mentions.
    """
    decoder = Decoder(rejects, file, offset_unit)
    events = ijson.basic_parse(files.JsonStream(stream, rejects, file), multiple_values=True, use_float=True)
    number = 0
    try:
        for collection, value in _documents(events):
            number += 1
            record = (isinstance(value, dict) and name_of(value.get("id"))) or f"document {number}"
            if not isinstance(value, dict):
                rejects.add(file, record, "holds something else than BioC documents", value)
            elif "passages" not in value:
                rejects.add(file, record, "an object without passages is no BioC document", value)
            else:
                try:
                    _require_shape(value)
                    yield decoder.decode(value, collection)
                except NotReadable as error:
                    rejects.add(file, record, error.reason, error.value)
    except (ijson.JSONError, RecursionError) as error:
        rejects.add(file, f"after document {number}", f"broken JSON: {_describe(error)}")


def write(documents: Iterable[Document], path: Path) -> WriteReport:
    """Write documents as one collection, one document a line; nothing is lost."""
    report = WriteReport()
    with files.create(path) as stream:
        stream.write(b'{"source": "biosmith", "date": "", "key": "", "infons": {}, "documents": [')
        separator = b"\n"
        for document in documents:
            text = json.dumps(encode(document, replace_surrogates), ensure_ascii=False)
            stream.write(separator + text.encode())
            separator = b",\n"
            report.add(document)
        stream.write(b"\n]}\n")
    return report


def _documents(events: Iterator[Event]) -> Iterator[tuple[dict[str, str], Any]]:
    """The documents of all JSON values in the stream, and what else stands in their places, each with the infons of its
    collection."""
    for event, value in events:
        if event == "start_map":
            yield from _of_object(events)
        elif event == "start_array":
            yield from _of_array(events)
        else:
            yield {}, value


def _of_array(events: Iterator[Event]) -> Iterator[tuple[dict[str, str], Any]]:
    for event, value in events:
        if event == "end_array":
            return
        if event == "start_map":
            yield from _of_object(events)
        elif event == "start_array":
            yield from _of_array(events)
        else:
            yield {}, value


def _of_object(events: Iterator[Event]) -> Iterator[tuple[dict[str, str], Any]]:
    """The documents in an object: those of a collection, a wrapped one, or the object itself."""
    own: Json = {}
    wraps = False
    for event, key in events:
        if event == "end_map":
            break
        event, value = next(events)
        if key in _DOCUMENTS and event == "start_array":
            wraps = True
            infons = own.get("infons")
            collection = {k: str(v) for k, v in infons.items()} if isinstance(infons, dict) else {}
            for inner, document in _of_array(events):
                yield inner or collection, document
        elif key == "record" and event == "start_map":
            wraps = True
            yield from _of_object(events)
        else:
            own[key] = _value(event, value, events)
    if "passages" in own or not wraps:
        yield {}, own


def _require_shape(value: Json) -> None:
    """Check that lists, objects and texts are such, in a document and in all that it holds.

    Raises:
        NotReadable: one is not.
    """
    for key in _LISTS:
        items = value.get(key)
        if items is None:
            continue
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            raise NotReadable(f"{key} are not a list of objects", items)
        for item in items:
            _require_shape(item)
    for key, kind, name in (("infons", dict, "an object"), ("text", str, "a string")):
        if not isinstance(value.get(key), kind | None):
            raise NotReadable(f"{key} is not {name}", value[key])


def _value(event: str, value: Any, events: Iterator[Event]) -> Any:
    """The whole value that begins with an event."""
    builder = ijson.ObjectBuilder()
    builder.event(event, value)
    depth = int(event.startswith("start_"))
    while depth:
        event, value = next(events)
        builder.event(event, value)
        depth += event.startswith("start_") - event.startswith("end_")
    return builder.value


def _describe(error: BaseException) -> str:
    text = error.args[0] if error.args else error
    text = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
    return text.split("\n", 1)[0].strip() or type(error).__name__
