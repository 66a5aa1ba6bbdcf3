"""BioC XML and JSON: levels, units of offsets, and what files get wrong."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from biosmith.errors import BadInput
from biosmith.rejects import Rejects
from biosmith.text.document import Argument, Document, Mention, Passage
from biosmith.text.formats import read, write
from biosmith.text.formats.offsets import MISPLACED, MOVED, UNCOUNTED

Json = dict[str, Any]


def passage(offset: int | None, text: str, *annotations: Json, **infons: str) -> Json:
    place = {} if offset is None else {"offset": offset}
    return {"infons": infons, "text": text, "annotations": list(annotations), **place}


def annotation(offset: int, length: int, text: str, **infons: Any) -> Json:
    return {"id": "", "infons": infons, "text": text, "locations": [{"offset": offset, "length": length}]}


def read_json(tmp_path: Path, value: Any, rejects: Rejects | None = None, **options: Any) -> list[Document]:
    path = tmp_path / "x.json"
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return list(read(path, rejects=rejects or Rejects(strict=True), **options))


def read_xml(
    tmp_path: Path, inner: str | bytes, rejects: Rejects | None = None, **options: Any
) -> list[Document]:
    path = tmp_path / "x.xml"
    head, tail = b"<?xml version='1.0' encoding='UTF-8'?><collection><source>s</source>", b"</collection>"
    path.write_bytes(head + (inner.encode() if isinstance(inner, str) else inner) + tail)
    return list(read(path, rejects=rejects or Rejects(strict=True), **options))


def one(documents: list[Document]) -> Document:
    (document,) = documents
    return document


TITLE, ABSTRACT = "Effects of TNF-α", "The α chain and 𝒳 of IL‐6."


def counted(unit: str) -> Json:
    """The same document in one of the units: IL‐6 comes after an α and an astral 𝒳, where the units part."""
    size = {
        "codepoint": len,
        "byte": lambda t: len(t.encode()),
        "utf16": lambda t: len(t.encode("utf-16-le")) // 2,
    }[unit]
    start = size(TITLE) + 1
    return {
        "id": "1",
        "passages": [
            passage(0, TITLE, annotation(size("Effects of "), size("TNF-α"), "TNF-α"), type="title"),
            passage(start, ABSTRACT, annotation(start + size("The α chain and 𝒳 of "), size("IL‐6"), "IL‐6")),
        ],
    }


@pytest.mark.parametrize("unit", ["codepoint", "byte", "utf16"])
def test_the_unit_of_offsets_is_found_by_the_mentions(tmp_path: Path, unit: str) -> None:
    document = one(read_json(tmp_path, {"documents": [counted(unit)]}))
    assert [(m.start, m.end, m.text) for m in document.mentions] == [(11, 16, "TNF-α"), (38, 42, "IL‐6")]
    assert document.text == f"{TITLE} {ABSTRACT}"


@pytest.mark.parametrize("unit", ["byte", "utf16"])
def test_a_stated_unit_is_believed(tmp_path: Path, unit: str) -> None:
    found = one(read_json(tmp_path, {"documents": [counted(unit)]}, offset_unit=unit))
    assert [m.text for m in found.mentions] == ["TNF-α", "IL‐6"]
    rejects = Rejects()
    read_json(tmp_path, {"documents": [counted(unit)]}, rejects, offset_unit="codepoint")
    assert rejects.count > 0


def test_normalised_mention_text_is_kept_beside_the_texts_own(tmp_path: Path) -> None:
    # PubTator writes `SARS CoV 2` for `SARS‐CoV‐2`; its offsets are right, so the text at them is the mention.
    rejects = Rejects()
    value = {
        "id": "1",
        "passages": [passage(0, "SARS‐CoV‐2 and α", annotation(0, 10, "SARS CoV 2", type="Species"))],
    }
    (mention,) = one(read_json(tmp_path, value, rejects)).mentions
    assert (mention.text, mention.infons["stated_text"]) == ("SARS‐CoV‐2", "SARS CoV 2")
    assert rejects.count == 1


def test_offsets_within_the_passage_are_noticed(tmp_path: Path) -> None:
    # The second passage begins at 8; a mention at 0 of "Ibuprofen" only makes sense within the passage.
    rejects = Rejects()
    value = {
        "id": "1",
        "passages": [passage(0, "Aspirin"), passage(8, "Ibuprofen", annotation(0, 9, "Ibuprofen"))],
    }
    (mention,) = one(read_json(tmp_path, value, rejects)).mentions
    assert (mention.start, mention.end) == (8, 17)
    assert list(rejects.reasons) == [MISPLACED]


def test_passage_offsets_that_count_escaped_text_are_noticed(tmp_path: Path) -> None:
    # As in the sample of BioCreative V: the passage's offset counts &apos; as six characters, its annotations do not.
    rejects = Rejects()
    inner = (
        "<document><id>1</id><passage><offset>0</offset><text>4&apos;-epi</text></passage>"
        '<passage><offset>12</offset><text>It is Aspirin</text><annotation id="0"><location offset="13" length="7"/>'
        "<text>Aspirin</text></annotation></passage></document>"
    )
    document = one(read_xml(tmp_path, inner, rejects))
    assert (document.passages[1].offset, document.mentions[0].start) == (7, 13)
    assert list(rejects.reasons) == [MISPLACED]


def test_text_that_was_indented_after_annotation_is_read_as_it_was(tmp_path: Path) -> None:
    rejects = Rejects()
    inner = (
        "<document><id>1</id><passage><offset>0</offset><text>Salmonella\n     enterica\n   </text>"
        '<annotation id="0"><location offset="0" length="19"/><text>Salmonella enterica</text></annotation>'
        "</passage></document>"
    )
    document = one(read_xml(tmp_path, inner, rejects))
    assert document.text == document.mentions[0].text == "Salmonella enterica"
    assert list(rejects.reasons) == [UNCOUNTED]


def test_overlapping_passages_are_laid_out_again_and_their_mentions_go_with_them(tmp_path: Path) -> None:
    rejects = Rejects()
    value = {
        "id": "1",
        "passages": [passage(0, "Aspirin"), passage(3, "Ibuprofen", annotation(3, 9, "Ibuprofen"))],
    }
    document = one(read_json(tmp_path, value, rejects))
    assert [p.offset for p in document.passages] == [0, 8]
    assert (document.mentions[0].start, document.mentions[0].text) == (8, "Ibuprofen")
    assert rejects.reasons[MOVED] == 1


def test_an_absurd_offset_does_not_fill_the_memory(tmp_path: Path) -> None:
    rejects = Rejects()
    document = one(
        read_json(tmp_path, {"id": "1", "passages": [passage(0, "a"), passage(10**15, "b")]}, rejects)
    )
    assert document.text == "a b"
    assert rejects.reasons[MOVED] == 1


def test_a_mention_outside_the_text_is_set_aside_and_the_others_stay(tmp_path: Path) -> None:
    rejects = Rejects()
    value = {
        "id": "1",
        "passages": [passage(0, "Aspirin", annotation(0, 7, "Aspirin"), annotation(50, 4, "gone"))],
    }
    assert [m.text for m in one(read_json(tmp_path, value, rejects)).mentions] == ["Aspirin"]
    assert [item["record"] for item in rejects.items] == ["1"]


def test_sentences_are_joined_at_their_offsets_and_their_annotations_belong_to_the_document(
    tmp_path: Path,
) -> None:
    inner = (
        '<document><id>1</id><passage><infon key="type">abstract</infon><offset>0</offset>'
        "<sentence><offset>0</offset><text>One.</text></sentence>"
        '<sentence><infon key="k">v</infon><offset>6</offset><text>Two Aspirin.</text>'
        '<annotation id="T1"><infon key="type">Chemical</infon><location offset="10" length="7"/><text>Aspirin</text>'
        '</annotation><relation id="R1"><infon key="type">x</infon><node refid="T1" role="a"/></relation></sentence>'
        "</passage></document>"
    )
    document = one(read_xml(tmp_path, inner))
    assert document.text == "One.  Two Aspirin."
    assert document.mentions[0].text == "Aspirin"
    assert document.passages[0].infons == {"sentences": "0-4 6-18", "sentence 2 k": "v"}
    assert document.relations[0].arguments == (Argument("a", "T1"),)


def test_relations_of_all_levels_and_infons_of_the_collection_belong_to_the_document(tmp_path: Path) -> None:
    relation = {"id": "R", "infons": {"type": "CID"}, "nodes": [{"refid": "a", "role": "x"}]}
    value = {
        "infons": {"licence": "CC0"},
        "documents": [
            {"id": "1", "passages": [{**passage(0, "x"), "relations": [relation]}], "relations": [relation]},
        ],
    }
    document = one(read_json(tmp_path, value))
    assert [r.type for r in document.relations] == ["CID", "CID"]
    assert document.infons == {"collection:licence": "CC0"}


def test_relations_between_concepts_are_read_from_infons(tmp_path: Path) -> None:
    # BioRED, BioCreative V CDR and PubTator 3 name concepts in infons; the nodes of PubTator 3 name no annotation.
    role = {"identifier": "MESH:D007249", "type": "Disease"}
    relations = [
        {"id": "1", "infons": {"type": "Association", "entity1": "D1", "entity2": "D2", "novel": "Novel"}},
        {"id": "2", "infons": {"relation": "CID", "Chemical": "D3", "Disease": "D4"}},
        {
            "id": "3",
            "infons": {"type": "Cause", "score": "0.5", "role1": role, "role2": {"normalized_id": 7}},
            "nodes": [{"refid": "0", "role": "20,13"}],
        },
    ]
    document = one(read_json(tmp_path, {"id": "1", "passages": [passage(0, "x")], "relations": relations}))
    assert [(r.type, [a.target for a in r.arguments], r.score) for r in document.relations] == [
        ("Association", ["D1", "D2"], None),
        ("CID", ["D3", "D4"], None),
        ("Cause", ["MESH:D007249", "7"], 0.5),
    ]


def test_discontinuous_mentions_may_join_their_parts_as_they_like(tmp_path: Path) -> None:
    places = [{"offset": 0, "length": 5}, {"offset": 14, "length": 11}]
    value = {"id": "1", "passages": [passage(0, "renal and/or  dysfunction")]}
    for stated in ("renal dysfunction", "renal...dysfunction", "renaldysfunction"):
        value["passages"][0]["annotations"] = [{"id": "1", "infons": {}, "text": stated, "locations": places}]
        (mention,) = one(read_json(tmp_path, value)).mentions
        assert (mention.text, mention.fragments) == ("renal dysfunction", ((0, 5), (14, 25)))


def test_identifiers_come_from_the_infons_that_hold_them(tmp_path: Path) -> None:
    annotations = [
        annotation(0, 1, "x", identifier="6239;252961"),
        annotation(0, 1, "x", MESH="D003110|D009369"),
        annotation(0, 1, "x", identifier="p|SUB|R|620|W"),
        annotation(0, 1, "x", identifier="-1"),
    ]
    document = one(read_json(tmp_path, {"id": "1", "passages": [passage(0, "x", *annotations)]}))
    assert [m.ids for m in document.mentions] == [
        ("6239", "252961"),
        ("D003110", "D009369"),
        ("p|SUB|R|620|W",),
        (),
    ]


@pytest.mark.parametrize(
    "shape",
    [
        lambda d: d,
        lambda d: [d],
        lambda d: {"documents": [d]},
        lambda d: [{"documents": [d]}],
        lambda d: {"PubTator3": [d]},
        lambda d: {"pmid": "1", "record": d},
    ],
)
def test_json_documents_are_found_however_they_are_wrapped(tmp_path: Path, shape: Any) -> None:
    document = {"id": "1", "journal": "J", "passages": [passage(0, "Aspirin", type="title")]}
    found = one(read_json(tmp_path, shape(document)))
    assert (found.text, found.infons) == ("Aspirin", {"journal": "J"})


def test_json_values_one_after_another_and_a_byte_order_mark_are_read(tmp_path: Path) -> None:
    line = json.dumps({"id": "1", "passages": [passage(0, "x")]})
    assert len(read_json(tmp_path, f"\ufeff{line}\r\n{line}\n\n")) == 2


def test_json_that_is_cut_keeps_what_was_whole(tmp_path: Path) -> None:
    rejects = Rejects()
    text = json.dumps({"documents": [{"id": str(n), "passages": [passage(0, "x")]} for n in range(3)]})
    assert [d.id for d in read_json(tmp_path, text[:-30], rejects)] == ["0", "1"]
    (item,) = rejects.items
    assert item["record"] == "after document 2"
    assert item["reason"].startswith("broken JSON")


def test_half_of_an_escaped_pair_costs_one_character_and_no_document(tmp_path: Path) -> None:
    texts = ["high \ud835 x", "low \udc00 x", "next \ud835A", "𝒳"]
    value = {"documents": [{"id": str(n), "passages": [passage(0, text)]} for n, text in enumerate(texts)]}
    found = [document.text for document in read_json(tmp_path, value)]
    assert found == ["high \ufffd x", "low \ufffd x", "next \ufffdA", "𝒳"]


def test_a_malformed_document_is_set_aside_and_the_next_is_read(tmp_path: Path) -> None:
    rejects = Rejects()
    good = {"id": "good", "passages": [passage(0, "x")]}
    bad = [
        {"id": "1", "passages": [{"offset": "first", "text": "x", "infons": {}}]},
        {"id": "2", "passages": [{"offset": 0, "text": ["x"], "infons": {}}]},
        {"id": "3", "passages": "none"},
        {"id": "4", "passages": [passage(0, "x", {"locations": [{"offset": 0}], "text": "x"})]},
    ]
    assert [d.id for d in read_json(tmp_path, {"documents": [*bad, good]}, rejects)] == ["good"]
    assert [item["record"] for item in rejects.items] == ["1", "2", "3", "4"]


@pytest.mark.parametrize("suffix", [".json", ".jsonl"])
def test_one_fault_with_many_values_is_one_reason(tmp_path: Path, suffix: str) -> None:
    # Reasons are counted and listed in manifests: one with a value in it would be a reason of its own each time.
    rejects = Rejects()
    values = [{"id": str(n), "passages": [{"offset": f"at {n}", "text": "x"}]} for n in range(9)]
    path = tmp_path / f"x{suffix}"
    path.write_text("\n".join(map(json.dumps, values)), encoding="utf-8")
    format = "bioc-json" if suffix == ".json" else "jsonl"
    assert list(read(path, format=format, rejects=rejects)) == []
    ((reason, count),) = rejects.reasons.items()
    assert count == 9 and "offset is not a whole number" in reason
    assert [item["value"] for item in rejects.items] == [f"at {n}" for n in range(9)]


def test_xml_that_is_cut_keeps_what_was_whole(tmp_path: Path) -> None:
    path = tmp_path / "x.xml"
    whole = "<document><id>1</id><passage><offset>0</offset><text>x</text></passage></document>"
    path.write_text(f"<collection><source/>{whole}<document><id>2</id><passa", encoding="utf-8")
    rejects = Rejects()
    assert [d.id for d in read(path, rejects=rejects)] == ["1"]
    assert rejects.count == 1


def test_entities_are_not_expanded_and_nothing_is_fetched(tmp_path: Path) -> None:
    path = tmp_path / "x.xml"
    secret = tmp_path / "secret.txt"
    secret.write_text("secret", encoding="utf-8")
    path.write_text(
        f'<!DOCTYPE collection [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;"><!ENTITY s SYSTEM "{secret.as_uri()}">]>'
        "<collection><source/><document><id>1</id><passage><offset>0</offset><text>&b; &s;</text></passage>"
        "</document></collection>",
        encoding="utf-8",
    )
    text = one(list(read(path, rejects=Rejects(strict=True)))).text
    assert "secret" not in text
    assert "aaaa" not in text


def test_crlf_in_xml_is_one_line_break(tmp_path: Path) -> None:
    inner = b"<document>\r\n<id>1</id>\r\n<passage>\r\n<offset>0</offset>\r\n<text>a\r\nb</text>\r\n</passage>\r\n</document>"
    assert one(read_xml(tmp_path, inner)).text == "a\nb"


@pytest.mark.parametrize("suffix", [".bioc.xml", ".bioc.json"])
def test_what_another_tool_changed_wins_over_the_exact_copy(tmp_path: Path, suffix: str) -> None:
    # A control character makes the XML carry the document as JSON too (kind "" does so for both); after an edit
    # the copy is stale and the edited text counts.
    document = Document.build("1", [Passage("", "a\x00b")], [Mention(0, 1, "a", "X")])
    path = tmp_path / f"x{suffix}"
    write([document], path)
    text = path.read_text(encoding="utf-8")
    assert "biosmith:document" in text
    assert list(read(path)) == [document]
    path.write_text(text.replace('"type": "X"', '"type": "Y"').replace(">X<", ">Y<"), encoding="utf-8")
    assert one(list(read(path))).mentions[0].type == "Y"


def test_usual_documents_are_written_without_any_key_of_our_own(tmp_path: Path) -> None:
    mentions = [Mention(2, 9, "Aspirin", "Chemical", 0.5, ("D001241",)), Mention(0, 1, "A", "Gene")]
    document = Document.build(
        "1", [Passage("title", "A Aspirin"), Passage("abstract", "x", label="AIM")], mentions
    )
    for suffix in (".bioc.xml", ".bioc.json"):
        write([document], tmp_path / f"x{suffix}")
        assert "biosmith:" not in (tmp_path / f"x{suffix}").read_text(encoding="utf-8")


def test_the_order_of_mentions_is_kept_where_it_is_not_that_of_the_passages(tmp_path: Path) -> None:
    mentions = [Mention(8, 9, "x", "B"), Mention(0, 7, "Aspirin", "A")]
    document = Document.build("1", [Passage("title", "Aspirin"), Passage("abstract", "x")], mentions)
    write([document], tmp_path / "x.bioc.xml")
    assert list(read(tmp_path / "x.bioc.xml")) == [document]


def test_the_dtds_order_of_elements_is_kept(tmp_path: Path) -> None:
    # BioC.dtd: passage (infon*, offset, text?, annotation*), annotation (infon*, location*, text).
    document = Document.build(
        "1", [Passage("title", "Aspirin")], [Mention(0, 7, "Aspirin", "Chemical", id="T1")]
    )
    write([document], tmp_path / "x.bioc.xml")
    text = (tmp_path / "x.bioc.xml").read_text(encoding="utf-8")
    tags = [
        "<id>",
        '<infon key="type">title',
        "<offset>",
        "<text>",
        '<annotation id="T1">',
        "<location",
        "<text>Aspirin<",
    ]
    places = [text.index(tag) for tag in tags[:-1]]
    assert places == sorted(places)
    assert text.rindex("<text>Aspirin<") > text.index("<location")


@pytest.mark.parametrize("suffix", [".bioc.xml", ".bioc.json"])
def test_memory_does_not_grow_with_the_file(tmp_path: Path, suffix: str) -> None:
    def documents(count: int) -> Iterator[Document]:
        for number in range(count):
            yield Document.build(str(number), [Passage("abstract", "word " * 400)])

    def peak(count: int) -> int:
        write(documents(count), tmp_path / f"x{suffix}")
        tracemalloc.start()
        assert sum(1 for _ in read(tmp_path / f"x{suffix}")) == count
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    # 2 kB a document: ten times the documents would be 700 kB more if they were kept.
    assert peak(400) < peak(40) + 300_000


def test_broken_xml_is_raised_where_strict(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="broken XML"):
        read_xml(tmp_path, "<document><id>1</document>", Rejects(strict=True))


def test_what_is_no_document_among_bioc_documents_costs_itself_only(tmp_path: Path) -> None:
    # Services answer with an error in the place of a document that they do not have.
    good = '{"id": "%d", "passages": [{"offset": 0, "text": "x\\u00e9", "annotations": []}]}'
    parts = [good % 1, '{"error": "not found"}', "null", '"x"', '{"id": "5", "passages": "y"}', good % 6]
    path = tmp_path / "x.bioc.json"
    row = ", ".join(parts)
    for text in ('{"documents": [' + row + "]}", f"[{row}]", "\n".join(parts)):
        path.write_text(text, encoding="utf-8")
        rejects = Rejects()
        assert [d.id for d in read(path, format="bioc-json", rejects=rejects)] == ["1", "6"]
        assert [item["record"] for item in rejects.items] == ["document 2", "document 3", "document 4", "5"]


def test_a_byte_that_is_not_utf8_costs_no_document(tmp_path: Path) -> None:
    path = tmp_path / "x.bioc.json"
    one = b'{"id": "1", "passages": [{"offset": 0, "text": "a\xffb", "annotations": []}]}'
    path.write_bytes(b'{"documents": [%s, %s]}' % (one, one.replace(b"1", b"2").replace(b"\xff", b"")))
    rejects = Rejects()
    assert [(d.id, d.text) for d in read(path, rejects=rejects)] == [("1", "a\ufffdb"), ("2", "ab")]
    assert list(rejects.reasons) == ["bytes that are not UTF-8 are read as U+FFFD"]


def test_ids_that_are_the_number_0_are_kept_and_their_relations_hold(tmp_path: Path) -> None:
    annotations = [
        {"id": n, "infons": {"type": "Gene"}, "text": t, "locations": [{"offset": o, "length": 1}]}
        for n, (t, o) in enumerate([("A", 0), ("B", 2)])
    ]
    relation = {
        "id": 0,
        "infons": {"type": "binds"},
        "nodes": [{"refid": 0, "role": "x"}, {"refid": 1, "role": "y"}],
    }
    passage = {"offset": 0, "text": "A B", "infons": {}, "annotations": annotations}
    value = {"documents": [{"id": 0, "passages": [passage], "relations": [relation]}]}
    (tmp_path / "x.bioc.json").write_text(json.dumps(value), encoding="utf-8")
    (document,) = read(tmp_path / "x.bioc.json", rejects=Rejects(strict=True))
    assert (document.id, [m.id for m in document.mentions], document.relations[0].id) == (
        "0",
        ["0", "1"],
        "0",
    )
    assert [a.target for a in document.relations[0].arguments] == ["0", "1"]


def test_gaps_that_are_absurd_together_cost_their_spaces_and_not_the_run(tmp_path: Path) -> None:
    passages = [{"offset": offset, "text": "Some text."} for offset in (0, 700_000, 1_400_000)]
    (tmp_path / "x.bioc.json").write_text(json.dumps({"documents": [{"id": "1", "passages": passages}]}))
    rejects = Rejects()
    (document,) = read(tmp_path / "x.bioc.json", rejects=rejects)
    assert [p.offset for p in document.passages] == [0, 700_000, 700_011]
    assert [item["value"] for item in rejects.items] == ["passage at 1400000, the one before ends at 700010"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_collection_may_be_in_utf16(tmp_path: Path, encoding: str) -> None:
    xml = (
        f'<?xml version="1.0" encoding="{encoding}"?><collection><source>s</source><document><id>1</id><passage>'
        "<offset>0</offset><text>café</text></passage></document></collection>"
    )
    (tmp_path / "x.xml").write_bytes(xml.encode(encoding))
    assert [d.text for d in read(tmp_path / "x.xml", rejects=Rejects(strict=True))] == ["café"]


@pytest.mark.parametrize("prefix", ["", "b:"])
def test_a_collection_may_have_a_namespace(tmp_path: Path, prefix: str) -> None:
    inner = (
        "<source>s</source><infon key='licence'>free</infon><document><id>1</id><infon key='journal'>J</infon><passage>"
        "<infon key='type'>title</infon><offset>0</offset><sentence><offset>0</offset><text>Aspirin helps.</text>"
        "<annotation id='T1'><infon key='type'>Chemical</infon><location offset='0' length='7'/><text>Aspirin</text>"
        "</annotation></sentence></passage><relation id='R1'><infon key='type'>x</infon><node refid='T1' role='y'/>"
        "</relation></document>"
    )
    plain, named = tmp_path / "plain.xml", tmp_path / "named.xml"
    plain.write_text(f"<collection>{inner}</collection>", encoding="utf-8")
    tagged = inner.replace("</", "\0").replace("<", f"<{prefix}").replace("\0", f"</{prefix}")
    declared = f"xmlns{':' * bool(prefix)}{prefix.rstrip(':')}='http://bioc.sourceforge.net/'"
    named.write_text(
        f"<{prefix}collection {declared}>{tagged}</{prefix}collection>",
        encoding="utf-8",
    )
    (expected,) = read(plain, rejects=Rejects(strict=True))
    assert expected.text == "Aspirin helps." and expected.mentions and expected.relations
    (found,) = read(named, rejects=Rejects(strict=True))
    assert found == expected
