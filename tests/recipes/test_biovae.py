"""Recipes of BioVAE: the numbers of the paper and of the code it builds on, and that each can be trained."""

from __future__ import annotations

import json

import pytest

from biosmith.artefact import to_plain
from biosmith.cli import main
from biosmith.errors import UsageError
from biosmith.pretraining.elbo_config import apply_vae_overrides, vae_recipe_from_plain
from biosmith.recipes import RECIPES
from biosmith.recipes.biovae import VAE_RECIPES, find_vae_recipe, vae_parameters
from biosmith.recipes.table import rows


@pytest.mark.parametrize(
    ("name", "latent_size", "beta"),
    [
        ("biovae-32-beta00", 32, 0.0),
        ("biovae-32-beta05", 32, 0.5),
        ("biovae-768-beta00", 768, 0.0),
        ("biovae-768-beta05", 768, 0.5),
        ("biovae-768-beta10", 768, 1.0),
    ],
)
def test_latent_sizes_and_betas_are_those_of_the_releases(name: str, latent_size: int, beta: float) -> None:
    recipe = find_vae_recipe(name)
    assert (recipe.model.latent_size, recipe.objective.beta) == (latent_size, beta)
    # The code's own defaults differ (free bits 3.0, ratio_zero 0.25): these are what the releases were trained with.
    objective = recipe.objective
    assert (objective.cycles, objective.ratio_zero, objective.ratio_increase, objective.free_bits) == (
        10,
        0.5,
        0.25,
        1.0,
    )
    assert recipe.objective.beta_at(recipe.steps + 1, recipe.steps) == beta
    optimizer = recipe.optimizer
    assert (optimizer.learning_rate, optimizer.epsilon, optimizer.weight_decay) == (5e-5, 1e-8, 0.0)
    assert (optimizer.bias_correction, optimizer.clip_norm) == (True, 1.0)


def test_a_run_is_one_epoch_of_34_million_sentences() -> None:
    recipe = find_vae_recipe("biovae-32-beta05")
    assert recipe.steps * recipe.batch.sentences == pytest.approx(34e6, rel=0.01)


def test_every_number_of_a_recipe_has_a_source() -> None:
    for name in VAE_RECIPES:
        recipe = find_vae_recipe(name, "fast")
        used = [citation for _, _, citation in rows(recipe) if citation]
        assert len(used) >= len([c for c in recipe.citations if "dropout" not in c]) - 8


@pytest.mark.parametrize("name", VAE_RECIPES)
def test_a_recipe_survives_json(name: str) -> None:
    recipe = find_vae_recipe(name, "fast")
    assert vae_recipe_from_plain(json.loads(json.dumps(to_plain(recipe)))) == recipe


def test_the_fast_profile_leaves_dropout_out() -> None:
    model = find_vae_recipe("biovae-32-beta05", "fast").model
    assert (model.encoder.dropout, model.decoder.dropout, model.decoder.attention_dropout) == (0, 0, 0)


def test_overrides_have_short_names() -> None:
    recipe = apply_vae_overrides(
        find_vae_recipe("biovae-32-beta05"),
        [
            "steps=10",
            "batch_sentences=64",
            "learning_rate=1e-4",
            "beta=1",
            "latent_size=16",
            "batch_tokens=4096",
        ],
    )
    assert (recipe.steps, recipe.batch.sentences, recipe.optimizer.learning_rate) == (10, 64, 1e-4)
    assert (recipe.objective.beta, recipe.model.latent_size, recipe.batch.micro_batch_tokens) == (
        1.0,
        16,
        4096,
    )


def test_names_are_not_those_of_other_recipes() -> None:
    assert not set(VAE_RECIPES) & set(RECIPES)
    with pytest.raises(UsageError, match="valid: biovae-32-beta00"):
        find_vae_recipe("biovae")


def test_the_commands_know_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recipes", "biovae-32-beta05", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["parameters"] == vae_parameters(find_vae_recipe("biovae-32-beta05"))
    assert data["model"]["latent_size"] == 32
    assert main(["recipes", "--json"]) == 0
    names = [row["name"] for row in json.loads(capsys.readouterr().out)]
    assert {"biovae-768-beta05", "bert-base"} <= set(names)
