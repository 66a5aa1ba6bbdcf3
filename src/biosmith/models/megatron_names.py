"""MegatronBert's configuration and tensors under Hugging Face's names, both ways.

Canonical names are those of `MegatronBertForPreTraining` without the leading "bert."; heads and pooler are called as
BERT's. A layer's two LayerNorms are `attention.ln` and `ln`, the last one is `encoder.ln`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from biosmith.errors import BadInput, UsageError
from biosmith.models import bert_names
from biosmith.models.bert import ACTIVATIONS
from biosmith.models.bert_names import (
    ACTIVATION_NAMES,
    ALIASES,
    BUFFERS,
    HEADS,
    PREFIX,
    canonical,
    part_of,
    parts,
)
from biosmith.models.megatron import VOCABULARY_MULTIPLE, MegatronConfig
from biosmith.models.naming import Place

BARE = "MegatronBertModel"
WITHOUT_POOLER = ("MegatronBertForTokenClassification", "MegatronBertForQuestionAnswering")

# Hugging Face's field -> ours. `vocab_size` counts rows, padding included.
FIELDS = {**bert_names.FIELDS, "vocab_size": "rows"}

# What a file may leave out: transformers' own defaults.
_DEFAULTS = MegatronConfig(
    vocabulary_size=29_056, vocabulary_multiple=1, layer_norm_epsilon=1e-12, activation="gelu"
)


def places(config: MegatronConfig) -> dict[str, Place]:
    """Canonical Hugging Face name -> place, for a model of that configuration."""
    table = {
        "embeddings.word_embeddings.weight": Place("encoder.embeddings.words.weight"),
        "embeddings.position_embeddings.weight": Place("encoder.embeddings.positions.weight"),
        "embeddings.token_type_embeddings.weight": Place("encoder.embeddings.types.weight"),
        "cls.predictions.bias": Place("masked_language_head.bias"),
    }
    dense = {
        "encoder.ln": "encoder.final_norm",
        "pooler.dense": "encoder.pooler.dense",
        "cls.predictions.transform.dense": "masked_language_head.dense",
        "cls.predictions.transform.LayerNorm": "masked_language_head.norm",
        "cls.seq_relationship": "next_sentence_head.dense",
    }
    for layer in range(config.layers):
        theirs, ours = f"encoder.layer.{layer}.", f"encoder.layers.{layer}."
        dense |= {
            f"{theirs}attention.ln": f"{ours}attention_norm",
            f"{theirs}attention.output.dense": f"{ours}attention.output",
            f"{theirs}ln": f"{ours}feed_forward_norm",
            f"{theirs}intermediate.dense": f"{ours}feed_forward.up",
            f"{theirs}output.dense": f"{ours}feed_forward.down",
        }
        for third, part in enumerate(("query", "key", "value")):
            for kind in ("weight", "bias"):
                fused = Place(f"{ours}attention.qkv.{kind}", third)
                table[f"{theirs}attention.self.{part}.{kind}"] = fused
    for name, place in dense.items():
        table |= {f"{name}.{kind}": Place(f"{place}.{kind}") for kind in ("weight", "bias")}
    return table


def architecture(*, masked_language: bool, next_sentence: bool) -> str:
    """Class name in transformers of a model with these heads."""
    if not masked_language:
        return BARE
    return "MegatronBertForPreTraining" if next_sentence else "MegatronBertForMaskedLM"


def config_from_hugging_face(raw: Mapping[str, Any], file: Path) -> MegatronConfig:
    """Our configuration from a `config.json`. How many rows are padding does not stand there: all count as pieces.

    Raises:
        BadInput: a MegatronBert with something that this encoder does not compute.
    """
    for key, wanted in (
        ("position_embedding_type", "absolute"),
        ("is_decoder", False),
        ("add_cross_attention", False),
    ):
        if raw.get(key, wanted) not in (wanted, None):
            raise BadInput(file, f"{key} is not supported", value=raw[key], valid=[wanted])
    if raw.get("tie_word_embeddings") is False:
        raise BadInput(file, "the decoder is not tied to the word embedding", value=False, valid=[True])
    values = {ours: getattr(_DEFAULTS, ours) for ours in FIELDS.values()}
    values |= {ours: raw[theirs] for theirs, ours in FIELDS.items() if raw.get(theirs) is not None}
    rows = values.pop("rows")
    values["vocabulary_size"] = rows
    values["vocabulary_multiple"] = VOCABULARY_MULTIPLE if rows % VOCABULARY_MULTIPLE == 0 else 1
    values["activation"] = ACTIVATION_NAMES.get(values["activation"], values["activation"])
    if values["activation"] not in ACTIVATIONS:
        valid = [*ACTIVATIONS, *ACTIVATION_NAMES]
        raise BadInput(file, "hidden_act is not supported", value=raw["hidden_act"], valid=valid)
    try:
        return MegatronConfig(**values)
    except (TypeError, UsageError) as error:
        raise BadInput(file, f"is not a usable MegatronBert configuration: {error}") from error


def config_to_hugging_face(config: MegatronConfig, raw: Mapping[str, Any] | None) -> dict[str, Any]:
    """A `config.json` with every field of ours. `raw` is the file it came from: its other keys are kept, and what it
    left out because it is the default stays out."""
    base: dict[str, Any] = {"model_type": config.kind, "tie_word_embeddings": True, "use_cache": True}
    base |= {"is_decoder": False, "add_cross_attention": False}
    if raw is not None:
        base = dict(raw)
    for theirs, ours in FIELDS.items():
        value, before = getattr(config, ours), base.get(theirs)
        is_default = raw is not None and before is None and value == getattr(_DEFAULTS, ours)
        is_synonym = theirs == "hidden_act" and ACTIVATION_NAMES.get(str(before)) == value
        if not is_default and not is_synonym:
            base[theirs] = value
    return base


__all__ = [
    "ALIASES",
    "BARE",
    "BUFFERS",
    "HEADS",
    "PREFIX",
    "WITHOUT_POOLER",
    "architecture",
    "canonical",
    "config_from_hugging_face",
    "config_to_hugging_face",
    "part_of",
    "parts",
    "places",
]
