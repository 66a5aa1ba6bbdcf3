"""What models a service may load, and what it says of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from biosmith.annotate.tuned import name_of
from biosmith.artefact import MANIFEST
from biosmith.errors import BadInput, UsageError
from biosmith.serve.schemas import Model

# Files that hold pickled Python objects, which run whatever code was put into them when they are loaded.
UNSAFE = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".joblib", ".h5", ".msgpack", ".py")
SAFE = (".safetensors", ".onnx")


def require_safe(folder: Path) -> None:
    """Raise unless the folder's weights are in a form that cannot run code.

    Raises:
        UsageError: there are none in such a form, there are others beside them, or the model brings code of its own.
        BadInput: its config or manifest is not JSON.
    """
    if not (folder / "config.json").is_file():
        what = (
            "has no config.json"
            if folder.is_dir()
            else "is no folder"
            if folder.exists()
            else "does not exist"
        )
        raise UsageError(f"{folder} {what}; expected a tuned model's folder")
    files = [path for path in folder.rglob("*") if path.is_file()]
    # OpenVINO keeps plain numbers in a .bin file, beside the .xml that `quantize` writes into the manifest.
    engine = _settings(folder).get("engine")
    network = []
    for named in (engine.get("file"), engine.get("careful")) if isinstance(engine, dict) else ():
        if named is not None and (not isinstance(named, str) or named != Path(named).name):
            raise UsageError(f"{folder / MANIFEST} names no file of its folder as the network: {named!r}")
        network += [folder / named, (folder / named).with_suffix(".bin")] if named else []
    if not any(path.suffix in SAFE or path in network for path in files):
        raise UsageError(f"{folder} has no weights in safetensors; the service loads no other")
    for path in files:
        if path.suffix in UNSAFE and path not in network:
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
        names = config.get("id2label")
        labels = [str(label) for label in names.values()] if isinstance(names, dict) else []
        types = {label.partition("-")[2] if label[1:2] == "-" else label for label in labels if label != "O"}
        manifest, settings = _read(folder / MANIFEST), _settings(folder)
        described.append(
            Model(
                name=name_of(folder),
                task=str(settings.get("task") or (config.get("architectures") or ["unknown"])[0]),
                types=sorted(types),
                made={key: manifest[key] for key in ("version", "created") if manifest.get(key)},
            )
        )
    return described


def _settings(folder: Path) -> dict[str, Any]:
    """The config of a folder's manifest."""
    config = _read(folder / MANIFEST).get("config")
    return config if isinstance(config, dict) else {}


def _read(path: Path) -> dict[str, Any]:
    """The object of a JSON file; an empty one where there is no file."""
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise BadInput(path, f"is not JSON: {error}") from error
    return value if isinstance(value, dict) else {}
