"""GPT-2's configuration and tensors under Hugging Face's names, both ways.

GPT-2 keeps the matrices of its dense layers as [in, out] where torch has [out, in]; they are turned on the way.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from biosmith.errors import BadInput, UsageError
from biosmith.models.checkpoint import read_tensors
from biosmith.models.gpt2 import Decoder, Gpt2Config

# Hugging Face's field -> ours.
FIELDS = {
    "vocab_size": "vocabulary_size",
    "n_layer": "layers",
    "n_embd": "width",
    "n_head": "heads",
    "n_positions": "positions",
    "resid_pdrop": "dropout",
    "attn_pdrop": "attention_dropout",
    "layer_norm_epsilon": "layer_norm_epsilon",
    "activation_function": "activation",
    "initializer_range": "initializer_range",
}
SPECIAL = {"pad_token_id": "pad_id", "bos_token_id": "begin_id", "eos_token_id": "end_id"}
ACTIVATIONS = {"gelu_pytorch_tanh": "gelu_new"}
# What transformers assumes where a file says nothing, and the only value that this decoder computes.
FIXED = {
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "reorder_and_upcast_attn": False,
    "add_cross_attention": False,
    "tie_word_embeddings": True,
}
# transformers' defaults, which files leave out; the decoder's own numbers of special tokens are OPTIMUS's.
_DEFAULTS: dict[str, Any] = {
    "vocabulary_size": 50_257,
    "pad_id": 50_256,
    "begin_id": 50_256,
    "end_id": 50_256,
}
PREFIX, OUTPUT = "transformer.", "lm_head.weight"


def places(config: Gpt2Config) -> dict[str, tuple[str, bool]]:
    """Hugging Face's name without the prefix -> (our name, whether the matrix is turned)."""
    table = {"wte.weight": ("words.weight", False), "wpe.weight": ("positions.weight", False)}
    parts = {
        "ln_1": "attention_norm",
        "attn.c_attn": "attention.qkv",
        "attn.c_proj": "attention.output",
        "ln_2": "feed_forward_norm",
        "mlp.c_fc": "feed_forward.up",
        "mlp.c_proj": "feed_forward.down",
    }
    for layer in range(config.layers):
        for theirs, ours in parts.items():
            turned = ".c_" in f".{theirs}"
            table[f"h.{layer}.{theirs}.weight"] = (f"layers.{layer}.{ours}.weight", turned)
            table[f"h.{layer}.{theirs}.bias"] = (f"layers.{layer}.{ours}.bias", False)
    return table | {f"ln_f.{kind}": (f"norm.{kind}", False) for kind in ("weight", "bias")}


def to_hugging_face(decoder: Decoder) -> dict[str, Tensor]:
    """The tensors of `GPT2LMHeadModel`; the tied output layer is not repeated."""
    state = {name: tensor.detach().cpu() for name, tensor in decoder.state_dict().items()}
    return {
        PREFIX + theirs: (state[ours].t() if turned else state[ours]).contiguous()
        for theirs, (ours, turned) in places(decoder.config).items()
    }


def config_to_hugging_face(config: Gpt2Config, dtype: torch.dtype) -> dict[str, Any]:
    """The `config.json` of `GPT2LMHeadModel`."""
    raw: dict[str, Any] = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], **FIXED}
    raw |= {theirs: getattr(config, ours) for theirs, ours in (FIELDS | SPECIAL).items()}
    return raw | {
        "embd_pdrop": config.dropout,
        "n_inner": None,
        "use_cache": True,
        "dtype": str(dtype).removeprefix("torch."),
    }


def read_decoder_config(folder: Path) -> Gpt2Config:
    """The configuration of a GPT-2 folder.

    Raises:
        UsageError: the folder has no `config.json`.
        BadInput: it is another architecture, or computes something that this decoder does not.
    """
    file = folder / "config.json"
    if not file.is_file():
        what = "has no config.json" if folder.is_dir() else "does not exist"
        raise UsageError(f"{folder} {what}; expected a GPT-2 folder")
    try:
        raw = json.loads(file.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise BadInput(file, f"is not JSON: {error}") from error
    if not isinstance(raw, dict):
        raise BadInput(file, "is not a JSON object")
    return config_from_hugging_face(raw, file)


def config_from_hugging_face(raw: Mapping[str, Any], file: Path) -> Gpt2Config:
    """Our configuration from a `config.json`. Raises `BadInput` as `read_decoder_config`."""
    kind = raw.get("model_type", "gpt2")
    if kind != "gpt2":
        raise BadInput(file, "the decoder has to be a GPT-2 model", value=kind, valid=["gpt2"])
    for key, wanted in FIXED.items():
        if raw.get(key, wanted) != wanted:
            raise BadInput(file, f"{key} is not supported", value=raw[key], valid=[wanted])
    values = dict(_DEFAULTS)
    values |= {o: raw[t] for t, o in (FIELDS | SPECIAL).items() if raw.get(t) is not None}
    activation = values.get("activation", "gelu_new")
    values["activation"] = ACTIVATIONS.get(str(activation), activation)
    try:
        config = Gpt2Config(**values)
    except (TypeError, UsageError) as error:
        raise BadInput(file, f"is not a usable GPT-2 configuration: {error}") from error
    if raw.get("n_inner") not in (None, 4 * config.width):
        raise BadInput(file, "n_inner is not four times n_embd", value=raw["n_inner"])
    return config


def decoder_from_tensors(config: Gpt2Config, tensors: Mapping[str, Tensor], where: Path) -> Decoder:
    """The decoder of tensors by Hugging Face's names, with or without the prefix; other names are left alone.

    Raises:
        BadInput: a tensor is missing, has another shape than the configuration says, or the output layer is not tied.
    """
    bare = {name.removeprefix(PREFIX): tensor for name, tensor in tensors.items()}
    if OUTPUT in bare:
        bare.setdefault("wte.weight", bare[OUTPUT])  # a tied tensor may be saved under either name
    with torch.device("meta"):
        decoder = Decoder(config)
    state = {}
    expected = {name: tuple(p.shape) for name, p in decoder.named_parameters()}
    for theirs, (ours, turned) in places(config).items():
        if theirs not in bare:
            raise BadInput(where, f"lacks the tensor {PREFIX + theirs!r} that its config.json asks for")
        tensor = bare[theirs].t() if turned and bare[theirs].dim() == 2 else bare[theirs]
        if tuple(tensor.shape) != expected[ours]:
            raise BadInput(
                where, f"{theirs} has shape {tuple(tensor.shape)}, config.json asks for {expected[ours]}"
            )
        state[ours] = tensor.float().clone().contiguous()
    output = bare.get(OUTPUT)
    if output is not None and not torch.equal(output.float(), state["words.weight"]):
        raise BadInput(where, f"{OUTPUT!r} differs from 'wte.weight'; only tied decoders are supported")
    decoder.load_state_dict(state, assign=True)
    return decoder


def load_decoder(folder: Path) -> Decoder:
    """The decoder of a GPT-2 folder, in float32. Raises as `read_decoder_config` and `decoder_from_tensors`."""
    return decoder_from_tensors(read_decoder_config(folder), read_tensors(folder), folder)
