"""Half pairs of UTF-16: JSON and Python can spell them, but they are no text, and neither UTF-8 nor tokenizers take them."""

from __future__ import annotations

import json
import re
from typing import Any

_LONE = re.compile("[\ud800-\udfff]")


def replace_surrogates(text: str) -> str:
    """The text with U+FFFD for lone surrogates; offsets do not change."""
    return _LONE.sub("\ufffd", text) if _LONE.search(text) else text


def parse_json(text: str | bytes) -> Any:
    """A JSON value with U+FFFD for lone surrogates. Raises as `json.loads`."""
    value = json.loads(text)
    escape: Any = b"\\ud" if isinstance(text, bytes) else "\\ud"
    return _without(value) if escape in text.lower() else value


def _without(value: Any) -> Any:
    if isinstance(value, str):
        return replace_surrogates(value)
    if isinstance(value, list):
        return [_without(member) for member in value]
    if isinstance(value, dict):
        return {replace_surrogates(key): _without(member) for key, member in value.items()}
    return value
