"""Fine-tuning settings that a paper gives for its models, by recipe and task.

One table so far: Alrowili and Vijay-Shanker (2021), Appendix A.1, Table 4. Tasks are named as `biosmith.tasks.fitting`
names their kinds: "tagging" (NER), "relation" (ChemProt), "squad" (SQuAD2.0) and "factoid" (BioASQ7B).
"""

from __future__ import annotations

from typing import NamedTuple

from biosmith.errors import UsageError

SOURCE = "Alrowili and Vijay-Shanker (2021), Appendix A.1, Table 4"


class Preset(NamedTuple):
    """A row of a table; each is the name of a setting of fine-tuning."""

    epochs: int
    learning_rate: float
    batch_size: int


_BASE = {
    "tagging": Preset(5, 2e-4, 48),
    "relation": Preset(4, 1e-4, 32),
    "squad": Preset(3, 1e-4, 32),
    "factoid": Preset(4, 2e-5, 24),
}
_LARGE = {
    "tagging": Preset(5, 7e-5, 32),
    "relation": Preset(4, 7e-5, 32),
    "squad": Preset(3, 5e-5, 32),
    "factoid": Preset(4, 2e-5, 24),
}
_XXLARGE = {
    "tagging": Preset(4, 3e-5, 16),
    "relation": Preset(5, 3e-5, 128),
    "squad": Preset(2, 3e-5, 128),
    "factoid": Preset(3, 1e-5, 128),
}
PRESETS: dict[str, dict[str, Preset]] = {
    "biom-electra-base": _BASE,
    "biom-electra-large": _LARGE,
    "biom-bert-large": {
        "tagging": _LARGE["tagging"],
        "relation": _LARGE["relation"],
        "squad": Preset(5, 5e-5, 48),
    },
    "biom-albert-xxlarge": _XXLARGE,
    "biom-albert-xxlarge-pmc": _XXLARGE,
    # The general models of the table; it has no SQuAD row for them.
    "electra-base": {task: preset for task, preset in _BASE.items() if task != "squad"},
    "pubmedbert": {"squad": Preset(2, 5e-5, 32), "factoid": Preset(3, 1e-5, 128)},
}


def find_preset(model: str, task: str) -> Preset:
    """The settings of a model for a kind of task.

    Raises:
        UsageError: the table has none; what it has is named.
    """
    if model not in PRESETS:
        raise UsageError(f"there is no preset {model!r}; valid: {', '.join(PRESETS)}")
    if task not in PRESETS[model]:
        raise UsageError(
            f"preset {model} has no settings for {task}; it has some for: {', '.join(PRESETS[model])}"
        )
    return PRESETS[model][task]


def preset_overrides(model: str, task: str) -> tuple[str, ...]:
    """The same as `key=value`, the form that `apply_overrides` takes."""
    return tuple(f"{key}={value}" for key, value in find_preset(model, task)._asdict().items())
