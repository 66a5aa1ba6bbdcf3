"""From words to labels: windows, truncation, words that leave no piece."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from biosmith.tasks.inputs import Example, InputTransform
from biosmith.tasks.labels import LabelSet, Span, read_spans
from biosmith.tasks.network import load_tagger
from biosmith.tasks.tagged import TaggedSentence
from biosmith.tasks.tagging import Tagger, TorchEngine, training_examples

LABELS = LabelSet.of_types(["X"])


class Oracle:
    """An engine that tags the words of one mention, as far as it sees them, and remembers what it was shown."""

    def __init__(self, start: int, end: int) -> None:
        self.start, self.end = start, end
        self.shown: list[Example] = []

    def __call__(self, examples: Sequence[Example]) -> list[np.ndarray]:
        self.shown += examples
        scores = []
        for example in examples:
            inside = (example.words >= self.start) & (example.words < self.end)
            labels = np.where(inside, 2, 0)
            if inside.any():
                labels[np.argmax(inside)] = 1
            scores.append(5 * np.eye(3, dtype=np.float32)[labels])
        return scores


@pytest.fixture(scope="module")
def transform(tiny_model: Path) -> InputTransform:
    return InputTransform(tiny_model)


def test_a_mention_cut_by_a_window_is_taken_from_the_window_that_holds_it_whole(
    transform: InputTransform,
) -> None:
    # 600 words of one piece in windows of 512 (510 and two special tokens) with stride 128: the mention at 508-515 is
    # whole only in the second window.
    oracle = Oracle(508, 516)
    tagger = Tagger(transform, LABELS, oracle, max_length=512, stride=128)
    (tagged,) = tagger.tag([["a"] * 600], on_long="window")
    assert [(e.words[0], e.words[-1]) for e in oracle.shown] == [(0, 509), (382, 599)]
    assert all(len(e.ids) <= 512 for e in oracle.shown)
    assert read_spans(tagger.tags(tagged)) == [Span(508, 516, "X")]
    assert (tagged.windows, tagged.truncated) == (2, 0)


def test_truncation_is_counted_and_what_was_not_read_is_outside(transform: InputTransform) -> None:
    tagger = Tagger(transform, LABELS, Oracle(508, 516), max_length=512)
    (tagged,) = tagger.tag([["a"] * 600], on_long="truncate")
    assert (tagged.windows, tagged.truncated) == (1, 90)
    assert read_spans(tagger.tags(tagged)) == [Span(508, 510, "X")]
    assert len(tagged.labels) == len(tagged.probabilities) == 600


def test_words_that_leave_no_piece_go_on_with_the_mention_around_them(transform: InputTransform) -> None:
    # The uncased BERT normaliser drops control characters: "\x00" has no piece.
    words = ["a", "\x00", "b", "\x00", "c", "\x00"]
    tagger = Tagger(transform, LABELS, Oracle(0, 3), max_length=64)
    (tagged,) = tagger.tag([words])
    assert read_spans(tagger.tags(tagged)) == [Span(0, 3, "X")]
    assert tagged.truncated == 0


def test_sentences_without_words_or_pieces_are_no_crash(transform: InputTransform) -> None:
    tagger = Tagger(transform, LABELS, Oracle(0, 1), max_length=64)
    tagged = tagger.tag([[], ["\x00"], ["a"]])
    assert [tagger.tags(t) for t in tagged] == [[], ["O"], ["B-X"]]
    assert [tagger.tags(t) for t in tagger.tag([["\x00"], []])] == [["O"], []]


def test_a_word_longer_than_the_model_is_still_labelled(transform: InputTransform) -> None:
    # 40 letters that are no word of the vocabulary are 40 pieces; 16 fit.
    oracle = Oracle(1, 2)
    tagger = Tagger(transform, LABELS, oracle, max_length=18, stride=4)
    (tagged,) = tagger.tag([["a", "z" * 40, "b"]], on_long="window")
    assert all(len(e.ids) <= 18 for e in oracle.shown)
    assert tagger.tags(tagged) == ["O", "B-X", "O"]


def test_long_sentences_are_trained_on_in_full_and_no_mention_is_cut(transform: InputTransform) -> None:
    words = ("a",) * 30
    tags = ["O"] * 30
    tags[8:12] = ["B-X", "I-X", "I-X", "I-X"]
    sentence = TaggedSentence(words, tuple(tags), "f", 1)
    examples = training_examples([sentence], transform, LABELS, max_length=12)
    assert all(len(e.ids) <= 12 for e in examples)
    assert np.concatenate([e.words for e in examples]).tolist() == list(range(30))
    # Ten words fit; the first window ends at 8, where the mention begins.
    assert [e.words[0] for e in examples] == [0, 8, 18, 28]
    assert np.concatenate([e.target for e in examples]).tolist() == [LABELS.labels.index(t) for t in tags]


def test_only_first_pieces_carry_labels(transform: InputTransform) -> None:
    sentence = TaggedSentence(("qz", "a"), ("B-X", "O"), "f", 1)
    (example,) = training_examples([sentence], transform, LABELS, max_length=64)
    assert len(example.ids) == 5  # [CLS] q ##z a [SEP]
    assert example.picks.tolist() == [1, 3]
    assert example.target.tolist() == [1, 0]


def test_tags_of_another_scheme_are_translated(transform: InputTransform) -> None:
    sentence = TaggedSentence(("a", "b", "c"), ("S-X", "B-X", "E-X"), "f", 1)
    (example,) = training_examples([sentence], transform, LABELS, max_length=64)
    assert [LABELS.labels[i] for i in example.target] == ["B-X", "B-X", "I-X"]


def test_scores_do_not_depend_on_who_shares_the_batch(tuned: Path) -> None:
    engine = TorchEngine(load_tagger(tuned), torch.device("cpu"))
    transform = InputTransform(tuned)
    sentences = [["gout", "is", "rare"], ["aspirin"] * 20, ["x"], ["patients", "with", "anemia", "."] * 5]
    tagger = Tagger.load(tuned, device="cpu")
    assert tagger.max_length == 64
    shown: list[Example] = []

    def record(examples: Sequence[Example]) -> list[np.ndarray]:
        shown.extend(examples)
        return engine(examples)

    Tagger(transform, tagger.label_set, record, 64).tag(sentences)
    together = engine(shown)
    for example, scores in zip(shown, together, strict=True):
        (alone,) = engine([example])
        np.testing.assert_allclose(alone, scores, atol=1e-5)
