"""Checkpoints of other tools made into safe Hugging Face folders: folders whose weights are a pickle (of families that
only `transformers` knows too: `other_families`), and checkpoints of Megatron-LM (`megatron_checkpoint`)."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from biosmith.artefact import Manifest, describe_input
from biosmith.errors import BadInput, UsageError
from biosmith.models.checkpoint import INDEX, PICKLE, WEIGHTS, build_encoder, read_config, read_tensors
from biosmith.models.families import FAMILIES
from biosmith.models.megatron_checkpoint import convert_megatron, is_megatron
from biosmith.models.naming import Names
from biosmith.models.other_families import convert_other, is_of_another_family
from biosmith.models.saving import TOKENIZER_FILES, write_folder

PICKLE_INDEX = PICKLE + ".index.json"
SUPPORTED = (
    f"Hugging Face folders of {', '.join(FAMILIES)} or another family of transformers with {WEIGHTS} or {PICKLE}, whole "
    "or in shards, and checkpoints of Megatron-LM"
)
DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def convert(source: Path, out: Path, dtype: str | None = None) -> Path:
    """A folder of safetensors from another tool's checkpoint; nothing is written unless they make an encoder.

    Weights keep their values, and safetensors all they hold. A pickle is opened with torch's restricted reader, which
    runs no code; its LayerNorm parameters get today's names, its index buffers and second copies of tied tensors go.

    Args:
        source: see `SUPPORTED`.
        out: must not exist, or be empty.
        dtype: of the weights written; None keeps the source's.

    Raises:
        UsageError: the source is of a kind that is not supported, or `out` holds something.
        BadInput: the source is damaged, would run code, or holds a model of another architecture.
    """
    if is_megatron(source):
        return convert_megatron(source, out, None if dtype is None else DTYPES[dtype]).model
    _refuse_other_kinds(source)
    is_safe = (source / WEIGHTS).is_file() or (source / INDEX).is_file()
    tokenizer = source if any((source / name).is_file() for name in TOKENIZER_FILES) else None
    weights = [p for name in (WEIGHTS, INDEX, PICKLE, PICKLE_INDEX) if (p := source / name).is_file()]
    if is_of_another_family(source):
        tensors = read_tensors(source) if is_safe else _read_pickles(source)
        manifest = Manifest(kind="model", inputs=[describe_input(weights[0])])
        return convert_other(source, out, _cast(tensors, dtype), manifest, tokenizer)
    config, raw = read_config(source)
    family = FAMILIES[config.kind]
    tensors = read_tensors(source) if is_safe else _renamed(_read_pickles(source), family)
    build_encoder(source, config, raw, tensors)
    raw = family.config_to_hugging_face(config, raw)
    if dtype is not None:
        tensors = _cast(tensors, dtype)
        raw = {key: value for key, value in raw.items() if key != "torch_dtype"} | {"dtype": dtype}
    manifest = Manifest(kind="model", inputs=[describe_input(weights[0])])
    write_folder(out, tensors, raw, manifest, tokenizer)
    return out


def _cast(tensors: dict[str, Tensor], dtype: str | None) -> dict[str, Tensor]:
    if dtype is None:
        return tensors
    wanted = DTYPES[dtype]
    return {name: t.to(wanted) if t.is_floating_point() else t for name, t in tensors.items()}


def _read_pickles(source: Path) -> dict[str, Tensor]:
    files = [source / PICKLE]
    if (source / PICKLE_INDEX).is_file():
        index = json.loads((source / PICKLE_INDEX).read_text(encoding="utf-8"))
        files = [source / name for name in sorted(set(index["weight_map"].values()))]
    missing = [file.name for file in files if not file.is_file()]
    if missing:
        raise UsageError(f"{source} has no {', '.join(missing)}; supported: {SUPPORTED}")
    tensors: dict[str, Tensor] = {}
    for file in files:
        tensors |= read_pickle(file)
    return tensors


def read_pickle(file: Path) -> dict[str, Tensor]:
    """The tensors of a pickle, opened with torch's restricted reader, which runs no code.

    Raises:
        BadInput: it is damaged, or would run code.
    """
    try:
        tensors: dict[str, Tensor] = torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        reason = "holds something else than tensors, and opening it could run code"
        raise BadInput(file, reason) from error
    except (RuntimeError, EOFError, TypeError, ValueError) as error:
        raise BadInput(file, f"is damaged or no checkpoint of torch: {error}") from error
    return tensors


def _renamed(tensors: Mapping[str, Tensor], family: Names) -> dict[str, Tensor]:
    """Under today's names, without index buffers and second copies of tied tensors."""
    kept = {}
    for name, tensor in tensors.items():
        canonical = family.canonical(name)
        if canonical not in (*family.BUFFERS, *family.ALIASES):
            kept[(family.PREFIX if name.startswith(family.PREFIX) else "") + canonical] = tensor
    return kept


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
