"""What decides a pretraining run, as frozen dataclasses: a recipe is one `Recipe`, saved as JSON beside the result.

Each objective, optimizer and schedule carries its `kind`, so that a saved recipe can be read back.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from biosmith.errors import UsageError
from biosmith.models.bert import BertConfig
from biosmith.models.electra import ElectraConfig
from biosmith.models.families import ModelConfig
from biosmith.pretraining import overrides


def require_range(
    owner: str, config: object, names: str, low: float, high: float = math.inf, *, open: bool = False
) -> None:
    """Raise `UsageError` unless fields of a configuration (names with spaces between) lie in [low, high], or between the
    two where the range is `open`; a field that is None is left alone."""
    for name in names.split():
        value = getattr(config, name)
        if value is None or (low < value < high if open else low <= value <= high):
            continue
        wanted = f"at least {low:g}" if high == math.inf else f"in [{low:g}, {high:g}]"
        if open:
            wanted = f"above {low:g}" + ("" if high == math.inf else f" and below {high:g}")
        raise UsageError(f"{owner}{name} must be {wanted}, not {value}")


@dataclass(frozen=True)
class CorpusFilter:
    """What the paper trained on; `corpus build` applies it, `pretrain` compares it with the corpus at hand."""

    sources: tuple[str, ...] = ()  # in words: "PubMed abstracts", "PMC full texts", ...
    min_words: int = 0


@dataclass(frozen=True)
class Vocabulary:
    """The vocabulary that the paper used."""

    kind: Literal["wordpiece", "sentencepiece", "bpe"] = "wordpiece"
    size: int = 30_522
    cased: bool = False


@dataclass(frozen=True)
class MaskedLanguageModel:
    """Predict hidden tokens (Devlin et al., 2019). `unit` is what is hidden together.

    The rate can change over the run: from `rate` to `final_rate`, in `rate_stages` equal stages or, without them, a
    little every step. PubMedBERT's section 2.3 describes 5 % to 25 % in five stages; the rate may fall as well.
    """

    kind: Literal["masked_language_model"] = "masked_language_model"
    rate: float = 0.15  # share of the tokens that are hidden
    final_rate: float | None = None
    rate_stages: int | None = None
    unit: Literal["token", "word", "ngram"] = "word"
    longest_ngram: int = 3  # whole words; lengths have probabilities in proportion to 1 / n (ALBERT)
    replace: tuple[float, float, float] = (0.8, 0.1, 0.1)  # [MASK], random token, kept
    replace_per: Literal["token", "unit"] = "token"  # the original code draws for each token of a word
    draw: Literal["systematic", "with_replacement"] = "systematic"  # the latter as ELECTRA's code
    copies: int | None = None  # so many fixed maskings of the corpus, in turn; None masks every epoch anew
    weight: float = 1.0

    def __post_init__(self) -> None:
        require_range("mask ", self, "rate final_rate", 0, 1, open=True)
        require_range("masked_language_model.", self, "rate_stages copies longest_ngram", 1)

    def rate_at(self, step: int, steps: int) -> float:
        """Mask rate of the update that follows `step` finished ones, in a run of `steps`."""
        if self.final_rate is None:
            return self.rate
        done = step / max(1, steps - 1)
        if self.rate_stages is not None:
            stage = min(step * self.rate_stages // steps, self.rate_stages - 1)
            done = stage / max(1, self.rate_stages - 1)
        return self.rate + done * (self.final_rate - self.rate)

    @property
    def highest_rate(self) -> float:
        """The highest rate of the run."""
        return max(self.rate, self.rate if self.final_rate is None else self.final_rate)


@dataclass(frozen=True)
class NextSentencePrediction:
    """Did the second segment follow the first? (Devlin et al., 2019; label 0 = it did.)"""

    kind: Literal["next_sentence_prediction"] = "next_sentence_prediction"
    random_probability: float = 0.5  # how often the second segment comes from another document
    weight: float = 1.0

    def __post_init__(self) -> None:
        require_range("next_sentence_prediction.", self, "random_probability", 0, 1)


@dataclass(frozen=True)
class SentenceOrderPrediction:
    """Do the two segments stand in the order of the text? (Lan et al., 2020, ALBERT, section 3.1; label 0 = they do,
    1 = they were exchanged.) The same head as for next-sentence prediction learns it."""

    kind: Literal["sentence_order_prediction"] = "sentence_order_prediction"
    swap_probability: float = 0.5
    weight: float = 1.0


PAIR_OBJECTIVES = ("next_sentence_prediction", "sentence_order_prediction")


@dataclass(frozen=True)
class ReplacedTokenDetection:
    """Tell which tokens a small generator has filled in (Clark et al., 2020, ELECTRA). The generator learns by the
    masked language model that stands beside it; the model of the recipe is the discriminator."""

    kind: Literal["replaced_token_detection"] = "replaced_token_detection"
    generator_width: float = 0.25  # share of the discriminator's width, rounded to whole numbers
    generator_layers: float = 1.0  # share of its layers
    temperature: float = 1.0  # of the generator's samples
    weight: float = 50.0


Profile = Literal["faithful", "fast"]


@dataclass(frozen=True)
class AdversarialMaskedLanguageModel:
    """Keep predictions when the word embeddings are moved a little in the worst direction (Liu et al., 2020, ALUM;
    PubMedBERT section 2.4 and Table 9). Beside the masked language model, whose hidden tokens it uses; each step costs
    about three plain ones while it is on."""

    kind: Literal["adversarial_masked_language_model"] = "adversarial_masked_language_model"
    weight: float = 10.0  # ALUM's alpha in pretraining
    start: float = 0.5  # share of the steps after which it is on: ALUM begins with standard training
    ascents: int = 1  # steps towards the worst direction
    step_size: float = 1e-3  # of each
    radius: float = 1e-5  # the largest change of an embedding's component
    deviation: float = 1e-5  # of the random start

    def is_on(self, step: int, steps: int) -> bool:
        """Whether the update that follows `step` finished ones uses it."""
        return step >= round(self.start * steps)


Objective = (
    MaskedLanguageModel
    | NextSentencePrediction
    | SentenceOrderPrediction
    | AdversarialMaskedLanguageModel
    | ReplacedTokenDetection
)


@dataclass(frozen=True)
class AdamW:
    """Adam with decoupled weight decay; biases and LayerNorm are not decayed."""

    kind: Literal["adamw"] = "adamw"
    learning_rate: float = 1e-4
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-6
    weight_decay: float = 0.01
    bias_correction: bool = False  # the original BERT code has none
    clip_norm: float = 1.0  # global gradient norm; 0 is off

    def __post_init__(self) -> None:
        _check_optimizer(self)


@dataclass(frozen=True)
class Lamb:
    """LAMB (You et al., 2020): Adam whose step is scaled, for each matrix, by its norm; for very large batches.

    As in google-research/albert, biases and LayerNorm are neither decayed nor scaled, and there is no bias correction.
    """

    kind: Literal["lamb"] = "lamb"
    learning_rate: float = 1.76e-3
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-6
    weight_decay: float = 0.01
    bias_correction: bool = False
    clip_norm: float = 1.0

    def __post_init__(self) -> None:
        _check_optimizer(self)


@dataclass(frozen=True)
class Muon:
    """Muon (Jordan et al., 2024) for the matrices of the layers, AdamW for embeddings, heads, biases and LayerNorm.

    Both take the same learning rate: Muon's step is scaled to the size of AdamW's (Liu et al., 2025, Moonlight).
    """

    kind: Literal["muon"] = "muon"
    learning_rate: float = 1e-3
    momentum: float = 0.95
    betas: tuple[float, float] = (0.9, 0.95)  # of AdamW
    epsilon: float = 1e-8  # of AdamW
    weight_decay: float = 0.1
    clip_norm: float = 1.0

    def __post_init__(self) -> None:
        _check_optimizer(self)


def _check_optimizer(optimizer: AdamW | Lamb | Muon) -> None:
    require_range("optimizer.", optimizer, "learning_rate", 0, open=True)
    require_range("optimizer.", optimizer, "epsilon weight_decay clip_norm", 0)
    if not all(0 <= beta < 1 for beta in optimizer.betas):
        raise UsageError(f"optimizer.betas must be at least 0 and below 1, not {optimizer.betas}")


class _WarmUp:
    """What all schedules begin with: a linear warm-up over `warmup` of all steps, so that it follows when `steps` is
    changed, or over `warmup_steps`."""

    warmup: float
    warmup_steps: int | None

    def __post_init__(self) -> None:
        require_range("schedule.", self, "warmup final", 0, 1)
        require_range("schedule.", self, "warmup_steps", 0)

    def warm_up_length(self, steps: int) -> int:
        """Steps of warm-up in a run of `steps` steps."""
        return round(self.warmup * steps) if self.warmup_steps is None else self.warmup_steps


@dataclass(frozen=True)
class Linear(_WarmUp):
    """Linear warm-up, then linear decay to `final` times the peak.

    With s of S steps done and a warm-up of W, the rate after the warm-up is peak * (1 - s / S) in the modes "replaces"
    and "multiplies", and peak * (S - s) / (S - W) in "triangle". During the warm-up it is peak * s / W, but in
    "multiplies" that times (1 - s / S). So "replaces" (the original BERT code) jumps down by W / S when the warm-up
    ends, "multiplies" (ELECTRA) never reaches the peak, and "triangle" (slanted triangular) does both right.
    """

    kind: Literal["linear"] = "linear"
    warmup: float = 0.01  # share of all steps, so that it follows when `steps` is changed
    warmup_steps: int | None = None  # a number of steps instead of the share
    mode: Literal["replaces", "multiplies", "triangle"] = "replaces"
    final: float = 0.0


@dataclass(frozen=True)
class Polynomial(_WarmUp):
    """Linear warm-up to the peak, then (1 - done) ** `power` of it, down to `final` times the peak."""

    kind: Literal["polynomial"] = "polynomial"
    power: float = 0.5
    warmup: float = 0.1
    warmup_steps: int | None = None
    final: float = 0.0


@dataclass(frozen=True)
class WarmupStableDecay(_WarmUp):
    """Linear warm-up, the peak for most of the run, then a short decay to `final` times the peak.

    A run can be lengthened without having wasted its decay (Hu et al., 2024, MiniCPM). `shape` of the decay: "linear",
    or "sqrt": 1 - sqrt(done) (Haegele et al., 2024).
    """

    kind: Literal["warmup_stable_decay"] = "warmup_stable_decay"
    warmup: float = 0.02
    warmup_steps: int | None = None
    decay: float = 0.2  # share of all steps
    shape: Literal["linear", "sqrt"] = "sqrt"
    final: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_range("schedule.", self, "decay", 0, 1)


Optimizer = AdamW | Lamb | Muon
Schedule = Linear | Polynomial | WarmupStableDecay


@dataclass(frozen=True)
class LengthPhase:
    """Sequences of at most `length` tokens until `until` (a share of all steps).

    A step has as many tokens as later, or as many sequences, and so fewer tokens (Devlin et al., 2019: 256 always).
    """

    until: float
    length: int
    keep: Literal["tokens", "sequences"] = "tokens"
    # How often an epoch of this phase goes over each token store; 0 leaves one out, for a corpus that comes later.
    # Without any, the batch's weights hold here too.
    weights: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        require_range("batch.phases: ", self, "until", 0, 1)

    def tokens(self, batch: Batch) -> int:
        """Tokens of a step in this phase."""
        return batch.tokens if self.keep == "tokens" else batch.tokens * self.length // batch.length


@dataclass(frozen=True)
class Batch:
    """How many tokens one optimizer step sees, and in which sequences."""

    tokens: int = 256 * 512  # of all sequences of a step, special tokens included
    length: int = 512  # longest sequence, special tokens included
    phases: tuple[LengthPhase, ...] = ()  # shorter sequences first; after the last phase `length` holds
    micro_batch_tokens: int | None = (
        None  # tokens in one forward pass on one device; None lets the loop choose
    )
    pack: Literal["documents", "sentences", "stream"] = "documents"  # what a sequence is filled from
    weights: tuple[float, ...] = ()  # how often an epoch goes over each token store, where there are several
    short_sequence_probability: float = 0.1  # how often a sequence aims at a random shorter length
    # How often a sequence longer than half of `length` is two segments of running text, although no objective asks
    # about pairs (ELECTRA's code: 0.9).
    second_segment_probability: float = 0.0

    def __post_init__(self) -> None:
        require_range("batch.", self, "tokens length micro_batch_tokens", 1)
        require_range("batch.", self, "short_sequence_probability second_segment_probability", 0, 1)
        ends = [phase.until for phase in self.phases]
        if ends != sorted(ends):
            raise UsageError(f"batch.phases must end one after the other, not at {ends}")

    @property
    def sequences(self) -> int:
        """Sequences of full length that make one step."""
        return max(1, self.tokens // self.length)


@dataclass(frozen=True)
class Evaluation:
    """Held-out loss, always at 15 % masked words whatever the training rate."""

    every: int = 1_000  # steps; 0 is only at the end
    documents: int = 1_000  # held out of training, at most a tenth of the corpus
    mask_rate: float = 0.15

    def __post_init__(self) -> None:
        require_range("evaluation.", self, "every documents", 0)
        require_range("evaluation.", self, "mask_rate", 0, 1, open=True)


@dataclass(frozen=True)
class Recipe:
    """All that decides a pretraining run.

    `profile` is "faithful" (the paper's own arithmetic: dropout, optimizer, schedule) or "fast" (what is known to be
    better today). `citations` says where in the paper each number stands.
    """

    name: str
    paper: str
    corpus: CorpusFilter = CorpusFilter()
    vocabulary: Vocabulary = Vocabulary()
    model: ModelConfig = field(default_factory=BertConfig)
    objectives: tuple[Objective, ...] = (MaskedLanguageModel(), NextSentencePrediction())
    optimizer: Optimizer = AdamW()
    schedule: Schedule = Linear()
    batch: Batch = Batch()
    steps: int = 1_000_000
    seed: int = 12_345
    evaluation: Evaluation = Evaluation()
    checkpoint_every: int = 10_000  # steps
    keep_checkpoints: int = 2  # newest ones kept; 0 keeps all
    log_every: int = 100  # steps
    profile: Profile = "faithful"
    # "mixed": matrix products in bfloat16, the rest in float32 (autocast); "bfloat16": all of the model; "auto":
    # float32 on a CPU, else mixed in the faithful profile and bfloat16 in the fast one. Weights are float32 always.
    precision: Literal["auto", "float32", "mixed", "bfloat16"] = "auto"
    # What position embeddings start from in a run that begins from nothing: "random" as all other weights, or the curves of
    # `sinusoidal_positions`, which tell a fresh model from the start how far apart two tokens are.
    initial_positions: Literal["random", "sinusoidal"] = "random"
    citations: Mapping[str, str] = field(default_factory=dict)  # field path -> place in the paper, or reason

    def __post_init__(self) -> None:
        require_range("", self, "steps log_every checkpoint_every", 1)
        require_range("", self, "keep_checkpoints", 0)
        longest = max([self.batch.length, *(phase.length for phase in self.batch.phases)])
        if longest > self.model.positions:
            raise UsageError(
                f"batch.length {longest} is longer than the model's {self.model.positions} positions"
            )
        if self.initial_positions == "sinusoidal" and self.model.kind == "modernbert":
            raise UsageError("initial_positions sinusoidal: a modernbert model has no position embeddings")
        if len([o for o in self.objectives if o.kind in PAIR_OBJECTIVES]) > 1:
            raise UsageError(f"only one of {' and '.join(PAIR_OBJECTIVES)} can be an objective")
        detection = self.objective("replaced_token_detection")
        if detection is not None:
            if not isinstance(self.model, ElectraConfig):
                raise UsageError(f"replaced_token_detection needs an electra model, not {self.model.kind}")
            beside = [
                o.kind for o in self.objectives if o.kind not in (detection.kind, "masked_language_model")
            ]
            if beside or self.objective("masked_language_model") is None:
                raise UsageError(
                    "replaced_token_detection stands beside masked_language_model, which its generator learns by, and "
                    f"nothing else; the recipe has {', '.join(o.kind for o in self.objectives)}"
                )
            if detection.temperature <= 0:
                raise UsageError(f"the temperature of samples must be above 0, not {detection.temperature}")
        if self.objective("masked_language_model") is None:
            raise UsageError(f"recipe {self.name} has no masked_language_model objective")
        has_pairs = self.pair_objective is not None or self.batch.second_segment_probability > 0
        token_types = getattr(self.model, "token_types", 2)  # some models have none, and ignore segments
        if has_pairs and token_types < 2:
            raise UsageError(
                f"two segments need 2 token types, the model has {token_types}; pretrain it without an "
                "objective over pairs of segments and with batch.second_segment_probability=0"
            )

    def with_vocabulary(self, size: int, pad_id: int = 0) -> Recipe:
        """The same recipe for another vocabulary; the word embedding follows its size."""
        return dataclasses.replace(
            self,
            vocabulary=dataclasses.replace(self.vocabulary, size=size),
            model=dataclasses.replace(self.model, vocabulary_size=size, pad_id=pad_id),
        )

    def objective(self, kind: str) -> Any:
        """The objective of that kind, or None."""
        return next((o for o in self.objectives if o.kind == kind), None)

    @property
    def generator(self) -> ElectraConfig | None:
        """The generator's configuration, where there is one."""
        detection = self.objective("replaced_token_detection")
        if detection is None or not isinstance(self.model, ElectraConfig):
            return None
        return self.model.generator(detection.generator_width, detection.generator_layers)

    @property
    def pair_objective(self) -> NextSentencePrediction | SentenceOrderPrediction | None:
        """The objective that needs pairs of segments, if there is one."""
        return next(
            (o for o in self.objectives if isinstance(o, NextSentencePrediction | SentenceOrderPrediction)),
            None,
        )

    def weight_of(self, kind: str) -> float:
        """Weight of the objective of that kind in the loss, 0 if there is none."""
        objective = self.objective(kind)
        return 0.0 if objective is None else float(objective.weight)


# Short names that every recipe takes beside its full paths.
SHORT_OVERRIDES = {
    "batch_tokens": "batch.tokens",
    "learning_rate": "optimizer.learning_rate",
    "length": "batch.length",
    "mask_rate": "objectives.masked_language_model.rate",
    "micro_batch_tokens": "batch.micro_batch_tokens",
    "warmup_steps": "schedule.warmup_steps",
}


def apply_overrides(recipe: Recipe, assignments: Sequence[str]) -> Recipe:
    """A recipe with `key.path=value` assignments applied, each value checked against its field's type.

    `steps=10`, `learning_rate=1e-4` and `batch.length=128` all work; an objective is reached by its kind
    (`objectives.masked_language_model.rate=0.3`) or its place (`objectives.0.rate=0.3`).

    Raises:
        UsageError: a key is unknown (the message lists the valid ones) or a value does not fit.
    """
    return overrides.apply_overrides(recipe, assignments, SHORT_OVERRIDES)


def recipe_from_plain(data: Mapping[str, Any], where: str = "config.json") -> Recipe:
    """The recipe that `artefact.to_plain` wrote as JSON.

    Raises:
        UsageError: a field is missing, unknown or of the wrong type; `where` names the file.
    """
    return overrides.from_plain(Recipe, data, where)
