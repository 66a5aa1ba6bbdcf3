"""One file a paper: a recipe is a function that returns a frozen dataclass."""
