"""Half pairs of UTF-16: JSON and Python can spell them, but they are no text, and neither UTF-8 nor tokenizers take them."""

from __future__ import annotations

import re

_LONE = re.compile("[\ud800-\udfff]")


def replace_surrogates(text: str) -> str:
    """The text with U+FFFD for lone surrogates; offsets do not change."""
    return _LONE.sub("\ufffd", text) if _LONE.search(text) else text
