"""One model on one and several cards, the same run otherwise: real tokens a second, share of linear, loss curves.

    python benchmarks/scaling.py --tokens STORE [--recipe bert-base] [--cards 2] [--parallel ddp fsdp]

Each row is the command that a user gives, `torchrun -m biosmith pretrain`, with the same global batch on any number of
cards, so that all rows draw the same samples in the same order and their losses can be laid side by side. The speed is the
middle of the lines of metrics.jsonl after the warm-up (`tokens_per_second` there is of all cards). Prints the share of
linear and the largest difference of the losses from those of one card; writes benchmarks/results/scaling.json.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

from biosmith.pretraining.metrics import read_metrics

RESULT = Path(__file__).parent / "results" / "scaling.json"


def main() -> None:
    """Run every row, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokens", type=Path, required=True, help="a token store")
    parser.add_argument("--recipe", default="bert-base")
    parser.add_argument("--cards", type=int, nargs="+", default=[2], help="beside one")
    parser.add_argument("--parallel", nargs="+", default=["ddp", "fsdp"], choices=["ddp", "fsdp"])
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--every", type=int, default=5, help="steps of a line of the log")
    parser.add_argument("--warm-up", type=int, default=3, help="lines left out, compilation among them")
    parser.add_argument("--batch-tokens", type=int, default=524_288, help="of a step, all cards together")
    parser.add_argument("--micro-tokens", type=int, default=131_072, help="of a micro-batch of a card")
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--override", nargs="*", default=[], help="of the recipe, key=value")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--work", type=Path, default=Path("runs/scaling"))
    parser.add_argument("--out", type=Path, default=RESULT)
    given = parser.parse_args()
    names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    rows: dict[str, dict[str, Any]] = {}
    found = {
        "machine": {"cards": names or ["cpu"], "cores": os.cpu_count(), "torch": torch.__version__},
        "settings": {key: str(value) for key, value in vars(given).items()},
        "rows": rows,
    }
    wanted = [(1, "ddp"), *((cards, parallel) for cards in given.cards for parallel in given.parallel)]
    for cards, parallel in wanted:
        name = "one" if cards == 1 else f"{parallel}{cards}"
        row = rows[name] = measure(given, name, cards, parallel)
        one = rows["one"]
        row["share_of_linear"] = row["tokens_per_second"] / one["tokens_per_second"] / row["cards"]
        row["largest_loss_difference"] = max(
            abs(a - b) for a, b in zip(row["losses"], one["losses"], strict=True)
        )
        print(
            f"{name:8} {row['tokens_per_second']:12,.0f} tokens/s  {100 * row['share_of_linear']:6.1f} % of linear, "
            f"losses within {row['largest_loss_difference']:.1e}",
            flush=True,
        )
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print(f"written to {given.out}")


def measure(given: Any, name: str, cards: int, parallel: str) -> dict[str, Any]:
    """Train so many steps, and read the log."""
    run = given.work / name
    shutil.rmtree(run, ignore_errors=True)
    settings = {
        "steps": given.steps,
        "log_every": given.every,
        "checkpoint_every": given.steps,
        "evaluation.every": 0,
        "batch_tokens": given.batch_tokens,
        "batch.micro_batch_tokens": given.micro_tokens,
        "batch.length": given.length,
        "batch.phases": "[]",
    }
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", str(cards), "-m", "biosmith", "pretrain", given.recipe]
    command += ["--profile", "fast", "--tokens", str(given.tokens), "--out", str(run)]
    command += ["--parallel", parallel, "--device", given.device]
    command += ["--override", *(f"{key}={value}" for key, value in settings.items()), *given.override]
    subprocess.run(command, check=True)
    lines = [line for line in read_metrics(run) if "tokens_per_second" in line]
    rates = [line["tokens_per_second"] for line in lines[given.warm_up :]]
    row = {"cards": cards, "tokens_per_second": statistics.median(rates), "rates": rates}
    row["losses"] = [line["loss"] for line in lines]
    row["steps"] = [line["step"] for line in lines]
    return row


if __name__ == "__main__":
    main()
