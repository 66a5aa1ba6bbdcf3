"""The families of encoders; a new one is a line in `FAMILIES` and a member of `ModelConfig`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from biosmith.errors import BadInput
from biosmith.models.albert import AlbertConfig
from biosmith.models.albert_names import AlbertNames
from biosmith.models.bert import BertConfig
from biosmith.models.bert_names import BertNames
from biosmith.models.electra import ElectraConfig
from biosmith.models.electra_names import ElectraNames
from biosmith.models.megatron import MegatronConfig
from biosmith.models.megatron_names import MegatronNames
from biosmith.models.modern import ModernConfig
from biosmith.models.modern_names import ModernNames
from biosmith.models.naming import Names

ModelConfig = BertConfig | ModernConfig | MegatronConfig | ElectraConfig | AlbertConfig

# Hugging Face's model_type, which is `config.kind` -> the family's names.
FAMILIES: dict[str, Names] = {
    "bert": BertNames(),
    "modernbert": ModernNames(),
    "megatron-bert": MegatronNames(),
    "electra": ElectraNames(),
    "albert": AlbertNames(),
}


def names_of(raw: Mapping[str, Any], file: Path) -> Names:
    """The names of the family of a `config.json`.

    Raises:
        BadInput: another architecture, which is named.
    """
    stated = raw.get("architectures")
    architectures = [str(name) for name in stated] if isinstance(stated, list) else []
    kind = raw.get("model_type") or ("bert" if "".join(architectures[:1]).startswith("Bert") else None)
    if not isinstance(kind, str) or kind not in FAMILIES:
        named = ", ".join(architectures) or "no architecture"
        raise BadInput(
            file,
            f"is a {kind or 'nameless'} model ({named}), not a {' or '.join(FAMILIES)} model (BertModel, ...)",
        )
    return FAMILIES[kind]


def config_from_hugging_face(raw: Mapping[str, Any], file: Path) -> ModelConfig:
    """Our configuration from a `config.json` of any family.

    Raises:
        BadInput: another architecture, or something that this encoder does not compute.
    """
    config: ModelConfig = names_of(raw, file).config_from_hugging_face(raw, file)
    return config
