"""Kinds of errors, confusion, label bias."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from biosmith.tasks.labels import Span
from biosmith.tasks.metrics.bias import answer_bias, label_bias, labelling_statistics, tag_bias
from biosmith.tasks.metrics.breakdown import confusion, pair_mentions


def test_every_kind_of_error_is_told_apart() -> None:
    gold = [
        Span(0, 2, "Gene"),
        Span(3, 5, "Gene"),
        Span(6, 7, "Gene"),
        Span(8, 9, "Gene"),
        Span(20, 21, "Gene"),
    ]
    predicted = [
        Span(0, 2, "Gene"),
        Span(3, 4, "Gene"),  # one word short
        Span(6, 7, "Disease"),  # the span is right
        Span(8, 10, "Disease"),  # neither is
        Span(30, 31, "Gene"),  # nothing is there
    ]
    kinds = [pair.kind for pair in pair_mentions(gold, predicted)]
    assert kinds == ["right", "boundary", "type", "boundary and type", "missed", "spurious"]


def test_of_several_partners_the_one_of_the_same_type_comes_first_then_the_longest_overlap() -> None:
    # Both overlap by one word; only the second is a gene. The first is then spurious.
    pairs = pair_mentions([Span(2, 4, "Gene")], [Span(1, 3, "Disease"), Span(3, 5, "Gene")])
    assert {(p.kind, p.predicted) for p in pairs} == {
        ("boundary", Span(3, 5, "Gene")),
        ("spurious", Span(1, 3, "Disease")),
    }
    pairs = pair_mentions([Span(0, 4, "Gene")], [Span(0, 1, "Gene"), Span(1, 4, "Gene")])
    assert ("boundary", Span(0, 4, "Gene"), Span(1, 4, "Gene")) in pairs


SPANS = st.lists(
    st.builds(
        lambda start, length, type: Span(start, start + length, type),
        st.integers(0, 12),
        st.integers(1, 4),
        st.sampled_from("AB"),
    ),
    max_size=8,
)


@given(gold=SPANS, predicted=SPANS)
def test_every_mention_is_in_exactly_one_pair_and_right_ones_are_those_that_f1_counts(
    gold: list[Span], predicted: list[Span]
) -> None:
    from biosmith.tasks.metrics.entities import score_spans

    pairs = pair_mentions(gold, predicted)
    assert sorted(p.gold for p in pairs if p.gold) == sorted(gold)
    assert sorted(p.predicted for p in pairs if p.predicted) == sorted(predicted)
    right = sum(p.kind == "right" for p in pairs)
    assert right == score_spans([gold], [predicted]).overall.found
    swapped = {"missed": "spurious", "spurious": "missed"}
    other_way = sorted(p.kind for p in pair_mentions(predicted, gold))
    assert {swapped.get(k, k) for k in other_way} == {p.kind for p in pairs}


def test_confusion_is_scikit_learns() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    gold, predicted = list("aabbccacb"), list("abbbacccb")
    expected = metrics.confusion_matrix(gold, predicted, labels=["c", "a", "b"]).tolist()
    assert [list(row) for row in confusion(gold, predicted, ["c", "a", "b"]).counts] == expected
    with pytest.raises(ValueError, match="c: not among the labels a, b"):
        confusion(gold, predicted, ["a", "b"])
    with pytest.raises(ValueError, match="1 gold labels, 2 predicted"):
        confusion(["a"], ["a", "b"])


def test_label_bias_is_that_of_the_papers_formula() -> None:
    # ChemProt's training split in BLURB: 4,112 relations of five kinds, 13,923 negatives.
    labels = ["false"] * 13923 + ["CPR:4"] * 2227 + ["CPR:3"] * 756 + ["CPR:9"] * 727
    labels += ["CPR:6"] * 229 + ["CPR:5"] * 173
    assert label_bias(labels) == pytest.approx(4112 / 13923)
    assert tag_bias([["B", "I", "O", "O"], ["O", "O"]]) == 0.5
    # One answer is there four times, another once.
    assert answer_bias(["p53"] * 4 + ["BRCA1"]) == 0.25
    assert label_bias([]) == answer_bias([]) == 0.0


def test_sub_token_labels_are_counted_piece_by_piece() -> None:
    # "nephropathy" (B) is cut into 3 pieces: one B and two I; "of" stays one O.
    words, tags = ["diabetic", "nephropathy", "of", "mice"], ["B-D", "I-D", "O", "O"]
    cut = {"diabetic": 1, "nephropathy": 3, "of": 1, "mice": 2}
    found = labelling_statistics([(words, tags), (["mice"], ["B-D"])], lambda ws: [cut[w] for w in ws])
    assert found.whole_word == {"B-D": 2, "I-D": 1, "O": 2}
    assert found.sub_tokens == {"B-D": 2, "I-D": 4, "O": 3}
    assert (found.mentions, found.broken_mentions, found.broken_rate) == (2, 2, 1.0)
    assert found.pieces_per_word == (1 + 3 + 2) / 3
    assert found.as_dict()["whole_word"]["bias"] == 1.5
    with pytest.raises(ValueError, match="1 words, 2 tags, 1 numbers"):
        labelling_statistics([(["a"], ["O", "O"])], lambda ws: [1])
