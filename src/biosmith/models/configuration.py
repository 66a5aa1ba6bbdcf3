"""What the configurations of all families of encoders have in common; the fields are each family's own."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Self

from biosmith.errors import UsageError

ACTIVATIONS = ("gelu", "gelu_new")


class EncoderConfig:
    """The base of a frozen dataclass.

    Raises:
        UsageError: a value is impossible; the message names the field and the valid values.
    """

    width: int
    heads: int
    activation: str
    initializer_range: float

    def __post_init__(self) -> None:
        check_config(self)

    @property
    def head_width(self) -> int:
        """Width of one attention head."""
        return self.width // self.heads

    @property
    def head_activation(self) -> str:
        """Activation of the masked-language head."""
        return self.activation

    @property
    def head_initializer_range(self) -> float:
        """Standard deviation that the heads' matrices start with."""
        return self.initializer_range

    @property
    def has_segments(self) -> bool:
        """Whether the family tells segments apart."""
        return True

    @property
    def has_pooler(self) -> bool:
        """Whether the family has a pooler and a head over pairs of segments."""
        return True

    def without_dropout(self) -> Self:
        """The same model with every dropout off."""
        made: Self = without_dropout(self)
        return made


def without_dropout(config: Any) -> Any:
    """The configuration with every dropout off."""
    names = [field.name for field in dataclasses.fields(config) if field.name.endswith("dropout")]
    return dataclasses.replace(config, **dict.fromkeys(names, 0.0))


def is_number(value: Any) -> bool:
    """Whether a value is a finite number; True and False are none."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def check_config(config: Any, what: str = "model") -> None:
    """Raise `UsageError` where a value is impossible: kinds of values, what is counted, dropout rates, heads,
    activations."""
    fields = dataclasses.fields(config)  # whose types are texts, as annotations are not evaluated
    for field in fields:
        value = getattr(config, field.name)
        if field.type == "int" and (not isinstance(value, int) or isinstance(value, bool)):
            raise UsageError(f"{what} {field.name} must be a whole number, not {value!r}")
        if field.type == "float" and not is_number(value):
            raise UsageError(f"{what} {field.name} must be a number, not {value!r}")
    for name in (f.name for f in fields if f.type == "int" and not f.name.endswith("_id")):
        if getattr(config, name) < 1:
            raise UsageError(f"{what} {name} must be at least 1, not {getattr(config, name)}")
    for name in (f.name for f in fields if f.name.endswith("dropout")):
        if not 0 <= getattr(config, name) < 1:
            raise UsageError(f"{what} {name} must lie in [0, 1), not {getattr(config, name)}")
    for name in ("layer_norm_epsilon", "initializer_range"):
        if getattr(config, name) < 0:
            raise UsageError(f"{what} {name} must not be below 0, as {getattr(config, name)} is")
    if config.width % config.heads:
        raise UsageError(f"{what} width {config.width} cannot be shared out among {config.heads} heads")
    for name in (f.name for f in fields if f.name.endswith("activation")):
        if getattr(config, name) not in ACTIVATIONS:  # a tuple, which takes what cannot be hashed
            valid = ", ".join(ACTIVATIONS)
            raise UsageError(f"{what} {name} {getattr(config, name)!r} is unknown; valid: {valid}")
