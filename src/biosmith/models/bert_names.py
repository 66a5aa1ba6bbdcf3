"""BERT's configuration and tensors under Hugging Face's names, both ways.

Canonical names are those of `BertForPreTraining` without the leading "bert."; what a file calls them otherwise (the
prefix, `gamma` and `beta` of old conversions) is kept aside so that saving gives the same names back.
"""

from __future__ import annotations

from typing import Any, ClassVar

from biosmith.models.bert import BertConfig
from biosmith.models.naming import TABLES, Names, Place, dense, thirds

HEADS = {
    "pooler.dense": "encoder.pooler.dense",
    "cls.predictions.transform.dense": "masked_language_head.dense",
    "cls.predictions.transform.LayerNorm": "masked_language_head.norm",
    "cls.seq_relationship": "next_sentence_head.dense",
}
BIAS = {"cls.predictions.bias": Place("masked_language_head.bias")}


def layer_places(layers: int) -> dict[str, Place]:
    """Canonical name -> place of embeddings and layers alone, which ELECTRA's folders call alike."""
    table, stems = dict(TABLES), {"embeddings.LayerNorm": "encoder.embeddings.norm"}
    for layer in range(layers):
        theirs, ours = f"encoder.layer.{layer}.", f"encoder.layers.{layer}."
        stems |= {
            f"{theirs}attention.output.dense": f"{ours}attention.output",
            f"{theirs}attention.output.LayerNorm": f"{ours}attention_norm",
            f"{theirs}intermediate.dense": f"{ours}feed_forward.up",
            f"{theirs}output.dense": f"{ours}feed_forward.down",
            f"{theirs}output.LayerNorm": f"{ours}feed_forward_norm",
        }
        table |= thirds(f"{theirs}attention.self.{{}}", f"{ours}attention.qkv")
    return table | dense(stems)


class BertNames(Names):
    """See `Names`."""

    TITLE, PREFIX, BARE = "BERT", "bert.", "BertModel"
    PARTS: ClassVar = {
        "pooler": ("pooler.",),
        "masked_language_head": ("cls.predictions.",),
        "next_sentence_head": ("cls.seq_relationship.",),
    }
    WITHOUT_POOLER = ("BertForTokenClassification", "BertForQuestionAnswering")
    ALIASES: ClassVar = {
        "cls.predictions.decoder.weight": "embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    }
    DEFAULTS: ClassVar[Any] = BertConfig()
    NEW: ClassVar = {
        "position_embedding_type": "absolute",
        "tie_word_embeddings": True,
        "use_cache": True,
        "is_decoder": False,
        "classifier_dropout": None,
    }

    def places(self, config: Any) -> dict[str, Place]:
        """See `Names`."""
        return layer_places(config.layers) | BIAS | dense(HEADS)

    def canonical(self, name: str) -> str:
        """Without the prefix, and with today's names of LayerNorm's parameters."""
        name = super().canonical(name)
        if name.endswith(".gamma"):
            return name.removesuffix("gamma") + "weight"
        return name.removesuffix("beta") + "bias" if name.endswith(".beta") else name
