"""The transformer encoder, and BERT's post-LN parts of it: one set of parameters, two ways in (padded and packed).

Layers know nothing about batching: they see x_..D and an `attend` function that mixes tokens of one sequence.
Another family (`modern`: pre-LN, rotary, gated) brings its own embeddings and layers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from biosmith.models.attention import Attend, PackedAttention, PaddedAttention
from biosmith.models.heads import Pooler, activate

if TYPE_CHECKING:
    from biosmith.models.albert import AlbertConfig
    from biosmith.models.bert import BertConfig
    from biosmith.models.checkpoint import Origin
    from biosmith.models.electra import ElectraConfig
    from biosmith.models.families import ModelConfig
    from biosmith.models.modern import WordEmbeddings


class Encoder(nn.Module):
    """Embeddings and layers of BERT; `pooler` is the tanh layer over a sequence's first token, or None.

    `origin` says which Hugging Face folder the weights came from (None for a fresh model), so that saving gives the
    same tensors under the same names. With `activation_checkpointing`, training keeps the input of each layer only and
    computes the rest again in the backward pass: less memory, a third more work.
    """

    activation_checkpointing = False

    def __init__(self, config: ModelConfig, *, pooler: bool = True) -> None:
        super().__init__()
        self.config = config
        self.embeddings = self._make_embeddings(config)
        self.projection = self._make_projection(config)
        self.layers = nn.ModuleList(self._make_layers(config))
        self.pooler = Pooler(config) if pooler else None
        self.origin: Origin | None = None
        initialise(self, config.initializer_range)

    # What another family replaces.

    def _make_embeddings(self, config: Any) -> Embeddings | WordEmbeddings:
        return Embeddings(config)

    def _make_projection(self, config: Any) -> nn.Linear | None:
        """From the width of the embeddings to that of the layers, where they differ."""
        return None

    def _make_layers(self, config: Any) -> Iterable[nn.Module]:
        return (self._make_layer(config, number) for number in range(config.layers))

    def _make_layer(self, config: Any, number: int) -> nn.Module:
        return PostNormLayer(config)

    def in_order(self) -> Iterable[nn.Module]:
        """The layers as they are gone through; a shared one comes several times."""
        return self.layers

    def _through_layers(
        self, x: Tensor, attend: PaddedAttention | PackedAttention, positions: Tensor
    ) -> Tensor:
        for layer in self.in_order():
            x = self.checkpointed(layer, x, attend)
        return x

    def checkpointed(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """`function(*arguments)`, computed again in the backward pass where activation checkpointing is on."""
        if self.activation_checkpointing and self.training:
            return checkpoint(function, *arguments, use_reentrant=False)
        return function(*arguments)

    def embed(self, input_ids: Tensor, positions: Tensor, token_types: Tensor) -> Tensor:
        """What the first layer sees, [..., D]."""
        x = self.embeddings(input_ids, positions, token_types)
        return x if self.projection is None else self.projection(x)

    def forward(
        self,
        input_ids_BL: Tensor,
        attention_mask_BL: Tensor | None = None,
        token_type_ids_BL: Tensor | None = None,
    ) -> Tensor:
        """Hidden states [B, L, D] of a padded batch.

        Args:
            input_ids_BL: token ids.
            attention_mask_BL: 1 or True at real tokens; None where nothing is padded (the fastest form).
            token_type_ids_BL: segment of each token; None is segment 0 throughout.
        """
        positions_L = torch.arange(input_ids_BL.shape[1], device=input_ids_BL.device)
        if token_type_ids_BL is None:
            token_type_ids_BL = torch.zeros_like(input_ids_BL)
        x_BLD = self.embed(input_ids_BL, positions_L, token_type_ids_BL)
        return self._through_layers(x_BLD, PaddedAttention.of(attention_mask_BL), positions_L)

    def forward_packed(
        self,
        input_ids_T: Tensor,
        position_ids_T: Tensor,
        token_type_ids_T: Tensor,
        cu_seqlens: Tensor,
        max_seqlen: int,
    ) -> Tensor:
        """Hidden states [T, D] of sequences laid end to end; no token sees another sequence.

        Args:
            input_ids_T: token ids of all sequences.
            position_ids_T: position of each token in its own sequence.
            token_type_ids_T: segment of each token.
            cu_seqlens: int32 [N + 1], where each sequence begins, and T; may repeat T at its end for empty slots.
            max_seqlen: an upper bound of the sequences' lengths.
        """
        x_TD = self.embed(input_ids_T, position_ids_T, token_type_ids_T)
        return self._through_layers(x_TD, PackedAttention(cu_seqlens, max_seqlen), position_ids_T)


class Embeddings(nn.Module):
    """Word, position and segment embeddings, summed and normalised; `width` None is that of the model."""

    def __init__(self, config: BertConfig | ElectraConfig | AlbertConfig, width: int | None = None) -> None:
        super().__init__()
        width = width or config.width
        self.words = nn.Embedding(config.vocabulary_size, width)
        self.positions = nn.Embedding(config.positions, width)
        self.types = nn.Embedding(config.token_types, width)
        self.norm = nn.LayerNorm(width, eps=config.layer_norm_epsilon)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, input_ids: Tensor, positions: Tensor, token_types: Tensor) -> Tensor:
        """Embeddings [..., D] of ids, positions and segments [...]."""
        x = self.words(input_ids) + self._types(token_types) + self.positions(positions)
        return self.dropout(self.norm(x))

    def _types(self, token_types: Tensor) -> Tensor:
        if self.types.num_embeddings != 2 or not torch.compiler.is_compiling():
            return self.types(token_types)
        # The gradient of a two-row table is a sum over all tokens: as a selection it compiles to a reduction, as a
        # lookup to atomic additions that all hit the same two rows. The values are the same.
        first_D, second_D = self.types.weight.unbind(0)
        return torch.where(token_types.unsqueeze(-1) == 0, first_D, second_D)


class PostNormLayer(nn.Module):
    """Attention, then feed-forward, each added to its input and normalised afterwards (post-LN)."""

    def __init__(self, config: BertConfig | ElectraConfig | AlbertConfig) -> None:
        super().__init__()
        self.attention = Attention(config)
        self.attention_norm = nn.LayerNorm(config.width, eps=config.layer_norm_epsilon)
        self.feed_forward = FeedForward(config)
        self.feed_forward_norm = nn.LayerNorm(config.width, eps=config.layer_norm_epsilon)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, attend: Attend) -> Tensor:
        """x [..., D] -> x [..., D]."""
        x = self.attention_norm(x + self.dropout(self.attention(x, attend)))
        return self.feed_forward_norm(x + self.dropout(self.feed_forward(x)))


class Attention(nn.Module):
    """Multi-head self-attention; queries, keys and values come from one matrix [3 * D, D], in this order."""

    def __init__(self, config: ModelConfig, *, bias: bool = True) -> None:
        super().__init__()
        self.heads = config.heads
        self.dropout = config.attention_dropout
        self.qkv = nn.Linear(config.width, 3 * config.width, bias=bias)
        self.output = nn.Linear(config.width, config.width, bias=bias)

    def forward(self, x: Tensor, attend: Attend) -> Tensor:
        """x [..., D] -> mixed [..., D]."""
        query, key, value = self.qkv(x).unflatten(-1, (3, self.heads, -1)).unbind(-3)
        mixed = attend(query, key, value, self.dropout if self.training else 0.0)
        return self.output(mixed.flatten(-2))


class FeedForward(nn.Module):
    """Two dense layers with a GELU between them."""

    def __init__(self, config: BertConfig | ElectraConfig | AlbertConfig) -> None:
        super().__init__()
        self.activation = config.activation
        self.up = nn.Linear(config.width, config.feed_forward)
        self.down = nn.Linear(config.feed_forward, config.width)

    def forward(self, x: Tensor) -> Tensor:
        """x [..., D] -> x [..., D]."""
        return self.down(activate(self.up(x), self.activation))


def sinusoidal_positions(positions: int, width: int, standard_deviation: float) -> Tensor:
    """Position embeddings [L, D] of sines (even columns) and cosines (odd ones) of wavelengths from 2 pi to 20,000 pi.

    Vaswani et al. (2017), section 3.5, centred over the positions and scaled to the standard deviation of the other
    embeddings: curves longer than the sequence are nearly constant and would drown the rest.
    """
    waves = torch.exp(-math.log(10_000.0) * torch.arange(0, width, 2) / width)
    angles = torch.arange(positions)[:, None] * waves
    table = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :width]
    table = table - table.mean(0)
    return table * (standard_deviation / table.std().clamp(min=1e-12))


@torch.no_grad()
def start_sinusoidal(model: nn.Module) -> None:
    """Give all position embeddings of a fresh model the values of `sinusoidal_positions`, as wide as they were drawn."""
    for part in model.modules():
        if isinstance(part, Embeddings):
            positions, width = part.positions.weight.shape
            spread = float(part.positions.weight.std())
            part.positions.weight.copy_(sinusoidal_positions(positions, width, spread))


def initialise(module: nn.Module, standard_deviation: float) -> None:
    """Truncated normal (cut at two standard deviations) for matrices, 0 for biases, 1 for LayerNorm gains.

    The original code's initialisation (google-research/bert, `modeling.py`); draws from torch's global generator.
    """
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Embedding):
            bound = 2 * standard_deviation
            nn.init.trunc_normal_(part.weight, std=standard_deviation, a=-bound, b=bound)
            if isinstance(part, nn.Linear) and part.bias is not None:
                nn.init.zeros_(part.bias)
        elif isinstance(part, nn.LayerNorm):
            nn.init.ones_(part.weight)
            if part.bias is not None:
                nn.init.zeros_(part.bias)
