"""Heads over the encoder's hidden states."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

if TYPE_CHECKING:
    from biosmith.models.families import ModelConfig
    from biosmith.models.modern import ModernConfig


def activate(x: Tensor, activation: str) -> Tensor:
    """GELU: "gelu" is the exact form (erf), "gelu_new" the tanh form."""
    return F.gelu(x, approximate="tanh" if activation == "gelu_new" else "none")


class Pooler(nn.Module):
    """A dense layer with tanh over the hidden state of a sequence's first token."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.width, config.width)

    def forward(self, first_ND: Tensor) -> Tensor:
        """[N, D] -> [N, D] in (-1, 1)."""
        return torch.tanh(self.dense(first_ND))


class MaskedLanguageHead(nn.Module):
    """Dense, activation, LayerNorm, then the decoder: the word embedding (tied) with a bias of its own.

    Each of the three has a bias unless the family leaves it out. `words_width` is the width of the word embedding
    where it is not the model's (ELECTRA, ALBERT): the dense layer leads there.
    """

    def __init__(
        self,
        config: ModelConfig,
        *,
        dense_bias: bool = True,
        norm_bias: bool = True,
        decoder_bias: bool = True,
        words_width: int | None = None,
    ) -> None:
        super().__init__()
        self.activation = config.head_activation
        inner = words_width or config.width
        self.dense = nn.Linear(config.width, inner, bias=dense_bias)
        self.norm = nn.LayerNorm(inner, eps=config.layer_norm_epsilon, bias=norm_bias)
        self.bias = nn.Parameter(torch.zeros(config.vocabulary_size)) if decoder_bias else None

    def forward(self, hidden_MD: Tensor, words_VD: Tensor) -> Tensor:
        """Logits [..., V] of hidden states [..., D], given the word embedding [V, D]."""
        return F.linear(self.norm(activate(self.dense(hidden_MD), self.activation)), words_VD, self.bias)


class FeatureLayer(nn.Module):
    """Dense, activation, LayerNorm: what ModernBERT has below its last layer, whatever that one predicts."""

    def __init__(self, config: ModernConfig) -> None:
        super().__init__()
        self.activation = config.head_activation
        self.dense = nn.Linear(config.width, config.width, bias=config.head_bias)
        self.norm = nn.LayerNorm(config.width, eps=config.layer_norm_epsilon, bias=config.norm_bias)

    def forward(self, x: Tensor) -> Tensor:
        """x [..., D] -> x [..., D]."""
        normed: Tensor = self.norm(activate(self.dense(x), self.activation))
        return normed


class NextSentenceHead(nn.Module):
    """Is the second segment the one that followed (column 0) or a random one (column 1)? The same head learns whether
    two segments are in order (0) or exchanged (1)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.width, 2)

    def forward(self, pooled_ND: Tensor) -> Tensor:
        """Logits [N, 2] of pooled states [N, D]."""
        return self.dense(pooled_ND)
