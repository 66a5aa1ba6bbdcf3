"""A run folder made into a Hugging Face folder."""

from __future__ import annotations

import dataclasses
import shutil
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from biosmith.artefact import MANIFEST, Manifest, describe_input, load_manifest, require_new_folder, to_plain
from biosmith.errors import BadInput, UsageError
from biosmith.models.bert import PretrainingModel
from biosmith.models.electra import ElectraModel
from biosmith.models.saving import architecture_of, save_model
from biosmith.pretraining.checkpoints import MODEL, list_checkpoints, read_state
from biosmith.pretraining.config import Recipe
from biosmith.pretraining.electra_run import electra_from_checkpoint, generator_folder
from biosmith.pretraining.run import TOKENIZER, read_run
from biosmith.progress import say


@dataclass(frozen=True)
class Export:
    """What was exported: the folder, the checkpoint's step and the number of parameters."""

    model: Path
    step: int
    parameters: int
    architecture: str
    generator: Path | None = None  # of a run of replaced-token detection


def export_run(run: Path, out: Path, *, step: int | None = None, vocabulary: Path | None = None) -> Export:
    """Write a run's model as a folder that `transformers` loads with equal logits. A run of replaced-token detection
    gives two: the discriminator, and beside it the generator, whose folder's name ends in "-generator".

    Args:
        run: a run folder.
        out: must not exist, or be empty.
        step: the checkpoint; None is the newest.
        vocabulary: folder of the tokenizer files; None takes those that the run kept.

    Raises:
        UsageError: no such run, checkpoint or vocabulary, the vocabulary is another than that of the run's tokens,
            or `out` holds something.
        BadInput: a checkpoint is damaged.
    """
    require_new_folder(out)
    if (run / MANIFEST).is_file():
        load_manifest(run, "run")  # a model folder has a config.json too
    recipe = read_run(run)
    if recipe.generator is not None:
        require_new_folder(generator_folder(out))
    tokenizer = _find_tokenizer(run, vocabulary)
    checkpoint = find_checkpoint(run, step)
    found = read_state(checkpoint).step
    model = _load(checkpoint, recipe)
    manifest = load_manifest(run, "run")
    shown = {key: manifest.counts[key] for key in ("loss", "eval_loss", "tokens") if key in manifest.counts}
    counts = {"step": found, "vocabulary_digest": manifest.counts.get("vocabulary_digest"), **shown}
    made = Manifest(
        kind="model", config=to_plain(recipe), seed=recipe.seed, inputs=[describe_input(run)], counts=counts
    )
    generator, network = None, model.discriminator if isinstance(model, ElectraModel) else model
    if isinstance(model, ElectraModel):
        generator = save_model(
            generator_folder(out), model.generator, tokenizer_from=tokenizer, manifest=made
        )
    try:
        save_model(out, network, tokenizer_from=tokenizer, manifest=made)
    except BaseException:
        if generator is not None:  # by itself it would only refuse the next try
            shutil.rmtree(generator)
        raise
    if generator is not None:
        say(f"The generator is in {generator}")
    parameters = sum(p.numel() for p in network.parameters())
    return Export(out, found, parameters, architecture_of(network), generator)


def find_checkpoint(run: Path, step: int | None) -> Path:
    """The checkpoint of a step, the newest for None. Raises `UsageError` where there is none."""
    checkpoints = {path.name: path for path in list_checkpoints(run)}
    if not checkpoints:
        raise UsageError(f"{run} has no checkpoint yet")
    if step is None:
        return list(checkpoints.values())[-1]
    if f"step-{step}" not in checkpoints:
        valid = ", ".join(name.removeprefix("step-") for name in checkpoints)
        raise UsageError(f"{run} has no checkpoint of step {step}; valid: {valid}")
    return checkpoints[f"step-{step}"]


def _find_tokenizer(run: Path, vocabulary: Path | None) -> Path:
    """The vocabulary's folder, checked against the tokens that the run was trained on."""
    if vocabulary is None:
        if not (run / TOKENIZER).is_dir():
            raise UsageError(f"{run} kept no tokenizer; name the vocabulary of its tokens with --vocab")
        return run / TOKENIZER
    if vocabulary.is_file():
        raise UsageError(f"{vocabulary} is a file; --vocab takes the folder that holds it")
    from biosmith.tokens.vocabulary import load_vocabulary

    expected = load_manifest(run, "run").counts.get("vocabulary_digest")
    digest = load_vocabulary(vocabulary).mark.digest
    if expected is not None and digest != expected:
        raise UsageError(
            f"{run} was trained on tokens of vocabulary {str(expected)[:6]}; {vocabulary} is {digest[:6]}"
        )
    return vocabulary


def _load(checkpoint: Path, recipe: Recipe) -> PretrainingModel | ElectraModel:
    """The model of a checkpoint. Its configuration names the dropout for fine-tuning: where a run trained without
    any, what its family usually has (BERT 0.1)."""
    config = recipe.model
    if recipe.profile == "fast":
        usual = type(config)()
        config = dataclasses.replace(
            config,
            dropout=config.dropout or usual.dropout,
            attention_dropout=config.attention_dropout or usual.attention_dropout,
        )
    try:
        tensors = load_file(checkpoint / MODEL)
    except SafetensorError as error:
        raise BadInput(checkpoint / MODEL, f"is damaged: {error}") from error
    if recipe.generator is not None:
        rates = {"dropout": config.dropout, "attention_dropout": config.attention_dropout}
        return electra_from_checkpoint(recipe, tensors, **rates).eval()
    with torch.device("meta"):
        model = PretrainingModel(
            config,
            next_sentence=recipe.pair_objective is not None,
            pooler="encoder.pooler.dense.weight" in tensors,
        )
    model.load_state_dict(tensors, assign=True)
    return model.eval()
