"""Plain characters for their variants, every place kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from biosmith.annotate.normalising import REPLACEMENTS, normalise


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("IL\u20112 and 5\u2032\u2013UTR", "IL-2 and 5'-UTR"),
        ("H\u2082O\u2082, 10\u207b\u2079 M", "H2O2, 10-9 M"),
        ("de\ufb01cient \ufb02uid", "deficient fluid"),
        ("p&nbsp;&lt;&#32;0.05 &alpha; &#x3b2;", "p < 0.05 \u03b1 \u03b2"),
        ("5\u00a0mg", "5 mg"),
    ],
)
def test_variants_become_plain(text: str, plain: str) -> None:
    made = normalise(text)
    assert made is not None and made.text == plain


@pytest.mark.parametrize("text", ["", "plain ASCII & nothing else", "\u03b2-catenin caf\u00e9", "AT&T; R&D"])
def test_what_is_plain_stays_as_it_is(text: str) -> None:
    assert normalise(text) is None


@given(
    st.text(
        st.sampled_from([*REPLACEMENTS, "a", "&", "l", "t", ";", "#", "3", " ", "\U0001d6fc"]), max_size=40
    )
)
def test_every_character_lies_in_what_it_was_made_from(text: str) -> None:
    made = normalise(text)
    if made is None:
        return
    assert len(made.text) == len(made.starts) == len(made.ends)
    for character, a, b in zip(made.text, made.starts.tolist(), made.ends.tolist(), strict=True):
        source = text[a:b]
        assert source and (source == character or source in REPLACEMENTS or source.startswith("&"))
    # Together they are the whole text, in order.
    covered = sorted(set(zip(made.starts.tolist(), made.ends.tolist(), strict=True)))
    assert "".join(text[a:b] for a, b in covered) == text
