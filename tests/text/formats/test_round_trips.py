"""Read -> write -> read: lossless formats give equal documents, the others exactly what `project` says they hold."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from biosmith.rejects import Rejects
from biosmith.text.document import Argument, Document, Mention, Passage, Relation, fragment_text
from biosmith.text.formats import brat, pubtator, read, write
from biosmith.text.formats.report import WriteReport

LOSSLESS = ("parquet", "jsonl", "bioc-xml", "bioc-json")
PROJECTING = {"pubtator": pubtator.project, "brat": brat.project}
SUFFIX = {"bioc-xml": ".bioc.xml", "bioc-json": ".bioc.json", "brat": ".standoff"}

# Words, and what readers stumble on: characters beyond the basic plane, combining marks, bidirectional controls,
# control characters that XML cannot hold, line separators, byte order marks, and the marks that formats use.
PIECES = st.sampled_from(
    [
        *(
            "IL-2",
            "NF-κB",
            "H₂O₂",
            "SARS\u2010CoV\u20102",
            "ﬁbrin",
            "e\u0301",
            "𝒳",
            "😀",
            "\u202eabc\u202c",
            "a",
        ),
        *(" ", "  ", "\n", "\n\n", "\r", "\r\n", "\t", "\xa0", "\u2028", "\x85", "\x0b", "\x1c"),
        *("\x00", "\x08", "\x1f", "\x7f", "\ufeff", "\ufffe", "\uffff", "\ufffd"),
        *(
            "|",
            "|t|",
            "1|a|x",
            ";",
            ",",
            ":",
            '"',
            "'",
            "\\",
            "<b>",
            "&amp;",
            "]]>",
            "~2",
            "%41",
            "/",
            ".",
            "-1",
            "#1",
        ),
    ]
)
TEXT = st.one_of(
    st.lists(PIECES, max_size=8).map("".join), st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
)
RESERVED = st.sampled_from(
    [
        *(
            "type",
            "identifier",
            "score",
            "note",
            "name D1",
            "parts",
            "novel",
            "relation",
            "entity1",
            "role1",
            "MESH",
        ),
        *("section_title", "section_type", "sentences", "unlocated", "stated_text", "sentence 1 a"),
        *("biosmith:order", "biosmith:document", "collection:a", "column 2"),
    ]
)
INFONS = st.dictionaries(
    st.one_of(RESERVED, TEXT), st.one_of(st.sampled_from(["0.5", "true", "D1|D2", ""]), TEXT), max_size=3
)
TYPE = st.one_of(st.sampled_from(["Disease", "CID", ""]), TEXT)
SCORE = st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False))
KIND = st.one_of(st.sampled_from(["title", "abstract", "paragraph", "Title", "front"]), TEXT)


@st.composite
def documents(draw: st.DrawFn) -> Document:
    """A valid document: mentions lie in the text and say what stands there."""
    passages, position = [], 0
    for number in range(draw(st.integers(0, 3))):
        gap = draw(st.sampled_from([1, 1, 1, 0, 2])) if number else draw(st.sampled_from([0, 0, 0, 1]))
        passage = Passage(draw(KIND), draw(TEXT), position + gap, draw(TEXT), draw(INFONS))
        passages.append(passage)
        position = passage.end
    text = Document.at_offsets("", passages).text if passages else draw(st.sampled_from(["", "text alone\n"]))
    mentions = []
    for number in range(draw(st.integers(0, 3)) if text else 0):
        bounds = st.integers(0, len(text))
        cuts = sorted(set(draw(st.lists(bounds, min_size=2, max_size=4))))
        fragments = tuple(zip(cuts[::2], cuts[1::2], strict=False))
        if fragments:
            id = draw(st.sampled_from([f"T{number + 1}", f"T{9 - number}", f"m{number}", ""]))
            ids = tuple(
                draw(
                    st.lists(st.one_of(st.sampled_from(["D003110", "MESH:D1", "-", "a b"]), TEXT), max_size=2)
                )
            )
            mentions.append(
                Mention(
                    fragments[0][0],
                    fragments[-1][1],
                    fragment_text(text, fragments),
                    draw(TYPE),
                    draw(SCORE),
                    ids,
                    fragments,
                    id,
                    draw(INFONS),
                )
            )
    named = [m.id for m in mentions if m.id] + [i for m in mentions for i in m.ids] + ["D1", "R1", ""]
    target = st.sampled_from(named)
    argument = st.builds(
        Argument, st.one_of(st.sampled_from(["Arg1", "trigger", "", "Chemical"]), TEXT), target
    )
    relation = st.builds(
        Relation,
        TYPE,
        st.lists(argument, max_size=3).map(tuple),
        SCORE,
        st.sampled_from(["", "R1", "E2", "x"]),
        INFONS,
    )
    relations = tuple(draw(st.lists(relation, max_size=2)))
    return Document(draw(TEXT), text, tuple(passages), tuple(mentions), relations, draw(INFONS))


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def round_trip(
    folder: Path, given_documents: list[Document], format: str
) -> tuple[list[Document], WriteReport]:
    path = folder / f"documents{SUFFIX.get(format, '.' + format)}"
    if path.is_dir():
        shutil.rmtree(path)
    report = write(given_documents, path, format=format)
    # Strict: what we wrote ourselves must not hold a single error of its own.
    return list(read(path, format=format if path.is_file() else None, rejects=Rejects(strict=True))), report


NASTY = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.parametrize("format", LOSSLESS)
@NASTY
@given(documents())
def test_a_lossless_format_gives_back_equal_documents(format: str, folder: Path, document: Document) -> None:
    back, report = round_trip(folder, [document], format)
    assert back == [document]
    assert not report.lost
    assert (report.documents, report.mentions) == (1, len(document.mentions))


@pytest.mark.parametrize("format", PROJECTING)
@NASTY
@given(documents())
def test_other_formats_give_back_what_they_hold_and_report_the_rest(
    format: str, folder: Path, document: Document
) -> None:
    back, report = round_trip(folder, [document], format)
    held = PROJECTING[format](document)
    assert back == [held]
    assert list(held.mismatches()) == []
    assert PROJECTING[format](held) == held  # a second trip loses nothing more
    if held != document:
        assert report.lost
