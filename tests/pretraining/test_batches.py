"""Micro-batches: purity, budgets, what is covered, and the agreement of packed arrays with the store."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

from biosmith.errors import BiosmithError, UsageError
from biosmith.pretraining.batches import IGNORE, Batch, BatchMaker, Counts, DataRules, hold_out
from biosmith.tokens.store import TokenStore
from pretraining.checks import documents_of_tokens, sequences_of

RULES = DataRules(seed=3, micro_tokens=4096, length=128)


def same(one: Batch, other: Batch) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(vars(one).values(), vars(other).values(), strict=True))


def test_a_batch_is_the_same_whatever_was_made_before_it(abstracts: TokenStore) -> None:
    # One maker goes through everything in order, a fresh one jumps straight to (epoch 1, batch 5).
    wanderer = BatchMaker(abstracts, RULES)
    for epoch in range(2):
        for index in range(6):
            last = wanderer.make(epoch, index)
    assert same(last, BatchMaker(abstracts, RULES).make(1, 5))
    assert same(last, pickle.loads(pickle.dumps(wanderer)).make(1, 5))
    assert not same(last, wanderer.make(0, 5))


def test_shapes_never_change(abstracts: TokenStore) -> None:
    # torch.compile(dynamic=False) would compile again for every new shape.
    maker = BatchMaker(abstracts, RULES)
    shapes = set()
    for epoch in range(2):
        for index in range(len(maker.plan(epoch))):
            batch = maker.make(epoch, index)
            arrays = [v for v in vars(batch).values() if isinstance(v, np.ndarray)]
            shapes.add(tuple((a.shape, a.dtype.str) for a in arrays))
    assert len(shapes) == 1


def test_every_token_of_the_store_is_used_once_in_an_epoch_but_for_the_dropped_ones_that_are_counted(
    abstracts: TokenStore,
) -> None:
    maker = BatchMaker(abstracts, replace(RULES, short_probability=0.1))
    total = Counts()
    for index in range(len(maker.plan(0))):
        total += maker.make(0, index).counts
    usable = int(abstracts.lengths[abstracts.lengths >= 2].sum())
    assert total.maskable + total.dropped == usable
    # Cuts at sentence starts make a few segments too long; that must stay rare.
    assert total.dropped < 0.01 * usable
    assert total.tokens == total.maskable + 3 * total.sequences


def test_budgets_hold_and_are_filled(abstracts: TokenStore) -> None:
    maker = BatchMaker(abstracts, replace(RULES, micro_tokens=16_384))
    count = len(maker.plan(0))
    batches = [maker.make(0, index) for index in range(count)]
    assert all(b.counts.tokens <= 16_384 and b.counts.overflow == 0 for b in batches)
    filled = sum(b.counts.tokens for b in batches[:-1]) / ((count - 1) * 16_384)
    assert filled > 0.96, (filled, batches[0].counts, batches[0].cu_seqlens.shape)


def test_cu_seqlens_cover_all_tokens_and_no_sequence_is_longer_than_the_limit(abstracts: TokenStore) -> None:
    # A token outside of every sequence would leave the attention kernel undefined numbers.
    for index in range(4):
        batch = BatchMaker(abstracts, RULES).make(0, index)
        lengths = np.diff(batch.cu_seqlens)
        assert batch.cu_seqlens[0] == 0 and batch.cu_seqlens[-1] == RULES.micro_tokens
        assert lengths.min() >= 0 and lengths.max() <= batch.max_seqlen
        starts = np.repeat(batch.cu_seqlens[:-1], lengths)
        assert np.array_equal(batch.position_ids_T, np.arange(RULES.micro_tokens) - starts)


def test_sequences_are_cls_a_sep_b_sep_with_parts_that_stand_in_the_store(abstracts: TokenStore) -> None:
    batch = BatchMaker(abstracts, RULES).make(0, 2)
    text = " ".join(map(str, abstracts.gather(np.arange(len(abstracts))).ids))
    for sequence in sequences_of(batch):
        assert sequence.ids[0] == 2 and sequence.ids[-1] == 3
        first_sep = int(np.flatnonzero(sequence.ids == 3)[0])
        assert np.array_equal(sequence.segments, np.arange(len(sequence.ids)) > first_sep)
        for part in (sequence.targets[1:first_sep], sequence.targets[first_sep + 1 : -1]):
            assert len(part) > 0
            assert " ".join(map(str, part)) in text


def test_without_next_sentence_prediction_a_sequence_is_cls_a_sep(abstracts: TokenStore) -> None:
    batch = BatchMaker(abstracts, replace(RULES, next_sentence=False)).make(0, 1)
    assert not batch.token_type_ids_T.any()
    assert (batch.next_sentence_labels_N == IGNORE).all()
    for sequence in sequences_of(batch):
        assert sequence.ids[0] == 2 and sequence.ids[-1] == 3 and (sequence.ids == 3).sum() == 1


def test_is_next_is_label_0_and_its_parts_follow_each_other_in_one_document(abstracts: TokenStore) -> None:
    # Devlin et al.: 0 = the second segment followed the first. Random pairs come from two documents.
    maker = BatchMaker(abstracts, replace(RULES, length=256, micro_tokens=8192))
    tokens = abstracts.gather(np.arange(len(abstracts)))
    seen = {0: 0, 1: 0}
    for index in range(4):
        for sequence in sequences_of(maker.make(0, index)):
            first_sep = int(np.flatnonzero(sequence.ids == 3)[0])
            first, second = sequence.targets[1:first_sep], sequence.targets[first_sep + 1 : -1]
            if min(len(first), len(second)) < 20:
                continue  # too short to be found without doubt
            one, two = documents_of_tokens(tokens, first), documents_of_tokens(tokens, second)
            if sequence.label == 0:
                assert any(a.document == b.document and a.stop == b.start for a in one for b in two)
            else:
                assert not any(a.document == b.document for a in one for b in two)
            seen[sequence.label] += 1
    assert min(seen.values()) > 20


def test_half_of_the_pairs_are_random(abstracts: TokenStore) -> None:
    counts = Counts()
    maker = BatchMaker(abstracts, RULES)
    for epoch in range(3):
        for index in range(len(maker.plan(epoch))):
            counts += maker.make(epoch, index).counts
    # Couples share their label, so the spread is that of half as many draws; 4 standard deviations.
    spread = 4 * np.sqrt(0.25 / (counts.sequences / 2))
    assert abs(counts.random_pairs / counts.sequences - 0.5) < spread


def test_a_store_of_one_document_is_refused_for_next_sentence_prediction(make_store) -> None:  # type: ignore[no-untyped-def]
    # Its "random" second part would come from the same document.
    store = make_store([500])
    with pytest.raises(BiosmithError, match="at least two documents"):
        BatchMaker(store, RULES)
    assert len(BatchMaker(store, replace(RULES, next_sentence=False)).plan(0)) == 1


def test_two_segments_of_one_document_never_become_a_random_pair(make_store) -> None:  # type: ignore[no-untyped-def]
    # Two documents of many segments: nearly half of all couples are of one document.
    store = make_store([4000, 3000])
    maker = BatchMaker(store, RULES)
    tokens = store.gather([0, 1])
    for index in range(len(maker.plan(0))):
        for sequence in sequences_of(maker.make(0, index)):
            first_sep = int(np.flatnonzero(sequence.ids == 3)[0])
            parts = sequence.targets[1:first_sep], sequence.targets[first_sep + 1 : -1]
            if sequence.label == 1 and min(map(len, parts)) >= 12:
                one, two = (documents_of_tokens(tokens, part) for part in parts)
                assert {p.document for p in one} != {p.document for p in two} or len(one) + len(two) > 2


def test_budgets_too_small_for_a_sequence_are_refused(abstracts: TokenStore) -> None:
    with pytest.raises(UsageError, match="at least 256"):
        BatchMaker(abstracts, replace(RULES, micro_tokens=200))


def test_documents_kept_for_evaluation_are_never_trained_on(make_store) -> None:  # type: ignore[no-untyped-def]
    store = make_store([50] * 100)
    kept = hold_out(store, 10)
    assert kept.sum() == 10 and np.array_equal(kept, hold_out(store, 10))
    maker = BatchMaker(store, replace(RULES, short_probability=0.0), ~kept)
    plan = maker.plan(0)
    used = np.concatenate([plan.locate(plan.sequences_of(i)).documents for i in range(len(plan))])
    assert sorted(used) == np.flatnonzero(~kept).tolist()


@pytest.mark.parametrize("lengths", [[1, 1, 2, 3], [2, 2], [1, 300, 1, 2], [2] * 50 + [1000]])
def test_tiny_documents_make_valid_batches(make_store, lengths: list[int]) -> None:  # type: ignore[no-untyped-def]
    # Documents of one token cannot be cut in two; the rest must come through.
    maker = BatchMaker(make_store(lengths), replace(RULES, short_probability=0.5))
    total = Counts()
    for epoch in range(3):
        total = Counts()
        for index in range(len(maker.plan(epoch))):
            batch = maker.make(epoch, index)
            total += batch.counts
            for sequence in sequences_of(batch):
                assert (sequence.ids == 3).sum() == 2 and len(sequence.ids) >= 5
        assert total.maskable + total.dropped == sum(n for n in lengths if n >= 2)
