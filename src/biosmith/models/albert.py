"""ALBERT (Lan et al., 2020): the configuration, and what it has instead of BERT's embeddings and layers.

Embeddings are narrow and projected to the width of the layers (section 3.1, factorised embedding parameterisation), and
all layers of a group are one layer, gone through again and again (cross-layer parameter sharing). Shapes as in `bert`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from torch import nn

from biosmith.errors import UsageError
from biosmith.models.configuration import EncoderConfig
from biosmith.models.encoder import Embeddings, Encoder, PostNormLayer
from biosmith.models.heads import MaskedLanguageHead


@dataclass(frozen=True)
class AlbertConfig(EncoderConfig):
    """A post-LN encoder with narrow embeddings and shared layers; the defaults are ALBERT-base (Lan et al., Table 1)."""

    kind: Literal["albert"] = "albert"
    vocabulary_size: int = 30_000
    embedding_width: int = 128
    layers: int = 12  # that are gone through
    groups: int = 1  # of layers that share their parameters: so many layers there really are
    width: int = 768
    heads: int = 12
    feed_forward: int = 3_072
    positions: int = 512
    token_types: int = 2
    dropout: float = 0.0  # on embeddings and on the output of each attention and feed-forward block
    attention_dropout: float = 0.0  # on attention probabilities
    layer_norm_epsilon: float = 1e-12
    activation: str = "gelu_new"  # the original code computes the tanh form
    initializer_range: float = 0.02  # standard deviation of the truncated normal
    pad_id: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.groups > self.layers:
            raise UsageError(f"{self.layers} layers cannot make {self.groups} groups")

    def group_of(self, layer: int) -> int:
        """The group, and so the parameters, of a layer (the first is 0)."""
        return layer * self.groups // self.layers

    def make_encoder(self, *, pooler: bool) -> Encoder:
        """A fresh encoder."""
        return AlbertEncoder(self, pooler=pooler)

    def make_masked_language_head(self) -> MaskedLanguageHead:
        """A fresh head, before `initialise`; its dense layer leads to the width of the embeddings."""
        return MaskedLanguageHead(self, words_width=self.embedding_width)


class AlbertEncoder(Encoder):
    """Narrow embeddings, a projection, and one layer a group; `layers` holds the groups."""

    config: AlbertConfig

    def _make_embeddings(self, config: Any) -> Embeddings:
        return Embeddings(config, config.embedding_width)

    def _make_projection(self, config: Any) -> nn.Linear:
        return nn.Linear(config.embedding_width, config.width)

    def _make_layers(self, config: Any) -> Iterable[nn.Module]:
        return (PostNormLayer(config) for _ in range(config.groups))

    def in_order(self) -> Iterable[nn.Module]:
        """The layer of each group as often as the group has layers."""
        return [self.layers[self.config.group_of(number)] for number in range(self.config.layers)]
