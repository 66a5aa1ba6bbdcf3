"""Fine-tuning from Python: a model, a task, its data; what comes back predicts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from biosmith.bench.dataset import Dataset
from biosmith.bench.grids import fit_kind, max_length
from biosmith.bench.locating import Located
from biosmith.bench.model_marks import find_model
from biosmith.pretraining.overrides import from_plain
from biosmith.tasks.finetuning import finetune as finetune_source
from biosmith.tasks.finetuning import fit_source
from biosmith.tasks.fitting import Tuned, load_tuned, settings_of

# kind -> what `biosmith finetune` calls the task, where that is another name
COMMANDS = {
    "tagging": "ner",
    "words": "pico",
    "documents": "document",
    "squad": "answers",
    "factoid": "answers",
}


def finetune(
    model: str | Path,
    task: Dataset | str,
    *,
    data: str | Path = "benchmarks",
    out: str | Path | None = None,
    device: str = "auto",
    **settings: Any,
) -> Tuned:
    """Fine-tune a model on a dataset; the development split decides which epoch is kept, the test split is not read.

    >>> tuned = biosmith.finetune("model", biosmith.task("chemprot"), epochs=3)  # doctest: +SKIP
    >>> tuned.predict([biosmith.Instance("1", "@CHEMICAL$ inhibits @GENE$ .", "")]).values  # doctest: +SKIP
    ['CPR:4']

    Args:
        model: a Hugging Face folder or a hub id; for answers also a tuned folder.
        task: `biosmith.task("chemprot")`, or the dataset's name.
        data: the folder that holds the dataset's folder, or that folder itself.
        out: the folder to make; None keeps none.
        device: auto, cpu, cuda, ...
        **settings: fields of the kind's settings, such as `epochs=3` or `features="mentions"`.

    Raises:
        UsageError: no such dataset, no data, an unknown setting, or `out` exists.
        BadInput: a file of the dataset cannot be read.
    """
    from biosmith.bench.mock import find_task

    dataset = find_task(task) if isinstance(task, str) else task
    kind = fit_kind(dataset)
    values = {"max_length": max_length(kind, dataset.about.name), **settings, "device": device}
    chosen = from_plain(settings_of(kind), values, f"settings of {kind}")
    source = Located(dataset, Path(data), kind)
    folder = find_model(str(model))
    if out is None:
        return fit_source(source, folder, chosen)[0]
    finetune_source(COMMANDS.get(kind, kind), source, folder, Path(out), chosen)
    return load_tuned(Path(out), device)
