"""The recipes of the modern family: sizes by arithmetic, objectives, what the papers say."""

from __future__ import annotations

import pytest
import torch

from biosmith.errors import UsageError
from biosmith.models.bert import PretrainingModel
from biosmith.models.modern import ModernConfig
from biosmith.models.packed import PackedSequences
from biosmith.pretraining.step import LossSums
from biosmith.recipes import apply_overrides, find_recipe, parameters


@pytest.mark.parametrize(("name", "count"), [("modern-base", 136_120_832), ("modern-small", 42_644_480)])
def test_parameters_follow_from_the_configuration_by_arithmetic(name: str, count: int) -> None:
    model = find_recipe(name).model
    v, d, f, layers = model.vocabulary_size, model.width, model.feed_forward, model.layers
    embeddings = v * d + d
    # Attention in and out, value and gate and out, two gains; the first layer has one gain.
    encoder = layers * (4 * d * d + 3 * d * f) + (2 * layers - 1) * d + d
    head = d * d + d + v
    assert embeddings + encoder + head == count
    assert parameters(find_recipe(name)) == count


def test_modern_base_is_modernbert_base_but_for_the_vocabulary_and_the_context() -> None:
    # 149,014,272 without heads for 50,368 words (Warner et al., 2024, section 2.1: 149 million).
    recipe = find_recipe("modern-base")
    assert isinstance(recipe.model, ModernConfig)
    head = 768 * 768 + 768 + 32_768
    assert parameters(recipe) - head + (50_368 - 32_768) * 768 == 149_014_272
    assert (recipe.model.global_every, recipe.model.local_attention) == (3, 128)
    assert recipe.model.positions == recipe.batch.length == 1_024


def test_modern_small_has_the_size_and_the_tokens_of_bioformer_8l() -> None:
    small, bioformer = find_recipe("modern-small"), find_recipe("bioformer-8l")
    assert parameters(small) / parameters(bioformer) == pytest.approx(1, abs=0.005)
    seen = [recipe.steps * recipe.batch.tokens for recipe in (small, bioformer)]
    assert seen[0] == seen[1]


@pytest.mark.parametrize("name", ["modern-base", "modern-small"])
def test_words_alone_are_predicted_at_a_rate_that_falls_from_30_to_15_percent(name: str) -> None:
    recipe = find_recipe(name)
    assert [objective.kind for objective in recipe.objectives] == ["masked_language_model"]
    masked = recipe.objective("masked_language_model")
    assert masked.rate_at(0, recipe.steps) == 0.30
    assert masked.rate_at(recipe.steps - 1, recipe.steps) == pytest.approx(0.15)


@pytest.mark.parametrize("name", ["modern-base", "modern-small"])
def test_the_warm_up_takes_three_billion_tokens(name: str) -> None:
    recipe = find_recipe(name)
    warm_up = recipe.schedule.warm_up_length(recipe.steps) * recipe.batch.tokens
    assert warm_up == pytest.approx(3e9, rel=0.01)
    assert recipe.optimizer.bias_correction


def test_values_of_the_family_are_overridden_and_checked_like_any_other() -> None:
    recipe = apply_overrides(find_recipe("modern-base"), ["model.global_every=1", "model.norm_bias=true"])
    assert isinstance(recipe.model, ModernConfig)
    assert (recipe.model.global_every, recipe.model.norm_bias) == (1, True)
    with pytest.raises(UsageError, match=r"'model.token_types' is unknown; valid: .*model.global_every"):
        apply_overrides(find_recipe("modern-base"), ["model.token_types=2"])
    with pytest.raises(UsageError, match="longer than the model's 1024 positions"):
        apply_overrides(find_recipe("modern-base"), ["batch.length=8192"])


@pytest.mark.parametrize("compute", ["float32", "mixed", "bfloat16"])
def test_the_loss_of_the_step_is_that_of_padded_sequences_in_every_precision(compute: str) -> None:
    # Sequences longer than the window, so that local layers are local; bfloat16 keeps 8 bits.
    torch.manual_seed(0)
    small = ["model.layers=4", "model.width=32", "model.heads=2", "model.feed_forward=24"]
    recipe = apply_overrides(
        find_recipe("modern-small"), [*small, "model.vocabulary_size=60", "model.local_attention=8"]
    )
    model = PretrainingModel(recipe.model)
    ids = [torch.randint(5, 60, (length,)).tolist() for length in (30, 7)]
    packed, hidden = PackedSequences.of(ids), torch.tensor([2, 20, 33])
    labels = packed.input_ids_T[hidden]
    sums = LossSums(model, compute)(*packed.arguments, hidden, labels, torch.full((2,), -100))
    padded = torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in ids], batch_first=True)
    logits = model(padded, padded > 0, masked_positions_M=torch.tensor([2, 20, 33])).masked_language_MV
    expected = torch.nn.functional.cross_entropy(logits, labels, reduction="sum")
    torch.testing.assert_close(
        sums[0].float(), expected, rtol=1e-5 if compute == "float32" else 0.02, atol=1e-5
    )
    assert sums[1] == 0
    sums.sum().backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in model.parameters())
