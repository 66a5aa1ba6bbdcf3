"""Two mentions of a sentence replaced by markers ("dummification": PubMedBERT, section 5)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

Span = tuple[int, int]


class Pair(NamedTuple):
    """An instance: the sentence with markers, as the benchmarks have it, and the sentence that it was made from.

    Attributes:
        entities: start, end and type of both mentions in `sentence`.
    """

    id: str
    marked: str
    label: str
    sentence: str
    entities: tuple[tuple[int, int, str], tuple[int, int, str]]


def mark(sentence: str, first: Span, second: Span, markers: tuple[str, str], joint: str) -> str:
    """The sentence with each mention replaced by its marker; overlapping mentions, as their union, by `joint`.

    >>> mark("aspirin inhibits COX-1", (0, 7), (17, 22), ("@CHEMICAL$", "@GENE$"), "@CHEM-GENE$")
    '@CHEMICAL$ inhibits @GENE$'
    """
    if max(first[0], second[0]) < min(first[1], second[1]):
        start, end = min(first[0], second[0]), max(first[1], second[1])
        return sentence[:start] + joint + sentence[end:]
    for (start, end), marker in sorted(zip((first, second), markers, strict=True), reverse=True):
        sentence = sentence[:start] + marker + sentence[end:]
    return sentence


def write_rows(pairs: Sequence[Pair]) -> bytes:
    """Rows as the benchmarks write them: tab-separated, nothing quoted, a line feed after each."""
    return "".join("\t".join(pair[:3]) + "\n" for pair in pairs).encode()


def write_entities(pairs: Sequence[Pair]) -> bytes:
    """The same instances with their mentions' own words: a JSON object a line (`tasks.instances.with_entities`)."""
    lines = [
        {"id": pair.id, "text": pair.sentence, "label": pair.label, "entities": pair.entities}
        for pair in pairs
    ]
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode()
