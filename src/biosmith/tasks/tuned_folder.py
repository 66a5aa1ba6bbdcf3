"""What every tuned folder holds beside the model: metrics, a card, and a manifest that says how to load it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from biosmith.artefact import (
    MANIFEST,
    Manifest,
    describe_files,
    describe_input,
    folder_by_rename,
    load_manifest,
    to_plain,
)
from biosmith.models.checkpoint import WEIGHTS
from biosmith.tasks.training import History

METRICS = "metrics.jsonl"

# kind -> what Hugging Face calls such a model, and what we do
PIPELINES = {
    "tagging": ("token-classification", "A tagger"),
    "words": ("token-classification", "A tagger of words"),
    "relation": ("text-classification", "A classifier of relations"),
    "similarity": ("text-classification", "A model of the similarity of two sentences"),
    "documents": ("text-classification", "A classifier with any number of labels a text"),
    "classification": ("text-classification", "A classifier"),
    "yesno": ("text-classification", "A classifier of answers to questions over a text"),
    "factoid": ("question-answering", "A finder of answers in texts"),
    "squad": ("question-answering", "A finder of answers in texts"),
}


class Saves(Protocol):
    """A network that can write itself (see `network.Network`)."""

    def save(self, folder: Path, *, labels: Sequence[str], manifest: Manifest, card: str) -> None:
        """Write a Hugging Face folder into an empty one."""


def write_tuned(
    folder: Path,
    network: Saves,
    manifest: Manifest,
    *,
    kind: str,
    labels: Sequence[str],
    config: Mapping[str, Any],
    counts: Mapping[str, Any],
    history: History | None,
) -> None:
    """Write a tuned folder by rename.

    Args:
        folder: must not exist, or be empty.
        network: what to save.
        manifest: of whoever asked for it; gets the kind, `config` and `counts`, its own keys win.
        kind, labels: of the model.
        config: what is needed to load it again.
        counts: what it was made from.
        history: written as metrics.jsonl if there is one.
    """
    full = dataclasses.replace(
        manifest,
        kind="tuned",
        config=to_plain({"kind": kind, "labels": list(labels), **config, **manifest.config}),
        counts=to_plain({**counts, **manifest.counts}),
    )
    with folder_by_rename(folder) as temporary:
        network.save(temporary, labels=labels, manifest=full, card=_card(folder, full, kind, labels))
        if history is not None:
            _add_metrics(temporary, history)


def _add_metrics(folder: Path, history: History) -> None:
    lines = "".join(json.dumps(to_plain(line)) + "\n" for line in history.lines)
    (folder / METRICS).write_text(lines, encoding="utf-8")
    manifest = load_manifest(folder)
    files = {**manifest.files, **describe_files(folder, [METRICS])}
    dataclasses.replace(manifest, files=files).save(folder)


def describe_model(folder: Path) -> dict[str, Any]:
    """A model as an input: by its manifest, or by its weights where it has none."""
    if (folder / MANIFEST).is_file() or not (folder / WEIGHTS).is_file():
        return describe_input(folder)
    return describe_input(folder / WEIGHTS)


def kept_epoch(history: History, keep: str) -> int:
    """The epoch whose weights a run ended with."""
    return history.best_epoch if keep == "best" and history.best_epoch else history.epoch


def _card(folder: Path, manifest: Manifest, kind: str, labels: Sequence[str]) -> str:
    pipeline, what = PIPELINES[kind]
    value = manifest.counts.get("dev_value")
    dev = "" if value is None else f"Score on the development split: {100 * value:.2f}\n\n"
    named = f" Labels: {', '.join(labels)}." if labels else ""
    task = manifest.config.get("task", kind)
    return (
        f"---\nlibrary_name: transformers\npipeline_tag: {pipeline}\ntags:\n- biology\n- biomedical\n---\n\n"
        f"# {folder.name}\n\n{what} made by biosmith {manifest.version} (`finetune {task}`).{named}\n\n{dev}"
        "`manifest.json` names the model and data it was made from, by digest, and every setting.\n"
    )
