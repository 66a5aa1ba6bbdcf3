"""Words of raw text."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from biosmith.tasks.words import split_words

NASTY = st.text(
    st.characters() | st.sampled_from("\u200b\u200d\u202e\u0301\ufeff\x00\x85\u2028𝛼👩\u00ad-_. \n\t"),
    max_size=60,
)


@given(NASTY)
@settings(max_examples=300, deadline=None)
def test_every_character_that_is_not_white_space_lies_in_exactly_one_word(text: str) -> None:
    words = split_words(text)
    position = 0
    for start, end in words:
        assert position <= start < end <= len(text)
        assert not text[position:start].strip()
        assert not any(c.isspace() and c not in "\x1c\x1d\x1e\x1f" for c in text[start:end])
        position = end
    assert not text[position:].strip()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("IL-2 (5.0 µM)", ["IL", "-", "2", "(", "5", ".", "0", "µM", ")"]),
        # A combining accent belongs to its letter, a zero-width joiner to what it follows.
        ("e\u0301te\u0301 x\u200by", ["e\u0301te\u0301", "x\u200by"]),
        ("_a_", ["_", "a", "_"]),
        ("\u0301x", ["\u0301", "x"]),
        ("", []),
        (" \t\n", []),
    ],
)
def test_words_are_cut_as_the_benchmarks_cut_them(text: str, words: list[str]) -> None:
    assert [text[a:b] for a, b in split_words(text)] == words


def test_only_the_asked_part_of_a_text_is_cut() -> None:
    assert split_words("ab cd ef", 3, 5) == [(3, 5)]
