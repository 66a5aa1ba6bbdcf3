"""What this machine has: cores, memory, processor features that matter to language models, graphics cards, extras."""

from __future__ import annotations

import importlib.util
import os
import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path

from biosmith.errors import UsageError

# processor flag as the kernel names it -> what it is good for here
FEATURES = {
    "avx2": "float32 at half the width of AVX-512",
    "avx512f": "float32 at full width",
    "avx512_vnni": "int8 engines at full speed",
    "avx_vnni": "int8 engines at full speed",
    "avx512_bf16": "bfloat16 in hardware (on Intel no faster than float32)",
    "amx_bf16": "bfloat16 matrix units",
    "amx_int8": "int8 matrix units",
    "asimddp": "int8 engines at full speed (ARM)",
    "i8mm": "int8 matrix instructions (ARM)",
    "bf16": "bfloat16 in hardware (ARM)",
}

# extra -> (modules that it brings, what it gives)
EXTRAS = {
    "cpu": (
        ("openvino", "nncf", "onnxruntime"),
        "OpenVINO and ONNX Runtime as engines of annotate, int8 models (quantize)",
    ),
    "cluster": (("ray",), "annotation on a Ray cluster (annotate --cluster)"),
    "serve": (("fastapi", "uvicorn", "prometheus_client"), "the REST service and its page (serve)"),
    "track": (("tensorboard",), "training curves in TensorBoard"),
    "scispacy": (("scispacy",), "scispaCy as a sentence splitter"),
}


@dataclass(frozen=True)
class Processor:
    """The processor, as far as this process may use it."""

    model: str
    cores: int  # that this process may run on, after affinity and container limits
    features: tuple[str, ...]  # keys of FEATURES


@dataclass(frozen=True)
class GraphicsCard:
    """One CUDA device."""

    name: str
    memory_gib: float
    compute_capability: str


def processor() -> Processor:
    """Model, usable cores and features; features are empty where the system does not tell them."""
    names, flags = _linux_processor() if platform.system() == "Linux" else _darwin_processor()
    features = tuple(name for name in FEATURES if name in flags)
    return Processor(names or platform.processor() or platform.machine(), usable_cores(), features)


def usable_cores() -> int:
    """Cores that this process may use: affinity, and the quota of a container if there is one."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    quota = _read(Path("/sys/fs/cgroup/cpu.max")).split()
    if len(quota) == 2 and quota[0].isdigit():
        cores = min(cores, max(1, round(int(quota[0]) / int(quota[1]))))
    return cores


def count_workers(wanted: int) -> int:
    """How many processes a command's `--workers` means: 0 is one for each usable core.

    Raises:
        UsageError: fewer than none.
    """
    if wanted < 0:
        raise UsageError(f"workers is {wanted}; it must be 1 or more, or 0 for one a processor")
    return wanted or usable_cores()


def memory_gib() -> float | None:
    """Memory that this process may use, in GiB; None where the system does not tell."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
    limit = _read(Path("/sys/fs/cgroup/memory.max")).strip()
    return min(total, int(limit) if limit.isdigit() else total) / 2**30


def has_graphics_card() -> bool:
    """Whether a CUDA device is there for torch; torch is asked only where the driver does not already say no."""
    if platform.system() == "Darwin":
        return False
    if platform.system() == "Linux" and not Path("/proc/driver/nvidia/version").exists():
        return False
    import torch

    return torch.cuda.is_available()


def graphics_cards() -> list[GraphicsCard]:
    """The CUDA devices that torch sees."""
    import torch

    cards = []
    if torch.cuda.is_available():
        for index in range(torch.cuda.device_count()):
            card = torch.cuda.get_device_properties(index)
            cards.append(GraphicsCard(card.name, card.total_memory / 2**30, f"{card.major}.{card.minor}"))
    return cards


def installed_extras() -> dict[str, list[str]]:
    """Extra -> the modules of it that are missing; an empty list means that it is installed."""
    return {
        extra: [name for name in modules if importlib.util.find_spec(name) is None]
        for extra, (modules, _) in EXTRAS.items()
    }


def _linux_processor() -> tuple[str, set[str]]:
    fields: dict[str, str] = {}
    for line in _read(Path("/proc/cpuinfo")).splitlines():
        name, _, value = line.partition(":")
        fields.setdefault(name.strip(), value.strip())
    return fields.get("model name", ""), set(fields.get("flags", fields.get("Features", "")).split())


def _darwin_processor() -> tuple[str, set[str]]:
    """macOS tells features as `hw.optional.arm.FEAT_BF16: 1` and `machdep.cpu.leaf7_features: AVX2 ...`."""
    if platform.system() != "Darwin":
        return "", set()
    asked = subprocess.run(["sysctl", "-a"], capture_output=True, text=True, check=False).stdout
    values = dict(line.split(": ", 1) for line in asked.splitlines() if ": " in line)
    flags = {word.lower() for name in values if name.endswith("features") for word in values[name].split()}
    arm = {"FEAT_DotProd": "asimddp", "FEAT_I8MM": "i8mm", "FEAT_BF16": "bf16"}
    flags |= {flag for name, flag in arm.items() if values.get(f"hw.optional.arm.{name}") == "1"}
    return values.get("machdep.cpu.brand_string", ""), flags


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""  # not this system's way of telling
