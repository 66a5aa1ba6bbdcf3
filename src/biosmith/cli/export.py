"""`biosmith export` and `biosmith convert`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import tyro

from biosmith.cli import Report


def export(
    run: Annotated[Path, tyro.conf.Positional],
    *,
    out: Path,
    step: int | None = None,
    vocab: Path | None = None,
) -> Report:
    """Write a run's model as a folder that transformers loads with equal logits.

    Example: biosmith export runs/bioformer-8l --out models/bioformer-8l

    Args:
        run: folder that `pretrain` wrote.
        out: new folder.
        step: the checkpoint to export; the newest without it.
        vocab: the vocabulary, where the run kept none.
    """
    from biosmith.pretraining.exporting import export_run

    done = export_run(run, out, step=step, vocabulary=vocab)
    text = f"{done.model}: {done.architecture} of step {done.step:,}, {done.parameters:,} parameters"
    return Report(done, text)


def convert(
    source: Annotated[Path, tyro.conf.Positional],
    *,
    out: Path,
    dtype: Literal["float32", "float16", "bfloat16"] | None = None,
) -> Report:
    """Make a safe Hugging Face folder (safetensors) of a checkpoint of another tool.

    Reads Hugging Face BERT folders whose weights are safetensors or a pickle (pytorch_model.bin), which is opened
    without running any code in it.

    Example: biosmith convert downloads/biobert --out models/biobert

    Args:
        source: folder of the checkpoint.
        out: new folder.
        dtype: of the weights; as they are without it.
    """
    from biosmith.models.checkpoint import read_config
    from biosmith.models.converting import convert as convert_folder

    convert_folder(source, out, dtype)
    config, raw = read_config(out)
    data = {"model": out, "architecture": (raw.get("architectures") or ["BertModel"])[0], "config": config}
    return Report(data, f"{out}: {data['architecture']}, {config.layers} layers, {config.width} wide")
