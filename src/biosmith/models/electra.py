"""ELECTRA (Clark et al., 2020): the configuration, and the two networks of replaced-token detection.

A small generator fills hidden tokens in, and the discriminator says of every token whether it was filled in wrongly.
Both are BERT's encoder with embeddings of a width of their own, which they share (sections 2 and 3.2). Shapes as in
`bert`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn

from biosmith.errors import UsageError
from biosmith.models.bert import BertConfig, PretrainingModel
from biosmith.models.configuration import EncoderConfig
from biosmith.models.encoder import Embeddings, Encoder, initialise
from biosmith.models.heads import MaskedLanguageHead, activate

# What the two networks have in common: the tables and their LayerNorm cannot be shared otherwise.
SHARED_FIELDS = (
    "vocabulary_size",
    "embedding_width",
    "positions",
    "token_types",
    "dropout",
    "layer_norm_epsilon",
    "pad_id",
)


@dataclass(frozen=True)
class ElectraConfig(EncoderConfig):
    """A post-LN encoder whose embeddings have a width of their own; the defaults are ELECTRA-base's discriminator."""

    kind: Literal["electra"] = "electra"
    vocabulary_size: int = 30_522
    embedding_width: int = 768  # projected to `width` where the two differ
    layers: int = 12
    width: int = 768
    heads: int = 12
    feed_forward: int = 3_072
    positions: int = 512
    token_types: int = 2
    dropout: float = 0.1  # on embeddings and on the output of each attention and feed-forward block
    attention_dropout: float = 0.1  # on attention probabilities
    layer_norm_epsilon: float = 1e-12
    activation: str = "gelu"  # the original code computes the exact form (erf)
    initializer_range: float = 0.02  # standard deviation of the truncated normal
    pad_id: int = 0

    @property
    def head_activation(self) -> str:
        """Activation of the generator's head: the exact form whatever the layers have, as in transformers."""
        return "gelu"

    @property
    def has_pooler(self) -> bool:
        """The family has neither pooler nor a head over pairs of segments."""
        return False

    def make_encoder(self, *, pooler: bool) -> Encoder:
        """A fresh encoder."""
        return ElectraEncoder(self, pooler=pooler)

    def make_masked_language_head(self) -> MaskedLanguageHead:
        """A fresh head, before `initialise`; its dense layer leads to the width of the embeddings."""
        return MaskedLanguageHead(self, words_width=self.embedding_width)

    @classmethod
    def like(cls, bert: BertConfig) -> ElectraConfig:
        """The discriminator that has a BERT's encoder, layer for layer: embeddings as wide as the layers."""
        shared = {f.name: getattr(bert, f.name) for f in dataclasses.fields(cls) if hasattr(bert, f.name)}
        return cls(**shared | {"kind": "electra", "embedding_width": bert.width})

    def generator(self, width_share: float, layers_share: float) -> ElectraConfig:
        """The generator of a discriminator, by the rule of the original code: shares of width and layers, rounded;
        heads 64 wide, a feed-forward block four times the width.

        Raises:
            UsageError: the width cannot be shared out among the heads.
        """
        width = round(self.width * width_share)
        return dataclasses.replace(
            self,
            width=width,
            layers=round(self.layers * layers_share),
            heads=max(1, width // 64),
            feed_forward=4 * width,
        )


class ElectraEncoder(Encoder):
    """BERT's layers over embeddings of their own width."""

    config: ElectraConfig

    def __init__(self, config: ElectraConfig, *, pooler: bool = False) -> None:
        if pooler:
            raise UsageError("an electra encoder has no pooler")
        super().__init__(config, pooler=False)

    def _make_embeddings(self, config: Any) -> Embeddings:
        return Embeddings(config, config.embedding_width)

    def _make_projection(self, config: Any) -> nn.Linear | None:
        if config.embedding_width == config.width:
            return None
        return nn.Linear(config.embedding_width, config.width)


class ReplacedTokenHead(nn.Module):
    """Dense, activation, and one number a token: above 0, the token is thought to have been replaced."""

    def __init__(self, config: ElectraConfig) -> None:
        super().__init__()
        self.activation = config.activation
        self.dense = nn.Linear(config.width, config.width)
        self.prediction = nn.Linear(config.width, 1)

    def forward(self, hidden: Tensor) -> Tensor:
        """Logits [...] of hidden states [..., D]."""
        return self.prediction(activate(self.dense(hidden), self.activation)).squeeze(-1)


class Discriminator(nn.Module):
    """An ELECTRA encoder with the head that tells replaced tokens."""

    architecture: ClassVar[str] = "ElectraForPreTraining"

    def __init__(self, config: ElectraConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = config.make_encoder(pooler=False)
        self.replaced_token_head = ReplacedTokenHead(config)
        initialise(self.replaced_token_head, config.head_initializer_range)

    def forward(
        self,
        input_ids_BL: Tensor,
        attention_mask_BL: Tensor | None = None,
        token_type_ids_BL: Tensor | None = None,
    ) -> Tensor:
        """Logits [B, L] of a padded batch."""
        logits: Tensor = self.replaced_token_head(
            self.encoder(input_ids_BL, attention_mask_BL, token_type_ids_BL)
        )
        return logits

    def forward_packed(
        self,
        input_ids_T: Tensor,
        position_ids_T: Tensor,
        token_type_ids_T: Tensor,
        cu_seqlens: Tensor,
        max_seqlen: int,
    ) -> Tensor:
        """Logits [T] of packed sequences (see `Encoder.forward_packed`)."""
        hidden_TD = self.encoder.forward_packed(
            input_ids_T, position_ids_T, token_type_ids_T, cu_seqlens, max_seqlen
        )
        logits: Tensor = self.replaced_token_head(hidden_TD)
        return logits


class ReplacedTokenLogits(NamedTuple):
    """What the two networks say: of the hidden tokens, and of all tokens with samples in the hidden ones' place."""

    masked_language_MV: Tensor
    replaced_T: Tensor
    is_replaced_T: Tensor  # bool: the sample is another token than the one that was hidden


class ElectraModel(nn.Module):
    """Generator and discriminator with one set of embeddings: word, position, segment and their LayerNorm.

    Args:
        config: of the discriminator.
        generator: of the generator.

    Raises:
        UsageError: the two cannot share embeddings; the field that differs is named.
    """

    def __init__(self, config: ElectraConfig, generator: ElectraConfig) -> None:
        super().__init__()
        for name in SHARED_FIELDS:
            ours, theirs = getattr(config, name), getattr(generator, name)
            if ours != theirs:
                raise UsageError(
                    f"discriminator and generator must share embeddings, but {name} is {ours} and {theirs}"
                )
        self.config = config
        self.discriminator = Discriminator(config)
        self.generator = PretrainingModel(generator, next_sentence=False)
        self.share_embeddings()

    @property
    def encoder(self) -> Encoder:
        """The discriminator's."""
        return self.discriminator.encoder

    def share_embeddings(self) -> None:
        """Let the generator use the discriminator's embeddings; its own are given up."""
        self.generator.encoder.embeddings = self.discriminator.encoder.embeddings


def replace_tokens(
    input_ids_T: Tensor, masked_positions_M: Tensor, labels_M: Tensor, sampled_M: Tensor
) -> tuple[Tensor, Tensor]:
    """The discriminator's input: the text as it was, but samples at hidden positions; and which of all tokens [T] are
    replaced. A sample that hits the original token is no replacement (Clark et al., 2020, section 2).

    Args:
        input_ids_T: the generator's input.
        masked_positions_M: of hidden tokens.
        labels_M: the tokens that were hidden; negative in slots without content.
        sampled_M: what the generator puts in their place.
    """
    tokens = input_ids_T.shape[0]
    # Slots without content write behind the last token, where nothing is read.
    place_M = torch.where(labels_M < 0, tokens, masked_positions_M)
    longer_T = torch.cat([input_ids_T, input_ids_T.new_zeros(1)])
    is_replaced_T = torch.zeros(tokens + 1, dtype=torch.bool, device=input_ids_T.device)
    corrupted_T = longer_T.index_put((place_M,), sampled_M.to(input_ids_T.dtype))
    is_replaced_T = is_replaced_T.index_put((place_M,), sampled_M != labels_M)
    return corrupted_T[:tokens], is_replaced_T[:tokens]
