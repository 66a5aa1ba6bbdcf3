"""The fast way to tokens gives what the tokenizers library gives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from biosmith.text.document import Document
from biosmith.text.sentences import split
from biosmith.tokens import encoding
from biosmith.tokens.encoding import BulkEncoder
from biosmith.tokens.vocabulary import load_vocabulary

MakeDocuments = Callable[..., list[Document]]
KINDS = ("wordpiece", "uncased", "sentencepiece", "bpe", "uncased-bpe")

# White space of all sorts, marks, accents composed and not, controls, scripts, special tokens as text, glued sentences.
AWKWARD = st.lists(
    st.sampled_from(
        [
            *" \xa0\t\n\r\u2009\u3000\x1c\x85",
            *"aZé19-.,(['`’́´µμβßİ語가ﬁ²½♀\x00\u200b\ufeff𝓔_",
            "[MASK]",
            "[SEP]",
            "shown.However, it",
            "IL-6 ",
            "fell. The ",
            "(p < 0.05) ",
        ]
    ),
    max_size=25,
).map("".join)


def encode_by_passage(encoder: BulkEncoder, documents: list[list[str]]):  # type: ignore[no-untyped-def]
    """The plain way: every passage through the library, words by its word ids, sentences by its offsets."""
    whole = BulkEncoder(encoder.tokenizer)
    whole.spaces = "unknown"
    return whole.encode(documents)


@pytest.mark.parametrize("kind", KINDS)
def test_ids_and_word_starts_are_those_of_the_library(
    vocabularies: dict[str, Path], make_documents: MakeDocuments, kind: str
) -> None:
    tokenizer = load_vocabulary(vocabularies[kind]).tokenizer
    encoder = BulkEncoder(tokenizer)
    assert encoder.spaces == (
        "joined" if kind.endswith("bpe") else "dropped"
    )  # the fast way is the one under test
    documents = [[p.text for p in d.passages] for d in make_documents(30, seed=1)]
    tokens = encoder.encode(documents)
    for number, passages in enumerate(documents):
        encodings = [tokenizer.encode(text, add_special_tokens=False) for text in passages]
        ids = [i for e in encodings for i in e.ids]
        starts = [
            w != before for e in encodings for w, before in zip(e.word_ids, [None, *e.word_ids], strict=False)
        ]
        cut = slice(tokens.offsets[number], tokens.offsets[number + 1])
        assert tokens.ids[cut].tolist() == ids
        assert tokens.word_starts[cut].tolist() == starts


@pytest.mark.parametrize("kind", KINDS)
@given(documents=st.lists(st.lists(AWKWARD, max_size=3), min_size=1, max_size=3))
@example(documents=[["\u0301 a"]])  # nothing is left of the first chunk where accents are taken off
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_awkward_text_is_cut_as_if_encoded_whole(
    vocabularies: dict[str, Path], kind: str, documents: list[list[str]]
) -> None:
    encoder = BulkEncoder(load_vocabulary(vocabularies[kind]).tokenizer)
    expected = encode_by_passage(encoder, documents)
    for _ in range(2):  # the second time everything comes from memory
        for found, wanted in zip(encoder.encode(documents), expected, strict=True):
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("kind", KINDS)
def test_sentences_start_at_the_token_of_their_first_character(
    vocabularies: dict[str, Path], kind: str
) -> None:
    encoder = BulkEncoder(load_vocabulary(vocabularies[kind]).tokenizer)
    text = "NF‑κB levels fell.However, DNA rose. We saw 5′-UTR."
    assert [text[a:b] for a, b in split(text)] == [
        "NF‑κB levels fell.",
        "However, DNA rose.",
        "We saw 5′-UTR.",
    ]
    tokens = encoder.encode([[text, "A title"], ["  Another. "]])
    starts = np.flatnonzero(tokens.sentence_starts).tolist()
    shown = encoder.tokenizer.encode(text, add_special_tokens=False)
    firsts = [text[a:b].strip() for a, b in (shown.offsets[i] for i in starts[:3])]
    assert firsts[0][0] == "N"
    assert firsts[1][0] == "H"  # glued to the sentence before, without a space
    assert firsts[2][0] == "W"
    assert starts[3] == len(shown.ids)  # every passage begins a sentence
    assert starts[4] == tokens.offsets[1]
    assert len(starts) == 5


def test_text_that_looks_like_a_special_token_never_becomes_one(vocabularies: dict[str, Path]) -> None:
    for folder in vocabularies.values():
        vocabulary = load_vocabulary(folder)
        tokens = BulkEncoder(vocabulary.tokenizer).encode([["a [MASK] b [SEP][CLS] [PAD] [unused0]"]])
        special = set(vocabulary.mark.special_tokens.values()) - {vocabulary.mark.special_tokens["unk"]}
        assert not special & set(tokens.ids.tolist())
        if folder.name.endswith("bpe"):  # bytes spell everything
            spelled = "a [MASK] b [SEP][CLS] [PAD] [unused0]"
            wanted = spelled if vocabulary.mark.cased else spelled.lower()
            assert vocabulary.tokenizer.decode(tokens.ids.tolist()).strip() == wanted


def test_memory_is_bounded_and_forgetting_changes_nothing(
    vocabularies: dict[str, Path], make_documents: MakeDocuments, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = [[p.text for p in d.passages] for d in make_documents(40, seed=2)]
    tokenizer = load_vocabulary(vocabularies["wordpiece"]).tokenizer
    expected = BulkEncoder(tokenizer).encode(documents)
    monkeypatch.setattr(encoding, "REMEMBERED", 50)
    small = BulkEncoder(tokenizer)
    pieces = [small.encode([document]) for document in documents]
    assert len(small._table) <= 50 + 60  # what one document adds before it is full
    assert len(small._words) <= 50 + 60
    np.testing.assert_array_equal(np.concatenate([p.ids for p in pieces]), expected.ids)
    np.testing.assert_array_equal(np.concatenate([p.word_starts for p in pieces]), expected.word_starts)
    np.testing.assert_array_equal(
        np.concatenate([p.sentence_starts for p in pieces]), expected.sentence_starts
    )


def test_a_tokenizer_with_added_words_is_not_cut_at_spaces(vocabularies: dict[str, Path]) -> None:
    tokenizer = load_vocabulary(vocabularies["wordpiece"]).tokenizer
    tokenizer.add_tokens(["lung cancer"])
    encoder = BulkEncoder(tokenizer)
    assert encoder.spaces == "unknown"
    tokens = encoder.encode([["lung cancer cell"]])
    assert tokens.ids[0] == tokenizer.token_to_id("lung cancer")
