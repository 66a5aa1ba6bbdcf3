"""What decides the training of a latent-variable model, as frozen dataclasses."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from biosmith.errors import UsageError
from biosmith.models.vae import VaeConfig
from biosmith.pretraining import overrides
from biosmith.pretraining.config import AdamW, CorpusFilter, Linear, Profile, Schedule, require_range


@dataclass(frozen=True)
class EvidenceLowerBound:
    """reconstruction + beta * KL, summed over the tokens and dimensions of a sentence, the mean over sentences.

    Beta follows a cyclic schedule (Fu et al., 2019): each of `cycles` equal parts of the run begins with `ratio_zero` of
    itself at 0, rises linearly for `ratio_increase`, and stays at `beta` for the rest. After the last step the value is that
    of the last step: `beta`. While beta is 0 there are no free bits.

    Free bits (Kingma et al., 2016; Li et al., 2019) by dimension and sentence: "threshold" leaves out the KL of dimensions
    at or below `free_bits` (OPTIMUS), "floor" counts max(KL, free_bits); their gradients are the same.
    """

    kind: Literal["evidence_lower_bound"] = "evidence_lower_bound"
    beta: float = 0.5  # at its highest, from 0 (an autoencoder) to 1 (the bound itself)
    schedule: Literal["cyclic", "constant"] = "cyclic"
    cycles: int = 10
    ratio_zero: float = 0.5
    ratio_increase: float = 0.25
    free_bits: float = 1.0  # nats a dimension
    free_bits_form: Literal["threshold", "floor"] = "threshold"

    def __post_init__(self) -> None:
        require_range("objective.", self, "beta", 0, 1)
        require_range("objective.", self, "free_bits", 0)
        require_range("objective.", self, "cycles", 1)
        if min(self.ratio_zero, self.ratio_increase) < 0 or self.ratio_zero + self.ratio_increase > 1:
            raise UsageError(
                "objective.ratio_zero and objective.ratio_increase are shares of a cycle and at most 1 together, not "
                f"{self.ratio_zero} and {self.ratio_increase}"
            )

    def beta_at(self, step: int, steps: int) -> float:
        """Beta of the update that follows `step` finished ones, in a run of `steps`."""
        if self.schedule == "constant" or step >= steps:
            return self.beta
        period = steps / self.cycles
        # Not `step % period`: a rounding error would put the first step of a cycle at the end of the one before.
        done = (step - int(step / period) * period) / period
        if done < self.ratio_zero:
            return 0.0
        if done < self.ratio_zero + self.ratio_increase:
            return self.beta * (done - self.ratio_zero) / self.ratio_increase
        return self.beta


@dataclass(frozen=True)
class SentenceBatch:
    """How many sentences one update sees, and how they are laid out."""

    sentences: int = 2_048  # of an update, about: it is made of whole micro-batches
    length: int = 128  # longest sentence in either vocabulary, special tokens included
    micro_batch_tokens: int | None = None  # decoder tokens of a micro-batch; None lets the loop choose

    def __post_init__(self) -> None:
        require_range("batch.", self, "sentences length micro_batch_tokens", 1)

    @property
    def tokens(self) -> int:
        """Decoder tokens of an update if all sentences were of full length."""
        return self.sentences * self.length


@dataclass(frozen=True)
class SentenceEvaluation:
    """Scores of held-out sentences; all sentences of a held-out document are held out."""

    every: int = 1_000  # steps; 0 is only at the end
    documents: int = 1_000  # held out, at most a tenth
    sentences: int = 1_000  # scored at most
    samples: int = 1  # of the importance-weighted bound while training; OPTIMUS reports 100 at the end
    final_samples: int = 20

    def __post_init__(self) -> None:
        require_range("evaluation.", self, "every documents", 0)
        require_range("evaluation.", self, "sentences samples final_samples", 1)


@dataclass(frozen=True)
class VaeRecipe:
    """All that decides a run of a latent-variable model; `citations` say where each number stands."""

    name: str
    paper: str
    corpus: CorpusFilter = field(default_factory=CorpusFilter)
    model: VaeConfig = field(default_factory=VaeConfig)
    objective: EvidenceLowerBound = EvidenceLowerBound()
    optimizer: AdamW = field(
        default_factory=lambda: AdamW(
            learning_rate=5e-5, epsilon=1e-8, weight_decay=0.0, bias_correction=True
        )
    )
    schedule: Schedule = field(default_factory=lambda: Linear(warmup=0.0, mode="triangle"))
    batch: SentenceBatch = SentenceBatch()
    steps: int = 16_700
    seed: int = 42
    evaluation: SentenceEvaluation = SentenceEvaluation()
    checkpoint_every: int = 1_000
    keep_checkpoints: int = 2
    log_every: int = 50
    profile: Profile = "faithful"
    precision: Literal["auto", "float32", "mixed", "bfloat16"] = "auto"
    citations: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_range("", self, "steps log_every checkpoint_every", 1)
        require_range("", self, "keep_checkpoints", 0)
        for side, positions in (
            ("encoder", self.model.encoder.positions),
            ("decoder", self.model.decoder.positions - 1),
        ):
            if self.batch.length > positions:
                raise UsageError(
                    f"batch.length {self.batch.length} is longer than the {positions} positions of the {side}"
                )


SHORT_OVERRIDES = {
    "batch_sentences": "batch.sentences",
    "batch_tokens": "batch.micro_batch_tokens",
    "beta": "objective.beta",
    "free_bits": "objective.free_bits",
    "latent_size": "model.latent_size",
    "learning_rate": "optimizer.learning_rate",
    "length": "batch.length",
    "micro_batch_tokens": "batch.micro_batch_tokens",
    "warmup_steps": "schedule.warmup_steps",
}


def apply_vae_overrides(recipe: VaeRecipe, assignments: Sequence[str]) -> VaeRecipe:
    """A recipe with `key.path=value` assignments applied. Raises `UsageError` as `config.apply_overrides`."""
    return overrides.apply_overrides(recipe, assignments, SHORT_OVERRIDES)


def vae_recipe_from_plain(data: Mapping[str, Any], where: str = "config.json") -> VaeRecipe:
    """The recipe that `artefact.to_plain` wrote as JSON. Raises `UsageError` where a field does not fit."""
    return overrides.from_plain(VaeRecipe, data, where)


def without_dropout(recipe: VaeRecipe) -> VaeRecipe:
    """The recipe with dropout off in encoder and decoder."""
    return dataclasses.replace(recipe, model=recipe.model.without_dropout())
