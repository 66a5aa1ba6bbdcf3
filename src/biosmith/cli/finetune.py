"""`biosmith finetune` and `biosmith evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from biosmith.cli import Report
from biosmith.errors import UsageError

# task -> kinds of models for it (biosmith.tasks.fitting), the usual one first
TASKS: dict[str, tuple[str, ...]] = {
    "ner": ("tagging",),
    "pico": ("words",),
    "relation": ("relation",),
    "similarity": ("similarity",),
    "document": ("documents",),
    "classification": ("classification",),
    "yesno": ("yesno",),
    "answers": ("squad", "factoid"),
}
Task = Literal["ner", "pico", "relation", "similarity", "document", "classification", "yesno", "answers"]


def finetune(
    task: Annotated[Task, tyro.conf.Positional],
    *,
    model: Path,
    data: tuple[Path, ...],
    out: Path,
    dataset: str | None = None,
    rename: tuple[str, ...] = (),
    preset: str | None = None,
    override: tuple[str, ...] = (),
) -> Report:
    """Fine-tune a model on a task.

    Trains on the train split, keeps the best epoch on the dev split (never on test) and writes a folder that
    `transformers` loads, with the label map, the tokenizer, metrics.jsonl and a manifest. A run that was stopped
    goes on from its last checkpoint when the same command is given again. Relations take
    `--override text=markers features=starts`, taggers `scheme=BIOUL head=crf`: all choices are in the guide.

    Example:
        biosmith finetune ner --model models/bioformer-8l --data NCBI-disease --out ner-disease
            --override epochs=10 learning_rate=3e-5

    Args:
        task: ner and pico tag words; relation, classification, yesno give one label a text, document any number;
            similarity gives a number for a pair; answers finds the answer in a text (SQuAD, BioASQ factoid).
        model: a Hugging Face folder: those shaped like BERT, ELECTRA, ALBERT or ModernBERT run through the fast
            encoder, others through AutoModel. For answers also a tuned one (SQuAD first, then BioASQ).
        data: a dataset's folder, or your own: train, dev or devel, and test as .tsv, .csv, .jsonl or .json (plain, .gz
            or .xz); for ner and pico also document files (PubTator, BioC, ...) named after the splits. A tagger learns
            from several that mark different types of mentions: O says nothing of types that a dataset does not mark.
        out: the folder to make.
        dataset: which dataset of `biosmith data ls` the data is, where the folder's name does not say it.
        rename: other names for types of mentions as OLD=NEW, such as GENE=Gene.
        preset: take epochs, learning rate and batch from a paper's table for a recipe's models (biom-electra-base, ...).
        override: settings as key=value: learning_rate, batch_size, epochs, max_length, warmup, weight_decay, clip,
            dropout, keep (best or last), layer_decay, frozen_layers, reinitialised_layers, seed, device, and the
            task's own.
    """
    from biosmith.bench.grids import max_length
    from biosmith.pretraining.overrides import apply_overrides
    from biosmith.tasks import finetuning, ner
    from biosmith.tasks.fitting import settings_of
    from biosmith.tasks.joining import parse_names

    if task in ner.KINDS:
        kind = TASKS[task][0]
        settings: Any = apply_overrides(settings_of(kind)(), (*_preset(preset, kind), *override))
        folders = [_tagging_folder(task, folder, dataset) for folder in data]
        result = ner.finetune(model, folders, out, settings, task=task, names=parse_names(rename))
    else:
        _refuse(task, rename=rename)
        if len(data) != 1:
            raise UsageError(f"{task} takes one dataset, not {len(data)}")
        source = _source(TASKS[task], data[0], dataset)
        settings = settings_of(source.kind)()
        if source.name:
            settings = settings_of(source.kind)(max_length=max_length(source.kind, source.name))
        settings = apply_overrides(settings, (*_preset(preset, source.kind), *override))
        result = finetuning.finetune(task, source, model, out, settings)
    dev = "" if result["dev_value"] is None else f", score on dev {100 * result['dev_value']:.2f}"
    text = (
        f"{out}: epoch {result['epoch']} of {result['epochs']} kept{dev}; {result['steps']:,} steps in "
        f"{result['seconds']:,.0f} s, {result['tokens_per_second']:,.0f} tokens/s"
    )
    return Report({**result, "out": str(out)}, text, set_aside=result["set_aside"])


def _refuse(what: str, **options: Any) -> None:
    """Raise `UsageError` for an option that was given and would have no effect."""
    for name, value in options.items():
        if value:
            raise UsageError(f"--{name.replace('_', '-')} has no effect on {what}")


def _preset(name: str | None, kind: str) -> tuple[str, ...]:
    """The overrides of a preset, none without one."""
    from biosmith.recipes.fine_tuning import preset_overrides

    return () if name is None else preset_overrides(name, kind)


def evaluate(
    tuned: Annotated[Path, tyro.conf.Positional],
    *,
    data: Path,
    split: str = "test",
    dataset: str | None = None,
    rename: tuple[str, ...] = (),
    max_length: int | None = None,
    device: str = "auto",
    predictions: Path | None = None,
) -> Report:
    """Score a tuned model on a split.

    Taggers by entity-level precision, recall and F1 as CoNLL's script counts them, the strict reading beside it, PICO by
    word; the other tasks as the dataset's protocol says. What does not fit the model counts as missed and is reported
    as truncated. Scores lie between 0 and 1 in `--json`.

    Example:
        biosmith evaluate ner-disease --data NCBI-disease --split test

    Args:
        tuned: a folder made by `finetune`, or any folder of Hugging Face with a head for tokens, sequences or answers.
        data: a dataset's folder, or one file.
        split: train, dev or test.
        dataset: which dataset of `biosmith data ls` the data is, where the folder's name does not say it.
        rename: other names for types of mentions as OLD=NEW, where the data names them otherwise than the tagger.
        max_length: longest sequence in pieces of a tagger; the one it was tuned with if not given.
        device: auto, cpu, cuda, ...
        predictions: a file for the predictions, which `biosmith bench score` reads.
    """
    from biosmith.annotate.tuned import is_for_engine
    from biosmith.artefact import require_writable
    from biosmith.tasks import finetuning, ner
    from biosmith.tasks.fitting import kind_of
    from biosmith.tasks.joining import parse_names

    kind = kind_of(tuned)
    if split not in ("train", "dev", "test"):
        raise UsageError(f"split {split!r} is unknown; valid: train, dev, test")
    if predictions is not None:
        require_writable(predictions)
    task = next(name for name, kinds in TASKS.items() if kind in kinds)
    if task in ner.KINDS:
        folder, names = _tagging_folder(task, data, dataset), parse_names(rename)
        options: Any = {"names": names, "predictions": predictions}
        module: Any = ner
        if is_for_engine(tuned):
            from biosmith.annotate.engines import evaluating

            other = None if device in ("auto", "cpu") else device
            _refuse(
                f"{tuned}, which was made for an engine of processors", device=other, max_length=max_length
            )
            module = evaluating
        else:
            options |= {"device": device, "max_length": max_length}
        if task == "pico":
            values = module.evaluate_words(tuned, folder, split, **options)
            values = {"task": task, "split": split, **values}
            return Report(values, _lines(values), set_aside=values["set_aside"])
        result = module.evaluate(tuned, folder, split, **options)
        values = {"task": task, "split": split, **result.as_dict()}
        return Report(values, _table(values), set_aside=result.set_aside)
    _refuse(task, rename=rename, max_length=max_length)
    source = _source((kind,), data, dataset)
    values = {
        "task": task,
        **finetuning.evaluate(tuned, source, split, device=device, predictions=predictions),
    }
    return Report(values, _lines(values), set_aside=values["set_aside"])


def _source(kinds: tuple[str, ...], data: Path, dataset: str | None) -> Any:
    """The dataset that the folder is of, or the user's own files."""
    from biosmith.bench.locating import locate
    from biosmith.tasks.data_files import OwnData, own_kind

    found = locate(data, kinds, dataset)
    return found if found is not None else OwnData(data, own_kind(data, kinds))


def _tagging_folder(task: str, data: Path, dataset: str | None) -> Path:
    """The folder with the files of a tagging dataset; as given where it is no dataset's."""
    from biosmith.bench.locating import locate

    found = locate(data, TASKS[task], dataset)
    files = [] if found is None else [f for split in ("train", "dev", "test") for f in found.files(split)]
    return files[0].parent if files else data


def _lines(values: dict[str, Any]) -> str:
    shown = "".join(
        f", {key} {100 * values[key]:.2f}"
        for key in ("precision", "recall", "exact_match", "strict_accuracy", "lenient_accuracy")
        if isinstance(values.get(key), float)
    )
    cut = f"; {values['truncated']:,} were not read in full" if values["truncated"] else ""
    count = values.get("instances", values.get("sentences"))
    name = f"{values.get('dataset') or values['task']} {values['split']}"
    return f"{name}: {values['metric']} {100 * values['value']:.2f}{shown} over {count:,} instances{cut}"


def _table(values: dict[str, Any]) -> Any:
    from rich.table import Table

    from biosmith.cli.narrow import Uncut

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
    elif values["not_counted"]:
        table.caption = (
            f"{values['not_counted']:,} predicted mentions are of types that the split does not mark"
        )
    return Uncut(table)


def _counts(types: dict[str, dict[str, Any]]) -> dict[str, int]:
    return {key: sum(row[key] for row in types.values()) for key in ("found", "predicted", "gold")}
