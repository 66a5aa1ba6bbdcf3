"""Masking: measured rates, whole words, no special tokens, nothing that depends on the batch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from biosmith.errors import UsageError
from biosmith.pretraining.batches import IGNORE, BatchMaker, Counts, DataRules
from biosmith.pretraining.masking import (
    MaskingRules,
    Replacements,
    SequenceTokens,
    choose_hidden,
    mask_sequences,
)
from biosmith.tokens.store import TokenStore
from pretraining.checks import sequences_of

RULES = DataRules(seed=3, micro_tokens=16_384, length=512)


def totals(store: TokenStore, masking: MaskingRules, epochs: int = 1) -> Counts:
    maker = BatchMaker(store, replace(RULES, masking=masking))
    counts = Counts()
    for epoch in range(epochs):
        for index in range(len(maker.plan(epoch))):
            counts += maker.make(epoch, index).counts
    return counts


def chi_square(observed: list[int], shares: list[float]) -> float:
    total = sum(observed)
    return sum((o - total * p) ** 2 / (total * p) for o, p in zip(observed, shares, strict=True))


@pytest.mark.parametrize("unit", ["token", "word", "ngram"])
def test_mask_random_and_kept_rates_lie_within_the_chi_square_bounds(
    abstracts: TokenStore, unit: str
) -> None:
    counts = totals(abstracts, MaskingRules(unit=unit), epochs=2)  # type: ignore[arg-type]
    assert counts.hidden > 100_000
    # 1 degree of freedom: 10.83 at p = 0.001; 2 degrees: 13.82.
    assert chi_square([counts.hidden, counts.maskable - counts.hidden], [0.15, 0.85]) < 10.83
    assert chi_square([counts.masked, counts.random, counts.kept], [0.8, 0.1, 0.1]) < 13.82


def test_the_share_hidden_does_not_depend_on_the_length_of_the_word(abstracts: TokenStore) -> None:
    # Taking words in random order until a quota is full, as the original code does, hides long words too rarely.
    maker = BatchMaker(abstracts, replace(RULES, next_sentence=False, short_probability=0.0))
    hidden, seen = np.zeros(6), np.zeros(6)
    for epoch in range(8):
        for index in range(len(maker.plan(epoch))):
            tokens, *_ = maker._sequences(epoch, index)
            chosen, unit, first = choose_hidden(tokens, MaskingRules(), 3, epoch)
            sizes = np.diff(first, append=len(unit))
            ordinary = ~tokens.special[first]
            np.add.at(seen, sizes[ordinary], 1)
            np.add.at(hidden, sizes[ordinary & chosen[first]], 1)
    for size in range(1, 6):
        spread = 4 * np.sqrt(0.15 * 0.85 / seen[size])
        assert abs(hidden[size] / seen[size] - 0.15) < spread, size


def test_whole_words_only(abstracts: TokenStore) -> None:
    # A word begins at a stored word start; either all of its pieces are hidden or none.
    maker = BatchMaker(abstracts, RULES)
    for index in range(3):
        tokens, *_ = maker._sequences(0, index)
        batch = maker.make(0, index)
        hidden = np.zeros(len(tokens.ids), dtype=bool)
        hidden[batch.masked_positions_M[batch.labels_M != IGNORE]] = True
        word = np.cumsum(tokens.unit_starts | tokens.special)
        # A part may begin inside a word only where a document has no word start to cut at; here it always has.
        for number in np.unique(word[hidden]):
            assert hidden[word == number].all()


def test_no_special_token_is_hidden_and_none_is_put_in_as_random(abstracts: TokenStore) -> None:
    maker = BatchMaker(abstracts, replace(RULES, masking=MaskingRules(rate=0.5, replace=(0.1, 0.8, 0.1))))
    for index in range(5):
        batch = maker.make(0, index)
        labels = batch.labels_M[batch.labels_M != IGNORE]
        assert labels.min() > 4  # 0-4 are [PAD] [UNK] [CLS] [SEP] [MASK]; the store holds no [UNK]
        for sequence in sequences_of(batch):
            assert not sequence.hidden[np.isin(sequence.targets, [0, 2, 3])].any()
            changed = sequence.hidden & (sequence.ids != 4)
            assert (sequence.ids[changed] > 4).all()


def test_labels_are_what_stood_there_and_everything_else_is_unchanged(abstracts: TokenStore) -> None:
    maker = BatchMaker(abstracts, RULES)
    tokens, *_ = maker._sequences(1, 3)
    batch = maker.make(1, 3)
    positions = batch.masked_positions_M[batch.labels_M != IGNORE]
    restored = batch.input_ids_T[: len(tokens.ids)].copy()
    restored[positions] = batch.labels_M[batch.labels_M != IGNORE]
    assert np.array_equal(restored, tokens.ids)


def test_random_replacements_cover_the_ordinary_vocabulary_evenly() -> None:
    length = 200_000
    tokens = SequenceTokens(
        np.full(length, 7, dtype=np.int32),
        np.ones(length, dtype=bool),
        np.zeros(length, dtype=bool),
        np.array([0]),
        np.array([length]),
        np.array([0]),
    )
    rules = MaskingRules(rate=0.9, unit="token", replace=(0.0, 1.0, 0.0))
    masked = mask_sequences(tokens, rules, Replacements.of(20, [0, 1, 2, 3, 4], 4), seed=1, epoch=0)
    found = np.bincount(masked.ids[masked.positions], minlength=20)
    assert found[:5].sum() == 0
    assert chi_square(found[5:].tolist(), [1 / 15] * 15) < 36.1  # 14 degrees of freedom, p = 0.001


def test_every_epoch_hides_other_tokens_unless_copies_are_asked_for(abstracts: TokenStore) -> None:
    # Bioformer: each sequence in 20 fixed maskings. With copies = 2, epoch 2 masks a sequence as epoch 0 does.
    maker = BatchMaker(abstracts, RULES)
    tokens, *_ = maker._sequences(0, 0)
    first, *_ = choose_hidden(tokens, MaskingRules(), 3, 0)
    second, *_ = choose_hidden(tokens, MaskingRules(), 3, 1)
    # Independent choices of 15 % agree on 0.15 x 0.15 of the tokens.
    assert abs((first & second).mean() - 0.15 * 0.15) < 0.01
    # With one copy, epoch 1 masks its sequences as epoch 0 would.
    copies = BatchMaker(abstracts, replace(RULES, mask_copies=1))
    tokens, *_ = copies._sequences(1, 0)
    masked = mask_sequences(tokens, MaskingRules(), maker.replacements, 3, 0)
    assert np.array_equal(masked.ids, copies.make(1, 0).input_ids_T[: len(tokens.ids)])


def test_what_is_hidden_in_a_sequence_does_not_depend_on_its_neighbours(abstracts: TokenStore) -> None:
    maker = BatchMaker(abstracts, RULES)
    tokens, *_ = maker._sequences(0, 4)
    hidden, *_ = choose_hidden(tokens, MaskingRules(unit="ngram"), 3, 0)
    number = 5
    part = slice(tokens.starts[number], tokens.starts[number] + tokens.lengths[number])
    alone = SequenceTokens(
        tokens.ids[part],
        tokens.unit_starts[part],
        tokens.special[part],
        np.array([0]),
        tokens.lengths[[number]],
        tokens.places[[number]],
    )
    lone, *_ = choose_hidden(alone, MaskingRules(unit="ngram"), 3, 0)
    assert np.array_equal(lone, hidden[part])


def test_ngrams_have_lengths_in_proportion_to_one_over_n(abstracts: TokenStore) -> None:
    # Lan et al.: n-grams up to 3 words with p(n) ~ 1/n, so 6/11, 3/11, 2/11. Runs that end a sentence pair part cut
    # some n-grams short, hence the loose bound.
    rules = MaskingRules(unit="ngram")
    maker = BatchMaker(abstracts, replace(RULES, masking=rules, next_sentence=False, short_probability=0.0))
    sizes = np.zeros(4)
    for index in range(len(maker.plan(0))):
        tokens, *_ = maker._sequences(0, index)
        hidden, _, first = choose_hidden(tokens, rules, 3, 0)
        words = np.add.reduceat((tokens.unit_starts & ~tokens.special).astype(int), first)
        chosen = hidden[first]
        np.add.at(sizes, words[chosen], 1)
    share = sizes[1:] / sizes[1:].sum()
    assert np.allclose(share, np.array([6, 3, 2]) / 11, atol=0.015), share


def test_replacements_drawn_per_unit_treat_all_pieces_of_a_word_alike(abstracts: TokenStore) -> None:
    # The original draws per token, so that a word can be half [MASK]; per unit is the other documented choice.
    rules = MaskingRules(replace=(0.5, 0.0, 0.5), replace_per="unit")
    maker = BatchMaker(abstracts, replace(RULES, masking=rules))
    tokens, *_ = maker._sequences(0, 0)
    masked = mask_sequences(tokens, rules, maker.replacements, 3, 0)
    word = np.cumsum(tokens.unit_starts | tokens.special)
    is_mask = masked.ids == 4
    for number in np.unique(word[masked.positions]):
        assert len(set(is_mask[word == number])) == 1
    per_token = mask_sequences(tokens, replace(rules, replace_per="token"), maker.replacements, 3, 0)
    is_mask = per_token.ids == 4
    mixed = sum(len(set(is_mask[word == number])) == 2 for number in np.unique(word[masked.positions]))
    assert mixed > 10


@pytest.mark.parametrize(
    "options",
    [
        {"rate": 0.0},
        {"rate": 1.5},
        {"unit": "letter"},
        {"replace": (0.8, 0.1, 0.2)},
        {"replace_per": "batch"},
    ],
)
def test_impossible_rules_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        MaskingRules(**options)  # type: ignore[arg-type]
