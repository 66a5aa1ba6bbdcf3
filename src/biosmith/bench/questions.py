"""Files of questions in JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from biosmith.errors import BadInput
from biosmith.surrogates import replace_surrogates
from biosmith.text import files


def read_json(file: Path) -> dict[str, Any]:
    """A JSON object, from a plain or compressed file.

    Raises:
        BadInput: it is not one, or the file is damaged.
    """
    try:
        with files.open_decompressed(file) as stream:
            value = parse_json(stream.read())
    except (ValueError, RecursionError) as error:
        raise BadInput(file, f"is not JSON: {error}") from error
    except files.BROKEN as error:
        raise BadInput(file, f"is damaged: {error}") from error
    if not isinstance(value, dict):
        raise BadInput(file, "is not a JSON object")
    return value


def parse_json(content: bytes) -> Any:
    """A JSON value; lone surrogates, which JSON can spell and no tokenizer reads, as U+FFFD. Raises as `json.loads`."""
    value = json.loads(content)
    return _without_surrogates(value) if b"\\ud" in content.lower() else value


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return replace_surrogates(value)
    if isinstance(value, list):
        return [_without_surrogates(member) for member in value]
    if isinstance(value, dict):
        return {replace_surrogates(key): _without_surrogates(member) for key, member in value.items()}
    return value
