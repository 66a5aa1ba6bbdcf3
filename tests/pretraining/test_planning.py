"""Plans against numbers of the papers, and trackers."""

from __future__ import annotations

import dataclasses
import inspect
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from biosmith.cli import main
from biosmith.cli import plan as plan_command
from biosmith.cli import pretrain as pretrain_command
from biosmith.cli import recipes as recipes_command
from biosmith.errors import UsageError
from biosmith.pretraining.config import LengthPhase, apply_overrides
from biosmith.pretraining.elbo_planning import SENTENCE_TOKENS, plan_vae
from biosmith.pretraining.planning import flops_per_token, phases, plan
from biosmith.pretraining.preparing import phase_of
from biosmith.pretraining.tracking import find_trackers, numbers
from biosmith.recipes import find_recipe
from biosmith.recipes.biovae import find_vae_recipe


def test_the_computational_ratio_is_that_of_biom_table_1() -> None:
    # PubMedBERT 62.5k x 8,192 = 0.50; BioBERT and BERT 1M x 256 = 0.25, in units of ELECTRA-base++'s 4M x 256.
    assert plan(find_recipe("pubmedbert")).computational_ratio == pytest.approx(0.5)
    assert plan(find_recipe("bert-base")).computational_ratio == pytest.approx(0.25)


def test_parameters_are_the_papers() -> None:
    assert plan(find_recipe("bioformer-8l")).parameters == 42_820_610
    assert round(plan(find_recipe("bert-base")).parameters / 1e6) == 110


def test_flops_by_hand() -> None:
    # Bioformer-8L, 512 tokens: layers 8 (4 x 512^2 + 2 x 512 x 2048), attention 8 x 2 x 512 x 512,
    # head 0.15 (512^2 + 512 x 32768); 2 operations a multiply-add, three passes.
    layers, attention = 8 * (4 * 512**2 + 2 * 512 * 2048), 8 * 2 * 512 * 512
    head = 0.15 * (512**2 + 512 * 32_768)
    assert flops_per_token(find_recipe("bioformer-8l")) == round(6 * (layers + attention + head))


def test_more_cards_take_less_time_and_a_small_card_does_not_fit() -> None:
    recipe = find_recipe("bert-base", "fast")
    one, four = plan(recipe, "h100", 1), plan(recipe, "h100", 4)
    assert one.hours / 4 < four.hours < one.hours / 2
    large = apply_overrides(recipe, ["batch_tokens=524288", "batch.phases=[]"])
    # The more work a step has for each card, the less the others cost.
    assert plan(large, "h100", 4).hours < plan(large, "h100", 1).hours / 3.5
    assert not plan(recipe, "l4").fits and plan(recipe, "h100").fits
    assert plan(recipe, "h100", corpus_tokens=one.tokens // 4).epochs == pytest.approx(4, abs=0.01)


def test_phases_have_their_own_tokens() -> None:
    recipe = find_recipe("bert-base")
    assert recipe.batch.phases == (LengthPhase(0.9, 128, "sequences"),)
    assert phases(recipe) == [(0.0, 0.9, 128, 32_768), (0.9, 1.0, 512, 131_072)]
    # 900,000 steps of 32,768 tokens and 100,000 of 131,072.
    assert plan(recipe).tokens == 900_000 * 32_768 + 100_000 * 131_072


@pytest.mark.parametrize("steps", [1, 5, 7, 33])
def test_tokens_are_those_of_the_steps_that_are_taken(steps: int) -> None:
    recipe = apply_overrides(find_recipe("bert-base"), [f"steps={steps}"])
    recipe = dataclasses.replace(
        recipe, batch=dataclasses.replace(recipe.batch, phases=(LengthPhase(0.5, 128, "sequences"),))
    )
    sizes = [size for _, _, _, size in phases(recipe)]
    planned = plan(recipe)
    assert planned.tokens == sum(sizes[phase_of(recipe, step)] for step in range(steps))
    assert planned.sequences == steps * recipe.batch.sequences


def test_an_unknown_card_is_refused_with_the_valid_ones() -> None:
    with pytest.raises(UsageError, match="valid: h200, h100, a100"):
        plan(find_recipe("demo"), "h1000")


def test_a_rate_that_changes_counts_with_its_mean() -> None:
    # The head's products go with the mask rate: 5 % to 25 % is 15 % in the mean, in five stages or little by little; one
    # stage stays at the first rate.
    rates = "objectives.masked_language_model."
    recipe = apply_overrides(find_recipe("pubmedbert"), [rates + "rate=0.15", rates + "final_rate=none"])
    rising = [rates + "rate=0.05", rates + "final_rate=0.25"]
    for stages in ("none", "5"):
        found = apply_overrides(recipe, [*rising, f"{rates}rate_stages={stages}"])
        assert flops_per_token(found) == pytest.approx(flops_per_token(recipe), rel=1e-4)
    still = apply_overrides(recipe, [*rising, rates + "rate_stages=1"])
    assert flops_per_token(still) == flops_per_token(apply_overrides(recipe, [rates + "rate=0.05"]))


def test_a_latent_variable_model_is_planned_by_its_sentences() -> None:
    found = plan_vae(find_vae_recipe("biovae-32-beta05", "fast"))
    # Supplement, E.4 of BioVAE: 34 million sentences, one epoch.
    assert found.sequences == 16_700 * 2_048
    assert found.tokens == found.sequences * SENTENCE_TOKENS
    # BERT-base and GPT-2 small: 12 layers of 12 x 768^2 weights on either side, and the decoder's 50,260 pieces.
    assert found.flops_per_token == 6 * (2 * 12 * 12 * 768**2 + 768 * 50_260)
    assert found.fits and not plan_vae(find_vae_recipe("biovae-32-beta05", "fast"), "l4").fits
    alone = plan_vae(find_vae_recipe("biovae-language-model"))
    assert alone.flops_per_token == 6 * (12 * 12 * 768**2 + 768 * 50_260)


def test_the_command_plans_latent_variable_models_on_whole_cards(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "biovae-demo", "--override", "steps=10", "--tokens", "9920", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["sequences"], found["epochs"]) == (640, 2.0)  # 640 sentences of 31 tokens
    assert main(["plan", "biovae-demo", "--gpus", "2", "--parallel", "fsdp"]) == 2
    assert "each device has a whole latent-variable model" in capsys.readouterr().err


def test_a_card_is_known_in_capitals_too() -> None:
    assert plan(find_recipe("demo"), gpu="H100") == plan(find_recipe("demo"), gpu="h100")
    assert plan_vae(find_vae_recipe("biovae-demo"), gpu="L4").gpu == "l4"
    with pytest.raises(UsageError, match="'b7' is unknown; valid: h200, h100"):
        plan(find_recipe("demo"), gpu="B7")


def test_a_corpus_of_no_tokens_has_no_epochs() -> None:
    with pytest.raises(UsageError, match="--tokens must be at least 1, not 0"):
        plan(find_recipe("demo"), corpus_tokens=0)


def test_recipes_of_latent_variable_models_are_known_by_name() -> None:
    with pytest.raises(UsageError, match="'biovae-demo' is that of a latent-variable model"):
        find_recipe("biovae-demo")
    with pytest.raises(UsageError, match=r"'bert' is unknown; valid: bert-base, .*biovae-demo"):
        find_recipe("bert")


def test_a_line_becomes_numbers_in_groups() -> None:
    found = numbers(
        {"step": 3, "loss": 2.5, "eval_loss": 2.0, "mask_rate": 0.15, "tokens_per_second": 7, "x": None}
    )
    assert found == {
        "loss/loss": 2.5,
        "loss/eval_loss": 2.0,
        "rates/mask_rate": 0.15,
        "run/tokens_per_second": 7.0,
    }


def test_tensorboard_gets_the_lines(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    [make] = find_trackers(["tensorboard"])
    tracker = make(tmp_path, apply_overrides(find_recipe("demo"), []), 0)
    tracker.add({"step": 5, "loss": 3.0})
    tracker.close()
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [(e.step, e.value) for e in events.Scalars("loss/loss")] == [(5, 3.0)]


def test_weights_and_biases_gets_the_lines_and_goes_on_in_the_same_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The package is not installed here; a stand-in with its three calls shows what would be sent.
    calls: list[Any] = []
    run = SimpleNamespace(
        log=lambda values, step: calls.append((step, values)), finish=lambda: calls.append("end")
    )
    module = SimpleNamespace(init=lambda **options: calls.append(options) or run, __spec__=SimpleNamespace())
    monkeypatch.setitem(sys.modules, "wandb", module)
    [make] = find_trackers(["wandb"])
    for _ in range(2):
        tracker = make(tmp_path, find_recipe("demo"), 0)
        tracker.add({"step": 1, "loss": 2.0})
        tracker.close()
    assert calls[0]["id"] == calls[3]["id"] and calls[0]["resume"] == "allow"
    assert calls[1:3] == [(1, {"loss/loss": 2.0}), "end"]


def test_an_unknown_tracker_is_refused() -> None:
    with pytest.raises(UsageError, match="valid: tensorboard, wandb"):
        find_trackers(["paper"])


def test_a_plan_is_of_what_pretrain_would_do(capsys: pytest.CaptureFixture[str]) -> None:
    # The same call without a profile: a plan of another one would foretell another run.
    commands = (plan_command.plan, pretrain_command.pretrain, recipes_command.recipes)
    assert {inspect.signature(command).parameters["profile"].default for command in commands} == {"faithful"}
    assert main(["plan", "demo", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["profile"] == "faithful"
