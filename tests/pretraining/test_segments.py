"""Documents to segments: every token once, cuts at sentence starts, limits kept."""

from __future__ import annotations

import numpy as np
import pytest

from biosmith.pretraining.packing import EpochPlan, PackingRules
from biosmith.pretraining.segments import SegmentRules, Segments, nearest_mark, snap_segments
from biosmith.tokens.store import TokenStore


@pytest.mark.parametrize("short", [0.0, 0.1, 1.0])
def test_the_segments_of_a_document_tile_it_and_begin_at_sentence_starts(
    abstracts: TokenStore, short: float
) -> None:
    segments = Segments(abstracts.lengths, SegmentRules(125, 1, short), seed=1, epoch=0)
    bounds = segments.locate(np.arange(len(segments)))
    read = abstracts.gather(bounds.documents, *bounds.with_margin())
    starts, stops = snap_segments(bounds, read.offsets, read.word_starts, read.sentence_starts)
    inside = read.offsets[:-1] - bounds.with_margin()[0]
    starts, stops = starts - inside, stops - inside
    for document in range(len(abstracts)):
        mine = np.flatnonzero(bounds.documents == document)
        assert starts[mine[0]] == 0 and stops[mine[-1]] == abstracts.lengths[document]
        assert np.array_equal(stops[mine[:-1]], starts[mine[1:]])
        marks = abstracts.gather([document])
        # Sentences have at most 41 words, 1.67 pieces each: one starts within 64 tokens of nearly any cut.
        assert marks.word_starts[starts[mine][starts[mine] < abstracts.lengths[document]]].all()
    begins = starts[starts > 0]
    at_sentence = read.sentence_starts[(starts + inside)[(starts > 0) & (stops > starts)]]
    assert len(begins) > 100 and at_sentence.mean() > 0.98


def test_without_short_sequences_a_document_that_fits_stays_whole() -> None:
    lengths = np.array([1, 125, 126, 0, 1000], dtype=np.int32)
    segments = Segments(lengths, SegmentRules(125), seed=1, epoch=0)
    counts = np.diff(segments.first)
    assert counts.tolist() == [1, 1, 2, 0, 10]  # 1000 / (125 - 16) = 9.2


def test_one_document_in_ten_is_cut_short_and_another_one_every_epoch() -> None:
    lengths = np.full(20_000, 400, dtype=np.int32)
    cut = [np.diff(Segments(lengths, SegmentRules(509, 1, 0.1), 1, epoch).first) > 1 for epoch in (0, 1)]
    # A short limit between 32 and 509 cuts a document of 400 tokens in 368 of 478 cases.
    expected = 0.1 * (400 - 32) / (509 - 32 + 1)
    assert all(abs(c.mean() - expected) < 0.008 for c in cut)
    assert (cut[0] & cut[1]).mean() < 2 * expected**2 + 0.002


def test_nearest_mark_by_hand() -> None:
    marks = np.array([3, 10, 20])
    at = np.array([0, 6, 7, 15, 30, 10])
    low, high = np.full(6, -1), np.full(6, 100)
    # 15 lies between 10 and 20: a tie goes left.
    assert nearest_mark(marks, at, low, high).tolist() == [3, 3, 10, 10, 20, 10]
    assert nearest_mark(marks, at, np.full(6, 10), np.full(6, 20)).tolist() == [-1] * 6
    assert nearest_mark(np.zeros(0, dtype=np.int64), at, low, high).tolist() == [-1] * 6


def test_an_epoch_holds_every_segment_once_in_an_order_of_its_own(abstracts: TokenStore) -> None:
    plans = [
        EpochPlan(
            abstracts.lengths, SegmentRules(509), PackingRules(8192, 64, 512, 3, 2), seed=5, epoch=epoch
        )
        for epoch in (0, 1)
    ]
    orders = []
    for plan in plans:
        places = np.concatenate([plan.sequences_of(i) for i in range(len(plan))])
        assert np.array_equal(places, np.arange(len(plan.segments)))
        bounds = plan.locate(places)
        assert len({*zip(bounds.documents.tolist(), bounds.starts.tolist(), strict=True)}) == len(places)
        orders.append(bounds.documents)
    assert (orders[0] == orders[1]).mean() < 0.05


def test_planning_in_pieces_gives_the_same_plan(
    abstracts: TokenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The memory of a plan is bounded by planning some groups at a time; where the pieces end must not show.
    rules = SegmentRules(125, 2, 0.1), PackingRules(4096, 96, 128, 3, 2)
    whole = EpochPlan(abstracts.lengths, *rules, seed=5, epoch=0)
    monkeypatch.setattr("biosmith.pretraining.packing.CHUNK", 7)
    assert np.array_equal(
        EpochPlan(abstracts.lengths, *rules, seed=5, epoch=0)._first_group, whole._first_group
    )
