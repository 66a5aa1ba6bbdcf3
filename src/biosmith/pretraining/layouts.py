"""What sharing a model among cards takes and costs: the memory of one card, and the time that goes to talking.

Arithmetic over what `parallel` and `tensor_parallel` really do, for models that are trained in bfloat16; how near it comes
is measured by benchmarks/parallel_pretraining.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from biosmith.errors import UsageError
from biosmith.models.families import ModelConfig
from biosmith.pretraining.config import Muon, Recipe

GIB = 2**30
# Bytes a second that a card sends to its neighbours while it receives as many, 10 ** 9: NVLink of the data sheets (of
# servers with these cards), PCIe for the rest.
LINKS = {"h200": 450.0, "h100": 450.0, "a100": 300.0}
PCIE = 25.0
LINK_SHARE = 0.75  # of it that collective operations of some megabytes reach
# What is left of it for tensor parallelism, where narrower products and waiting are counted as talk, too: measured with
# biomegatron-1.2b on two H200s (benchmarks/results/parallel_pretraining.json).
TENSOR_LINK_SHARE = 0.21
# A micro-batch of a model whose layers are spread or shared takes this much for each, however narrow they are: the time of the
# processor that calls torch's modules and collectives, by what was measured with biomegatron-345m and -800m on two H200s (the same
# file), when it still waited for the cards in every step; to be measured anew.
CALL_SECONDS = 0.008
# What several whole replicas add to a step: 0.010 to 0.020 measured with BERT-base on 2 H200s, and on 2 and 4 H100s
# (scaling_h200.json, scaling_h100.json).
REPLICAS_SECONDS = 0.014
FSDP_SHARE = 0.93  # of linear speed: gathers take processors from the products beside them; an estimate
CONTEXT_GIB = 1.0  # of the driver and the libraries
FULL, LOW = 4, 2  # bytes of a number in float32 and in bfloat16


@dataclass(frozen=True)
class Layout:
    """How cards share a run.

    Attributes:
        gpus: cards together.
        parallel: how replicas work together: "ddp" or "fsdp".
        tensor_parallel: cards that share every layer of a replica.
        activation_checkpointing: keep layers' inputs only.

    Raises:
        UsageError: the cards cannot be shared out so.
    """

    gpus: int = 1
    parallel: Literal["ddp", "fsdp"] = "ddp"
    tensor_parallel: int = 1
    activation_checkpointing: bool = False

    def __post_init__(self) -> None:
        if self.gpus < 1:
            raise UsageError(f"--gpus must be at least 1, not {self.gpus}")
        if self.tensor_parallel < 1 or self.gpus % self.tensor_parallel:
            raise UsageError(f"--tensor-parallel {self.tensor_parallel} does not divide --gpus {self.gpus}")
        if self.tensor_parallel > 1 and self.replicas > 1 and self.parallel != "fsdp":
            raise UsageError("--tensor-parallel with several replicas needs --parallel fsdp")

    @property
    def replicas(self) -> int:
        """Copies of the model."""
        return self.gpus // self.tensor_parallel

    @property
    def shares_parameters(self) -> bool:
        """Whether replicas spread their parameters."""
        return self.parallel == "fsdp" and self.replicas > 1

    def __str__(self) -> str:
        parts = [f"TP {self.tensor_parallel}"] if self.tensor_parallel > 1 else []
        parts += [f"{self.parallel.upper()} {self.replicas}"] if self.replicas > 1 else []
        return " x ".join(parts or ["one card"]) + (", recomputed" if self.activation_checkpointing else "")


def micro_batch(recipe: Recipe, layout: Layout) -> int:
    """Tokens of a micro-batch: the recipe's, or at most what the loop would choose."""
    return recipe.batch.micro_batch_tokens or min(65_536, math.ceil(recipe.batch.tokens / layout.replicas))


def state_bytes(recipe: Recipe, parameters: int, layout: Layout) -> float:
    """Parameters, gradients and optimizer state on one card, with the copies that a step computes with."""
    states = 1 if isinstance(recipe.optimizer, Muon) else 2
    mine = parameters / layout.tensor_parallel
    kept = mine * FULL * (2 + states)
    if not layout.shares_parameters:
        return kept + mine * LOW
    # Gathered in bfloat16: what lies outside the layers for the whole step; two layers, one being fetched; and the
    # gradients of one.
    layer = layer_parameters(recipe.model) / layout.tensor_parallel
    outside = mine - layer * recipe.model.layers
    return kept / layout.replicas + LOW * (2 * outside + 3 * layer)


def activation_bytes(recipe: Recipe, layout: Layout) -> float:
    """What a micro-batch leaves for the backward pass on one card.

    Numbers a token of a layer in width D and feed-forward width F: residual stream, both normalised inputs, queries, keys,
    values, what attention mixed and the sum after it: 8 D; the feed-forward block before and after its activation: 2 F.
    Cards that share a layer have their part, but the two normalised inputs, which are gathered, whole.
    """
    model, ways, tokens = recipe.model, layout.tensor_parallel, micro_batch(recipe, layout)
    whole = 2 * model.width if ways > 1 else 0
    a_layer = LOW * ((8 * model.width + 2 * model.feed_forward - whole) / ways + whole)
    if layout.activation_checkpointing:
        layers = model.layers * LOW * model.width / ways + a_layer
    else:
        layers = model.layers * a_layer
    masked = recipe.objective("masked_language_model").highest_rate
    logits = masked * model.vocabulary_size * (LOW + 2 * FULL) / ways
    return tokens * (layers + logits)


def layer_parameters(model: ModelConfig) -> int:
    """Numbers of one layer's matrices."""
    gated = 2 if model.kind == "modernbert" else 1
    return 4 * model.width**2 + (1 + gated) * model.width * model.feed_forward


def memory_gib(recipe: Recipe, parameters: int, layout: Layout) -> float:
    """Memory of one card at its fullest."""
    return (state_bytes(recipe, parameters, layout) + activation_bytes(recipe, layout)) / GIB + CONTEXT_GIB


def seconds_of_talk(recipe: Recipe, parameters: int, layout: Layout, gpu: str) -> tuple[float, float]:
    """Seconds of a micro-batch in which a card waits for others, and those that hide behind arithmetic.

    Tensor parallelism gathers and scatters [T, D] twice a layer each, forward and backward, and nothing is computed
    meanwhile. FSDP gathers the parameters for both passes and scatters their gradients beside other layers' work.
    """
    link = LINKS.get(gpu, PCIE) * 1e9
    ways, replicas, model = layout.tensor_parallel, layout.replicas, recipe.model
    moved = 8 * model.layers * micro_batch(recipe, layout) * model.width * LOW * (ways - 1) / ways
    hidden = 0.0
    if layout.shares_parameters:
        hidden = parameters / ways * (2 * LOW + FULL) * (replicas - 1) / replicas
    return moved / (link * TENSOR_LINK_SHARE), hidden / (link * LINK_SHARE)


def share_of_linear(seconds: float, replicas: int) -> float:
    """Share of linear speed that whole replicas (DDP) reach together, where each has work for so many seconds a step."""
    return 1.0 if replicas == 1 else seconds / (seconds + REPLICAS_SECONDS)


def efficiency(
    recipe: Recipe, parameters: int, layout: Layout, gpu: str, seconds: float, steps: float
) -> float:
    """Share of linear speed that the cards reach together.

    Args:
        recipe, parameters, layout, gpu: what runs where.
        seconds: of a micro-batch on the cards of a replica, if they had nothing to tell each other.
        steps: micro-batches of a replica in a step.
    """
    waits, hidden = seconds_of_talk(recipe, parameters, layout, gpu)
    work = seconds * (4 / 3 if layout.activation_checkpointing else 1.0)
    together = max(work, hidden) + waits
    if layout.shares_parameters:
        together /= FSDP_SHARE
    if layout.shares_parameters or layout.tensor_parallel > 1:
        return seconds / max(together, recipe.model.layers * CALL_SECONDS)
    return seconds / together * share_of_linear(together * steps, layout.replicas)
