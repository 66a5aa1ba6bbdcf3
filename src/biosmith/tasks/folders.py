"""Model folders of tasks: label maps, heads that `transformers` has no class for, models of any family.

A head that is part of an architecture of `transformers` lies in `model.safetensors` under its name there; what else we
train (a CRF, an LSTM, relation features) lies beside it in `head.safetensors`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from biosmith.artefact import MANIFEST, Manifest, describe_files, load_manifest
from biosmith.errors import BadInput, UsageError
from biosmith.models.checkpoint import refuse_pickle
from biosmith.models.families import config_from_hugging_face
from biosmith.models.saving import save_tensors
from biosmith.models.vae_folder import ENCODER, is_vae

# Families of the fast encoder whose heads in `transformers` are those that the networks here make.
FAST_TYPES = ("bert", "electra", "albert", "modernbert")
HEAD = "head.safetensors"


def label_maps(labels: Sequence[str]) -> dict[str, Any]:
    """The label map as Hugging Face's config.json holds it."""
    return {
        "id2label": {str(i): label for i, label in enumerate(labels)},
        "label2id": {label: i for i, label in enumerate(labels)},
    }


def read_labels(folder: Path) -> list[str]:
    """The labels of a tuned folder, in the order of its outputs.

    Raises:
        UsageError: no folder, or one without a label map.
        BadInput: the outputs of its label map have no numbers.
    """
    config = read_json(folder / "config.json")
    labels = config.get("id2label")
    if not isinstance(labels, Mapping) or not labels:
        raise UsageError(f"{folder} has no label map in its config.json; it is not a tuned model")
    if not all(key.isdecimal() for key in labels):
        raise BadInput(folder / "config.json", "the keys of id2label are not numbers", value=list(labels))
    return [str(labels[key]) for key in sorted(labels, key=int)]


def read_json(file: Path) -> dict[str, Any]:
    """A JSON object of a model folder.

    Raises:
        UsageError: the file is not there.
        BadInput: it is not a JSON object.
    """
    if not file.is_file():
        what = f"has no {file.name}" if file.parent.is_dir() else "does not exist"
        raise UsageError(f"{file.parent} {what}; expected a Hugging Face model folder")
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise BadInput(file, f"is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise BadInput(file, "is not a JSON object")
    return value


def is_fast(folder: Path) -> bool:
    """Whether the fast encoder knows the shape of a folder's model."""
    file = folder / "config.json"
    config = read_json(file)
    # The first BERT folders of Hugging Face have no model_type.
    kind = config.get("model_type") or str(config.get("architectures") or [""]).lower()[2:6]
    if kind == "modernbert":
        # Of its forms transformers computes some more: stretched positions, other activations.
        with contextlib.suppress(BadInput, UsageError):
            config_from_hugging_face(config, file)
            return True
        return False
    return kind in FAST_TYPES


def prefixed(name: str, module: nn.Module) -> dict[str, Tensor]:
    """A module's tensors under a name, on the CPU."""
    return {f"{name}.{key}": value.detach().cpu().contiguous() for key, value in module.state_dict().items()}


def save_head(folder: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write head.safetensors into a finished model folder and name it in the manifest; nothing without tensors."""
    if tensors:
        save_tensors(tensors, folder / HEAD)
        manifest = load_manifest(folder)
        dataclasses.replace(manifest, files=describe_files(folder)).save(folder)


def read_head(folder: Path) -> dict[str, Tensor]:
    """The tensors of head.safetensors; none where there is no such file.

    Raises:
        BadInput: the file is damaged, or the manifest names it and it is not there (a tagger would go without its CRF).
    """
    file = folder / HEAD
    if not file.is_file():
        if (folder / MANIFEST).is_file() and HEAD in load_manifest(folder).files:
            raise BadInput(folder, f"lacks {HEAD}, which its manifest names")
        return {}
    try:
        with safe_open(file, framework="pt") as opened:
            return {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 (it is no mapping)
    except SafetensorError as error:
        raise BadInput(file, f"is damaged or no safetensors file: {error}") from error


def fill(module: nn.Module | None, tensors: Mapping[str, Tensor], name: str, folder: Path) -> None:
    """Put the tensors under a name into a module; nothing for None.

    Raises:
        BadInput: one is missing, or has another shape than the folder's configuration says.
    """
    if module is None:
        return
    state = {}
    for key, value in module.state_dict().items():
        tensor = tensors.get(f"{name}.{key}")
        if tensor is None:
            raise BadInput(folder, "lacks a tensor of its head", value=f"{name}.{key}")
        if tensor.shape != value.shape:
            raise BadInput(
                folder,
                f"{name}.{key} has shape {tuple(tensor.shape)}, its configuration asks for {tuple(value.shape)}",
            )
        state[key] = tensor.float()
    module.load_state_dict(state)


def open_transformers(
    kind: Any, folder: Path, purpose: str, head: Literal["none", "new", "tuned"], **options: Any
) -> tuple[Any, Any]:
    """A model of a class of `transformers`, in 32 bits, and its tokenizer.

    Args:
        kind: the class, such as AutoModel.
        folder: of the model.
        purpose: for the message if that fails.
        head: "none" for bare encoders; a "new" head is made where the folder's does not fit; one that is "tuned" has
            to be there.
        options: as `from_pretrained` takes them.

    Raises:
        UsageError: the folder does not exist, its weights are a pickle, or it is a latent-variable model.
        BadInput: `transformers` cannot load it for that purpose, or it lacks a tuned head.
    """
    from transformers import AutoTokenizer

    read_json(folder / "config.json")
    if is_vae(folder):
        raise UsageError(f"{folder} is a latent-variable model; take its encoder, {folder / ENCODER}")
    refuse_pickle(folder)
    options |= {"dtype": torch.float32, "use_safetensors": True, "ignore_mismatched_sizes": head == "new"}
    try:
        model, found = kind.from_pretrained(folder, output_loading_info=True, **options)
        tokenizer = AutoTokenizer.from_pretrained(folder)
    except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise BadInput(folder, f"transformers cannot load it {purpose}: {error}") from error
    if head == "tuned" and found["missing_keys"]:
        raise BadInput(folder, f"lacks tensors {purpose}", value=sorted(found["missing_keys"]))
    return model, tokenizer


def save_transformers(folder: Path, model: Any, tokenizer: Any, manifest: Manifest, card: str) -> None:
    """Write a model of `transformers` with its tokenizer, a card and a manifest."""
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / "README.md").write_text(card, encoding="utf-8")
    dataclasses.replace(manifest, files=describe_files(folder)).save(folder)


def label_options(labels: Sequence[str]) -> dict[str, Any]:
    """The label map as `from_pretrained` takes it."""
    maps = label_maps(labels)
    id2label = {int(k): v for k, v in maps["id2label"].items()}
    return {"id2label": id2label, "label2id": maps["label2id"], "num_labels": len(labels)}


def set_dropout(model: Any, dropout: float) -> None:
    """Set the dropout before a model's head.

    The families call it by different names in their configurations, but not in their classes.
    """
    for part in (model, getattr(model, "classifier", None)):
        for name in ("dropout", "drop"):
            if isinstance(getattr(part, name, None), nn.Dropout):
                getattr(part, name).p = dropout


def readable_positions(model: Any) -> int:
    """How many tokens a `transformers` model reads; the tables of RoBERTa and its kind begin behind the padding position."""
    positions = int(getattr(model.config, "max_position_embeddings", 0) or 512)
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None:
            return positions - int(module.padding_idx) - 1
    return positions
