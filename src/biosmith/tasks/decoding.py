"""The best legal sequence of labels for each sentence (Viterbi, 1967), for many sentences at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from biosmith.tasks.labels import Transitions

SENTENCES_AT_ONCE = 512
FORBIDDEN = -1e9


class Chain(NamedTuple):
    """What a CRF has learnt: scores of steps (from, to), of the first and of the last label of a sentence."""

    steps_KK: NDArray[np.float32]
    begins_K: NDArray[np.float32]
    ends_K: NDArray[np.float32]


def log_softmax(scores_NK: NDArray[np.float32]) -> NDArray[np.float32]:
    """Log-probabilities of each row."""
    shifted = scores_NK - scores_NK.max(axis=1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)), dtype=np.float32)


def decode(
    scores_NK: NDArray[np.float32],
    lengths: NDArray[np.int64],
    transitions: Transitions,
    chain: Chain | None = None,
) -> NDArray[np.int64]:
    """The label of each word on the best path that breaks no rule of the scheme.

    Args:
        scores_NK: scores or log-probabilities of the words of all sentences, one sentence after another.
        lengths: words of each sentence; they add up to N.
        transitions: what may begin, follow and end.
        chain: scores of a CRF, added if given.

    Returns:
        Labels [N].
    """
    best_N = np.zeros(len(scores_NK), dtype=np.int64)
    starts = np.concatenate([[0], np.cumsum(lengths)])[:-1]
    # Sentences of like length go together, so that little of the padded work is wasted.
    order = np.argsort(-lengths, kind="stable")
    order = order[lengths[order] > 0]
    labels = scores_NK.shape[1]
    if chain is None:
        chain = Chain(np.zeros((labels, labels), np.float32), *np.zeros((2, labels), np.float32))
    allowed = Chain(
        np.where(transitions.follows, chain.steps_KK, FORBIDDEN),
        np.where(transitions.begins, chain.begins_K, FORBIDDEN),
        np.where(transitions.ends, chain.ends_K, FORBIDDEN),
    )
    for at in range(0, len(order), SENTENCES_AT_ONCE):
        chosen = order[at : at + SENTENCES_AT_ONCE]
        index_BW = starts[chosen][:, None] + np.arange(lengths[chosen[0]])
        mask_BW = np.arange(lengths[chosen[0]]) < lengths[chosen][:, None]
        scores_BWK = scores_NK[np.where(mask_BW, index_BW, 0)].astype(np.float64)
        path_BW = _paths(scores_BWK, lengths[chosen], allowed)
        best_N[index_BW[mask_BW]] = path_BW[mask_BW]
    return best_N


def _paths(
    scores_BWK: NDArray[np.float64],
    lengths_B: NDArray[np.int64],
    chain: Chain,
) -> NDArray[np.int64]:
    batch, words, labels = scores_BWK.shape
    came_from_BWK = np.zeros((batch, words, labels), dtype=np.int64)
    best_BK = scores_BWK[:, 0] + chain.begins_K
    for w in range(1, words):
        candidates_BKK = best_BK[:, :, None] + chain.steps_KK
        came_from_BWK[:, w] = candidates_BKK.argmax(axis=1)
        stepped_BK = candidates_BKK.max(axis=1) + scores_BWK[:, w]
        # A sentence that has ended keeps the score it ended with.
        best_BK = np.where((w < lengths_B)[:, None], stepped_BK, best_BK)
    path_BW = np.zeros((batch, words), dtype=np.int64)
    label_B = (best_BK + chain.ends_K).argmax(axis=1)
    rows = np.arange(batch)
    for w in range(words - 1, -1, -1):
        inside = w < lengths_B
        path_BW[:, w] = label_B
        if w > 0:
            label_B = np.where(inside, came_from_BWK[rows, w, label_B], label_B)
    return path_BW
