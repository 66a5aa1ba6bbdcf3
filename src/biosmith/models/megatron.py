"""Megatron's BERT (Shoeybi et al., 2019, Megatron-LM, Figure 7; Shin et al., 2020, BioMegatron, section 3): the
configuration, and what it has instead of BERT's embeddings and layers.

LayerNorm stands before attention and before the feed-forward block, the residual stream itself is never normalised but
once after the last layer, and not after the embeddings: that order is what lets BERT grow beyond 336 million
parameters. Shapes as in `encoder`.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from biosmith.errors import UsageError
from biosmith.models.attention import Attend, PackedAttention, PaddedAttention
from biosmith.models.configuration import EncoderConfig
from biosmith.models.encoder import Attention, Encoder, FeedForward
from biosmith.models.heads import MaskedLanguageHead

# Rows of the word embedding are a multiple of it: matrix products are slow otherwise, and devices share rows evenly.
VOCABULARY_MULTIPLE = 128


@dataclass(frozen=True)
class MegatronConfig(EncoderConfig):
    """A pre-LN BERT encoder; the defaults are BioMegatron-345m with BERT's uncased vocabulary (Table 1)."""

    kind: Literal["megatron-bert"] = "megatron-bert"
    vocabulary_size: int = 30_522  # pieces; the word embedding has `rows` of them
    vocabulary_multiple: int = VOCABULARY_MULTIPLE  # rows are padded to a multiple of this
    layers: int = 24
    width: int = 1_024
    heads: int = 16
    feed_forward: int = 4_096
    positions: int = 512
    token_types: int = 2
    dropout: float = 0.1  # on embeddings and on the output of each attention and feed-forward block
    attention_dropout: float = 0.1  # on attention probabilities
    layer_norm_epsilon: float = 1e-5
    activation: str = "gelu_new"  # the tanh form, as Megatron's fused kernel computes it
    initializer_range: float = 0.02  # of the normal; divided by sqrt(2 * layers) where a block ends
    pad_id: int = 0

    @property
    def rows(self) -> int:
        """Rows of the word embedding: one a piece, and rows that stand for nothing, whose logits no loss counts."""
        return math.ceil(self.vocabulary_size / self.vocabulary_multiple) * self.vocabulary_multiple

    @property
    def output_initializer_range(self) -> float:
        """Standard deviation of the matrices whose product is added to the residual stream (Radford et al., 2019,
        GPT-2, section 2.3; Shoeybi et al., 2019, section 4.1)."""
        return self.initializer_range / math.sqrt(2 * self.layers)

    def make_encoder(self, *, pooler: bool) -> Encoder:
        """A fresh encoder."""
        return MegatronEncoder(self, pooler=pooler)

    def make_masked_language_head(self) -> MaskedLanguageHead:
        """A fresh head, before `initialise`; its bias has a number for each row."""
        head = MaskedLanguageHead(self)
        head.bias = nn.Parameter(torch.zeros(self.rows))
        return head


class MegatronEncoder(Encoder):
    """Embeddings that are not normalised, pre-LN layers and a last LayerNorm."""

    config: MegatronConfig

    def __init__(self, config: MegatronConfig, *, pooler: bool = True) -> None:
        super().__init__(config, pooler=pooler)
        self.final_norm = nn.LayerNorm(config.width, eps=config.layer_norm_epsilon)
        self._initialise(config)

    def _make_embeddings(self, config: Any) -> Any:
        return MegatronEmbeddings(config)

    def _make_layer(self, config: Any, number: int) -> nn.Module:
        return MegatronLayer(config)

    def _through_layers(
        self, x: Tensor, attend: PaddedAttention | PackedAttention, positions: Tensor
    ) -> Tensor:
        for layer in self.layers:
            x = self.checkpointed(layer, x, attend)
        return self.final_norm(x)

    def _initialise(self, config: MegatronConfig) -> None:
        """Plain normals, smaller where a block's result joins the residual stream; biases and gains are 0 and 1."""
        ends = {
            id(end)
            for layer in self.layers
            if isinstance(layer, MegatronLayer)
            for end in (layer.attention.output, layer.feed_forward.down)
        }
        for part in self.modules():
            if isinstance(part, nn.Linear | nn.Embedding):
                is_end = id(part) in ends
                nn.init.normal_(
                    part.weight, std=config.output_initializer_range if is_end else config.initializer_range
                )


class SegmentEmbedding(nn.Embedding):
    """A table of two rows, looked up as a selection: its gradient is then a sum, where a lookup's would be atomic
    additions that all hit the same two rows. Larger tables are looked up as usual."""

    def forward(self, input: Tensor) -> Tensor:
        """Rows [..., D] of segments [...]."""
        if self.num_embeddings != 2:
            return super().forward(input)
        first_1D, second_1D = self.weight.chunk(2)
        return torch.where(input.unsqueeze(-1) == 0, first_1D, second_1D)


class MegatronEmbeddings(nn.Module):
    """Word, position and segment embeddings, summed; the first LayerNorm is that of the first layer."""

    def __init__(self, config: MegatronConfig) -> None:
        super().__init__()
        self.words = nn.Embedding(config.rows, config.width)
        self.positions = nn.Embedding(config.positions, config.width)
        self.types = SegmentEmbedding(config.token_types, config.width)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, input_ids: Tensor, positions: Tensor, token_types: Tensor) -> Tensor:
        """Embeddings [..., D] of ids, positions and segments [...]."""
        return self.dropout(self.words(input_ids) + self.types(token_types) + self.positions(positions))


class MegatronLayer(nn.Module):
    """Attention, then feed-forward, each reading a normalised input and added to it as it was (pre-LN)."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(config.width, eps=config.layer_norm_epsilon)
        self.attention = Attention(config)
        self.feed_forward_norm = nn.LayerNorm(config.width, eps=config.layer_norm_epsilon)
        self.feed_forward = FeedForward(config)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, attend: Attend) -> Tensor:
        """x [..., D] -> x [..., D]."""
        x = x + self.dropout(self.attention(self.attention_norm(x), attend))
        return x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))


def padded_like(config: MegatronConfig, rows: int) -> MegatronConfig:
    """The configuration with another multiple, if need be, so that it has so many rows.

    Raises:
        UsageError: there are fewer rows than pieces.
    """
    if rows < config.vocabulary_size:
        raise UsageError(f"{rows:,} rows cannot hold {config.vocabulary_size:,} pieces")
    multiples = (config.vocabulary_multiple, *(VOCABULARY_MULTIPLE << shift for shift in range(8)), rows)
    choices = (dataclasses.replace(config, vocabulary_multiple=multiple) for multiple in multiples)
    return next(choice for choice in choices if choice.rows == rows)
