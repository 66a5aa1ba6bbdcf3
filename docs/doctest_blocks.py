"""Examples in docstrings as code: `>>> ...` and the answer below it, up to the next blank line, in a fenced block."""

from __future__ import annotations

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"^( *)(>>> .*(?:\n(?! *$).*)*)", re.MULTILINE)


class DoctestBlocks(griffe.Extension):
    """Fences the examples of every docstring before it is parsed."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring is not None:
            text = obj.docstring.value.replace("  # doctest: +SKIP", "")
            obj.docstring.value = _EXAMPLE.sub(r"\1```pycon\n\1\2\n\1```", text)
