"""What a run takes, before it is begun: parameters, tokens, arithmetic, memory, time and cost."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import torch

from biosmith.errors import UsageError
from biosmith.models.albert import AlbertConfig
from biosmith.models.bert import count_parameters
from biosmith.models.electra import ElectraConfig, ElectraModel
from biosmith.models.families import ModelConfig
from biosmith.pretraining import layouts
from biosmith.pretraining.config import Lamb, LengthPhase, MaskedLanguageModel, Muon, Profile, Recipe
from biosmith.pretraining.layouts import Layout
from biosmith.pretraining.tensor_parallel import require_shareable_layers

GIB = 2**30


@dataclass(frozen=True)
class Card:
    """An accelerator.

    Attributes:
        teraflops: dense bfloat16 (float16 for older cards) matrix products a second, 10 ** 12, from the data sheet.
        memory_gib: of one card.
        dollars_an_hour: a usual price for one card on demand in the cloud; only for orientation.
    """

    teraflops: float
    memory_gib: float
    dollars_an_hour: float


CARDS = {
    "h200": Card(989, 141, 3.6),
    "h100": Card(989, 80, 2.9),
    "a100": Card(312, 80, 1.8),
    "l40s": Card(362, 48, 1.3),
    "a10g": Card(70, 24, 1.0),
    "l4": Card(121, 24, 0.7),
    "v100": Card(125, 32, 1.0),
    "rtx4090": Card(165, 24, 0.5),
}
# Share of the data sheet's matrix products that a step reaches. "fast" was measured: at 384, 512 and 768 on an H100
# (benchmarks/results/pretraining_h100.json), at 1,024 with biomegatron-345m on an H200 and at 2,048 with biomegatron-1.2b on
# two (parallel_pretraining.json). All of "faithful" (dropout, autocast) are estimates.
UTILISATION = {
    "fast": {384: 0.28, 512: 0.34, 768: 0.40, 1024: 0.41, 2048: 0.48},
    "faithful": {384: 0.12, 512: 0.15, 768: 0.20, 1024: 0.26},
}
# BioM-Transformers, Table 1: the ratio C counts sequences in units of ELECTRA-base++'s 4M steps of 256.
ELECTRA_SEQUENCES = 4_000_000 * 256


@dataclass(frozen=True)
class Plan:
    """A run's needs; `hours` and `dollars` are of the whole run on all cards."""

    recipe: str
    profile: str
    parameters: int
    steps: int
    sequences: int
    tokens: int
    flops_per_token: int
    flops: float
    computational_ratio: float | None  # None for latent-variable models
    epochs: float | None
    memory_gib: float
    gpu: str
    gpus: int
    layout: str
    fits: bool
    tokens_per_second: int
    hours: float
    dollars: float


def plan(
    recipe: Recipe,
    gpu: str = "h100",
    gpus: int = 1,
    corpus_tokens: int | None = None,
    layout: Layout | None = None,
) -> Plan:
    """What a recipe takes on so many cards of a kind.

    Args:
        recipe: with its overrides.
        gpu: one of `CARDS`.
        gpus: how many.
        corpus_tokens: of the corpus; gives the number of epochs.
        layout: how the cards share the run, `gpus` of them; None is a whole model on each.

    Raises:
        UsageError: an unknown card or an impossible number, or layers that the cards cannot share.
    """
    gpu = gpu.lower()
    card, parameters = find_card(gpu, gpus, corpus_tokens), recipe_parameters(recipe)
    parts = phases(recipe)
    # As `preparing.phase_of` has it: each phase ends at a rounded step.
    counts = [round(until * recipe.steps) - round(since * recipe.steps) for since, until, _, _ in parts]
    tokens = sum(count * size for count, (_, _, _, size) in zip(counts, parts, strict=True))
    per_token = flops_per_token(recipe)
    layout = layout or Layout(gpus)
    require_shareable_layers(recipe, layout.tensor_parallel)
    speed = card.teraflops * 1e12 * utilisation(recipe) * gpus / per_token
    if layout == Layout(gpus) and recipe.model.kind != "megatron-bert":
        memory = memory_gib(recipe, card, gpus)
        speed *= layouts.share_of_linear(tokens / recipe.steps / speed, gpus)
    else:
        memory = layouts.memory_gib(recipe, parameters, layout)
        a_replica = tokens / recipe.steps / layout.replicas  # tokens of a step
        micro = min(layouts.micro_batch(recipe, layout), a_replica)
        in_a_step = a_replica / micro
        seconds = micro * layout.replicas / speed
        speed *= layouts.efficiency(recipe, parameters, layout, gpu, seconds, in_a_step)
    hours = tokens / speed / 3600
    sequences = sum(
        count * max(1, size // length) for count, (_, _, length, size) in zip(counts, parts, strict=True)
    )
    return Plan(
        recipe=recipe.name,
        profile=recipe.profile,
        parameters=parameters,
        steps=recipe.steps,
        sequences=sequences,
        tokens=tokens,
        flops_per_token=per_token,
        flops=float(tokens) * per_token,
        computational_ratio=round(sequences / ELECTRA_SEQUENCES, 3),
        epochs=None if corpus_tokens is None else round(tokens / corpus_tokens, 2),
        memory_gib=round(memory, 1),
        gpu=gpu,
        gpus=gpus,
        layout=str(layout),
        fits=memory <= card.memory_gib,
        tokens_per_second=round(speed),
        hours=round(hours, 2),
        dollars=round(hours * gpus * card.dollars_an_hour),
    )


def find_card(gpu: str, gpus: int, corpus_tokens: int | None) -> Card:
    """The card of that name. Raises `UsageError` where it is unknown, or a number is impossible."""
    if gpu not in CARDS:
        raise UsageError(f"--gpu {gpu!r} is unknown; valid: {', '.join(CARDS)}")
    if gpus < 1:
        raise UsageError(f"--gpus must be at least 1, not {gpus}")
    if corpus_tokens is not None and corpus_tokens < 1:
        raise UsageError(f"--tokens must be at least 1, not {corpus_tokens}")
    return CARDS[gpu]


def recipe_parameters(recipe: Recipe) -> int:
    """Parameters of the recipe's model with its heads: of the discriminator, where there is a generator beside it."""
    if recipe.generator is None:
        return count_parameters(recipe.model, next_sentence=recipe.pair_objective is not None)
    return sum(p.numel() for p in _electra(recipe).discriminator.parameters())


def trained_parameters(recipe: Recipe) -> int:
    """All parameters that a run trains, those of a generator included."""
    if recipe.generator is None:
        return recipe_parameters(recipe)
    return sum(p.numel() for p in _electra(recipe).parameters())


def _electra(recipe: Recipe) -> ElectraModel:
    """Both networks of a recipe, without memory for their parameters."""
    assert isinstance(recipe.model, ElectraConfig) and recipe.generator is not None
    with torch.device("meta"):
        return ElectraModel(recipe.model, recipe.generator)


def phases(recipe: Recipe) -> list[tuple[float, float, int, int]]:
    """(from, until, sequence length, tokens of a step) of each phase; from and until as shares of the steps."""
    batch = recipe.batch
    all_phases = [*batch.phases, LengthPhase(1.0, batch.length)]
    starts = [0.0, *(phase.until for phase in batch.phases)]
    return [
        (since, phase.until, phase.length, phase.tokens(batch))
        for since, phase in zip(starts, all_phases, strict=True)
    ]


def flops_per_token(recipe: Recipe) -> int:
    """Floating-point operations a token in training: 2 for each multiply-add, once forward and twice backward.

    Matrix products only: the layers' weights, attention over sequences of full length, and the head on the hidden
    tokens; of generator and discriminator, where there are two.
    """
    parts = [((until - since) * size, length) for since, until, length, size in phases(recipe)]
    length = sum(share * length for share, length in parts) / sum(share for share, _ in parts)
    rate = mean_rate(recipe.objective("masked_language_model"))
    if recipe.generator is None:
        return round(6 * (_layer_products(recipe.model, length) + rate * _head_products(recipe.model)))
    both = _layer_products(recipe.model, length) + _layer_products(recipe.generator, length)
    return round(6 * (both + rate * _head_products(recipe.generator) + recipe.model.width**2))


def mean_rate(objective: MaskedLanguageModel) -> float:
    """Mask rate in the mean over a run."""
    if objective.final_rate is None:
        return objective.rate
    steps = 1_000
    return sum(objective.rate_at(step, steps) for step in range(steps)) / steps


def _layer_products(model: ModelConfig, length: float) -> float:
    """Multiply-adds a token in one forward pass of the encoder."""
    gated = 2 if model.kind == "modernbert" else 1
    weights = model.layers * (4 * model.width**2 + (1 + gated) * model.width * model.feed_forward)
    projection = 0
    if isinstance(model, ElectraConfig | AlbertConfig) and model.embedding_width != model.width:
        projection = model.embedding_width * model.width
    return weights + projection + model.layers * 2 * length * model.width


def _head_products(model: ModelConfig) -> float:
    """Multiply-adds a hidden token in one forward pass of the masked-language head."""
    inner = model.embedding_width if isinstance(model, ElectraConfig | AlbertConfig) else model.width
    return model.width * inner + inner * model.vocabulary_size


def memory_gib(recipe: Recipe, card: Card, gpus: int) -> float:
    """Memory of one card: parameters, gradients, optimizer state, and the activations of a micro-batch."""
    parameters = trained_parameters(recipe)
    networks = [recipe.model] if recipe.generator is None else [recipe.model, recipe.generator]
    states = 1 if isinstance(recipe.optimizer, Muon) else 2
    copies = 4 + 4 + 4 * states + (4 if isinstance(recipe.optimizer, Lamb) else 0)
    width = 2 if recipe.profile == "fast" else 3
    numbers = sum(part.layers * (12 * part.width + 3 * part.feed_forward) for part in networks)
    masked = recipe.objective("masked_language_model").highest_rate * recipe.model.vocabulary_size
    micro = recipe.batch.micro_batch_tokens or min(65_536, math.ceil(recipe.batch.tokens / gpus))
    return (parameters * copies + micro * (numbers * width + masked * 10)) / GIB + 1.0


def utilisation(recipe: Recipe) -> float:
    """Share of the card's matrix products that a step reaches."""
    return share_of_card(recipe.profile, recipe.model.width)


def share_of_card(profile: Profile, width: int) -> float:
    """Share of the card's matrix products that a step of a model so wide reaches, between the measured widths."""
    points = sorted(UTILISATION[profile].items())
    if width <= points[0][0]:
        return points[0][1] * max(0.25, width / points[0][0])
    for (low, one), (high, other) in itertools.pairwise(points):
        if width <= high:
            return one + (other - one) * (width - low) / (high - low)
    return points[-1][1]
