"""GPT-2 (Radford et al., 2019) as the decoder of a latent-variable model: memory and embedding injection.

The latent vector z enters in two ways (Li et al., 2020, OPTIMUS, section 3.2): as *memory*, one vector a layer that every
token can attend to (it is both key and value, and stands before the first token), and as *embedding*, added to the
embedding of every token. One set of parameters has three ways in: packed sentences (training), a padded batch, and a few
tokens at a time with a cache (generation).

Shapes are in the names: B sentences, L positions, S packed tokens, N packed sentences, H heads of width K, D width,
Z latent size, V vocabulary.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from biosmith.models.configuration import check_config, without_dropout
from biosmith.models.heads import activate
from biosmith.models.memory_attention import CachedAttention, MemoryAttention, PackedLayout, PaddedAttention


@dataclass(frozen=True)
class Gpt2Config:
    """A GPT-2 decoder; the defaults are GPT-2 small with the three tokens that OPTIMUS adds to its vocabulary.

    Raises:
        UsageError: a value is impossible; the message names the field.
    """

    kind: Literal["gpt2"] = "gpt2"
    vocabulary_size: int = 50_260
    layers: int = 12
    width: int = 768
    heads: int = 12
    positions: int = 1_024
    dropout: float = 0.1  # on embeddings and on the output of each attention and feed-forward block
    attention_dropout: float = 0.1  # on attention probabilities
    layer_norm_epsilon: float = 1e-5
    activation: str = "gelu_new"
    initializer_range: float = 0.02
    pad_id: int = 50_257
    begin_id: int = 50_258
    end_id: int = 50_259

    def __post_init__(self) -> None:
        check_config(self, "decoder")

    def without_dropout(self) -> Gpt2Config:
        """The same decoder with both dropouts off."""
        made: Gpt2Config = without_dropout(self)
        return made


@dataclass(frozen=True)
class Injected:
    """What latent vectors [N, Z] become for the decoder; both None is a plain language model.

    Attributes:
        memory_LND: one [N, D] a layer.
        embedding_ND: added to the embedding of each token of the sentence.
    """

    memory_LND: tuple[Tensor, ...] | None = None
    embedding_ND: Tensor | None = None


class Decoder(nn.Module):
    """GPT-2: embeddings, layers, final LayerNorm; the output layer is the word embedding itself (tied)."""

    def __init__(self, config: Gpt2Config) -> None:
        super().__init__()
        self.config = config
        self.words = nn.Embedding(config.vocabulary_size, config.width)
        self.positions = nn.Embedding(config.positions, config.width)
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width, eps=config.layer_norm_epsilon)
        self._initialise()

    def _initialise(self) -> None:
        """Normal draws; outputs that feed the residual stream are scaled by 1 / sqrt(2 layers) (section 2.3)."""
        for name, part in self.named_modules():
            if isinstance(part, nn.Linear | nn.Embedding):
                residual = name.endswith(("attention.output", "feed_forward.down"))
                scale = 1 / math.sqrt(2 * self.config.layers) if residual else 1.0
                nn.init.normal_(part.weight, std=self.config.initializer_range * scale)
                if isinstance(part, nn.Linear) and part.bias is not None:
                    nn.init.zeros_(part.bias)

    def forward_packed(self, ids_S: Tensor, positions_S: Tensor, layout: PackedLayout, z: Injected) -> Tensor:
        """Hidden states [S, D] of sentences laid end to end.

        Args:
            ids_S, positions_S: of each token; positions begin at 1 where z has a memory.
            layout: where the sentences lie.
            z: of N sentences.
        """
        x_SD = self.words(ids_S) + self.positions(positions_S)
        if z.embedding_ND is not None:
            x_SD = x_SD + z.embedding_ND.index_select(0, layout.sentence_S)
        return self._through_layers(x_SD, MemoryAttention(layout), z)

    def forward(self, ids_BL: Tensor, z: Injected) -> Tensor:
        """Hidden states [B, L, D] of a batch padded on the right. Padding needs no mask: no token sees a later one."""
        first = 0 if z.memory_LND is None else 1
        positions_L = torch.arange(first, first + ids_BL.shape[1], device=ids_BL.device)
        return self._through_layers(self._embed(ids_BL, positions_L, z), PaddedAttention(), z)

    def forward_cached(self, ids_BL: Tensor, cache: CachedAttention, z: Injected) -> Tensor:
        """Hidden states [B, L, D] of the tokens that follow those already in the cache, which grows by them.

        A cache begins empty (`CachedAttention()`); all sentences have the same number of tokens so far.
        """
        first = cache.tokens + (0 if z.memory_LND is None else 1)
        positions_L = torch.arange(first, first + ids_BL.shape[1], device=ids_BL.device)
        hidden = self._through_layers(self._embed(ids_BL, positions_L, z), cache, z)
        cache.tokens += ids_BL.shape[1]
        return hidden

    def _embed(self, ids_BL: Tensor, positions_L: Tensor, z: Injected) -> Tensor:
        x_BLD = self.words(ids_BL) + self.positions(positions_L)
        return x_BLD if z.embedding_ND is None else x_BLD + z.embedding_ND[:, None]

    def _through_layers(
        self, x: Tensor, attend: MemoryAttention | PaddedAttention | CachedAttention, z: Injected
    ) -> Tensor:
        # In the precision of the layers, where the embeddings are kept in a higher one.
        x = self.dropout(x).to(self.norm.weight.dtype)
        for number, layer in enumerate(self.layers):
            memory_ND = None if z.memory_LND is None else z.memory_LND[number]
            x = layer(x, attend.at(number), memory_ND)
        return self.norm(x)

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits [..., V] of hidden states [..., D]."""
        return F.linear(hidden, self.words.weight)


class Mix(Protocol):
    """Causal attention: qkv [..., 3, H, K] and a memory [N, H, K] or None -> [..., H, K]."""

    def __call__(self, qkv: Tensor, memory: Tensor | None, dropout: float) -> Tensor:
        """`dropout` is the rate on attention probabilities."""


class DecoderLayer(nn.Module):
    """Attention, then feed-forward, each over the normalised input and added to it (pre-LN)."""

    def __init__(self, config: Gpt2Config) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(config.width, eps=config.layer_norm_epsilon)
        self.attention = CausalAttention(config)
        self.feed_forward_norm = nn.LayerNorm(config.width, eps=config.layer_norm_epsilon)
        self.feed_forward = FeedForward(config)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, attend: Mix, memory_ND: Tensor | None) -> Tensor:
        """x [..., D] -> x [..., D]."""
        x = x + self.dropout(self.attention(self.attention_norm(x), attend, memory_ND))
        return x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))


class CausalAttention(nn.Module):
    """Self-attention in which a token sees the memory, itself and what came before it."""

    def __init__(self, config: Gpt2Config) -> None:
        super().__init__()
        self.heads, self.dropout = config.heads, config.attention_dropout
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.output = nn.Linear(config.width, config.width)

    def forward(self, x: Tensor, attend: Mix, memory_ND: Tensor | None) -> Tensor:
        """x [..., D] -> mixed [..., D]."""
        qkv = self.qkv(x).unflatten(-1, (3, self.heads, -1))
        memory = None if memory_ND is None else memory_ND.to(qkv.dtype).unflatten(-1, (self.heads, -1))
        mixed = attend(qkv, memory, self.dropout if self.training else 0.0)
        return self.output(mixed.flatten(-2))


class FeedForward(nn.Module):
    """Two dense layers, four times as wide between them, with a GELU."""

    def __init__(self, config: Gpt2Config) -> None:
        super().__init__()
        self.activation = config.activation
        self.up = nn.Linear(config.width, 4 * config.width)
        self.down = nn.Linear(4 * config.width, config.width)

    def forward(self, x: Tensor) -> Tensor:
        """x [..., D] -> x [..., D]."""
        return self.down(activate(self.up(x), self.activation))
