"""Two mentions of a sentence replaced by markers ("dummification": PubMedBERT, section 5)."""

from __future__ import annotations

Span = tuple[int, int]


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


def write_rows(rows: list[tuple[str, str, str]]) -> bytes:
    """Rows as the benchmarks write them: tab-separated, nothing quoted, a line feed after each."""
    return "".join("\t".join(row) + "\n" for row in rows).encode()
