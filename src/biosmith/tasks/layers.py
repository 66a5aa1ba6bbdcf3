"""Layers treated differently in fine-tuning: slower, frozen or begun anew (Tinn et al., 2023).

Layers are found by the names of parameters, which the fast encoder and the models of `transformers` write alike:
`...layers.3...` or `...layer.3...`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from torch import nn

from biosmith.errors import UsageError
from biosmith.models.encoder import Encoder, initialise
from biosmith.tasks.settings import TrainingSettings

_LAYER = re.compile(r"(?:^|\.)(?:layers?|blocks?|h)\.(\d+)\.")
_EMBEDDING = re.compile(r"embed|wte|wpe|\brel_|\bencoder\.projection\b")


def depth_of(name: str) -> int | None:
    """0 for the embeddings, 1 for the lowest layer, 2 for the next; None for the head and all else above the layers."""
    found = _LAYER.search(name)
    if found:
        return int(found.group(1)) + 1
    return 0 if _EMBEDDING.search(name) else None


def learning_rate_scales(names: Sequence[str], decay: float) -> dict[str, float]:
    """Share of the learning rate for each parameter: 1 for the head, `decay` for the top layer, and so on down.

    >>> learning_rate_scales(["embeddings.words", "layers.0.up", "layers.1.up", "classifier"], 0.5)
    {'embeddings.words': 0.125, 'layers.0.up': 0.25, 'layers.1.up': 0.5, 'classifier': 1.0}
    """
    depths = {name: depth_of(name) for name in names}
    top = max((depth for depth in depths.values() if depth is not None), default=0) + 1
    return {name: decay ** (top - (top if depth is None else depth)) for name, depth in depths.items()}


def prepare_layers(network: nn.Module, settings: TrainingSettings) -> None:
    """Freeze the lowest layers and begin the top ones anew, as the settings say; draws from torch's generator.

    Raises:
        UsageError: the network has fewer layers, or its layers cannot be told apart.
    """
    frozen, fresh = settings.frozen_layers, settings.reinitialised_layers
    if not frozen and not fresh:
        return
    layers = max((depth_of(name) or 0 for name, _ in network.named_parameters()), default=0)
    for key, count in (("frozen_layers", frozen), ("reinitialised_layers", fresh)):
        if count > layers:
            raise UsageError(f"{key} is {count}, but the model has {layers} layers that can be told apart")
    if fresh:
        _reinitialise(network, range(layers - fresh, layers))
    if frozen:
        for name, parameter in network.named_parameters():
            depth = depth_of(name)
            if depth is not None and depth <= frozen:
                parameter.requires_grad_(False)


def _reinitialise(network: nn.Module, chosen: range) -> None:
    deviation = _initializer_range(network)
    for name, module in network.named_modules():
        found = _LAYER.search(f"{name}.")
        whole_layer = (
            found is not None and f"{name}.".endswith(found.group(0)) and int(found.group(1)) in chosen
        )
        if whole_layer or name.rpartition(".")[2] == "pooler":
            initialise(module, deviation)


def _initializer_range(network: nn.Module) -> float:
    for module in network.modules():
        config: Any = getattr(module, "config", None)
        if isinstance(module, Encoder) or hasattr(config, "initializer_range"):
            return float(config.initializer_range)
    return 0.02
