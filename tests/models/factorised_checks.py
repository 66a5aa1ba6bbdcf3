"""Small models with embeddings of their own width, ours and as `transformers` saves them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from biosmith.models.albert import AlbertConfig
from biosmith.models.electra import ElectraConfig

TINY_ELECTRA = ElectraConfig(
    vocabulary_size=97,
    embedding_width=20,
    layers=3,
    width=48,
    heads=4,
    feed_forward=80,
    positions=40,
    initializer_range=0.2,
)
TINY_ALBERT = AlbertConfig(
    vocabulary_size=97,
    embedding_width=20,
    layers=4,
    width=48,
    heads=4,
    feed_forward=80,
    positions=40,
    initializer_range=0.2,
)
_VALUES = {
    "vocab_size": 97,
    "embedding_size": 20,
    "hidden_size": 48,
    "num_attention_heads": 4,
    "intermediate_size": 80,
    "max_position_embeddings": 40,
    "initializer_range": 0.2,
}


def shaken(model: torch.nn.Module) -> torch.nn.Module:
    """Every parameter moved away from zero and one, so that no part can be left out unseen."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


def write_factorised(folder: Path, kind: str, *, dtype: torch.dtype = torch.float32, **changes: Any) -> Path:
    """A random tiny Electra... or Albert... class as `transformers` saves it."""
    import transformers

    family = "Electra" if kind.startswith("Electra") else "Albert"
    values = {**_VALUES, "num_hidden_layers": 3 if family == "Electra" else 4, **changes}
    torch.manual_seed(1)
    model = getattr(transformers, kind)(getattr(transformers, f"{family}Config")(**values))
    shaken(model).to(dtype).save_pretrained(folder)  # type: ignore[operator]
    return folder
