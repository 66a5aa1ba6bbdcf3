"""MegatronBert's configuration and tensors under Hugging Face's names, both ways.

Canonical names are those of `MegatronBertForPreTraining` without the leading "bert."; heads and pooler are called as
BERT's. A layer's two LayerNorms are `attention.ln` and `ln`, the last one is `encoder.ln`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from biosmith.models.bert_names import BIAS, HEADS, BertNames
from biosmith.models.megatron import VOCABULARY_MULTIPLE, MegatronConfig
from biosmith.models.naming import FIELDS, TABLES, Place, dense, thirds


class MegatronNames(BertNames):
    """See `Names`. `vocab_size` counts rows, padding included."""

    TITLE, BARE = "MegatronBert", "MegatronBertModel"
    WITHOUT_POOLER = ("MegatronBertForTokenClassification", "MegatronBertForQuestionAnswering")
    FIELDS: ClassVar = {**FIELDS, "vocab_size": "rows"}
    DEFAULTS = MegatronConfig(
        vocabulary_size=29_056, vocabulary_multiple=1, layer_norm_epsilon=1e-12, activation="gelu"
    )
    NEW: ClassVar = {
        "tie_word_embeddings": True,
        "use_cache": True,
        "is_decoder": False,
        "add_cross_attention": False,
    }

    def places(self, config: Any) -> dict[str, Place]:
        """See `Names`."""
        table, stems = TABLES | BIAS, {**HEADS, "encoder.ln": "encoder.final_norm"}
        for layer in range(config.layers):
            theirs, ours = f"encoder.layer.{layer}.", f"encoder.layers.{layer}."
            stems |= {
                f"{theirs}attention.ln": f"{ours}attention_norm",
                f"{theirs}attention.output.dense": f"{ours}attention.output",
                f"{theirs}ln": f"{ours}feed_forward_norm",
                f"{theirs}intermediate.dense": f"{ours}feed_forward.up",
                f"{theirs}output.dense": f"{ours}feed_forward.down",
            }
            table |= thirds(f"{theirs}attention.self.{{}}", f"{ours}attention.qkv")
        return table | dense(stems)

    def _settled(self, values: dict[str, Any], raw: Mapping[str, Any], file: Path) -> dict[str, Any]:
        # How many rows are padding does not stand in a file: all count as pieces.
        rows = values.pop("rows")
        multiple = VOCABULARY_MULTIPLE if rows % VOCABULARY_MULTIPLE == 0 else 1
        return {**values, "vocabulary_size": rows, "vocabulary_multiple": multiple}
