"""`biosmith pretrain`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from biosmith.cli import Report
from biosmith.pretraining.config import Profile

if TYPE_CHECKING:
    from biosmith.pretraining.run import Settings


def pretrain(
    recipe: Annotated[str, tyro.conf.Positional],
    *,
    tokens: tuple[Path, ...],
    out: Path,
    profile: Profile = "faithful",
    init: Path | None = None,
    init_decoder: Path | None = None,
    layers: int | None = None,
    new_layers: Literal["identity", "stack"] = "identity",
    override: tuple[str, ...] = (),
    resume: bool = False,
    workers: int | None = None,
    device: Literal["auto", "cpu", "cuda"] = "auto",
    compile: Literal["off", "default", "reduce-overhead", "max-autotune"] | None = None,
    deterministic: bool = False,
    parallel: Literal["ddp", "fsdp"] = "ddp",
    tensor_parallel: int = 1,
    activation_checkpointing: bool = False,
    track: tuple[str, ...] = (),
) -> Report:
    """Train a language model from a token store.

    Example: biosmith pretrain bioformer-8l --tokens tokens/pubmed --out runs/bioformer --profile fast

    Example: biosmith pretrain demo --tokens tokens/demo --out runs/demo --override steps=200 --override learning_rate=5e-4

    Example: biosmith pretrain biovae-32-beta05 --tokens sentences/pubmed --init scibert --init-decoder gpt2 --out runs/vae

    Example: torchrun --nproc-per-node 4 -m biosmith pretrain biomegatron-1.2b --tokens tokens/pubmed --out runs/1.2b --tensor-parallel 2 --parallel fsdp

    Example: torchrun --nproc-per-node 4 -m biosmith pretrain bert-base --tokens tokens/pubmed --out runs/bert --resume

    The run's folder holds config.json, metrics.jsonl, loss.png and checkpoints; `biosmith export` makes a Hugging Face
    folder of it. SIGTERM or Ctrl-C ends the run after the step at hand with a checkpoint.

    Args:
        recipe: one of `biosmith recipes`.
        tokens: what `biosmith tokenize` made; several are mixed as the recipe's batch.weights say.
        out: folder of the run.
        profile: "faithful" is the paper's own arithmetic, "fast" what is known to be better today.
        init: go on from this Hugging Face folder (continued pretraining); if the tokens have another vocabulary, pieces
            that both have keep their vectors, and new ones begin at the mean of their old pieces.
        init_decoder: the GPT-2 folder that the decoder of a latent-variable model starts from; its tokens are what
            `biosmith sentences` made.
        layers: with --init, go on with so many layers, more than the model has (BERT only).
        new_layers: how the new ones begin: "identity" puts layers on top that at first change next to nothing, "stack"
            repeats the model's layers in their order.
        override: key.path=value, as often as needed: steps, batch_tokens, learning_rate, seed, checkpoint_every,
            log_every, or any path that `biosmith recipes NAME` shows.
        resume: go on from the last checkpoint, exactly; begins the run if there is none.
        workers: processes that prepare batches; the number changes nothing but speed.
        device: where to train.
        compile: how torch compiles the step; "default" on a GPU, "off" on a CPU.
        deterministic: on a GPU, use deterministic algorithms only, so that a resumed run is equal to the last bit.
        parallel: how several GPUs share the work, where torchrun started several processes.
        tensor_parallel: so many of them share every layer (models of Megatron's kind); the rest as `parallel` says.
        activation_checkpointing: keep the inputs of layers only and compute the rest again: less memory, slower.
        track: trackers that get the log lines too: tensorboard, wandb, or one that is plugged in.
    """
    from biosmith.errors import UsageError
    from biosmith.pretraining.config import apply_overrides
    from biosmith.pretraining.run import Settings
    from biosmith.pretraining.run import pretrain as train
    from biosmith.recipes import find_recipe
    from biosmith.recipes.biovae import VAE_RECIPES

    if not resume and (out / "checkpoints").is_dir():
        raise UsageError(f"{out} holds a run; go on with --resume, or choose another --out")
    settings = Settings(
        device=device,
        workers=workers,
        compile=compile,
        deterministic=deterministic,
        parallel=parallel,
        tensor_parallel=tensor_parallel,
        activation_checkpointing=activation_checkpointing,
        track=track,
    )
    if recipe in VAE_RECIPES:
        if layers is not None:
            raise UsageError(f"--layers is for encoders alone, not for {recipe}")
        return _pretrain_vae(recipe, profile, override, tokens, out, init, init_decoder, resume, settings)
    if init_decoder is not None:
        raise UsageError(f"--init-decoder is for {', '.join(VAE_RECIPES)}; {recipe} has no decoder")
    outcome = train(
        apply_overrides(find_recipe(recipe, profile), override),
        tokens,
        out,
        init=init,
        layers=layers,
        new_layers=new_layers,
        resume=resume,
        settings=settings,
    )
    data = {**vars(outcome), "out": str(out)}
    return Report(data)


def _pretrain_vae(
    recipe: str,
    profile: Profile,
    override: tuple[str, ...],
    tokens: tuple[Path, ...],
    out: Path,
    init: Path | None,
    init_decoder: Path | None,
    resume: bool,
    settings: Settings,
) -> Report:
    from biosmith.errors import UsageError
    from biosmith.pretraining.elbo_config import apply_vae_overrides
    from biosmith.pretraining.elbo_run import pretrain_vae
    from biosmith.recipes.biovae import find_vae_recipe

    if len(tokens) != 1:
        raise UsageError(f"{recipe} takes one folder of sentences, not {len(tokens)}")
    outcome = pretrain_vae(
        apply_vae_overrides(find_vae_recipe(recipe, profile), override),
        tokens[0],
        out,
        init=init,
        init_decoder=init_decoder,
        resume=resume,
        settings=settings,
    )
    return Report({**vars(outcome), "out": str(out)})
