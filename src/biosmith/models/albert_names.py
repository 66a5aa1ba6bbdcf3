"""ALBERT's configuration and tensors under Hugging Face's names, both ways.

Canonical names are those of `AlbertForPreTraining` without the leading "albert.".
"""

from __future__ import annotations

from typing import Any, ClassVar

from biosmith.models.albert import AlbertConfig
from biosmith.models.naming import FIELDS, TABLES, Names, Place, dense, thirds


class AlbertNames(Names):
    """See `Names`."""

    TITLE, PREFIX, BARE = "ALBERT", "albert.", "AlbertModel"
    PARTS: ClassVar = {
        "pooler": ("pooler.",),
        "masked_language_head": ("predictions.",),
        "next_sentence_head": ("sop_classifier.",),
    }
    WITHOUT_POOLER = ("AlbertForTokenClassification", "AlbertForQuestionAnswering")
    ALIASES: ClassVar = {
        "predictions.decoder.weight": "embeddings.word_embeddings.weight",
        "predictions.decoder.bias": "predictions.bias",
    }
    FIELDS: ClassVar = {**FIELDS, "embedding_size": "embedding_width", "num_hidden_groups": "groups"}
    DEFAULTS = AlbertConfig(width=4_096, heads=64, feed_forward=16_384)  # ALBERT-xxlarge's
    NEW: ClassVar = {
        "tie_word_embeddings": True,
        "inner_group_num": 1,
        "classifier_dropout_prob": 0.1,
        "bos_token_id": None,
        "eos_token_id": None,
    }
    FIXED: ClassVar = {**Names.FIXED, "inner_group_num": 1}

    def places(self, config: Any) -> dict[str, Place]:
        """See `Names`."""
        table = {**TABLES, "predictions.bias": Place("masked_language_head.bias")}
        stems = {
            "embeddings.LayerNorm": "encoder.embeddings.norm",
            "encoder.embedding_hidden_mapping_in": "encoder.projection",
            "pooler": "encoder.pooler.dense",
            "predictions.dense": "masked_language_head.dense",
            "predictions.LayerNorm": "masked_language_head.norm",
            "sop_classifier.classifier": "next_sentence_head.dense",
        }
        for group in range(config.groups):
            theirs, ours = f"encoder.albert_layer_groups.{group}.albert_layers.0.", f"encoder.layers.{group}."
            stems |= {
                f"{theirs}attention.dense": f"{ours}attention.output",
                f"{theirs}attention.LayerNorm": f"{ours}attention_norm",
                f"{theirs}ffn": f"{ours}feed_forward.up",
                f"{theirs}ffn_output": f"{ours}feed_forward.down",
                f"{theirs}full_layer_layer_norm": f"{ours}feed_forward_norm",
            }
            table |= thirds(f"{theirs}attention.{{}}", f"{ours}attention.qkv")
        return table | dense(stems)
