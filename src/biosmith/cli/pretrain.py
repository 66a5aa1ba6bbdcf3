"""`biosmith pretrain`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import tyro

from biosmith.cli import Report
from biosmith.pretraining.config import Profile


def pretrain(
    recipe: Annotated[str, tyro.conf.Positional],
    *,
    tokens: tuple[Path, ...],
    out: Path,
    profile: Profile = "faithful",
    init: Path | None = None,
    override: tuple[str, ...] = (),
    resume: bool = False,
    workers: int | None = None,
    device: Literal["auto", "cpu", "cuda"] = "auto",
    compile: Literal["off", "default", "reduce-overhead", "max-autotune"] | None = None,
    deterministic: bool = False,
    parallel: Literal["ddp", "fsdp"] = "ddp",
    track: tuple[str, ...] = (),
) -> Report:
    """Train a language model from a token store.

    Example: biosmith pretrain bioformer-8l --tokens tokens/pubmed --out runs/bioformer --profile fast

    Example: biosmith pretrain demo --tokens tokens/demo --out runs/demo --override steps=200 --override learning_rate=5e-4

    Example: torchrun --nproc-per-node 4 -m biosmith pretrain bert-base --tokens tokens/pubmed --out runs/bert --resume

    The run's folder holds config.json, metrics.jsonl, loss.png and checkpoints; `biosmith export` makes a Hugging Face
    folder of it. SIGTERM or Ctrl-C ends the run after the step at hand with a checkpoint.

    Args:
        recipe: one of `biosmith recipes`.
        tokens: what `biosmith tokenize` made; several are mixed as the recipe's batch.weights say.
        out: folder of the run.
        profile: "faithful" is the paper's own arithmetic, "fast" what is known to be better today.
        init: go on from this Hugging Face folder (continued pretraining); the tokens must have its vocabulary.
        override: key.path=value, as often as needed: steps, batch_tokens, learning_rate, seed, checkpoint_every,
            log_every, or any path that `biosmith recipes NAME` shows.
        resume: go on from the last checkpoint, exactly; begins the run if there is none.
        workers: processes that prepare batches; the number changes nothing but speed.
        device: where to train.
        compile: how torch compiles the step; "default" on a GPU, "off" on a CPU.
        deterministic: on a GPU, use deterministic algorithms only, so that a resumed run is equal to the last bit.
        parallel: how several GPUs share the work, where torchrun started several processes.
        track: trackers that get the log lines too: tensorboard, wandb, or one that is plugged in.
    """
    from biosmith.pretraining.config import apply_overrides
    from biosmith.pretraining.run import Settings
    from biosmith.pretraining.run import pretrain as train
    from biosmith.recipes import find_recipe

    settings = Settings(device, workers, compile, deterministic, parallel, track)
    outcome = train(
        apply_overrides(find_recipe(recipe, profile), override),
        tokens,
        out,
        init=init,
        resume=resume,
        settings=settings,
    )
    data = {**vars(outcome), "out": str(out)}
    return Report(data)
