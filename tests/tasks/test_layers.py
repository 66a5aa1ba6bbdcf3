"""Layers that learn more slowly, not at all, or from the beginning."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from biosmith.errors import UsageError
from biosmith.tasks import fitting
from biosmith.tasks.instances import Instance
from biosmith.tasks.layers import depth_of, learning_rate_scales, prepare_layers
from biosmith.tasks.network import new_tagger
from biosmith.tasks.sequence_network import Form, new_sequence_network
from biosmith.tasks.settings import SequenceSettings, TrainingSettings
from biosmith.tasks.training import _optimizer

FORM = Form("class")


def test_names_of_all_families_tell_how_deep_a_parameter_lies() -> None:
    names = {
        "encoder.embeddings.words.weight": 0,
        "model.embeddings.tok_embeddings.weight": 0,
        "encoder.layers.3.feed_forward.up.weight": 4,
        "bert.encoder.layer.11.output.dense.bias": 12,
        "distilbert.transformer.layer.0.ffn.lin1.weight": 1,
        "classifier.weight": None,
        "encoder.pooler.dense.weight": None,
    }
    assert {name: depth_of(name) for name in names} == names


def test_the_learning_rate_falls_from_layer_to_layer(tiny_model: Path) -> None:
    # Two layers: head 1, layer 1 0.5, layer 0 0.25, embeddings 0.125 of the rate.
    network = new_sequence_network(tiny_model, ["a", "b"], FORM, 0.1)
    optimizer = _optimizer(network, TrainingSettings(learning_rate=0.08, layer_decay=0.5))
    rates = {id(p): group["lr"] for group in optimizer.param_groups for p in group["params"]}
    expected = {
        "classifier.weight": 0.08,
        "encoder.pooler.dense.bias": 0.08,
        "encoder.layers.1.attention.qkv.weight": 0.04,
        "encoder.layers.0.feed_forward_norm.weight": 0.02,
        "encoder.embeddings.positions.weight": 0.01,
    }
    named = dict(network.named_parameters())
    assert {name: rates[id(named[name])] for name in expected} == pytest.approx(expected)
    assert len(rates) == len(named)
    # What is logged is the head's.
    assert optimizer.param_groups[0]["lr"] == 0.08


def test_without_decay_all_learn_alike() -> None:
    assert set(learning_rate_scales(["embeddings.a", "layers.0.b", "head"], 1.0).values()) == {1.0}


def weights(network: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in network.named_parameters()}


def test_frozen_layers_stay_as_they_were(tiny_model: Path) -> None:
    instances = [Instance(str(i), "gout is rare", "ab"[i % 2]) for i in range(4)]
    before = weights(new_sequence_network(tiny_model, ["a", "b"], FORM, 0.1))
    settings = SequenceSettings(learning_rate=0.01, batch_size=2, epochs=1, frozen_layers=1, device="cpu")
    tuned = fitting.fit("classification", tiny_model, instances, None, settings)
    after = weights(tuned.network)  # type: ignore[attr-defined]
    for name, value in before.items():
        if name.startswith(("encoder.embeddings", "encoder.layers.0")):
            assert torch.equal(value, after[name]), name
        elif name.startswith("encoder.layers.1") and value.dim() == 2:
            assert not torch.equal(value, after[name]), name


def test_top_layers_begin_anew_and_the_others_do_not(tiny_model: Path) -> None:
    network = new_sequence_network(tiny_model, ["a", "b"], FORM, 0.1)
    before = weights(network)
    prepare_layers(network, TrainingSettings(reinitialised_layers=1))
    after = weights(network)
    changed = {n for n in before if before[n].dim() == 2 and not torch.equal(before[n], after[n])}
    assert changed == {
        n for n in before if before[n].dim() == 2 and n.startswith(("encoder.layers.1", "encoder.pooler"))
    }
    assert float(after["encoder.layers.1.attention.qkv.weight"].std()) == pytest.approx(0.02, rel=0.2)
    assert not after["encoder.layers.1.attention.qkv.bias"].any()


def test_more_layers_than_there_are_is_refused(tiny_model: Path) -> None:
    network = new_tagger(tiny_model, ["O", "B"], 0.1)
    for name in ("frozen_layers", "reinitialised_layers"):
        with pytest.raises(UsageError, match=f"{name} is 3, but the model has 2 layers"):
            prepare_layers(network, TrainingSettings(**{name: 3}))
