"""Sentence order: the parts of one text, half of them exchanged; second segments without a question about them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from biosmith.errors import UsageError
from biosmith.models.bert import BertConfig
from biosmith.pretraining.batches import IGNORE, BatchMaker, Counts, DataRules
from biosmith.pretraining.config import (
    MaskedLanguageModel,
    NextSentencePrediction,
    Recipe,
    SentenceOrderPrediction,
)
from biosmith.pretraining.metrics import read_metrics
from biosmith.pretraining.run import pretrain
from biosmith.pretraining.sentence_order import OrderRules
from biosmith.tokens.store import TokenStore
from pretraining.checks import documents_of_tokens, sequences_of
from pretraining.conftest import write_random_store
from pretraining.test_run import INLINE, TINY

RULES = DataRules(seed=3, micro_tokens=8_192, length=256, next_sentence=False, order=OrderRules())
PLAIN = replace(
    RULES,
    order=OrderRules(swap_probability=None, second_probability=0.9, cut="middle"),
    short_probability=0.05,
)


def test_label_0_is_the_order_of_the_text_and_1_the_exchanged_one(abstracts: TokenStore) -> None:
    # google-research/albert and transformers' AlbertForPreTraining: 0 = in order, 1 = exchanged; both parts always
    # come from one running text, unlike next sentence prediction's.
    maker = BatchMaker(abstracts, RULES)
    tokens = abstracts.gather(np.arange(len(abstracts)))
    seen = {0: 0, 1: 0}
    for index in range(3):
        for sequence in sequences_of(maker.make(0, index)):
            first_sep = int(np.flatnonzero(sequence.ids == 3)[0])
            assert np.array_equal(sequence.segments, np.arange(len(sequence.ids)) > first_sep)
            first, second = sequence.targets[1:first_sep], sequence.targets[first_sep + 1 : -1]
            if min(len(first), len(second)) < 20:
                continue  # too short to be found without doubt
            one, two = documents_of_tokens(tokens, first), documents_of_tokens(tokens, second)
            before, after = (one, two) if sequence.label == 0 else (two, one)
            assert any(a.document == b.document and a.stop == b.start for a in before for b in after)
            seen[sequence.label] += 1
    assert min(seen.values()) > 10


def test_half_of_the_pairs_are_exchanged_and_each_epoch_draws_anew(abstracts: TokenStore) -> None:
    maker = BatchMaker(abstracts, RULES)
    counts = Counts()
    for epoch in range(2):
        for index in range(12):
            counts += maker.make(epoch, index).counts
    # 4 standard deviations of a fair coin.
    assert abs(counts.random_pairs / counts.sequences - 0.5) < 4 * np.sqrt(0.25 / counts.sequences)
    one, other = (maker.make(epoch, 0).next_sentence_labels_N[:20] for epoch in (0, 1))
    assert not np.array_equal(one, other)


def test_the_cut_is_at_a_sentence_start_wherever_the_segment_has_one(abstracts: TokenStore) -> None:
    maker = BatchMaker(abstracts, replace(RULES, order=OrderRules(swap_probability=0.0)))
    tokens = abstracts.gather(np.arange(len(abstracts)))
    found = 0
    for sequence in sequences_of(maker.make(0, 1)):
        first_sep = int(np.flatnonzero(sequence.ids == 3)[0])
        second = sequence.targets[first_sep + 1 : -1]
        whole = np.concatenate([sequence.targets[1:first_sep], second])
        for place in documents_of_tokens(tokens, whole):
            inner = tokens.sentence_starts[place.start + 1 : place.stop]
            if inner.any():
                assert tokens.sentence_starts[place.stop - len(second)]
                found += 1
    assert found > 20


def test_every_token_is_used_once_an_epoch(make_store) -> None:  # type: ignore[no-untyped-def]
    store = make_store([1, 2, *(30 + 11 * (i % 60) for i in range(120))])
    for rules in (RULES, PLAIN):
        maker = BatchMaker(store, rules)
        total = Counts()
        for index in range(len(maker.plan(0))):
            total += maker.make(0, index).counts
        usable = int(store.lengths[store.lengths >= (2 if rules is RULES else 1)].sum())
        assert total.maskable + total.dropped == usable
        assert total.dropped < 0.01 * usable


def test_one_document_is_enough(make_store) -> None:  # type: ignore[no-untyped-def]
    # Next sentence prediction needs a second one; sentence order does not.
    batch = BatchMaker(make_store([500]), RULES).make(0, 0)
    assert set(batch.next_sentence_labels_N[: batch.counts.sequences]) <= {0, 1}


def test_plain_second_segments_follow_the_first_in_nine_of_ten_sequences(abstracts: TokenStore) -> None:
    # google-research/electra, build_pretraining_dataset.py: one in ten has a single segment; the first is filled to
    # half of the longest sequence, so that a text shorter than that is a single segment as well.
    maker = BatchMaker(abstracts, PLAIN)
    tokens = abstracts.gather(np.arange(len(abstracts)))
    cut = whole = 0
    for index in range(15):
        batch = maker.make(0, index)
        assert (batch.next_sentence_labels_N == IGNORE).all() and batch.counts.random_pairs == 0
        for number, sequence in enumerate(sequences_of(batch)):
            seps = np.flatnonzero(sequence.ids == 3)
            if len(sequence.ids) - len(seps) - 1 <= (256 - 3) // 2:
                assert len(seps) == 1 and not sequence.segments.any()
                continue
            cut, whole = cut + (len(seps) == 2), whole + (len(seps) == 1)
            if len(seps) == 2 and index == 0 and number < 10:
                parts = sequence.targets[1 : seps[0]], sequence.targets[seps[0] + 1 : -1]
                assert documents_of_tokens(tokens, np.concatenate(parts))
    spread = 4 * np.sqrt(0.9 * 0.1 / (cut + whole))
    assert abs(cut / (cut + whole) - 0.9) < spread


def test_two_objectives_over_pairs_are_refused() -> None:
    both = (MaskedLanguageModel(), NextSentencePrediction(), SentenceOrderPrediction())
    with pytest.raises(
        UsageError, match="only one of next_sentence_prediction and sentence_order_prediction"
    ):
        Recipe(name="x", paper="x", objectives=both)
    with pytest.raises(UsageError, match="not for both"):
        replace(RULES, next_sentence=True)
    with pytest.raises(UsageError, match="swap_probability must lie between 0 and 1, not 2"):
        OrderRules(swap_probability=2)
    with pytest.raises(UsageError, match=r"batch\.pack=stream runs documents together"):
        replace(RULES, pack="stream")


def test_a_run_learns_and_logs_the_order_with_its_weight(tmp_path: Path) -> None:
    write_random_store(tmp_path / "tokens", [20 + 7 * (i % 30) for i in range(60)], seed=3)
    recipe = replace(
        TINY,
        model=BertConfig(vocabulary_size=1000, layers=1, width=16, heads=2, feed_forward=32),
        objectives=(MaskedLanguageModel(unit="ngram"), SentenceOrderPrediction(weight=2.0)),
        steps=4,
        log_every=2,
    )
    outcome = pretrain(recipe, tmp_path / "tokens", tmp_path / "run", settings=INLINE)
    line = read_metrics(tmp_path / "run")[-1]
    assert line["loss"] == pytest.approx(line["mlm_loss"] + 2 * line["sop_loss"])
    assert outcome.eval_loss == pytest.approx(line["eval_mlm_loss"] + 2 * line["eval_sop_loss"])
    assert 0.2 < line["exchanged_pairs"] < 0.8 and "random_pairs" not in line and "nsp_loss" not in line
