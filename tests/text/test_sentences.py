"""Sentence splitting: what ends a sentence in biomedical text, and that spans tile the text."""

from __future__ import annotations

import builtins
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from biosmith.errors import UsageError
from biosmith.text import sentences
from biosmith.text.sentences import split


def sentences_of(text: str, method: str = "fast") -> list[str]:
    return [text[a:b] for a, b in split(text, method)]


@pytest.mark.parametrize(
    "text",
    [
        "As seen in Fig. 2 and Figs. 3A and 4, E. coli grew.",
        "Smith et al. (2003) and Jones et al. [4] agree.",
        "Inhibitors, e.g. Imatinib, and others, i.e. Those of class II, were given.",
        "The dose was 0.05 mg vs. 5.0 mg at approx. 37 degrees.",
        "Bought from Sigma Chemical Co. (St. Louis, MO) by Dr. K. Smith.",
        "Given 60 mg/kg i.p.) 5 days after.",
        "A strain of Synechocystis sp. PCC 6803 was grown.",
        "Clinical Trial No. 12 in the U.S. Department of Health.",
        "It was new (Kimmel CA, Wilson JG. Teratology 4:15-24, 1971) then.",
        "Significant (P = 0. 05) and (P <. 001) in both.",
        "2. The aim was known.",
        "125 mg i.v. MP was given.",
    ],
)
def test_a_stop_that_does_not_end_the_sentence_does_not_split_it(text: str) -> None:
    assert sentences_of(text) == [text]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("The difference was significant at p < 0.05.", "However, it vanished."),
        ("Mice were kept at 37 degrees C.", "Samples were taken."),
        ("They were treated with vitamin C.", "Patients improved."),
        ("We compared groups A and B.", "BUN increased."),
        ("We measured troponin I.", "Emergent angiography followed."),
        ("Given 30 mg/kg p.o.", "Together these suggest more."),
        ("Infusion took 50 min.", "Infusion started early."),
        ("It was incubated for 24 h.", "Luteolin arrested growth."),
        ("Sampled in Orange County, CA.", "These are consecutive."),
        ("It grew (see Fig. 2).", "(P < 0.05 for all.)"),
        ("He said it was “seen.”", "“We saw it,” they said."),
        ("This was reported by Smith et al.", "We repeated it."),
        ("Is it real?", "p53 is."),
        ("It was lost.", "mRNA levels fell."),
        ("It was blocked.", "alpha-TC prevented this."),
        ("The answer was no.", "The end."),
        ("Nothing was found in the cat.", "Dogs were next."),
        ("Two were men.", "3 were women."),
    ],
)
def test_a_stop_that_ends_the_sentence_splits_it(first: str, second: str) -> None:
    assert sentences_of(f"{first} {second}") == [first, second]


def test_a_missing_space_after_the_stop_still_splits() -> None:
    assert sentences_of("We confirm this.Aminoglycoside antibiotics act.") == [
        "We confirm this.",
        "Aminoglycoside antibiotics act.",
    ]
    # but names, hosts and bone measures with inner stops stay whole
    assert len(sentences_of("See www.Nature.com, BV/TV, Tb.Th and Conn.D of J.Smith.")) == 1


def test_citation_numbers_glued_to_the_stop_belong_to_the_sentence_they_end() -> None:
    assert sentences_of("Corticosteroids help.2-4 As shown before.[5,6] The rest follows.") == [
        "Corticosteroids help.2-4",
        "As shown before.[5,6]",
        "The rest follows.",
    ]


def test_a_heading_on_its_own_line_is_a_sentence() -> None:
    assert sentences_of("Materials and methods\n\nMice were kept.\nThey ate.") == [
        "Materials and methods",
        "Mice were kept.",
        "They ate.",
    ]


def test_line_breaks_of_hard_wrapped_text_do_not_split() -> None:
    # The line ends are followed by lower-case words: they only wrap, and the name at a line start is no new sentence.
    text = "We studied the effect of\nAspirin on the growth of\ncells in culture and on\nmice. They lived."
    assert sentences_of(text) == [text[:-12], "They lived."]


def test_a_bracket_that_is_never_closed_does_not_swallow_the_rest() -> None:
    assert len(sentences_of("One (two is here. Three is there. Four is nowhere.")) == 3


def test_white_space_only_has_no_sentences() -> None:
    assert split("") == split(" \n\t ") == []


def check_tiling(text: str, spans: list[tuple[int, int]]) -> None:
    position = 0
    for begin, end in spans:
        assert position <= begin < end <= len(text)
        assert not text[position:begin].strip()
        assert not text[begin].isspace() and not text[end - 1].isspace()
        position = end
    assert not text[position:].strip()


@settings(max_examples=300, deadline=None)
@given(
    st.text(
        st.sampled_from(list("aAbI1 .!?…\n\r\t()[]\"'”’,;:%-–/<=°αΔ𝛼\u00a0\u2028\u0085\x1c")), max_size=80
    )
)
def test_spans_tile_any_text(text: str) -> None:
    check_tiling(text, split(text))


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.sampled_from(["E. coli", "Fig.", "et al.", "(2).", "cells.", "The", "0. 05", "i.v.", "\n", "1."])
    )
)
def test_spans_tile_texts_full_of_abbreviations(words: list[str]) -> None:
    text = " ".join(words)
    check_tiling(text, split(text))


def test_the_time_is_linear_on_texts_made_to_hurt() -> None:
    # 20,000 marks without an end of sentence, unclosed brackets and blank lines: quadratic code would take minutes.
    for piece in ("Fig. 1 ", "(a. B ", "\n ", ". ", ".", "?!", "…)", "A.", "J. S. "):
        text = piece * 20_000
        check_tiling(text, split(text))


def test_pysbd_follows_the_same_tiling_rule() -> None:
    pytest.importorskip("pysbd")
    text = "It was seen. It was seen.  Fig. 2 shows E. coli.\n The end"
    check_tiling(text, split(text, "pysbd"))
    assert sentences_of(text, "pysbd")[:2] == ["It was seen.", "It was seen."]


def test_an_unknown_method_names_the_valid_ones() -> None:
    with pytest.raises(UsageError, match="valid: fast, pysbd, scispacy"):
        split("a", "punkt")


@pytest.mark.parametrize("method", ["pysbd", "scispacy"])
def test_a_missing_package_says_what_to_install(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *rest: Any) -> Any:
        if name in ("pysbd", "spacy"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    getattr(sentences, f"_{method}").cache_clear()
    with pytest.raises(UsageError, match="pip install"):
        split("a", method)
    getattr(sentences, f"_{method}").cache_clear()
