"""What models a service may load, and what it says of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from biosmith.errors import UsageError
from biosmith.serve.schemas import Model

# Files that hold pickled Python objects, which run whatever code was put into them when they are loaded.
UNSAFE = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".joblib", ".h5", ".msgpack", ".py")
# OpenVINO keeps plain numbers in .bin files, beside an .xml of the same name.
SAFE = (".safetensors", ".onnx", ".xml")


def require_safe(folder: Path) -> None:
    """Raise unless the folder's weights are in a form that cannot run code.

    Raises:
        UsageError: there are none in such a form, there are others beside them, or the model brings code of its own.
    """
    if not (folder / "config.json").is_file():
        what = "has no config.json" if folder.is_dir() else "does not exist"
        raise UsageError(f"{folder} {what}; expected a tuned model's folder")
    files = [path for path in folder.rglob("*") if path.is_file()]
    if not any(path.suffix in SAFE for path in files):
        raise UsageError(f"{folder} has no weights in safetensors; the service loads no other")
    for path in files:
        if path.suffix in UNSAFE and not (path.suffix == ".bin" and path.with_suffix(".xml").is_file()):
            raise UsageError(
                f"{path} may run code when it is loaded; keep only the safetensors in a model to serve"
            )
    if "auto_map" in _read(folder / "config.json"):
        raise UsageError(
            f"{folder} asks for code of its own (auto_map in config.json); such models are not served"
        )


def describe(folders: Sequence[Path]) -> list[Model]:
    """The models as the service lists them; no path of this machine is in it."""
    described = []
    for folder in folders:
        config = _read(folder / "config.json")
        labels = [str(label) for label in (config.get("id2label") or {}).values()]
        types = {label.partition("-")[2] if label[1:2] == "-" else label for label in labels if label != "O"}
        manifest = _read(folder / "manifest.json") if (folder / "manifest.json").is_file() else {}
        settings = manifest.get("config") or {}
        described.append(
            Model(
                name=folder.resolve().name,
                task=str(settings.get("task") or config.get("architectures", ["unknown"])[0]),
                types=sorted(types),
                made={key: manifest[key] for key in ("version", "created") if manifest.get(key)},
            )
        )
    return described


def _read(path: Path) -> dict[str, Any]:
    value = json.loads(path.read_text(encoding="utf-8"))
    return value if isinstance(value, dict) else {}
