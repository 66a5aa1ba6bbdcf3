"""Whether taggers share an encoder: the digest of its tensors, read from the file without torch."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

WEIGHTS, HEAD, TOKENIZER = "model.safetensors", "head.safetensors", "tokenizer.json"
OWN = ("classifier.", "chain.")  # what belongs to the head


def encoder_digest(folder: Path) -> str | None:
    """Equal for folders with equal encoders and tokenizers; None where that cannot be told, or nothing can be shared.

    A safetensors file is eight bytes with the length of its header, a JSON object that says where in the rest each
    tensor lies, and the tensors. A head with more than a linear layer and a CRF reads the encoder in its own way.
    """
    file = folder / WEIGHTS
    config, tokenizer = folder / "config.json", folder / TOKENIZER
    if not (file.is_file() and config.is_file() and tokenizer.is_file()):
        return None
    if any(name.startswith("lstm.") for name in _header(folder / HEAD)):
        return None
    header = _header(file)
    digest = hashlib.sha256(tokenizer.read_bytes())
    shape = json.loads(config.read_text(encoding="utf-8"))
    told = ("model_type", "hidden_act", "layer_norm_eps", "num_attention_heads", "global_attn_every_n_layers")
    digest.update(repr([shape.get(key) for key in told]).encode())
    begin = int.from_bytes(_read(file, 0, 8), "little") + 8
    for name in sorted(header):
        if name != "__metadata__" and not name.startswith(OWN):
            entry = header[name]
            start, end = entry["data_offsets"]
            digest.update(f"{name} {entry['dtype']} {entry['shape']}".encode())
            digest.update(_read(file, begin + start, end - start))
    return digest.hexdigest()


def _header(file: Path) -> dict[str, Any]:
    if not file.is_file():
        return {}
    size = int.from_bytes(_read(file, 0, 8), "little")
    header: dict[str, Any] = json.loads(_read(file, 8, size))
    return header


def _read(file: Path, offset: int, count: int) -> bytes:
    with file.open("rb") as stream:
        stream.seek(offset)
        return stream.read(count)
