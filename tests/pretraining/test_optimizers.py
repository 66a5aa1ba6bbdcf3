"""Optimizers and schedules against numbers computed by hand."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn

from biosmith.models.bert import BertConfig, PretrainingModel
from biosmith.pretraining.config import (
    AdamW,
    Lamb,
    Linear,
    MaskedLanguageModel,
    Muon,
    Polynomial,
    WarmupStableDecay,
)
from biosmith.pretraining.optimizers import make_optimizers, parameter_groups, update
from biosmith.pretraining.parallel import Devices, shard
from biosmith.pretraining.schedules import learning_rate


def run(config: AdamW, gradients: list[float], start: float, rates: list[float]) -> float:
    """A single weight after some updates, by the optimizer under test."""
    layer = nn.Linear(1, 1, bias=False)
    nn.init.constant_(layer.weight, start)
    [optimizer] = make_optimizers(layer, config)
    for gradient, rate in zip(gradients, rates, strict=True):
        layer.weight.grad = torch.full_like(layer.weight, gradient)
        update([optimizer], rate, config.clip_norm)
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
    [optimizer] = make_optimizers(layer, AdamW())
    for _ in range(3):
        layer.weight.grad = torch.ones_like(layer.weight)
        update([optimizer], 1e-3, 0.0)
    assert optimizer.state[layer.weight]["step"].item() == 2**24


def test_gradients_are_clipped_by_their_global_norm() -> None:
    # Two weights with gradients 3 and 4: norm 5, so with a limit of 1 Adam sees 0.6 and 0.8.
    one, two = nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)
    model = nn.Sequential(one, two)
    [optimizer] = make_optimizers(model, AdamW())
    one.weight.grad, two.weight.grad = torch.full((1, 1), 3.0), torch.full((1, 1), 4.0)
    norm, skipped = update([optimizer], 1e-3, 1.0)
    assert norm.item() == pytest.approx(5.0) and skipped.item() == 0
    assert optimizer.state[one.weight]["exp_avg"].item() == pytest.approx(0.1 * 0.6)
    assert optimizer.state[two.weight]["exp_avg"].item() == pytest.approx(0.1 * 0.8)


@pytest.mark.parametrize("correct", [True, False])
def test_spread_parameters_are_updated_as_whole_ones_without_asking_the_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, correct: bool
) -> None:
    def layers() -> list[nn.Linear]:
        torch.manual_seed(0)
        return [nn.Linear(4, 4), nn.Linear(4, 4)]

    config = AdamW(bias_correction=correct)
    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'meeting'}", rank=0, world_size=1)
    try:
        whole, spread = nn.Sequential(*layers()), nn.Sequential(*layers())
        shard(list(spread), spread, False, Devices(torch.device("cpu"), 0, 1, "fsdp"))
        optimizers = [make_optimizers(model, config) for model in (whole, spread)]
        for factor in (1.0, math.nan, 3.0):
            for model in (whole, spread):
                (factor * model(torch.ones(2, 4)).square()).sum().backward()
            with monkeypatch.context() as patched:
                # Each would wait for the device.
                patched.setattr(torch.Tensor, "item", lambda self: pytest.fail("the host asked"))
                patched.setattr(torch.Tensor, "__bool__", lambda self: pytest.fail("the host asked"))
                skips = [update(made, 1e-2, 1.0)[1] for made in optimizers]
            assert [skip.item() for skip in skips] == [float(math.isnan(factor))] * 2
            for one, part in zip(whole.parameters(), spread.parameters(), strict=True):
                assert torch.equal(one, part.full_tensor())  # type: ignore[attr-defined]
    finally:
        dist.destroy_process_group()


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_an_update_with_a_gradient_that_is_not_finite_is_left_out(bad: float) -> None:
    layer = nn.Linear(2, 1, bias=False)
    before = layer.weight.detach().clone()
    [optimizer] = make_optimizers(layer, AdamW())
    layer.weight.grad = torch.tensor([[1.0, bad]])
    _, skipped = update([optimizer], 1e-3, 1.0)
    assert skipped.item() == 1
    assert torch.equal(layer.weight, before)
    assert optimizer.state[layer.weight]["exp_avg"].abs().sum() == 0
    layer.weight.grad = torch.ones_like(layer.weight)
    _, skipped = update([optimizer], 1e-3, 1.0)
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


def test_a_polynomial_decay_by_hand() -> None:
    # Power 2 after a warm-up of 10 of 110 steps: half way down, (1 - 0.5)^2 of the peak.
    schedule = Polynomial(power=2.0, warmup_steps=10)
    rates = [learning_rate(schedule, 1.0, step, 110) for step in (5, 10, 60, 110)]
    assert rates == pytest.approx([0.5, 1.0, 0.25, 0.0])


def test_warm_up_stable_decay_by_hand() -> None:
    # 1,000 steps: 100 up, stable to 800, then 200 down; 1 - sqrt(1/4) = 0.5 after 50 of them.
    schedule = WarmupStableDecay(warmup_steps=100, decay=0.2, shape="sqrt")
    rates = [learning_rate(schedule, 2.0, step, 1000) for step in (50, 100, 799, 850, 1000)]
    assert rates == pytest.approx([1.0, 2.0, 2.0, 1.0, 0.0])
    linear = WarmupStableDecay(warmup_steps=100, decay=0.2, shape="linear", final=0.1)
    assert learning_rate(linear, 1.0, 900, 1000) == pytest.approx(0.55)


def test_the_mask_rate_rises_in_stages_as_pubmedbert_describes() -> None:
    # Section 2.3: 5 % to 25 % in steps of 5 % for every 20 % of training.
    masked = MaskedLanguageModel(rate=0.05, final_rate=0.25, rate_stages=5)
    rates = [masked.rate_at(step, 100) for step in (0, 19, 20, 40, 79, 80, 99)]
    assert rates == pytest.approx([0.05, 0.05, 0.10, 0.15, 0.20, 0.25, 0.25])
    falling = MaskedLanguageModel(rate=0.30, final_rate=0.15)
    assert [falling.rate_at(step, 101) for step in (0, 50, 100)] == pytest.approx([0.30, 0.225, 0.15])
    assert falling.highest_rate == 0.30


def test_lamb_by_hand() -> None:
    # Matrix [[3, 4]], gradients with a norm below the clipping limit; two steps of You et al., Algorithm 2, without
    # bias correction: r = m / (sqrt(v) + eps) + decay w, w -= rate |w| / |r| r.
    config = Lamb(learning_rate=0.1, weight_decay=0.01, epsilon=1e-6, clip_norm=0)
    layer = nn.Linear(2, 1)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[3.0, 4.0]]))
        layer.bias.fill_(1.0)
    optimizers = make_optimizers(layer, config)
    w, m, v = [3.0, 4.0], [0.0, 0.0], [0.0, 0.0]
    for gradient in ([0.3, -0.1], [0.2, 0.2]):
        m = [0.9 * a + 0.1 * g for a, g in zip(m, gradient, strict=True)]
        v = [0.999 * a + 0.001 * g * g for a, g in zip(v, gradient, strict=True)]
        r = [a / (math.sqrt(b) + 1e-6) + 0.01 * c for a, b, c in zip(m, v, w, strict=True)]
        ratio = math.hypot(*w) / math.hypot(*r)
        w = [a - 0.1 * ratio * b for a, b in zip(w, r, strict=True)]
        layer.weight.grad, layer.bias.grad = torch.tensor([gradient]), torch.tensor([0.5])
        update(optimizers, 0.1, 0.0)
    assert layer.weight.flatten().tolist() == pytest.approx(w, rel=1e-5)
    # The bias is neither decayed nor scaled: 1 - 0.1 (0.05 / sqrt(0.00025)) - 0.1 (0.095 / sqrt(0.00049975)).
    expected = 1 - 0.1 * 0.05 / math.sqrt(0.00025) - 0.1 * 0.095 / math.sqrt(0.00049975)
    assert layer.bias.item() == pytest.approx(expected, rel=1e-3)


def test_muon_takes_the_matrices_of_the_layers_and_adamw_the_rest() -> None:
    model = PretrainingModel(BertConfig(vocabulary_size=50, layers=2, width=8, heads=2, feed_forward=16))
    muon, adamw = make_optimizers(model, Muon())
    names = {id(p): name for name, p in model.named_parameters()}
    of_muon = {names[id(p)] for group in muon.param_groups for p in group["params"]}
    of_adamw = {names[id(p)] for group in adamw.param_groups for p in group["params"]}
    assert of_muon | of_adamw == set(names.values()) and not of_muon & of_adamw
    assert len(of_muon) == 2 * 4 and all(".layers." in name for name in of_muon)
    assert "encoder.embeddings.words.weight" in of_adamw


@pytest.mark.parametrize("config", [Lamb(), Muon()])
def test_lamb_and_muon_leave_out_an_update_that_is_not_finite(config: Lamb | Muon) -> None:
    model = PretrainingModel(BertConfig(vocabulary_size=50, layers=1, width=8, heads=2, feed_forward=16))
    optimizers = make_optimizers(model, config)

    def step(bad: bool) -> float:
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)
        if bad:
            model.encoder.embeddings.words.weight.grad[3] = math.nan
        _, skipped = update(optimizers, 1e-3, 1.0)
        return skipped.item()

    assert step(bad=False) == 0
    before = [p.detach().clone() for p in model.parameters()]
    assert step(bad=True) == 1
    assert all(torch.equal(p, old) for p, old in zip(model.parameters(), before, strict=True))
    assert step(bad=False) == 0
    assert not any(torch.equal(p, old) for p, old in zip(model.parameters(), before, strict=True))
