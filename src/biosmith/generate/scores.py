"""Scores of written sentences. They know plain texts only."""

from __future__ import annotations

from collections.abc import Sequence


def bleu(written: Sequence[str], references: Sequence[str]) -> float:
    """Corpus BLEU, 0 to 100 (Papineni et al., 2002; sacrebleu's own tokenisation)."""
    import sacrebleu

    return float(sacrebleu.corpus_bleu(list(written), [list(references)]).score)


def sentence_bleu(written: str, reference: str) -> float:
    """BLEU of one sentence, 0 to 100, smoothed (sacrebleu: exponential)."""
    import sacrebleu

    return float(sacrebleu.sentence_bleu(written, [reference]).score)


def self_bleu(written: Sequence[str]) -> float | None:
    """Mean BLEU of each sentence against all others, 0 to 100: high where all say the same (Zhu et al., 2018, Texygen).

    None for fewer than two sentences.
    """
    import sacrebleu

    if len(written) < 2:
        return None
    scores = [
        sacrebleu.sentence_bleu(text, [*written[:number], *written[number + 1 :]]).score
        for number, text in enumerate(written)
    ]
    return float(sum(scores) / len(scores))


def distinct(written: Sequence[str], length: int) -> float | None:
    """Different word n-grams / all word n-grams of the sentences together (Li et al., 2016); None if there are none."""
    grams = [
        tuple(words[i : i + length])
        for words in (text.split() for text in written)
        for i in range(len(words) - length + 1)
    ]
    return len(set(grams)) / len(grams) if grams else None


def edit_distance(one: str, other: str) -> int:
    """Words to insert, delete or replace (Levenshtein)."""
    from rapidfuzz.distance import Levenshtein

    return int(Levenshtein.distance(one.split(), other.split()))
