"""Where the time of a step goes on a card: microseconds by kind of kernel, and those in which the card waits for the host."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

import torch
from torch.profiler import ProfilerActivity, profile

# The first kind with a part of the kernel's name; what has none is a fused element-wise, norm or reduction kernel.
KINDS = {
    "communication": ("nccl",),
    "attention": ("flash", "fmha", "attention"),
    "matrix products": ("gemm", "nvjet", "cutlass", "xmma", "cublas", "splitk"),
    "optimizer": ("multi_tensor", "fused_adam", "fusedadam", "foreach"),
    "copies": ("memcpy", "memset"),
}
REST = "element-wise, norms and losses"


class Kernel(NamedTuple):
    """What a card did from one microsecond to another."""

    name: str
    begin: float
    end: float


def profile_steps(steps: Iterator[int], count: int = 5) -> dict[str, float]:
    """Microseconds of so many steps of an iterator that does one each time, by kind, for one step; see `by_kind`."""
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as watched:
        for _ in islice(steps, count):
            pass
        torch.cuda.synchronize()
    kernels = [
        Kernel(event.name, event.time_range.start, event.time_range.end)
        for event in watched.events() or ()
        if event.device_type == torch.autograd.DeviceType.CUDA
    ]
    return {kind: round(spent / count, 1) for kind, spent in by_kind(kernels).items()}


def by_kind(kernels: Iterable[Kernel]) -> dict[str, float]:
    """Microseconds of all kernels of a kind; of all together from the first to the last (`step`); and of those in which
    none ran (`waiting for the host`). Kinds that run beside each other add up to more than the step."""
    found: dict[str, float] = {}
    ordered = sorted(kernels, key=lambda kernel: kernel.begin)
    idle, reached = 0.0, ordered[0].begin if ordered else 0.0
    for kernel in ordered:
        name = kernel.name.lower()
        kind = next((kind for kind, parts in KINDS.items() if any(part in name for part in parts)), REST)
        found[kind] = found.get(kind, 0.0) + kernel.end - kernel.begin
        idle += max(0.0, kernel.begin - reached)
        reached = max(reached, kernel.end)
    step = reached - ordered[0].begin if ordered else 0.0
    return dict(sorted(found.items(), key=lambda one: -one[1])) | {"waiting for the host": idle, "step": step}


def show(profiled: dict[str, float]) -> None:
    """A line a kind, with its share of the step."""
    for kind, spent in profiled.items():
        share = 100 * spent / max(1e-9, profiled["step"])
        print(f"    {kind:32} {spent:10,.0f} us a step {share:6.1f} %", flush=True)
