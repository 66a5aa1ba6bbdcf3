"""Checkpoints of other tools made into safe Hugging Face folders: folders whose weights are a pickle (of families that
only `transformers` knows too: `other_families`), and checkpoints of Megatron-LM (`megatron_checkpoint`)."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from biosmith.artefact import MANIFEST, Manifest, describe_input
from biosmith.errors import BadInput, UsageError
from biosmith.models.checkpoint import (
    DTYPES,
    INDEX,
    PICKLE,
    WEIGHTS,
    build_encoder,
    cast,
    find_shards,
    read_config,
    read_tensors,
    require_pickle,
)
from biosmith.models.families import FAMILIES
from biosmith.models.megatron_checkpoint import convert_megatron, is_megatron
from biosmith.models.naming import Names
from biosmith.models.other_families import convert_other, is_of_another_family
from biosmith.models.saving import TOKENIZER_FILES, refuse_more_pieces, write_folder
from biosmith.models.vae_folder import is_vae

PICKLE_INDEX = PICKLE + ".index.json"
HEAD = "head.safetensors"  # what a tuned model has beyond the classes of transformers
SUPPORTED = (
    f"Hugging Face folders of {', '.join(FAMILIES)} or another family of transformers with {WEIGHTS} or {PICKLE}, whole "
    "or in shards, and checkpoints of Megatron-LM"
)


def convert(source: Path, out: Path, dtype: str | None = None) -> Path:
    """A folder of safetensors from another tool's checkpoint; nothing is written unless they make an encoder.

    Weights keep their values, and safetensors all they hold. A pickle is opened with torch's restricted reader, which
    runs no code; its LayerNorm parameters get today's names, its index buffers and second copies of tied tensors go.

    Args:
        source: see `SUPPORTED`.
        out: must not exist, or be empty.
        dtype: of the weights written; None keeps the source's.

    Raises:
        UsageError: the source is of a kind that is not supported, its tokenizer has more pieces than its embedding
            rows, or `out` holds something.
        BadInput: the source is damaged, would run code, holds a model of another architecture, or a number that is too
            large for `dtype`.
    """
    if is_megatron(source):
        return convert_megatron(source, out, None if dtype is None else DTYPES[dtype]).model
    _refuse_other_kinds(source)
    is_safe = (source / WEIGHTS).is_file() or (source / INDEX).is_file()
    tokenizer = source if any((source / name).is_file() for name in TOKENIZER_FILES) else None
    _refuse_more_than_a_model(source)
    inputs = _describe(source)
    wanted = None if dtype is None else DTYPES[dtype]
    if is_of_another_family(source):
        tensors = read_tensors(source) if is_safe else _read_pickles(source)
        manifest = Manifest(kind="model", inputs=inputs)
        return convert_other(source, out, cast(tensors, wanted, source), manifest, tokenizer)
    config, raw = read_config(source)
    family = FAMILIES[config.kind]
    tensors = read_tensors(source) if is_safe else _read_pickles(source)
    # This finds a second copy of a tensor that differs, before it is left out.
    build_encoder(source, config, raw, tensors)
    refuse_more_pieces(tokenizer, config.vocabulary_size)
    if not is_safe:
        tensors = _renamed(tensors, family)
    raw = family.config_to_hugging_face(config, raw)
    if dtype is not None:
        tensors = cast(tensors, wanted, source)
        raw = {key: value for key, value in raw.items() if key != "torch_dtype"} | {"dtype": dtype}
    write_folder(out, tensors, raw, Manifest(kind="model", inputs=inputs), tokenizer)
    return out


def _describe(source: Path) -> list[dict[str, Any]]:
    """What a folder is made from: another artefact by its manifest, else every file of weights."""
    if (source / MANIFEST).is_file():
        return [describe_input(source)]
    for name, index in ((WEIGHTS, INDEX), (PICKLE, PICKLE_INDEX)):
        if (source / name).is_file():
            return [describe_input(source / name)]
        if (source / index).is_file():
            return [describe_input(file) for file in find_shards(source / index)]
    return []


def _read_pickles(source: Path) -> dict[str, Tensor]:
    files = [source / PICKLE]
    if (source / PICKLE_INDEX).is_file():
        files = find_shards(source / PICKLE_INDEX)
    elif not files[0].is_file():
        raise UsageError(f"{source} has no {PICKLE}; supported: {SUPPORTED}")
    tensors: dict[str, Tensor] = {}
    for file in files:
        tensors |= read_pickle(file)
    return tensors


def read_pickle(file: Path) -> dict[str, Tensor]:
    """The tensors of a pickle, opened with torch's restricted reader, which runs no code.

    Raises:
        BadInput: it is damaged, would run code, or holds something else than tensors by their names.
    """
    require_pickle(file)
    try:
        tensors: dict[str, Tensor] = torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        reason = "holds something else than tensors, and opening it could run code"
        raise BadInput(file, reason) from error
    except (RuntimeError, EOFError, OSError, TypeError, ValueError, LookupError, AttributeError) as error:
        raise BadInput(file, f"is damaged or no checkpoint of torch: {error}") from error
    if not isinstance(tensors, Mapping):
        raise BadInput(file, f"holds one {type(tensors).__name__}, not tensors by their names")
    for name, tensor in tensors.items():
        if not isinstance(name, str) or not isinstance(tensor, Tensor):
            raise BadInput(file, f"holds a {type(tensor).__name__} called {name!r} among its tensors")
    return dict(tensors)


def _renamed(tensors: Mapping[str, Tensor], family: Names) -> dict[str, Tensor]:
    """Under today's names, without index buffers and second copies of tied tensors."""
    kept = {}
    held = {family.canonical(name) for name in tensors}
    for name, tensor in tensors.items():
        canonical = family.canonical(name)
        if canonical in family.BUFFERS or family.ALIASES.get(canonical) in held:
            continue
        kept[(family.PREFIX if name.startswith(family.PREFIX) else "") + canonical] = tensor
    return kept


def _refuse_more_than_a_model(source: Path) -> None:
    """Raise `UsageError` for a folder of ours of which a part would be left out."""
    ours = {
        "a latent-variable model": is_vae(source),
        "a tuned model with a head of its own": (source / HEAD).is_file(),
    }
    for kind, is_one in ours.items():
        if is_one:
            raise UsageError(
                f"{source} is {kind}, safe as it is; biosmith release {source} --out MODEL copies it, in another dtype too"
            )


def _refuse_other_kinds(source: Path) -> None:
    """Raise `UsageError` for what other tools write, by its name."""
    if not source.is_dir():
        raise UsageError(f"{source} is not a folder; supported: {SUPPORTED}")
    signs = {
        "a TensorFlow checkpoint": ("*.ckpt*", "checkpoint", "*.h5", "saved_model.pb"),
        "a NeMo checkpoint": ("*.nemo", "model_weights.ckpt"),
        "a Flax checkpoint": ("*.msgpack",),
    }
    has_weights = any((source / name).is_file() for name in (WEIGHTS, INDEX, PICKLE, PICKLE_INDEX))
    for kind, patterns in signs.items():
        if not has_weights and any(next(source.glob(pattern), None) for pattern in patterns):
            raise UsageError(f"{source} is {kind}, which cannot be converted; supported: {SUPPORTED}")
