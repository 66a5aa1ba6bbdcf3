"""What a writer wrote, and what its format could not hold."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from biosmith.text.document import Document


@dataclass
class WriteReport:
    """What was written.

    Attributes:
        documents, mentions, relations: how many were written.
        lost: what the format cannot hold -> how often that was left out.
    """

    documents: int = 0
    mentions: int = 0
    relations: int = 0
    lost: Counter[str] = field(default_factory=Counter)

    def add(self, document: Document) -> None:
        """Count a document as it was written."""
        self.documents += 1
        self.mentions += len(document.mentions)
        self.relations += len(document.relations)
