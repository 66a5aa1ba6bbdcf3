"""Batches: order and packing."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from biosmith.tasks.batches import length_order, pack, training_order
from biosmith.tasks.inputs import Example


def example(*ids: int, types: list[int] | None = None) -> Example:
    return Example(
        np.array(ids, np.int32),
        np.array([0, len(ids) - 1], np.int32),
        np.array([ids[0], ids[-1]], np.int64),
        0,
        np.arange(2, dtype=np.int32),
        None if types is None else np.array(types, np.int32),
    )


def test_every_example_comes_once_an_epoch_in_an_order_that_seed_and_epoch_decide() -> None:
    first = training_order(103, 8, seed=1, epoch=0)
    assert [len(b) for b in first] == [8] * 12 + [7]
    assert sorted(np.concatenate(first).tolist()) == list(range(103))
    again = training_order(103, 8, seed=1, epoch=0)
    assert all((a == b).all() for a, b in zip(first, again, strict=True))
    for seed, epoch in ((2, 0), (1, 1)):
        other = np.concatenate(training_order(103, 8, seed, epoch))
        assert (other != np.concatenate(first)).mean() > 0.9


@given(st.lists(st.integers(1, 50), min_size=1, max_size=40), st.integers(20, 120))
def test_batches_by_length_hold_every_sequence_once_within_the_budget(
    lengths: list[int], budget: int
) -> None:
    batches = length_order(np.array(lengths), budget)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))
    assert all(sum(lengths[m] for m in b) <= budget or len(b) == 1 for b in batches)


def test_packed_sequences_keep_their_positions_picks_and_targets() -> None:
    # The shorter goes first: [7 8] [1 2 3 4]; picks are the first and last token of each.
    examples = [example(1, 2, 3, 4, types=[0, 0, 1, 1]), example(7, 8)]
    batch = pack(examples, np.array([0, 1]))
    assert batch.members.tolist() == [1, 0]
    assert batch.input_ids_T.tolist() == [7, 8, 1, 2, 3, 4]
    assert batch.position_ids_T.tolist() == [0, 1, 0, 1, 2, 3]
    assert batch.token_type_ids_T.tolist() == [0, 0, 0, 0, 1, 1]
    assert batch.cu_seqlens.tolist() == [0, 2, 6]
    assert batch.longest == 4
    assert batch.picks_K.tolist() == [0, 1, 2, 5]
    assert batch.target.tolist() == [7, 8, 1, 4]
