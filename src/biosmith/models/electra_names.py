"""ELECTRA's configuration and tensors under Hugging Face's names, both ways.

Canonical names are those of `ElectraForPreTraining` and `ElectraForMaskedLM` without the leading "electra.". A folder
holds one network: the discriminator with its head, or the generator with its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from biosmith.errors import BadInput, UsageError
from biosmith.models import bert_names
from biosmith.models.bert import ACTIVATIONS
from biosmith.models.bert_names import ACTIVATION_NAMES
from biosmith.models.electra import ElectraConfig
from biosmith.models.naming import Place

PREFIX, BARE = "electra.", "ElectraModel"
HEADS = ("generator_predictions.", "generator_lm_head.", "discriminator_predictions.")
WITHOUT_POOLER: tuple[str, ...] = ()  # there never is one
BUFFERS = bert_names.BUFFERS
ALIASES = {"generator_lm_head.weight": "embeddings.word_embeddings.weight"}

# Hugging Face's field -> ours.
FIELDS = {**bert_names.FIELDS, "embedding_size": "embedding_width"}

# What a file may leave out: transformers' own defaults, which are ELECTRA-small's.
_DEFAULTS = ElectraConfig(embedding_width=128, width=256, heads=4, feed_forward=1_024)


def places(config: ElectraConfig) -> dict[str, Place]:
    """Canonical Hugging Face name -> place, for a model of that configuration."""
    table = bert_names.encoder_places(config.layers)
    table["generator_lm_head.bias"] = Place("masked_language_head.bias")
    dense = {
        "generator_predictions.dense": "masked_language_head.dense",
        "generator_predictions.LayerNorm": "masked_language_head.norm",
        "discriminator_predictions.dense": "replaced_token_head.dense",
        "discriminator_predictions.dense_prediction": "replaced_token_head.prediction",
    }
    if config.embedding_width != config.width:
        dense["embeddings_project"] = "encoder.projection"
    for name, place in dense.items():
        table |= {f"{name}.{kind}": Place(f"{place}.{kind}") for kind in ("weight", "bias")}
    return table


def canonical(name: str) -> str:
    """A file's name for a tensor without the prefix "electra."."""
    return name.removeprefix(PREFIX)


def part_of(name: str) -> str | None:
    """The part that a canonical name belongs to; None for the encoder itself and unknown names."""
    if name.startswith("discriminator_predictions."):
        return "replaced_token_head"
    return "masked_language_head" if name.startswith(HEADS) else None


def parts(names: Iterable[str]) -> frozenset[str]:
    """The parts that a folder with such canonical names holds."""
    found = {part_of(name) for name in names if name not in ALIASES}
    return frozenset(part for part in found if part is not None)


def architecture(*, masked_language: bool, next_sentence: bool) -> str:
    """Class name in transformers of a model with these heads."""
    return "ElectraForMaskedLM" if masked_language else BARE


def config_from_hugging_face(raw: Mapping[str, Any], file: Path) -> ElectraConfig:
    """Our configuration from a `config.json`.

    Raises:
        BadInput: an ELECTRA with something that this encoder does not compute.
    """
    bert_names.require_plain(raw, file)
    values = {ours: getattr(_DEFAULTS, ours) for ours in FIELDS.values()}
    values |= {ours: raw[theirs] for theirs, ours in FIELDS.items() if raw.get(theirs) is not None}
    values["activation"] = ACTIVATION_NAMES.get(values["activation"], values["activation"])
    if values["activation"] not in ACTIVATIONS:
        valid = [*ACTIVATIONS, *ACTIVATION_NAMES]
        raise BadInput(file, "hidden_act is not supported", value=raw["hidden_act"], valid=valid)
    try:
        return ElectraConfig(**values)
    except (TypeError, UsageError) as error:
        raise BadInput(file, f"is not a usable ELECTRA configuration: {error}") from error


def config_to_hugging_face(config: ElectraConfig, raw: Mapping[str, Any] | None) -> dict[str, Any]:
    """A `config.json` with every field of ours. `raw` is the file it came from: its other keys are kept, and what it
    left out because it is the default stays out."""
    base: dict[str, Any] = {"model_type": config.kind, "tie_word_embeddings": True, "use_cache": True}
    base |= {"summary_type": "first", "summary_use_proj": True, "summary_activation": "gelu"}
    base |= {"summary_last_dropout": 0.1, "classifier_dropout": None}
    return bert_names.with_fields(
        base if raw is None else raw, config, FIELDS, None if raw is None else _DEFAULTS
    )
