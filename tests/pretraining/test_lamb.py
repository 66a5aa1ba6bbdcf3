"""LAMB beside a reference in 64 bits, parameter by parameter, over a hundred steps."""

from __future__ import annotations

import numpy as np
import torch

from biosmith.models.albert import AlbertConfig
from biosmith.models.bert import PretrainingModel
from biosmith.pretraining.config import Lamb, Linear
from biosmith.pretraining.optimizers import make_optimizers, update
from biosmith.pretraining.schedules import learning_rate

STEPS = 100


def test_lamb_equals_a_float64_reference_over_100_steps_exclusions_included() -> None:
    # You et al. (2020), Algorithm 2, as google-research/albert computes it: no bias correction; biases and LayerNorm
    # are neither decayed nor scaled by their norm; gradients are clipped by their global norm first.
    config, schedule = Lamb(), Linear(warmup_steps=10, mode="replaces")
    torch.manual_seed(0)
    model = PretrainingModel(
        AlbertConfig(vocabulary_size=60, embedding_width=8, layers=3, width=16, heads=2, feed_forward=32)
    ).double()
    optimizers = make_optimizers(model, config)
    named = dict(model.named_parameters())
    weights = {name: p.detach().numpy().copy() for name, p in named.items()}
    means = {name: np.zeros_like(w) for name, w in weights.items()}
    squares = {name: np.zeros_like(w) for name, w in weights.items()}
    spared = {name for name in named if name.endswith("bias") or ".norm." in name or "_norm." in name}
    # Embeddings 2, projection 1, the shared layer 8, pooler 1, masked language head 4, sentence order head 1.
    assert len(spared) == 17
    random = np.random.default_rng(0)
    for step in range(STEPS):
        gradients = {name: random.normal(size=w.shape) * 0.05 for name, w in weights.items()}
        norm = np.sqrt(sum((g**2).sum() for g in gradients.values()))
        rate = learning_rate(schedule, config.learning_rate, step, STEPS)
        for name, parameter in named.items():
            parameter.grad = torch.tensor(gradients[name])
            g = gradients[name] / max(1.0, norm / config.clip_norm)
            means[name] = 0.9 * means[name] + 0.1 * g
            squares[name] = 0.999 * squares[name] + 0.001 * g**2
            change = means[name] / (np.sqrt(squares[name]) + 1e-6)
            ratio = 1.0
            if name not in spared:
                change = change + 0.01 * weights[name]
                ratio = np.linalg.norm(weights[name]) / np.linalg.norm(change)
            weights[name] = weights[name] - rate * ratio * change
        update(optimizers, rate, config.clip_norm)
    for name, parameter in named.items():
        difference = np.abs(parameter.detach().numpy() - weights[name]).max()
        assert difference < 1e-6 * max(1.0, np.abs(weights[name]).max()), (name, difference)


def test_lamb_in_float32_stays_within_the_rounding_of_the_reference() -> None:
    # The same hundred steps in both precisions.
    found = {}
    for dtype in (torch.float32, torch.float64):
        torch.manual_seed(0)
        model = torch.nn.Sequential(
            torch.nn.Linear(12, 16), torch.nn.LayerNorm(16), torch.nn.Linear(16, 4)
        ).to(dtype)
        with torch.no_grad():
            for number, parameter in enumerate(model.parameters()):
                parameter.copy_(
                    torch.linspace(-0.3, 0.4, parameter.numel()).view_as(parameter) + 0.01 * number
                )
        optimizers = make_optimizers(model, Lamb())
        random = np.random.default_rng(1)
        for _ in range(STEPS):
            for parameter in model.parameters():
                drawn = random.normal(size=tuple(parameter.shape)) * 0.1
                parameter.grad = torch.tensor(drawn.astype(np.float32)).to(dtype)
            update(optimizers, 1e-3, 1.0)
        found[dtype] = torch.cat([p.detach().double().flatten() for p in model.parameters()])
    assert (found[torch.float32] - found[torch.float64]).abs().max() < 1e-6
