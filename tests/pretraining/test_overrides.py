"""Typed overrides of nested frozen dataclasses, and their way back from JSON."""

from __future__ import annotations

import dataclasses

import pytest

from biosmith.artefact import to_plain
from biosmith.errors import UsageError
from biosmith.pretraining.config import AdamW, Muon, Polynomial, Recipe, apply_overrides, recipe_from_plain

RECIPE = Recipe(name="test", paper="none")


def test_values_take_the_type_of_their_field() -> None:
    changed = apply_overrides(
        RECIPE,
        [
            "steps=1e3",
            "batch_tokens=8_192",
            "optimizer.betas=0.9,0.98",
            "optimizer.weight_decay=0",
            "optimizer.bias_correction=true",
            "schedule.warmup_steps=5",
            "model.activation=gelu_new",
            "batch.phases=[]",
            "name=1",
        ],
    )
    assert changed.steps == 1_000 and isinstance(changed.steps, int)
    assert changed.batch.tokens == 8_192
    assert changed.optimizer.betas == (0.9, 0.98)
    assert changed.optimizer.weight_decay == 0.0 and isinstance(changed.optimizer.weight_decay, float)
    assert changed.optimizer.bias_correction is True
    assert changed.schedule.warm_up_length(100) == 5
    assert changed.model.activation == "gelu_new"
    assert changed.name == "1"
    assert apply_overrides(changed, ["warmup_steps=none"]).schedule.warmup_steps is None
    assert RECIPE.steps == 1_000_000, "the recipe itself is left alone"


def test_an_objective_is_reached_by_kind_by_place_and_by_its_short_name() -> None:
    for key in ("objectives.masked_language_model.rate", "objectives.0.rate", "mask_rate"):
        assert apply_overrides(RECIPE, [f"{key}=0.3"]).objectives[0].rate == 0.3
    assert apply_overrides(RECIPE, ["mask_rate=0.3"]).objectives[1] == RECIPE.objectives[1]


def test_another_kind_of_optimizer_or_schedule_comes_with_its_own_defaults() -> None:
    recipe = apply_overrides(RECIPE, ["optimizer.weight_decay=0.2", "learning_rate=3e-4"])
    changed = apply_overrides(
        recipe, ["optimizer.momentum=0.9", "optimizer.kind=muon", "schedule.kind=polynomial"]
    )
    assert changed.optimizer == Muon(momentum=0.9)
    assert changed.schedule == Polynomial()
    same = apply_overrides(recipe, ["optimizer.kind=adamw", "learning_rate=1e-3"])
    assert same.optimizer == AdamW(learning_rate=1e-3), "that the kind was the same already changes nothing"


def test_changes_that_only_fit_together_are_applied_together() -> None:
    # Width 100 alone does not fit 12 heads, nor does length 1,024 fit 512 positions.
    changed = apply_overrides(
        RECIPE, ["model.width=100", "model.heads=10", "length=1024", "model.positions=1024"]
    )
    assert (changed.model.width, changed.batch.length) == (100, 1_024)


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("stepz=1", "override 'stepz' is unknown; valid: name, .*steps.*, learning_rate"),
        (
            "objectives.foo.rate=1",
            "valid: objectives.masked_language_model, objectives.next_sentence_prediction",
        ),
        ("objectives.2.rate=1", "valid: objectives.masked_language_model"),
        ("steps=1.5", "override 'steps': 1.5 is not a whole number"),
        ("steps=many", "many is not a whole number"),
        ("steps=true", "true is not a whole number"),
        ("learning_rate=fast", "override 'learning_rate': fast is not a number"),
        ("batch.pack=books", "books is not one of documents, sentences, stream"),
        ("optimizer.betas=0.9", "is not a list of 2 values"),
        ("steps", "is not of the form key.path=value"),
        ("steps.x=1", "has no fields of its own"),
        ("steps=0", "steps must be at least 1"),
        ("keep_checkpoints=-1", "keep_checkpoints must be at least 0"),
        ("mask_rate=1.5", "mask rate must be above 0 and below 1, not 1.5"),
        ("objectives.masked_language_model.final_rate=1.2", "mask final_rate must be above 0 and below 1"),
        ("objectives.masked_language_model.copies=0", "copies must be at least 1"),
        ("objectives.1.random_probability=2", r"random_probability must be in \[0, 1\], not 2"),
        ("learning_rate=nan", "learning_rate must be above 0, not nan"),
        ("optimizer.betas=0.9,1.5", "betas must be at least 0 and below 1"),
        ("schedule.warmup=2", r"schedule.warmup must be in \[0, 1\], not 2"),
        ("batch.short_sequence_probability=3", "short_sequence_probability must be in"),
        ("evaluation.documents=-5", "evaluation.documents must be at least 0, not -5"),
        ("objectives.0.kind=other", "'objectives.0.kind' is unknown"),
        ("optimizer.kind=adam", "'optimizer.kind': 'adam' is unknown; valid: adamw, lamb, muon"),
        ("optimizer=muon", "is a section; set one of its fields: optimizer.kind, optimizer.learning_rate"),
        ("optimizer.lr=1", "valid: optimizer.kind, optimizer.learning_rate, optimizer.betas"),
        ("objectives=[]", "has no masked_language_model objective"),
        ('objectives=[{"kind": "next_sentence_prediction"}]', "has no masked_language_model objective"),
        ("objectives.².rate=0.2", "'objectives.²' is unknown; valid: objectives.masked_language_model"),
        ("model.token_types=1", "two segments need 2 token types"),
    ],
)
def test_a_wrong_override_is_refused_with_what_is_valid(override: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        apply_overrides(RECIPE, [override])


def test_overrides_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(UsageError, match="goes below a value"):
        apply_overrides(RECIPE, ["optimizer=1", "optimizer.learning_rate=1"])
    with pytest.raises(UsageError, match="whole section"):
        apply_overrides(RECIPE, ["optimizer.learning_rate=1", "optimizer=1"])


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("steps",), "ten", "config.json, steps: 'ten' is not a whole number"),
        (("speed",), 1, "has no field 'speed'"),
        (("model", "width"), None, "config.json, model, width: None is not a whole number"),
        (
            ("objectives",),
            [{"kind": "telepathy"}],
            "kind 'telepathy' is unknown; valid: masked_language_model",
        ),
        (("optimizer",), [], "is not an object of one of the kinds adamw, lamb, muon"),
    ],
)
def test_a_wrong_saved_recipe_is_refused_with_the_place(
    path: tuple[str, ...], value: object, words: str
) -> None:
    plain = to_plain(RECIPE)
    inner = plain
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    with pytest.raises(UsageError, match=words):
        recipe_from_plain(plain)


def test_a_saved_recipe_without_a_name_is_refused() -> None:
    plain = to_plain(RECIPE)
    del plain["name"]
    with pytest.raises(UsageError, match="lacks the field 'name'"):
        recipe_from_plain(plain)


def test_a_saved_recipe_reads_back_equal() -> None:
    changed = apply_overrides(RECIPE, ["seed=3", "micro_batch_tokens=4096", "mask_rate=0.4"])
    assert recipe_from_plain(to_plain(changed)) == changed
    assert dataclasses.replace(changed, seed=4) != changed
