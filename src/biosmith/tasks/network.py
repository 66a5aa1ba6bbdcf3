"""Encoder -> Featurizer -> Predict: what a task trains (PubMedBERT, section 5).

Folders shaped like BERT, ELECTRA, ALBERT or ModernBERT run through the fast packed encoder; any other Hugging Face
folder through its AutoModel class. Both are saved as folders that `transformers` loads with equal logits.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from biosmith.artefact import Manifest
from biosmith.errors import BadInput
from biosmith.models.checkpoint import load_encoder, read_tensors
from biosmith.models.encoder import Encoder
from biosmith.models.finite import require_finite
from biosmith.models.heads import FeatureLayer
from biosmith.models.modern import ModernConfig
from biosmith.models.saving import architecture_for, save_model
from biosmith.tasks.batches import Batch
from biosmith.tasks.crf import LinearChain
from biosmith.tasks.folders import (
    fill,
    is_fast,
    label_maps,
    label_options,
    open_transformers,
    prefixed,
    read_head,
    read_labels,
    readable_positions,
    save_head,
    save_transformers,
    set_dropout,
)
from biosmith.tasks.layout import IGNORED, BiLSTM, Layout


class Network(Protocol):
    """A module that scores the picks of a batch."""

    positions: int

    def logits(self, batch: Batch) -> Tensor:
        """Scores of the batch's picks."""

    def save(self, folder: Path, *, labels: Sequence[str], manifest: Manifest, card: str) -> None:
        """Write a Hugging Face folder into an empty one."""


class TransformersEncoder(nn.Module):
    """An encoder of any other family, by the `transformers` library; sequences are padded for it."""

    def __init__(self, model: Any, tokenizer: Any) -> None:
        super().__init__()
        self.model, self.tokenizer = model, tokenizer
        self.config = model.config
        self.width = int(model.config.hidden_size)
        self.positions = readable_positions(model)

    def hidden(self, batch: Batch) -> Tensor:
        """Hidden states [T, D] of the top layer."""
        inputs, mask_NL = padded(batch, self.model, self.tokenizer)
        states_TD: Tensor = run_padded(self.model, inputs).last_hidden_state[mask_NL]
        return states_TD


AnyEncoder = Encoder | TransformersEncoder


def hidden_states(encoder: AnyEncoder, batch: Batch) -> Tensor:
    """Hidden states [T, D] of a packed batch."""
    if isinstance(encoder, TransformersEncoder):
        return encoder.hidden(batch)
    return encoder.forward_packed(
        batch.input_ids_T, batch.position_ids_T, batch.token_type_ids_T, batch.cu_seqlens, batch.longest
    )


def open_encoder(folder: Path) -> AnyEncoder:
    """The encoder of a folder in 32 bits: the fast one where it knows the shape, AutoModel otherwise."""
    if is_fast(folder):
        return load_encoder(folder, dtype=torch.float32)[0]
    from transformers import AutoModel

    return TransformersEncoder(*open_transformers(AutoModel, folder, "as an encoder", "none"))


def encoder_width(encoder: AnyEncoder) -> int:
    """D."""
    return encoder.width if isinstance(encoder, TransformersEncoder) else encoder.config.width


def encoder_positions(encoder: AnyEncoder) -> int:
    """How many tokens it reads."""
    return encoder.positions if isinstance(encoder, TransformersEncoder) else encoder.config.positions


def save_encoder(
    folder: Path,
    encoder: AnyEncoder,
    tokenizer_from: Path,
    labels: Sequence[str],
    manifest: Manifest,
    card: str,
) -> None:
    """Write an encoder without its head, with the label map if there are labels."""
    if isinstance(encoder, TransformersEncoder):
        if labels:
            options = label_options(labels)
            encoder.model.config.id2label, encoder.model.config.label2id = (
                options["id2label"],
                options["label2id"],
            )
        save_transformers(folder, encoder.model, encoder.tokenizer, manifest, card)
    else:
        save_model(
            folder,
            encoder,
            tokenizer_from=tokenizer_from,
            architecture=architecture_for(encoder, "Model"),
            config=label_maps(labels) if labels else None,
            manifest=manifest,
            card=card,
        )


def new_feature_layer(encoder: AnyEncoder) -> FeatureLayer | None:
    """What the classes of a family have in `transformers` between the encoder and their last layer; only ModernBERT's do."""
    config = encoder.config
    return config.make_feature_layer() if isinstance(config, ModernConfig) else None


def start_feature_layer(layer: FeatureLayer | None, folder: Path) -> None:
    """Let a fresh layer begin with the weights that the folder has for it, of the masked-language head most often."""
    if layer is not None and "head.dense.weight" in (tensors := read_tensors(folder)):
        fill(layer, tensors, "head", folder)


def linear_deviation(encoder: AnyEncoder, features: FeatureLayer | None) -> float:
    """Standard deviation that a classification layer's weights begin with; above normalised features as in ModernBERT."""
    return float(encoder.config.initializer_range if features is None else encoder_width(encoder) ** -0.5)


def new_linear(width: int, outputs: int, deviation: float = 0.02) -> nn.Linear:
    """A classification layer with the weights that `transformers` would begin with."""
    layer = nn.Linear(width, outputs)
    nn.init.normal_(layer.weight, std=deviation)
    nn.init.zeros_(layer.bias)
    return layer


class EncoderTagger(nn.Module):
    """An encoder and a linear layer over the hidden states of the picks, perhaps with an LSTM between or a CRF above.

    Attributes:
        encoder: the fast encoder, or one of `transformers`.
        head: the layer that the family has below the classification layer, or None.
        lstm: a bidirectional LSTM over the picks of each sequence in its place, or None.
        chain: a CRF over the labels of each sequence, or None.
        right: labels that are right for each target (`joining.right_answers`); None where a target is a label.
    """

    right: Tensor | None

    def __init__(
        self, encoder: AnyEncoder, labels: int, dropout: float, tokenizer_from: Path, head: str = "linear"
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.dropout = nn.Dropout(dropout)
        width = encoder_width(encoder)
        self.head = None if head == "bilstm" else new_feature_layer(encoder)
        self.classifier = new_linear(width, labels, linear_deviation(encoder, self.head))
        self.lstm = BiLSTM(width) if head == "bilstm" else None
        self.chain = LinearChain(labels) if head == "crf" else None
        self.tokenizer_from = tokenizer_from
        self.positions = encoder_positions(encoder)
        self.register_buffer("right", None, persistent=False)
        if isinstance(encoder, Encoder) and encoder.pooler is not None:
            # Taggers have no use for it, and transformers saves none either.
            encoder.pooler = None

    @property
    def scorer(self) -> nn.Module:
        """What scores hidden states one by one, outside training; not all that a head with an LSTM does."""
        return self.classifier if self.head is None else nn.Sequential(self.head, self.classifier)

    def logits(self, batch: Batch) -> Tensor:
        """See `Network`."""
        hidden_TD = hidden_states(self.encoder, batch)
        # Only what the head reads is dropped out and scored.
        picked_KD = hidden_TD.index_select(0, batch.picks_K)
        picked_KD = self.dropout(picked_KD if self.head is None else self.head(picked_KD))
        if self.lstm is not None:
            picked_KD = self.lstm(picked_KD, Layout.of_picks(batch))
        scores: Tensor = self.classifier(picked_KD)
        return scores

    def loss(self, batch: Batch) -> Tensor:
        """Mean cross-entropy of the words, or of the sentences with a CRF."""
        return tagging_loss(self.logits(batch).float(), batch, self.chain, self.right)

    def save(self, folder: Path, *, labels: Sequence[str], manifest: Manifest, card: str) -> None:
        """See `Network`: a folder of BertForTokenClassification or its family's, or the encoder with the head beside it."""
        own = {} if self.chain is None else prefixed("chain", self.chain)
        between = {} if self.head is None else prefixed("head", self.head)
        if isinstance(self.encoder, Encoder) and self.lstm is None:
            save_model(
                folder,
                self.encoder,
                tokenizer_from=self.tokenizer_from,
                architecture=architecture_for(self.encoder, "ForTokenClassification"),
                head=prefixed("classifier", self.classifier) | between,
                config={**label_maps(labels), "classifier_dropout": self.dropout.p},
                manifest=manifest,
                card=card,
            )
        else:
            own |= prefixed("classifier", self.classifier)
            own |= {} if self.lstm is None else prefixed("lstm", self.lstm)
            save_encoder(folder, self.encoder, self.tokenizer_from, labels, manifest, card)
        save_head(folder, own)


class TransformersTagger(nn.Module):
    """Any encoder of the `transformers` library, padded, through its token classification class."""

    right: Tensor | None

    def __init__(self, model: Any, tokenizer: Any, chain: LinearChain | None = None) -> None:
        super().__init__()
        self.register_buffer("right", None, persistent=False)
        self.model, self.tokenizer, self.chain = model, tokenizer, chain
        self.positions = readable_positions(model)

    def logits(self, batch: Batch) -> Tensor:
        """See `Network`."""
        inputs, mask_NL = padded(batch, self.model, self.tokenizer)
        scores_NLK = run_padded(self.model, inputs).logits
        scores_KK: Tensor = scores_NLK[mask_NL][batch.picks_K]
        return scores_KK

    def loss(self, batch: Batch) -> Tensor:
        """As `EncoderTagger.loss`."""
        return tagging_loss(self.logits(batch).float(), batch, self.chain, self.right)

    def save(self, folder: Path, *, labels: Sequence[str], manifest: Manifest, card: str) -> None:
        """See `Network`."""
        save_transformers(folder, self.model, self.tokenizer, manifest, card)
        save_head(folder, {} if self.chain is None else prefixed("chain", self.chain))


AnyTagger = EncoderTagger | TransformersTagger


def tagging_loss(
    scores_KL: Tensor, batch: Batch, chain: LinearChain | None, right: Tensor | None = None
) -> Tensor:
    """Cross-entropy of words, or of whole sentences under a CRF; several labels may be `right` for a target."""
    if chain is not None:
        return chain.loss(scores_KL, batch.target, Layout.of_picks(batch))
    if right is None:
        return F.cross_entropy(scores_KL, batch.target, ignore_index=IGNORED)
    counted_K = batch.target != IGNORED
    right_KL = right[batch.target.clamp(min=0)]
    agreeing_K = scores_KL.masked_fill(~right_KL, -torch.inf).logsumexp(-1)
    losses_K = torch.where(counted_K, scores_KL.logsumexp(-1) - agreeing_K, 0)
    return losses_K.sum() / counted_K.sum()


def padded(batch: Batch, model: Any, tokenizer: Any) -> tuple[dict[str, Tensor], Tensor]:
    """What a model of `transformers` takes for a batch, and the mask [N, L] of its real tokens."""
    lengths_N = batch.cu_seqlens.diff().long()
    mask_NL = torch.arange(int(lengths_N.max()), device=lengths_N.device) < lengths_N[:, None]
    ids_NL = torch.full(mask_NL.shape, int(tokenizer.pad_token_id or 0), device=lengths_N.device)
    ids_NL[mask_NL] = batch.input_ids_T
    inputs = {"input_ids": ids_NL, "attention_mask": mask_NL.long()}
    takes = inspect.signature(model.forward).parameters
    if "token_type_ids" in tokenizer.model_input_names and "token_type_ids" in takes:
        types_NL = torch.zeros_like(ids_NL)
        types_NL[mask_NL] = batch.token_type_ids_T
        inputs["token_type_ids"] = types_NL
    return inputs, mask_NL


def run_padded(model: Any, inputs: dict[str, Tensor]) -> Any:
    """What a model of `transformers` gives for a padded batch, without cuDNN's attention.

    From 2.11 on torch prefers that on Hopper cards. Where there is a mask and the longest sequence has 64 tokens more
    than a multiple of 128, its gradients are NaN if all scores of a token are very low (pytorch/pytorch, issue 196678):
    so are those of padding far behind a short sequence, which sees no key in a layer with a window.
    """
    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]):
        return model(**inputs)


def new_tagger(folder: Path, labels: Sequence[str], dropout: float, head: str = "linear") -> AnyTagger:
    """A tagger with the encoder of a folder and a fresh head; draws from torch's global generator."""
    if is_fast(folder) or head == "bilstm":
        tagger = EncoderTagger(open_encoder(folder), len(labels), dropout, folder, head)
        start_feature_layer(tagger.head, folder)
        return tagger
    return _transformers_tagger(folder, labels, dropout, LinearChain(len(labels)) if head == "crf" else None)


def load_tagger(folder: Path) -> AnyTagger:
    """A tuned tagger, in evaluation mode.

    Raises:
        UsageError, BadInput: as `biosmith.models.load_encoder`; or the folder has no token classification head.
    """
    labels = read_labels(folder)
    head = read_head(folder)
    kind = next(
        (k for k, part in (("bilstm", "lstm."), ("crf", "chain.")) if any(part in n for n in head)), "linear"
    )
    chain = LinearChain(len(labels)) if kind == "crf" else None
    if not is_fast(folder) and kind != "bilstm":
        tagger: AnyTagger = _transformers_tagger(folder, None, 0.0, chain)
        fill(tagger.chain, head, "chain", folder)
        return require_finite(tagger, folder).eval()
    tagger = EncoderTagger(open_encoder(folder), len(labels), 0.0, folder, kind)
    tensors = head if kind == "bilstm" else read_tensors(folder)
    if not {"classifier.weight", "classifier.bias"} <= tensors.keys():
        raise BadInput(folder, "has no token classification head; is it a tuned tagger?")
    fill(tagger.classifier, tensors, "classifier", folder)
    fill(tagger.head, tensors, "head", folder)
    fill(tagger.lstm, head, "lstm", folder)
    fill(tagger.chain, head, "chain", folder)
    return require_finite(tagger, folder).eval()


def _transformers_tagger(
    folder: Path, labels: Sequence[str] | None, dropout: float, chain: LinearChain | None
) -> TransformersTagger:
    from transformers import AutoModelForTokenClassification

    options = {} if labels is None else label_options(labels)
    head: Literal["new", "tuned"] = "tuned" if labels is None else "new"
    model, tokenizer = open_transformers(
        AutoModelForTokenClassification, folder, "for token classification", head, **options
    )
    set_dropout(model, dropout)
    return TransformersTagger(model, tokenizer, chain)
