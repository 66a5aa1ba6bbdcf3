"""transformers reports loading on stderr and through warnings that are not about our work."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def quiet_transformers() -> None:
    transformers = pytest.importorskip("transformers")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
