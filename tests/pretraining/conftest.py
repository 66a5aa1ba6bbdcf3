"""A token store with the shape of biomedical text: words of several pieces, sentences, documents of all lengths."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from biosmith.tokens.store import TokenStore, VocabularyMark, write_store

SPECIAL = {"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4}

MakeStore = Callable[..., TokenStore]


def write_random_store(
    folder: Path, lengths: list[int], *, vocabulary: int = 1000, seed: int = 0, digest: str = "d" * 64
) -> TokenStore:
    """Words of 1 to 5 pieces, sentences of 4 to 40 words; ids follow a Zipf law, as words do."""
    rng = np.random.default_rng(seed)
    documents = []
    for length in lengths:
        sizes = rng.choice([1, 2, 3, 4, 5], size=length, p=[0.62, 0.2, 0.1, 0.05, 0.03])
        first = np.concatenate([[0], np.cumsum(sizes)])
        words = np.zeros(length, dtype=bool)
        words[first[first < length]] = True
        starts = np.flatnonzero(words)
        sentences = np.zeros(length, dtype=bool)
        position = 0
        while position < len(starts):
            sentences[starts[position]] = True
            position += int(rng.integers(4, 41))
        ids = len(SPECIAL) + np.minimum(rng.zipf(1.3, length), vocabulary - len(SPECIAL)) - 1
        documents.append((ids, words, sentences))
    mark = VocabularyMark(vocabulary, digest, True, SPECIAL)
    return write_store(folder, mark, documents)


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """The models here are so small that a second thread only waits."""
    torch.set_num_threads(1)


@pytest.fixture
def make_store(tmp_path: Path) -> MakeStore:
    """Make a random store of documents with the given lengths."""
    made = 0

    def make(lengths: list[int], **options: object) -> TokenStore:
        nonlocal made
        made += 1
        return write_random_store(tmp_path / f"tokens-{made}", lengths, **options)  # type: ignore[arg-type]

    return make


@pytest.fixture(scope="session")
def abstracts(tmp_path_factory: pytest.TempPathFactory) -> TokenStore:
    """2,000 documents of about 250 tokens, one in fifty as long as a full text."""
    rng = np.random.default_rng(7)
    lengths = np.clip(rng.lognormal(5.4, 0.6, size=2000), 3, 2000).astype(int)
    lengths[::50] = rng.integers(1500, 5000, size=40)
    return write_random_store(tmp_path_factory.mktemp("abstracts") / "tokens", lengths.tolist(), seed=7)
