"""Citation marks made of numbers: left out of the text, with the brackets and separators that hold nothing else.

`shown [1,2].` and `shown1-3.` (raised) become `shown.`. Marks with names ("Smith et al., 2010") are words.
"""

from __future__ import annotations

import re

MARK = (
    "\uffff"  # stands for a mark until the sentence is whole; XML and JSON texts do not hold this character
)

_SEPARATORS = r"[\s,;:–—‐‑−\-]|and|&"
_IN_BRACKETS = re.compile(rf"\s*[\[(（]\s*{MARK}(?:{_SEPARATORS}|{MARK})*[\])）]")
_BARE = re.compile(rf"\s*{MARK}(?:\s*[,;–—‐‑−\-]\s*{MARK})*")
_NUMBERS = re.compile(r"[\[(]?\s*\d{1,3}[a-z]?(?:\s*[,;–—‐‑−\-]\s*\d{1,3}[a-z]?)*\s*[\])]?")


def is_number_mark(text: str) -> bool:
    """Whether the text of a reference is numbers only: "12", "[3]", "4-6"; not a year."""
    return _NUMBERS.fullmatch(text.strip()) is not None


def remove_marks(text: str) -> str:
    """The text without what `MARK` stands for, and without brackets that held nothing else."""
    if MARK in text:
        text = _BARE.sub("", _IN_BRACKETS.sub("", text)).strip()
    return text.replace(" ()", "").replace(" []", "") if " ()" in text or " []" in text else text
