"""CORD-19 JSON."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

import biosmith
from biosmith.errors import BadInput
from biosmith.rejects import Rejects
from biosmith.text.document import Document
from biosmith.text.formats import cord19


def paragraph(text: str, section: str = "", cited: tuple[str, ...] = ()) -> dict[str, Any]:
    spans = [
        {"start": text.index(c), "end": text.index(c) + len(c), "text": c, "ref_id": None} for c in cited
    ]
    return {"text": text, "section": section, "cite_spans": spans, "ref_spans": []}


ARTICLE = {
    "paper_id": "PMC1",
    "metadata": {"title": " The  title", "authors": []},
    "abstract": [paragraph("Short.", "Abstract")],
    "body_text": [paragraph("As shown (12–15) by Li (Li, 2019).", "Methods", ("12", "15", "Li, 2019"))],
    "bib_entries": {},
    "ref_entries": {
        "FIGREF0": {"text": "Figure 1: A figure.", "type": "figure"},
        "TABREF0": {"text": "A table.", "type": "table", "html": "<table/>"},
    },
    "back_matter": [paragraph("Thanks.", "Acknowledgement")],
}


def parse(text: str, rejects: Rejects | None = None) -> list[Document]:
    return list(cord19.read(io.BytesIO(text.encode()), rejects or Rejects(strict=True), "x.json"))


def test_parts_are_passages_with_their_section_and_numeric_citation_marks_are_left_out() -> None:
    (document,) = parse(json.dumps(ARTICLE))
    assert (document.id, document.infons) == ("PMC1", {"pmcid": "PMC1"})
    assert [(p.kind, p.label, p.text) for p in document.passages] == [
        ("title", "", "The title"),
        ("abstract", "", "Short."),
        ("paragraph", "Methods", "As shown by Li (Li, 2019)."),
        ("back_matter", "Acknowledgement", "Thanks."),
        ("fig_caption", "", "Figure 1: A figure."),
        ("table_caption", "", "A table."),
    ]


def test_articles_one_after_another_are_read_and_those_of_another_form_set_aside() -> None:
    rejects = Rejects()
    other = [{"paper_id": "B"}, {"title": "no id"}, {**ARTICLE, "paper_id": "C", "body_text": [3]}]
    text = "\ufeff" + "\n".join(json.dumps(a) for a in [ARTICLE, *other, {**ARTICLE, "paper_id": "D"}])
    assert [d.id for d in parse(text, rejects)] == ["PMC1", "D"]
    assert [item["record"] for item in rejects.items] == ["B", "article 3", "C"]


def test_the_time_is_linear_in_the_number_of_articles() -> None:
    # 5,000 articles of 5 kB one after another: copying the rest of the text for each would take minutes.
    one = json.dumps({"paper_id": "A", "body_text": [{"text": "word " * 1000}]})
    assert (
        sum(1 for _ in cord19.read(io.BytesIO(f"{one}\n ".encode() * 5_000), Rejects(), "x.jsonl")) == 5_000
    )


def test_lone_surrogates_and_control_characters_of_json_do_not_reach_the_text() -> None:
    article = {**ARTICLE, "body_text": [paragraph("a\x0bb\ud800c")]}
    text = parse(json.dumps(article))[0].passages[2].text
    assert text.encode("utf-8").startswith(b"a b")


@pytest.mark.parametrize("tail", ["{", '{"paper_id": "X", "body', "[" * 200_000])
def test_broken_json_is_an_error_after_the_articles_before_it(tail: str) -> None:
    found = []
    with pytest.raises(BadInput, match=r"x\.json, article 2: broken JSON"):
        for document in cord19.read(io.BytesIO((json.dumps(ARTICLE) + tail).encode()), Rejects(), "x.json"):
            found.append(document.id)
    assert found == ["PMC1"]


def test_the_real_parses_read(shared_data: Path) -> None:
    documents = list(biosmith.read(shared_data / "fixtures/cord19", rejects=Rejects(strict=True)))
    # Title, abstract, paragraphs and captions, counted in the JSON.
    assert [len(d.passages) for d in documents] == [51, 23, 43, 2]
    assert all(d.passages[0].kind == "title" for d in documents)
