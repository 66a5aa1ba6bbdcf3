"""`biosmith finetune` and `biosmith evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from biosmith.cli import Report


def finetune(
    task: Annotated[Literal["ner"], tyro.conf.Positional],
    *,
    model: Path,
    data: Path,
    out: Path,
    override: tuple[str, ...] = (),
) -> Report:
    """Fine-tune a model on a task.

    Trains on the train split, keeps the best epoch on the dev split (never on test) and writes a folder that
    `transformers` loads, with the label map, the tokenizer, metrics.jsonl and a manifest. A run that was stopped
    goes on from its last finished epoch when the same command is given again.

    Example:
        biosmith finetune ner --model models/bioformer-8l --data NCBI-disease --out ner-disease
            --override epochs=10 learning_rate=3e-5

    Args:
        task: what to learn; ner tags mentions in sentences.
        model: a Hugging Face folder: BERT-shaped ones run through the fast encoder, others through AutoModel.
        data: a folder with train.tsv, devel.tsv or dev.tsv and test.tsv (plain, .gz or .xz), or with document files
            (PubTator, BioC, ...) named after the splits.
        out: the folder to make.
        override: settings as key=value: learning_rate, batch_size, epochs, max_length, warmup, weight_decay, clip,
            dropout, keep (best or last), seed, device, scheme (BIO, IO, IOBES or BIOUL).
    """
    from biosmith.pretraining.overrides import apply_overrides
    from biosmith.tasks import ner
    from biosmith.tasks.settings import TaggingSettings

    settings = apply_overrides(TaggingSettings(), override)
    result = ner.finetune(model, data, out, settings)
    dev = "" if result["dev_f1"] is None else f", entity F1 on dev {100 * result['dev_f1']:.2f}"
    text = (
        f"{out}: epoch {result['epoch']} of {result['epochs']} kept{dev}; {result['steps']:,} steps in "
        f"{result['seconds']:,.0f} s, {result['tokens_per_second']:,.0f} tokens/s"
    )
    return Report({**result, "out": str(out)}, text, set_aside=result["set_aside"])


def evaluate(
    tuned: Annotated[Path, tyro.conf.Positional],
    *,
    data: Path,
    split: str = "test",
    max_length: int | None = None,
    device: str = "auto",
) -> Report:
    """Score a tuned model on a split.

    Entity-level precision, recall and F1 as CoNLL's script counts them, and the strict reading beside it. Words that
    do not fit the model count as missed and are reported. Scores lie between 0 and 1 in `--json`.

    Example:
        biosmith evaluate ner-disease --data NCBI-disease --split test

    Args:
        tuned: a folder made by `finetune`, or any token classification folder of Hugging Face.
        data: a dataset's folder, or one file.
        split: train, dev or test.
        max_length: longest sequence in pieces; the one it was tuned with if not given.
        device: auto, cpu, cuda, ...
    """
    from biosmith.tasks import ner

    result = ner.evaluate(tuned, data, split, device=device, max_length=max_length)
    values = {"task": "ner", "split": split, **result.as_dict()}
    return Report(values, _table(values), set_aside=result.set_aside)


def _table(values: dict[str, Any]) -> Any:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2))
    for column in ("", "precision", "recall", "F1", "found", "predicted", "gold"):
        table.add_column(column, justify="left" if not column else "right")
    whole = {key: values[key] for key in ("precision", "recall", "f1")}
    rows = [("all (CoNLL)", {**whole, **_counts(values["types"])}), ("all (strict)", values["strict"])]
    for name, row in [*rows, *values["types"].items()]:
        shares = [f"{100 * row[key]:.2f}" for key in ("precision", "recall", "f1")]
        table.add_row(name, *shares, *(f"{row[key]:,}" for key in ("found", "predicted", "gold")))
    if values["truncated"]:
        table.caption = (
            f"{values['truncated']:,} words of {values['truncated_sentences']:,} sentences did not fit the model; "
            f"{values['truncated_mentions']:,} mentions among them count as missed"
        )
    return table


def _counts(types: dict[str, dict[str, Any]]) -> dict[str, int]:
    return {key: sum(row[key] for row in types.values()) for key in ("found", "predicted", "gold")}
