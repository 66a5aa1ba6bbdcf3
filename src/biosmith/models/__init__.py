"""One encoder with its switches, the heads, and conversion to and from Hugging Face."""

from __future__ import annotations

import importlib
from typing import Any

_PUBLIC = {
    "BertConfig": "biosmith.models.bert",
    "PretrainingModel": "biosmith.models.bert",
    "count_parameters": "biosmith.models.bert",
    "ModernConfig": "biosmith.models.modern",
    "MegatronConfig": "biosmith.models.megatron",
    "ModelConfig": "biosmith.models.families",
    "Encoder": "biosmith.models.encoder",
    "load_encoder": "biosmith.models.checkpoint",
    "load_pretraining_model": "biosmith.models.checkpoint",
    "save_model": "biosmith.models.saving",
    "PackedSequences": "biosmith.models.packed",
    "TextEncoder": "biosmith.models.embedding",
}

__all__ = list(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(importlib.import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'biosmith.models' has no attribute {name!r}")
