"""Cleaning is conservative: what it changes is written down, everything else stays."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from biosmith.corpus.cleaning import clean, clean_text
from biosmith.text.document import Document, Mention, Passage


def cleaned_abstract(text: str) -> str:
    return clean(Document.build("1", [Passage("abstract", text)])).text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a  b\t c\u00a0d\u2009e", "a b c d e"),
        ("first\r\n\r\n  second", "first\nsecond"),
        ("P &lt; 0.05 &amp; &alpha;-, &#946;-", "P < 0.05 & α-, β-"),
        ("con\u00adtinued zero\u200bwidth \ufeffmark", "continued zerowidth mark"),
        ("left\u200e to\u200f right\u061c marks", "left to right marks"),
        ("nul\x00 bell\x07 esc\x1b[0m", "nul bell esc[0m"),
        ("lone \ud800surrogate", "lone surrogate"),
        ("e\u0301tude", "étude"),
    ],
)
def test_dirt_is_removed(before: str, after: str) -> None:
    assert clean_text(before) == after


@pytest.mark.parametrize(
    "text",
    [
        "H₂O₂, m², α-synuclein, 5′-UTR, ½ ♀ ♂ ≥ ±, ﬁbrin, IL‑6",  # NFKC would change them
        "AT&T; R&D; a &unknown; b & c",
        "unknown \ufffd character",
        "astral 𝛼 and combining x̂",
    ],
)
def test_what_carries_meaning_stays(text: str) -> None:
    assert clean_text(text) == text


@pytest.mark.parametrize(
    "tail",
    [
        "(ABSTRACT TRUNCATED AT 250 WORDS)",
        " Copyright © 2019 Elsevier Ltd. All rights reserved.",
        " © 2012 Wiley Periodicals, Inc.",
        " (c) 2001 Academic Press.",
        " Copyright 2003 Wiley-Liss, Inc.",
        " © The Author(s) 2018.",
        " (PsycINFO Database Record (c) 2016 APA, all rights reserved).",
    ],
)
def test_boilerplate_at_the_end_of_an_abstract_is_removed_and_counted(tail: str) -> None:
    removed: Counter[str] = Counter()
    document = Document.build("1", [Passage("title", "T."), Passage("abstract", "Mice were studied." + tail)])
    assert clean(document, removed).passages[1].text == "Mice were studied."
    assert removed.total() == 1


@pytest.mark.parametrize(
    "text",
    [
        "Copyright law of 1976 was studied.",
        "In group (c) 2001 mice were seen.",
        "We describe (c) 2004 results of many.",
        "© signs were counted.",
    ],
)
def test_sentences_about_copyright_are_no_boilerplate(text: str) -> None:
    assert cleaned_abstract(text) == text


def test_tables_and_references_are_left_out_and_offsets_fit_again() -> None:
    source = [
        Passage("title", " A  title "),
        Passage("table", "1 2 3"),
        Passage("paragraph", "Some\x00 text.", label=" Methods "),
        Passage("ref", "Smith 2003"),
        Passage("paragraph", " \n "),
    ]
    mention = Mention(1, 2, "A")
    document = clean(Document.build("7", source, [mention], infons={"pmid": "7", "mesh": "x", "year": ""}))
    assert [(p.text, p.offset, p.label) for p in document.passages] == [
        ("A title", 0, ""),
        ("Some text.", 8, "Methods"),
    ]
    assert document.text == "A title Some text."
    assert (document.mentions, dict(document.infons)) == ((), {"pmid": "7"})


def test_a_document_without_passages_keeps_its_text() -> None:
    assert clean(Document("1", "only  text")).passages == (Passage("paragraph", "only text"),)


@settings(max_examples=300, deadline=None)
@given(st.text(st.characters(codec=None, exclude_categories=()), max_size=40))
def test_cleaning_twice_changes_nothing_more_but_references(text: str) -> None:
    # "&amp;lt;" is text about "&lt;"; only that may go on changing.
    once = clean_text(text)
    if "&" not in once:
        assert clean_text(once) == once
    once.encode("utf-8")  # no lone surrogates: every text can be stored
    assert "  " not in once and once == once.strip()
