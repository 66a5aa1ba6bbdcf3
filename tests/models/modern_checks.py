"""What the tests of the modern family share: small models whose windows matter, folders that transformers wrote."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import torch

from biosmith.models.bert import PretrainingModel
from biosmith.models.modern import ModernConfig

# The longest sequence of `checks.LENGTHS` has 40 tokens: a window of 3 to each side hides most of it. Layers 0 and 2
# are global, 1 and 3 local.
TINY_MODERN = ModernConfig(
    vocabulary_size=97,
    layers=4,
    width=48,
    heads=4,
    feed_forward=40,
    positions=40,
    global_every=2,
    local_attention=6,
    global_theta=500.0,
    local_theta=20.0,
    initializer_range=0.2,
)
# Each bias on or off, each activation, windows and angles other than the published ones.
VARIANTS: dict[str, dict[str, Any]] = {
    "as published": {},
    "all biases": dict.fromkeys(
        ("attention_bias", "feed_forward_bias", "norm_bias", "head_bias", "decoder_bias"), True
    ),
    "no decoder bias": {"decoder_bias": False},
    "tanh activations": {"activation": "gelu_new", "head_activation": "gelu_new"},
    "tanh in the head only": {"head_activation": "gelu_new"},
    "global throughout": {"global_every": 1},
    "one global layer, odd window": {"global_every": 9, "local_attention": 5},
}


def tiny_modern(seed: int = 0, **changes: Any) -> PretrainingModel:
    """A random model whose every parameter differs from zero and one, so that no part can be left out unseen."""
    torch.manual_seed(seed)
    model = PretrainingModel(dataclasses.replace(TINY_MODERN, **changes))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


def write_modernbert(
    folder: Path, kind: str = "ModernBertForMaskedLM", *, dtype: torch.dtype = torch.float32, **changes: Any
) -> Path:
    """A random tiny model of that class as `transformers` saves it, its unit gains and zero biases shaken."""
    import transformers

    values: dict[str, Any] = {"vocab_size": 97, "hidden_size": 48, "num_hidden_layers": 4}
    values |= {"num_attention_heads": 4, "intermediate_size": 40, "max_position_embeddings": 40}
    values |= {"initializer_range": 0.2, "local_attention": 6, "global_attn_every_n_layers": 2}
    values |= {"global_rope_theta": 500.0, "local_rope_theta": 20.0, "pad_token_id": 0}
    values |= dict.fromkeys(("bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id"), 1)
    torch.manual_seed(1)
    model = getattr(transformers, kind)(transformers.ModernBertConfig(**(values | changes)))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    model.to(dtype).save_pretrained(folder)
    return folder
