"""Encoder -> Featurizer -> Predict for whole texts, pairs and relations (PubMedBERT, section 5.2 and Tables 4, 10, 12).

A batch has a fixed number of picks a sequence (`PICKS`), and one target a pick: the sequence's own at its first pick,
-100 at the others.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from biosmith.artefact import Manifest
from biosmith.errors import BadInput
from biosmith.models.checkpoint import read_tensors
from biosmith.models.encoder import Encoder, initialise
from biosmith.models.finite import require_finite
from biosmith.models.heads import FeatureLayer, Pooler
from biosmith.models.saving import architecture_for, save_model
from biosmith.tasks.batches import Batch
from biosmith.tasks.folders import (
    fill,
    is_fast,
    label_maps,
    label_options,
    open_transformers,
    prefixed,
    read_head,
    readable_positions,
    save_head,
    save_transformers,
    set_dropout,
)
from biosmith.tasks.layout import IGNORED, BiLSTM, Layout, segments
from biosmith.tasks.network import (
    AnyEncoder,
    TransformersEncoder,
    encoder_positions,
    encoder_width,
    hidden_states,
    linear_deviation,
    new_feature_layer,
    new_linear,
    open_encoder,
    padded,
    run_padded,
    save_encoder,
    start_feature_layer,
)

# Picks a sequence: [CLS]; first and last piece of both mentions; the openings of both.
PICKS = {"pooled": 1, "cls": 1, "mean": 1, "mentions": 4, "starts": 2}
LONGEST_MENTION = 64  # pieces of a mention that are pooled

Target = Literal["class", "classes", "number"]


@dataclass(frozen=True)
class Form:
    """What is read of the hidden states and what is made of it.

    Attributes:
        target: one "class" a text, any number of "classes", or a "number".
        features, pooling, head: see `RelationSettings` and `SequenceSettings`.
    """

    target: Target
    features: str = "pooled"
    pooling: str = "max"
    head: str = "linear"

    @property
    def is_standard(self) -> bool:
        """Whether it is what the sequence classification classes of `transformers` compute."""
        return self.features == "pooled" and self.head == "linear"


class SequenceNetwork(nn.Module):
    """An encoder, a featurizer and a classification layer.

    Attributes:
        scale, shift: what the scores of a regression are multiplied by and then added to, so that a fresh head learns
            numbers around 0 of spread 1; folded into the layer when it is saved.
    """

    scale: Tensor
    shift: Tensor

    def __init__(
        self, encoder: AnyEncoder, outputs: int, form: Form, dropout: float, tokenizer_from: Path
    ) -> None:
        super().__init__()
        self.encoder, self.form, self.tokenizer_from = encoder, form, tokenizer_from
        self.positions = encoder_positions(encoder)
        deviation = float(encoder.config.initializer_range)
        width = encoder_width(encoder)
        self.lstm = BiLSTM(width) if form.head == "bilstm" else None
        self.pooler = self._pooler(encoder, width, deviation, dropout)
        self.dropout = nn.Dropout(dropout)
        features = width * {"mentions": 2, "starts": 2}.get(form.features, 1)
        self.hidden = new_linear(features, features, deviation) if form.head == "mlp" else None
        above = self.pooler if isinstance(self.pooler, FeatureLayer) and self.hidden is None else None
        self.classifier = new_linear(features, outputs, linear_deviation(encoder, above))
        self.register_buffer("scale", torch.ones(()))
        self.register_buffer("shift", torch.zeros(()))

    def _pooler(self, encoder: AnyEncoder, width: int, deviation: float, dropout: float) -> nn.Module | None:
        """The encoder's pooler, a fresh one where it has none; none where it is not read."""
        is_read = self.form.features == "pooled" and self.lstm is None
        if (layer := new_feature_layer(encoder)) is not None:
            return layer if is_read else None
        if isinstance(encoder, Encoder) and not encoder.config.has_pooler:
            return FirstTokenLayer(width, deviation, dropout) if is_read else None
        if isinstance(encoder, Encoder):
            if not is_read:
                encoder.pooler = None
            elif encoder.pooler is None:
                encoder.pooler = Pooler(encoder.config)
                initialise(encoder.pooler, deviation)
            return None
        return nn.Sequential(new_linear(width, width, deviation), nn.Tanh()) if is_read else None

    def logits(self, batch: Batch) -> Tensor:
        """Scores [N, outputs] of the batch's sequences."""
        hidden_TD = hidden_states(self.encoder, batch)
        if self.lstm is not None:
            hidden_TD = self.lstm(hidden_TD, Layout.of_tokens(batch))
        features_ND = self.dropout(self._features(hidden_TD, batch))
        if self.hidden is not None:
            features_ND = self.dropout(F.gelu(self.hidden(features_ND)))
        scores: Tensor = self.classifier(features_ND)
        return scores * self.scale + self.shift if self.form.target == "number" else scores

    def _features(self, hidden_TD: Tensor, batch: Batch) -> Tensor:
        picks = PICKS[self.form.features]
        picks_NP = batch.picks_K[: len(batch.picks_K) // picks * picks].view(-1, picks)
        if self.form.features == "mentions":
            pooled = [
                pool_range(hidden_TD, picks_NP[:, i], picks_NP[:, i + 1], self.form.pooling) for i in (0, 2)
            ]
            return torch.cat(pooled, dim=-1)
        if self.form.features == "starts":
            return hidden_TD[picks_NP].flatten(1)
        if self.form.features == "mean":
            return sequence_means(hidden_TD, picks_NP[:, 0], batch)
        if isinstance(self.pooler, FeatureLayer) and _pools_means(self.encoder):
            means_ND: Tensor = self.pooler(sequence_means(hidden_TD, picks_NP[:, 0], batch))
            return means_ND
        first_ND = hidden_TD.index_select(0, picks_NP[:, 0])
        if self.lstm is not None:
            # The last state of each direction, which has read all of the text.
            last_N = batch.cu_seqlens[1:].long()[segments(picks_NP[:, 0], batch)] - 1
            ahead_ND = hidden_TD.index_select(0, last_N)
            half = hidden_TD.shape[1] // 2
            return torch.cat([ahead_ND[:, :half], first_ND[:, half:]], dim=-1)
        if self.form.features == "cls":
            return first_ND
        pooler = self.pooler
        if pooler is None and isinstance(self.encoder, Encoder):
            pooler = self.encoder.pooler
        assert pooler is not None
        pooled_ND: Tensor = pooler(first_ND)
        return pooled_ND

    def loss(self, batch: Batch) -> Tensor:
        """Cross-entropy, or the mean squared error of numbers in units of their spread (section 5.1)."""
        return sequence_loss(self.logits(batch).float(), batch, self.form, self.scale)

    def save(self, folder: Path, *, labels: Sequence[str], manifest: Manifest, card: str) -> None:
        """See `network.Network`: a folder of BertForSequenceClassification or its family's, or the encoder with the head beside it."""
        classifier = self._folded()
        if isinstance(self.encoder, Encoder) and self.form.is_standard:
            save_model(
                folder,
                self.encoder,
                tokenizer_from=self.tokenizer_from,
                architecture=architecture_for(self.encoder, "ForSequenceClassification"),
                head=self._standard_head(classifier),
                config={
                    **label_maps(labels),
                    "problem_type": PROBLEMS[self.form.target],
                    "classifier_dropout": self.dropout.p,
                },
                manifest=manifest,
                card=card,
            )
            return
        save_encoder(folder, self.encoder, self.tokenizer_from, labels, manifest, card)
        own = prefixed("classifier", classifier)
        for name in ("lstm", "pooler", "hidden"):
            module = getattr(self, name)
            own |= {} if module is None else prefixed(name, module)
        save_head(folder, own)

    def _standard_head(self, classifier: nn.Linear) -> dict[str, Tensor]:
        """The head under the names that the family's class has for it."""
        if self.pooler is None:
            return prefixed("classifier", classifier)
        if isinstance(self.pooler, FeatureLayer):
            return prefixed("head", self.pooler) | prefixed("classifier", classifier)
        return prefixed("classifier", self.pooler) | prefixed("classifier.out_proj", classifier)

    def _folded(self) -> nn.Linear:
        if self.form.target != "number":
            return self.classifier
        folded = nn.Linear(self.classifier.in_features, self.classifier.out_features)
        with torch.no_grad():
            folded.weight.copy_(self.classifier.weight * self.scale)
            folded.bias.copy_(self.classifier.bias * self.scale + self.shift)
        return folded


def _pools_means(encoder: AnyEncoder) -> bool:
    """Whether ModernBERT's class reads the mean of all tokens where others read [CLS]; some folders ask for that."""
    origin = encoder.origin if isinstance(encoder, Encoder) else None
    return origin is not None and origin.config.get("classifier_pooling") == "mean"


class FirstTokenLayer(nn.Module):
    """What ELECTRA's class has before its last layer, for want of a pooler: a dense layer and GELU over [CLS]."""

    def __init__(self, width: int, deviation: float, dropout: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.dense = new_linear(width, width, deviation)

    def forward(self, first_ND: Tensor) -> Tensor:
        """[N, D] -> [N, D]."""
        return F.gelu(self.dense(self.dropout(first_ND)))


PROBLEMS = {
    "class": "single_label_classification",
    "classes": "multi_label_classification",
    "number": "regression",
}


class TransformersSequences(nn.Module):
    """Any model of the `transformers` library, padded, through its sequence classification class and that one's head."""

    def __init__(self, model: Any, tokenizer: Any, form: Form) -> None:
        super().__init__()
        self.model, self.tokenizer, self.form = model, tokenizer, form
        self.positions = readable_positions(model)

    def logits(self, batch: Batch) -> Tensor:
        """Scores [N, outputs] of the batch's sequences."""
        scores_NC: Tensor = run_padded(self.model, padded(batch, self.model, self.tokenizer)[0]).logits
        return scores_NC

    def loss(self, batch: Batch) -> Tensor:
        """As `SequenceNetwork.loss`."""
        return sequence_loss(self.logits(batch).float(), batch, self.form, torch.ones(()))

    def save(self, folder: Path, *, labels: Sequence[str], manifest: Manifest, card: str) -> None:
        """See `network.Network`."""
        save_transformers(folder, self.model, self.tokenizer, manifest, card)


AnySequences = SequenceNetwork | TransformersSequences


def sequence_loss(scores_NC: Tensor, batch: Batch, form: Form, scale: Tensor) -> Tensor:
    """Loss of the rows whose target is not -100."""
    picks = PICKS[form.features]
    rows = len(batch.target) // picks
    target = batch.target[: rows * picks].unflatten(0, (rows, picks))[:, 0]
    scores_NC = scores_NC[:rows]
    if form.target == "class":
        return F.cross_entropy(scores_NC, target, ignore_index=IGNORED)
    if form.target == "number":
        there_N = target != IGNORED
        error_N = ((scores_NC[:, 0] - target) / scale.to(scores_NC.device)) ** 2
        return (error_N * there_N).sum() / there_N.sum().clamp(min=1)
    there_NC = target != IGNORED
    each_NC = F.binary_cross_entropy_with_logits(
        scores_NC, target.clamp(min=0).to(scores_NC.dtype), reduction="none"
    )
    return (each_NC * there_NC).sum() / there_NC.sum().clamp(min=1)


def pool_range(hidden_TD: Tensor, first_N: Tensor, last_N: Tensor, pooling: str) -> Tensor:
    """Maximum or mean [N, D] of the hidden states from one place to another, both included."""
    place_M = torch.arange(LONGEST_MENTION, device=hidden_TD.device)
    index_NM = torch.minimum(first_N[:, None] + place_M, last_N[:, None])
    states_NMD = hidden_TD[index_NM]
    if pooling == "max":
        # The last piece comes again and again, which changes no maximum.
        return states_NMD.amax(1)
    inside_NM = (place_M <= (last_N - first_N)[:, None]).to(hidden_TD.dtype)
    return (states_NMD * inside_NM[..., None]).sum(1) / inside_NM.sum(1, keepdim=True).clamp(min=1)


def sequence_means(hidden_TD: Tensor, picks_N: Tensor, batch: Batch) -> Tensor:
    """Mean [N, D] of all hidden states of the sequences that the picks lie in."""
    places_T = torch.arange(len(hidden_TD), device=hidden_TD.device)
    segment_T = segments(places_T, batch)
    sums = torch.zeros(len(batch.cu_seqlens) - 1, hidden_TD.shape[1], device=hidden_TD.device)
    sums = sums.index_add(0, segment_T, hidden_TD.float())
    means = sums / batch.cu_seqlens.diff()[:, None].clamp(min=1)
    return means.index_select(0, segments(picks_N, batch)).to(hidden_TD.dtype)


def new_sequence_network(folder: Path, labels: Sequence[str], form: Form, dropout: float) -> AnySequences:
    """A network with the encoder of a folder and a fresh head; draws from torch's global generator."""

    if is_fast(folder) or not form.is_standard:
        network = SequenceNetwork(open_encoder(folder), len(labels), form, dropout, folder)
        if isinstance(network.pooler, FeatureLayer):
            start_feature_layer(network.pooler, folder)
        return network
    from transformers import AutoModelForSequenceClassification

    options = {**label_options(labels), "problem_type": PROBLEMS[form.target]}
    model, tokenizer = open_transformers(
        AutoModelForSequenceClassification, folder, "for sequence classification", "new", **options
    )
    set_dropout(model, dropout)
    return TransformersSequences(model, tokenizer, form)


def load_sequence_network(folder: Path, labels: Sequence[str], form: Form) -> AnySequences:
    """A tuned network, in evaluation mode.

    Raises:
        UsageError, BadInput: the folder is missing or damaged, or has no such head.
    """

    if not is_fast(folder) and form.is_standard:
        from transformers import AutoModelForSequenceClassification

        model, tokenizer = open_transformers(
            AutoModelForSequenceClassification, folder, "for sequence classification", "tuned"
        )
        return require_finite(TransformersSequences(model, tokenizer, form), folder).eval()
    encoder = open_encoder(folder)
    has_pooler = isinstance(encoder, Encoder) and encoder.config.has_pooler
    if form.is_standard and has_pooler and encoder.pooler is None:
        raise BadInput(folder, "has no pooler; is it a tuned sequence classifier?")
    network = SequenceNetwork(encoder, len(labels), form, 0.0, folder)
    standard = form.is_standard and not isinstance(encoder, TransformersEncoder)
    tensors = read_tensors(folder) if standard else read_head(folder)
    if standard and not has_pooler:
        # The class of a family without a pooler calls the layers of its head so (ELECTRA; ModernBERT).
        names = {
            "classifier.dense.": "pooler.dense.",
            "classifier.out_proj.": "classifier.",
            "head.": "pooler.",
        }
        tensors = {
            next(
                (ours + n.removeprefix(theirs) for theirs, ours in names.items() if n.startswith(theirs)), n
            ): t
            for n, t in tensors.items()
        }
    if "classifier.weight" not in tensors:
        raise BadInput(folder, "has no classification head; is it a tuned model?", value="classifier.weight")
    for name in ("classifier", "lstm", "pooler", "hidden"):
        fill(getattr(network, name), tensors, name, folder)
    return require_finite(network, folder).eval()


def with_spread(network: AnySequences, values: Sequence[float]) -> None:
    """Let a fresh regression head begin at the mean of the training values, in steps of their spread."""
    if not isinstance(network, SequenceNetwork) or not values:
        return
    numbers = torch.tensor(values, dtype=torch.float64)
    spread = float(numbers.std(correction=0))
    network.scale.fill_(spread if spread > 0 else 1.0)
    network.shift.fill_(float(numbers.mean()))


def form_of(settings: Any, target: Target) -> Form:
    """The form that the settings of a task ask for."""
    known = {field.name for field in dataclasses.fields(Form)} - {"target"}
    return Form(target, **{name: getattr(settings, name) for name in known if hasattr(settings, name)})
