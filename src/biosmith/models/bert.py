"""BERT (Devlin et al., 2019): the configuration, and the model (of any family) that pretraining trains.

Shapes are in the names: B sequences, L positions, T packed tokens, N packed sequences, M masked tokens, D width,
V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import torch
from torch import Tensor, nn

from biosmith.errors import UsageError
from biosmith.models.configuration import EncoderConfig
from biosmith.models.encoder import Encoder, initialise
from biosmith.models.heads import MaskedLanguageHead, NextSentenceHead

if TYPE_CHECKING:
    from biosmith.models.families import ModelConfig


@dataclass(frozen=True)
class BertConfig(EncoderConfig):
    """A post-LN BERT encoder; the defaults are BERT-base, uncased (Devlin et al., 2019, section 3)."""

    kind: Literal["bert"] = "bert"
    vocabulary_size: int = 30_522
    layers: int = 12
    width: int = 768
    heads: int = 12
    feed_forward: int = 3_072
    positions: int = 512
    token_types: int = 2
    dropout: float = 0.1  # on embeddings and on the output of each attention and feed-forward block
    attention_dropout: float = 0.1  # on attention probabilities
    layer_norm_epsilon: float = 1e-12
    activation: str = "gelu"  # "gelu" is the exact form (erf), "gelu_new" the tanh form of the original code
    initializer_range: float = 0.02  # standard deviation of the truncated normal
    pad_id: int = 0

    def make_encoder(self, *, pooler: bool) -> Encoder:
        """A fresh encoder."""
        return Encoder(self, pooler=pooler)

    def make_masked_language_head(self) -> MaskedLanguageHead:
        """A fresh head, before `initialise`."""
        return MaskedLanguageHead(self)


class PretrainingLogits(NamedTuple):
    """What the heads say; `next_sentence_N2` is None for a model without that head (column 0 = is next)."""

    masked_language_MV: Tensor
    next_sentence_N2: Tensor | None


class PretrainingModel(nn.Module):
    """An encoder with the masked-language head and, if asked for, the pooler and next-sentence head.

    The decoder of the masked-language head is the word embedding itself (tied); it has its own bias. The family
    follows from the configuration; one without a pooler has no next-sentence head, one without segments ignores them.

    Args:
        config: of any family.
        next_sentence: with the next-sentence head; None where the family has one.
        pooler: with the pooler; None where the next-sentence head needs it.

    Raises:
        UsageError: the family has no next-sentence head.
    """

    def __init__(
        self, config: ModelConfig, *, next_sentence: bool | None = None, pooler: bool | None = None
    ) -> None:
        super().__init__()
        if next_sentence is None:
            next_sentence = config.has_pooler
        if (next_sentence or pooler) and not config.has_pooler:
            raise UsageError(
                f"a {config.kind} model has no pooler and no next-sentence head: "
                "pretrain it without an objective over pairs of segments"
            )
        self.config = config
        self.encoder = config.make_encoder(pooler=next_sentence if pooler is None else pooler)
        self.masked_language_head = config.make_masked_language_head()
        self.next_sentence_head = NextSentenceHead(config) if next_sentence else None
        for head in (self.masked_language_head, self.next_sentence_head):
            if head is not None:
                initialise(head, config.head_initializer_range)

    def masked_language_logits(self, hidden_MD: Tensor) -> Tensor:
        """Logits [M, V] of the hidden states given, and of no others (leading shape is free)."""
        return self.masked_language_head(hidden_MD, self.encoder.embeddings.words.weight)

    def next_sentence_logits(self, first_ND: Tensor) -> Tensor:
        """Logits [N, 2] from the hidden state of each sequence's first token; 0 = is next, 1 = random."""
        if self.next_sentence_head is None or self.encoder.pooler is None:
            raise UsageError("this model has no next-sentence head")
        return self.next_sentence_head(self.encoder.pooler(first_ND))

    def forward(
        self,
        input_ids_BL: Tensor,
        attention_mask_BL: Tensor | None = None,
        token_type_ids_BL: Tensor | None = None,
        masked_positions_M: Tensor | None = None,
    ) -> PretrainingLogits:
        """Padded batch. `masked_positions_M` index the flattened [B * L] tokens; None gives logits of all of them."""
        hidden_BLD = self.encoder(input_ids_BL, attention_mask_BL, token_type_ids_BL)
        hidden_TD = hidden_BLD.flatten(0, 1)
        if masked_positions_M is None:
            masked_MD = hidden_BLD
        else:
            masked_MD = hidden_TD.index_select(0, masked_positions_M)
        next_sentence_N2 = None
        if self.next_sentence_head is not None:
            next_sentence_N2 = self.next_sentence_logits(hidden_BLD[:, 0])
        return PretrainingLogits(self.masked_language_logits(masked_MD), next_sentence_N2)

    def forward_packed(
        self,
        input_ids_T: Tensor,
        position_ids_T: Tensor,
        token_type_ids_T: Tensor,
        cu_seqlens: Tensor,
        max_seqlen: int,
        masked_positions_M: Tensor,
    ) -> PretrainingLogits:
        """Packed sequences (see `Encoder.forward_packed`); the first token of each sequence feeds the pooler.

        `cu_seqlens` may repeat T at its end (a fixed number of sequence slots): those slots' logits mean nothing.
        """
        hidden_TD = self.encoder.forward_packed(
            input_ids_T, position_ids_T, token_type_ids_T, cu_seqlens, max_seqlen
        )
        masked_MD = hidden_TD.index_select(0, masked_positions_M)
        next_sentence_N2 = None
        if self.next_sentence_head is not None:
            first_N = cu_seqlens[:-1].clamp(max=input_ids_T.shape[0] - 1)
            next_sentence_N2 = self.next_sentence_logits(hidden_TD.index_select(0, first_N))
        return PretrainingLogits(self.masked_language_logits(masked_MD), next_sentence_N2)


def count_parameters(config: ModelConfig, *, next_sentence: bool | None = None) -> int:
    """Trainable parameters of the pretraining model, counted without allocating any."""
    with torch.device("meta"):
        model = PretrainingModel(config, next_sentence=next_sentence)
    return sum(p.numel() for p in model.parameters())
