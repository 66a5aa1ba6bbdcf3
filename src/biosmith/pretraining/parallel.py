"""Several devices: the only file that knows there is more than one. Processes are started by `torchrun`.

The micro-batches of a step are dealt out to the replicas in turn: a replica is one process, or several that share every
layer (tensor parallelism). Which micro-batches a step has, in which order and, on single processes, with which dropout,
does not depend on the number of processes, so a run gives the same losses, up to rounding, on any number.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from biosmith.errors import UsageError
from biosmith.pretraining.tensor_parallel import REPLICAS, TENSOR, in_shares, without_shares

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

# Steps between a request to stop on one process and the stop of all, so that no step waits for the vote.
VOTE_DELAY = 2


@dataclass(frozen=True)
class Devices:
    """This process among all: its device, its number and how many there are.

    Attributes:
        strategy: "ddp" or "fsdp": how replicas work together.
        tensor: processes with neighbouring numbers that share every layer, and so are one replica.
        mesh: the processes as [replicas, tensor], where `tensor` is more than 1.
    """

    device: torch.device
    rank: int = 0
    size: int = 1
    strategy: str = "ddp"
    tensor: int = 1
    mesh: DeviceMesh | None = None

    def __str__(self) -> str:
        if self.size == 1:
            return self.device.type
        ways = [f"{self.tensor} to a layer"] * (self.tensor > 1) + [self.strategy] * (self.replicas > 1)
        return f"{self.size} x {self.device.type} ({', '.join(ways)})"

    @property
    def first(self) -> bool:
        """The process that writes files and talks."""
        return self.rank == 0

    @property
    def replicas(self) -> int:
        """Copies of the model that see different micro-batches."""
        return self.size // self.tensor

    @property
    def replica(self) -> int:
        """Number of the copy that this process has, or has a part of."""
        return self.rank // self.tensor

    @property
    def parts(self) -> tuple[int, ...]:
        """What dropout depends on beside the micro-batch: devices that share a layer draw for different parts of it."""
        return (self.rank % self.tensor,) if self.tensor > 1 else ()

    @property
    def share(self) -> slice:
        """Which micro-batches of a step are this process's."""
        return slice(self.replica, None, self.replicas)

    def reduce(self, tensor: Tensor) -> None:
        """Add a tensor up over all replicas, in place."""
        if self.replicas > 1:
            dist.all_reduce(tensor, group=None if self.mesh is None else self.mesh.get_group(REPLICAS))

    def wait(self) -> None:
        """Wait for all processes."""
        if self.size > 1:
            dist.barrier()


@contextlib.contextmanager
def joined(device: torch.device, strategy: str = "ddp", tensor: int = 1) -> Iterator[Devices]:
    """Join the processes that torchrun started, or be alone if it did not.

    Args:
        device: of this process; its number is that of the process on its machine.
        strategy: "ddp" or "fsdp".
        tensor: processes that share every layer.

    Raises:
        UsageError: an unknown strategy, more processes on this machine than CUDA devices, or a number of processes
            that `tensor` does not divide.
    """
    if strategy not in ("ddp", "fsdp"):
        raise UsageError(f"--parallel {strategy!r} is unknown; valid: ddp, fsdp")
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if tensor < 1 or size % tensor:
        raise UsageError(
            f"--tensor-parallel {tensor} does not divide the {size} processes that torchrun started; set "
            f"--nproc-per-node to a multiple of it"
        )
    if tensor > 1 and size > tensor and strategy != "fsdp":
        raise UsageError(
            f"--tensor-parallel {tensor} with {size} processes needs --parallel fsdp: the replicas share parameters"
        )
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
        if tensor == 1:
            yield Devices(device, rank, size, strategy)
            return
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor.parallel import loss_parallel

        mesh = init_device_mesh(device.type, (size // tensor, tensor), mesh_dim_names=(REPLICAS, TENSOR))
        with loss_parallel():  # how DTensor computes the cross-entropy of logits that are spread over devices
            yield Devices(device, rank, size, strategy, tensor, mesh)
    finally:
        dist.destroy_process_group()


def shard(layers: Sequence[nn.Module], root: nn.Module, low: bool, devices: Devices) -> None:
    """FSDP2: each layer's parameters, gradients and optimizer state are spread over the replicas.

    Args:
        layers: modules that are gathered one at a time.
        root: holds them and everything else.
        low: gather and compute in bfloat16; gradients are added up in float32.
        devices: all of them; where several share a layer, each spreads its part.
    """
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32) if low else MixedPrecisionPolicy()
    mesh = None if devices.mesh is None else devices.mesh[REPLICAS]
    for layer in layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(root, mesh=mesh, mp_policy=policy)


def spread_again(module: nn.Module) -> None:
    """Give up the whole parameters that a forward pass without a backward pass leaves behind (FSDP2's root)."""
    for part in module.modules():
        reshard: Callable[[], None] | None = getattr(part, "reshard", None)
        if reshard is not None:
            reshard()


def is_spread(tensor: Tensor) -> bool:
    """Whether each device holds a part of the tensor only."""
    return hasattr(tensor, "full_tensor")


def gather(tensor: Tensor, name: str = "") -> Tensor:
    """The whole of a tensor, on every device; all processes have to take part if it is spread.

    Args:
        tensor: a parameter or its optimizer state, spread or not.
        name: of the parameter; a fused query, key and value matrix comes back in its usual order.
    """
    whole: Callable[[], Tensor] | None = getattr(tensor, "full_tensor", None)
    return tensor if whole is None else without_shares(whole(), _shares(tensor, name))


def spread_like(model: Tensor, whole: Tensor, name: str = "") -> Tensor:
    """A whole tensor placed as `model` is: on its device, or spread over devices. `name` as in `gather`."""
    if not is_spread(model):
        return whole.to(model.device)
    from torch.distributed.tensor import DTensor

    assert isinstance(model, DTensor)
    part = in_shares(whole, _shares(model, name)).to(model.device)
    # Layers are shared first, and each part then spread over the replicas: the last dimension of the mesh comes first.
    for number in reversed(range(model.device_mesh.ndim)):
        placement = model.placements[number]
        if not placement.is_replicate():
            parts = part.chunk(model.device_mesh.size(number), placement.dim)  # type: ignore[attr-defined]
            place = model.device_mesh.get_local_rank(number)
            part = parts[place] if place < len(parts) else part[:0]
    placed = torch.empty_like(model)
    local_part(placed).copy_(part)
    return placed


def _shares(tensor: Tensor, name: str) -> int:
    """How many devices share the heads of a fused query, key and value matrix; 1 for any other parameter."""
    mesh: Any = getattr(tensor, "device_mesh", None)
    names = mesh.mesh_dim_names or () if mesh is not None else ()
    return mesh.size(names.index(TENSOR)) if ".attention.qkv." in f".{name}" and TENSOR in names else 1


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """A small tensor of the CPU on a device, without waiting for what that still has to do."""
    return tensor if device.type == "cpu" else tensor.pin_memory().to(device, non_blocking=True)


def local_part(tensor: Tensor) -> Tensor:
    """This device's part, sharing memory with it."""
    part: Callable[[], Tensor] | None = getattr(tensor, "to_local", None)
    return tensor if part is None else part()


def replicate(loss_sums: nn.Module, devices: Devices) -> nn.Module:
    """DDP: every device has the whole model; gradients are averaged while the backward pass still runs, or at its end where
    a compiled step runs on one machine."""
    from torch.nn.parallel import DistributedDataParallel

    # The compiler would cut the step at every bucket of gradients, so that sending them overlaps the backward pass.
    # Between machines that is worth it; within one, a gradient of BERT-base takes a few milliseconds of a step.
    if os.environ.get("LOCAL_WORLD_SIZE") == str(devices.size):
        torch._dynamo.config.optimize_ddp = False
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
