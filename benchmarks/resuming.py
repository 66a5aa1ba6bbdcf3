"""A resumed run beside the run that was not stopped: to the last bit with deterministic algorithms, and without them.

    python benchmarks/resuming.py --tokens STORE [--recipe bioformer-8l] [--steps 24]

A run is made whole with a checkpoint in its middle; a copy of it loses what came after that checkpoint and is resumed. Both
are commands as a user gives them. Prints, with `--deterministic` and without, whether losses and weights are equal to the
last bit, and how far the first resumed step's loss and the largest weight are apart. Writes benchmarks/results/resuming.json.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from biosmith.pretraining.checkpoints import MODEL, list_checkpoints
from biosmith.pretraining.metrics import read_metrics

RESULT = Path(__file__).parent / "results" / "resuming.json"


def main() -> None:
    """Run, compare, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokens", type=Path, required=True, help="a token store")
    parser.add_argument("--recipe", default="bioformer-8l")
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--batch-tokens", type=int, default=131_072)
    parser.add_argument("--override", nargs="*", default=[], help="of the recipe, key=value")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--work", type=Path, default=Path("runs/resuming"))
    parser.add_argument("--out", type=Path, default=RESULT)
    given = parser.parse_args()
    card = torch.cuda.get_device_name() if given.device == "cuda" else "cpu"
    found: dict[str, Any] = {
        "machine": {"card": card, "torch": torch.__version__},
        "settings": {key: str(value) for key, value in vars(given).items()},
    }
    for name, options in (("deterministic", ["--deterministic"]), ("default", [])):
        found[name] = compare(given, name, options)
        print(name, json.dumps(found[name]), flush=True)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print(f"written to {given.out}")


def compare(given: Any, name: str, options: list[str]) -> dict[str, Any]:
    """Make the whole run and the resumed one; how far they are apart."""
    whole, resumed = given.work / f"{name}-whole", given.work / f"{name}-resumed"
    for run in (whole, resumed):
        shutil.rmtree(run, ignore_errors=True)
    train(given, whole, options)
    shutil.copytree(whole, resumed)
    shutil.rmtree(list_checkpoints(resumed)[-1])
    train(given, resumed, [*options, "--resume"])
    half = given.steps // 2
    one, other = (
        {line["step"]: line["loss"] for line in read_metrics(run) if "loss" in line}
        for run in (whole, resumed)
    )
    a, b = (load_file(list_checkpoints(run)[-1] / MODEL) for run in (whole, resumed))
    return {
        "steps": len(other),
        "losses_equal": one == other,
        "weights_equal": all(torch.equal(a[key], b[key]) for key in a) and a.keys() == b.keys(),
        "first_resumed_loss": [one[half + 1], other[half + 1]],
        "largest_loss_difference": max(abs(one[step] - other[step]) for step in one),
        "largest_weight_difference": max(float((a[key] - b[key]).abs().max()) for key in a),
    }


def train(given: Any, run: Path, options: list[str]) -> None:
    """One call of `biosmith pretrain`."""
    settings = {
        "steps": given.steps,
        "log_every": 1,
        "checkpoint_every": given.steps // 2,
        "evaluation.every": 0,
        "batch_tokens": given.batch_tokens,
    }
    command = [sys.executable, "-m", "biosmith", "pretrain", given.recipe, "--profile", "fast"]
    command += ["--tokens", str(given.tokens), "--out", str(run), "--device", given.device, *options]
    command += ["--override", *(f"{key}={value}" for key, value in settings.items()), *given.override]
    subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
