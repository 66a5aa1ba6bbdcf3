"""What the tests of the Megatron family share: small models, folders that transformers wrote."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import torch

from biosmith.models.bert import PretrainingModel
from biosmith.models.megatron import MegatronConfig

# 97 pieces in 128 rows: the word embedding is padded.
TINY_MEGATRON = MegatronConfig(
    vocabulary_size=97, layers=3, width=48, heads=4, feed_forward=80, positions=40, initializer_range=0.2
)


def tiny_megatron(seed: int = 0, **changes: Any) -> PretrainingModel:
    """A random model whose every parameter differs from zero and one, so that no part can be left out unseen."""
    torch.manual_seed(seed)
    model = PretrainingModel(dataclasses.replace(TINY_MEGATRON, **changes))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


def write_megatron_bert(
    folder: Path,
    kind: str = "MegatronBertForPreTraining",
    *,
    dtype: torch.dtype = torch.float32,
    **changes: Any,
) -> Path:
    """A random tiny model of that class as `transformers` saves it, its unit gains and zero biases shaken."""
    import transformers

    values: dict[str, Any] = {"vocab_size": 97, "hidden_size": 48, "num_hidden_layers": 3}
    values |= {"num_attention_heads": 4, "intermediate_size": 80, "max_position_embeddings": 40}
    torch.manual_seed(1)
    model = getattr(transformers, kind)(transformers.MegatronBertConfig(**(values | changes)))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    model.to(dtype).save_pretrained(folder)
    return folder
