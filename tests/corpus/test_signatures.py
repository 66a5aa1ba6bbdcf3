"""Signatures: estimates against exact Jaccard similarity, and independence of how texts are batched."""

from __future__ import annotations

import random

import numpy as np

from biosmith.corpus import signatures
from biosmith.corpus.signatures import BANDS, sign, similarity

WORDS = [f"word{i}" for i in range(5000)]


def texts(count: int, length: int, seed: int) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=length)) for _ in range(count)]


def trigrams(text: str) -> set[tuple[str, ...]]:
    words = text.split()
    return set(zip(words, words[1:], words[2:], strict=False))


def perturbed(text: str, changes: int, draw: random.Random) -> str:
    words = text.split()
    for place in draw.sample(range(len(words)), changes):
        words[place] = f"other{draw.randrange(10**9)}"
    return " ".join(words)


def test_the_estimate_is_right_on_average_and_within_its_standard_error() -> None:
    draw = random.Random(3)
    ours = texts(600, 150, seed=1)
    theirs = [perturbed(text, draw.choice([1, 2, 4, 8, 16]), draw) for text in ours]
    exact = np.array(
        [
            len(trigrams(a) & trigrams(b)) / len(trigrams(a) | trigrams(b))
            for a, b in zip(ours, theirs, strict=True)
        ]
    )
    error = similarity(sign(ours).bands, sign(theirs).bands) - exact
    # 600 estimates of standard error at most 0.045: the mean is within 3 x 0.045 / sqrt(600), the spread below it
    assert abs(error.mean()) < 0.0055
    assert np.sqrt((error**2).mean()) < 0.045


def test_unrelated_texts_have_similarity_zero_after_correction_for_chance() -> None:
    estimate = similarity(sign(texts(600, 150, seed=1)).bands, sign(texts(600, 150, seed=2)).bands)
    assert abs(estimate.mean()) < 0.002  # low bytes agree by chance once in 256


def test_bands_find_pairs_as_often_as_the_theory_says() -> None:
    # P(candidate) = 1 - (1 - s^8)^16
    draw = random.Random(4)
    ours = texts(800, 200, seed=5)
    theirs = [perturbed(text, 7, draw) for text in ours]  # similarity about 0.81
    exact = np.array(
        [
            len(trigrams(a) & trigrams(b)) / len(trigrams(a) | trigrams(b))
            for a, b in zip(ours, theirs, strict=True)
        ]
    )
    found = (sign(ours).bands == sign(theirs).bands).any(axis=0)
    expected = 1 - (1 - exact**8) ** 16
    assert found.mean() > expected.mean() - 3 * np.sqrt(expected.mean() * (1 - expected.mean()) / 800)


def test_case_punctuation_and_white_space_make_no_difference() -> None:
    one, other, third = sign(["IL-6 was (not) seen.", "il 6 WAS not\nseen", "il 6 was seen"]).content
    assert one == other != third


def test_texts_without_words_have_no_content() -> None:
    assert sign(["", " .,; ", "a"]).content.tolist()[:2] == [0, 0]
    assert sign([]).bands.shape == (BANDS, 0)


def test_short_texts_are_similar_only_if_equal() -> None:
    bands = sign(["a", "b", "a b", "a b", "a b c"]).bands
    assert similarity(bands[:, 2:3], bands).round().tolist() == [0, 0, 1, 1, 0]


def test_words_beyond_ascii_count() -> None:
    content = sign(["α β", "α γ", "ΑΒ", "αβ", "東京 大阪", "東京 京都"]).content.tolist()
    assert content[2] == content[3] and len(set(content)) == 5


def test_batches_make_no_difference() -> None:
    all_texts = [*texts(20, 300, seed=6), "", "one two", "x"] * 2
    together = sign(all_texts)
    alone = [sign([text]) for text in all_texts]
    assert np.array_equal(together.content, np.concatenate([s.content for s in alone]))
    assert np.array_equal(together.bands, np.concatenate([s.bands for s in alone], axis=1))


def test_a_book_is_signed_by_its_beginning_in_bounded_memory() -> None:
    start = "many words " * (signatures.READ_CHARACTERS // 11 + 1)
    one, other = sign([start + "end", start + "another end"]).content
    assert one == other


def test_marks_beyond_ascii_make_no_difference_and_letters_do() -> None:
    plain, marked, greek = 'TNF-a "high", n = 3', "TNF–a “high”, n\u2009=\u202f3 ±", "TNF-α high, n = 3"
    content = sign([plain, marked, greek]).content
    assert content[0] == content[1] != content[2]
