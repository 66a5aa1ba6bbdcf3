"""What a writer did, and what its format could not hold."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class WriteReport:
    """Counts of one `write`.

    Attributes:
        documents, mentions, relations: how many were written.
        lost: what the format cannot hold -> how often it was left out ("score", "discontinuous fragments", ...).
    """

    documents: int = 0
    mentions: int = 0
    relations: int = 0
    lost: Counter[str] = field(default_factory=Counter)
