"""Checkpoints: folders that appear by rename, so that a kill at any moment leaves the last complete one.

`checkpoints/step-N/` holds `model.safetensors` (the parameters of `PretrainingModel` under their own names),
`optimizer.safetensors` (the optimizers' state, whole) and `state.json` (where the run stands, and the digests of the other
files). Nothing in it depends on the number of devices that wrote it.
"""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from biosmith.artefact import describe_files, digest_file, folder_by_rename, write_json
from biosmith.errors import BadInput
from biosmith.models.saving import save_tensors
from biosmith.pretraining.loading import Cursor
from biosmith.pretraining.parallel import Devices, gather, spread_like

FOLDER, MODEL, OPTIMIZER, STATE = "checkpoints", "model.safetensors", "optimizer.safetensors", "state.json"


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
    run: Path,
    model: nn.Module,
    optimizers: Sequence[torch.optim.Optimizer],
    state: RunState,
    devices: Devices | None = None,
) -> Path:
    """Write `checkpoints/step-N`; there already, it is left as it is. All processes call it, the first one writes.

    Raises:
        OSError: the disk is full; it names the file, and nothing is left.
    """
    folder = run / FOLDER / f"step-{state.step}"
    if (folder / STATE).is_file():
        return folder
    first = devices is None or devices.first
    tensors = _collect(dict(model.named_parameters()), first)
    optimizer = _collect(optimizer_tensors(model, optimizers), first)
    if first:
        with folder_by_rename(folder) as temporary:
            save_tensors(tensors, temporary / MODEL)
            save_tensors(optimizer, temporary / OPTIMIZER)
            write_json(temporary / STATE, {**dataclasses.asdict(state), "files": describe_files(temporary)})
    return folder


def _collect(tensors: Mapping[str, torch.Tensor], keep: bool) -> dict[str, torch.Tensor]:
    """Tensors whole and on the CPU; where they are spread over devices, all processes have to take part."""
    whole = ((name, gather(tensor.detach(), name)) for name, tensor in tensors.items())
    return {name: tensor.cpu().contiguous() for name, tensor in whole if keep}


def optimizer_tensors(
    model: nn.Module, optimizers: Sequence[torch.optim.Optimizer]
) -> dict[str, torch.Tensor]:
    """The state of optimizers as "exp_avg/encoder.embeddings.words.weight" -> tensor."""
    found = {}
    for name, parameter in model.named_parameters():
        for optimizer in optimizers:
            for key, value in optimizer.state.get(parameter, {}).items():
                found[f"{key}/{name}"] = value
    return found


def load_checkpoint(folder: Path, model: nn.Module, optimizers: Sequence[torch.optim.Optimizer]) -> RunState:
    """Put a checkpoint into a model and its optimizers, and say where the run stood.

    It does not matter how many devices wrote it, nor how the parameters were spread over them.

    Raises:
        BadInput: a file is missing, damaged, or of a model of another shape; the message names it.
    """
    state = read_state(folder)
    tensors, optimizer = _read(folder / MODEL), _read(folder / OPTIMIZER)
    _check_shapes(folder / MODEL, tensors, model)
    owners = {id(p): o for o in optimizers for group in o.param_groups for p in group["params"]}
    parameters = dict(model.named_parameters())
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(spread_like(parameter, tensors[name], name))
        for key, value in optimizer.items():
            kind, _, name = key.partition("/")
            parameter = parameters[name]
            placed = value.to(parameter.device) if value.ndim == 0 else spread_like(parameter, value, name)
            owners[id(parameter)].state[parameter][kind] = placed
    return state


def _read(file: Path) -> dict[str, torch.Tensor]:
    try:
        return load_file(file)
    except SafetensorError as error:
        raise BadInput(file, f"is damaged: {error}") from error


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
    wanted = {name: tuple(t.shape) for name, t in model.named_parameters()}
    found = {name: tuple(t.shape) for name, t in tensors.items()}
    for name in sorted(wanted.keys() | found.keys()):
        if wanted.get(name) != found.get(name):
            raise BadInput(
                file,
                f"is a checkpoint of another architecture: {name} has shape {found.get(name, 'none')}, "
                f"the recipe asks for {wanted.get(name, 'none')}",
            )


def list_checkpoints(run: Path) -> list[Path]:
    """Checkpoints of a run, oldest first.

    Raises:
        BadInput: one has files, but not the one that says where the run stood, as of a run that was copied in part.
    """
    found = [
        (int(m[1]), p) for p in (run / FOLDER).glob("step-*") if (m := re.fullmatch(r"step-(\d+)", p.name))
    ]
    whole = [path for _, path in sorted(found) if (path / STATE).is_file()]
    for _, path in found:
        # One that a run removes meanwhile is no longer there.
        if path not in whole and path.is_dir() and any(path.iterdir()):
            raise BadInput(path / STATE, "is missing; remove this checkpoint to resume from the one before")
    return whole


def remove_old_checkpoints(run: Path, keep: int) -> None:
    """Keep the newest ones (0 keeps all), and remove what killed runs left half written."""
    for path in list_checkpoints(run)[:-keep] if keep else []:
        path.rename(path.with_name(f".{path.name}.tmp"))
    for path in (run / FOLDER).glob(".step-*.tmp"):
        shutil.rmtree(path, ignore_errors=True)
