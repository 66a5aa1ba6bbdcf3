"""`biosmith export`, `biosmith release` and `biosmith convert`."""

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
    from biosmith.errors import UsageError
    from biosmith.pretraining.elbo_run import export_vae_run, is_vae_run
    from biosmith.pretraining.exporting import export_run

    if is_vae_run(run):
        if vocab is not None:
            raise UsageError(
                f"--vocab is not for {run}: a run of a latent-variable model keeps its two vocabularies"
            )
        done = export_vae_run(run, out, step=step)
    else:
        done = export_run(run, out, step=step, vocabulary=vocab)
    text = f"{done.model}: {done.architecture} of step {done.step:,}, {done.parameters:,} parameters"
    return Report(done, text)


def release(
    folder: Annotated[Path, tyro.conf.Positional],
    *,
    out: Path,
    dtype: Literal["float32", "float16", "bfloat16"] | None = None,
    shard_mb: int = 0,
    card: Path | None = None,
) -> Report:
    """Copy a model's folder for publishing: smaller weights, nothing of this machine, and its whole lineage.

    Paths in the manifest become names; the manifests behind it (model, run, tokens, vocabulary, corpus) go into
    lineage.json, so that `biosmith trace` walks a published model back where none of them is at hand.

    Example: biosmith release small --out models/small --dtype float16 --shard-mb 45 --card card.md

    Args:
        folder: made by export, finetune or quantize.
        out: the folder to make.
        dtype: of the weights; as they are without it. Networks of CPU engines are copied as they are.
        shard_mb: most megabytes of a file of weights; 0 for one file.
        card: a text for README.md; the folder's own without it.
    """
    from biosmith.models.releasing import release as make

    done = make(folder, out, dtype=dtype, shard_megabytes=shard_mb, card=card)
    text = (
        f"{done.model}: {done.bytes / 1e6:,.1f} MB, the largest file {done.largest / 1e6:,.1f} MB; "
        f"{done.origins:,} artefacts and files in its lineage"
    )
    if done.missing:
        text += f"\nnot at hand, and known by digest alone: {', '.join(done.missing)}"
    return Report(done, text)


def convert(
    source: Annotated[Path, tyro.conf.Positional],
    *,
    out: Path,
    dtype: Literal["float32", "float16", "bfloat16"] | None = None,
    override: tuple[str, ...] = (),
) -> Report:
    """Make a safe Hugging Face folder (safetensors) of a checkpoint of another tool.

    Reads Hugging Face folders of any family whose weights are safetensors or a pickle (pytorch_model.bin), which is
    opened without running any code in it.

    A checkpoint of Megatron-LM (latest_checkpointed_iteration.txt, mp_rank_00/model_optim_rng.pt, ...) becomes a
    MegatronBert: shards are merged, queries, keys and values brought in order; parts that it lacks are named.

    Example: biosmith convert downloads/biobert --out models/biobert

    Example: biosmith convert downloads/pm-full-lt32-beta05 --out models/biovae-32

    Example: biosmith convert checkpoints/megatron_bert_345m --out models/megatron-345m --override heads=16

    Args:
        source: folder of the checkpoint.
        out: new folder.
        dtype: of the weights; as they are without it.
        override: field=value for a Megatron-LM checkpoint that does not hold its arguments: heads, layer_norm_epsilon,
            activation (gelu or gelu_new).
    """
    from biosmith.errors import UsageError
    from biosmith.models.megatron_checkpoint import is_megatron

    if is_megatron(source):
        return _convert_megatron(source, out, dtype, override)
    if override:
        raise UsageError("--override is for checkpoints of Megatron-LM; other folders have a config.json")
    from biosmith.models.optimus import convert_optimus, find_parts

    if find_parts(source) is not None:
        return _converted_vae(convert_optimus(source, out))
    from biosmith.models.checkpoint import read_config
    from biosmith.models.converting import convert as convert_folder
    from biosmith.models.other_families import is_of_another_family

    convert_folder(source, out, dtype)
    if is_of_another_family(out):
        return _converted_other(out)
    config, raw = read_config(out)
    data = {"model": out, "architecture": (raw.get("architectures") or ["BertModel"])[0], "config": config}
    return Report(data, f"{out}: {data['architecture']}, {config.layers} layers, {config.width} wide")


def _converted_other(out: Path) -> Report:
    from biosmith.artefact import load_manifest

    done = load_manifest(out)
    architecture = (done.config.get("architectures") or [done.config["model_type"]])[0]
    data = {"model": out, "architecture": architecture, "config": done.config}
    return Report(data, f"{out}: {architecture}, {done.counts['parameters']:,} parameters")


def _convert_megatron(source: Path, out: Path, dtype: str | None, override: tuple[str, ...]) -> Report:
    from biosmith.models.checkpoint import DTYPES
    from biosmith.models.megatron_checkpoint import convert_megatron, read_settings

    wanted = None if dtype is None else DTYPES[dtype]
    done = convert_megatron(source, out, wanted, read_settings(override))
    lines = [
        f"{done.model}: {done.architecture} from {done.shards} shard{'s' * (done.shards > 1)} of version "
        f"{done.checkpoint_version:g}",
        *(f"missing, and not made up: {part}" for part in done.missing),
        *done.notes,
    ]
    return Report(done, "\n".join(lines))


def _converted_vae(model: Path) -> Report:
    from biosmith.models.vae_folder import load_vae

    config = load_vae(model).model.config
    data = {"model": model, "architecture": "VariationalAutoencoder", "config": config}
    text = (
        f"{model}: a latent-variable model, latent size {config.latent_size}, {config.layers} layers in all"
    )
    return Report(data, text)
