"""ModernBERT's configuration and tensors under Hugging Face's names, both ways.

Canonical names are those of `ModernBertForMaskedLM` without the leading "model.". A configuration comes in two forms:
that of the published models (`global_attn_every_n_layers`, `global_rope_theta`, `local_rope_theta`), which is what we
write, and that of transformers 5 (`layer_types`, `rope_parameters`), which is kept where a file has it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from biosmith.errors import BadInput
from biosmith.models.modern import ModernConfig
from biosmith.models.naming import Names, Place

_FIELDS = {
    "vocab_size": "vocabulary_size",
    "num_hidden_layers": "layers",
    "hidden_size": "width",
    "num_attention_heads": "heads",
    "intermediate_size": "feed_forward",
    "max_position_embeddings": "positions",
    "local_attention": "local_attention",
    "mlp_dropout": "dropout",
    "embedding_dropout": "embedding_dropout",
    "attention_dropout": "attention_dropout",
    "norm_eps": "layer_norm_epsilon",
    "hidden_activation": "activation",
    "classifier_activation": "head_activation",
    "attention_bias": "attention_bias",
    "mlp_bias": "feed_forward_bias",
    "norm_bias": "norm_bias",
    "classifier_bias": "head_bias",
    "decoder_bias": "decoder_bias",
    "initializer_range": "initializer_range",
    "pad_token_id": "pad_id",
}
GLOBAL, LOCAL = "full_attention", "sliding_attention"
EVERY, THETAS = "global_attn_every_n_layers", {"global_theta": GLOBAL, "local_theta": LOCAL}

# What a file may leave out: transformers' own defaults, which are ModernBERT-base's.
DEFAULTS = dataclasses.replace(ModernConfig(), pad_id=50_283)


class ModernNames(Names):
    """See `Names`."""

    TITLE, PREFIX, BARE = "ModernBERT", "model.", "ModernBertModel"
    PARTS: ClassVar = {"masked_language_head": ("head.", "decoder.")}
    BUFFERS = ()
    ALIASES: ClassVar = {"decoder.weight": "embeddings.tok_embeddings.weight"}
    FIELDS: ClassVar = _FIELDS
    DEFAULTS = DEFAULTS
    # The first line matters: transformers' defaults are tokens of the published vocabulary.
    NEW: ClassVar = {
        **dict.fromkeys(("bos_token_id", "cls_token_id", "eos_token_id", "sep_token_id")),
        "classifier_dropout": 0.0,
        "classifier_pooling": "cls",
        "initializer_cutoff_factor": 2.0,
        "sparse_prediction": False,
        "tie_word_embeddings": True,
    }
    FIXED: ClassVar[Mapping[str, Any]] = {}

    def places(self, config: Any) -> dict[str, Place]:
        """See `Names`."""
        biases = {
            "embeddings.norm": ("encoder.embeddings.norm", config.norm_bias),
            "final_norm": ("encoder.final_norm", config.norm_bias),
            "head.dense": ("masked_language_head.dense", config.head_bias),
            "head.norm": ("masked_language_head.norm", config.norm_bias),
        }
        for layer in range(config.layers):
            theirs, ours = f"layers.{layer}.", f"encoder.layers.{layer}."
            if layer:  # the first layer reads the normalised embeddings as they are
                biases[f"{theirs}attn_norm"] = (f"{ours}attention_norm", config.norm_bias)
            biases |= {
                f"{theirs}attn.Wqkv": (f"{ours}attention.qkv", config.attention_bias),
                f"{theirs}attn.Wo": (f"{ours}attention.output", config.attention_bias),
                f"{theirs}mlp_norm": (f"{ours}feed_forward_norm", config.norm_bias),
                f"{theirs}mlp.Wi": (f"{ours}feed_forward.up", config.feed_forward_bias),
                f"{theirs}mlp.Wo": (f"{ours}feed_forward.down", config.feed_forward_bias),
            }
        table = {"embeddings.tok_embeddings.weight": Place("encoder.embeddings.words.weight")}
        for name, (place, has_bias) in biases.items():
            for kind in ("weight", "bias") if has_bias else ("weight",):
                table[f"{name}.{kind}"] = Place(f"{place}.{kind}")
        if config.decoder_bias:
            table["decoder.bias"] = Place("masked_language_head.bias")
        return table

    def parts(self, names: Iterable[str]) -> frozenset[str]:
        """See `Names`; tuned models call a layer of theirs `head` too."""
        names = list(names)
        is_tuned = any(name.startswith("classifier.") for name in names)
        return frozenset() if is_tuned else super().parts(names)

    def _settled(self, values: dict[str, Any], raw: Mapping[str, Any], file: Path) -> dict[str, Any]:
        if raw.get("pad_token_id", 0) is None:
            values["pad_id"] = 0
        values["global_every"] = _global_every(raw, int(values["layers"]), file)
        return values | {ours: _theta(raw, ours, file) for ours in THETAS}

    def config_to_hugging_face(self, config: Any, raw: Mapping[str, Any] | None) -> dict[str, Any]:
        """A `config.json` with every field of ours. `raw` is the file it came from: it changes only where it says
        something else."""
        base: dict[str, Any] = {"model_type": config.kind, **self.NEW} if raw is None else dict(raw)
        before = None if raw is None else self.config_from_hugging_face(raw, Path("config.json"))

        def changed(*names: str) -> bool:
            return before is None or any(getattr(config, name) != getattr(before, name) for name in names)

        base |= {theirs: getattr(config, ours) for theirs, ours in self.FIELDS.items() if changed(ours)}
        if changed("layers", "global_every"):
            if base.get("layer_types") is not None:
                base["layer_types"] = _layer_types(config.layers, config.global_every)
            else:
                base[EVERY] = config.global_every
        for ours, kind in THETAS.items():
            if not changed(ours):
                continue
            value = getattr(config, ours)
            if base.get("rope_parameters") is not None:
                nested = base["rope_parameters"]
                base["rope_parameters"] = {**nested, kind: {**(nested.get(kind) or {}), "rope_theta": value}}
            else:
                base[ours.replace("theta", "rope_theta")] = value
        return base


def _global_every(raw: Mapping[str, Any], layers: int, file: Path) -> int:
    """Which layers are global, as the number that every index of one is divisible by."""
    kinds = raw.get("layer_types")
    if kinds is None:
        return int(raw.get(EVERY) or DEFAULTS.global_every)
    for every in range(1, layers + 1):
        if list(kinds) == _layer_types(layers, every):
            return every
    raise BadInput(file, f"layer_types is not {GLOBAL} in every n-th layer from the first on", value=kinds)


def _layer_types(layers: int, every: int) -> list[str]:
    return [LOCAL if layer % every else GLOBAL for layer in range(layers)]


def _theta(raw: Mapping[str, Any], ours: str, file: Path) -> float:
    """Base of the rotary angles; a published local base of null is the global one."""
    if raw.get("rope_scaling"):
        raise BadInput(file, "rope_scaling is not supported", value=raw["rope_scaling"], valid=[None])
    found = (raw.get("rope_parameters") or {}).get(THETAS[ours]) or {}
    if found.get("rope_type", "default") != "default":
        raise BadInput(file, "rope_type is not supported", value=found["rope_type"], valid=["default"])
    flat = ours.replace("theta", "rope_theta")
    if "rope_theta" not in found and ours == "local_theta" and raw.get(flat, 0) is None:
        return _theta(raw, "global_theta", file)
    return float(found.get("rope_theta") or raw.get(flat) or getattr(DEFAULTS, ours))
