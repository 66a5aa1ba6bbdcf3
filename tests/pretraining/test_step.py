"""The step: packed equals padded, accumulation equals one large batch, the loss is a mean over hidden tokens."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from biosmith.models.bert import BertConfig, PretrainingModel
from biosmith.pretraining.batches import Batch, BatchMaker, DataRules
from biosmith.pretraining.config import AdamW, Lamb, Linear, NextSentencePrediction, Recipe
from biosmith.pretraining.loading import as_tensors
from biosmith.pretraining.step import LossSums, Trainer, read_window
from biosmith.tokens.store import TokenStore
from pretraining.checks import sequences_of

RULES = DataRules(seed=3, micro_tokens=1024, length=128)
CONFIG = BertConfig(
    vocabulary_size=1000, layers=2, width=32, heads=4, feed_forward=64, dropout=0.0, attention_dropout=0.0
)


def make_model() -> PretrainingModel:
    torch.manual_seed(0)
    return PretrainingModel(CONFIG)


def make_recipe(**changes: object) -> Recipe:
    return replace(Recipe(name="test", paper="none", model=CONFIG, steps=10), **changes)  # type: ignore[arg-type]


def padded_losses(model: PretrainingModel, batch: Batch) -> tuple[Tensor, Tensor]:
    """Mean losses the plain way: one padded row a sequence, logits of every token."""
    sequences = list(sequences_of(batch))
    longest = max(len(s.ids) for s in sequences)

    def pad(values: list[np.ndarray], fill: int) -> Tensor:
        rows = [np.pad(v.astype(np.int64), (0, longest - len(v)), constant_values=fill) for v in values]
        return torch.tensor(np.stack(rows))

    labels = pad([np.where(s.hidden, s.targets, -100) for s in sequences], -100)
    logits = model(
        pad([s.ids for s in sequences], 0),
        pad([np.ones(len(s.ids)) for s in sequences], 0),
        pad([s.segments for s in sequences], 0),
    )
    masked = F.cross_entropy(logits.masked_language_MV.flatten(0, 1), labels.flatten())
    pairs = F.cross_entropy(logits.next_sentence_N2, torch.tensor([s.label for s in sequences]))
    return masked, pairs


def test_packed_losses_and_gradients_equal_padded_ones(abstracts: TokenStore) -> None:
    batch = BatchMaker(abstracts, RULES).make(0, 3)
    model = make_model()
    masked, pairs = padded_losses(model, batch)
    (masked + pairs).backward()
    expected = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    trainer = Trainer(model, make_recipe(), "float32")
    sums = trainer.loss_sums(*trainer.arguments(as_tensors(batch)))
    counts = batch.counts
    losses = sums[:2] / torch.tensor([counts.hidden, counts.sequences])
    losses.sum().backward()
    assert losses.tolist() == pytest.approx([masked.item(), pairs.item()], abs=1e-5)
    for name, parameter in model.named_parameters():
        assert torch.allclose(parameter.grad, expected[name], atol=1e-5), name


def test_the_unused_tail_of_a_batch_changes_neither_loss_nor_gradient(abstracts: TokenStore) -> None:
    # A GPU gets batches of constant size, a CPU the real part only.
    maker = BatchMaker(abstracts, RULES)
    batch = as_tensors(maker.make(0, len(maker.plan(0)) - 1))
    assert batch.counts.tokens < RULES.micro_tokens - 100
    results = []
    for whole in (True, False):
        trainer = Trainer(make_model(), make_recipe(), "float32")
        arguments = list(trainer.arguments(batch))
        if whole:
            t = batch.tensors
            arguments[:4] = [t["input_ids_T"], t["position_ids_T"], t["token_type_ids_T"], t["cu_seqlens"]]
            arguments[4:] = [
                batch.max_seqlen,
                t["masked_positions_M"],
                t["labels_M"],
                t["next_sentence_labels_N"],
            ]
        sums = trainer.loss_sums(*arguments)
        sums.sum().backward()
        gradient = torch.cat([p.grad.flatten() for p in trainer.model.parameters()])
        results.append((sums.tolist(), gradient))
    assert results[0][0] == pytest.approx(results[1][0], rel=1e-5)
    assert torch.allclose(results[0][1], results[1][1], rtol=1e-4, atol=1e-3)
    assert torch.isfinite(results[0][1]).all()


def test_micro_batches_add_up_to_one_large_batch(abstracts: TokenStore) -> None:
    # The mean is over all hidden tokens of the step, not the mean of the micro-batches' means.
    maker = BatchMaker(abstracts, RULES)
    batches = [maker.make(0, index) for index in range(3)]
    model = make_model()
    hidden = sum(b.counts.hidden for b in batches)
    sequences = sum(b.counts.sequences for b in batches)
    losses = [padded_losses(model, b) for b in batches]
    expected = sum(m * b.counts.hidden for (m, _), b in zip(losses, batches, strict=True)) / hidden
    expected += sum(n * b.counts.sequences for (_, n), b in zip(losses, batches, strict=True)) / sequences
    expected.backward()
    norm = torch.cat([p.grad.flatten() for p in model.parameters()]).norm().item()

    trainer = Trainer(make_model(), make_recipe(), "float32")
    trainer.step(0, [as_tensors(b) for b in batches])
    window, counts = read_window(trainer.window.tolist())
    assert window.gradient_norm == pytest.approx(norm, rel=1e-4)
    mean = window.masked_language_loss / window.predicted + window.next_sentence_loss / window.sequences
    assert mean == pytest.approx(expected.item(), rel=1e-5)
    assert counts.hidden == hidden and counts.tokens == sum(b.counts.tokens for b in batches)


def test_the_weights_of_the_objectives_scale_their_gradients(abstracts: TokenStore) -> None:
    batch = as_tensors(BatchMaker(abstracts, RULES).make(0, 0))
    no_pairs = (Recipe(name="x", paper="x").objectives[0], NextSentencePrediction(weight=0.0))
    trainer = Trainer(make_model(), make_recipe(objectives=no_pairs), "float32")
    before = trainer.model.next_sentence_head.dense.weight.detach().clone()  # type: ignore[union-attr]
    optimizer = AdamW(weight_decay=0.0)
    trainer = Trainer(
        make_model(),
        make_recipe(objectives=no_pairs, optimizer=optimizer, schedule=Linear(warmup=0)),
        "float32",
    )
    trainer.step(0, [batch])
    assert torch.equal(trainer.model.next_sentence_head.dense.weight, before)  # type: ignore[union-attr]


def test_a_step_with_a_loss_that_is_not_finite_is_left_out_and_counted(abstracts: TokenStore) -> None:
    maker = BatchMaker(abstracts, RULES)
    trainer = Trainer(make_model(), make_recipe(schedule=Linear(warmup=0)), "float32")
    with torch.no_grad():
        trainer.model.masked_language_head.bias[7] = math.nan
    kept = trainer.model.encoder.embeddings.words.weight.detach().clone()
    trainer.step(0, [as_tensors(maker.make(0, 0))])
    window, _ = read_window(trainer.window.tolist())
    assert (window.skipped, window.skipped_in_a_row, window.predicted) == (1, 1, 0)
    assert torch.equal(trainer.model.encoder.embeddings.words.weight, kept)
    with torch.no_grad():
        trainer.model.masked_language_head.bias[7] = 0.0
    trainer.step(1, [as_tensors(maker.make(0, 1))])
    window, _ = read_window(trainer.window.tolist())
    assert (window.skipped, window.skipped_in_a_row) == (1, 0) and window.predicted > 0


def test_dropout_is_drawn_anew_for_each_step_and_alike_for_the_same_step(abstracts: TokenStore) -> None:
    config = replace(CONFIG, dropout=0.2, attention_dropout=0.2)
    batch = as_tensors(BatchMaker(abstracts, RULES).make(0, 0))

    def loss(step: int, disturbed: bool = False) -> float:
        torch.manual_seed(0)
        trainer = Trainer(PretrainingModel(config), make_recipe(model=config), "float32")
        if disturbed:
            torch.rand(17)
        trainer.step(step, [batch])
        return trainer.window[0].item()

    assert loss(3) == loss(3, disturbed=True)
    assert loss(3) != loss(4)


class NoLists(TorchFunctionMode):
    """A list as an index of a tensor on a card is copied there while the host waits."""

    def __torch_function__(self, function: Any, types: Any, arguments: Any = (), named: Any = None) -> Any:
        if function in (Tensor.__getitem__, Tensor.__setitem__):
            assert not isinstance(arguments[1], list)
        return function(*arguments, **(named or {}))


def test_no_step_waits_for_the_card_to_look_something_up(abstracts: TokenStore) -> None:
    trainer = Trainer(make_model(), make_recipe(), "float32")
    with NoLists():
        trainer.step(0, [as_tensors(BatchMaker(abstracts, RULES).make(0, 0))])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.filterwarnings(
    "ignore:Synchronization debug mode:UserWarning", "ignore:Argument aux_data:UserWarning"
)
@pytest.mark.parametrize("optimizer", [AdamW(), Lamb()])
def test_no_step_waits_for_the_card(abstracts: TokenStore, optimizer: AdamW | Lamb) -> None:
    config = replace(CONFIG, width=128, heads=2)
    torch.manual_seed(0)
    model = PretrainingModel(config).cuda()
    trainer = Trainer(model, make_recipe(model=config, optimizer=optimizer), "bfloat16")
    batches = [as_tensors(BatchMaker(abstracts, RULES).make(0, n)) for n in range(3)]
    trainer.step(0, batches[:1])  # kernels are compiled, states made
    torch.cuda.set_sync_debug_mode("error")
    try:
        for number, batch in enumerate(batches[1:], 1):
            pinned = batch._replace(tensors={name: t.pin_memory() for name, t in batch.tensors.items()})
            trainer.step(number, [pinned])
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("compute", ["mixed", "bfloat16"])
def test_16_bit_arithmetic_gives_nearly_the_same_losses(abstracts: TokenStore, compute: str) -> None:
    batch = as_tensors(BatchMaker(abstracts, RULES).make(0, 0))
    model = make_model()
    trainer = Trainer(model, make_recipe(), "float32")
    full = trainer.loss_sums(*trainer.arguments(batch))
    low = LossSums(model, compute)(*trainer.arguments(batch))
    assert low.dtype == torch.float32
    assert torch.allclose(low, full, rtol=2e-3)
    low.sum().backward()
    assert all(p.grad is not None and p.grad.dtype == torch.float32 for p in model.parameters())


def test_the_fused_layer_and_loss_give_the_same_losses_and_gradients(abstracts: TokenStore) -> None:
    batch = as_tensors(BatchMaker(abstracts, RULES).make(0, 0))
    model = make_model()
    results = []
    for fused in (False, True):
        model.zero_grad()
        sums = LossSums(model, fused=fused)(*Trainer(model, make_recipe(), "float32").arguments(batch))
        sums.sum().backward()
        results.append((sums.detach(), torch.cat([p.grad.flatten() for p in model.parameters()])))
    assert torch.allclose(results[0][0], results[1][0], rtol=1e-5)
    assert torch.allclose(results[0][1], results[1][1], rtol=1e-4, atol=1e-3)
