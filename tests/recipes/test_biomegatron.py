"""The BioMegatron recipes say what the paper says (Shin et al., 2020), and Megatron-LM where it is silent."""

from __future__ import annotations

import pytest

from biosmith.pretraining.schedules import learning_rate
from biosmith.recipes import find_recipe, parameters

# Name, Table 1 (layers, width, heads), the paper's round figure in millions.
SIZES = [
    ("biomegatron-345m", 24, 1_024, 16, 345),
    ("biomegatron-800m", 36, 1_280, 20, 800),
    ("biomegatron-1.2b", 24, 2_048, 16, 1_200),
]


@pytest.mark.parametrize(("name", "layers", "width", "heads", "millions"), SIZES)
def test_the_sizes_are_those_of_table_1(
    name: str, layers: int, width: int, heads: int, millions: int
) -> None:
    recipe = find_recipe(name)
    model = recipe.model
    assert (model.layers, model.width, model.heads, model.feed_forward) == (layers, width, heads, 4 * width)
    assert (model.rows, model.positions) == (30_592, 512)
    # Matrices, biases and LayerNorms of a layer; words, positions, segments; last norm, pooler and the two heads.
    d, f, v = width, 4 * width, 30_592
    layer = 4 * (d * d + d) + (d * f + f) + (f * d + d) + 4 * d
    heads_too = 2 * d + (d * d + d) + (d * d + d + 2 * d + v) + (2 * d + 2)
    assert parameters(recipe) == layers * layer + (v + 512 + 2) * d + heads_too
    # The paper's figures are names: what Table 1 says makes 336, 752 and 1,281 million.
    assert parameters(recipe) / 1e6 == pytest.approx(millions, rel=0.07)


def test_the_345m_model_with_50k_pieces_has_the_parameters_of_its_name() -> None:
    # 24 x 1,024 with a vocabulary of 50,000: 356 million; with 30,000: 336.
    assert parameters(find_recipe("biomegatron-345m-bio-50k")) / 1e6 == pytest.approx(356, abs=1)
    assert find_recipe("biomegatron-345m-bio-50k").model.rows == 50_048
    assert find_recipe("biomegatron-345m-bio-30k").model.rows == 30_080
    for size in ("30k", "50k"):
        vocabulary = find_recipe(f"biomegatron-345m-bio-{size}").vocabulary
        assert (vocabulary.kind, vocabulary.size) == ("sentencepiece", int(size[:2]) * 1_000)


@pytest.mark.parametrize("name", [size[0] for size in SIZES])
def test_it_is_trained_as_megatron_trains_its_bert(name: str) -> None:
    recipe = find_recipe(name)
    masked, order = recipe.objectives
    assert (masked.kind, masked.unit, masked.rate, masked.longest_ngram) == (
        "masked_language_model",
        "ngram",
        0.15,
        3,
    )
    assert (order.kind, order.swap_probability) == ("sentence_order_prediction", 0.5)
    assert recipe.batch.sequences == 1_024 and recipe.batch.length == 512
    optimizer = recipe.optimizer
    assert (optimizer.learning_rate, optimizer.weight_decay, optimizer.clip_norm) == (1e-4, 0.01, 1.0)
    assert optimizer.bias_correction and recipe.model.layer_norm_epsilon == 1e-5
    # 10,000 steps up to the peak, then down to zero at the end.
    assert recipe.schedule.warm_up_length(recipe.steps) == 10_000
    rate = [
        learning_rate(recipe.schedule, 1e-4, step, recipe.steps) for step in (5_000, 10_000, recipe.steps)
    ]
    assert rate == pytest.approx([5e-5, 1e-4, 0.0])


def test_the_largest_goes_on_as_long_as_table_6() -> None:
    assert find_recipe("biomegatron-1.2b").steps == 500_000
    assert find_recipe("biomegatron-345m").steps == find_recipe("biomegatron-800m").steps == 2_000_000
