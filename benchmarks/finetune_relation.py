"""Fine-tuning on relations: ours beside the stock `transformers` Trainer, same settings, same data, same machine.

    python benchmarks/finetune_relation.py --model MINILM --data CHEMPROT

For each seed both train in this one process, in turns (the order changes with the seed), with the same batch size,
learning rate, epochs, warm-up, weight decay and clipping, and are scored on the test split by the dataset's own scorer.
The Trainer gets what its text classification example gives it: dynamic padding and bf16 on a CUDA device. Time is training only.
Prints mean and standard deviation of both and the ratio of speeds; writes benchmarks/results/finetune_relation.json.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    Trainer,
    TrainingArguments,
)

from biosmith.bench.locating import Located, locate
from biosmith.rejects import Rejects
from biosmith.tasks import fitting
from biosmith.tasks.instances import Instance
from biosmith.tasks.settings import RelationSettings

RESULTS = Path(__file__).parent / "results" / "finetune_relation.json"


def ours(
    model: Path, source: Located, settings: RelationSettings, splits: dict[str, Sequence[Instance]]
) -> dict[str, float]:
    """Score on test and training seconds of biosmith."""
    tuned = fitting.fit("relation", model, splits["train"], None, settings, labels=source.labels)
    assert tuned.history is not None
    value = source.score(splits["test"], tuned.predict(splits["test"]).values)["value"]
    return {"score": 100 * value, "seconds": sum(line["seconds"] for line in tuned.history.lines)}


def theirs(
    model: Path, source: Located, settings: RelationSettings, splits: dict[str, Sequence[Instance]]
) -> dict[str, float]:
    """Score on test and training seconds of the Trainer."""
    labels = source.labels
    tokenizer = AutoTokenizer.from_pretrained(model)
    transformers.set_seed(settings.seed)
    network = AutoModelForSequenceClassification.from_pretrained(
        model, num_labels=len(labels), dtype=torch.float32
    )

    def encode(instances: Sequence[Instance]) -> list[dict[str, Any]]:
        encoded = tokenizer([i.text for i in instances], truncation=True, max_length=settings.max_length)
        return [
            {**{key: encoded[key][n] for key in encoded}, "labels": labels.index(str(instance.label))}
            for n, instance in enumerate(instances)
        ]

    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            per_device_train_batch_size=settings.batch_size,
            per_device_eval_batch_size=64,
            learning_rate=settings.learning_rate,
            num_train_epochs=settings.epochs,
            warmup_steps=settings.warmup,
            weight_decay=settings.weight_decay,
            max_grad_norm=settings.clip,
            lr_scheduler_type="linear",
            bf16=settings.device == "cuda",
            save_strategy="no",
            logging_strategy="no",
            report_to=[],
            seed=settings.seed,
            disable_tqdm=True,
            use_cpu=settings.device == "cpu",
            dataloader_pin_memory=settings.device == "cuda",
        )
        trainer = Trainer(
            network,
            arguments,
            train_dataset=encode(splits["train"]),
            data_collator=DataCollatorWithPadding(tokenizer),
        )
        seconds = trainer.train().metrics["train_runtime"]
        output = trainer.predict(encode(splits["test"]))
    predicted = [labels[i] for i in np.asarray(output.predictions).argmax(-1)]
    return {"score": 100 * source.score(splits["test"], predicted)["value"], "seconds": seconds}


def summary(runs: list[dict[str, float]]) -> dict[str, Any]:
    """Mean and standard deviation over seeds."""
    scores = [run["score"] for run in runs]
    return {
        "score_mean": statistics.mean(scores),
        "score_sd": statistics.stdev(scores) if len(scores) > 1 else 0.0,
        "seconds_mean": statistics.mean(run["seconds"] for run in runs),
        "runs": runs,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True, help="the folder of ChemProt, DDI or GAD")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--learning-rate", type=float, default=5e-5)
    parser.add_argument("--max-length", type=int, default=256)
    parser.add_argument("--limit", type=int, default=None, help="instances of each split, for a quick look")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where both train")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    transformers.logging.set_verbosity_error()
    settings = RelationSettings(
        learning_rate=given.learning_rate,
        batch_size=given.batch_size,
        epochs=given.epochs,
        max_length=given.max_length,
        keep="last",
        device=given.device,
    )
    source = locate(given.data, ["relation"])
    if source is None:
        parser.error(f"{given.data} is not the folder of a relation dataset")
    splits = {s: source.load(s, Rejects(strict=True))[: given.limit] for s in ("train", "test")}
    runs: dict[str, list[dict[str, float]]] = {"biosmith": [], "transformers": []}
    for seed in range(given.seeds):
        order = [("biosmith", ours), ("transformers", theirs)]
        for name, run in order if seed % 2 == 0 else order[::-1]:
            result = run(given.model, source, replace(settings, seed=seed), splits)
            runs[name].append(result)
            print(f"seed {seed}, {name}: {result['score']:.2f}, {result['seconds']:.1f} s", flush=True)
        # After each pair, so that a call cut short leaves what it measured.
        record = write(given, source, settings, splits, runs)
    for name in runs:
        s = record[name]
        print(f"{name}: test {s['score_mean']:.2f} (sd {s['score_sd']:.2f}), {s['seconds_mean']:.1f} s a run")
    print(f"speed: {record['speed_ratio']:.2f} times the Trainer's")


def write(
    given: Any,
    source: Any,
    settings: RelationSettings,
    splits: dict[str, Any],
    runs: dict[str, list[dict[str, float]]],
) -> dict[str, Any]:
    """The record of the runs so far, also as a file."""
    summaries = {name: summary(results) for name, results in runs.items()}
    given.out.parent.mkdir(exist_ok=True)
    record = {
        **summaries,
        "speed_ratio": summaries["transformers"]["seconds_mean"] / summaries["biosmith"]["seconds_mean"],
        "settings": asdict(settings),
        "data": source.name,
        "instances": {split: len(instances) for split, instances in splits.items()},
        "machine": {
            "processor": platform.processor() or platform.machine(),
            "threads": torch.get_num_threads(),
            "card": torch.cuda.get_device_name() if given.device == "cuda" else None,
        },
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
    }
    given.out.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return record


if __name__ == "__main__":
    main()
