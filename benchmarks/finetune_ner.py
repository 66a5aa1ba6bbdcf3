"""Fine-tuning a tagger: ours beside the stock `transformers` Trainer, same settings, same data, same machine.

    python benchmarks/finetune_ner.py --model MINILM --data NCBI-DISEASE

For each seed both train in this one process, in turns (the order changes with the seed, so that neither always runs on
a warm machine), with the same batch size in sentences, learning rate, epochs, warm-up, weight decay and clipping, and
are scored on the test split by seqeval. The Trainer gets what its token classification example gives it: first-piece
labels, dynamic padding, arg-max decoding. Time is training only. Prints mean and standard deviation of both and the
ratio of speeds; writes benchmarks/results/finetune_ner.json.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import tempfile
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from seqeval.metrics import f1_score
from transformers import (
    AutoModelForTokenClassification,
    AutoTokenizer,
    DataCollatorForTokenClassification,
    Trainer,
    TrainingArguments,
)

from biosmith.tasks.labels import OUTSIDE, LabelSet, split_tag
from biosmith.tasks.ner import finetune, load_tuned
from biosmith.tasks.settings import TaggingSettings
from biosmith.tasks.tagged import TaggedSentence, load_split

RESULTS = Path(__file__).parent / "results" / "finetune_ner.json"


def ours(model: Path, data: Path, settings: TaggingSettings, test: list[TaggedSentence]) -> dict[str, float]:
    """F1 on test and training seconds of biosmith."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        report = finetune(model, data, Path(folder) / "tuned", settings)
        whole = time.perf_counter() - began
        tagger = load_tuned(Path(folder) / "tuned", device=settings.device)
        predicted = [tagger.tags(t) for t in tagger.tag([s.words for s in test])]
    return {"f1": seqeval_f1(test, predicted), "seconds": report["seconds"], "whole_seconds": whole}


def theirs(
    model: Path, data: Path, settings: TaggingSettings, test: list[TaggedSentence]
) -> dict[str, float]:
    """F1 on test and training seconds of the Trainer."""
    began = time.perf_counter()
    train = load_split(data, "train").sentences
    labels = LabelSet.of_types(split_tag(t)[1] for s in train for t in s.tags if t != OUTSIDE).labels
    tokenizer = AutoTokenizer.from_pretrained(model)
    transformers.set_seed(settings.seed)
    network = AutoModelForTokenClassification.from_pretrained(
        model,
        id2label=dict(enumerate(labels)),
        label2id={label: i for i, label in enumerate(labels)},
        dtype=torch.float32,  # whatever it is stored in
    )
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            per_device_train_batch_size=settings.batch_size,
            per_device_eval_batch_size=32,
            learning_rate=settings.learning_rate,
            num_train_epochs=settings.epochs,
            warmup_steps=settings.warmup,
            weight_decay=settings.weight_decay,
            max_grad_norm=settings.clip,
            lr_scheduler_type="linear",
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
            train_dataset=encode(train, tokenizer, labels, settings.max_length),
            data_collator=DataCollatorForTokenClassification(tokenizer),
        )
        seconds = trainer.train().metrics["train_runtime"]
        whole = time.perf_counter() - began
        encoded = encode(test, tokenizer, labels, settings.max_length)
        output = trainer.predict(encoded)
    predicted = []
    for sentence, item, row in zip(test, encoded, np.asarray(output.predictions).argmax(-1), strict=True):
        tags = [labels[label] for label, wanted in zip(row, item["labels"], strict=False) if wanted != -100]
        # Words that were cut off count as missed for both.
        predicted.append(tags + [OUTSIDE] * (len(sentence.words) - len(tags)))
    return {"f1": seqeval_f1(test, predicted), "seconds": seconds, "whole_seconds": whole}


def encode(
    sentences: list[TaggedSentence], tokenizer: Any, labels: tuple[str, ...], max_length: int
) -> list[dict[str, Any]]:
    """What the token classification example of transformers makes of words and tags."""
    encoded = []
    for sentence in sentences:
        item = dict(
            tokenizer(list(sentence.words), is_split_into_words=True, truncation=True, max_length=max_length)
        )
        word_ids = tokenizer(
            list(sentence.words), is_split_into_words=True, truncation=True, max_length=max_length
        ).word_ids()
        before, wanted = None, []
        for word in word_ids:
            wanted.append(-100 if word is None or word == before else labels.index(sentence.tags[word]))
            before = word
        encoded.append({**item, "labels": wanted})
    return encoded


def seqeval_f1(test: list[TaggedSentence], predicted: list[list[str]]) -> float:
    """Entity F1 by seqeval's default, in percent."""
    return 100 * float(f1_score([list(s.tags) for s in test], predicted))


def summary(runs: list[dict[str, float]]) -> dict[str, Any]:
    """Mean and standard deviation over seeds."""
    f1, seconds = [r["f1"] for r in runs], [r["seconds"] for r in runs]
    spread = statistics.stdev(f1) if len(f1) > 1 else 0.0
    return {
        "f1_mean": statistics.mean(f1),
        "f1_sd": spread,
        "seconds_mean": statistics.mean(seconds),
        "runs": runs,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--learning-rate", type=float, default=5e-5)
    parser.add_argument("--max-length", type=int, default=256)
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where both train")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    transformers.logging.set_verbosity_error()
    if given.threads:
        torch.set_num_threads(given.threads)
    settings = TaggingSettings(
        learning_rate=given.learning_rate,
        batch_size=given.batch_size,
        epochs=given.epochs,
        max_length=given.max_length,
        keep="last",
        device=given.device,
    )
    test = load_split(given.data, "test").sentences
    runs: dict[str, list[dict[str, float]]] = {"biosmith": [], "transformers": []}
    for seed in range(given.seeds):
        order = [("biosmith", ours), ("transformers", theirs)]
        for name, run in order if seed % 2 == 0 else order[::-1]:
            result = run(given.model, given.data, replace(settings, seed=seed), test)
            runs[name].append(result)
            print(f"seed {seed}, {name}: F1 {result['f1']:.2f}, {result['seconds']:.1f} s", flush=True)
    summaries = {name: summary(results) for name, results in runs.items()}
    ratio = summaries["transformers"]["seconds_mean"] / summaries["biosmith"]["seconds_mean"]
    for name, s in summaries.items():
        print(f"{name}: test F1 {s['f1_mean']:.2f} (sd {s['f1_sd']:.2f}), {s['seconds_mean']:.1f} s a run")
    print(f"speed: {ratio:.2f} times the Trainer's")
    given.out.parent.mkdir(exist_ok=True)
    given.out.write_text(
        json.dumps(
            {
                **summaries,
                "speed_ratio": ratio,
                "settings": asdict(settings),
                "data": given.data.name,
                "machine": {
                    "processor": platform.processor() or platform.machine(),
                    "threads": torch.get_num_threads(),
                    "card": torch.cuda.get_device_name() if given.device == "cuda" else None,
                },
                "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
            },
            indent=2,
        )
        + "\n",
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
