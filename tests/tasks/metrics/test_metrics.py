"""Scores of words, labels, numbers and answers, beside scikit-learn, scipy and hand-made values."""

from __future__ import annotations

import numpy as np
import pytest

from biosmith.tasks.metrics.answers import answer_f1, normalise_answer, score_factoid, score_squad
from biosmith.tasks.metrics.classification import (
    accuracy,
    document_micro_f1,
    label_counts,
    labels_of_documents,
    micro_f1,
)
from biosmith.tasks.metrics.counts import Counts
from biosmith.tasks.metrics.similarity import pearson
from biosmith.tasks.metrics.words import score_words

CHEMPROT = ["false", "CPR:3", "CPR:4", "CPR:5", "CPR:6", "CPR:9"]


@pytest.mark.parametrize("seed", range(5))
def test_micro_f1_over_the_positives_equals_scikit_learns(seed: int) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(seed)
    gold = [str(x) for x in rng.choice(CHEMPROT, 200, p=[0.7, 0.06, 0.06, 0.06, 0.06, 0.06])]
    predicted = [g if rng.random() < 0.7 else str(rng.choice(CHEMPROT)) for g in gold]
    ours = micro_f1(gold, predicted, {"false"})
    theirs = metrics.precision_recall_fscore_support(
        gold, predicted, labels=CHEMPROT[1:], average="micro", zero_division=0
    )
    assert (ours.precision, ours.recall, ours.f1) == pytest.approx(theirs[:3])
    for label, counts in label_counts(gold, predicted).items():
        assert counts.f1 == pytest.approx(
            metrics.f1_score(gold, predicted, labels=[label], average="micro", zero_division=0)
        )


def test_the_negative_class_is_never_rewarded() -> None:
    # 8 negatives rightly called so count nowhere. Of 3 relations one is found, one is taken for another (wrong and
    # missed), one is missed; one negative is called a relation: precision 1/3, recall 1/3.
    gold = ["false"] * 9 + ["CPR:3", "CPR:4", "CPR:9"]
    predicted = ["false"] * 8 + ["CPR:3", "CPR:3", "CPR:5", "false"]
    counts = micro_f1(gold, predicted, {"false"})
    assert counts == Counts(found=1, predicted=3, gold=3)
    # Predicting "false" throughout scores 0, though 9 of 12 labels are right.
    assert micro_f1(gold, ["false"] * 12, {"false"}).f1 == 0.0
    assert accuracy(gold, ["false"] * 12) == 0.75


def test_hoc_is_scored_by_abstract_not_by_sentence() -> None:
    # Two sentences of one abstract, label 3 found in the first only: the abstract has it, so recall is 1 of 1.
    documents = ["a", "a", "b", "c"]
    gold = labels_of_documents(documents, [{"3"}, {"3"}, set(), {"1"}])
    predicted = labels_of_documents(documents, [{"3"}, set(), set(), set()])
    assert document_micro_f1(gold, predicted) == Counts(found=1, predicted=1, gold=2)


def test_an_abstract_without_labels_counts_against_what_is_predicted_for_it() -> None:
    # BLUE leaves such abstracts out; BLURB does not: the label invented for b halves the precision.
    gold = {"a": {"1"}, "b": set[str]()}
    assert document_micro_f1(gold, {"a": {"1"}, "b": {"1"}}).precision == 0.5
    with pytest.raises(ValueError, match="documents differ"):
        document_micro_f1(gold, {"a": set()})


def test_multi_label_micro_f1_equals_scikit_learns() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(0)
    gold, predicted = rng.random((50, 10)) < 0.2, rng.random((50, 10)) < 0.2
    as_sets = [
        {str(i): {str(k) for k in np.flatnonzero(row)} for i, row in enumerate(m)} for m in (gold, predicted)
    ]
    assert document_micro_f1(*as_sets).f1 == pytest.approx(metrics.f1_score(gold, predicted, average="micro"))


def test_pico_is_the_mean_f1_of_three_classes_over_words() -> None:
    # PAR: 2 gold, 1 found, 1 predicted: 2/3. INT: 1 gold, found, but 2 predicted: 2/3. OUT: 1 gold, none: 0.
    gold = [["I-PAR", "I-PAR", "O", "I-INT", "I-OUT"]]
    predicted = [["B-PAR", "O", "I-INT", "I-INT", "O"]]
    report = score_words(gold, predicted)
    assert report.types == {"INT": Counts(1, 2, 1), "OUT": Counts(0, 0, 1), "PAR": Counts(1, 1, 2)}
    assert report.macro_f1 == pytest.approx((2 / 3 + 2 / 3 + 0) / 3)


def test_word_f1_equals_scikit_learns_on_random_tags() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(1)
    labels = ["O", "I-PAR", "I-INT", "I-OUT"]
    gold = [[str(x) for x in rng.choice(labels, n)] for n in rng.integers(1, 30, 40)]
    predicted = [[g if rng.random() < 0.6 else str(rng.choice(labels)) for g in row] for row in gold]
    flat = [[tag for row in side for tag in row] for side in (gold, predicted)]
    theirs = metrics.f1_score(*flat, labels=labels[1:], average="macro")
    assert score_words(gold, predicted).macro_f1 == pytest.approx(theirs)


def test_words_are_counted_sentence_by_sentence() -> None:
    with pytest.raises(ValueError, match="sentence 1: 1 gold tags, 2 predicted"):
        score_words([["O"]], [["O", "O"]])


def test_pearson_is_scipys() -> None:
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(3)
    gold = rng.random(20) * 4
    predicted = gold + rng.normal(size=20)
    assert pearson(gold.tolist(), predicted.tolist()) == pytest.approx(
        stats.pearsonr(gold, predicted).statistic
    )


def test_pearson_over_twenty_pairs_does_not_mind_scale_and_gives_zero_for_a_constant() -> None:
    gold = [i / 5 for i in range(20)]
    assert pearson(gold, [100 - 3 * g for g in gold]) == pytest.approx(-1.0)
    assert pearson(gold, [2.0] * 20) == 0.0
    with pytest.raises(ValueError, match="two numbers or more"):
        pearson([1.0], [1.0])


def test_squad_answers_are_normalised_and_the_best_gold_answer_counts() -> None:
    assert normalise_answer("The  heart-rate, of an Ox.") == "heartrate of ox"
    # "the left ventricle" and "left ventricle": exact. "ventricle" of "left ventricle": 2 * 1 / (2 + 1).
    score = score_squad(
        [["left ventricle", "heart"], ["left ventricle"]], ["the left ventricle", "ventricle"]
    )
    assert score.exact_match == 0.5
    assert score.f1 == pytest.approx((1 + 2 / 3) / 2)
    assert (score.answerable, score.unanswerable) == (pytest.approx((1 + 2 / 3) / 2), None)


def test_unanswerable_questions_want_no_answer() -> None:
    score = score_squad([[], [], ["x"]], ["", "something", ""])
    assert score.exact_match == pytest.approx(1 / 3)
    assert (score.answerable, score.unanswerable) == (0.0, 0.5)
    assert answer_f1("", "the") == 1.0  # both normalise to nothing


def test_factoid_answers_are_scored_strictly_leniently_and_by_rank() -> None:
    # Right at rank 1, at rank 2, at rank 6 (not read), never: strict 1/4, lenient 2/4, MRR (1 + 1/2) / 4.
    gold = [["BRCA1", "BRCA 1"], ["p53"], ["x"], ["y"]]
    predicted = [["brca 1"], ["p21", "P53"], ["a", "b", "c", "d", "e", "x"], []]
    score = score_factoid(gold, predicted)
    assert (score.strict_accuracy, score.lenient_accuracy) == (0.25, 0.5)
    assert score.mean_reciprocal_rank == pytest.approx(1.5 / 4)


def test_pearson_of_huge_and_tiny_numbers_is_that_of_their_digits() -> None:
    """Their squares overflow or vanish."""
    gold, predicted = [1.0, 2.0, 4.0, 3.0], [0.5, 2.5, 3.0, 3.5]
    expected = pearson(gold, predicted)
    for factor in (1e200, 1e-200):
        scaled = [factor * p for p in predicted]
        assert pearson(gold, scaled) == pytest.approx(expected, rel=1e-12)
