"""Entity scores, beside seqeval on random and adversarial tags."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from biosmith.tasks.labels import Span
from biosmith.tasks.metrics.counts import Counts
from biosmith.tasks.metrics.entities import score_spans, score_tags

TYPED = ["O", "B-X", "I-X", "B-Y", "I-Y"]
BARE = ["O", "B", "I"]
ENDED = ["O", "B-X", "I-X", "E-X", "S-X", "B-Y", "I-Y", "E-Y", "S-Y"]


def seqeval_scores(gold: list[list[str]], predicted: list[list[str]], **options: object) -> tuple[float, ...]:
    from seqeval.metrics.sequence_labeling import precision_recall_fscore_support as default
    from seqeval.metrics.v1 import precision_recall_fscore_support as strict

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if options:
            return tuple(strict(gold, predicted, average="micro", zero_division=0, **options)[:3])
        return tuple(default(gold, predicted, average="micro", zero_division=0)[:3])


def random_tags(seed: int, labels: list[str]) -> tuple[list[list[str]], list[list[str]]]:
    rng = np.random.default_rng(seed)
    gold = [[str(t) for t in rng.choice(labels, n)] for n in rng.integers(1, 9, size=30)]
    # Predictions that are mostly right, so that matches happen.
    predicted = [[t if rng.random() < 0.7 else str(rng.choice(labels)) for t in tags] for tags in gold]
    return gold, predicted


@pytest.mark.parametrize("labels", [TYPED, BARE, ENDED], ids=["typed", "bare", "IOBES"])
@pytest.mark.parametrize("seed", range(5))
def test_the_conll_reading_equals_seqevals_default_on_random_tags(labels: list[str], seed: int) -> None:
    gold, predicted = random_tags(seed, labels)
    ours = score_tags(gold, predicted).overall
    assert (ours.precision, ours.recall, ours.f1) == pytest.approx(seqeval_scores(gold, predicted))


@pytest.mark.parametrize("labels", [TYPED, BARE, ENDED], ids=["typed", "bare", "IOBES"])
@pytest.mark.parametrize("seed", range(5))
def test_the_strict_reading_equals_seqevals_strict_mode_on_random_tags(labels: list[str], seed: int) -> None:
    from seqeval.scheme import IOB2, IOBES

    gold, predicted = random_tags(seed, labels)
    theirs = seqeval_scores(gold, predicted, scheme=IOBES if labels is ENDED else IOB2)
    ours = score_tags(gold, predicted, strict=True).overall
    assert (ours.precision, ours.recall, ours.f1) == pytest.approx(theirs)


@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=5).flatmap(
        lambda ns: st.tuples(
            *(
                st.tuples(*(st.lists(st.sampled_from(TYPED), min_size=n, max_size=n) for _ in range(2)))
                for n in ns
            )
        )
    )
)
@settings(max_examples=60, deadline=None)
def test_the_conll_reading_equals_seqevals_on_whatever_hypothesis_finds(
    pairs: tuple[tuple[list[str], list[str]], ...],
) -> None:
    gold, predicted = [list(g) for g, _ in pairs], [list(p) for _, p in pairs]
    ours = score_tags(gold, predicted).overall
    assert (ours.precision, ours.recall, ours.f1) == pytest.approx(seqeval_scores(gold, predicted))


def test_a_mention_that_begins_with_i_is_right_leniently_and_wrong_strictly() -> None:
    # Gold B I O, B O, B; predicted I I O, B O, B. Leniently all 3 mentions are right. Strictly the first prediction is
    # no mention: 2 of 2 predicted are right, 2 of 3 found, F1 = 2*2/(2+3) = 0.8 (BENCHMARKS, B.3 number 3).
    gold = [["B", "I", "O"], ["B", "O"], ["B"]]
    predicted = [["I", "I", "O"], ["B", "O"], ["B"]]
    assert score_tags(gold, predicted).overall == Counts(3, 3, 3)
    assert score_tags(gold, predicted, strict=True).overall.f1 == pytest.approx(0.8)


def test_a_stray_i_costs_precision_leniently_and_nothing_strictly() -> None:
    # Gold has 3 mentions, all found; the stray I is a fourth prediction only for the lenient reader: F1 = 6/7.
    gold = [["B", "O", "O"], ["B", "O"], ["B"]]
    predicted = [["B", "O", "I"], ["B", "O"], ["B"]]
    assert score_tags(gold, predicted).overall.f1 == pytest.approx(6 / 7)
    assert score_tags(gold, predicted, strict=True).overall.f1 == 1.0


def test_types_are_scored_apart_and_a_wrong_type_is_wrong_twice() -> None:
    # X predicted as Y: one X missed, one Y invented.
    report = score_tags([["B-X", "O", "B-Y"]], [["B-Y", "O", "B-Y"]])
    assert report.types == {"X": Counts(0, 0, 1), "Y": Counts(1, 2, 1)}
    assert report.overall == Counts(1, 2, 2)
    assert report.macro_f1 == pytest.approx((0 + 2 / 3) / 2)


def test_no_mentions_at_all_is_zero_and_no_crash() -> None:
    assert score_tags([["O"]], [["O"]]).overall.f1 == 0.0
    assert score_tags([], []).macro_f1 == 0.0


def test_sentences_of_unequal_length_are_refused_by_number() -> None:
    with pytest.raises(ValueError, match="sentence 2: 1 gold tags, 2 predicted"):
        score_tags([["O"], ["O"]], [["O"], ["O", "O"]])
    with pytest.raises(ValueError, match="1 gold sentences, 0 predicted"):
        score_tags([["O"]], [])


def test_nested_spans_are_scored_span_by_span() -> None:
    # The outer mention is found, the inner is not; predicting the outer twice does not count twice.
    gold = [[Span(0, 5, "X"), Span(1, 2, "X")]]
    assert score_spans(gold, [[Span(0, 5, "X"), Span(0, 5, "X")]]).overall == Counts(1, 2, 2)


@pytest.mark.parametrize(
    ("gold", "predicted"),
    [
        (["B-A", "E-A", "S-A"], ["B-A", "I-A", "B-A"]),
        (["B-A", "L-A", "U-A"], ["B-A", "I-A", "B-A"]),
        (["B-A", "I-A", "B-A"], ["B-A", "E-A", "S-A"]),
    ],
)
def test_predictions_in_another_scheme_than_the_gold_tags_are_read_in_their_own(
    gold: list[str], predicted: list[str]
) -> None:
    """Taggers here write BIO, whatever they learned from."""
    assert score_tags([gold], [predicted], strict=True).overall.f1 == 1.0
    assert score_tags([gold], [["O", "I-A", "B-A"]], strict=True).overall.recall == 0.5
