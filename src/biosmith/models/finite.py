"""Whether a network's weights are numbers."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from torch import nn

from biosmith.errors import BadInput

Network = TypeVar("Network", bound=nn.Module)


def find_not_finite(network: nn.Module) -> str | None:
    """The name of the first parameter that holds NaN or an infinite number; None if none does.

    Of a parameter that several devices share, each looks at its own part.
    """
    for name, parameter in network.named_parameters():
        values = parameter.detach()
        here = values.to_local() if hasattr(values, "to_local") else values
        if not bool(here.isfinite().all()):
            return name
    return None


def require_finite(network: Network, folder: Path) -> Network:
    """The network that was read from a folder; `BadInput` if it would answer every text with NaN, which looks like
    finding nothing."""
    if (name := find_not_finite(network)) is not None:
        raise BadInput(folder, f"holds numbers that are none (NaN or infinite) in {name}")
    return network
