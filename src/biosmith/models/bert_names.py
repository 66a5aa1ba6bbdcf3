"""BERT's configuration and tensors under Hugging Face's names, both ways.

Canonical names are those of `BertForPreTraining` without the leading "bert."; what a file calls them otherwise (the
prefix, `gamma` and `beta` of old conversions) is kept aside so that saving gives the same names back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from biosmith.errors import BadInput, UsageError
from biosmith.models.bert import ACTIVATIONS, BertConfig
from biosmith.models.naming import Place

PREFIX, HEADS, BARE = "bert.", ("cls.",), "BertModel"
WITHOUT_POOLER = ("BertForTokenClassification", "BertForQuestionAnswering")

# Hugging Face's field -> ours.
FIELDS = {
    "vocab_size": "vocabulary_size",
    "num_hidden_layers": "layers",
    "hidden_size": "width",
    "num_attention_heads": "heads",
    "intermediate_size": "feed_forward",
    "max_position_embeddings": "positions",
    "type_vocab_size": "token_types",
    "hidden_dropout_prob": "dropout",
    "attention_probs_dropout_prob": "attention_dropout",
    "layer_norm_eps": "layer_norm_epsilon",
    "hidden_act": "activation",
    "initializer_range": "initializer_range",
    "pad_token_id": "pad_id",
}

# Other names of the two activations.
ACTIVATION_NAMES = {"gelu_pytorch_tanh": "gelu_new", "gelu_python": "gelu"}

# What a file may leave out: transformers' own defaults for BERT, which are BERT-base's.
_DEFAULTS = BertConfig()

# Not parameters: index buffers that old versions of transformers saved.
BUFFERS = ("embeddings.position_ids", "embeddings.token_type_ids")

# Parts that a folder may lack, each with the beginning of its canonical names.
PARTS = {
    "pooler": "pooler.",
    "masked_language_head": "cls.predictions.",
    "next_sentence_head": "cls.seq_relationship.",
}

# A second name of a tied tensor, present in some files.
ALIASES = {
    "cls.predictions.decoder.weight": "embeddings.word_embeddings.weight",
    "cls.predictions.decoder.bias": "cls.predictions.bias",
}


def places(config: BertConfig) -> dict[str, Place]:
    """Canonical Hugging Face name -> place, for a model of that configuration."""
    table = encoder_places(config.layers)
    table["cls.predictions.bias"] = Place("masked_language_head.bias")
    dense = {
        "pooler.dense": "encoder.pooler.dense",
        "cls.predictions.transform.dense": "masked_language_head.dense",
        "cls.predictions.transform.LayerNorm": "masked_language_head.norm",
        "cls.seq_relationship": "next_sentence_head.dense",
    }
    for name, place in dense.items():
        table |= {f"{name}.{kind}": Place(f"{place}.{kind}") for kind in ("weight", "bias")}
    return table


def encoder_places(layers: int) -> dict[str, Place]:
    """The same for embeddings and layers alone, which ELECTRA's folders call alike."""
    table = {
        "embeddings.word_embeddings.weight": Place("encoder.embeddings.words.weight"),
        "embeddings.position_embeddings.weight": Place("encoder.embeddings.positions.weight"),
        "embeddings.token_type_embeddings.weight": Place("encoder.embeddings.types.weight"),
    }
    dense = {"embeddings.LayerNorm": "encoder.embeddings.norm"}
    for layer in range(layers):
        theirs, ours = f"encoder.layer.{layer}.", f"encoder.layers.{layer}."
        dense |= {
            f"{theirs}attention.output.dense": f"{ours}attention.output",
            f"{theirs}attention.output.LayerNorm": f"{ours}attention_norm",
            f"{theirs}intermediate.dense": f"{ours}feed_forward.up",
            f"{theirs}output.dense": f"{ours}feed_forward.down",
            f"{theirs}output.LayerNorm": f"{ours}feed_forward_norm",
        }
        for third, part in enumerate(("query", "key", "value")):
            for kind in ("weight", "bias"):
                fused = Place(f"{ours}attention.qkv.{kind}", third)
                table[f"{theirs}attention.self.{part}.{kind}"] = fused
    for name, place in dense.items():
        table |= {f"{name}.{kind}": Place(f"{place}.{kind}") for kind in ("weight", "bias")}
    return table


def canonical(name: str) -> str:
    """A file's name for a tensor without the prefix "bert." and with today's names of LayerNorm's parameters."""
    name = name.removeprefix(PREFIX)
    if name.endswith(".gamma"):
        return name.removesuffix("gamma") + "weight"
    return name.removesuffix("beta") + "bias" if name.endswith(".beta") else name


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
    return "BertForPreTraining" if next_sentence else "BertForMaskedLM"


def config_from_hugging_face(raw: Mapping[str, Any], file: Path) -> BertConfig:
    """Our configuration from a `config.json`.

    Raises:
        BadInput: a BERT with something that this encoder does not compute.
    """
    require_plain(raw, file)
    values = {ours: getattr(_DEFAULTS, ours) for ours in FIELDS.values()}
    values |= {ours: raw[theirs] for theirs, ours in FIELDS.items() if raw.get(theirs) is not None}
    values["activation"] = ACTIVATION_NAMES.get(values["activation"], values["activation"])
    if values["activation"] not in ACTIVATIONS:
        valid = [*ACTIVATIONS, *ACTIVATION_NAMES]
        raise BadInput(file, "hidden_act is not supported", value=raw["hidden_act"], valid=valid)
    try:
        return BertConfig(**values)
    except (TypeError, UsageError) as error:
        raise BadInput(file, f"is not a usable BERT configuration: {error}") from error


def config_to_hugging_face(config: BertConfig, raw: Mapping[str, Any] | None) -> dict[str, Any]:
    """A `config.json` with every field of ours. `raw` is the file it came from: its other keys are kept, and what it
    left out because it is the default stays out."""
    if raw is None:
        base: dict[str, Any] = {"model_type": "bert", "position_embedding_type": "absolute"}
        base |= {
            "tie_word_embeddings": True,
            "use_cache": True,
            "is_decoder": False,
            "classifier_dropout": None,
        }
        return with_fields(base, config, FIELDS, None)
    return with_fields(raw, config, FIELDS, _DEFAULTS)


def with_fields(
    base: Mapping[str, Any], config: Any, fields: Mapping[str, str], defaults: Any
) -> dict[str, Any]:
    """`base` with the fields of a configuration: what it leaves out stays out where it is the default (None: nothing
    is), and another name of an activation stays as it is."""
    made = dict(base)
    for theirs, ours in fields.items():
        value, before = getattr(config, ours), made.get(theirs)
        is_default = defaults is not None and before is None and value == getattr(defaults, ours)
        is_synonym = theirs == "hidden_act" and ACTIVATION_NAMES.get(str(before)) == value
        if not is_default and not is_synonym:
            made[theirs] = value
    return made


def require_plain(raw: Mapping[str, Any], file: Path) -> None:
    """Raise `BadInput` where a `config.json` asks for what BERT's encoder does not compute."""
    for key, wanted in (
        ("position_embedding_type", "absolute"),
        ("is_decoder", False),
        ("add_cross_attention", False),
    ):
        if raw.get(key, wanted) not in (wanted, None):
            raise BadInput(file, f"{key} is not supported", value=raw[key], valid=[wanted])
    if raw.get("tie_word_embeddings") is False:
        raise BadInput(file, "the decoder is not tied to the word embedding", value=False, valid=[True])
