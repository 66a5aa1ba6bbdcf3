"""`biosmith doctor`: what this machine has, and whether biosmith works on it."""

from __future__ import annotations

import importlib.metadata
import platform
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from biosmith.cli import Report
from biosmith.errors import DONE, FAILED
from biosmith.machine import EXTRAS, FEATURES, graphics_cards, installed_extras, memory_gib, processor
from biosmith.progress import say
from biosmith.version import __version__

if TYPE_CHECKING:
    from rich.table import Table

LIBRARIES = ("torch", "transformers", "tokenizers", "sentencepiece", "pyarrow", "lxml", "numpy")
MEASURED_SECONDS = 2.0
DISK_GIB_WANTED = 5.0
MEMORY_GIB_WANTED = 3.0


def doctor(*, measure: bool = True) -> Report:
    """What this machine has, whether biosmith works on it, and how fast an encoder runs here.

    The exit code is 1 if something stands in the way of using biosmith.

    Example: biosmith doctor

    Args:
        measure: run a Bioformer-sized encoder (8 layers, 512 wide) for two seconds on each device, and a small one
            in the engines of annotate; --no-measure leaves it out.
    """
    cpu, memory = processor(), memory_gib()
    missing = installed_extras()
    data: dict[str, Any] = {
        "biosmith": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "libraries": {name: _version(name) for name in LIBRARIES},
        "processor": {"model": cpu.model, "cores": cpu.cores, "features": list(cpu.features)},
        "memory_gib": None if memory is None else round(memory, 1),
        "disk_free_gib": {str(p): round(shutil.disk_usage(p).free / 2**30, 1) for p in _folders()},
        "graphics_cards": graphics_cards(),
        "extras": {
            name: {"installed": not missing[name], "missing": missing[name], "gives": gives}
            for name, (_, gives) in EXTRAS.items()
        },
    }
    problems = list(_find_problems(data))
    data["engines"] = _engines()
    if measure:
        data["encoder_tokens_per_second"], failures = _measure_devices(data["graphics_cards"])
        data["engine_tokens_per_second"], engine_failures = _measure_engines()
        problems += [*failures, *engine_failures]
    data["problems"] = problems
    return Report(data, text=_draw(data), exit_code=FAILED if problems else DONE)


def _version(library: str) -> str | None:
    try:
        return importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:
        return None


def _folders() -> list[Path]:
    return list(dict.fromkeys([Path.cwd(), Path(tempfile.gettempdir())]))


def _find_problems(data: dict[str, Any]) -> list[str]:
    problems = []
    for name, version in data["libraries"].items():
        if version is None:
            problems.append(f"{name} is not installed; install biosmith again")
    if data["memory_gib"] is not None and data["memory_gib"] < MEMORY_GIB_WANTED:
        problems.append(f"only {data['memory_gib']} GiB of memory; {MEMORY_GIB_WANTED:.0f} are wanted")
    for folder, free in data["disk_free_gib"].items():
        if free < DISK_GIB_WANTED / 5:
            problems.append(f"only {free} GiB free at {folder}; {DISK_GIB_WANTED:.0f} are wanted")
    return problems


def _measure_devices(cards: list[Any]) -> tuple[dict[str, int], list[str]]:
    speeds: dict[str, int] = {}
    failures = []
    for device in ["cpu", *(f"cuda:{index}" for index in range(len(cards)))]:
        say(f"Measuring an encoder on {device}")
        try:
            speeds[device] = round(_measure_encoder(device))
        except RuntimeError as error:
            failures.append(f"an encoder does not run on {device}: {_first_line(error)}")
    return speeds, failures


def _engines() -> dict[str, dict[str, Any]]:
    """Which engines of `annotate` are there, and what this processor makes of them."""
    from biosmith.annotate.engines import ENGINES, has_fast_bfloat16, has_int8_dot_products, is_installed

    return {
        name: {
            "installed": is_installed(name),
            "int8_at_full_speed": name != "torch" and has_int8_dot_products(),
            "bfloat16": name != "onnx" and has_fast_bfloat16(),
        }
        for name in ENGINES
    }


def _measure_engines() -> tuple[dict[str, int], list[str]]:
    from biosmith.annotate.engines.measuring import measure_engines

    say("Measuring the engines of annotate")
    try:
        return measure_engines(), []
    except Exception as error:  # whatever a library raises, the doctor says so
        return {}, [f"the engines of annotate do not run: {_first_line(error)}"]


def _first_line(error: Exception) -> str:
    """What an error is, and what it says if it says anything."""
    return ": ".join([type(error).__name__, *str(error).splitlines()[:1]])


def _measure_encoder(device: str) -> float:
    """Tokens a second of a Bioformer-8L-shaped encoder, inference, float32 on processors and bfloat16 on cards."""
    import torch

    from biosmith.models.bert import BertConfig
    from biosmith.models.encoder import Encoder

    config = BertConfig(vocabulary_size=32_768, layers=8, width=512, heads=8, feed_forward=2_048)
    on_card = device != "cpu"
    encoder = Encoder(config).eval().to(device, torch.bfloat16 if on_card else torch.float32)
    sequences, length = (256, 256) if on_card else (8, 128)
    input_ids = torch.randint(5, config.vocabulary_size, (sequences, length), device=device)
    wait = torch.cuda.synchronize if on_card else (lambda: None)
    with torch.inference_mode():
        encoder(input_ids)  # the first pass allocates and chooses kernels
        wait()
        began, tokens = time.perf_counter(), 0
        while time.perf_counter() - began < MEASURED_SECONDS:
            encoder(input_ids)
            wait()
            tokens += input_ids.numel()
        return tokens / (time.perf_counter() - began)


def _hardware(name: str, engine: dict[str, Any]) -> str:
    has = ["bfloat16 at full speed"] if engine["bfloat16"] else []
    if name != "torch":
        has.append(
            "int8 at full speed" if engine["int8_at_full_speed"] else "int8 without dot products: little gain"
        )
    return f" ({', '.join(has)})" if has else ""


def _draw(data: dict[str, Any]) -> Table:
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, show_header=False, padding=(0, 2))
    table.add_column()
    table.add_column(overflow="fold")  # a path cut short would be a wrong one
    table.add_row("[bold]biosmith[/]", f"{data['biosmith']} on Python {data['python']}, {data['platform']}")
    table.add_row(
        "[bold]libraries[/]", ", ".join(f"{n} {v or 'missing'}" for n, v in data["libraries"].items())
    )
    cpu = data["processor"]
    table.add_row("[bold]processor[/]", f"{cpu['model']}, {cpu['cores']} cores")
    for name in cpu["features"]:
        table.add_row("", f"[green]{name}[/]: {FEATURES[name]}")
    table.add_row("[bold]memory[/]", "unknown" if data["memory_gib"] is None else f"{data['memory_gib']} GiB")
    free = ", ".join(f"{free} GiB at {folder}" for folder, free in data["disk_free_gib"].items())
    table.add_row("[bold]disk free[/]", escape(free))
    cards = [
        f"{c.name}, {c.memory_gib:.0f} GiB, compute capability {c.compute_capability}"
        for c in data["graphics_cards"]
    ]
    table.add_row("[bold]graphics cards[/]", "\n".join(cards) or "none")
    for name, extra in data["extras"].items():
        state = "[green]installed[/]" if extra["installed"] else f"pip install 'biosmith\\[{name}]'"
        table.add_row(f"[bold]extra {name}[/]", f"{state}: {extra['gives']}")
    for device, speed in data.get("encoder_tokens_per_second", {}).items():
        table.add_row(f"[bold]encoder on {device}[/]", f"{speed:,} tokens a second (8 layers, 512 wide)")
    for name, engine in data["engines"].items():
        state = "[green]installed[/]" if engine["installed"] else "pip install 'biosmith\\[cpu]'"
        table.add_row(f"[bold]engine {name}[/]", f"{state}{_hardware(name, engine)}")
    for name, speed in data.get("engine_tokens_per_second", {}).items():
        table.add_row(f"[bold]{name} on cpu[/]", f"{speed:,} tokens a second (tagger of 8 layers, 512 wide)")
    for problem in data["problems"]:
        table.add_row("[bold red]problem[/]", escape(problem))
    if not data["problems"]:
        table.add_row("[bold green]no problem found[/]")
    return table
