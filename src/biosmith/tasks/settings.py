"""All that decides a fine-tuning run, as one frozen dataclass."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from biosmith.errors import UsageError

LEAST_LENGTH = 8  # pieces, special tokens included


@dataclass(frozen=True)
class TrainingSettings:
    """What every task's training has. The defaults suit the base-sized and smaller encoders of PubMedBERT's Table 5.

    Attributes:
        learning_rate: peak of the schedule.
        batch_size: sequences a step.
        epochs: passes over the training split.
        max_length: longest sequence in pieces, special tokens included; the model's own limit where that is lower.
        warmup: share of the steps in which the learning rate rises linearly; it falls linearly to 0 in the others.
        weight_decay: decoupled, on all parameters but biases and LayerNorm.
        clip: largest norm of the gradient; 0 for no limit.
        dropout: on the features that the head reads.
        keep: the weights after the "best" epoch on the development split, or after the "last".
        layer_decay: factor by which the learning rate falls from the head to the top layer, and from each layer to the
            one below it; the embeddings come last (Clark et al., 2020, ELECTRA; Tinn et al., 2023).
        frozen_layers: lowest layers that are not trained; the embeddings are frozen with them.
        reinitialised_layers: top layers that begin with fresh weights, and the pooler with them (Tinn et al., 2023).
        seed: decides the head's first weights, the order of the batches and dropout.
        device: "auto" is a CUDA device if there is one.
    """

    learning_rate: float = 5e-5
    batch_size: int = 16
    epochs: int = 5
    max_length: int = 512
    warmup: float = 0.1
    weight_decay: float = 0.01
    clip: float = 1.0
    dropout: float = 0.1
    keep: Literal["best", "last"] = "best"
    layer_decay: float = 1.0
    frozen_layers: int = 0
    reinitialised_layers: int = 0
    seed: int = 0
    device: str = "auto"

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, float) and not math.isfinite(value):
                raise UsageError(f"{name} must be a finite number, not {value}")
        for name in ("learning_rate", "batch_size", "epochs"):
            if getattr(self, name) <= 0:
                raise UsageError(f"{name} must be above 0, not {getattr(self, name)}")
        if self.max_length < LEAST_LENGTH:
            raise UsageError(f"max_length must be at least {LEAST_LENGTH}, not {self.max_length}")
        if not 0 <= self.warmup <= 1:
            raise UsageError(f"warmup is a share of the steps, in [0, 1], not {self.warmup}")
        if not 0 <= self.dropout < 1:
            raise UsageError(f"dropout must lie in [0, 1), not {self.dropout}")
        if not 0 < self.layer_decay <= 1:
            raise UsageError(f"layer_decay must lie in (0, 1], not {self.layer_decay}")
        for name in ("weight_decay", "clip", "frozen_layers", "reinitialised_layers"):
            if getattr(self, name) < 0:
                raise UsageError(f"{name} must not be negative, not {getattr(self, name)}")


@dataclass(frozen=True)
class TaggingSettings(TrainingSettings):
    """Fine-tuning of a tagger: the choices of PubMedBERT's Tables 4, 10 and 11.

    Attributes:
        scheme: how mentions are written as tags on words; BIOUL is IOBES under other letters.
        head: "linear" scores each word by itself, "bilstm" after a bidirectional LSTM over the words, "crf" adds a
            score for each step from one label to the next.
        labelled: which pieces of a word carry its label in training: its "first" one, or "all" of them. A word is
            always tagged by its first piece.
    """

    scheme: Literal["BIO", "IO", "IOBES", "BIOUL"] = "BIO"
    head: Literal["linear", "bilstm", "crf"] = "linear"
    labelled: Literal["first", "all"] = "first"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.head == "crf" and self.labelled == "all":
            raise UsageError("head=crf scores steps from word to word; it needs labelled=first")


@dataclass(frozen=True)
class SequenceSettings(TrainingSettings):
    """Fine-tuning on whole texts or pairs of texts: classes, numbers, yes or no.

    Attributes:
        features: what the classification layer reads: the "pooled" hidden state of [CLS] (BERT's pooler, which
            BertForSequenceClassification has), that of [CLS] itself, or the "mean" of all tokens.
        head: one "linear" layer, a multi-layer perceptron ("mlp": one hidden layer as wide as the features), or a
            "bilstm" over the tokens before the features are read (PubMedBERT, Tables 4 and 10).
        threshold: documents with several labels: least probability of a label that is given.
    """

    features: Literal["pooled", "cls", "mean"] = "pooled"
    head: Literal["linear", "mlp", "bilstm"] = "linear"
    threshold: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.threshold < 1:
            raise UsageError(f"threshold is a probability, in (0, 1), not {self.threshold}")


@dataclass(frozen=True)
class RelationSettings(TrainingSettings):
    """Fine-tuning on relations of two mentions: the choices of PubMedBERT's Tables 4, 10 and 12.

    Attributes:
        text: "dummies" in the place of the mentions (`@GENE$`), start and end "markers" around them, or the
            "original" text.
        features: the "pooled" hidden state of [CLS], that of "cls" itself, both "mentions" pooled and concatenated, or
            the opening markers of both ("starts").
        pooling: of a mention's pieces.
        head: as in `SequenceSettings`.
        dummy: what stands for a mention; {type} is its type, all else stands as it is.
        markers: opening and closing marker of the first and of the second mention.
        max_length: 256 for ChemProt and DDI, 128 for GAD in the paper (section 5.2).
    """

    max_length: int = 256
    text: Literal["dummies", "markers", "original"] = "dummies"
    features: Literal["pooled", "cls", "mentions", "starts"] = "pooled"
    pooling: Literal["max", "mean"] = "max"
    head: Literal["linear", "mlp", "bilstm"] = "linear"
    dummy: str = "@{type}$"
    markers: tuple[str, str, str, str] = ("<<", ">>", "[[", "]]")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.features == "starts" and self.text != "markers":
            raise UsageError(
                f"features=starts reads the opening markers; it needs text=markers, not {self.text}"
            )
        if not all(marker.strip() for marker in self.markers):
            raise UsageError(f"markers must not be empty, as one of {list(self.markers)} is")
        if "{type}" not in self.dummy:
            raise UsageError(f"dummy must hold {{type}}, as @{{type}}$ does, not {self.dummy!r}")


@dataclass(frozen=True)
class AnswerSettings(TrainingSettings):
    """Fine-tuning on answers that are spans of a text (SQuAD; BioASQ factoid).

    Attributes:
        stride: pieces that two windows over a long text share.
        answer_length: longest answer in pieces.
        candidates: starts and ends of a window that are tried.
        answers: how many answers are given, best first (BioASQ reads five).
        unanswerable: whether "no answer" is one of the answers; None: if the training questions have any (SQuAD 2.0).
        null_threshold: how much better "no answer" must score than the best span.
    """

    learning_rate: float = 3e-5
    epochs: int = 2
    max_length: int = 384
    stride: int = 128
    answer_length: int = 30
    candidates: int = 20
    answers: int = 5
    unanswerable: bool | None = None
    null_threshold: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("answer_length", "candidates", "answers"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.stride < 0:
            raise UsageError(f"stride must not be negative, not {self.stride}")
