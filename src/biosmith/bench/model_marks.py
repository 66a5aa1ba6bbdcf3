"""Which model is it: a digest over its files, its size, and where it came from."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from biosmith.artefact import MANIFEST, digest_file, digest_value, to_plain
from biosmith.bench.results import ModelMark
from biosmith.errors import BadInput, BiosmithError, UsageError
from biosmith.lineage import trace_origin

# What decides a model's predictions: configuration, weights, vocabulary. Cards and manifests do not.
_DECIDING = (
    "config.json",
    "*.safetensors",
    "*.safetensors.index.json",
    "pytorch_model.bin",
    "tokenizer*",
    "vocab*",
    "special_tokens_map.json",
    "added_tokens.json",
    "merges.txt",
    "spiece.model",
    "spm.model",
    "sentencepiece*",
)


def folder_name(folder: Path) -> str:
    """What results call a model: the name that the user gave, a link's own too."""
    return folder.name if folder.name not in ("", "..") else folder.resolve().name


def find_model(name: str) -> Path:
    """A model's folder: a path, or the local snapshot of a hub id, fetched if it is not there.

    Raises:
        UsageError: there is no such folder, and the hub cannot be reached or does not have it.
    """
    folder = Path(name)
    if folder.is_dir():
        return folder
    if name.count("/") != 1 or name.startswith((".", "/", "~")) or folder.parent.is_dir():
        raise UsageError(
            f"{name} does not exist; expected a Hugging Face folder or a hub id such as org/name"
        )
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name))
    except Exception as error:  # the hub's library raises errors of many libraries
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UsageError(f"{name} is no folder here, and the hub did not give it: {reason}") from error


def mark_models(models: Sequence[Path], names: Sequence[str] | None = None) -> list[ModelMark]:
    """The marks of models, each with a name of its own."""
    marks = [mark_model(model) for model in models]
    if names is not None:
        marks = [replace(mark, name=name) for mark, name in zip(marks, names, strict=True)]
    twice = {name for name, n in Counter(mark.name for mark in marks).items() if n > 1}
    named = [
        replace(mark, name=f"{mark.name}-{mark.digest[:8]}") if mark.name in twice else mark for mark in marks
    ]
    if len({mark.name for mark in named}) < len(named):
        raise UsageError(f"the same model was given twice: {', '.join(sorted(twice))}")
    return named


def mark_model(folder: Path) -> ModelMark:
    """The mark of one model.

    Raises:
        UsageError: the folder is no Hugging Face model.
    """
    files = sorted({path for pattern in _DECIDING for path in folder.glob(pattern) if path.is_file()})
    if not (folder / "config.json").is_file():
        raise UsageError(f"{folder} has no config.json; expected a Hugging Face folder")
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except ValueError as error:
        raise BadInput(folder / "config.json", f"is not JSON: {error}") from error
    layers, width = (config.get(key) for key in ("num_hidden_layers", "hidden_size"))
    return ModelMark(
        name=folder_name(folder),
        path=str(folder),
        digest=digest_value({path.name: digest_file(path) for path in files}),
        parameters=count_parameters(folder),
        layers=layers if isinstance(layers, int) else None,
        width=width if isinstance(width, int) else None,
        family=str(config.get("model_type", "")),
        lineage=_lineage(folder),
    )


def count_parameters(folder: Path) -> int | None:
    """Parameters in the safetensors of a folder, by their headers; None where there are none."""
    from safetensors import SafetensorError, safe_open

    total = 0
    for path in sorted(folder.glob("*.safetensors")):
        try:
            with safe_open(path, framework="np") as tensors:
                total += sum(math.prod(tensors.get_slice(name).get_shape()) for name in tensors.keys())  # noqa: SIM118
        except (SafetensorError, OSError) as error:
            raise BadInput(path, f"is damaged: {error}") from error
    return total or None


def _lineage(folder: Path) -> dict[str, Any]:
    """The chain of manifests behind a model, if it has one; sizes are compared, not digests, which takes no time."""
    if not (folder / MANIFEST).is_file():
        return {}
    try:
        plain: dict[str, Any] = to_plain(trace_origin(folder, verify=False))
    except BiosmithError as error:
        return {"path": str(folder), "kind": "model", "state": "changed", "problems": [str(error)]}
    return plain
