"""Windows over long sequences."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from biosmith.tasks.windows import adjoining, farthest_from_an_edge, overlapping

SIZES = st.lists(st.integers(0, 5), min_size=1, max_size=60).map(np.array)


@given(SIZES, st.integers(6, 20))
def test_adjoining_windows_hold_every_word_once_and_fit(sizes: np.ndarray, room: int) -> None:
    windows = adjoining(sizes, room)
    assert [w for a, b in windows for w in range(a, b)] == list(range(len(sizes)))
    assert all(sizes[a:b].sum() <= room for a, b in windows)


@given(SIZES, st.integers(10, 20))
def test_every_run_no_longer_than_the_stride_lies_whole_in_some_overlapping_window(
    sizes: np.ndarray, room: int
) -> None:
    stride = room // 2
    windows = overlapping(sizes, room, stride)
    assert windows[0][0] == 0 and windows[-1][1] == len(sizes)
    for a, b in windows:
        assert sizes[a:b].sum() <= room
    for start in range(len(sizes)):
        for end in range(start + 1, len(sizes) + 1):
            # A run in the middle of the overlap needs one word to spare, for windows begin at words.
            if sizes[start:end].sum() <= stride - 5:
                assert any(a <= start and end <= b for a, b in windows), (start, end, windows)


def test_a_word_longer_than_the_room_is_a_window_of_its_own() -> None:
    assert adjoining(np.array([1, 9, 1]), 5) == [(0, 1), (1, 2), (2, 3)]
    assert overlapping(np.array([1, 9, 1]), 5, 2) == [(0, 1), (1, 2), (2, 3)]


def test_long_sentences_are_cut_between_mentions_unless_one_fills_the_room() -> None:
    sizes = np.ones(10, dtype=np.int64)
    # Words 3-6 are one mention: the first cut, at 5, moves back to its beginning.
    may_begin = [i not in (4, 5, 6) for i in range(10)]
    assert adjoining(sizes, 5, may_begin) == [(0, 3), (3, 8), (8, 10)]
    assert adjoining(sizes, 5, [i == 0 for i in range(10)]) == [(0, 5), (5, 10)]


def test_a_word_is_taken_from_the_window_in_which_it_lies_farthest_from_a_cut() -> None:
    # 600 words of one piece, room for 512, stride 128: the second window begins at 384. The middle of the overlap is
    # 448; what lies before it is farther from the cut at 512, what lies after it farther from the cut at 384.
    windows = overlapping(np.ones(600, dtype=np.int64), 512, 128)
    assert windows == [(0, 512), (384, 600)]
    chosen = farthest_from_an_edge(windows, 600)
    assert chosen[:448].tolist() == [0] * 448
    assert chosen[448:].tolist() == [1] * 152
    # The mention at 508-515 is whole only in the second window, and all of it is taken from there.
    assert set(chosen[508:516].tolist()) == {1}


def test_the_ends_of_a_sequence_are_no_cuts() -> None:
    assert farthest_from_an_edge([(0, 3)], 3).tolist() == [0, 0, 0]
