"""Scores of answers: SQuAD's exact match and F1, BioASQ's strict and lenient accuracy and mean reciprocal rank."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True)
class SquadScore:
    """Means over questions, in [0, 1]; `answerable` and `unanswerable` are the F1 of each kind, None without any."""

    exact_match: float
    f1: float
    answerable: float | None
    unanswerable: float | None


def normalise_answer(text: str) -> str:
    """Lower case, without punctuation, articles and doubled spaces (Rajpurkar et al., 2016)."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def answer_f1(gold: str, predicted: str) -> float:
    """Overlap of words; an empty answer is right only where the gold answer is empty too (SQuAD 2.0)."""
    gold_words, predicted_words = normalise_answer(gold).split(), normalise_answer(predicted).split()
    if not gold_words or not predicted_words:
        return float(gold_words == predicted_words)
    shared = sum((Counter(gold_words) & Counter(predicted_words)).values())
    return 2 * shared / (len(gold_words) + len(predicted_words))


def score_squad(gold: Sequence[Sequence[str]], predicted: Sequence[str]) -> SquadScore:
    """Exact match and F1, each question by its best gold answer; a question without gold answers is unanswerable.

    As the official script does, gold answers that normalise to nothing are left out; if none is left the question is
    unanswerable, and only the empty prediction is right.
    """
    if len(gold) != len(predicted):
        raise ValueError(f"{len(gold)} questions, {len(predicted)} predictions")
    exact: list[float] = []
    overlap: list[float] = []
    answerable: list[bool] = []
    for answers, answer in zip(gold, predicted, strict=True):
        possible = [a for a in answers if normalise_answer(a)] or [""]
        exact.append(max(float(normalise_answer(a) == normalise_answer(answer)) for a in possible))
        overlap.append(max(answer_f1(a, answer) for a in possible))
        answerable.append(possible != [""])
    kinds = {
        kind: [f for f, has in zip(overlap, answerable, strict=True) if has == kind] for kind in (True, False)
    }
    return SquadScore(_mean(exact), _mean(overlap), *(_mean(v) if v else None for v in kinds.values()))


@dataclass(frozen=True)
class FactoidScore:
    """Means over questions, in [0, 1]."""

    strict_accuracy: float
    lenient_accuracy: float
    mean_reciprocal_rank: float


def score_factoid(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> FactoidScore:
    """BioASQ's factoid scores: the first answer is right; one of the first five is; one over the rank of the first that is.

    Args:
        gold: for each question its synonyms.
        predicted: for each question its answers, best first; those after the fifth are not read.
    """
    if len(gold) != len(predicted):
        raise ValueError(f"{len(gold)} questions, {len(predicted)} predictions")
    ranks: list[int | None] = []
    for synonyms, answers in zip(gold, predicted, strict=True):
        right = {_bare(s) for s in synonyms}
        ranks.append(next((i for i, a in enumerate(answers[:5], start=1) if _bare(a) in right), None))
    return FactoidScore(
        _mean([float(r == 1) for r in ranks]),
        _mean([float(r is not None) for r in ranks]),
        _mean([1 / r if r else 0.0 for r in ranks]),
    )


def _bare(answer: str) -> str:
    """BioASQ compares without case and surrounding white space."""
    return " ".join(answer.lower().split())


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
