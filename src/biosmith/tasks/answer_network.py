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
from biosmith.models.finite import require_finite
from biosmith.models.saving import architecture_for, save_model
from biosmith.tasks.batches import Batch
from biosmith.tasks.folders import (
    fill,
    is_fast,
    label_maps,
    label_options,
    open_transformers,
    prefixed,
    read_json,
    readable_positions,
    save_transformers,
    set_dropout,
)
from biosmith.tasks.layout import IGNORED, Layout
from biosmith.tasks.network import (
    hidden_states,
    linear_deviation,
    new_feature_layer,
    new_linear,
    open_encoder,
    padded,
    run_padded,
    start_feature_layer,
)

START, END = 1, 2  # bits of a target
OUTPUTS = ("LABEL_0", "LABEL_1")  # for classes that take the number of theirs from the label map
HEAD, MODERN_HEAD = "qa_outputs", "classifier"  # its names in transformers
HIDDEN = -1e4  # score of a place without a pick


class AnswerNetwork(nn.Module):
    """The fast encoder and a linear layer with two outputs (Devlin et al., 2019, section 4.2)."""

    def __init__(self, encoder: Encoder, dropout: float, tokenizer_from: Path) -> None:
        super().__init__()
        self.encoder, self.tokenizer_from = encoder, tokenizer_from
        self.dropout = nn.Dropout(dropout)
        self.positions = encoder.config.positions
        self.head = new_feature_layer(encoder)
        self.qa_outputs = new_linear(encoder.config.width, 2, linear_deviation(encoder, self.head))
        encoder.pooler = None

    @property
    def name(self) -> str:
        """What the last layer is called in transformers."""
        return HEAD if self.head is None else MODERN_HEAD

    def logits(self, batch: Batch) -> Tensor:
        """Scores [K, 2] of the picks as start and as end."""
        picked_KD = hidden_states(self.encoder, batch).index_select(0, batch.picks_K)
        picked_KD = picked_KD if self.head is None else self.head(picked_KD)
        scores: Tensor = self.qa_outputs(self.dropout(picked_KD))
        return scores

    def loss(self, batch: Batch) -> Tensor:
        """Mean over sequences of the cross-entropy of the right start and of the right end."""
        return answer_loss(self.logits(batch).float(), batch)

    def save(self, folder: Path, *, labels: Sequence[str], manifest: Manifest, card: str) -> None:
        """See `network.Network`: a folder of BertForQuestionAnswering or its family's."""
        own = {} if self.head is None else prefixed("head", self.head)
        config = {**label_maps(OUTPUTS), "classifier_dropout": self.dropout.p}
        save_model(
            folder,
            self.encoder,
            tokenizer_from=self.tokenizer_from,
            architecture=architecture_for(self.encoder, "ForQuestionAnswering"),
            head=prefixed(self.name, self.qa_outputs) | own,
            config=config if self.head is not None else None,
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
        given = run_padded(self.model, inputs)
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
    start_feature_layer(network.head, folder)
    if _has_answers(network, folder):
        fill(network.qa_outputs, read_tensors(folder), network.name, folder)
    return network


def load_answer_network(folder: Path) -> AnyAnswers:
    """A tuned network, in evaluation mode.

    Raises:
        UsageError, BadInput: the folder is missing or damaged, or has no head for answers.
    """
    if not is_fast(folder):
        return require_finite(_transformers_answers(folder, 0.0, "tuned"), folder).eval()
    network = AnswerNetwork(_fast(folder), 0.0, folder)
    if not _has_answers(network, folder):
        raise BadInput(
            folder, "has no head for answers; is it tuned for them?", value=f"{network.name}.weight"
        )
    tensors = read_tensors(folder)
    fill(network.qa_outputs, tensors, network.name, folder)
    fill(network.head, tensors, "head", folder)
    return require_finite(network, folder).eval()


def _has_answers(network: AnswerNetwork, folder: Path) -> bool:
    """Whether the folder has the last layer. ModernBERT's classes all call theirs alike."""
    stated = str(read_json(folder / "config.json").get("architectures"))
    is_ours = network.head is None or "ForQuestionAnswering" in stated
    return is_ours and f"{network.name}.weight" in read_tensors(folder)


def _fast(folder: Path) -> Encoder:
    encoder = open_encoder(folder)
    assert isinstance(encoder, Encoder)
    return encoder


def _transformers_answers(folder: Path, dropout: float, head: Literal["new", "tuned"]) -> TransformersAnswers:
    from transformers import AutoModelForQuestionAnswering

    # The classes take their outputs from the label map, which a folder tuned for another task has for that task.
    options = label_options(OUTPUTS) if head == "new" else {}
    model, tokenizer = open_transformers(
        AutoModelForQuestionAnswering, folder, "for answers", head, **options
    )
    set_dropout(model, dropout)
    return TransformersAnswers(model, tokenizer)
