"""Growing in depth: a trained BERT gone on from with more layers than it has.

"stack" repeats its layers in their order (Gong et al., 2019, "Efficient Training of BERT by Progressively Stacking",
section 3); "identity" puts new ones on top that hand on what they are given, as nearly as a post-LN layer can.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from biosmith.errors import UsageError
from biosmith.models.bert import BertConfig

NewLayers = Literal["identity", "stack"]
_LAYER = re.compile(r"(?P<before>.*\blayers)\.(?P<number>\d+)\.(?P<part>.*)")


@dataclasses.dataclass(frozen=True)
class Growth:
    """To how many layers, and how the new ones begin."""

    layers: int
    new_layers: NewLayers = "identity"


def deepened(config: Any, growth: Growth) -> BertConfig:
    """The architecture with so many layers.

    Raises:
        UsageError: it is no BERT, or has as many layers or more.
    """
    if not isinstance(config, BertConfig):
        raise UsageError(f"only models of the family bert can be given more layers, not {config.kind}")
    if growth.layers <= config.layers:
        raise UsageError(f"a model of {config.layers} layers cannot grow to {growth.layers}")
    if growth.new_layers not in get_args(NewLayers):
        raise UsageError(f"new layers {growth.new_layers!r}; valid: {', '.join(get_args(NewLayers))}")
    return dataclasses.replace(config, layers=growth.layers)


def grown(state: Mapping[str, Tensor], growth: Growth) -> dict[str, Tensor]:
    """The weights of a deeper model.

    With "stack" layer i is a copy of layer i modulo the old number. With "identity" the new ones are copies of the last
    layer whose sublayers add nothing, between LayerNorms that scale to what the last one puts out.

    Args:
        state: all weights of the model, by our names; what belongs to no layer stays as it is.
    """
    old = 1 + max(int(match["number"]) for match in map(_LAYER.fullmatch, state) if match)
    found: dict[str, Tensor] = {}
    for name, value in state.items():
        match = _LAYER.fullmatch(name)
        if match is None:
            found[name] = value
            continue
        number, before, part = int(match["number"]), match["before"], match["part"]
        found[name] = value
        if growth.new_layers == "stack":
            copies = range(number + old, growth.layers, old)
        else:
            copies = range(old, growth.layers if number == old - 1 else old)
            value = _as_identity(part, state, f"{before}.{number}")
        for copy in copies:
            found[f"{before}.{copy}.{part}"] = value.clone()
    return found


def _as_identity(part: str, state: Mapping[str, Tensor], last: str) -> Tensor:
    """What a part of a layer that adds nothing has; `last` names the layer that it follows."""
    value = state[f"{last}.{part}"]
    if part.startswith(("attention.output.", "feed_forward.down.")):
        return torch.zeros_like(value)
    if part.startswith(("attention_norm.", "feed_forward_norm.")):
        # Every token leaves the last layer with about this mean and standard deviation over its values.
        gain, bias = state[f"{last}.feed_forward_norm.weight"], state[f"{last}.feed_forward_norm.bias"]
        mean, spread = bias.mean(), (gain.square().mean() + bias.var(unbiased=False)).sqrt()
        return torch.full_like(value, float(mean if part.endswith("bias") else spread))
    return value
