"""ELECTRA's configuration and tensors under Hugging Face's names, both ways.

Canonical names are those of `ElectraForPreTraining` and `ElectraForMaskedLM` without the leading "electra.". A folder
holds one network: the discriminator with its head, or the generator with its own.
"""

from __future__ import annotations

from typing import Any, ClassVar

from biosmith.models.bert_names import layer_places
from biosmith.models.electra import ElectraConfig
from biosmith.models.naming import FIELDS, Names, Place, dense


class ElectraNames(Names):
    """See `Names`."""

    TITLE, PREFIX, BARE = "ELECTRA", "electra.", "ElectraModel"
    PARTS: ClassVar = {
        "masked_language_head": ("generator_predictions.", "generator_lm_head."),
        "replaced_token_head": ("discriminator_predictions.",),
    }
    ALIASES: ClassVar = {"generator_lm_head.weight": "embeddings.word_embeddings.weight"}
    FIELDS: ClassVar = {**FIELDS, "embedding_size": "embedding_width"}
    DEFAULTS = ElectraConfig(embedding_width=128, width=256, heads=4, feed_forward=1_024)  # ELECTRA-small's
    NEW: ClassVar = {
        "tie_word_embeddings": True,
        "use_cache": True,
        "summary_type": "first",
        "summary_use_proj": True,
        "summary_activation": "gelu",
        "summary_last_dropout": 0.1,
        "classifier_dropout": None,
    }

    def places(self, config: Any) -> dict[str, Place]:
        """See `Names`."""
        stems = {
            "generator_predictions.dense": "masked_language_head.dense",
            "generator_predictions.LayerNorm": "masked_language_head.norm",
            "discriminator_predictions.dense": "replaced_token_head.dense",
            "discriminator_predictions.dense_prediction": "replaced_token_head.prediction",
        }
        if config.embedding_width != config.width:
            stems["embeddings_project"] = "encoder.projection"
        table = layer_places(config.layers) | dense(stems)
        return table | {"generator_lm_head.bias": Place("masked_language_head.bias")}
