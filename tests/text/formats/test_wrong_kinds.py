"""JSON whose values are of another kind than a format says: documents, rejects or bad input, and no other error."""

from __future__ import annotations

import copy
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from biosmith.errors import BadInput
from biosmith.rejects import Rejects
from biosmith.text.document import Argument, Document, Mention, Passage, Relation, fragment_text
from biosmith.text.formats import jsonl, read, write

DOCUMENT = Document.build(
    "1",
    [Passage("title", "Aspirin x"), Passage("abstract", "COX-1 is low.", label="AIM")],
    [Mention(0, 7, "Aspirin", "Chemical", 0.5, ("D1",), id="T1"), Mention(10, 15, "COX-1", "Gene", id="T2")],
    [Relation("R", (Argument("a", "T1"), Argument("b", "T2")), id="R1")],
    {"k": "v"},
)
SQUAD = {
    "data": [
        {
            "title": "t",
            "paragraphs": [
                {
                    "context": "Aspirin helps.",
                    "qas": [{"id": "1", "question": "?", "answers": [{"text": "helps", "answer_start": 8}]}],
                }
            ],
        }
    ]
}
PUBMEDQA = {"1": {"QUESTION": "Does it?", "CONTEXTS": ["It did.", "So."], "LABELS": ["A", "B"]}}
CORD19 = {
    "paper_id": "PMC1",
    "metadata": {"title": "T"},
    "abstract": [{"text": "A.", "section": "Abstract"}],
    "body_text": [
        {"text": "B [1].", "cite_spans": [{"start": 2, "end": 5, "text": "[1]"}], "section": "Methods"}
    ],
    "ref_entries": {"FIG0": {"text": "A figure.", "type": "figure"}},
    "bib_entries": {},
}
WRONG = (None, True, -1, 10**20, 1.5, float("nan"), "", "x", "\ud800", [], {}, [None], ["x"], [[1]], {"a": 1})


def places(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield (*above, key)
        yield from places(value[key], (*above, key))


@pytest.mark.parametrize("format", ["jsonl", "bioc-json", "squad", "pubmedqa", "cord19"])
def test_a_value_of_a_wrong_kind_is_set_aside_and_no_error(tmp_path: Path, format: str) -> None:
    samples: dict[str, Any] = {"squad": SQUAD, "pubmedqa": PUBMEDQA, "cord19": CORD19}
    if format not in samples:
        write([DOCUMENT], tmp_path / "sample", format=format)
        samples[format] = json.loads((tmp_path / "sample").read_text(encoding="utf-8"))
    path = tmp_path / "x"
    for place in places(samples[format]):
        for wrong in WRONG:
            value = copy.deepcopy(samples[format])
            holder = value
            for key in place[:-1]:
                holder = holder[key]
            holder[place[-1]] = wrong
            path.write_text(json.dumps(value), encoding="utf-8")
            rejects = Rejects()
            try:
                documents = list(read(path, format=format, rejects=rejects))
            except BadInput:
                continue
            for document in documents:
                assert all(p.text == document.text[p.offset : p.end] for p in document.passages)
                assert all(m.text == fragment_text(document.text, m.fragments) for m in document.mentions)
            lines = b"".join(map(jsonl.dump_line, documents))
            assert list(jsonl.read(io.BytesIO(lines), Rejects(strict=True), "x")) == documents
