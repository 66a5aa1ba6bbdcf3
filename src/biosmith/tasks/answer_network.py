"""Encoder -> Predict for answers that are spans: a score for each piece as the first and as the last of the answer.

A batch picks [CLS], which stands for "no answer here", and every piece of the context. A pick's target has bit 1 where
the answer begins and bit 2 where it ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from biosmith.artefact import Manifest
from biosmith.errors import BadInput
from biosmith.models.checkpoint import read_tensors
from biosmith.models.encoder import Encoder
from biosmith.models.saving import architecture_for, save_model
from biosmith.tasks.batches import Batch
from biosmith.tasks.folders import (
    fill,
    is_fast,
    label_options,
    open_transformers,
    prefixed,
    readable_positions,
    save_transformers,
    set_dropout,
)
from biosmith.tasks.layout import IGNORED, Layout
from biosmith.tasks.network import hidden_states, new_linear, open_encoder, padded

START, END = 1, 2  # bits of a target
HEAD = "qa_outputs"  # its name in transformers
HIDDEN = -1e4  # score of a place without a pick


class AnswerNetwork(nn.Module):
    """The fast encoder and a linear layer with two outputs (Devlin et al., 2019, section 4.2)."""

    def __init__(self, encoder: Encoder, dropout: float, tokenizer_from: Path) -> None:
        super().__init__()
        self.encoder, self.tokenizer_from = encoder, tokenizer_from
        self.dropout = nn.Dropout(dropout)
        self.positions = encoder.config.positions
        self.qa_outputs = new_linear(encoder.config.width, 2, float(encoder.config.initializer_range))
        encoder.pooler = None

    def logits(self, batch: Batch) -> Tensor:
        """Scores [K, 2] of the picks as start and as end."""
        hidden_TD = hidden_states(self.encoder, batch)
        scores: Tensor = self.qa_outputs(self.dropout(hidden_TD.index_select(0, batch.picks_K)))
        return scores

    def loss(self, batch: Batch) -> Tensor:
        """Mean over sequences of the cross-entropy of the right start and of the right end."""
        return answer_loss(self.logits(batch).float(), batch)

    def save(self, folder: Path, *, labels: Sequence[str], manifest: Manifest, card: str) -> None:
        """See `network.Network`: a folder of BertForQuestionAnswering or its family's."""
        save_model(
            folder,
            self.encoder,
            tokenizer_from=self.tokenizer_from,
            architecture=architecture_for(self.encoder, "ForQuestionAnswering"),
            head=prefixed(HEAD, self.qa_outputs),
            manifest=manifest,
            card=card,
        )


class TransformersAnswers(nn.Module):
    """Any model of the `transformers` library, padded, through its question answering class."""

    def __init__(self, model: Any, tokenizer: Any) -> None:
        super().__init__()
        self.model, self.tokenizer = model, tokenizer
        self.positions = readable_positions(model)

    def logits(self, batch: Batch) -> Tensor:
        """Scores [K, 2] of the picks as start and as end."""
        inputs, mask_NL = padded(batch, self.model, self.tokenizer)
        given = self.model(**inputs)
        scores_NL2 = torch.stack([given.start_logits, given.end_logits], dim=-1)
        scores_K2: Tensor = scores_NL2[mask_NL][batch.picks_K]
        return scores_K2

    def loss(self, batch: Batch) -> Tensor:
        """As `AnswerNetwork.loss`."""
        return answer_loss(self.logits(batch).float(), batch)

    def save(self, folder: Path, *, labels: Sequence[str], manifest: Manifest, card: str) -> None:
        """See `network.Network`."""
        save_transformers(folder, self.model, self.tokenizer, manifest, card)


AnyAnswers = AnswerNetwork | TransformersAnswers


def answer_loss(scores_K2: Tensor, batch: Batch) -> Tensor:
    """Mean cross-entropy over the picks of each sequence, of starts and ends together."""
    layout = Layout.of_picks(batch)
    bits_K = torch.where(batch.target == IGNORED, 0, batch.target)
    right_K2 = torch.stack([bits_K & START > 0, bits_K & END > 0], dim=-1)
    mask_NW1 = layout.mask_NW[..., None]
    scores_NW2 = torch.where(mask_NW1, layout.spread(scores_K2), HIDDEN)
    right_NW2 = layout.spread(right_K2) & mask_NW1
    log_NW2 = torch.log_softmax(scores_NW2, dim=1)
    return -(log_NW2 * right_NW2).sum() / right_NW2.sum().clamp(min=1)


def new_answer_network(folder: Path, dropout: float) -> AnyAnswers:
    """A network with the encoder of a folder; a head for answers that is there already is trained on."""
    if not is_fast(folder):
        return _transformers_answers(folder, dropout, "new")
    network = AnswerNetwork(_fast(folder), dropout, folder)
    tensors = read_tensors(folder)
    if f"{HEAD}.weight" in tensors:
        fill(network.qa_outputs, tensors, HEAD, folder)
    return network


def load_answer_network(folder: Path) -> AnyAnswers:
    """A tuned network, in evaluation mode.

    Raises:
        UsageError, BadInput: the folder is missing or damaged, or has no head for answers.
    """
    if not is_fast(folder):
        return _transformers_answers(folder, 0.0, "tuned").eval()
    network = AnswerNetwork(_fast(folder), 0.0, folder)
    tensors = read_tensors(folder)
    if f"{HEAD}.weight" not in tensors:
        raise BadInput(folder, "has no head for answers; is it tuned for them?", value=f"{HEAD}.weight")
    fill(network.qa_outputs, tensors, HEAD, folder)
    return network.eval()


def _fast(folder: Path) -> Encoder:
    encoder = open_encoder(folder)
    assert isinstance(encoder, Encoder)
    return encoder


def _transformers_answers(folder: Path, dropout: float, head: Literal["new", "tuned"]) -> TransformersAnswers:
    from transformers import AutoModelForQuestionAnswering

    # The classes take their outputs from the label map, which a folder tuned for another task has for that task.
    options = label_options(("LABEL_0", "LABEL_1")) if head == "new" else {}
    model, tokenizer = open_transformers(
        AutoModelForQuestionAnswering, folder, "for answers", head, **options
    )
    set_dropout(model, dropout)
    return TransformersAnswers(model, tokenizer)
