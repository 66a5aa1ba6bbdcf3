"""Model folders made fit for publishing: smaller weights, files below a host's limit, and nothing of one's own machine.

A manifest names inputs by the paths of the day, which say nothing to others and something about its author. A released
folder names them by their last part and digest, and holds the manifests behind them in `lineage.json`, so that
`biosmith trace` walks it back where none of them is at hand.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import split_torch_state_dict_into_shards

from biosmith.artefact import (
    MANIFEST,
    Manifest,
    describe_files,
    describe_input,
    folder_by_rename,
    load_manifest,
    require_new_folder,
    to_plain,
    write_json,
)
from biosmith.errors import UsageError
from biosmith.lineage import (
    LINEAGE,
    MISSING,
    NAMED,
    Origin,
    command_without_paths,
    trace_origin,
    without_paths,
)
from biosmith.models.checkpoint import DTYPES, INDEX, WEIGHTS, cast, read_tensors
from biosmith.models.saving import save_tensors

MEGABYTE = 10**6
CARD = "README.md"


@dataclass(frozen=True)
class Release:
    """What was made.

    Attributes:
        model: the folder.
        bytes: of all its files.
        largest: bytes of its largest file.
        origins: artefacts and files that its lineage names.
        missing: those of them that were not at hand, and are known by their digests alone.
    """

    model: Path
    bytes: int
    largest: int
    origins: int
    missing: tuple[str, ...]


def release(
    folder: Path,
    out: Path,
    *,
    dtype: str | None = None,
    shard_megabytes: int = 0,
    card: Path | None = None,
) -> Release:
    """Copy a model's folder for publishing.

    Args:
        folder: made by `export`, `finetune` or `quantize`.
        out: the folder to make.
        dtype: of the weights ("float16", ...); None keeps theirs. Folders of a CPU engine are copied as they are.
        shard_megabytes: the largest file of weights, in units of 10^6 bytes; 0 for no limit.
        card: the text of its README.md; None takes that of `folder`.

    Raises:
        UsageError: `out` exists, `folder` has no manifest or is no model, an unknown dtype, a limit below 0, no such card.
        BadInput: a number is too large for `dtype`.
    """
    require_new_folder(out)
    manifest = load_manifest(folder)
    if manifest.kind not in ("model", "tuned"):
        way = "; `biosmith export` makes one of it" if manifest.kind == "run" else ""
        raise UsageError(f"{folder} is a {manifest.kind} artefact, not a model{way}")
    if dtype is not None and dtype not in DTYPES:
        raise UsageError(f"dtype {dtype!r} is unknown; valid: {', '.join(DTYPES)}")
    if shard_megabytes < 0:
        raise UsageError(f"a file of weights cannot have {shard_megabytes} megabytes; 0 is no limit")
    if card is not None and not card.is_file():
        raise UsageError(f"{card} does not exist")
    origin = trace_origin(folder)
    with folder_by_rename(out) as temporary:
        _copy(folder, temporary, dtype, shard_megabytes)
        if card is not None:
            _copy_card(card, temporary)
        _vouch(manifest, origin, folder, temporary)
        sizes = [file.stat().st_size for file in temporary.rglob("*") if file.is_file()]
    everything = list(origin.walk())
    missing = tuple(
        dict.fromkeys(f"{o.kind} {o.digest[:12]}" for o in everything if o.state in (MISSING, NAMED))
    )
    return Release(out, sum(sizes), max(sizes), len({o.digest for o in everything}), missing)


def _copy(folder: Path, out: Path, dtype: str | None, shard_megabytes: int) -> None:
    """All of a folder but its manifest and lineage; the models in it (of a latent-variable model) in the same way."""
    weights = [folder / WEIGHTS, folder / INDEX, *folder.glob("model-*-of-*.safetensors")]
    for child in sorted(folder.iterdir()):
        if child.is_file() and child not in weights and child.name not in (MANIFEST, LINEAGE, CARD):
            shutil.copyfile(child, out / child.name)
        elif (child / "config.json").is_file():
            (out / child.name).mkdir()
            _copy(child, out / child.name, dtype, shard_megabytes)
            if (child / MANIFEST).is_file():
                _vouch(load_manifest(child), trace_origin(child), child, out / child.name)
    if any(file.is_file() for file in weights):
        _write_weights(folder, out, dtype, shard_megabytes)
    if (folder / CARD).is_file():
        _copy_card(folder / CARD, out)


def _copy_card(card: Path, out: Path) -> None:
    (out / CARD).write_text(without_paths(card.read_text(encoding="utf-8")), encoding="utf-8")


def _vouch(manifest: Manifest, origin: Origin, folder: Path, out: Path) -> None:
    """Write the manifest of a folder's copy, and its lineage."""
    write_json(out / LINEAGE, without_paths(to_plain(origin)))
    dataclasses.replace(
        manifest,
        config=without_paths(manifest.config),
        command=command_without_paths(manifest.command),
        inputs=[without_paths(describe_input(folder))],
        files=describe_files(out),
    ).save(out)


def _write_weights(source: Path, out: Path, dtype: str | None, shard_megabytes: int) -> None:
    tensors = read_tensors(source)
    if dtype is not None:
        tensors = cast(tensors, DTYPES[dtype], source)
        config = json.loads((out / "config.json").read_text(encoding="utf-8"))
        config.pop("torch_dtype", None)
        write_json(out / "config.json", config | {"dtype": dtype})
    limit = shard_megabytes * MEGABYTE or sum(t.nbytes for t in tensors.values()) + 1
    split = split_torch_state_dict_into_shards(tensors, max_shard_size=limit)
    for name, members in split.filename_to_tensors.items():
        shard = {member: tensors[member].contiguous() for member in members}
        save_tensors(shard, out / name)
    if split.is_sharded:
        write_json(out / INDEX, {"metadata": split.metadata, "weight_map": split.tensor_to_filename})
