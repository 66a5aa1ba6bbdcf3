"""Adversarial masked language modelling: the perturbation is small, climbs, and only acts where it should."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from biosmith.pretraining.adversarial import adversarial_loss, divergence, moved
from biosmith.pretraining.batches import IGNORE, BatchMaker
from biosmith.pretraining.config import AdversarialMaskedLanguageModel, MaskedLanguageModel, Recipe
from biosmith.pretraining.loading import as_tensors
from biosmith.pretraining.step import Trainer, read_window
from biosmith.tokens.store import TokenStore
from pretraining.test_step import CONFIG, RULES, make_model, make_recipe

RECIPE: Recipe = make_recipe(
    objectives=(MaskedLanguageModel(), AdversarialMaskedLanguageModel(start=0.5, radius=1e-2, step_size=1e-2))
)


def test_the_divergence_of_two_known_distributions() -> None:
    # Target (1/2, 1/2), predicted (1/4, 3/4): KL = 1/2 ln 2 + 1/2 ln (2/3) = 0.1438; an ignored slot adds nothing.
    target = torch.tensor([[0.5, 0.5], [0.9, 0.1]]).log()
    predicted = torch.tensor([[0.25, 0.75], [0.1, 0.9]]).log()
    found = divergence(predicted, target, torch.tensor([True, False]))
    assert found.item() == pytest.approx(0.1438, abs=1e-4)


def test_the_embedding_is_moved_only_while_it_should_be() -> None:
    words, ids = nn.Embedding(5, 3), torch.tensor([1, 2])
    before = words(ids)
    with moved(words, torch.ones(2, 3)):
        assert torch.equal(words(ids), before + 1)
    assert torch.equal(words(ids), before)


def test_the_ascent_finds_a_worse_direction_than_noise() -> None:
    torch.manual_seed(0)
    words, head = nn.Embedding(20, 8), nn.Linear(8, 20)
    ids = torch.arange(12)

    def predict() -> Tensor:
        return head(torch.tanh(words(ids)))

    def loss(rules: AdversarialMaskedLanguageModel) -> float:
        torch.manual_seed(1)
        return adversarial_loss(predict, predict(), words, 12, ids, rules).item()

    small = AdversarialMaskedLanguageModel(step_size=1.0, radius=0.05, deviation=0.05)
    # No ascent: only the noise, cut to the same radius in the other case.
    assert loss(small) > 2 * loss(replace(small, ascents=0))
    assert loss(replace(small, radius=0.0)) == pytest.approx(0.0, abs=1e-5)
    labels = torch.full((12,), IGNORE)
    torch.manual_seed(1)
    assert adversarial_loss(predict, predict(), words, 12, labels, small).item() == 0


def test_it_is_off_until_its_start_and_then_adds_to_the_gradient(abstracts: TokenStore) -> None:
    # ALUM: standard training first. Half of 10 steps: update 4 is plain, update 5 is not.
    batch = as_tensors(BatchMaker(abstracts, replace(RULES, next_sentence=False)).make(0, 0))
    norms = {}
    for step in (4, 5):
        torch.manual_seed(0)
        trainer = Trainer(make_model(), RECIPE, "float32")
        trainer.step(step, [batch])
        window, _ = read_window(trainer.window.tolist())
        norms[step] = window.gradient_norm
        assert (window.adversarial_loss > 0) == (step == 5)
    assert norms[4] != norms[5]


def test_without_the_objective_its_sum_is_nothing(abstracts: TokenStore) -> None:
    batch = as_tensors(BatchMaker(abstracts, RULES).make(0, 0))
    trainer = Trainer(make_model(), make_recipe(), "float32")
    assert trainer.loss_sums(*trainer.arguments(batch))[2].item() == 0
    assert CONFIG.dropout == 0
