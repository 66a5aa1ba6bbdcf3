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
from safetensors.torch import save_file

from biosmith.artefact import (
    MANIFEST,
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
    command_without_paths,
    trace_origin,
    without_paths,
)
from biosmith.models.checkpoint import INDEX, WEIGHTS, read_tensors
from biosmith.models.converting import DTYPES

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
        UsageError: `out` exists, `folder` has no manifest, an unknown dtype, no such card.
    """
    require_new_folder(out)
    manifest = load_manifest(folder)
    if dtype is not None and dtype not in DTYPES:
        raise UsageError(f"dtype {dtype!r} is unknown; valid: {', '.join(DTYPES)}")
    if card is not None and not card.is_file():
        raise UsageError(f"{card} does not exist")
    origin = trace_origin(folder)
    with folder_by_rename(out) as temporary:
        weights = [folder / WEIGHTS, folder / INDEX, *folder.glob("model-*-of-*.safetensors")]
        for file in sorted(folder.iterdir()):
            if file.is_file() and file not in weights and file.name not in (MANIFEST, LINEAGE, CARD):
                shutil.copyfile(file, temporary / file.name)
        if any(file.is_file() for file in weights):
            _write_weights(folder, temporary, dtype, shard_megabytes)
        text = (
            (card or folder / CARD).read_text(encoding="utf-8") if card or (folder / CARD).is_file() else ""
        )
        (temporary / CARD).write_text(without_paths(text), encoding="utf-8")
        write_json(temporary / LINEAGE, without_paths(to_plain(origin)))
        dataclasses.replace(
            manifest,
            config=without_paths(manifest.config),
            command=command_without_paths(manifest.command),
            inputs=[without_paths(describe_input(folder))],
            files=describe_files(temporary),
        ).save(temporary)
        sizes = [file.stat().st_size for file in temporary.iterdir()]
    everything = list(origin.walk())
    missing = tuple(
        dict.fromkeys(f"{o.kind} {o.digest[:12]}" for o in everything if o.state in (MISSING, NAMED))
    )
    return Release(out, sum(sizes), max(sizes), len({o.digest for o in everything}), missing)


def _write_weights(source: Path, out: Path, dtype: str | None, shard_megabytes: int) -> None:
    tensors = read_tensors(source)
    if dtype is not None:
        wanted = DTYPES[dtype]
        tensors = {name: t.to(wanted) if t.is_floating_point() else t for name, t in tensors.items()}
        config = json.loads((out / "config.json").read_text(encoding="utf-8"))
        config.pop("torch_dtype", None)
        write_json(out / "config.json", config | {"dtype": dtype})
    limit = shard_megabytes * MEGABYTE or sum(t.nbytes for t in tensors.values()) + 1
    split = split_torch_state_dict_into_shards(tensors, max_shard_size=limit)
    for name, members in split.filename_to_tensors.items():
        shard = {member: tensors[member].contiguous() for member in members}
        save_file(shard, out / name, metadata={"format": "pt"})
        (out / name).chmod(0o644)  # safetensors writes for the owner alone
    if split.is_sharded:
        write_json(out / INDEX, {"metadata": split.metadata, "weight_map": split.tensor_to_filename})
