"""Several devices: the only file that knows there is more than one. Processes are started by `torchrun`.

The micro-batches of a step are dealt out to the processes in turn. Which micro-batches a step has, in which order and with
which dropout, does not depend on the number of processes, so a run gives the same losses, up to rounding, on any number.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from biosmith.errors import UsageError

# Steps between a request to stop on one process and the stop of all, so that no step waits for the vote.
VOTE_DELAY = 2


@dataclass(frozen=True)
class Devices:
    """This process among all: its device, its number and how many there are; "ddp" or "fsdp"."""

    device: torch.device
    rank: int = 0
    size: int = 1
    strategy: str = "ddp"

    def __str__(self) -> str:
        return self.device.type if self.size == 1 else f"{self.size} x {self.device.type} ({self.strategy})"

    @property
    def first(self) -> bool:
        """The process that writes files and talks."""
        return self.rank == 0

    @property
    def share(self) -> slice:
        """Which micro-batches of a step are this process's."""
        return slice(self.rank, None, self.size)

    def reduce(self, tensor: Tensor) -> None:
        """Add a tensor up over all processes, in place."""
        if self.size > 1:
            dist.all_reduce(tensor)

    def wait(self) -> None:
        """Wait for all processes."""
        if self.size > 1:
            dist.barrier()


@contextlib.contextmanager
def joined(device: torch.device, strategy: str = "ddp") -> Iterator[Devices]:
    """Join the processes that torchrun started, or be alone if it did not.

    Raises:
        UsageError: an unknown strategy, or more processes on this machine than CUDA devices.
    """
    if strategy not in ("ddp", "fsdp"):
        raise UsageError(f"--parallel {strategy!r} is unknown; valid: ddp, fsdp")
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        yield Devices(device, strategy=strategy)
        return
    rank, local = int(os.environ["RANK"]), int(os.environ.get("LOCAL_RANK", "0"))
    if device.type == "cuda":
        if local >= torch.cuda.device_count():
            raise UsageError(
                f"torchrun started process {local} on a machine with {torch.cuda.device_count()} CUDA devices; "
                "set --nproc-per-node to that number"
            )
        device = torch.device("cuda", local)
        torch.cuda.set_device(device)
    # Votes and barriers go over gloo, so that they never wait for work on a card.
    dist.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo")
    if rank:  # one process answers for all
        sys.stdout.flush()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    try:
        yield Devices(device, rank, size, strategy)
    finally:
        dist.destroy_process_group()


def shard(layers: Sequence[nn.Module], root: nn.Module, low: bool) -> None:
    """FSDP2: each layer's parameters, gradients and optimizer state are spread over the devices.

    Args:
        layers: modules that are gathered one at a time.
        root: holds them and everything else.
        low: gather and compute in bfloat16; gradients are added up in float32.
    """
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32) if low else MixedPrecisionPolicy()
    for layer in layers:
        fully_shard(layer, mp_policy=policy)
    fully_shard(root, mp_policy=policy)


def spread_again(module: nn.Module) -> None:
    """Give up the whole parameters that a forward pass without a backward pass leaves behind (FSDP2's root)."""
    for part in module.modules():
        reshard: Callable[[], None] | None = getattr(part, "reshard", None)
        if reshard is not None:
            reshard()


def is_spread(tensor: Tensor) -> bool:
    """Whether each device holds a part of the tensor only."""
    return hasattr(tensor, "full_tensor")


def gather(tensor: Tensor) -> Tensor:
    """The whole of a tensor, on every device; all processes have to take part if it is spread."""
    whole: Callable[[], Tensor] | None = getattr(tensor, "full_tensor", None)
    return tensor if whole is None else whole()


def spread_like(model: Tensor, whole: Tensor) -> Tensor:
    """A whole tensor placed as `model` is: on its device, or spread over devices."""
    if not is_spread(model):
        return whole.to(model.device)
    from torch.distributed.tensor import DTensor, distribute_tensor

    assert isinstance(model, DTensor)
    return distribute_tensor(whole.to(model.device), model.device_mesh, model.placements)


def local_part(tensor: Tensor) -> Tensor:
    """This device's part, sharing memory with it."""
    part: Callable[[], Tensor] | None = getattr(tensor, "to_local", None)
    return tensor if part is None else part()


def replicate(loss_sums: nn.Module, devices: Devices) -> nn.Module:
    """DDP: every device has the whole model; gradients are averaged while the backward pass still runs."""
    from torch.nn.parallel import DistributedDataParallel

    ids = [devices.device] if devices.device.type == "cuda" else None
    return DistributedDataParallel(
        loss_sums, device_ids=ids, broadcast_buffers=False, gradient_as_bucket_view=True
    )


def without_reduction(module: Any, last: bool) -> AbstractContextManager[Any]:
    """For every micro-batch of a step but the last: add gradients up on the device, and reduce them later."""
    no_sync: Callable[[], AbstractContextManager[Any]] | None = getattr(module, "no_sync", None)
    return contextlib.nullcontext() if last or no_sync is None else no_sync()


class Vote:
    """Do all processes stop after this step? One request is enough; it takes effect `VOTE_DELAY` steps later, on all
    processes alike, and at once where there is a single one."""

    def __init__(self, devices: Devices) -> None:
        self.devices = devices
        self._open: deque[tuple[Tensor, dist.Work | None]] = deque()

    def cast(self, wants_to_stop: bool) -> bool:
        """To be called once a step by every process."""
        if self.devices.size == 1:
            return wants_to_stop
        ballot = torch.tensor([float(wants_to_stop)])
        self._open.append((ballot, dist.all_reduce(ballot, async_op=True)))
        if len(self._open) <= VOTE_DELAY:
            return False
        counted, work = self._open.popleft()
        if work is not None:
            work.wait()
        return bool(counted.item() > 0)

    def close(self) -> None:
        """Wait for the votes that are still open."""
        for _, work in self._open:
            if work is not None:
                work.wait()
        self._open.clear()
