"""Optimizers and schedules against numbers computed by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from biosmith.models.bert import BertConfig, PretrainingModel
from biosmith.pretraining.config import AdamW, Linear
from biosmith.pretraining.optimizers import make_optimizer, parameter_groups, update
from biosmith.pretraining.schedules import learning_rate


def run(config: AdamW, gradients: list[float], start: float, rates: list[float]) -> float:
    """A single weight after some updates, by the optimizer under test."""
    layer = nn.Linear(1, 1, bias=False)
    nn.init.constant_(layer.weight, start)
    optimizer = make_optimizer(layer, config)
    for gradient, rate in zip(gradients, rates, strict=True):
        layer.weight.grad = torch.full_like(layer.weight, gradient)
        update(optimizer, rate, config.clip_norm)
    return layer.weight.item()


def test_adam_without_bias_correction_by_hand() -> None:
    # google-research/bert, optimization.py: m = b1 m + (1-b1) g; v = b2 v + (1-b2) g^2;
    # w -= rate * (m / (sqrt(v) + eps) + decay * w).
    b1, b2, eps, decay, w, m, v = 0.9, 0.999, 1e-6, 0.01, 0.5, 0.0, 0.0
    gradients, rates = [0.3, -0.2, 0.1, 0.4], [1e-2, 2e-2, 3e-2, 4e-2]
    for g, rate in zip(gradients, rates, strict=True):
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
        w -= rate * (m / (math.sqrt(v) + eps) + decay * w)
    found = run(AdamW(bias_correction=False, clip_norm=0), gradients, 0.5, rates)
    assert found == pytest.approx(w, rel=1e-5)
    # The first step is 0.1 / sqrt(0.001) = 3.16 times that of the corrected form: they must not be the same.
    corrected = run(AdamW(bias_correction=True, clip_norm=0), gradients[:1], 0.5, rates[:1])
    assert corrected == pytest.approx(0.5 - 1e-2 * (1.0 + 0.01 * 0.5), rel=1e-5)
    plain = run(AdamW(bias_correction=False, clip_norm=0), gradients[:1], 0.5, rates[:1])
    assert plain == pytest.approx(0.5 - 1e-2 * (0.1 / math.sqrt(0.001) + 0.01 * 0.5), rel=1e-4)


def test_many_updates_without_bias_correction_stay_without_it() -> None:
    # The step counter stands still at 2 ** 24; a million real updates would not move it.
    layer = nn.Linear(1, 1, bias=False)
    optimizer = make_optimizer(layer, AdamW())
    for _ in range(3):
        layer.weight.grad = torch.ones_like(layer.weight)
        update(optimizer, 1e-3, 0.0)
    assert optimizer.state[layer.weight]["step"].item() == 2**24


def test_gradients_are_clipped_by_their_global_norm() -> None:
    # Two weights with gradients 3 and 4: norm 5, so with a limit of 1 Adam sees 0.6 and 0.8.
    one, two = nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)
    model = nn.Sequential(one, two)
    optimizer = make_optimizer(model, AdamW())
    one.weight.grad, two.weight.grad = torch.full((1, 1), 3.0), torch.full((1, 1), 4.0)
    norm, skipped = update(optimizer, 1e-3, 1.0)
    assert norm.item() == pytest.approx(5.0) and skipped.item() == 0
    assert optimizer.state[one.weight]["exp_avg"].item() == pytest.approx(0.1 * 0.6)
    assert optimizer.state[two.weight]["exp_avg"].item() == pytest.approx(0.1 * 0.8)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_an_update_with_a_gradient_that_is_not_finite_is_left_out(bad: float) -> None:
    layer = nn.Linear(2, 1, bias=False)
    before = layer.weight.detach().clone()
    optimizer = make_optimizer(layer, AdamW())
    layer.weight.grad = torch.tensor([[1.0, bad]])
    _, skipped = update(optimizer, 1e-3, 1.0)
    assert skipped.item() == 1
    assert torch.equal(layer.weight, before)
    assert optimizer.state[layer.weight]["exp_avg"].abs().sum() == 0
    layer.weight.grad = torch.ones_like(layer.weight)
    _, skipped = update(optimizer, 1e-3, 1.0)
    assert skipped.item() == 0 and not torch.equal(layer.weight, before)


def test_biases_and_layer_norm_are_not_decayed_and_everything_else_is() -> None:
    model = PretrainingModel(BertConfig(vocabulary_size=50, layers=1, width=8, heads=2, feed_forward=16))
    decayed, kept = (group["params"] for group in parameter_groups(model, 0.01))
    names = {id(p): name for name, p in model.named_parameters()}
    kept_names = {names[id(p)] for p in kept}  # type: ignore[attr-defined]
    assert all("bias" in name or "norm" in name for name in kept_names)
    assert all(p.ndim == 2 for p in decayed)  # type: ignore[attr-defined]
    assert len(decayed) + len(kept) == len(names)  # type: ignore[arg-type]


def test_a_warm_up_that_replaces_jumps_down_when_it_ends() -> None:
    # BERT: 10,000 of 1,000,000 steps. Step 9,999 has 0.9999 of the peak, step 10,000 has 1 - 0.01 = 0.99 of it.
    rates = [learning_rate(Linear(warmup=0.01), 1.0, step, 1_000_000) for step in (0, 5_000, 9_999, 10_000)]
    assert rates == pytest.approx([0.0, 0.5, 0.9999, 0.99])
    assert learning_rate(Linear(warmup=0.01), 1.0, 999_999, 1_000_000) == pytest.approx(1e-6)


def test_a_warm_up_that_multiplies_never_reaches_the_peak() -> None:
    # ELECTRA: rate x warm-up share x decay, so half way through the warm-up of 100 of 1,000 steps 0.5 x 0.95.
    schedule = Linear(warmup_steps=100, mode="multiplies")
    assert learning_rate(schedule, 2.0, 50, 1000) == pytest.approx(2 * 0.5 * 0.95)
    assert learning_rate(schedule, 2.0, 100, 1000) == pytest.approx(2 * 0.9)


def test_a_slanted_triangle_reaches_the_peak_and_decays_from_there() -> None:
    # PubMedBERT section 6.1: up over 10 % of the steps, down over the other 90 %.
    schedule = Linear(warmup=0.10, mode="triangle")
    rates = [learning_rate(schedule, 6e-4, step, 62_500) for step in (3125, 6250, 34_375, 62_500)]
    assert rates == pytest.approx([3e-4, 6e-4, 3e-4, 0.0])


def test_a_final_rate_is_kept() -> None:
    assert learning_rate(Linear(warmup=0.0, final=0.1), 1.0, 500, 1000) == pytest.approx(0.55)
    assert learning_rate(Linear(warmup=0.0, final=0.1), 1.0, 1000, 1000) == pytest.approx(0.1)
