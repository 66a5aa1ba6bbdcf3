"""All recipes by name, and the profiles they come in."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, get_args

from biosmith.artefact import to_plain
from biosmith.errors import UsageError
from biosmith.pretraining.config import Profile, Recipe
from biosmith.pretraining.elbo_config import VaeRecipe
from biosmith.pretraining.planning import recipe_parameters
from biosmith.recipes import (
    albert,
    bert,
    bioformer,
    biom,
    biomegatron,
    biosmith,
    demo,
    electra,
    modern,
    pubmedbert,
)
from biosmith.recipes.biovae import VAE_RECIPES

# One line a recipe (latent-variable models are in `biovae`); a new paper is a new file and a line here.
RECIPES: dict[str, Callable[[], Recipe]] = {
    "bert-base": bert.bert_base,
    "pubmedbert": pubmedbert.pubmedbert,
    "bioformer-8l": bioformer.bioformer_8l,
    "bioformer-16l": bioformer.bioformer_16l,
    "biomegatron-345m": biomegatron.biomegatron_345m,
    "biomegatron-345m-bio-30k": biomegatron.biomegatron_345m_bio_30k,
    "biomegatron-345m-bio-50k": biomegatron.biomegatron_345m_bio_50k,
    "biomegatron-800m": biomegatron.biomegatron_800m,
    "biomegatron-1.2b": biomegatron.biomegatron_1_2b,
    "electra-small": electra.electra_small,
    "electra-base": electra.electra_base,
    "albert-base": albert.albert_base,
    "biom-electra-base": biom.biom_electra_base,
    "biom-electra-large": biom.biom_electra_large,
    "biom-bert-large": biom.biom_bert_large,
    "biom-albert-xxlarge": biom.biom_albert_xxlarge,
    "biom-albert-xxlarge-pmc": biom.biom_albert_xxlarge_pmc,
    "modern-base": modern.modern_base,
    "modern-small": modern.modern_small,
    "biosmith-base-small": biosmith.biosmith_base_small,
    "biosmith-tiny": biosmith.biosmith_tiny,
    "demo": demo.demo,
}


def find_recipe(name: str, profile: Profile = "faithful") -> Recipe:
    """The recipe of that name. Raises `UsageError` that lists the valid names, and for latent-variable models."""
    if name in VAE_RECIPES:
        raise UsageError(f"recipe {name!r} is that of a latent-variable model, which this is not for")
    if name not in RECIPES:
        raise UsageError(f"recipe {name!r} is unknown; valid: {', '.join([*RECIPES, *VAE_RECIPES])}")
    return with_profile(RECIPES[name](), profile)


def with_profile(recipe: Recipe, profile: Profile) -> Recipe:
    """The recipe in one of its profiles.

    "faithful" is the paper's own arithmetic. "fast" leaves dropout out, for which the fused layers have no
    room; large corpora are not seen often enough for dropout to help (Geiping and Goldstein, 2023,
    Cramming, section 4.3). Raises `UsageError` for another name.
    """
    if profile not in get_args(Profile):
        raise UsageError(f"profile {profile!r} is unknown; valid: {', '.join(get_args(Profile))}")
    if profile == "faithful":
        return dataclasses.replace(recipe, profile=profile)
    dropout = "profile fast: none (Geiping and Goldstein, 2023, Cramming, section 4.3)"
    return dataclasses.replace(
        recipe,
        profile=profile,
        model=recipe.model.without_dropout(),
        citations={**recipe.citations, "model.dropout": dropout, "model.attention_dropout": dropout},
    )


def parameters(recipe: Recipe) -> int:
    """Parameters of the recipe's model with its pretraining heads: of the discriminator, where there is a generator."""
    return recipe_parameters(recipe)


def rows(recipe: Recipe | VaeRecipe) -> Iterator[tuple[str, str, str]]:
    """(path, value, citation) of every value of a recipe; a citation of a section stands at its first value."""
    plain = {
        key: value for key, value in to_plain(recipe).items() if key not in ("name", "paper", "citations")
    }
    open_citations = dict(recipe.citations)
    for path, value in _flat(plain, ""):
        parts = path.split(".")
        sections = [".".join(parts[:depth]) for depth in range(1, len(parts) + 1)]
        found = [open_citations.pop(section) for section in sections if section in open_citations]
        yield path, value, "; ".join(found)


def _flat(value: Any, prefix: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        value = {item.get("kind", str(place)): item for place, item in enumerate(value)}
    if isinstance(value, dict):
        for key, item in value.items():
            if key == "kind" and prefix.startswith("objectives."):
                continue  # it stands in the path already
            yield from _flat(item, f"{prefix}.{key}" if prefix else key)
    else:
        shown = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        yield prefix, f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else shown
