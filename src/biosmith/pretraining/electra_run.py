"""Generator and discriminator at the two ends of a run: made or taken over, and read back from a checkpoint."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from biosmith.errors import UsageError
from biosmith.models.bert import BertConfig
from biosmith.models.checkpoint import load_discriminator, load_encoder, load_pretraining_model, read_config
from biosmith.models.electra import ElectraConfig, ElectraModel
from biosmith.pretraining.config import Recipe
from biosmith.progress import say


def generator_folder(discriminator: Path) -> Path:
    """Where the generator of an exported discriminator lies: beside it."""
    return discriminator.with_name(discriminator.name + "-generator")


def make_electra(recipe: Recipe, init: Path | None) -> ElectraModel:
    """A fresh pair, or the one to go on from: the discriminator of `init`, and the generator beside it.

    A folder without a generator beside it, as most published ones, gets a fresh one over its embeddings. The folder of a
    BERT gives the discriminator its encoder, under a fresh head.

    Raises:
        UsageError, BadInput: as `load_discriminator`; or `init` is a generator that lies beside its discriminator, or the
            generator has another shape than the recipe's.
    """
    model = ElectraModel(*_configs(recipe))
    if init is None:
        return model
    beside = init.with_name(init.name.removesuffix("-generator"))
    if beside != init and beside.is_dir():
        raise UsageError(f"{init} is the generator of {beside}; name the discriminator, {beside}")
    if isinstance(read_config(init)[0], BertConfig):
        encoder, _ = load_encoder(init, dtype=torch.float32)
        own = {name: t for name, t in encoder.state_dict().items() if not name.startswith("pooler.")}
        model.discriminator.encoder.load_state_dict(own)
        say(
            f"The discriminator starts from the encoder of {init}; its head and the generator are initialised afresh"
        )
        return model
    discriminator, _ = load_discriminator(init, dtype=torch.float32)
    model.discriminator.load_state_dict(discriminator.state_dict())
    folder = generator_folder(init)
    if not folder.is_dir():
        say(f"There is no {folder.name} beside {init}: the generator is initialised afresh")
        return model
    generator, config = load_pretraining_model(folder, dtype=torch.float32)
    assert isinstance(config, ElectraConfig)
    for name in ("embedding_width", "width", "layers", "heads", "feed_forward", "activation"):
        found, wanted = getattr(config, name), getattr(model.generator.config, name)
        if found != wanted:
            raise UsageError(
                f"{folder} has {name} {found}, but the recipe's generator has {wanted}; set "
                "objectives.replaced_token_detection.generator_width and generator_layers, or move the folder away"
            )
    own = {
        name: t for name, t in generator.state_dict().items() if not name.startswith("encoder.embeddings.")
    }
    model.generator.load_state_dict(own, strict=False)
    return model


def electra_from_checkpoint(recipe: Recipe, tensors: Mapping[str, Tensor], **changes: float) -> ElectraModel:
    """The pair of a checkpoint. `changes` are fields of both configurations (dropout for fine-tuning)."""
    configs = [dataclasses.replace(config, **changes) for config in _configs(recipe)]  # type: ignore[arg-type]
    with torch.device("meta"):
        model = ElectraModel(*configs)
    # The file has the shared embeddings once, under the discriminator's name.
    found = model.load_state_dict(tensors, strict=False, assign=True)
    model.share_embeddings()
    missing = [name for name in found.missing_keys if not name.startswith("generator.encoder.embeddings.")]
    if missing or found.unexpected_keys:
        raise UsageError(
            f"the checkpoint is of another architecture: missing {missing}, unexpected {found.unexpected_keys}"
        )
    return model


def _configs(recipe: Recipe) -> tuple[ElectraConfig, ElectraConfig]:
    assert isinstance(recipe.model, ElectraConfig) and recipe.generator is not None
    return recipe.model, recipe.generator
