"""Checkpoints: folders that appear by rename, so that a kill at any moment leaves the last complete one.

`checkpoints/step-N/` holds `model.safetensors` (the parameters of `PretrainingModel` under their own names), `optimizer/`
(torch's distributed checkpoint, which loads at any number of devices) and `state.json` (where the run stands, and the
digests of the other files).
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from biosmith.artefact import describe_files, digest_file, folder_by_rename, write_json
from biosmith.errors import BadInput
from biosmith.pretraining.loading import Cursor

FOLDER, MODEL, OPTIMIZER, STATE = "checkpoints", "model.safetensors", "optimizer", "state.json"


@dataclass(frozen=True)
class RunState:
    """Where a run stands after `step` updates.

    Attributes:
        step: finished updates.
        cursor: the next micro-batch.
        window: sums of the log window that is open (`step.Window`).
        tokens: real tokens of the whole run.
        watch: state of the plateau warning.
    """

    step: int
    cursor: Cursor
    window: tuple[float, ...]
    tokens: int
    watch: Mapping[str, Any]


def save_checkpoint(
    run: Path, model: nn.Module, optimizers: Sequence[torch.optim.Optimizer], state: RunState
) -> Path:
    """Write `checkpoints/step-N`; there already, it is left as it is."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict

    folder = run / FOLDER / f"step-{state.step}"
    if (folder / STATE).is_file():
        return folder
    with folder_by_rename(folder) as temporary:
        tensors = {name: t.detach().cpu().contiguous() for name, t in model.state_dict().items()}
        save_file(tensors, temporary / MODEL)
        optimizer_state = get_optimizer_state_dict(model, optimizers)
        with _alone():
            dcp.save({"optimizer": optimizer_state}, checkpoint_id=temporary / OPTIMIZER, no_dist=True)
        files = describe_files(temporary)
        write_json(temporary / STATE, {**dataclasses.asdict(state), "files": files})
    return folder


def load_checkpoint(folder: Path, model: nn.Module, optimizers: Sequence[torch.optim.Optimizer]) -> RunState:
    """Put a checkpoint into a model and its optimizers, and say where the run stood.

    Raises:
        BadInput: a file is missing, damaged, or of a model of another shape; the message names it.
    """
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict, set_optimizer_state_dict

    state = read_state(folder)
    try:
        tensors = load_file(folder / MODEL)
    except SafetensorError as error:
        raise BadInput(folder / MODEL, f"is damaged: {error}") from error
    _check_shapes(folder / MODEL, tensors, model)
    model.load_state_dict(tensors)
    held = {"optimizer": get_optimizer_state_dict(model, optimizers)}
    with _alone():
        dcp.load(held, checkpoint_id=folder / OPTIMIZER, no_dist=True)
    set_optimizer_state_dict(model, optimizers, held["optimizer"])
    return state


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """torch warns that there is a single process, which is what was asked for."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is disabled", category=UserWarning)
        yield


def read_state(folder: Path) -> RunState:
    """`state.json` of a checkpoint, after checking that the other files are what it says.

    Raises:
        BadInput: a file is missing or damaged.
    """
    try:
        data = json.loads((folder / STATE).read_text(encoding="utf-8"))
        files = data.pop("files")
        data["cursor"] = Cursor(**data["cursor"])
        data["window"] = tuple(data["window"])
        state = RunState(**data)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInput(folder / STATE, f"is not the state of a checkpoint: {error!r}") from error
    for name, described in files.items():
        path = folder / name
        if not path.is_file():
            raise BadInput(path, "is missing; remove this checkpoint to resume from the one before")
        if path.stat().st_size != described["bytes"] or digest_file(path) != described["digest"]:
            raise BadInput(path, "is damaged; remove this checkpoint to resume from the one before")
    return state


def _check_shapes(file: Path, tensors: Mapping[str, torch.Tensor], model: nn.Module) -> None:
    wanted = {name: tuple(t.shape) for name, t in model.state_dict().items()}
    found = {name: tuple(t.shape) for name, t in tensors.items()}
    for name in sorted(wanted.keys() | found.keys()):
        if wanted.get(name) != found.get(name):
            raise BadInput(
                file,
                f"is a checkpoint of another architecture: {name} has shape {found.get(name, 'none')}, "
                f"the recipe asks for {wanted.get(name, 'none')}",
            )


def list_checkpoints(run: Path) -> list[Path]:
    """Complete checkpoints of a run, oldest first."""
    found = [
        (int(m[1]), p) for p in (run / FOLDER).glob("step-*") if (m := re.fullmatch(r"step-(\d+)", p.name))
    ]
    return [path for _, path in sorted(found) if (path / STATE).is_file()]


def remove_old_checkpoints(run: Path, keep: int) -> None:
    """Keep the newest ones (0 keeps all), and remove what killed runs left half written."""
    for path in list_checkpoints(run)[:-keep] if keep else []:
        path.rename(path.with_name(f".{path.name}.tmp"))
    for path in (run / FOLDER).glob(".step-*.tmp"):
        shutil.rmtree(path, ignore_errors=True)
