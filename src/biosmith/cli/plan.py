"""`biosmith plan`."""

from __future__ import annotations

from typing import Annotated, Literal

import tyro

from biosmith.cli import Report
from biosmith.pretraining.config import Profile


def plan(
    recipe: Annotated[str, tyro.conf.Positional],
    *,
    profile: Profile = "faithful",
    gpus: int = 1,
    gpu: str = "h100",
    tokens: int | None = None,
    parallel: Literal["ddp", "fsdp"] = "ddp",
    tensor_parallel: int = 1,
    activation_checkpointing: bool = False,
    override: tuple[str, ...] = (),
) -> Report:
    """What a recipe takes before anything runs: parameters, tokens, arithmetic, memory, hours and cost.

    Example: biosmith plan bioformer-8l --gpus 4 --gpu a100 --tokens 8_000_000_000

    Example: biosmith plan biomegatron-1.2b --gpus 4 --tensor-parallel 2 --parallel fsdp

    Args:
        recipe: one of `biosmith recipes`.
        profile: "faithful" is the paper's own arithmetic, "fast" what is known to be better today.
        gpus: how many cards.
        gpu: their kind: h200, h100, a100, l40s, a10g, l4, v100 or rtx4090.
        tokens: of the corpus (for a latent-variable model: of its sentences), which gives the number of epochs.
        parallel: how cards work together, as `pretrain` takes it; with fsdp they share the parameters.
        tensor_parallel: so many of them share every layer.
        activation_checkpointing: keep the inputs of layers only, and compute the rest again.
        override: key.path=value, as `pretrain` takes them.
    """
    from biosmith.pretraining.config import apply_overrides
    from biosmith.pretraining.elbo_config import apply_vae_overrides
    from biosmith.pretraining.elbo_planning import plan_vae, require_whole_models
    from biosmith.pretraining.layouts import Layout
    from biosmith.pretraining.planning import plan as make_plan
    from biosmith.recipes import find_recipe
    from biosmith.recipes.biovae import VAE_RECIPES, find_vae_recipe

    layout = Layout(gpus, parallel, tensor_parallel, activation_checkpointing)
    if recipe in VAE_RECIPES:
        latent = apply_vae_overrides(find_vae_recipe(recipe, profile), override)
        require_whole_models(latent, layout)
        planned = plan_vae(latent, gpu, gpus, tokens)
        return Report(planned, _table(vars(planned)))
    found = make_plan(apply_overrides(find_recipe(recipe, profile), override), gpu, gpus, tokens, layout)
    return Report(found, _table(vars(found)))


def _table(found: dict[str, object]) -> object:
    from rich.table import Table

    shown = {
        "parameters": "{:,}",
        "steps": "{:,}",
        "sequences": "{:,}",
        "tokens": "{:,}",
        "epochs": "{:,}",
        "flops_per_token": "{:,}",
        "flops": "{:.2e}",
        "computational_ratio": "{:.2f} x ELECTRA-base++ (BioM-Transformers, Table 1)",
        "memory_gib": "{:.1f} GiB a card",
        "tokens_per_second": "{:,} in all",
        "hours": "{:,.1f}",
        "dollars": "about {:,} at a usual cloud price",
    }
    table = Table(box=None, show_header=False, padding=(0, 2))
    cards = f"{found['gpus']} x {found['gpu']}" + (f", {found['layout']}" if found["gpus"] != 1 else "")
    table.add_row("[bold]recipe[/]", f"{found['recipe']} ({found['profile']}) on {cards}")
    for key, form in shown.items():
        if found[key] is not None:
            table.add_row(f"[bold]{key.replace('_', ' ')}[/]", form.format(found[key]))
    if not found["fits"]:
        table.add_row(
            "[bold red]fits[/]",
            "no: lower batch.micro_batch_tokens, or use --parallel fsdp, --tensor-parallel or --activation-checkpointing"
            if found["computational_ratio"] is not None
            else "no: lower batch.micro_batch_tokens",
        )
    return table
