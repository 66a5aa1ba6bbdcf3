"""Encoder -> Featurizer -> Predict: what a task trains (PubMedBERT, section 5).

BERT-shaped folders run through the fast packed encoder; any other Hugging Face folder through its AutoModel class.
Both are saved as folders that `transformers` loads with equal logits.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from biosmith.artefact import Manifest, describe_files
from biosmith.errors import BadInput, UsageError
from biosmith.models.checkpoint import load_encoder, read_tensors
from biosmith.models.encoder import Encoder
from biosmith.models.saving import save_model
from biosmith.tasks.batches import Batch

FAST_TYPES = ("bert",)


class Network(Protocol):
    """A module that scores the picks of a batch."""

    positions: int

    def logits(self, batch: Batch) -> Tensor:
        """Scores [K, labels] of the batch's picks."""

    def save(self, folder: Path, *, labels: Sequence[str], manifest: Manifest, card: str) -> None:
        """Write a Hugging Face folder into an empty one."""


class EncoderTagger(nn.Module):
    """The packed encoder and a linear layer over the hidden states of the picks."""

    def __init__(self, encoder: Encoder, labels: int, dropout: float, tokenizer_from: Path) -> None:
        super().__init__()
        self.encoder = encoder
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(encoder.config.width, labels)
        nn.init.normal_(self.classifier.weight, std=encoder.config.initializer_range)
        nn.init.zeros_(self.classifier.bias)
        self.tokenizer_from = tokenizer_from
        self.positions = encoder.config.positions
        if encoder.pooler is not None:
            # Taggers have no use for it, and transformers saves none either.
            encoder.pooler = None

    def logits(self, batch: Batch) -> Tensor:
        """See `Network`."""
        hidden_TD = self.encoder.forward_packed(
            batch.input_ids_T, batch.position_ids_T, batch.token_type_ids_T, batch.cu_seqlens, batch.longest
        )
        # Only what the head reads is dropped out and scored.
        picked_KD = hidden_TD.index_select(0, batch.picks_K)
        scores: Tensor = self.classifier(self.dropout(picked_KD))
        return scores

    def save(self, folder: Path, *, labels: Sequence[str], manifest: Manifest, card: str) -> None:
        """See `Network`: a BertForTokenClassification folder."""
        save_model(
            folder,
            self.encoder,
            tokenizer_from=self.tokenizer_from,
            architecture="BertForTokenClassification",
            head={
                "classifier.weight": self.classifier.weight.detach().cpu(),
                "classifier.bias": self.classifier.bias.detach().cpu(),
            },
            config={**label_maps(labels), "classifier_dropout": self.dropout.p},
            manifest=manifest,
            card=card,
        )


class TransformersTagger(nn.Module):
    """Any encoder of the `transformers` library, padded, through its token classification class."""

    def __init__(self, model: Any, tokenizer: Any) -> None:
        super().__init__()
        self.model, self.tokenizer = model, tokenizer
        self.positions = readable_positions(model.config)

    def logits(self, batch: Batch) -> Tensor:
        """See `Network`."""
        lengths_N = batch.cu_seqlens.diff().long()
        mask_NL = torch.arange(batch.longest, device=lengths_N.device) < lengths_N[:, None]
        ids_NL = torch.full(mask_NL.shape, int(self.tokenizer.pad_token_id or 0), device=lengths_N.device)
        ids_NL[mask_NL] = batch.input_ids_T
        scores_NLK = self.model(input_ids=ids_NL, attention_mask=mask_NL.long()).logits
        return scores_NLK[mask_NL][batch.picks_K]

    def save(self, folder: Path, *, labels: Sequence[str], manifest: Manifest, card: str) -> None:
        """See `Network`."""
        self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)
        (folder / "README.md").write_text(card, encoding="utf-8")
        dataclasses.replace(manifest, files=describe_files(folder)).save(folder)


def label_maps(labels: Sequence[str]) -> dict[str, Any]:
    """The label map as Hugging Face's config.json holds it."""
    return {
        "id2label": {str(i): label for i, label in enumerate(labels)},
        "label2id": {label: i for i, label in enumerate(labels)},
    }


def read_labels(folder: Path) -> list[str]:
    """The labels of a tuned folder, in the order of its outputs.

    Raises:
        UsageError: no folder, or one without a label map.
    """
    config = read_json(folder / "config.json")
    labels = config.get("id2label")
    if not isinstance(labels, Mapping) or not labels:
        raise UsageError(f"{folder} has no label map in its config.json; it is not a tuned model")
    return [str(labels[key]) for key in sorted(labels, key=int)]


def read_json(file: Path) -> dict[str, Any]:
    """A JSON object of a model folder.

    Raises:
        UsageError: the file is not there.
        BadInput: it is not a JSON object.
    """
    if not file.is_file():
        what = f"has no {file.name}" if file.parent.is_dir() else "does not exist"
        raise UsageError(f"{file.parent} {what}; expected a Hugging Face model folder")
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise BadInput(file, f"is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise BadInput(file, "is not a JSON object")
    return value


def new_tagger(folder: Path, labels: Sequence[str], dropout: float) -> EncoderTagger | TransformersTagger:
    """A tagger with the encoder of a folder and a fresh head; draws from torch's global generator."""
    if is_fast(folder):
        encoder, _ = load_encoder(folder, dtype=torch.float32)
        return EncoderTagger(encoder, len(labels), dropout, folder)
    return _transformers_tagger(folder, labels, dropout)


def load_tagger(folder: Path) -> EncoderTagger | TransformersTagger:
    """A tuned tagger, in evaluation mode.

    Raises:
        UsageError, BadInput: as `biosmith.models.load_encoder`; or the folder has no token classification head.
    """
    labels = read_labels(folder)
    if not is_fast(folder):
        return _transformers_tagger(folder, None, 0.0).eval()
    encoder, _ = load_encoder(folder, dtype=torch.float32)
    tagger = EncoderTagger(encoder, len(labels), 0.0, folder)
    tensors = read_tensors(folder)
    missing = [n for n in ("classifier.weight", "classifier.bias") if n not in tensors]
    if missing:
        raise BadInput(
            folder, "has no token classification head; is it a tuned tagger?", value=", ".join(missing)
        )
    if tensors["classifier.weight"].shape != tagger.classifier.weight.shape:
        raise BadInput(
            folder,
            f"its head has shape {tuple(tensors['classifier.weight'].shape)}, "
            f"its label map {len(labels)} labels",
        )
    head = {name: tensors[f"classifier.{name}"].float() for name in ("weight", "bias")}
    tagger.classifier.load_state_dict(head)
    return tagger.eval()


def is_fast(folder: Path) -> bool:
    """Whether the fast encoder knows the shape of a folder's model."""
    config = read_json(folder / "config.json")
    # The first BERT folders of Hugging Face have no model_type.
    kind = config.get("model_type") or str(config.get("architectures") or [""]).lower()[2:6]
    return kind in FAST_TYPES


def _transformers_tagger(folder: Path, labels: Sequence[str] | None, dropout: float) -> TransformersTagger:
    from transformers import AutoModelForTokenClassification, AutoTokenizer

    options: dict[str, Any] = {}
    if labels is not None:
        maps = label_maps(labels)
        options = {
            "id2label": {int(k): v for k, v in maps["id2label"].items()},
            "label2id": maps["label2id"],
            "num_labels": len(labels),
        }
    try:
        model = AutoModelForTokenClassification.from_pretrained(
            folder, dtype=torch.float32, use_safetensors=True, **options
        )
        tokenizer = AutoTokenizer.from_pretrained(folder)
    except (OSError, ValueError, KeyError) as error:
        raise BadInput(folder, f"transformers cannot load it for token classification: {error}") from error
    # The families call the head's dropout by different names in their configurations, but not in their classes.
    for name in ("dropout", "drop"):
        if isinstance(getattr(model, name, None), nn.Dropout):
            getattr(model, name).p = dropout
    return TransformersTagger(model, tokenizer)


def readable_positions(config: Any) -> int:
    """How many tokens a `transformers` model reads; RoBERTa's tables begin behind the padding position."""
    positions = int(getattr(config, "max_position_embeddings", 0) or 512)
    if config.model_type in ("roberta", "xlm-roberta", "camembert", "longformer"):
        positions -= int(config.pad_token_id or 0) + 1
    return positions
