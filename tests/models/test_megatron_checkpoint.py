"""Megatron-LM checkpoints of every version and number of shards give the logits of the model they hold."""

from __future__ import annotations

import argparse
import enum
import json
import sys
import types
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch import Tensor

from biosmith.cli import main
from biosmith.errors import BadInput, UsageError
from biosmith.models import load_encoder, load_pretraining_model
from biosmith.models.bert import PretrainingModel
from biosmith.models.megatron_checkpoint import by_part, convert_megatron, read_settings
from models.checks import padded_batch
from models.megatron_checks import tiny_megatron

HEADS = 4
ARGUMENTS = {
    "num_layers": 2,
    "hidden_size": 48,
    "num_attention_heads": HEADS,
    "layernorm_epsilon": 1e-5,
    "init_method_std": 0.2,
    "hidden_dropout": 0.1,
    "attention_dropout": 0.1,
    "bias_gelu_fusion": True,
    "padded_vocab_size": 128,
    "normalization": "LayerNorm",
}
# Ours -> Megatron-LM's name before Megatron-core, and how devices share it (0: rows, 1: columns).
NAMES = {
    "encoder.embeddings.words.weight": ("language_model.embedding.word_embeddings.weight", 0),
    "encoder.embeddings.positions.weight": ("language_model.embedding.position_embeddings.weight", None),
    "encoder.embeddings.types.weight": ("language_model.embedding.tokentype_embeddings.weight", None),
    "encoder.final_norm": ("language_model.encoder.final_layernorm", None),
    "encoder.pooler.dense": ("language_model.pooler.dense", None),
    "masked_language_head.dense": ("lm_head.dense", None),
    "masked_language_head.norm": ("lm_head.layernorm", None),
    "masked_language_head.bias": ("lm_head.bias", 0),
    "next_sentence_head.dense": ("binary_head", None),
}
LAYER = {
    "attention_norm": ("input_layernorm", None),
    "attention.qkv": ("self_attention.query_key_value", 0),
    "attention.output": ("self_attention.dense", 1),
    "feed_forward_norm": ("post_attention_layernorm", None),
    "feed_forward.up": ("mlp.dense_h_to_4h", 0),
    "feed_forward.down": ("mlp.dense_4h_to_h", 1),
}
CORE = {
    "language_model.": "",
    "query_key_value": "linear_qkv",
    "self_attention.dense": "self_attention.linear_proj",
    "dense_h_to_4h": "linear_fc1",
    "dense_4h_to_h": "linear_fc2",
    "post_attention_layernorm": "pre_mlp_layernorm",
    "lm_head.layernorm": "lm_head.layer_norm",
    "lm_head.bias": "output_layer.bias",
}


class ModelType(enum.Enum):
    """As Megatron's arguments hold one."""

    encoder_or_decoder = 1


def in_order_of(fused: Tensor, version: float, device: int, devices: int) -> Tensor:
    """One device's rows of [3 * heads * width] in a version's order, one row after the other."""
    per_head = fused.shape[0] // (3 * HEADS)
    mine = range(device * HEADS // devices, (device + 1) * HEADS // devices)
    parts, places = range(3), range(per_head)
    orders = {
        0.0: [(part, head, place) for part in parts for head in mine for place in places],
        1.0: [(part, head, place) for head in mine for place in places for part in parts],
    }
    other = [(part, head, place) for head in mine for part in parts for place in places]
    rows = [(part * HEADS + head) * per_head + place for part, head, place in orders.get(version, other)]
    return fused[rows]


def shard(model: PretrainingModel, version: float, device: int, devices: int, core: bool) -> dict[str, Any]:
    """What one device of Megatron's writes of a model."""
    flat: dict[str, Tensor] = {}
    for name, tensor in model.state_dict().items():
        stem, _, kind = name.rpartition(".")
        if name.startswith("encoder.layers."):
            _, _, number, inside = stem.split(".", 3)
            theirs, along = LAYER[inside]
            theirs = f"language_model.encoder.layers.{number}.{theirs}.{kind}"
        else:
            theirs, along = NAMES[name] if name in NAMES else NAMES[stem]
            theirs = theirs if name in NAMES else f"{theirs}.{kind}"
        if "query_key_value" in theirs:
            flat[theirs] = in_order_of(tensor, version, device, devices)
        elif along is None or (along == 1 and kind == "bias"):
            flat[theirs] = tensor.clone()
        else:
            flat[theirs] = tensor.chunk(devices, along)[device].clone()
    if core:
        for old, new in CORE.items():
            flat = {name.replace(old, new): tensor for name, tensor in flat.items()}
        return flat
    nested: dict[str, Any] = {"language_model": {}}
    for name, tensor in flat.items():
        part, _, rest = name.removeprefix("language_model.").partition(".")
        home = nested["language_model"] if name.startswith("language_model.") else nested
        home.setdefault(part, {})[rest] = tensor
    return nested


def write(
    folder: Path,
    model: PretrainingModel,
    version: float,
    devices: int = 1,
    *,
    core: bool = False,
    change: Callable[[dict[str, Any]], None] | None = None,
    **arguments: Any,
) -> Path:
    """A checkpoint of iteration 20,000 with random states and arguments, as Megatron-LM writes it."""
    values = argparse.Namespace(**{**ARGUMENTS, "tensor_model_parallel_size": devices, **arguments})
    for device in range(devices):
        state: dict[str, Any] = {"model": shard(model, version, device, devices, core), "iteration": 20_000}
        state |= {"checkpoint_version": version, "args": values}
        state["rng_state"] = [{"np_rng_state": np.random.RandomState(0).get_state()}]
        if change is not None:
            change(state)
        file = folder / "iter_0020000" / f"mp_rank_{device:02d}" / "model_optim_rng.pt"
        file.parent.mkdir(parents=True)
        torch.save(state, file)
    (folder / "latest_checkpointed_iteration.txt").write_text("20000", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def model() -> PretrainingModel:
    return tiny_megatron(layers=2).eval()


def assert_same_logits(folder: Path, model: PretrainingModel) -> None:
    converted, config = load_pretraining_model(folder)
    assert (config.heads, config.layer_norm_epsilon, config.activation) == (HEADS, 1e-5, "gelu_new")
    with torch.inference_mode():
        expected, found = model(*padded_batch()), converted(*padded_batch())
    assert torch.equal(found.masked_language_MV, expected.masked_language_MV)
    assert torch.equal(found.next_sentence_N2, expected.next_sentence_N2)


@pytest.mark.parametrize(
    ("version", "devices", "core"),
    [
        (0.0, 1, False),
        (1.0, 1, False),
        (2.0, 1, False),
        (3.0, 1, False),
        (0.0, 2, False),
        (1.0, 4, False),
        (2.0, 2, False),
        (3.0, 4, False),
        (3.0, 1, True),
        (3.0, 2, True),
    ],
)
def test_every_version_and_number_of_shards_gives_equal_logits(
    version: float, devices: int, core: bool, model: PretrainingModel, tmp_path: Path
) -> None:
    source = write(tmp_path / "source", model, version, devices, core=core)
    done = convert_megatron(source, tmp_path / "out")
    assert (done.checkpoint_version, done.shards, done.iteration) == (version, devices, 20_000)
    assert done.missing == () and done.architecture == "MegatronBertForPreTraining"
    assert_same_logits(tmp_path / "out", model)


def test_another_version_than_the_true_one_would_give_other_logits(model: PretrainingModel) -> None:
    # What the tests above would miss if the order did not matter.
    fused = model.encoder.layers[0].attention.qkv.weight.detach()
    rows = {version: in_order_of(fused, version, 0, 1) for version in (0.0, 1.0, 2.0)}
    for version, shuffled in rows.items():
        for other in rows:
            same = torch.equal(by_part(shuffled, other, HEADS, "qkv", Path()).flatten(0, 1), fused)
            assert same == (version == other)


def test_missing_parts_are_named_and_not_made_up(model: PretrainingModel, tmp_path: Path) -> None:
    def without(*parts: str) -> Callable[[dict[str, Any]], None]:
        def change(state: dict[str, Any]) -> None:
            for part in parts:
                home = state["model"]["language_model"] if part == "pooler" else state["model"]
                del home[part]

        return change

    for parts, architecture in (
        (("lm_head", "binary_head"), "MegatronBertModel"),  # as the published BioMegatron
        (("pooler", "binary_head"), "MegatronBertForMaskedLM"),
    ):
        folder = tmp_path / parts[0]
        write(folder / "source", model, 2.0, change=without(*parts))
        done = convert_megatron(folder / "source", folder / "out")
        assert set(done.missing) == set(parts) and done.architecture == architecture
        encoder, _ = load_encoder(folder / "out")
        assert (encoder.pooler is None) == ("pooler" in parts)
        with torch.inference_mode():
            hidden = model.encoder(*padded_batch())
            assert torch.equal(encoder(*padded_batch()), hidden)


def test_an_old_checkpoint_without_arguments_has_to_be_told_its_heads(
    model: PretrainingModel, tmp_path: Path
) -> None:
    def old(state: dict[str, Any]) -> None:
        del state["args"], state["checkpoint_version"]
        state["model"]["language_model"]["transformer"] = state["model"]["language_model"].pop("encoder")

    source = write(tmp_path / "source", model, 0.0, change=old)
    with pytest.raises(UsageError, match="--override heads=16"):
        convert_megatron(source, tmp_path / "out")
    done = convert_megatron(source, tmp_path / "out", settings=read_settings(["heads=4"]))
    assert done.checkpoint_version == 0.0
    assert any("no training arguments" in note for note in done.notes)
    assert_same_logits(tmp_path / "out", model)
    with pytest.raises(UsageError, match="fields: heads, layer_norm_epsilon, activation"):
        read_settings(["width=3"])


def test_arguments_decide_about_epsilon_and_activation_and_never_the_name(
    model: PretrainingModel, tmp_path: Path
) -> None:
    source = write(tmp_path / "source", model, 2.0, layernorm_epsilon=1e-6, bias_gelu_fusion=False)
    convert_megatron(source, tmp_path / "out", torch.bfloat16)
    encoder, config = load_encoder(tmp_path / "out")
    assert (config.layer_norm_epsilon, config.activation) == (1e-6, "gelu")
    assert encoder.embeddings.words.weight.dtype == torch.bfloat16


def test_what_cannot_be_converted_is_refused_with_the_reason(model: PretrainingModel, tmp_path: Path) -> None:
    def refused(name: str, said: str, version: float = 2.0, devices: int = 1, **options: Any) -> None:
        source = write(tmp_path / name, model, version, devices, **options)
        if name == "shard gone":
            (source / "iter_0020000" / "mp_rank_01" / "model_optim_rng.pt").unlink()
        with pytest.raises(BadInput, match=said):
            convert_megatron(source, tmp_path / "out")
        assert not (tmp_path / "out").exists()

    def other_norm(state: dict[str, Any]) -> None:
        state["model"]["language_model"]["encoder"]["final_layernorm.bias"] += torch.rand(1)

    def without_positions(state: dict[str, Any]) -> None:
        del state["model"]["language_model"]["embedding"]["position_embeddings.weight"]

    def words_in_a_row(state: dict[str, Any]) -> None:
        state["model"]["language_model"]["embedding"]["word_embeddings.weight"] = torch.zeros(5)

    def one_number(state: dict[str, Any]) -> None:
        name = "layers.0.self_attention.query_key_value.weight"
        state["model"]["language_model"]["encoder"][name] = torch.tensor(1.0)

    refused("version", "checkpoint_version is not known", version=4.0)
    refused("words", "lacks the matrix of word_embeddings", change=words_in_a_row)
    refused("number", "has 0 rows, which are not queries", change=one_number)
    for said in ("x", None):
        refused(
            f"version {said}", "version is not known", change=partial(dict.update, checkpoint_version=said)
        )
    for heads in (0, -1, 4.5):
        refused(f"{heads} heads", "has to be a whole one above 0", num_attention_heads=heads)
    refused("rope", "position_embedding_type", position_embedding_type="rope")
    refused("swiglu", "swiglu", swiglu=True)
    refused("devices", "shared by 8 devices", tensor_model_parallel_size=8)
    refused("shard gone", "lacks the shard mp_rank_01", devices=4)
    refused("disagreeing", "disagrees with .*final_layernorm.bias", devices=2, change=other_norm)
    refused("positions", "position_embeddings", change=without_positions)
    refused("layers", "num_layers is 24", num_layers=24)


@pytest.mark.parametrize("size", [0, 1_000, 5_000, 20_000])
def test_a_shard_that_was_cut_off_is_refused_by_name(
    size: int, model: PretrainingModel, tmp_path: Path
) -> None:
    """Where it is cut decides which error torch raises."""
    source = write(tmp_path / "source", model, 2.0)
    file = source / "iter_0020000" / "mp_rank_00" / "model_optim_rng.pt"
    file.write_bytes(file.read_bytes()[:size])
    with pytest.raises(BadInput, match=r"model_optim_rng\.pt: is damaged or no checkpoint of torch"):
        convert_megatron(source, tmp_path / "out")
    file.write_bytes(b"no checkpoint at all")
    with pytest.raises(BadInput, match=r"model_optim_rng\.pt: is damaged or no checkpoint of torch"):
        convert_megatron(source, tmp_path / "out")


def test_classes_of_megatron_are_read_as_nothing_and_those_of_others_refused(
    model: PretrainingModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("megatron", "evil"):
        made = types.ModuleType(module)
        kind = enum.Enum("ModelType", {"encoder": 1}, module=module)
        made.ModelType = kind  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, module, made)
    source = write(tmp_path / "source", model, 3.0, model_type=sys.modules["megatron"].ModelType.encoder)
    foreign = write(tmp_path / "foreign", model, 3.0, model_type=sys.modules["evil"].ModelType.encoder)
    for module in ("megatron", "evil"):
        monkeypatch.delitem(sys.modules, module)
    convert_megatron(source, tmp_path / "out")
    assert_same_logits(tmp_path / "out", model)
    with pytest.raises(BadInput, match="could run code"):
        convert_megatron(foreign, tmp_path / "other")


def test_the_command_converts_and_reports(
    model: PretrainingModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def without_heads(state: dict[str, Any]) -> None:
        del state["model"]["lm_head"], state["model"]["binary_head"]

    source = write(tmp_path / "source", model, 2.0, 2, change=without_heads)
    assert main(["convert", str(source), "--out", str(tmp_path / "out"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["architecture"], found["shards"], found["checkpoint_version"]) == (
        "MegatronBertModel",
        2,
        2.0,
    )
    assert found["missing"] == ["lm_head", "binary_head"]
    # A model that transformers would call MegatronBert loads there as well.
    transformers.MegatronBertModel.from_pretrained(tmp_path / "out")
    single = source / "iter_0020000" / "mp_rank_00" / "model_optim_rng.pt"
    assert main(["convert", str(single), "--out", str(tmp_path / "other")]) == 1
    assert "was shared by 2 devices, but 1 shards are there" in capsys.readouterr().err
    assert main(["convert", str(source), "--out", str(tmp_path / "third"), "--override", "width=3"]) == 2
