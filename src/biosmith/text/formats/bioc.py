"""BioC (Comeau et al., 2013) as plain values in the shape of BioC JSON: what the XML and the JSON form share.

How BioC becomes a document, and back:

- A passage's infon `type` is its kind (`front` of a title section is "title"), `section_title` its label; all other
  infons stay as they are. Two passages without any infons are a title and an abstract, otherwise one without a type is
  a "paragraph". Sentences are joined to the passage's text at their offsets; where they lie is kept in the
  infon `sentences` ("start-end" in the passage), their infons as `sentence N key`.
- An annotation's infon `type` is the type; `identifier`, or a known name space such as `MESH` or `NCBI Gene`, holds
  the identifiers, `score` the probability. Annotations of sentences, passages and the document are all mentions of
  the document; those without a location are kept as JSON in the infon `unlocated` of the document.
- A relation's arguments are its nodes, or the infons that name concepts (`entity1`, `entity2`; `Chemical`, `Disease`
  beside `relation`; `role1`, `role2` of PubTator 3). Relations of all levels belong to the document.
- Infons of the collection are kept as `collection:KEY`, in JSON those that come before its documents; source, date and
  key of the collection are not kept.

Both directions together are lossless for every `Document`. What BioC has no place for is written as infons of the
document: `biosmith:order` (the order of mentions, if it is not that of the passages) and, where even that is not
enough (characters that XML cannot hold, text outside passages, infons with reserved names), `biosmith:document`, the
whole document as JSON, which is believed only while it still agrees with the rest.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from biosmith.rejects import Rejects
from biosmith.text.document import Argument, Document, Mention, Passage, Relation
from biosmith.text.formats import jsonl
from biosmith.text.formats.identifiers import join_identifiers, split_identifiers
from biosmith.text.formats.mentions import place_mention
from biosmith.text.formats.offsets import Layout, NotReadable, Unit, lay_out

ORDER, EXACT = "biosmith:order", "biosmith:document"
SENTENCES, UNLOCATED = "sentences", "unlocated"
_LABEL = "section_title"
_KINDS = {"title": "title", "abstract": "abstract", "paragraph": "paragraph"}
# Infons that hold identifiers, by how sure it is that they do.
_IDENTIFIERS = (
    "identifier",
    "Identifier",
    "MESH",
    "OMIM",
    "NCBI Gene",
    "NCBI Gene identifier",
    "NCBI Taxonomy",
    "CHEBI",
    "cui",
)
_PLACES = ("id", "infons", "passages", "relations", "annotations")

Json = dict[str, Any]


def same(text: str) -> str:
    """The text as it is; for forms that can hold every character."""
    return text


def name_of(value: object) -> str:
    """An id or a role as text; in JSON it may be a number, 0 too."""
    return "" if value is None else str(value)


class Decoder:
    """Turns BioC documents into `Document`s.

    Args:
        rejects, file: where a file's own errors are written down.
        unit: what the file counts offsets in; "auto" finds it for each document by its mentions.
        clean: what the form does to text that it cannot hold.
    """

    def __init__(
        self, rejects: Rejects, file: str, unit: Unit = "auto", clean: Callable[[str], str] = same
    ) -> None:
        self.rejects, self.file, self.unit, self.clean = rejects, file, unit, clean

    def decode(self, value: Json, collection: Mapping[str, str] | None = None) -> Document:
        """One document.

        Raises:
            NotReadable: the value is no BioC document; the message says what is wrong.
        """
        infons = {f"collection:{key}": item for key, item in (collection or {}).items()}
        infons |= jsonl.infons_of({key: item for key, item in value.items() if key not in _PLACES and item})
        infons |= _infons(value)
        exact = infons.pop(EXACT, None)
        id = name_of(value.get("id")) or name_of(value.get("pmid"))
        if exact is not None:
            plain = self._decode(id, value, dict(infons), Rejects())
            if (whole := _believe(exact, plain, self.clean)) is not None:
                return whole
        return self._decode(id, value, infons, self.rejects)

    def _decode(self, id: str, value: Json, infons: dict[str, str], rejects: Rejects) -> Document:
        layout = lay_out(_list(value, "passages"), _list(value, "annotations"), self.unit)
        for reason, what in layout.errors:
            rejects.add(self.file, id, reason, what)
        placed = zip(layout.values, layout.offsets, layout.texts, layout.sentences, strict=True)
        passages = [_passage(value, offset, text, spans) for value, offset, text, spans in placed]
        if len(passages) == 2 and not any(value.get("infons") for value in layout.values):
            passages = [
                replace(p, kind=kind) for p, kind in zip(passages, ("title", "abstract"), strict=True)
            ]
        document = Document.at_offsets(id, passages)
        mentions, unlocated = self._mentions(document, layout, rejects)
        order = _permutation(infons.get(ORDER, ""), len(mentions))
        if order is not None:
            del infons[ORDER]
            mentions = [mention for _, mention in sorted(zip(order, mentions, strict=True))]
        if unlocated:
            infons[UNLOCATED] = json.dumps(unlocated, ensure_ascii=False)
        relations = [_relation(relation) for relation in _relations(value)]
        return replace(document, mentions=tuple(mentions), relations=tuple(relations), infons=infons)

    def _mentions(
        self, document: Document, layout: Layout, rejects: Rejects
    ) -> tuple[list[Mention], list[Json]]:
        mentions, unlocated = [], []
        for (_, annotation), fragments in zip(layout.annotations, layout.fragments, strict=True):
            if not fragments:
                unlocated.append(annotation)
                continue
            infons = _infons(annotation)
            id = name_of(annotation.get("id"))
            type = infons.pop("type", "")
            mention = place_mention(
                document.text,
                fragments,
                annotation.get("text"),
                rejects=rejects,
                file=self.file,
                record=f"{document.id}, annotation {id}" if id else document.id,
                type=type,
                score=_take_score(infons),
                ids=_take_identifiers(infons),
                id=id,
                infons=infons,
            )
            if mention is not None:
                mentions.append(mention)
        return mentions, unlocated


def encode(document: Document, clean: Callable[[str], str] = same) -> Json:
    """A document as a BioC document, in the shape of BioC JSON.

    Args:
        document: any document.
        clean: replaces what the form cannot hold, character by character.
    """
    value = _encode(document, clean)
    try:
        back = Decoder(Rejects(), "", "codepoint", clean).decode(value)
    except NotReadable:
        back = None
    if back != document:
        value["infons"][EXACT] = json.dumps(jsonl.to_json(document))
    return value


def _encode(document: Document, clean: Callable[[str], str]) -> Json:
    passages = document.passages
    if not passages and document.text:
        passages = (Passage("paragraph", document.text),)
    starts = [passage.offset for passage in passages]
    annotations: list[list[int]] = [[] for _ in passages]
    for index, mention in enumerate(document.mentions):
        if passages:
            annotations[max(0, bisect_right(starts, mention.start) - 1)].append(index)
    order = [index for indices in annotations for index in indices]
    infons = dict(document.infons)
    if order != sorted(order):
        infons[ORDER] = " ".join(map(str, order))
    return {
        "id": clean(document.id),
        "infons": _clean(infons, clean),
        "passages": [
            {
                "offset": passage.offset,
                "infons": _clean(
                    ({"type": passage.kind} if passage.kind else {})
                    | ({_LABEL: passage.label} if passage.label else {})
                    | dict(passage.infons),
                    clean,
                ),
                "text": clean(passage.text),
                "sentences": [],
                "annotations": [_annotation(document.mentions[index], clean) for index in indices],
                "relations": [],
            }
            for passage, indices in zip(passages, annotations, strict=True)
        ],
        "annotations": [],
        "relations": [_encode_relation(relation, clean) for relation in document.relations],
    }


def _annotation(mention: Mention, clean: Callable[[str], str]) -> Json:
    infons = ({"type": mention.type} if mention.type else {}) | dict(mention.infons)
    if _identifiers(infons) != mention.ids:
        infons["identifier"] = join_identifiers(mention.ids)
    if mention.score is not None and _number(infons.get("score")) != mention.score:
        infons["score"] = repr(float(mention.score))
    return {
        "id": clean(mention.id),
        "infons": _clean(infons, clean),
        "text": clean(mention.text),
        "locations": [{"offset": start, "length": end - start} for start, end in mention.fragments],
    }


def _encode_relation(relation: Relation, clean: Callable[[str], str]) -> Json:
    infons = dict(relation.infons)
    if relation.type != infons.get("relation", "") or "type" in infons:
        infons = {"type": relation.type} | infons
    if relation.score is not None and _number(infons.get("score")) != relation.score:
        infons["score"] = repr(float(relation.score))
    nodes = []
    if tuple(_arguments([], infons)) != relation.arguments:
        nodes = [{"refid": clean(a.target), "role": clean(a.role)} for a in relation.arguments]
    return {"id": clean(relation.id), "infons": _clean(infons, clean), "nodes": nodes}


def _clean(infons: Mapping[str, str], clean: Callable[[str], str]) -> dict[str, str]:
    return {clean(key): clean(value) for key, value in infons.items()}


def _believe(exact: str, document: Document, clean: Callable[[str], str]) -> Document | None:
    """The document in `biosmith:document`, None if the file says something else by now."""
    try:
        whole = jsonl.from_json(json.loads(exact), Rejects(), "", "")
        plain = Decoder(Rejects(), "", "codepoint", clean).decode(_encode(whole, clean))
    except (ValueError, RecursionError):
        return None
    return whole if plain == document else None


def _passage(value: Json, offset: int, text: str, sentences: str) -> Passage:
    infons = _infons(value)
    type = infons.get("type", "")
    kind = _KINDS.get(type.lower(), type) or "paragraph"
    if type == "front" and infons.get("section_type", "").lower() == "title":
        kind = "title"
    if kind == type:
        del infons["type"]
    label = infons.pop(_LABEL, "")
    for number, sentence in enumerate(_list(value, "sentences"), 1):
        infons |= {f"sentence {number} {key}": item for key, item in _infons(sentence).items()}
    if sentences:
        infons[SENTENCES] = sentences
    return Passage(kind, text, offset, label, infons)


def _relations(value: Json) -> Iterator[Json]:
    for passage in _list(value, "passages"):
        for sentence in _list(passage, "sentences"):
            yield from _list(sentence, "relations")
        yield from _list(passage, "relations")
    yield from _list(value, "relations")


def _relation(value: Json) -> Relation:
    infons = _infons(value)
    arguments = tuple(_arguments(_list(value, "nodes"), infons))
    type = infons.pop("type") if "type" in infons else infons.get("relation", "")
    return Relation(type, arguments, _take_score(infons), name_of(value.get("id")), infons)


def _arguments(nodes: Sequence[Json], infons: Mapping[str, str]) -> Iterator[Argument]:
    concepts = [Argument(role, id) for role in ("role1", "role2") if (id := _concept(infons.get(role)))]
    if len(concepts) == 2:
        yield from concepts  # PubTator 3: its nodes name no annotation
    elif nodes:
        yield from (Argument(name_of(n.get("role")), name_of(n.get("refid"))) for n in nodes)
    elif "entity1" in infons or "entity2" in infons:
        yield from (Argument(role, infons[role]) for role in ("entity1", "entity2") if role in infons)
    elif "relation" in infons:  # BioCreative V CDR: the roles are the types of the concepts
        yield from (
            Argument(k, v) for k, v in infons.items() if k not in ("type", "relation", "score", "novel")
        )


def _concept(role: str | None) -> str:
    """The identifier in an infon such as `{"identifier": "MESH:D007249", "type": "Disease", ...}`."""
    if role is None or not role.startswith("{"):
        return ""
    try:
        value = json.loads(role)
    except ValueError:
        return ""
    return str(value.get("identifier") or value.get("normalized_id") or "")


def _identifiers(infons: Mapping[str, str]) -> tuple[str, ...]:
    spelled = next((infons[key] for key in _IDENTIFIERS if key in infons), "")
    return split_identifiers(spelled)


def _take_identifiers(infons: dict[str, str]) -> tuple[str, ...]:
    ids = _identifiers(infons)
    if infons.get("identifier") == join_identifiers(ids):
        del infons["identifier"]
    return ids


def _take_score(infons: dict[str, str]) -> float | None:
    score = _number(infons.get("score"))
    if score is not None and repr(score) == infons["score"]:
        del infons["score"]
    return score


def _number(text: str | None) -> float | None:
    if text is None or not re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", text, re.ASCII):
        return None
    return float(text)


def _permutation(text: str, size: int) -> list[int] | None:
    if not text or not re.fullmatch(r"\d+( \d+)*", text, re.ASCII):
        return None
    order = [int(part) for part in text.split()]
    return order if sorted(order) == list(range(size)) else None


def _infons(value: Json) -> dict[str, str]:
    return jsonl.infons_of(value.get("infons"))


def _list(value: Any, key: str) -> list[Json]:
    if not isinstance(value, dict):
        raise NotReadable("is no BioC, which is made of objects", value)
    item = value.get(key)
    if item is None:
        return []
    if not isinstance(item, list) or not all(isinstance(part, dict) for part in item):
        raise NotReadable(f"{key} are not a list of objects", item)
    return item
