"""Folders of families that only the `transformers` library knows (RoBERTa, DeBERTa, DistilBERT, ...), made safe."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from torch import Tensor

from biosmith.artefact import Manifest, describe_files, folder_by_rename
from biosmith.errors import BadInput
from biosmith.models.families import FAMILIES
from biosmith.models.saving import copy_tokenizer, refuse_more_pieces
from biosmith.progress import say


def is_of_another_family(folder: Path) -> bool:
    """Whether a folder's config.json names a model type that is none of `FAMILIES`."""
    try:
        raw = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False  # whoever reads it for its content says what is wrong
    return isinstance(raw, dict) and bool(raw.get("model_type")) and raw["model_type"] not in FAMILIES


def convert_other(
    source: Path, out: Path, tensors: Mapping[str, Tensor], manifest: Manifest, tokenizer: Path | None
) -> Path:
    """A folder of safetensors by the class of `transformers` that the source's config.json names.

    Args:
        source: the folder; its config.json is read.
        out: must not exist, or be empty.
        tensors: all that the source's weights hold.
        manifest: of the new folder.
        tokenizer: folder whose tokenizer files are copied.

    Raises:
        UsageError: the tokenizer has more pieces than the embedding rows, or `out` holds something.
        BadInput: `transformers` does not know the model, or tensors are missing.
    """
    import transformers

    try:
        config = transformers.AutoConfig.from_pretrained(source, trust_remote_code=False)
        kind: Any = getattr(transformers, (config.architectures or [""])[0], None)
        if not (isinstance(kind, type) and issubclass(kind, transformers.PreTrainedModel)):
            kind = type(transformers.AutoModel.from_config(config))
        dtype = next((t.dtype for t in tensors.values() if t.is_floating_point()), torch.float32)
        model, found = kind.from_pretrained(
            None, config=config, state_dict=dict(tensors), dtype=dtype, output_loading_info=True
        )
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, StrictDataclassError) as error:
        raise BadInput(source, f"transformers cannot load it: {error}") from error
    if found["missing_keys"]:
        raise BadInput(
            source, "lacks tensors that its config.json asks for", value=sorted(found["missing_keys"])
        )
    if found["unexpected_keys"]:
        say(
            f"{source}: {type(model).__name__} has no place for {', '.join(sorted(found['unexpected_keys']))}"
        )
    embedding = model.get_input_embeddings()
    if isinstance(embedding, torch.nn.Embedding):
        refuse_more_pieces(tokenizer, embedding.num_embeddings)
    with folder_by_rename(out) as temporary:
        model.save_pretrained(temporary)
        copy_tokenizer(tokenizer, temporary)
        card = f"# {out.name}\n\n{type(model).__name__}, made safe (safetensors) by `biosmith convert`.\n"
        (temporary / "README.md").write_text(card, encoding="utf-8")
        counts = {
            "parameters": sum(p.numel() for p in model.parameters()),
            "vocabulary": getattr(config, "vocab_size", 0),
        }
        settings = manifest.config or json.loads((temporary / "config.json").read_text(encoding="utf-8"))
        dataclasses.replace(manifest, config=settings, counts=counts, files=describe_files(temporary)).save(
            temporary
        )
    return out
