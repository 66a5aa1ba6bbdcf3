"""What a tuned tagger's folder says of itself, read without torch or transformers.

`finetune` makes plain folders of Hugging Face. `quantize` makes folders for one CPU engine: the network in that
engine's own form, with `config.json`, `tokenizer.json` and a manifest whose config has an "engine".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from biosmith.artefact import MANIFEST, Manifest, load_manifest
from biosmith.errors import BadInput, UsageError
from biosmith.tasks.decoding import Chain
from biosmith.tasks.labels import LabelSet

DEFAULT_STRIDE = 128
TAGGERS = ("tagging", "words")


@dataclass(frozen=True)
class EngineFile:
    """A network in the form of one engine.

    Attributes:
        engine: "openvino" or "onnx".
        file: name of the network's file in the folder.
        precision: "int8" or "float32": of its weights.
        vnni: made for processors that multiply int8 without overflow; others need it made anew.
        max_length: tokens that it reads.
        careful: name of a second network's file, slower and closer to 32 bits, which reads sequences with close
            decisions again (see `engines.cascade`); None without one. OpenVINO alone.
        threshold: log-odds of the best label against the second, below which a decision is close.
    """

    engine: str
    file: str
    precision: str
    max_length: int
    vnni: bool = False
    careful: str | None = None
    threshold: float = 0.0


@dataclass(frozen=True)
class TunedTagger:
    """A tuned tagger's folder.

    Attributes:
        folder: where it is.
        label_set: labels, in the order of its outputs.
        max_length: tokens of the longest sequence it was trained on; None where the folder does not say.
        stride: pieces that overlapping windows share.
        chain: scores of a CRF that an engine folder holds.
        network: in the form of an engine; None for plain folders.
        manifest: None for folders that biosmith has not made.
    """

    folder: Path
    label_set: LabelSet
    max_length: int | None
    stride: int
    chain: Chain | None
    network: EngineFile | None
    manifest: Manifest | None


def read_tuned(folder: Path) -> TunedTagger:
    """What the folder of a tagger says.

    Raises:
        UsageError: no such folder, no label map, or a model tuned for another task.
        BadInput: config.json or the manifest is damaged, or labels are no tags.
    """
    labels = read_labels(folder)
    manifest, config = _manifest(folder)
    kind = kind_of(folder)
    if kind not in TAGGERS:
        raise UsageError(f"{folder} was tuned for {kind}; a tagger is needed ({', '.join(TAGGERS)})")
    label_set = LabelSet.of_folder(folder, labels)
    counts = {} if manifest is None else manifest.counts
    engine, chain = config.get("engine"), config.get("chain")
    try:
        return TunedTagger(
            folder,
            label_set,
            config.get("max_length"),
            int(counts.get("longest_mention", DEFAULT_STRIDE)),
            None if chain is None else Chain(*(np.array(part, np.float32) for part in chain)),
            None if engine is None else _network(folder, engine),
            manifest,
        )
    except (TypeError, ValueError, AttributeError) as error:
        raise BadInput(folder / MANIFEST, f"is not the manifest of a tagger: {error}") from error


def _network(folder: Path, engine: Mapping[str, Any]) -> EngineFile:
    network = EngineFile(**engine)
    if network.careful is not None and not network.threshold > 0:
        raise BadInput(
            folder / MANIFEST,
            f"has to be above 0 for {network.careful} to read anything",
            record="config.engine.threshold",
            value=network.threshold,
        )
    return network


def _manifest(folder: Path) -> tuple[Manifest | None, Mapping[str, Any]]:
    """The manifest of a folder and its config; None and nothing where there is none."""
    if not (folder / MANIFEST).is_file():
        return None, {}
    manifest = load_manifest(folder)
    return manifest, manifest.config


def name_of(folder: Path) -> str:
    """What a model is called: its folder as it was given, a link by its own name."""
    return folder.name if folder.name not in ("", "..") else folder.resolve().name


def kind_of(folder: Path) -> str:
    """What a folder was tuned for, a kind of `tasks.fitting`; "tagging" where it does not say."""
    _, config = _manifest(folder)
    if "kind" in config:
        return str(config["kind"])
    if "task" not in config and (folder / "config.json").is_file():
        named = (folder / "config.json").read_text(encoding="utf-8", errors="replace")
        if "ForSequenceClassification" in named:
            return "classification"
    task = str(config.get("task", "ner"))
    return "tagging" if task == "ner" else task


def is_for_engine(folder: Path) -> bool:
    """Whether a folder was made for one CPU engine."""
    return _manifest(folder)[1].get("engine") is not None


def read_labels(folder: Path) -> list[str]:
    """The labels of a tuned folder, in the order of its outputs. Raises as `read_tuned`."""
    file = folder / "config.json"
    if not file.is_file():
        what = (
            "has no config.json"
            if folder.is_dir()
            else "is no folder"
            if folder.exists()
            else "does not exist"
        )
        raise UsageError(f"{folder} {what}; expected a Hugging Face model folder")
    try:
        labels = json.loads(file.read_text(encoding="utf-8"))["id2label"]
        return [str(labels[key]) for key in sorted(labels, key=int)]
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise BadInput(file, f"is not JSON: {error}") from error
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{folder} has no label map in its config.json; it is not a tuned model") from error
