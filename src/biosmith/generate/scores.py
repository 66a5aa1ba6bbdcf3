"""Scores of written sentences. They know plain texts only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

ORDERS = 4  # of the n-grams that BLEU counts


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
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

    if len(written) < 2:
        return None
    # What `sacrebleu.sentence_bleu` gives with all others as references; but each sentence is cut once, and the most that
    # others have of an n-gram is found once, as references of every sentence would take time by the square.
    cut = Tokenizer13a()
    sentences = [cut(text.rstrip()).split() for text in written]
    grams = [_grams(words) for words in sentences]
    most: dict[tuple[str, ...], list[int]] = {}  # the two largest counts of an n-gram
    for counts in grams:
        for gram, count in counts.items():
            most[gram] = sorted([*most.get(gram, (0, 0)), count])[-2:]
    lengths = Counter(map(len, sentences))
    total = 0.0
    for words, counts in zip(sentences, grams, strict=True):
        correct, possible = [0] * ORDERS, [max(0, len(words) - order) for order in range(ORDERS)]
        for gram, count in counts.items():
            second, first = most[gram]
            correct[len(gram) - 1] += min(count, second if count == first else first)
        others = [n for n, times in lengths.items() if times > (n == len(words))]
        closest = min(others, key=lambda n: (abs(n - len(words)), n))
        total += BLEU.compute_bleu(
            correct, possible, len(words), closest, smooth_method="exp", effective_order=True
        ).score
    return float(total / len(written))


def _grams(words: Sequence[str]) -> Counter[tuple[str, ...]]:
    """The n-grams of 1 to `ORDERS` words, counted."""
    return Counter(tuple(words[i : i + n]) for n in range(1, ORDERS + 1) for i in range(len(words) - n + 1))


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
