"""Packing by stream and by sentences, and mixtures of stores."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from biosmith.errors import BiosmithError, UsageError
from biosmith.pretraining.batches import BatchMaker, Counts, DataRules, hold_out
from biosmith.pretraining.loading import Cursor, requests
from biosmith.pretraining.mixing import MixedStores
from biosmith.tokens.store import TokenStore
from pretraining.checks import documents_of_tokens, sequences_of

RULES = DataRules(seed=3, micro_tokens=4096, length=128, next_sentence=False, pack="stream")


def all_batches(maker: BatchMaker, epoch: int = 0):  # type: ignore[no-untyped-def]
    return [maker.make(epoch, index) for index in range(len(maker.plan(epoch)))]


def test_a_stream_fills_every_sequence_and_uses_every_token_once(abstracts: TokenStore) -> None:
    batches = all_batches(BatchMaker(abstracts, RULES))
    total = sum((b.counts for b in batches), Counts())
    assert total.dropped == 0
    ids = Counter(np.concatenate([s.targets for b in batches for s in sequences_of(b)]).tolist())
    expected = Counter(abstracts.gather(np.arange(len(abstracts))).ids.tolist())
    for special in (2, 3):
        del ids[special]
    assert ids == expected
    # All but the stream's last sequence hold 128 tokens, or 127 where the cut falls on a [SEP].
    assert total.tokens > total.sequences * 127 - 128
    assert total.tokens > total.sequences * 127.9


def test_cuts_by_sentences_lie_at_sentence_starts(abstracts: TokenStore) -> None:
    maker = BatchMaker(abstracts, replace(RULES, pack="sentences", length=256))
    tokens = abstracts.gather(np.arange(len(abstracts)))
    begins = at_start = 0
    total = sum((b.counts for b in all_batches(maker)), Counts())
    assert total.maskable + total.dropped == abstracts.tokens and total.dropped < 0.02 * abstracts.tokens
    for sequence in sequences_of(maker.make(0, 1)):
        first = sequence.targets[1 : int(np.flatnonzero(sequence.ids == 3)[0])]
        places = documents_of_tokens(tokens, first)
        if len(first) >= 15 and len(places) == 1:
            begins += 1
            at_start += bool(tokens.sentence_starts[places[0].start])
    assert begins > 15 and at_start == begins


def test_documents_of_a_stream_are_divided_by_sep(make_store) -> None:  # type: ignore[no-untyped-def]
    store = make_store([5] * 200)
    batch = BatchMaker(store, replace(RULES, micro_tokens=512)).make(0, 0)
    for sequence in sequences_of(batch):
        gaps = np.diff(np.flatnonzero(sequence.ids == 3))
        assert (gaps[:-1] == 6).all()  # five tokens and the next [SEP]


def test_batches_of_a_stream_are_pure_functions_too(abstracts: TokenStore) -> None:
    for pack in ("stream", "sentences"):
        rules = replace(RULES, pack=pack)
        wanderer = BatchMaker(abstracts, rules)
        for index in (0, 4, 2):
            last = wanderer.make(1, index)
        fresh = BatchMaker(abstracts, rules).make(1, 2)
        assert np.array_equal(last.input_ids_T, fresh.input_ids_T)
        assert not np.array_equal(last.input_ids_T, fresh.input_ids_T[::-1])


def test_streams_have_no_pairs() -> None:
    with pytest.raises(UsageError, match="no pairs for next sentence prediction"):
        replace(RULES, next_sentence=True)


def test_weights_say_how_often_an_epoch_goes_over_each_store(make_store) -> None:  # type: ignore[no-untyped-def]
    small, large = make_store([10] * 400, seed=1), make_store([20] * 300, seed=2)
    mixed = MixedStores([small, large], [2.5, 0.5])
    maker = BatchMaker(mixed, replace(RULES, pack="documents"))
    for epoch in (0, 1):
        plan = maker.plan(epoch)
        documents = np.concatenate([plan.locate(plan.sequences_of(i)).documents for i in range(len(plan))])  # type: ignore[union-attr,arg-type]
        seen = np.bincount(mixed.originals(documents), minlength=700)
        assert set(seen[:400]) == {2, 3} and abs(seen[:400].mean() - 2.5) < 0.1
        assert set(seen[400:]) == {0, 1} and abs(seen[400:].mean() - 0.5) < 0.12


def test_mixed_stores_give_the_tokens_of_their_documents(make_store) -> None:  # type: ignore[no-untyped-def]
    one, two = make_store([10, 30, 50], seed=1), make_store([20, 40], seed=2)
    mixed = MixedStores([one, two], [1, 2])
    read = mixed.gather([4, 1, 6, 0], [0, 5, 0, 0], [40, 30, 40, 10])
    parts = [read.ids[a:b] for a, b in zip(read.offsets[:-1], read.offsets[1:], strict=True)]
    expected = [two.gather([1]).ids, one.gather([1]).ids[5:], two.gather([1]).ids, one.gather([0]).ids]
    assert all(np.array_equal(a, b) for a, b in zip(parts, expected, strict=True))


def test_all_copies_of_a_document_are_held_out_together(make_store) -> None:  # type: ignore[no-untyped-def]
    mixed = MixedStores([make_store([10] * 40), make_store([10] * 20)], [3, 1])
    kept = hold_out(mixed, 6)
    originals = mixed.originals(np.flatnonzero(kept))
    assert len(set(originals.tolist())) == 6
    assert sorted(np.flatnonzero(kept).tolist()) == [
        d for d in range(len(mixed)) if int(mixed.originals(np.array([d]))[0]) in set(originals.tolist())
    ]


def test_copies_of_one_document_never_make_a_random_pair(make_store) -> None:  # type: ignore[no-untyped-def]
    # Two documents, ten copies each: half of the couples are of one document.
    mixed = MixedStores([make_store([60, 60])], [10])
    maker = BatchMaker(mixed, replace(RULES, pack="documents", next_sentence=True))
    tokens = mixed.gather([0, 1])
    for batch in all_batches(maker):
        for sequence in sequences_of(batch):
            first_sep = int(np.flatnonzero(sequence.ids == 3)[0])
            parts = sequence.targets[1:first_sep], sequence.targets[first_sep + 1 : -1]
            if min(map(len, parts)) >= 10 and sequence.label == 1:
                one, two = (documents_of_tokens(tokens, part) for part in parts)
                assert {p.document for p in one} != {p.document for p in two}


@pytest.mark.parametrize("pack", ["documents", "stream"])
def test_epochs_that_a_small_weight_leaves_empty_are_passed_over(make_store, pack: str) -> None:  # type: ignore[no-untyped-def]
    maker = BatchMaker(MixedStores([make_store([60])], [0.2]), replace(RULES, pack=pack))
    full = [epoch for epoch in range(200) if len(maker.plan(epoch))]
    assert 0 < len(full) < 100
    wanted = list(requests([maker], Cursor(), [0] * 5, [None] * 5, 2))
    assert [request.epoch for request in wanted] == full[:10]
    assert all(maker.make(r.epoch, r.place).counts.sequences for r in wanted)
    # A run that stopped after three steps goes on with the same.
    assert list(requests([maker], wanted[5].after, [0] * 2, [None] * 2, 2)) == wanted[6:]
    never = BatchMaker(MixedStores([make_store([60])], [1e-15]), replace(RULES, pack=pack))
    with pytest.raises(BiosmithError, match="raise the weights of the token stores"):
        next(requests([never], Cursor(), [0], [None], 1))


def test_stores_of_different_vocabularies_cannot_be_mixed(make_store) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(BiosmithError, match="was made with vocabulary"):
        MixedStores([make_store([10]), make_store([10], digest="e" * 64)])
    with pytest.raises(UsageError, match="one weight for each"):
        MixedStores([make_store([10])], [1.0, 2.0])
