"""What the training of a latent-variable model takes, before it is begun."""

from __future__ import annotations

import math

from biosmith.errors import UsageError
from biosmith.models.vae import VaeConfig, count_parameters
from biosmith.pretraining.elbo_config import VaeRecipe
from biosmith.pretraining.elbo_run import CUDA_MICRO_BATCH
from biosmith.pretraining.layouts import Layout, share_of_linear
from biosmith.pretraining.planning import GIB, Plan, find_card, share_of_card

# A sentence of PubMed has about 29 pieces in a vocabulary of 30,522 (4,096 abstracts), and its special tokens.
SENTENCE_TOKENS = 31


def plan_vae(recipe: VaeRecipe, gpu: str = "h100", gpus: int = 1, corpus_tokens: int | None = None) -> Plan:
    """What a recipe takes on so many cards of a kind, each with a whole model.

    Tokens are those of the decoder; sentences are taken to have `SENTENCE_TOKENS` on either side, or the recipe's length if
    that is less. How much of a card these models use has not been measured: it is taken to be as in models of masked tokens.

    Args:
        recipe: with its overrides.
        gpu: one of `planning.CARDS`.
        gpus: how many.
        corpus_tokens: of the decoder, in all sentences; gives the number of epochs.

    Raises:
        UsageError: an unknown card or an impossible number.
    """
    gpu = gpu.lower()
    card = find_card(gpu, gpus, corpus_tokens)
    sentences = recipe.steps * recipe.batch.sentences
    tokens = sentences * min(SENTENCE_TOKENS, recipe.batch.length)
    per_token = flops_per_token(recipe)
    share = share_of_card(recipe.profile, recipe.model.decoder.width)
    speed = card.teraflops * 1e12 * share * gpus / per_token
    speed *= share_of_linear(tokens / recipe.steps / speed, gpus)
    hours = tokens / speed / 3600
    memory = memory_gib(recipe, gpus)
    return Plan(
        recipe=recipe.name,
        profile=recipe.profile,
        parameters=count_parameters(recipe.model),
        steps=recipe.steps,
        sequences=sentences,
        tokens=tokens,
        flops_per_token=per_token,
        flops=float(tokens) * per_token,
        computational_ratio=None,
        epochs=None if corpus_tokens is None else round(tokens / corpus_tokens, 2),
        memory_gib=round(memory, 1),
        gpu=gpu,
        gpus=gpus,
        layout=str(Layout(gpus)),
        fits=memory <= card.memory_gib,
        tokens_per_second=round(speed),
        hours=round(hours, 2),
        dollars=round(hours * gpus * card.dollars_an_hour),
    )


def flops_per_token(recipe: VaeRecipe) -> int:
    """Floating-point operations a decoder token in training: 2 for each multiply-add, once forward and twice backward.

    Matrix products only: the layers of either side and the decoder's head, which scores every token. Attention within a
    sentence and the latent vector's own products are less than a hundredth of these and left out.
    """
    model = recipe.model
    return round(6 * (_layer_weights(model) + model.decoder.width * model.decoder.vocabulary_size))


def _layer_weights(model: VaeConfig) -> int:
    """Weights of the matrices of all layers."""
    decoder = model.decoder.layers * 12 * model.decoder.width**2
    if not model.is_conditioned:
        return decoder
    encoder = model.encoder
    return decoder + encoder.layers * (4 * encoder.width**2 + 2 * encoder.width * encoder.feed_forward)


def memory_gib(recipe: VaeRecipe, gpus: int) -> float:
    """Memory of one card: parameters, gradients, AdamW's state, and the activations and logits of a micro-batch."""
    model, batch = recipe.model, recipe.batch
    width = 2 if recipe.profile == "fast" else 3
    numbers = model.decoder.layers * 24 * model.decoder.width
    if model.is_conditioned:
        numbers += model.encoder.layers * (12 * model.encoder.width + 3 * model.encoder.feed_forward)
    an_update = batch.sentences * min(SENTENCE_TOKENS, batch.length)
    micro = batch.micro_batch_tokens or min(CUDA_MICRO_BATCH, math.ceil(an_update / gpus))
    logits = model.decoder.vocabulary_size * 10
    return (count_parameters(model) * 16 + micro * (numbers * width + logits)) / GIB + 1.0


def require_whole_models(recipe: VaeRecipe, layout: Layout) -> None:
    """Raise `UsageError` for a layout in which cards share a model, as `pretrain` does."""
    if layout != Layout(layout.gpus):
        raise UsageError(
            f"--parallel fsdp, --tensor-parallel and --activation-checkpointing are not for {recipe.name}: "
            "each device has a whole latent-variable model"
        )
