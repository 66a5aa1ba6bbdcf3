"""Every score beside an independent implementation, on whatever sequences hypothesis finds."""

from __future__ import annotations

import math
import re
import string
import warnings
from collections import Counter
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from biosmith.tasks.labels import LabelSet, Span, read_spans, write_tags
from biosmith.tasks.metrics.answers import answer_f1, score_factoid, score_squad
from biosmith.tasks.metrics.breakdown import pair_mentions
from biosmith.tasks.metrics.classification import (
    accuracy,
    document_micro_f1,
    label_counts,
    macro_f1,
    micro_f1,
)
from biosmith.tasks.metrics.counts import Counts
from biosmith.tasks.metrics.entities import score_tags
from biosmith.tasks.metrics.similarity import pearson
from biosmith.tasks.metrics.words import score_words

TYPES = ["X", "Y"]
TAGS = ["O", "B-X", "I-X", "B-Y", "I-Y"]
FEW = settings(max_examples=60, deadline=None)


def pairs_of(elements: st.SearchStrategy[Any], least: int = 1, most: int = 12) -> st.SearchStrategy[Any]:
    """Two sequences of the same length."""
    return st.lists(st.tuples(elements, elements), min_size=least, max_size=most).map(
        lambda rows: ([g for g, _ in rows], [p for _, p in rows])
    )


@st.composite
def well_formed(draw: st.DrawFn, length: int = 10) -> list[str]:
    """BIO tags as a constrained decoder gives them."""
    spans, at = [], 0
    while at < length:
        start = at + draw(st.integers(0, 3))
        end = start + draw(st.integers(1, 3))
        if end <= length:
            spans.append(Span(start, end, draw(st.sampled_from(TYPES))))
        at = end
    return write_tags(spans, length)


@given(pairs_of(well_formed(), most=4))
@FEW
def test_entity_f1_is_nervaluates_strict_score_on_well_formed_tags(pair: tuple[Any, Any]) -> None:
    nervaluate = pytest.importorskip("nervaluate")
    gold, predicted = pair
    theirs = nervaluate.Evaluator(gold, predicted, tags=TYPES, loader="list").evaluate()
    ours = score_tags(gold, predicted)
    strict = theirs["overall"]["strict"]
    assert (ours.overall.found, ours.overall.predicted, ours.overall.gold) == (
        strict.correct,
        strict.actual,
        strict.possible,
    )
    assert (ours.overall.precision, ours.overall.recall, ours.overall.f1) == pytest.approx(
        (strict.precision, strict.recall, strict.f1)
    )
    for type, counts in ours.types.items():
        assert counts.found == theirs["entities"][type]["strict"].correct


@given(pairs_of(well_formed(), most=4))
@FEW
def test_errors_are_nervaluates_where_no_mention_has_two_partners(pair: tuple[Any, Any]) -> None:
    # With two partners nervaluate uses a mention twice; here each is used once.
    nervaluate = pytest.importorskip("nervaluate")
    gold, predicted = pair
    for g, p in zip(gold, predicted, strict=True):
        spans = read_spans(g), read_spans(p)
        for one, others in (spans, spans[::-1]):
            assume(all(sum(a.start < b.end and b.start < a.end for b in others) < 2 for a in one))
    overall = nervaluate.Evaluator(gold, predicted, tags=TYPES, loader="list").evaluate()["overall"]
    kinds = Counter(
        pair.kind
        for g, p in zip(gold, predicted, strict=True)
        for pair in pair_mentions(read_spans(g), read_spans(p))
    )
    strict, by_type, exact = overall["strict"], overall["ent_type"], overall["exact"]
    assert (kinds["right"], kinds["missed"], kinds["spurious"]) == (
        strict.correct,
        strict.missed,
        strict.spurious,
    )
    # "exact" looks at the boundaries only, "ent_type" at the type only.
    assert kinds["boundary"] + kinds["boundary and type"] == exact.incorrect
    assert kinds["type"] + kinds["boundary and type"] == by_type.incorrect


@given(pairs_of(st.lists(st.sampled_from(TAGS), min_size=7, max_size=7), most=4))
@FEW
def test_both_readings_of_any_tags_are_seqevals(pair: tuple[Any, Any]) -> None:
    from seqeval.metrics import sequence_labeling
    from seqeval.metrics.v1 import precision_recall_fscore_support
    from seqeval.scheme import IOB2

    gold, predicted = pair
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        default = sequence_labeling.precision_recall_fscore_support(
            gold, predicted, average="micro", zero_division=0
        )
        strict = precision_recall_fscore_support(
            gold, predicted, average="micro", zero_division=0, scheme=IOB2
        )
    ours = score_tags(gold, predicted).overall
    assert (ours.precision, ours.recall, ours.f1) == pytest.approx(default[:3])
    ours = score_tags(gold, predicted, strict=True, scheme="BIO").overall
    assert (ours.precision, ours.recall, ours.f1) == pytest.approx(strict[:3])


@given(pairs_of(well_formed(), most=4))
@FEW
def test_both_readings_agree_on_the_output_of_a_constrained_decoder(pair: tuple[Any, Any]) -> None:
    gold, predicted = pair
    assert (
        score_tags(gold, predicted).overall == score_tags(gold, predicted, strict=True, scheme="BIO").overall
    )
    # And tags in another scheme say the same mentions.
    for scheme in ("IOBES", "BIOUL"):
        other = [[write_tags(read_spans(t), len(t), scheme) for t in side] for side in (gold, predicted)]
        assert score_tags(*other).overall == score_tags(gold, predicted).overall
        assert {t for side in other for tags in side for t in tags} <= set(
            LabelSet.of_types(TYPES, scheme).labels
        )


@given(pairs_of(st.lists(st.sampled_from(TAGS), min_size=5, max_size=5), most=4))
@FEW
def test_word_f1_is_scikit_learns_over_the_classes_of_the_gold(pair: tuple[Any, Any]) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    flat = [[tag.partition("-")[2] or "O" for tags in side for tag in tags] for side in pair]
    classes = sorted(set(flat[0]) - {"O"})
    assume(classes)
    theirs = metrics.f1_score(*flat, labels=classes, average="macro", zero_division=0)
    ours = score_words(*pair)
    assert ours.macro_f1 == pytest.approx(theirs)
    micro = metrics.f1_score(*flat, labels=TYPES, average="micro", zero_division=0)
    assert ours.overall.f1 == pytest.approx(micro)


LABELS = ["false", "CPR:3", "CPR:4", "CPR:9"]


@given(pairs_of(st.sampled_from(LABELS), most=30))
@FEW
def test_scores_of_classes_are_scikit_learns(pair: tuple[list[str], list[str]]) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    positives = LABELS[1:]
    options = {"labels": positives, "zero_division": 0}
    precision, recall, f1, _ = metrics.precision_recall_fscore_support(*pair, average="micro", **options)
    ours = micro_f1(*pair, {"false"})
    assert (ours.precision, ours.recall, ours.f1) == pytest.approx((precision, recall, f1))
    assert macro_f1(*pair, positives) == pytest.approx(metrics.f1_score(*pair, average="macro", **options))
    assert accuracy(*pair) == pytest.approx(metrics.accuracy_score(*pair))
    by_label = metrics.precision_recall_fscore_support(*pair, labels=LABELS, zero_division=0)
    for label, theirs in zip(LABELS, by_label[2], strict=True):
        assert label_counts(*pair).get(label, Counts()).f1 == pytest.approx(theirs)


@given(pairs_of(st.sampled_from(LABELS), most=30), st.integers(0, 30))
@FEW
def test_more_negatives_that_are_called_negative_change_no_relation_score(
    pair: tuple[list[str], list[str]], more: int
) -> None:
    gold, predicted = pair
    padded = (gold + ["false"] * more, predicted + ["false"] * more)
    assert micro_f1(*padded, {"false"}) == micro_f1(gold, predicted, {"false"})
    assert macro_f1(*padded, LABELS[1:]) == macro_f1(gold, predicted, LABELS[1:])


SETS = st.sets(st.sampled_from("abc"), max_size=3)


@given(pairs_of(SETS, most=10))
@FEW
def test_scores_of_documents_are_scikit_learns(pair: tuple[Any, Any]) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    gold, predicted = pair
    rows = [[[int(x in s) for x in "abc"] for s in side] for side in pair]
    theirs = metrics.precision_recall_fscore_support(*rows, average="micro", zero_division=0)
    named = [{str(i): s for i, s in enumerate(side)} for side in (gold, predicted)]
    ours = document_micro_f1(*named)
    assert (ours.precision, ours.recall, ours.f1) == pytest.approx(theirs[:3])


@given(pairs_of(st.integers(-40, 40).map(lambda n: n / 10), least=2, most=20))
@example(pair=([0.1, 0.1, 0.1], [0.0, 0.0, 0.1]))
@FEW
def test_pearson_is_scipys_wherever_it_is_defined(pair: tuple[list[float], list[float]]) -> None:
    stats = pytest.importorskip("scipy.stats")
    if any(len(set(side)) == 1 for side in pair):
        assert pearson(*pair) == 0.0
        return
    assert pearson(*pair) == pytest.approx(stats.pearsonr(*pair).statistic, abs=1e-9)


# SQuAD's scores as the paper's evaluation describes them (Rajpurkar et al., 2016, section 6.1; 2018, section 5), written
# down a second time: lower case, no punctuation, no articles, single spaces; overlap of the bags of words.
def other_normalise(text: str) -> list[str]:
    kept = "".join(c for c in text.lower() if c not in set(string.punctuation))
    return re.sub(r"\b(a|an|the)\b", " ", kept).split()


def other_f1(gold: str, predicted: str) -> float:
    g, p = other_normalise(gold), other_normalise(predicted)
    if not g or not p:
        return float(g == p)
    same = sum(min(g.count(w), p.count(w)) for w in set(g))
    if not same:
        return 0.0
    precision, recall = same / len(p), same / len(g)
    return 2 * precision * recall / (precision + recall)


WORDS = st.lists(st.sampled_from(["the", "gene", "Gene", "a", "p53.", "p-53", "of", ""]), max_size=5).map(
    " ".join
)


@given(st.lists(st.tuples(st.lists(WORDS, max_size=3), WORDS), min_size=1, max_size=6))
@FEW
def test_squad_scores_equal_a_second_writing_of_the_definition(
    questions: list[tuple[list[str], str]],
) -> None:
    gold, predicted = [g for g, _ in questions], [p for _, p in questions]
    exact, overlap = [], []
    for answers, answer in questions:
        possible = [a for a in answers if other_normalise(a)] or [""]
        exact.append(any(other_normalise(a) == other_normalise(answer) for a in possible))
        overlap.append(max(other_f1(a, answer) for a in possible))
        assert answer_f1(possible[0], answer) == pytest.approx(other_f1(possible[0], answer))
    ours = score_squad(gold, predicted)
    assert ours.exact_match == pytest.approx(sum(exact) / len(exact))
    assert ours.f1 == pytest.approx(sum(overlap) / len(overlap))


@given(
    st.lists(
        st.tuples(
            st.lists(st.sampled_from(["BRCA1", "p53", "TNF"]), min_size=1, max_size=2),
            st.lists(st.sampled_from(["brca1", "P53", "tnf ", "IL-2", "x", "y"]), max_size=7),
        ),
        min_size=1,
        max_size=6,
    )
)
@FEW
def test_factoid_scores_are_bounded_by_each_other_and_by_the_first_five(questions: list[Any]) -> None:
    gold, predicted = [g for g, _ in questions], [p for _, p in questions]
    ours = score_factoid(gold, predicted)
    assert ours.strict_accuracy <= ours.mean_reciprocal_rank <= ours.lenient_accuracy
    assert score_factoid(gold, [p[:5] for p in predicted]) == ours
    reciprocal = 0.0
    for synonyms, answers in questions:
        right = {s.lower() for s in synonyms}
        hits = [rank for rank in range(len(answers[:5])) if answers[rank].strip().lower() in right]
        reciprocal += 1 / (hits[0] + 1) if hits else 0
    assert math.isclose(ours.mean_reciprocal_rank, reciprocal / len(questions))
