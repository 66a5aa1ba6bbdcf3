"""From a recipe and a token store to what runs: the recipe with its open choices made, and the data path of each phase."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from biosmith.artefact import to_plain
from biosmith.errors import UsageError
from biosmith.pretraining.batches import BatchMaker, DataRules, TokenSource, hold_out
from biosmith.pretraining.config import Lamb, LengthPhase, Recipe
from biosmith.pretraining.masking import MaskingRules
from biosmith.pretraining.mixing import MixedStores
from biosmith.pretraining.sentence_order import OrderRules
from biosmith.pretraining.tensor_parallel import require_shareable_layers
from biosmith.progress import say
from biosmith.randomness import derive_key

CPU_MICRO_BATCH = 8_192
CUDA_MICRO_BATCH = 65_536
ALBERT_BATCH = 4_096  # sequences a step that ALBERT's learning rate is for
# Evaluation reads at most so many times the tokens of a training step.
EVALUATION_STEPS = 8


def choose_device(name: str) -> torch.device:
    """The device of that name; "auto" is the first CUDA device if there is one, else the CPU.

    Raises:
        UsageError: another name, or a CUDA device where there is none.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name not in ("cpu", "cuda"):
        raise UsageError(f"--device {name!r} is unknown; valid: auto, cpu, cuda")
    if name == "cuda" and not torch.cuda.is_available():
        raise UsageError("--device cuda: this machine has no CUDA device, or torch was built without CUDA")
    return torch.device(name)


def settle(
    recipe: Recipe, source: TokenSource, device: torch.device, devices: int = 1, tensor: int = 1
) -> Recipe:
    """The recipe with what it leaves open decided: vocabulary size, micro-batch, precision.

    Args:
        recipe: with its overrides.
        source: the tokens.
        device: of one process.
        devices: replicas of the model.
        tensor: processes that share the layers of a replica.

    Raises:
        UsageError: the token budget of a step cannot be shared out.
    """
    size = source.vocabulary.size
    if recipe.model.vocabulary_size != size:
        say(
            f"The tokens were made with {size:,} pieces, recipe {recipe.name} has {recipe.model.vocabulary_size:,}: "
            f"the model gets {size:,}."
        )
    cased = source.vocabulary.cased
    if recipe.vocabulary.cased != cased:
        words = {True: "cased", False: "uncased"}
        say(f"The tokens are {words[cased]}, recipe {recipe.name} is {words[recipe.vocabulary.cased]}.")
    precision = recipe.precision
    if precision == "auto":
        on_gpu = "bfloat16" if recipe.profile == "fast" else "mixed"
        precision = "float32" if device.type == "cpu" else on_gpu  # type: ignore[assignment]
    pad = dict(source.vocabulary.special_tokens).get("pad", recipe.model.pad_id)
    model = dataclasses.replace(recipe.model, vocabulary_size=size, pad_id=pad)
    recipe = dataclasses.replace(recipe, model=model, precision=precision)
    micro = recipe.batch.micro_batch_tokens or _choose_micro_batch(recipe, device, devices, tensor)
    batch = dataclasses.replace(recipe.batch, micro_batch_tokens=micro)
    recipe = dataclasses.replace(recipe, batch=batch)
    require_shareable(recipe, devices, tensor)
    _warn_of_rate(recipe)
    return recipe


def _warn_of_rate(recipe: Recipe) -> None:
    """LAMB's learning rate goes with the square root of the batch (You et al., 2020, section 4.1); ALBERT's 1.76e-3 is
    for 4,096 sequences, and one that does not fit the batch is the usual reason why ALBERT does not learn."""
    if not isinstance(recipe.optimizer, Lamb):
        return
    rate, sequences = recipe.optimizer.learning_rate, recipe.batch.sequences
    expected = Lamb.learning_rate * math.sqrt(sequences / ALBERT_BATCH)
    if not 0.8 < rate / expected < 1.25:
        say(
            f"LAMB's learning rate {rate:.3g} is unusual for {sequences:,} sequences a step: by the square-root rule "
            f"ALBERT's 1.76e-3 at {ALBERT_BATCH:,} sequences is {expected:.3g} here."
        )


def require_shareable(recipe: Recipe, devices: int, tensor: int = 1) -> None:
    """Raise `UsageError` unless the micro-batches of a step can be dealt out evenly to so many replicas, and each layer
    to `tensor` devices."""
    require_shareable_layers(recipe, tensor)
    count = micro_batches(recipe)
    if count % devices:
        raise UsageError(
            f"a step of {recipe.batch.tokens:,} tokens is {count} micro-batches of "
            f"{recipe.batch.micro_batch_tokens:,}, which {devices} devices cannot share evenly; begin the run with "
            f"batch.micro_batch_tokens={recipe.batch.tokens // devices:,} or a whole part of it"
        )


def micro_batches(recipe: Recipe) -> int:
    """Micro-batches of a step, on all devices together."""
    assert recipe.batch.micro_batch_tokens is not None
    return max(1, recipe.batch.tokens // recipe.batch.micro_batch_tokens)


def _choose_micro_batch(recipe: Recipe, device: torch.device, devices: int, tensor: int) -> int:
    most = CPU_MICRO_BATCH
    if device.type == "cuda":
        memory = torch.cuda.get_device_properties(device).total_memory
        most = min(CUDA_MICRO_BATCH, int(0.5 * memory * tensor / _bytes_per_token(recipe)))
    pairs = recipe.objective("next_sentence_prediction") is not None
    smallest = (2 if pairs else 1) * max(
        recipe.batch.length, *(phase.length for phase in recipe.batch.phases), 0
    )
    share = math.ceil(recipe.batch.tokens / devices / max(most, smallest))
    return max(recipe.batch.tokens // (share * devices) // tensor * tensor, tensor)


def _bytes_per_token(recipe: Recipe) -> int:
    """Memory of a token's activations in training, roughly; the logits of masked tokens included."""
    model, masked = recipe.model, recipe.objective("masked_language_model")
    networks = [model] if recipe.generator is None else [model, recipe.generator]
    numbers = sum(part.layers * (12 * part.width + 3 * part.feed_forward) for part in networks)
    width = 4 if recipe.precision == "float32" else 2 if recipe.precision == "bfloat16" else 3
    return int(numbers * width + masked.highest_rate * model.vocabulary_size * 10)


def phase_of(recipe: Recipe, step: int) -> int:
    """Number of the phase of sequence lengths that a step belongs to."""
    for number, phase in enumerate(recipe.batch.phases):
        if step < round(phase.until * recipe.steps):
            return number
    return len(recipe.batch.phases)


def make_batch_makers(recipe: Recipe, source: TokenSource) -> list[BatchMaker]:
    """The data path of each phase of sequence lengths, held-out documents left out."""
    phases = [*recipe.batch.phases, LengthPhase(1.0, recipe.batch.length)]
    makers = []
    for number, phase in enumerate(phases):
        rules = _data_rules(recipe, phase.length, _phase_seed(recipe, number))
        if phase.keep == "sequences":
            rules = dataclasses.replace(
                rules, micro_tokens=phase.tokens(recipe.batch) // micro_batches(recipe)
            )
        own = _source_of(phase, source, recipe)
        makers.append(BatchMaker(own, rules, ~held_out_documents(recipe, own)))
    return makers


def _source_of(phase: LengthPhase, source: TokenSource, recipe: Recipe) -> TokenSource:
    """What a phase reads: all token stores, or each as often as its weights say."""
    if not phase.weights:
        return source
    stores = len(source.stores) if isinstance(source, MixedStores) else 1
    if len(phase.weights) != stores:
        raise UsageError(
            f"recipe {recipe.name} reads {len(phase.weights)} token stores in turn ({', '.join(recipe.corpus.sources)}); "
            f"name as many with --tokens, not {stores}"
        )
    return source.with_weights(phase.weights) if isinstance(source, MixedStores) else source


def make_evaluation_maker(recipe: Recipe, source: TokenSource, training: BatchMaker) -> BatchMaker | None:
    """The data path of the held-out documents, always at the evaluation's mask rate in whole words; None if no
    document is held out. Its micro-batches have the shape of the training's. A discriminator is asked about replacements as
    it knows them: made under the training's own masks."""
    held_out = held_out_documents(recipe, source)
    pairs = recipe.objective("next_sentence_prediction") is not None
    if int((source.lengths[held_out] >= 2).sum()) < (2 if pairs else 1):
        return None
    rules = _data_rules(recipe, recipe.batch.length, derive_key(0, "evaluation"))
    masking = MaskingRules(recipe.evaluation.mask_rate, "word") if recipe.generator is None else rules.masking
    rules = dataclasses.replace(
        rules,
        masking=masking,
        short_probability=0.0,
        mask_copies=None,
    )
    maker = BatchMaker(source, rules, held_out, sequence_slots=training.sequence_slots)
    return maker if len(maker.plan(0)) else None  # a mixture of small weights may leave all of them out


def held_out_documents(recipe: Recipe, source: TokenSource) -> NDArray[np.bool_]:
    """Which documents are kept for evaluation, [documents]."""
    return hold_out(source, recipe.evaluation.documents)


def _phase_seed(recipe: Recipe, phase: int) -> int:
    last = phase == len(recipe.batch.phases)
    return recipe.seed if last else derive_key(recipe.seed, "phase", phase)


def _data_rules(recipe: Recipe, length: int, seed: int) -> DataRules:
    masked, pairs = (recipe.objective(kind) for kind in ("masked_language_model", "next_sentence_prediction"))
    assert recipe.batch.micro_batch_tokens is not None
    return DataRules(
        seed=seed,
        micro_tokens=recipe.batch.micro_batch_tokens,
        length=length,
        next_sentence=pairs is not None,
        random_probability=0.5 if pairs is None else pairs.random_probability,
        order=_order_rules(recipe),
        masking=MaskingRules(
            masked.rate, masked.unit, masked.replace, masked.replace_per, masked.longest_ngram, masked.draw
        ),
        short_probability=recipe.batch.short_sequence_probability,
        mask_copies=masked.copies,
        pack=recipe.batch.pack,
        highest_rate=max(masked.highest_rate, recipe.evaluation.mask_rate),
    )


def _order_rules(recipe: Recipe) -> OrderRules | None:
    """How segments are cut in two, for an objective or without one."""
    order, second = recipe.objective("sentence_order_prediction"), recipe.batch.second_segment_probability
    if order is not None:
        return OrderRules(order.swap_probability)
    return OrderRules(None, second, "middle") if second else None


def require_same_recipe(wanted: object, saved: object, out: Path) -> None:
    """Raise `UsageError` that names the values which differ between a recipe and the one a run was begun with.

    What the wanted recipe leaves open (micro-batch, precision, size and padding id of the vocabulary) is taken from the
    saved one and does not differ. A run that is older than a field had its default.
    """
    one, other = _flat(to_plain(wanted)), _flat(to_plain(saved))
    if dataclasses.is_dataclass(wanted):
        other = {f.name: f.default for f in dataclasses.fields(wanted) if f.name in one} | other
    is_open = {"batch.micro_batch_tokens": None, "precision": "auto"}
    differing = sorted(
        key
        for key in one.keys() | other.keys()
        if one.get(key) != other.get(key)
        and not key.startswith("citations.")
        and key not in ("model.vocabulary_size", "model.pad_id")
        and not (key in is_open and one.get(key) == is_open[key])
    )
    if differing:
        shown = (f"{key} (the run has {other.get(key)}, the call {one.get(key)})" for key in differing)
        raise UsageError(f"{out} was begun with another recipe: {', '.join(shown)}")


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    if isinstance(value, Mapping):
        parts = [(str(k), v) for k, v in value.items()]
    elif isinstance(value, list) and any(isinstance(v, Mapping) for v in value):
        parts = [(str(v.get("kind", i)), v) for i, v in enumerate(value)]
    else:
        return {prefix: value}
    return {
        k: v for name, part in parts for k, v in _flat(part, f"{prefix}.{name}" if prefix else name).items()
    }
