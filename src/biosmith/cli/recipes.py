"""`biosmith recipes`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from biosmith.cli import Report
from biosmith.pretraining.config import Profile

if TYPE_CHECKING:
    from biosmith.pretraining.config import Recipe
    from biosmith.pretraining.elbo_config import VaeRecipe


def recipes(
    name: Annotated[str | None, tyro.conf.Positional] = None,
    *,
    profile: Profile = "faithful",
    override: tuple[str, ...] = (),
) -> Report:
    """List the papers' recipes, or print one in full with its citations.

    Example: biosmith recipes bioformer-8l --profile fast

    Args:
        name: a recipe; all are listed without it.
        profile: "faithful" is the paper's own arithmetic, "fast" what is known to be better today.
        override: key.path=value, as `pretrain` takes them.
    """
    from biosmith.artefact import to_plain
    from biosmith.errors import UsageError
    from biosmith.pretraining.elbo_config import apply_vae_overrides
    from biosmith.recipes import RECIPES, apply_overrides, find_recipe, parameters
    from biosmith.recipes.biovae import VAE_RECIPES, find_vae_recipe, vae_parameters

    if name is None and override:
        raise UsageError("--override changes one recipe; name it: biosmith recipes NAME --override KEY=VALUE")
    if name is None:
        plain = [find_recipe(known, profile) for known in RECIPES]
        latent = [find_vae_recipe(known, profile) for known in VAE_RECIPES]
        sizes = [(parameters(recipe), recipe.vocabulary.size) for recipe in plain]
        sizes += [(vae_parameters(recipe), recipe.model.encoder.vocabulary_size) for recipe in latent]
        every: list[Recipe | VaeRecipe] = [*plain, *latent]
        data = [
            {
                "name": recipe.name,
                "parameters": count,
                "layers": recipe.model.layers,
                "width": recipe.model.width,
                "heads": recipe.model.heads,
                "vocabulary": vocabulary,
                "steps": recipe.steps,
                "batch_tokens": recipe.batch.tokens,
                "paper": recipe.paper,
            }
            for recipe, (count, vocabulary) in zip(every, sizes, strict=True)
        ]
        return Report(data, _list(data))
    if name in VAE_RECIPES:
        chosen = apply_vae_overrides(find_vae_recipe(name, profile), override)
        count = vae_parameters(chosen)
        return Report(to_plain(chosen) | {"parameters": count}, _full(chosen, count))
    recipe = apply_overrides(find_recipe(name, profile), override)
    count = parameters(recipe)
    return Report(to_plain(recipe) | {"parameters": count}, _full(recipe, count))


def _list(data: list[dict[str, Any]]) -> object:
    from rich.table import Table

    from biosmith.cli.narrow import Uncut

    table = Table(box=None, padding=(0, 1))
    rows = [
        (
            row["name"],
            row["paper"].partition(",")[0].partition(";")[0],
            *(f"{row[key]:,}" for key in ("parameters", "steps", "batch_tokens")),
        )
        for row in data
    ]
    for place, column in enumerate(("name", "paper", "parameters", "steps", "tokens/step")):
        # In a narrow window the paper's name wraps; half a number would be a wrong one.
        justify: Literal["left", "right"] = "left" if place < 2 else "right"
        table.add_column(column, justify=justify, no_wrap=column != "paper")
    for row in rows:
        table.add_row(*row)
    return Uncut(table)


def _full(recipe: Recipe | VaeRecipe, count: int) -> object:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from biosmith.recipes.table import rows

    table = Table(box=None, padding=(0, 2))
    for column in ("field", "value", "source"):
        table.add_column(column, overflow="fold")
    for path, value, citation in rows(recipe):
        table.add_row(Text(path), Text(value), Text(citation, style="dim"))
    head = Text(f"{recipe.name}: {count:,} parameters\n{recipe.paper}\n")
    return Group(head, table)
