"""The tagger that is used where none is named: it comes with the sources, in `models/`."""

from __future__ import annotations

import os
from pathlib import Path

from biosmith.errors import UsageError

DEFAULT = "biosmith-tagger"
VARIABLE = "BIOSMITH_MODELS"


def default_tagger() -> Path:
    """The folder of the tagger for diseases, chemicals and genes: below BIOSMITH_MODELS, or in the checkout.

    Raises:
        UsageError: it is in neither; says what to do.
    """
    checkout = Path(__file__).resolve().parents[3] / "models"
    folder = Path(os.environ.get(VARIABLE) or checkout)
    if (folder / DEFAULT / "config.json").is_file():
        return folder / DEFAULT
    raise UsageError(
        f"no model was named, and {DEFAULT} is not in {folder}: name a tuned model, or copy models/{DEFAULT} of "
        f"biosmith's sources somewhere and set {VARIABLE} to the folder around it"
    )
