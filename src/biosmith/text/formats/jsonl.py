"""JSON lines: one document a line, in the three input forms and the output form of the command line.

In:
- `{"id", "text"}`: one passage of kind "paragraph" (after a "title", if there is one);
- `{"id", "title", "abstract", "body": [paragraph, ...]}`; an abstract may also be a list of paragraphs or of
  `{"label", "text"}`;
- `{"id", "passages": [{"kind", "text", "offset", "label", "infons"}]}`; without offsets the passages are laid out one
  space apart.

Out, and in again: `{"id", "text", "passages", "mentions": [{"start", "end", "text", "type", "score", "ids",
"fragments", "id", "infons"}], "relations": [{"type", "arguments": [{"role", "target"}], "score", "id", "infons"}],
"infons"}`; keys that would be empty are left out of mentions, relations and passages.

Any other key becomes an infon of the document: text as it is, everything else as JSON. A line without an id is named
by its "pmid", else after the file and the line. Lossless for every `Document`; lone surrogates, which are no text, become U+FFFD.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from biosmith.rejects import Rejects
from biosmith.surrogates import replace_surrogates
from biosmith.text import files
from biosmith.text.document import Argument, Document, Mention, Passage, Relation
from biosmith.text.formats.mentions import place_mention
from biosmith.text.formats.offsets import NotReadable
from biosmith.text.formats.report import WriteReport

NAME = "jsonl"
SUFFIXES = (".jsonl", ".ndjson")

TEXT_KEYS = ("text", "title", "abstract", "body", "passages")
_OWN_KEYS = {"id", "mentions", "relations", "infons", *TEXT_KEYS}
_OTHER_JSON = re.compile(
    rb'"(locations|annotations|documents|bioctype|record|paper_id|body_text|paragraphs|CONTEXTS)"\s*:'
)


class NotADocument(NotReadable):
    """The JSON value is none of the forms above."""


def looks_like(head: bytes) -> bool:
    """Whether the first line (or one after a broken one) is a JSON object that no other format claims."""
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not start.startswith(b"{"):
        return False
    others = _OTHER_JSON.search(head) is not None
    lines = start.split(b"\n")
    if len(lines) == 1 and len(head) >= files.HEAD:  # the first line is longer than the look
        return not others and any(b'"%s"' % key.encode() in start for key in TEXT_KEYS)
    for line in lines[:3]:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):  # with a text of its own it may have any other key
            return not others or any(isinstance(value.get(key), str) for key in ("text", "abstract"))
    return False


def read(stream: IO[bytes], rejects: Rejects, file: str) -> Iterator[Document]:
    """Stream documents; a line that is no document goes to `rejects` with its number and reading goes on."""
    for number, line in enumerate(stream, 1):
        line = line.strip().removeprefix(b"\xef\xbb\xbf")
        if not line:
            continue
        record = f"line {number}"
        try:
            yield from_json(json.loads(line), rejects, file, record)
        except NotADocument as error:
            value = line[:200].decode("utf-8", "replace") if error.value is None else error.value
            rejects.add(file, record, error.reason, value)
        except (ValueError, RecursionError) as error:
            # Reasons are counted, each once: the place in the line is shown by the value, not named in the reason.
            reason = getattr(error, "msg", None) or getattr(error, "reason", None) or str(error)
            place = max(0, getattr(error, "pos", 0) - 100)
            value = line.decode("utf-8", "replace")[place : place + 200]
            rejects.add(file, record, f"is not JSON: {reason}", value)


def write(documents: Iterable[Document], path: Path) -> WriteReport:
    """Write one document a line; nothing is lost."""
    report = WriteReport()
    with files.create(path) as stream:
        for document in documents:
            stream.write(dump_line(document))
            report.add(document)
    return report


def dump_line(document: Document) -> bytes:
    """The document as one line of UTF-8 JSON in the output form, with its line end."""
    text = json.dumps(to_json(document), ensure_ascii=False)
    return (replace_surrogates(text) + "\n").encode()


def to_json(document: Document) -> dict[str, Any]:
    """The output form, as plain JSON values."""
    value: dict[str, Any] = {
        "id": document.id,
        "text": document.text,
        "passages": [
            {"kind": p.kind, "text": p.text, "offset": p.offset} | _full(label=p.label, infons=dict(p.infons))
            for p in document.passages
        ],
        "mentions": [
            {
                "start": m.start,
                "end": m.end,
                "text": m.text,
                "type": m.type,
                "score": m.score,
                "ids": list(m.ids),
                "fragments": [list(f) for f in m.fragments],
            }
            | _full(id=m.id, infons=dict(m.infons))
            for m in document.mentions
        ],
        "relations": [
            {"type": r.type, "arguments": [{"role": a.role, "target": a.target} for a in r.arguments]}
            | ({} if r.score is None else {"score": r.score})
            | _full(id=r.id, infons=dict(r.infons))
            for r in document.relations
        ],
    }
    return value | _full(infons=dict(document.infons))


def _full(**values: Any) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value}


def from_json(value: Any, rejects: Rejects, file: str, record: object) -> Document:
    """A document from any of the forms above.

    Raises:
        NotADocument: the value is none of them.
    """
    if not isinstance(value, dict):
        raise NotADocument(f"is a JSON {_kind(value)}, not an object")
    if not any(value.get(key) is not None for key in TEXT_KEYS):
        raise NotADocument(f"has no text: none of the keys {', '.join(TEXT_KEYS)}")
    id = value.get("id")
    if id is None and _is_name(value.get("pmid")):
        id = value["pmid"]
    if id is None:
        id = f"{files.stem(file)}-{str(record).rpartition(' ')[2]}"
    if not _is_name(id):
        raise NotADocument(f"id is a JSON {_kind(id)}, not a string or a whole number")
    infons = infons_of(value.get("infons"))
    document = _lay_out(replace_surrogates(str(id)), value, infons)
    where = record if "id" not in value else f"{record}, {document.id}"
    mentions = [
        mention
        for m in _list(value, "mentions")
        if (mention := _mention(m, document.text, rejects, file, where)) is not None
    ]
    relations = [_relation(r) for r in _list(value, "relations")]
    return Document(
        document.id, document.text, document.passages, tuple(mentions), tuple(relations), document.infons
    )


def _lay_out(id: str, value: Mapping[str, Any], infons: dict[str, str]) -> Document:
    """The text and the passages; keys of no meaning here become infons."""
    used = set(_OWN_KEYS)
    text = _string(value, "text")
    if value.get("passages") is not None:
        used -= {"title", "abstract", "body"}
        passages = [_passage(p) for p in _list(value, "passages")]
        infons |= infons_of({key: item for key, item in value.items() if key not in used})
        if text is not None:
            return _check(Document(id, text, tuple(passages), infons=infons))
        try:
            placed = all(isinstance(p.get("offset"), int) for p in value["passages"])
            return (Document.at_offsets if placed else Document.build)(id, passages, infons=infons)
        except ValueError as error:
            raise NotADocument("passages overlap, or lie too far apart", str(error)) from error
    passages = []
    if text is not None and value.get("mentions"):
        used -= {"title", "abstract", "body"}  # the mentions count from the start of the text
    elif title := _string(value, "title"):
        passages.append(Passage("title", title))
    if text is not None:
        used -= {"abstract", "body"}
        passages.append(Passage("paragraph", text))
    else:
        passages += _paragraphs(value, "abstract", "abstract")
        passages += _paragraphs(value, "body", "paragraph")
    infons |= infons_of({key: item for key, item in value.items() if key not in used})
    return Document.build(id, passages, infons=infons)


def _check(document: Document) -> Document:
    for passage in document.passages:
        if passage.offset < 0 or not document.text.startswith(passage.text, passage.offset):
            raise NotADocument("a passage is not the document's text at its offset", passage.offset)
    return document


def _paragraphs(value: Mapping[str, Any], key: str, kind: str) -> list[Passage]:
    item = value.get(key)
    if item is None or isinstance(item, str):
        return [Passage(kind, replace_surrogates(item))] if item else []
    passages = []
    for part in _list(value, key):
        if isinstance(part, str):
            part = {"text": part}
        passages.append(_passage({"kind": kind} | part if isinstance(part, dict) else part))
    return passages


def _passage(value: Any) -> Passage:
    if not isinstance(value, dict):
        raise NotADocument(f"a passage is a JSON {_kind(value)}, not an object")
    text, offset = _string(value, "text"), value.get("offset", 0)
    if text is None:
        raise NotADocument("a passage has no text")
    if not _is_integer(offset):
        raise NotADocument("a passage's offset is not a whole number", offset)
    extra = {k: v for k, v in value.items() if k not in ("kind", "text", "offset", "label", "infons")}
    kind = _string(value, "kind")
    return Passage(
        "paragraph" if kind is None else kind,
        text,
        offset,
        _string(value, "label") or "",
        infons_of(extra) | infons_of(value.get("infons")),
    )


def _mention(value: Any, text: str, rejects: Rejects, file: str, record: object) -> Mention | None:
    if not isinstance(value, dict):
        raise NotADocument(f"a mention is a JSON {_kind(value)}, not an object")
    fragments = value.get("fragments") or [(value.get("start"), value.get("end"))]
    if not isinstance(fragments, list) or not all(_is_span(f) for f in fragments):
        raise NotADocument("a mention's start, end or fragments are no whole numbers", value)
    known = ("start", "end", "text", "type", "score", "ids", "fragments", "id", "infons")
    mention = place_mention(
        text,
        [(start, end) for start, end in fragments],
        _string(value, "text"),
        rejects=rejects,
        file=file,
        record=record,
        type=_string(value, "type") or "",
        score=_score(value),
        ids=[replace_surrogates(str(i)) for i in _list(value, "ids") if i is not None],
        id=_string(value, "id") or "",
        infons=infons_of({k: v for k, v in value.items() if k not in known}) | infons_of(value.get("infons")),
    )
    return mention


def _relation(value: Any) -> Relation:
    if not isinstance(value, dict):
        raise NotADocument(f"a relation is a JSON {_kind(value)}, not an object")
    arguments = []
    for argument in _list(value, "arguments"):
        if not isinstance(argument, dict) or not isinstance(argument.get("target"), str):
            raise NotADocument("a relation's argument has no target", argument)
        arguments.append(Argument(_string(argument, "role") or "", replace_surrogates(argument["target"])))
    return Relation(
        _string(value, "type") or "",
        tuple(arguments),
        _score(value),
        _string(value, "id") or "",
        infons_of(value.get("infons")),
    )


def infons_of(value: Any) -> dict[str, str]:
    """A JSON object as infons: strings as they are, null left out, everything else as JSON.

    Raises:
        NotADocument: the value is not an object.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise NotADocument(f"infons are a JSON {_kind(value)}, not an object")
    return {
        replace_surrogates(str(key)): replace_surrogates(
            item if isinstance(item, str) else json.dumps(item, ensure_ascii=False)
        )
        for key, item in value.items()
        if item is not None
    }


def _string(value: Mapping[str, Any], key: str) -> str | None:
    item = value.get(key)
    if item is not None and not isinstance(item, str):
        raise NotADocument(f"{key} is a JSON {_kind(item)}, not a string")
    return item if item is None else replace_surrogates(item)


def _list(value: Mapping[str, Any], key: str) -> Sequence[Any]:
    item = value.get(key)
    if item is None:
        return []
    if not isinstance(item, list):
        raise NotADocument(f"{key} is a JSON {_kind(item)}, not an array")
    return item


def _score(value: Mapping[str, Any]) -> float | None:
    score = value.get("score")
    if score is None:
        return None
    if isinstance(score, bool) or not isinstance(score, int | float):
        raise NotADocument("score is not a number", score)
    return float(score)


def _is_name(value: Any) -> bool:
    return isinstance(value, str) or _is_integer(value)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_span(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) == 2 and all(_is_integer(part) for part in value)


def _kind(value: Any) -> str:
    names = {dict: "object", list: "array", str: "string", bool: "boolean", type(None): "null"}
    return names.get(type(value), "number")
