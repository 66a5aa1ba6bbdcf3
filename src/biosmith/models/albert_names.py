"""ALBERT's configuration and tensors under Hugging Face's names, both ways.

Canonical names are those of `AlbertForPreTraining` without the leading "albert.".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from biosmith.errors import BadInput, UsageError
from biosmith.models import bert_names
from biosmith.models.albert import AlbertConfig
from biosmith.models.bert import ACTIVATIONS
from biosmith.models.bert_names import ACTIVATION_NAMES
from biosmith.models.naming import Place

PREFIX, BARE = "albert.", "AlbertModel"
HEADS = ("predictions.", "sop_classifier.")
WITHOUT_POOLER = ("AlbertForTokenClassification", "AlbertForQuestionAnswering")
BUFFERS = bert_names.BUFFERS

# Parts that a folder may lack, each with the beginning of its canonical names.
PARTS = {
    "pooler": "pooler.",
    "masked_language_head": "predictions.",
    "next_sentence_head": "sop_classifier.",
}
ALIASES = {
    "predictions.decoder.weight": "embeddings.word_embeddings.weight",
    "predictions.decoder.bias": "predictions.bias",
}

# Hugging Face's field -> ours.
FIELDS = {**bert_names.FIELDS, "embedding_size": "embedding_width", "num_hidden_groups": "groups"}

# What a file may leave out: transformers' own defaults, which are ALBERT-xxlarge's.
_DEFAULTS = AlbertConfig(width=4_096, heads=64, feed_forward=16_384)


def places(config: AlbertConfig) -> dict[str, Place]:
    """Canonical Hugging Face name -> place, for a model of that configuration."""
    table = {
        "embeddings.word_embeddings.weight": Place("encoder.embeddings.words.weight"),
        "embeddings.position_embeddings.weight": Place("encoder.embeddings.positions.weight"),
        "embeddings.token_type_embeddings.weight": Place("encoder.embeddings.types.weight"),
        "predictions.bias": Place("masked_language_head.bias"),
    }
    dense = {
        "embeddings.LayerNorm": "encoder.embeddings.norm",
        "encoder.embedding_hidden_mapping_in": "encoder.projection",
        "pooler": "encoder.pooler.dense",
        "predictions.dense": "masked_language_head.dense",
        "predictions.LayerNorm": "masked_language_head.norm",
        "sop_classifier.classifier": "next_sentence_head.dense",
    }
    for group in range(config.groups):
        theirs, ours = f"encoder.albert_layer_groups.{group}.albert_layers.0.", f"encoder.layers.{group}."
        dense |= {
            f"{theirs}attention.dense": f"{ours}attention.output",
            f"{theirs}attention.LayerNorm": f"{ours}attention_norm",
            f"{theirs}ffn": f"{ours}feed_forward.up",
            f"{theirs}ffn_output": f"{ours}feed_forward.down",
            f"{theirs}full_layer_layer_norm": f"{ours}feed_forward_norm",
        }
        for third, part in enumerate(("query", "key", "value")):
            for kind in ("weight", "bias"):
                table[f"{theirs}attention.{part}.{kind}"] = Place(f"{ours}attention.qkv.{kind}", third)
    for name, place in dense.items():
        table |= {f"{name}.{kind}": Place(f"{place}.{kind}") for kind in ("weight", "bias")}
    return table


def canonical(name: str) -> str:
    """A file's name for a tensor without the prefix "albert."."""
    return name.removeprefix(PREFIX)


def part_of(name: str) -> str | None:
    """The part (see `PARTS`) that a canonical name belongs to; None for the encoder itself and unknown names."""
    return next((part for part, beginning in PARTS.items() if name.startswith(beginning)), None)


def parts(names: Iterable[str]) -> frozenset[str]:
    """The parts that a folder with such canonical names holds."""
    found = {part_of(name) for name in names if name not in ALIASES}
    return frozenset(part for part in found if part is not None)


def architecture(*, masked_language: bool, next_sentence: bool) -> str:
    """Class name in transformers of a model with these heads."""
    if not masked_language:
        return BARE
    return "AlbertForPreTraining" if next_sentence else "AlbertForMaskedLM"


def config_from_hugging_face(raw: Mapping[str, Any], file: Path) -> AlbertConfig:
    """Our configuration from a `config.json`.

    Raises:
        BadInput: an ALBERT with something that this encoder does not compute.
    """
    bert_names.require_plain(raw, file)
    if raw.get("inner_group_num", 1) not in (1, None):
        raise BadInput(file, "inner_group_num is not supported", value=raw["inner_group_num"], valid=[1])
    values = {ours: getattr(_DEFAULTS, ours) for ours in FIELDS.values()}
    values |= {ours: raw[theirs] for theirs, ours in FIELDS.items() if raw.get(theirs) is not None}
    values["activation"] = ACTIVATION_NAMES.get(values["activation"], values["activation"])
    if values["activation"] not in ACTIVATIONS:
        valid = [*ACTIVATIONS, *ACTIVATION_NAMES]
        raise BadInput(file, "hidden_act is not supported", value=raw["hidden_act"], valid=valid)
    try:
        return AlbertConfig(**values)
    except (TypeError, UsageError) as error:
        raise BadInput(file, f"is not a usable ALBERT configuration: {error}") from error


def config_to_hugging_face(config: AlbertConfig, raw: Mapping[str, Any] | None) -> dict[str, Any]:
    """A `config.json` with every field of ours. `raw` is the file it came from: its other keys are kept, and what it
    left out because it is the default stays out."""
    base: dict[str, Any] = {"model_type": config.kind, "tie_word_embeddings": True, "inner_group_num": 1}
    base |= {"classifier_dropout_prob": 0.1, "bos_token_id": None, "eos_token_id": None}
    return bert_names.with_fields(
        base if raw is None else raw, config, FIELDS, None if raw is None else _DEFAULTS
    )
