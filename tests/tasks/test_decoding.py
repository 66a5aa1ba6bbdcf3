"""Constrained decoding, beside brute force over all paths."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from biosmith.tasks.decoding import Chain, decode, log_softmax
from biosmith.tasks.labels import LabelSet, read_spans, read_spans_strictly


def best_by_brute_force(scores: np.ndarray, label_set: LabelSet, weights: np.ndarray | None) -> float:
    legal = label_set.transitions()
    best = -np.inf
    for path in itertools.product(range(scores.shape[1]), repeat=len(scores)):
        if not (legal.begins[path[0]] and legal.ends[path[-1]]):
            continue
        if all(legal.follows[a, b] for a, b in itertools.pairwise(path)):
            best = max(best, path_score(scores, path, weights))
    return best


def path_score(scores: np.ndarray, path: tuple[int, ...], weights: np.ndarray | None) -> float:
    total = float(sum(scores[i, label] for i, label in enumerate(path)))
    return total + (
        0.0 if weights is None else float(sum(weights[a, b] for a, b in itertools.pairwise(path)))
    )


@pytest.mark.parametrize("scheme", ["IO", "BIO", "IOBES"])
@pytest.mark.parametrize("learned", [False, True])
def test_the_path_is_legal_and_no_legal_path_scores_higher(scheme: str, learned: bool) -> None:
    rng = np.random.default_rng(5)
    label_set = LabelSet.of_types(["X", "Y"] if scheme != "IOBES" else ["X"], scheme)
    k = len(label_set.labels)
    weights = rng.normal(size=(k, k)).astype(np.float32) if learned else None
    lengths = np.array([3, 1, 0, 4, 2, 4])
    scores = rng.normal(size=(lengths.sum(), k)).astype(np.float32)
    chain = None if weights is None else Chain(weights, *np.zeros((2, k), np.float32))
    labels = decode(scores, lengths, label_set.transitions(), chain)
    ends = np.cumsum(lengths)
    for n, end in zip(lengths, ends, strict=True):
        if n == 0:
            continue
        path = tuple(labels[end - n : end])
        tags = [label_set.labels[i] for i in path]
        assert read_spans(tags) == read_spans_strictly(tags, scheme)
        best = best_by_brute_force(scores[end - n : end], label_set, weights)
        assert path_score(scores[end - n : end], path, weights) == pytest.approx(best, abs=1e-5)


def test_an_inside_without_a_beginning_gives_way_to_the_better_of_its_repairs() -> None:
    # Best labels one by one: O, I. Illegal. B I scores 1 + 3, O O scores 2 + 0: B I wins.
    label_set = LabelSet.of_types([""])
    scores = np.array([[2.0, 1.0, 0.0], [0.0, 0.0, 3.0]], dtype=np.float32)
    assert [label_set.labels[i] for i in decode(scores, np.array([2]), label_set.transitions())] == ["B", "I"]


def test_many_sentences_are_decoded_as_one_by_one() -> None:
    rng = np.random.default_rng(0)
    label_set = LabelSet.of_types(["X"], "IOBES")
    lengths = rng.integers(0, 40, size=1500)
    scores = rng.normal(size=(lengths.sum(), 5)).astype(np.float32)
    together = decode(scores, lengths, label_set.transitions())
    ends = np.cumsum(lengths)
    for n, end in list(zip(lengths, ends, strict=True))[::50]:
        alone = decode(scores[end - n : end], np.array([n]), label_set.transitions())
        np.testing.assert_array_equal(together[end - n : end], alone)


def test_probabilities_add_up_to_one() -> None:
    scores = np.array([[1000.0, 0.0], [-3.0, -3.0]], dtype=np.float32)
    np.testing.assert_allclose(np.exp(log_softmax(scores)).sum(axis=1), 1.0, rtol=1e-6)
