"""Files of questions in JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from biosmith.errors import BadInput
from biosmith.surrogates import parse_json
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
