"""Which characters a vocabulary can spell.

Two sources: the characters that make up nearly all of the corpus, so that rare scripts do not take the place of words;
and a list of characters that biomedical text needs whether the corpus at hand shows them or not. A character outside
both makes its word unknown.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable

from biosmith.errors import UsageError
from biosmith.tokens.schemes import Scheme

COVERAGE = 0.99995  # SciBERT keeps 0.9999 of the characters; one step further keeps Ω, ≥ and the superscripts
MOST_CHARACTERS = 1000  # the limit of BERT's own trainer

BIOMEDICAL_CHARACTERS = "".join(
    (
        "".join(map(chr, range(0x21, 0x7F))),  # ASCII
        "ΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡΣΤΥΦΧΨΩ",
        "αβγδεζηθικλμνξοπρςστυφχψωϕϵ",
        "µΩÅℓ℃°‰",  # micro, ohm, angstrom, litre and degree signs
        "♀♂",
        "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻₀₁₂₃₄₅₆₇₈₉₊₋",
        "′″‴ʹʼ",  # primes: 5′, 3′
        "‐‑‒–—−",  # hyphens, dashes and the minus sign
        "±×÷·∙⋅•=≠≈≅≡∼≤≥⩽⩾≪≫<>∝∞√∑∏∫∂∆∇∈∪∩¬⊕½¼¾",
        "←↑→↓↔⇒⇌↗↘",
        "‘’“”«»‹›…§¶†‡©®™£€",
        "áàâäãåāăąæçćčéèêëęěíìîïīłñńňóòôöõøōőœřśšşßúùûüūůűýžźżþðđı",
        "ÁÀÂÄÃÅĀÆÇĆČÉÈÊËÍÌÎÏŁÑŃÓÒÔÖÕØŒŘŚŠŞÚÙÛÜÝŽŹŻÞÐİ",
        "\u0301\u0300\u0304\u0308\u0303",  # combining accents: acute, grave, macron, diaeresis, tilde
    )
)


def kept_characters(scheme: Scheme) -> list[str]:
    """The biomedical characters as the scheme's normaliser leaves them, each once, by code point."""
    normalizer = scheme.normalizer()
    left = (normalizer.normalize_str(character).strip() for character in BIOMEDICAL_CHARACTERS)
    return sorted({character for character in left if len(character) == 1})


def choose_alphabet(
    counts: Counter[str], scheme: Scheme, *, slots: int, coverage: float = COVERAGE
) -> tuple[str, ...]:
    """The characters of a vocabulary, by code point.

    The most frequent characters of the corpus that together make up `coverage` of it, and the biomedical ones. Where
    that is more than `slots`, the biomedical ones that the corpus does not show go first, then the rarest. Ties are
    broken by code point.

    Raises:
        UsageError: not even ten characters fit.
    """
    ranked = sorted(counts, key=lambda character: (-counts[character], character))
    needed, seen = coverage * counts.total(), 0
    covering: list[str] = []
    for character in ranked:
        if seen >= needed or len(covering) == MOST_CHARACTERS:
            break
        covering.append(character)
        seen += counts[character]
    kept = kept_characters(scheme)
    chosen = _unique([*covering, *(c for c in kept if c in counts), *(c for c in kept if c not in counts)])
    if slots < 10:
        raise UsageError(
            f"the vocabulary has room for {max(slots, 0)} characters only; choose a larger --size"
        )
    return tuple(sorted(chosen[:slots]))


def stands_alone(character: str, scheme: Scheme) -> bool:
    """Whether the scheme always sets the character apart, so that it is never inside a longer word."""
    if unicodedata.combining(character):
        return False
    cut = scheme.word_cutter()
    return len(cut(f"a{character}a")) > 1


def _unique(characters: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(characters))
