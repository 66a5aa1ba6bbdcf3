"""`biosmith.encoder(folder).embed`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

import biosmith
from biosmith.errors import UsageError
from biosmith.models import save_model
from biosmith.models.bert import BertConfig
from biosmith.models.encoder import Encoder
from biosmith.models.vae_folder import encode_texts, load_tokenizer

TEXTS = ["EGFR mutations in lung cancer", "", "TNF-α " * 400, "Aspirin inhibits platelet aggregation.", "p53"]


@pytest.fixture(scope="module")
def vectors(minilm: Path) -> np.ndarray:
    return biosmith.encoder(minilm, device="cpu").embed(TEXTS)


def test_a_vector_is_the_mean_of_the_last_hidden_states_of_transformers(
    minilm: Path, vectors: np.ndarray
) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(minilm)
    model = transformers.AutoModel.from_pretrained(minilm).eval()
    for text, vector in zip(TEXTS, vectors, strict=True):
        batch = tokenizer(text, return_tensors="pt", truncation=True, max_length=512)
        with torch.inference_mode():
            expected = model(**batch).last_hidden_state.mean(dim=1)[0]
        np.testing.assert_allclose(vector, expected.numpy(), rtol=0, atol=1e-5)


def test_batches_change_nothing_but_rounding(minilm: Path, vectors: np.ndarray) -> None:
    one_by_one = biosmith.encoder(minilm, device="cpu").embed(TEXTS, tokens_a_batch=1)
    np.testing.assert_allclose(one_by_one, vectors, rtol=0, atol=1e-5)


def test_no_texts_give_no_vectors(minilm: Path) -> None:
    assert biosmith.encoder(minilm, device="cpu").embed([]).shape == (0, 384)


def test_a_single_text_is_not_taken_for_a_list_of_letters(minilm: Path) -> None:
    with pytest.raises(UsageError, match=r"embed\(\[text\]\)"):
        biosmith.encoder(minilm, device="cpu").embed("EGFR mutations in lung cancer")


def test_lone_surrogates_are_read_as_the_replacement_character(minilm: Path) -> None:
    """JSON can spell them, and no tokenizer takes them."""
    enc = biosmith.encoder(minilm, device="cpu")
    half, replaced = enc.embed(["EGFR \ud800 mutation", "EGFR \ufffd mutation"])
    np.testing.assert_allclose(half, replaced, rtol=0, atol=1e-5)
    pieces = encode_texts(load_tokenizer(minilm), ["EGFR \ud800 mutation", "EGFR \ufffd mutation"])
    assert pieces[0] == pieces[1]


def test_a_list_with_something_else_than_a_text_is_refused_with_its_place(minilm: Path) -> None:
    with pytest.raises(UsageError, match=r"texts\[1\] is None"):
        biosmith.encoder(minilm, device="cpu").embed(["EGFR", None])  # type: ignore[list-item]


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    small = BertConfig(vocabulary_size=50, layers=1, width=8, heads=1, feed_forward=8, positions=16)
    with pytest.raises(UsageError, match=r"has no tokenizer\.json"):
        biosmith.encoder(save_model(tmp_path / "model", Encoder(small)), device="cpu")
