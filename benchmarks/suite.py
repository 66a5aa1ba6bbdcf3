"""How long a suite takes: every dataset at hand, five seeds, fixed settings, on the devices of this machine.

    python benchmarks/suite.py --model models/bioformer-8l --data BENCHMARKS --suite blurb

Prints the seconds of each dataset (training, prediction) and of the whole call beside the target of an hour on one H100,
and writes benchmarks/results/suite.json. Runs of this model that are in --out already cost nothing, so give a folder without them;
those of other models may be there. `--suite mock --seeds 1` tries it in seconds on a CPU.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections import defaultdict
from pathlib import Path

import torch

from biosmith.bench.evaluating import data_folder
from biosmith.bench.model_marks import find_model
from biosmith.bench.results import load_results
from biosmith.bench.runs import Task, run_suite
from biosmith.bench.suites import find_suite

RESULTS = Path(__file__).parent / "results" / "suite.json"
TARGET_SECONDS = 3600


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--suite", default="blurb")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, required=True, help="a results folder")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--jobs", type=int, default=1, help="runs at once on each device")
    parser.add_argument("--json", type=Path, default=RESULTS)
    asked = parser.parse_args()
    suite = find_suite(asked.suite)
    tasks = [Task(name) for names in suite.groups.values() for name in names]
    began = time.perf_counter()
    report = run_suite(
        [find_model(asked.model)],
        tasks,
        data_folder(asked.suite, asked.data),
        asked.out,
        suite=asked.suite,
        seeds=asked.seeds,
        device=asked.device,
        jobs=asked.jobs,
    )
    whole = time.perf_counter() - began
    seconds: dict[str, dict[str, float]] = defaultdict(lambda: {"train": 0.0, "predict": 0.0, "runs": 0})
    name = find_model(asked.model).resolve().name
    model = next(found for found in load_results(asked.out).models if found.model.name == name)
    for (dataset, _), task in model.tasks.items():
        for run in task.runs:
            seconds[dataset]["train"] += run.train_seconds
            seconds[dataset]["predict"] += run.predict_seconds
            seconds[dataset]["runs"] += 1
    for dataset, row in seconds.items():
        print(
            f"{dataset:16} {row['runs']:3.0f} runs {row['train']:8.1f} s training {row['predict']:7.1f} s predicting"
        )
    inside = sum(row["train"] + row["predict"] for row in seconds.values())
    print(
        f"whole call {whole:,.0f} s, {inside:,.0f} s of them fine-tuning and predicting; "
        f"{whole / TARGET_SECONDS:.2f} of an hour"
    )
    for problem in report.problems:
        print(f"not run: {problem.task}: {problem.reason}")
    card = torch.cuda.get_device_name() if torch.cuda.is_available() else platform.processor()
    asked.json.parent.mkdir(exist_ok=True)
    figures = {
        "suite": asked.suite,
        "model": model.model.name,
        "parameters": model.model.parameters,
        "seeds": asked.seeds,
        "device": card,
        "runs_at_once": asked.jobs,
        "torch": torch.__version__,
        "seconds": whole,
        "share_of_an_hour": whole / TARGET_SECONDS,
        "runs_made": report.runs,
        "datasets": dict(seconds),
        "not_run": [problem.task for problem in report.problems],
    }
    asked.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
