"""The recipes say what the papers say."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

from biosmith.artefact import to_plain
from biosmith.cli import main
from biosmith.errors import UsageError
from biosmith.models.bert import PretrainingModel
from biosmith.pretraining.config import Recipe, recipe_from_plain
from biosmith.recipes import RECIPES, apply_overrides, find_recipe, parameters
from biosmith.recipes.biovae import VAE_RECIPES
from biosmith.recipes.table import rows

CONTRACT_OVERRIDES = {
    "steps": 7,
    "batch_tokens": 3_000,
    "learning_rate": 3e-5,
    "seed": 99,
    "checkpoint_every": 5,
    "log_every": 2,
}


@pytest.mark.parametrize(
    ("name", "count", "millions"),
    [
        ("bert-base", 110_106_428, 110),  # Devlin et al. (2019), section 3
        ("pubmedbert", 110_106_428, 110),  # Bioformer, Table 1
        (
            "bioformer-8l",
            42_820_610,
            43,
        ),  # Bioformer, Table 1; the published checkpoint to the last parameter
        ("bioformer-16l", 41_699_074, 42),  # Bioformer, Table 1
    ],
)
def test_the_model_has_as_many_parameters_as_the_paper_says(name: str, count: int, millions: int) -> None:
    assert parameters(find_recipe(name)) == count
    assert round(count / 1e6) == millions


def test_parameters_follow_from_the_configuration_by_arithmetic() -> None:
    model = find_recipe("bioformer-16l").model
    v, d, f = model.vocabulary_size, model.width, model.feed_forward
    embeddings = (v + model.positions + 2) * d + 2 * d
    layer = 4 * (d * d + d) + (d * f + f) + (f * d + d) + 4 * d
    heads = (d * d + d) + (d * d + d + 2 * d + v) + (2 * d + 2)  # pooler, masked language, next sentence
    assert embeddings + model.layers * layer + heads == parameters(find_recipe("bioformer-16l"))


def test_pubmedbert_is_that_of_section_6_1() -> None:
    recipe = find_recipe("pubmedbert")
    assert (recipe.steps, recipe.batch.sequences, recipe.batch.length) == (62_500, 8_192, 512)
    assert recipe.corpus.min_words == 128
    assert (recipe.vocabulary.size, recipe.vocabulary.cased) == (30_522, False)
    assert recipe.optimizer.learning_rate == 6e-4
    assert recipe.schedule.warm_up_length(recipe.steps) == 6_250
    assert recipe.objective("masked_language_model").unit == "word"
    assert recipe.objective("next_sentence_prediction") is not None


def test_bioformer_is_that_of_table_1() -> None:
    for name, layers, width, heads, length in (
        ("bioformer-8l", 8, 512, 8, 512),
        ("bioformer-16l", 16, 384, 6, 1_024),
    ):
        recipe = find_recipe(name)
        assert (recipe.model.layers, recipe.model.width, recipe.model.heads) == (layers, width, heads)
        assert (recipe.model.positions, recipe.batch.length) == (length, length)
        assert (recipe.steps, recipe.batch.sequences) == (2_000_000, 256)
        assert (recipe.vocabulary.size, recipe.vocabulary.cased) == (32_768, True)
        assert recipe.objective("masked_language_model").copies == 20
        assert recipe.schedule.warm_up_length(recipe.steps) == 10_000


def test_bert_base_is_that_of_appendix_a_2() -> None:
    recipe = find_recipe("bert-base")
    assert (recipe.steps, recipe.batch.tokens) == (1_000_000, 131_072)
    assert recipe.schedule.warm_up_length(recipe.steps) == 10_000
    assert recipe.objective("masked_language_model").unit == "token"
    assert not recipe.optimizer.bias_correction


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_survives_json(name: str) -> None:
    recipe = find_recipe(name)
    assert recipe_from_plain(json.loads(json.dumps(to_plain(recipe)))) == recipe


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_takes_the_overrides_of_the_contract(name: str) -> None:
    recipe = apply_overrides(
        find_recipe(name), [f"{key}={value}" for key, value in CONTRACT_OVERRIDES.items()]
    )
    found = {
        "steps": recipe.steps,
        "batch_tokens": recipe.batch.tokens,
        "learning_rate": recipe.optimizer.learning_rate,
        "seed": recipe.seed,
        "checkpoint_every": recipe.checkpoint_every,
        "log_every": recipe.log_every,
    }
    assert found == CONTRACT_OVERRIDES


@pytest.mark.parametrize("name", RECIPES)
def test_every_citation_belongs_to_a_field(name: str) -> None:
    recipe = find_recipe(name)
    assert recipe.citations
    shown = "\n".join(citation for _, _, citation in rows(recipe))
    for path, place in recipe.citations.items():
        assert place in shown, f"{path} is no field of the recipe"


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_in_small_makes_a_forward_and_a_backward_pass(name: str) -> None:
    recipe = apply_overrides(
        find_recipe(name),
        [
            "model.layers=1",
            "model.width=12",
            "model.feed_forward=8",
            "model.heads=2",
            "model.vocabulary_size=50",
        ],
    )
    pairs = recipe.objective("next_sentence_prediction") is not None
    model = PretrainingModel(recipe.model, next_sentence=pairs)
    logits = model(torch.arange(1, 9)[None])
    assert (logits.next_sentence_N2 is not None) == pairs
    sum(part.logsumexp(-1).sum() for part in logits if part is not None).backward()
    assert all(p.grad is not None for p in model.parameters())


@pytest.mark.parametrize("name", RECIPES)
def test_the_fast_profile_differs_by_dropout_and_says_so(name: str) -> None:
    fast, faithful = find_recipe(name, "fast"), find_recipe(name)
    assert (fast.model.dropout, fast.model.attention_dropout) == (0.0, 0.0)
    # The published ModernBERT has none, nor has ALBERT-xxlarge.
    papers = 0.0 if name.startswith(("modern", "biom-albert")) else 0.1
    assert (faithful.model.dropout, faithful.model.attention_dropout) == (papers, papers)
    assert replace(fast, profile="faithful", model=faithful.model, citations=faithful.citations) == faithful
    assert "profile fast" in fast.citations["model.dropout"]


def test_an_unknown_recipe_or_profile_is_refused_with_the_valid_ones() -> None:
    with pytest.raises(UsageError, match="bert-base, pubmedbert, bioformer-8l"):
        find_recipe("bioformer")
    with pytest.raises(UsageError, match="valid: faithful, fast"):
        find_recipe("demo", "quick")  # type: ignore[arg-type]


def test_the_command_prints_the_resolved_recipe_as_one_json_object(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["recipes", "bioformer-8l", "--override", "steps=10", "batch_tokens=2048", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data.pop("parameters") == 42_820_610
    recipe = recipe_from_plain(data)
    assert (recipe.steps, recipe.batch.tokens) == (10, 2_048)
    assert recipe.batch.length == 512


def test_the_command_lists_all_recipes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recipes", "--json"]) == 0
    assert [row["name"] for row in json.loads(capsys.readouterr().out)] == [*RECIPES, *VAE_RECIPES]
    assert main(["recipes"]) == 0
    assert "42,820,610" in capsys.readouterr().out
    assert main(["recipes", "bioformer-16l"]) == 0
    assert "Table 1" in capsys.readouterr().out


def test_the_command_refuses_an_unknown_recipe_as_a_wrong_call(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recipes", "foo"]) == 2
    assert "valid: bert-base" in capsys.readouterr().err


def test_a_sequence_longer_than_the_positions_is_refused() -> None:
    with pytest.raises(UsageError, match="longer than the model's 512 positions"):
        apply_overrides(find_recipe("demo"), ["batch.length=1024"])


def test_a_recipe_follows_the_size_of_another_vocabulary() -> None:
    recipe: Recipe = find_recipe("demo").with_vocabulary(1_234, pad_id=3)
    assert (recipe.model.vocabulary_size, recipe.vocabulary.size, recipe.model.pad_id) == (1_234, 1_234, 3)


def test_an_override_without_a_recipe_is_a_wrong_call(capsys: pytest.CaptureFixture[str]) -> None:
    # The list would be shown as if nothing had been asked for.
    assert main(["recipes", "--override", "steps=10"]) == 2
    assert "--override changes one recipe; name it: biosmith recipes NAME" in capsys.readouterr().err
