"""Errors of a tagger, sorted."""

from __future__ import annotations

import json

import pytest

from biosmith.bench.errors import analyse_mentions, is_abbreviation
from biosmith.tasks.metrics.counts import Counts
from biosmith.tasks.tagged import TaggedSentence


def sentence(text: str, tags: str) -> TaggedSentence:
    return TaggedSentence(tuple(text.split()), tuple(tags.split()), "test.tsv", 1)


TRAINING = [sentence("Diabetic Nephropathy is rare", "B I O O")]


def test_a_mention_is_counted_in_the_row_of_its_own_length() -> None:
    # Gold: two words; predicted: one. The row of two words has a gold mention that is missed, that of one word a
    # predicted one that is wrong.
    analysis = analyse_mentions([sentence("diabetic nephropathy", "B I")], [["B", "O"]], TRAINING)
    assert analysis.by_length["2"] == Counts(found=0, predicted=0, gold=1)
    assert analysis.by_length["1"] == Counts(found=0, predicted=1, gold=0)
    assert analysis.kinds["boundary"] == 1
    # The gold mention is one of training, in another case; the predicted one is not.
    assert analysis.by_seen == {"seen": Counts(0, 0, 1), "unseen": Counts(0, 1, 0)}


def test_rows_add_up_to_the_score_and_errors_can_be_shown() -> None:
    gold = [sentence("COPD and diabetic nephropathy", "B O B I"), sentence("no gout", "O B")]
    analysis = analyse_mentions(gold, [["B", "O", "B", "I"], ["B", "O"]], TRAINING)
    assert analysis.by_abbreviation == {"abbreviation": Counts(1, 1, 1), "other": Counts(1, 2, 2)}
    for table in (analysis.by_length, analysis.by_seen, analysis.by_abbreviation):
        assert sum(table.values(), Counts()) == Counts(found=2, predicted=3, gold=3)
    assert analysis.types.labels == ("_", "(nothing)")
    assert analysis.types.counts == ((2, 1), (1, 0))
    shown = json.loads(json.dumps(analysis.as_dict()))
    assert [(e["kind"], e["sentence"]) for e in shown["errors"]] == [("spurious", 1), ("missed", 1)]
    assert shown["errors"][1]["gold"] == {"start": 1, "end": 2, "type": "", "text": "gout"}
    assert analysis.as_dict(examples=0)["errors"] == []


def test_tags_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="sentence 1: 2 words, 1 predicted tags"):
        analyse_mentions([sentence("no gout", "O B")], [["O"]])
    with pytest.raises(ValueError, match="1 gold sentences, 0 predicted"):
        analyse_mentions([sentence("no gout", "O B")], [])


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("RA", True),
        ("IL - 2", True),
        ("mRNA", True),
        ("p53", False),
        ("Gout", False),
        ("OSTEOARTHRITIS", False),
    ],
)
def test_short_forms_are_told_by_their_capitals(words: str, expected: bool) -> None:
    assert is_abbreviation(words.split()) is expected
