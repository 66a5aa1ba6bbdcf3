"""biosmith: from raw biomedical text to a benchmarked, deployable language model.

The names below are the public API; each is imported when it is first used, so that `import biosmith` is fast.
"""

from __future__ import annotations

import importlib
from typing import Any

from biosmith.version import __version__

# name -> its module, and after a colon its name there where that is another
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
    "task": "biosmith.bench.datasets:find_dataset",
    "suite": "biosmith.bench.suites:find_suite",
    "evaluate": "biosmith.bench.evaluating",
    "finetune": "biosmith.bench.tuning",
    "Instance": "biosmith.tasks.instances",
}

__all__ = [
    "Argument",
    "BiosmithError",
    "Document",
    "Instance",
    "Mention",
    "Passage",
    "Rejects",
    "Relation",
    "__version__",
    "encoder",
    "evaluate",
    "finetune",
    "load",
    "read",
    "render",
    "suite",
    "task",
    "write",
]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        module, _, attribute = _PUBLIC[name].partition(":")
        return getattr(importlib.import_module(module), attribute or name)
    raise AttributeError(f"module 'biosmith' has no attribute {name!r}")
