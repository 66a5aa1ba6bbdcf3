"""biosmith: from raw biomedical text to a benchmarked, deployable language model.

The names below are the public API; each is imported when it is first used, so that `import biosmith` is fast.
"""

from __future__ import annotations

import importlib
from typing import Any

from biosmith.version import __version__

_PUBLIC = {
    "Document": "biosmith.text.document",
    "Passage": "biosmith.text.document",
    "Mention": "biosmith.text.document",
    "Relation": "biosmith.text.document",
    "Argument": "biosmith.text.document",
    "Rejects": "biosmith.rejects",
    "BiosmithError": "biosmith.errors",
    "read": "biosmith.text.formats",
    "write": "biosmith.text.formats",
    "render": "biosmith.text.formats.html",
    "load": "biosmith.annotate",
    "encoder": "biosmith.models.embedding",
}

__all__ = [
    "Argument",
    "BiosmithError",
    "Document",
    "Mention",
    "Passage",
    "Rejects",
    "Relation",
    "__version__",
    "encoder",
    "load",
    "read",
    "render",
    "write",
]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(importlib.import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'biosmith' has no attribute {name!r}")
