"""The modern encoder (ModernBERT: Warner et al., 2024, "Smarter, Better, Faster, Longer", section 2.1): the
configuration, and what it has instead of BERT's embeddings and layers.

Pre-norm, rotary positions, gated feed-forward blocks (GeGLU), no biases, and attention that is global in every third
layer and local in the others. Shapes as in `encoder`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor, nn

from biosmith.errors import UsageError
from biosmith.models.attention import Attend, PackedAttention, PaddedAttention, RotaryAttention
from biosmith.models.configuration import EncoderConfig
from biosmith.models.encoder import Attention, Encoder, initialise
from biosmith.models.heads import FeatureLayer, MaskedLanguageHead, activate


@dataclass(frozen=True)
class ModernConfig(EncoderConfig):
    """A modern encoder; the defaults are the published ModernBERT-base, its padding id apart."""

    kind: Literal["modernbert"] = "modernbert"
    vocabulary_size: int = 50_368
    layers: int = 22
    width: int = 768
    heads: int = 12
    feed_forward: int = 1_152  # width of the gated product; the first matrix makes twice as much
    positions: int = 8_192  # longest input that the model is meant for; rotary positions have no table
    global_every: int = (
        3  # layers 0, n, 2n, ... see the whole sequence, the others a window; 1 makes all global
    )
    local_attention: int = 128  # tokens in the window of a local layer, half of them to each side
    global_theta: float = 160_000.0  # base of the rotary angles in global layers
    local_theta: float = 10_000.0  # and in local ones
    dropout: float = 0.0  # inside the feed-forward blocks
    embedding_dropout: float = 0.0
    attention_dropout: float = 0.0  # on attention probabilities and on the output of each attention block
    layer_norm_epsilon: float = 1e-5
    activation: str = "gelu"
    head_activation: str = "gelu"  # of the masked-language head
    attention_bias: bool = False
    feed_forward_bias: bool = False
    norm_bias: bool = False
    head_bias: bool = False  # of the masked-language head's dense layer
    decoder_bias: bool = True
    initializer_range: float = 0.02  # of the truncated normal; divided by sqrt(2 * layers) where a block ends
    pad_id: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.head_width % 2:
            raise UsageError(f"rotary positions need an even head width, not {self.head_width}")
        for name in ("global_theta", "local_theta"):
            if getattr(self, name) <= 0:
                raise UsageError(f"model {name} must be positive, not {getattr(self, name)}")

    @property
    def window(self) -> int:
        """How many tokens a local layer sees to either side."""
        return self.local_attention // 2

    @property
    def head_initializer_range(self) -> float:
        """Standard deviation that matrices start with where a block ends (and the masked-language head's)."""
        return self.initializer_range / math.sqrt(2 * self.layers)

    @property
    def has_segments(self) -> bool:
        """The family tells no segments apart."""
        return False

    @property
    def has_pooler(self) -> bool:
        """The family has neither pooler nor next-sentence head."""
        return False

    def is_global(self, layer: int) -> bool:
        """Whether a layer (the first is 0) sees the whole sequence."""
        return layer % self.global_every == 0

    def make_encoder(self, *, pooler: bool) -> Encoder:
        """A fresh encoder."""
        return ModernEncoder(self, pooler=pooler)

    def make_masked_language_head(self) -> MaskedLanguageHead:
        """A fresh head, before `initialise`."""
        return MaskedLanguageHead(
            self, dense_bias=self.head_bias, norm_bias=self.norm_bias, decoder_bias=self.decoder_bias
        )

    def make_feature_layer(self) -> FeatureLayer:
        """A fresh layer, as it starts in transformers."""
        layer = FeatureLayer(self)
        initialise(layer, self.head_initializer_range)
        return layer


class ModernEncoder(Encoder):
    """Word embeddings, pre-norm layers and a last LayerNorm; segments are taken and ignored."""

    config: ModernConfig

    def __init__(self, config: ModernConfig, *, pooler: bool = False) -> None:
        if pooler:
            raise UsageError("a modernbert encoder has no pooler")
        super().__init__(config, pooler=False)
        self.final_norm = _norm(config)
        for layer in self.layers:
            assert isinstance(layer, PreNormLayer)
            for last in (layer.attention.output, layer.feed_forward.down):
                initialise(last, config.head_initializer_range)

    def _make_embeddings(self, config: Any) -> WordEmbeddings:
        return WordEmbeddings(config)

    def _make_layer(self, config: Any, number: int) -> nn.Module:
        return PreNormLayer(config, number)

    def _through_layers(
        self, x: Tensor, attend: PaddedAttention | PackedAttention, positions: Tensor
    ) -> Tensor:
        config = self.config
        everywhere = RotaryAttention.of(attend, positions, config.head_width, config.global_theta)
        nearby = RotaryAttention.of(
            attend.within(config.window), positions, config.head_width, config.local_theta
        )
        for number, layer in enumerate(self.layers):
            x = self.checkpointed(layer, x, everywhere if config.is_global(number) else nearby)
        return self.final_norm(x)


class WordEmbeddings(nn.Module):
    """Word embeddings, normalised; positions come in with attention."""

    def __init__(self, config: ModernConfig) -> None:
        super().__init__()
        self.words = nn.Embedding(config.vocabulary_size, config.width)
        self.norm = _norm(config)
        self.dropout = nn.Dropout(config.embedding_dropout)

    def forward(self, input_ids: Tensor, positions: Tensor, token_types: Tensor) -> Tensor:
        """Embeddings [..., D] of ids [...]; positions and segments are ignored."""
        return self.dropout(self.norm(self.words(input_ids)))


class PreNormLayer(nn.Module):
    """Attention, then feed-forward, each reading a normalised input and added to it as it was (pre-norm).

    The first layer has no LayerNorm before its attention: the embeddings are normalised already.
    """

    def __init__(self, config: ModernConfig, number: int) -> None:
        super().__init__()
        self.attention_norm = _norm(config) if number else nn.Identity()
        self.attention = Attention(config, bias=config.attention_bias)
        self.attention_dropout = nn.Dropout(config.attention_dropout)
        self.feed_forward_norm = _norm(config)
        self.feed_forward = GatedFeedForward(config)

    def forward(self, x: Tensor, attend: Attend) -> Tensor:
        """x [..., D] -> x [..., D]."""
        x = x + self.attention_dropout(self.attention(self.attention_norm(x), attend))
        return x + self.feed_forward(self.feed_forward_norm(x))


class GatedFeedForward(nn.Module):
    """One dense layer makes a value and a gate, another reads GELU(value) * gate (Shazeer, 2020, GLU Variants)."""

    def __init__(self, config: ModernConfig) -> None:
        super().__init__()
        self.activation = config.activation
        self.up = nn.Linear(config.width, 2 * config.feed_forward, bias=config.feed_forward_bias)
        self.dropout = nn.Dropout(config.dropout)
        self.down = nn.Linear(config.feed_forward, config.width, bias=config.feed_forward_bias)

    def forward(self, x: Tensor) -> Tensor:
        """x [..., D] -> x [..., D]."""
        value, gate = self.up(x).chunk(2, dim=-1)
        return self.down(self.dropout(activate(value, self.activation) * gate))


def _norm(config: ModernConfig) -> nn.LayerNorm:
    return nn.LayerNorm(config.width, eps=config.layer_norm_epsilon, bias=config.norm_bias)
