"""All that decides a fine-tuning run, as one frozen dataclass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from biosmith.errors import UsageError


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
    seed: int = 0
    device: str = "auto"

    def __post_init__(self) -> None:
        for name in ("learning_rate", "batch_size", "epochs"):
            if getattr(self, name) <= 0:
                raise UsageError(f"{name} must be above 0, not {getattr(self, name)}")
        if self.max_length < 8:
            raise UsageError(f"max_length must be at least 8, not {self.max_length}")
        if not 0 <= self.warmup <= 1:
            raise UsageError(f"warmup is a share of the steps, in [0, 1], not {self.warmup}")
        if not 0 <= self.dropout < 1:
            raise UsageError(f"dropout must lie in [0, 1), not {self.dropout}")
        for name in ("weight_decay", "clip"):
            if getattr(self, name) < 0:
                raise UsageError(f"{name} must not be negative, not {getattr(self, name)}")


@dataclass(frozen=True)
class TaggingSettings(TrainingSettings):
    """Fine-tuning of a tagger.

    Attributes:
        scheme: how mentions are written as tags on words.
    """

    scheme: Literal["BIO", "IO", "IOBES", "BIOUL"] = "BIO"
