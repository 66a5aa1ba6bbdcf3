"""Words of raw text, cut as the benchmarks' tagging files are: letters and digits together, every other mark alone."""

from __future__ import annotations

import json

import regex

# Marks that only change the character before them (accents, joiners, zero-width and bidirectional controls) stay with
# it, so that no mention ends between a letter and its accent. What stands alone of them is a word of its own.
_WORD = regex.compile(
    r"[\p{L}\p{N}][\p{L}\p{N}\p{M}\p{Cf}]*|[^\s\p{L}\p{N}\p{M}\p{Cf}\p{Cc}][\p{M}\p{Cf}]*|[^\s\p{L}\p{N}]"
)


def split_words(text: str, start: int = 0, end: int | None = None) -> list[tuple[int, int]]:
    """Spans (start, end) of the words between two places of a text, in code points of the whole text.

    Words are in order and do not overlap; every character that is not white space lies in exactly one of them.

    >>> text = "IL-2 (5.0 µM)"
    >>> [text[a:b] for a, b in split_words(text)]
    ['IL', '-', '2', '(', '5', '.', '0', 'µM', ')']
    """
    return [match.span() for match in _WORD.finditer(text, start, len(text) if end is None else end)]


def word_prefix(tokenizer: str) -> str:
    """What goes before a word so that a tokenizer, given as its JSON, cuts it as inside a sentence: a space, or nothing.

    To byte-level vocabularies (RoBERTa, ModernBERT) a space belongs to the word after it: without it, "aspirin" would
    be the end of another word.
    """
    pre_tokenizer = json.loads(tokenizer).get("pre_tokenizer") or {}
    steps = pre_tokenizer.get("pretokenizers", [pre_tokenizer])
    joined = any(step.get("type") == "ByteLevel" and not step.get("add_prefix_space") for step in steps)
    return " " if joined else ""
