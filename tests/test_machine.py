"""What the machine says of itself, against other ways of asking."""

from __future__ import annotations

import os

import torch

from biosmith.machine import EXTRAS, FEATURES, installed_extras, memory_gib, processor, usable_cores


def test_usable_cores_lie_between_one_and_what_the_machine_has() -> None:
    assert 1 <= usable_cores() <= (os.cpu_count() or 1)


def test_processor_features_agree_with_what_torch_found() -> None:
    features = processor().features
    assert set(features) <= set(FEATURES)
    # torch names the widest instruction set that it uses; a machine with AVX512 kernels has the flag, and so on.
    wanted = {"AVX512": "avx512f", "AVX2": "avx2"}.get(torch.backends.cpu.get_cpu_capability())
    if wanted and features:
        assert wanted in features


def test_memory_is_at_least_what_this_test_needs() -> None:
    memory = memory_gib()
    assert memory is None or 0.5 < memory < 100_000


def test_an_extra_is_installed_when_none_of_its_modules_is_missing() -> None:
    missing = installed_extras()
    assert missing.keys() == EXTRAS.keys()
    assert missing["track"] == []  # the test environment has it
