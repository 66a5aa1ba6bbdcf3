"""One file a paper: a recipe is a function that returns a frozen dataclass, every number cited."""

from biosmith.pretraining.config import Recipe, apply_overrides
from biosmith.recipes.table import RECIPES, find_recipe, parameters, with_profile

__all__ = ["RECIPES", "Recipe", "apply_overrides", "find_recipe", "parameters", "with_profile"]
