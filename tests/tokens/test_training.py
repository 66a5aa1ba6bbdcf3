"""Vocabularies have the size asked for, the same pieces every time, and the characters of biomedicine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from biosmith.artefact import load_manifest
from biosmith.errors import UsageError
from biosmith.text.document import Document, Passage
from biosmith.tokens.characters import BIOMEDICAL_CHARACTERS, choose_alphabet, kept_characters
from biosmith.tokens.counts import count_words
from biosmith.tokens.from_corpus import VocabularySettings, train_vocabulary
from biosmith.tokens.schemes import Kind, Scheme
from biosmith.tokens.training import SPECIAL_TOKENS, as_wordpiece, train_pieces
from biosmith.tokens.vocabulary import load_vocabulary

MakeCorpus = Callable[..., Path]
KINDS: tuple[Kind, ...] = ("wordpiece", "sentencepiece", "bpe")


@pytest.mark.parametrize("kind", KINDS)
def test_twice_and_with_two_workers_give_equal_files(corpus: Path, tmp_path: Path, kind: Kind) -> None:
    settings = VocabularySettings(Scheme(kind), size=900)
    made = [
        train_vocabulary(corpus, tmp_path / name, settings, workers=workers)
        for name, workers in (("first", 1), ("again", 1), ("two", 2))
    ]
    assert len({each.mark.digest for each in made}) == 1
    # Not only the digest: every file but the manifest, which has the time in it.
    assert load_manifest(tmp_path / "first").files == load_manifest(tmp_path / "again").files
    assert load_manifest(tmp_path / "first").files == load_manifest(tmp_path / "two").files


@pytest.mark.parametrize("kind", KINDS)
def test_the_size_is_exact_and_specials_come_first(corpus: Path, kind: Kind) -> None:
    counts = count_words(corpus, Scheme(kind))
    for size in (700, 701, 1000):
        trained = train_pieces(counts, Scheme(kind), size, unused=7)
        assert len(trained.pieces) == len(set(trained.pieces)) == size
        assert trained.tokenizer.get_vocab_size() == size
        assert trained.pieces[:5] == SPECIAL_TOKENS == ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
        assert trained.pieces[5:12] == tuple(f"[unused{number}]" for number in range(7))


@pytest.mark.parametrize("kind", KINDS)
def test_a_corpus_too_small_for_the_size_leaves_named_slots(make_corpus: MakeCorpus, kind: Kind) -> None:
    tiny = make_corpus(
        [Document.build("1", [Passage("title", "lung cancer cells and lung tumour cells")])], 1, 1
    )
    trained = train_pieces(count_words(tiny, Scheme(kind)), Scheme(kind), 3000)
    assert len(trained.pieces) == 3000
    assert trained.unused > 1000
    assert trained.pieces[-1] == f"[unused{trained.unused - 1}]"
    cut = trained.tokenizer.encode("lung cells", add_special_tokens=False).tokens
    assert "".join(cut).replace("▁", "").replace("Ġ", "").replace("##", "") == "lungcells"
    if kind != "sentencepiece":  # its unigram trainer drops pieces that so little text does not prove
        assert len(cut) == 2


def test_a_size_that_cannot_spell_is_refused(corpus: Path) -> None:
    for kind, size in (("wordpiece", 20), ("sentencepiece", 12), ("bpe", 200)):
        scheme = Scheme(kind)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="size"):
            train_pieces(count_words(corpus, scheme), scheme, size)


@pytest.mark.parametrize("setting", ["size", "unused", "max_length", "most_words"])
def test_a_number_that_means_nothing_is_refused_before_anything_is_counted(
    corpus: Path, tmp_path: Path, setting: str
) -> None:
    settings = VocabularySettings(Scheme(), **{"size": 500, setting: -1})
    with pytest.raises(UsageError, match=f"--{setting.replace('_', '-')} is -1"):
        train_vocabulary(corpus, tmp_path / "out", settings)


def test_a_size_for_which_no_memory_can_be_had_is_refused_and_does_not_end_the_process(
    corpus: Path, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=r"--size is 1,000,000,000; it must be 4,000,000 or less"):
        train_vocabulary(corpus, tmp_path / "out", VocabularySettings(Scheme(), size=10**9))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cased", [True, False])
def test_biomedical_characters_survive_without_being_in_the_corpus(
    make_corpus: MakeCorpus, kind: Kind, cased: bool
) -> None:
    tiny = make_corpus([Document.build("1", [Passage("title", "plain words only")])], 1, 1)
    scheme = Scheme(kind, cased=cased)
    tokenizer = train_pieces(count_words(tiny, scheme), scheme, 3000).tokenizer
    # Alone, inside a word and at its end: WordPiece makes the whole word unknown where one form is missing.
    for text in (
        "α β-catenin TGFβ1 Δ9 Ω ♀ ♂ µM 10µm ′ 5′-UTR Ca²⁺ H₂O₂ 37°C ±3 3±4 ≤5 →x x→y × 2×3 1⁄2".replace(
            "⁄", "½"
        ),
    ):
        encoding = tokenizer.encode(text, add_special_tokens=False)
        assert "[UNK]" not in encoding.tokens, encoding.tokens
        decoded = tokenizer.decode(encoding.ids).replace(" ", "")
        assert decoded == scheme.normalizer().normalize_str(text).replace(" ", "")


def test_rare_scripts_do_not_take_the_place_of_words() -> None:
    # 3,000 different Chinese characters, each once in 300 million letters: none is needed for 99.995 %.
    counts = Counter({chr(0x4E00 + number): 1 for number in range(3000)})
    counts.update(dict.fromkeys("abcdefghijklmnopqrstuvwxyz0123", 10_000_000))
    alphabet = choose_alphabet(counts, Scheme(), slots=2000)
    assert not [c for c in alphabet if "\u4e00" <= c <= "\u9fff"]
    assert set(choose_alphabet(counts, Scheme(), slots=60)) >= set("abcdefghijklmnopqrstuvwxyz0123")


def test_the_alphabet_breaks_ties_by_code_point() -> None:
    counts = Counter({"ж": 5, "я": 5, "a": 1_000_000, "ю": 5})
    assert "ж" in choose_alphabet(counts, Scheme(), slots=1000, coverage=1_000_004 / 1_000_015)
    assert "я" not in choose_alphabet(counts, Scheme(), slots=1000, coverage=1_000_004 / 1_000_015)


def test_kept_characters_are_those_the_normaliser_leaves() -> None:
    assert set(kept_characters(Scheme(cased=True))) == set(BIOMEDICAL_CHARACTERS)
    uncased = set(kept_characters(Scheme(cased=False)))
    assert {"α", "µ", "²", "♀", "ß"} <= uncased
    assert not {"Α", "é", "É", "\u0301"} & uncased


def test_sentencepiece_pieces_become_wordpiece_as_scibert_did() -> None:
    assert as_wordpiece(["▁the", "ing", "▁", "▁c", "c"]) == ["the", "##ing", "c", "##c"]


def test_wordpiece_from_sentencepiece_spells_every_word_it_learned_from(corpus: Path) -> None:
    scheme = Scheme()
    counts = count_words(corpus, scheme)
    trained = train_pieces(counts, scheme, 900, by_sentencepiece=True)
    assert len(trained.pieces) == 900
    assert "▁" not in "".join(trained.pieces)
    assert "lymphoma" in trained.pieces
    for word in counts.words:
        cut = trained.tokenizer.encode(word, add_special_tokens=False).tokens
        assert "[UNK]" not in cut
        assert cut[0] + "".join(piece.removeprefix("##") for piece in cut[1:]) == word


def test_frequent_words_are_pieces(vocabularies: dict[str, Path]) -> None:
    # Each occurs in some thirty documents of the corpus.
    for name, mark in (("wordpiece", ""), ("bpe", "Ġ")):
        pieces = load_vocabulary(vocabularies[name]).pieces
        assert {f"{mark}{word}" for word in ("lymphoma", "DNA", "hypertension", "Oropharyngeal")} <= set(
            pieces
        )
    assert {"dna", "oropharyngeal"} <= set(load_vocabulary(vocabularies["uncased"]).pieces)


def test_an_existing_folder_is_never_written_to(corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "precious.txt").write_text("keep", encoding="utf-8")
    with pytest.raises(UsageError, match="exists already"):
        train_vocabulary(corpus, tmp_path / "out", VocabularySettings(Scheme(), size=900))
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["precious.txt"]
