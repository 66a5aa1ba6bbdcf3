"""Going on from a model with more layers than it has."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from biosmith.errors import UsageError
from biosmith.models.bert import BertConfig, PretrainingModel
from biosmith.models.modern import ModernConfig
from biosmith.pretraining.growing import Growth, deepened, grown

CONFIG = BertConfig(
    vocabulary_size=60, layers=3, width=16, heads=2, feed_forward=32, positions=16, dropout=0.0
)


def model_of(config: BertConfig) -> PretrainingModel:
    torch.manual_seed(0)
    return PretrainingModel(config.without_dropout(), next_sentence=False).eval()


def grow(model: PretrainingModel, growth: Growth) -> PretrainingModel:
    larger = model_of(deepened(CONFIG, growth))
    larger.load_state_dict(grown(model.state_dict(), growth))
    return larger


@pytest.mark.parametrize("layers", [4, 6, 8])
def test_stacked_layers_repeat_the_old_ones_in_order(layers: int) -> None:
    old = model_of(CONFIG)
    new = grow(old, Growth(layers, "stack"))
    assert len(new.encoder.layers) == layers
    for number, layer in enumerate(new.encoder.layers):
        for name, value in layer.state_dict().items():
            assert torch.equal(value, old.encoder.layers[number % 3].state_dict()[name]), (number, name)


@pytest.mark.parametrize("layers", [4, 7])
def test_identity_layers_change_next_to_nothing_where_norms_are_even(layers: int) -> None:
    """With gains and biases of LayerNorm that are the same everywhere, the new layers are the identity exactly."""
    old = model_of(CONFIG)
    with torch.no_grad():
        for layer in old.encoder.layers:
            layer.feed_forward_norm.weight.fill_(0.7)
            layer.feed_forward_norm.bias.fill_(0.2)
    new = grow(old, Growth(layers, "identity"))
    ids = torch.randint(5, 60, (2, 9))
    torch.testing.assert_close(new.encoder(ids), old.encoder(ids), rtol=0, atol=1e-5)


def test_identity_layers_stay_near_the_old_model_and_learn() -> None:
    old = model_of(CONFIG)
    with torch.no_grad():
        for layer in old.encoder.layers:
            layer.feed_forward_norm.weight.uniform_(0.6, 0.8)
            layer.feed_forward_norm.bias.normal_(0.0, 0.1)
    ids = torch.randint(5, 60, (2, 9))
    new = grow(old, Growth(5, "identity"))
    stacked = grow(old, Growth(5, "stack"))
    wanted = old.encoder(ids)
    far = (stacked.encoder(ids) - wanted).norm() / wanted.norm()
    near = (new.encoder(ids) - wanted).norm() / wanted.norm()
    assert near < 0.2 < far
    new.encoder(ids).square().sum().backward()
    for layer in new.encoder.layers[3:]:
        assert layer.feed_forward.down.weight.grad.abs().max() > 0
        assert layer.attention.output.weight.grad.abs().max() > 0


def test_new_layers_share_no_memory_with_the_old_ones() -> None:
    state = grown(model_of(CONFIG).state_dict(), Growth(6, "stack"))
    pointers = [value.data_ptr() for name, value in state.items() if ".layers." in name]
    assert len(set(pointers)) == len(pointers)


@pytest.mark.parametrize(
    ("config", "growth", "message"),
    [
        (CONFIG, Growth(3), "3 layers cannot grow to 3"),
        (CONFIG, Growth(2), "3 layers cannot grow to 2"),
        (CONFIG, Growth(6, "copy"), "valid: identity, stack"),  # type: ignore[arg-type]
        (ModernConfig(vocabulary_size=60, layers=2), Growth(6), "only models of the family bert"),
    ],
)
def test_what_cannot_grow_is_refused(config: object, growth: Growth, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        deepened(config, growth)


def test_a_grown_model_keeps_all_but_its_layers() -> None:
    old = model_of(CONFIG)
    new = grow(old, Growth(6))
    assert dataclasses.replace(new.config, layers=3) == old.config
    for name, value in old.state_dict().items():
        assert torch.equal(new.state_dict()[name], value), name
