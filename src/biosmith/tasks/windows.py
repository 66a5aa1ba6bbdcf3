"""Windows over sequences that are longer than a model reads: which words each holds, and whose word counts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Sizes = NDArray[np.int64]


def fitting(sizes: Sizes, room: int, start: int = 0) -> int:
    """Past-the-last word of the longest run from `start` whose pieces fit; at least one word, however long it is."""
    # Window by window, not over all that is left: nearly all words have pieces, and a text may have millions.
    end, filled = start, 0
    while end < len(sizes):
        total = filled + np.cumsum(sizes[end : end + room + 1])
        fits = int(np.searchsorted(total, room, side="right"))
        end += fits
        if fits < len(total):
            break
        filled = int(total[-1])
    return max(start + 1, end)


def adjoining(sizes: Sizes, room: int, may_begin: Sequence[bool] | None = None) -> list[tuple[int, int]]:
    """Cut words into runs that fit, none of them twice: how long sentences are trained on.

    Args:
        sizes: pieces of each word.
        room: pieces that fit.
        may_begin: where a run may begin, so that no mention is cut; ignored where that would leave nothing.
    """
    windows: list[tuple[int, int]] = []
    start = 0
    while start < len(sizes):
        end = fitting(sizes, room, start)
        if end < len(sizes) and may_begin is not None:
            cut = end
            while cut > start and not may_begin[cut]:
                cut -= 1
            end = cut if cut > start else end
        windows.append((start, end))
        start = end
    return windows


def overlapping(sizes: Sizes, room: int, stride: int) -> list[tuple[int, int]]:
    """Runs of words that fit, each beginning at most `stride` pieces before the end of the one before it.

    Every run of words of at most `stride` pieces lies whole in one of the windows, and so does every mention if
    `stride` is at least the longest one.
    """
    windows: list[tuple[int, int]] = []
    start = 0
    while True:
        end = fitting(sizes, room, start)
        windows.append((start, end))
        if end >= len(sizes):
            return windows
        back = np.cumsum(sizes[start:end][::-1])
        shared = int(np.searchsorted(back, stride, side="right"))
        start = max(start + 1, end - shared)


def farthest_from_an_edge(windows: Sequence[tuple[int, int]], words: int) -> NDArray[np.int64]:
    """For each word the window in which it lies farthest from a cut; the ends of the sequence are no cuts."""
    best = np.full(words, -1, dtype=np.int64)
    chosen = np.zeros(words, dtype=np.int64)
    for number, (start, end) in enumerate(windows):
        inside = np.arange(start, end)
        left = inside - start if start > 0 else np.full(end - start, words)
        right = end - 1 - inside if end < words else np.full(end - start, words)
        distance = np.minimum(left, right)
        wins = distance > best[start:end]
        best[start:end][wins] = distance[wins]
        chosen[start:end][wins] = number
    return chosen
