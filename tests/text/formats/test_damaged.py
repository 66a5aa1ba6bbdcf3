"""Damaged files: every format gives documents whose mentions hold, sets aside, or refuses; it never crashes."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from biosmith.errors import BadInput
from biosmith.rejects import Rejects
from biosmith.text.document import Argument, Document, Mention, Passage, Relation
from biosmith.text.formats import read, write

DOCUMENT = Document.build(
    "1",
    [Passage("title", "Aspirin α", infons={"k": "v"}), Passage("abstract", "It helps.", label="AIM")],
    [
        Mention(0, 7, "Aspirin", "Chemical", 0.5, ("D1", "D2"), id="T1"),
        Mention(8, 15, "α It", "X", fragments=((8, 9), (10, 12)), id="T2"),
    ],
    [Relation("CID", (Argument("a", "T1"), Argument("b", "T2")), id="R1")],
)
OTHERS = {
    "ddi": b'<document id="d"><sentence id="s" text="Aspirin helps."><entity id="e" charOffset="0-6;8-9" type="drug" text="x"/>'
    b'<pair id="p" e1="e" e2="e" ddi="true" type="effect"/></sentence></document>',
    "squad": b'{"data": [{"title": "T", "paragraphs": [{"context": "Aspirin", "qas": [{"id": 1, "question": "q", '
    b'"answers": [{"text": "Asp", "answer_start": 0}]}]}]}]}',
    "pubmedqa": b'{"21645374": {"QUESTION": "q", "CONTEXTS": ["c"], "LABELS": ["L"], "final_decision": "yes"}}',
    "bc2gm": b"BC2GM000000001 The p53 gene.\n",
    "chemprot": b"7\tAspirin inhibits.\tCOX-1 is bound.\n",
    "chemdner": b"7\tAspirin inhibits.\tCOX-1 is bound.\n",
    "table": b"index\tsentence\tlabel\n0\tThe gene is here.\t1\n1\tAnother one here.\t0\n",
    "plain": b"First paragraph.\n\nSecond one.\n",
}
WRITTEN = ("bioc-xml", "bioc-json", "pubtator", "conll", "jsonl", "parquet")
PIECES = st.sampled_from(
    [
        *(
            b"",
            b"\x00",
            b"\xff",
            b"\t",
            b"\n",
            b"\r",
            b" ",
            b"|",
            b"<",
            b">",
            b"&",
            b'"',
            b"{",
            b"}",
            b"[",
            b"]",
            b",",
            b":",
        ),
        *(
            b"-1",
            b"99999999999999999999",
            b"1e400",
            b"NaN",
            b"null",
            b"true",
            b"0.5",
            b"[]",
            b"{}",
            b"\\ud800",
            b"&a;",
        ),
    ]
)


@st.composite
def damages(draw: st.DrawFn) -> list[tuple[float, int, bytes]]:
    """Where (as a share of the file), how many bytes go, and what comes in their place."""
    return draw(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 12), PIECES), min_size=1, max_size=3))


def sample(format: str, folder: Path) -> bytes:
    if format in OTHERS:
        return OTHERS[format]
    write([DOCUMENT, DOCUMENT], folder / "whole", format=format)
    return (folder / "whole").read_bytes()


@pytest.mark.parametrize("format", [*WRITTEN, *OTHERS])
@settings(max_examples=40, deadline=None)
@given(damages())
def test_damaged_files_are_read_set_aside_or_refused(
    format: str, damage: list[tuple[float, int, bytes]]
) -> None:
    with tempfile.TemporaryDirectory() as name:
        data = sample(format, Path(name))
        for share, length, piece in damage:
            start = int(share * len(data))
            data = data[:start] + piece + data[start + length :]
        path = Path(name, "damaged")
        path.write_bytes(data)
        try:
            for document in read(path, format=format, rejects=Rejects()):
                assert not list(document.mismatches())
        except BadInput as error:
            assert str(path) in str(error)


@settings(max_examples=40, deadline=None)
@given(damages(), damages())
def test_damaged_pairs_of_brat_are_read_set_aside_or_refused(
    first: list[tuple[float, int, bytes]], second: list[tuple[float, int, bytes]]
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "x")
        write([DOCUMENT], folder, format="brat")
        for suffix, damage in ((".ann", first), (".txt", second)):
            data = (folder / f"1{suffix}").read_bytes()
            for share, length, piece in damage:
                start = int(share * len(data))
                data = data[:start] + piece + data[start + length :]
            (folder / f"1{suffix}").write_bytes(data)
        try:
            for document in read(folder / "1.ann", format="brat", rejects=Rejects()):
                assert not list(document.mismatches())
        except BadInput as error:
            assert "1." in str(error)
