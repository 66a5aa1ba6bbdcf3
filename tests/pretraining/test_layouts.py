"""What a layout takes follows from what the code really shares."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from biosmith.errors import UsageError
from biosmith.pretraining.config import Recipe, apply_overrides
from biosmith.pretraining.layouts import (
    GIB,
    Layout,
    activation_bytes,
    layer_parameters,
    memory_gib,
    seconds_of_talk,
    state_bytes,
)
from biosmith.pretraining.planning import plan, recipe_parameters
from biosmith.recipes import find_recipe


@pytest.fixture(scope="module")
def recipe() -> Recipe:
    return apply_overrides(find_recipe("biomegatron-1.2b", "fast"), ["micro_batch_tokens=32768"])


def test_one_card_holds_sixteen_bytes_a_parameter_and_a_copy_in_bfloat16(recipe: Recipe) -> None:
    # float32 parameter, gradient and Adam's two averages; the step computes with a bfloat16 copy.
    assert state_bytes(recipe, 1_000, Layout(1)) == 1_000 * (4 + 4 + 8 + 2)
    assert state_bytes(recipe, 1_000, Layout(2, "ddp")) == state_bytes(recipe, 1_000, Layout(1))


def test_cards_that_share_layers_or_parameters_hold_their_part(recipe: Recipe) -> None:
    parameters = recipe_parameters(recipe)
    one = state_bytes(recipe, parameters, Layout(1))
    assert state_bytes(recipe, parameters, Layout(4, tensor_parallel=4)) == pytest.approx(one / 4)
    spread = state_bytes(recipe, parameters, Layout(4, "fsdp"))
    layer = layer_parameters(recipe.model)
    outside = parameters - 24 * layer
    # A quarter of sixteen bytes, and what is gathered: layers two at a time and the gradients of one, the rest always.
    assert spread == pytest.approx(parameters * 16 / 4 + 2 * (3 * layer + 2 * outside))
    both = state_bytes(recipe, parameters, Layout(4, "fsdp", 2))
    assert parameters * 16 / 4 < both < one / 2


def test_activations_are_shared_but_for_what_is_gathered(recipe: Recipe) -> None:
    one, two = (activation_bytes(recipe, Layout(n, tensor_parallel=n)) for n in (1, 2))
    assert one / 2 < two < 0.6 * one
    again = activation_bytes(recipe, Layout(1, activation_checkpointing=True))
    # The input of each layer and the whole of one: 16 D + 24 x D instead of 24 x 16 D numbers, and the logits.
    logits = 32_768 * 0.15 * 30_522 * 10
    assert one - logits == pytest.approx(32_768 * 24 * 16 * 2_048 * 2)
    assert again - logits == pytest.approx(32_768 * (24 + 16) * 2_048 * 2)
    assert memory_gib(recipe, 0, Layout(1)) == pytest.approx(one / GIB + 1.0)


def test_talk_is_counted_by_what_is_sent(recipe: Recipe) -> None:
    # Two gathers and two scatters a layer, in both passes, of 32,768 x 2,048 bfloat16 numbers, half of which a card has.
    waits, hidden = seconds_of_talk(recipe, 10**9, Layout(2, tensor_parallel=2), "h100")
    assert waits == pytest.approx(8 * 24 * 32_768 * 2_048 * 2 / 2 / (450e9 * 0.21)) and hidden == 0
    # Parameters gathered twice in two bytes, gradients scattered in four.
    waits, hidden = seconds_of_talk(recipe, 10**9, Layout(2, "fsdp"), "h100")
    assert waits == 0 and hidden == pytest.approx(1e9 * 8 / 2 / (450e9 * 0.75))
    assert seconds_of_talk(recipe, 10**9, Layout(2, "fsdp"), "l4")[1] > 10 * hidden


def test_plans_of_the_three_sizes_say_what_fits_and_what_sharing_costs() -> None:
    for name, parameters in (("345m", 336), ("800m", 752), ("1.2b", 1_281)):
        recipe = find_recipe(f"biomegatron-{name}", "fast")
        one = plan(recipe)
        assert round(one.parameters / 1e6) == pytest.approx(parameters, rel=0.01)
        two = plan(recipe, gpus=2, layout=Layout(2, tensor_parallel=2))
        spread = plan(recipe, gpus=2, layout=Layout(2, "fsdp"))
        assert two.memory_gib < one.memory_gib and spread.memory_gib < one.memory_gib
        assert one.tokens_per_second < two.tokens_per_second < 2 * one.tokens_per_second
        assert two.tokens_per_second < spread.tokens_per_second <= 2 * one.tokens_per_second
        again = plan(recipe, layout=Layout(activation_checkpointing=True))
        assert again.tokens_per_second == pytest.approx(0.75 * one.tokens_per_second, rel=0.01)
        assert again.memory_gib < 0.5 * one.memory_gib
    assert two.layout == "TP 2"


def test_plans_are_within_fifteen_percent_of_what_was_measured() -> None:
    results = Path(__file__).parents[2] / "benchmarks" / "results"
    sizes = json.loads((results / "parallel_pretraining.json").read_text(encoding="utf-8"))["sizes"]
    known = {"one": Layout(1), "tp2": Layout(2, tensor_parallel=2), "fsdp2": Layout(2, "fsdp")}
    for size, found in sizes.items():
        for name, row in found["layouts"].items():
            layout = known[name]
            # The settings of the benchmark.
            recipe = apply_overrides(
                find_recipe(f"biomegatron-{size}", "fast"),
                [f"batch_tokens={16_384 * layout.replicas}", "batch.micro_batch_tokens=16384"],
            )
            planned = plan(recipe, "h200", layout.gpus, layout=layout)
            assert planned.tokens_per_second == pytest.approx(row["tokens_per_second"], rel=0.15), (
                size,
                name,
            )
            assert planned.memory_gib == pytest.approx(row["memory_gib"], rel=0.15), (size, name)


@pytest.mark.parametrize(
    ("file", "tokens", "length"), [("scaling_h100.json", 161_000, 128), ("scaling_h200.json", 524_288, 512)]
)
def test_replicas_are_planned_as_fast_as_they_were_measured(file: str, tokens: int, length: int) -> None:
    path = Path(__file__).parents[2] / "benchmarks" / "results" / file
    found = json.loads(path.read_text(encoding="utf-8"))
    recipe = apply_overrides(
        find_recipe("bert-base", "fast"),
        [f"batch_tokens={tokens}", f"batch.length={length}", "batch.phases=[]"],
    )
    one = plan(recipe).tokens_per_second
    for name, row in (found.get("rows") or found["runs"]).items():
        if name not in ("1", "one", "fsdp2"):
            cards = int(name.removeprefix("ddp"))
            share = plan(recipe, gpus=cards).tokens_per_second / one / cards
            assert share == pytest.approx(row["share_of_linear"], abs=0.06), (file, name)


def test_impossible_layouts_are_refused() -> None:
    for arguments, said in (
        ((3, "fsdp", 2), "does not divide"),
        ((4, "ddp", 2), "needs --parallel fsdp"),
        ((0,), "at least 1"),
    ):
        with pytest.raises(UsageError, match=said):
            Layout(*arguments)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="megatron-bert"):
        plan(find_recipe("bert-base"), gpus=2, layout=Layout(2, tensor_parallel=2))
    with pytest.raises(UsageError, match="3 devices cannot share"):
        plan(find_recipe("biomegatron-345m"), gpus=3, layout=Layout(3, tensor_parallel=3))
    assert replace(Layout(4), tensor_parallel=4).replicas == 1
