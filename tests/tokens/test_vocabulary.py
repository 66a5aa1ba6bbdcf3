"""Vocabulary folders load everywhere, say the same thing in every file, and are known by their digest."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import sentencepiece
from transformers import AutoTokenizer
from transformers.models.bert.tokenization_bert_legacy import BertTokenizerLegacy

from biosmith.artefact import load_manifest
from biosmith.errors import BadInput, UsageError
from biosmith.text.document import Document
from biosmith.tokens.from_corpus import VocabularySettings, train_vocabulary
from biosmith.tokens.schemes import Scheme
from biosmith.tokens.vocabulary import load_vocabulary

MakeDocuments = Callable[..., list[Document]]
KINDS = ("wordpiece", "uncased", "sentencepiece", "bpe", "uncased-bpe")


@pytest.mark.parametrize("kind", KINDS)
def test_transformers_loads_the_folder_and_cuts_as_we_do(
    vocabularies: dict[str, Path], make_documents: MakeDocuments, kind: str
) -> None:
    ours, theirs = load_vocabulary(vocabularies[kind]), AutoTokenizer.from_pretrained(str(vocabularies[kind]))
    assert len(theirs) == ours.mark.size == 1200
    assert theirs.model_max_length == 512
    specials = ("pad", "unk", "cls", "sep", "mask")
    assert [getattr(theirs, f"{role}_token_id") for role in specials] == [0, 1, 2, 3, 4]
    assert dict(ours.mark.special_tokens) == dict(zip(specials, range(5), strict=True))
    for document in make_documents(20, seed=3):
        ids = ours.tokenizer.encode(document.text, add_special_tokens=False).ids
        assert theirs(document.text)["input_ids"] == [2, *ids, 3]
    pair = theirs("lung", "cell")
    assert pair["token_type_ids"] == [0] * (pair["input_ids"].index(3) + 1) + [1] * (
        len(pair["input_ids"]) - pair["input_ids"].index(3) - 1
    )


@pytest.mark.parametrize(("kind", "lower"), [("wordpiece", False), ("uncased", True)])
def test_the_original_bert_tokenizer_agrees_on_every_sentence(
    vocabularies: dict[str, Path], make_documents: MakeDocuments, kind: str, lower: bool
) -> None:
    # The tokenizer of Devlin et al. in plain Python: another program, given nothing but vocab.txt.
    original = BertTokenizerLegacy(str(vocabularies[kind] / "vocab.txt"), do_lower_case=lower)
    ours = load_vocabulary(vocabularies[kind]).tokenizer
    for document in make_documents(20, seed=4):
        assert ours.encode(document.text, add_special_tokens=False).tokens == original.tokenize(document.text)


def test_cased_keeps_case_and_accents_and_uncased_drops_both(vocabularies: dict[str, Path]) -> None:
    cased, uncased = load_vocabulary(vocabularies["wordpiece"]), load_vocabulary(vocabularies["uncased"])
    assert (cased.mark.cased, uncased.mark.cased) == (True, False)

    def joined(vocabulary, text):  # type: ignore[no-untyped-def]
        tokens = vocabulary.tokenizer.encode(text, add_special_tokens=False).tokens
        return "".join(token.removeprefix("##") for token in tokens)

    assert joined(cased, "Naïve DNA") == "NaïveDNA"
    assert joined(uncased, "Naïve DNA") == "naivedna"
    for name, lower in (("wordpiece", False), ("uncased", True)):
        settings = json.loads((vocabularies[name] / "tokenizer_config.json").read_text(encoding="utf-8"))
        normalizer = json.loads((vocabularies[name] / "tokenizer.json").read_text(encoding="utf-8"))[
            "normalizer"
        ]
        assert settings["do_lower_case"] == normalizer["lowercase"] == lower
        assert settings["strip_accents"] == normalizer["strip_accents"] is None


def test_accents_can_be_kept_where_case_is_dropped(corpus: Path, tmp_path: Path) -> None:
    scheme = Scheme(cased=False, strip_accents=False)
    train_vocabulary(corpus, tmp_path / "v", VocabularySettings(scheme, size=900))
    for tokenizer in (AutoTokenizer.from_pretrained(str(tmp_path / "v")),):
        assert tokenizer.decode(tokenizer("NAÏVE")["input_ids"], skip_special_tokens=True) == "naïve"


@pytest.mark.parametrize("kind", KINDS)
def test_the_digest_survives_a_round_trip_through_transformers(
    vocabularies: dict[str, Path], kind: str, tmp_path: Path
) -> None:
    # An exported model carries the tokenizer as transformers writes it; its tokens must still be recognised.
    AutoTokenizer.from_pretrained(str(vocabularies[kind])).save_pretrained(str(tmp_path))
    mark = load_vocabulary(vocabularies[kind]).mark
    assert load_vocabulary(tmp_path).mark == mark
    manifest = load_manifest(vocabularies[kind], "vocabulary")
    assert (manifest.counts["digest"], manifest.counts["size"]) == (mark.digest, 1200)


def test_the_digest_tells_vocabularies_apart(vocabularies: dict[str, Path], tmp_path: Path) -> None:
    marks = {load_vocabulary(folder).mark.digest for folder in vocabularies.values()}
    assert len(marks) == len(KINDS)
    pieces = (vocabularies["wordpiece"] / "vocab.txt").read_text(encoding="utf-8").splitlines()
    pieces[-1], pieces[-2] = pieces[-2], pieces[-1]  # the same pieces in another order
    (tmp_path / "vocab.txt").write_text("\n".join(pieces), encoding="utf-8")
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false}', encoding="utf-8")
    assert load_vocabulary(tmp_path).mark.digest not in marks


def test_every_form_of_a_bert_vocabulary_is_the_same_one(
    vocabularies: dict[str, Path], tmp_path: Path
) -> None:
    folder = vocabularies["uncased"]
    mark = load_vocabulary(folder).mark
    assert load_vocabulary(folder / "tokenizer.json").mark == mark
    assert load_vocabulary(folder / "vocab.txt").mark == mark  # the case is read off the pieces
    for name in ("vocab.txt", "tokenizer_config.json"):
        shutil.copy(folder / name, tmp_path / name)
    assert load_vocabulary(tmp_path).mark == mark


def test_a_real_model_folder_is_a_vocabulary(minilm: Path) -> None:
    vocabulary = load_vocabulary(minilm)
    assert (vocabulary.mark.size, vocabulary.mark.cased) == (30_522, False)
    assert vocabulary.mark.special_tokens == {"pad": 0, "unk": 100, "cls": 101, "sep": 102, "mask": 103}
    assert len(vocabulary.tokenizer.encode("word " * 1000).ids) > 1000  # nothing is cut at 512


def test_files_that_contradict_each_other_about_case_are_refused(
    vocabularies: dict[str, Path], tmp_path: Path
) -> None:
    folder = shutil.copytree(vocabularies["wordpiece"], tmp_path / "v")
    settings = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    settings["do_lower_case"] = True
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    with pytest.raises(BadInput, match=r"do_lower_case: contradicts tokenizer\.json"):
        load_vocabulary(folder)
    tokenizer = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    tokenizer["normalizer"]["lowercase"] = True
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    with pytest.raises(BadInput, match="capital letters"):
        load_vocabulary(folder)


def test_a_cased_list_of_pieces_is_not_lower_cased_in_silence(
    vocabularies: dict[str, Path], tmp_path: Path
) -> None:
    # transformers lower-cases where no settings say otherwise, and pretraining must not cut text another way.
    shutil.copy(vocabularies["wordpiece"] / "vocab.txt", tmp_path / "vocab.txt")
    with pytest.raises(
        BadInput, match=r'vocab\.txt: has pieces with capital letters.*"do_lower_case": false'
    ):
        load_vocabulary(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false}', encoding="utf-8")
    assert load_vocabulary(tmp_path).mark == load_vocabulary(vocabularies["wordpiece"]).mark


def test_a_list_of_pieces_is_read_with_all_that_the_settings_say(
    vocabularies: dict[str, Path], tmp_path: Path
) -> None:
    shutil.copy(vocabularies["uncased"] / "vocab.txt", tmp_path / "vocab.txt")
    settings = {"do_lower_case": True, "strip_accents": False, "tokenize_chinese_chars": False}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    normalizer = load_vocabulary(tmp_path).tokenizer.normalizer
    assert normalizer.normalize_str("\u00c9t\u00e9 \u4e2d") == "\u00e9t\u00e9 \u4e2d"


@pytest.mark.parametrize(
    ("pieces", "settings", "words"),
    [
        ("\ufeff[PAD]\n", None, r"vocab\.txt: begins with a byte-order mark; save it as UTF-8 without"),
        ("[PAD]\n", '{"do_lower_case": "false"}', "do_lower_case: has to be true or false .found 'false'"),
        ("[PAD]\n", '{"strip_accents": "no"}', "strip_accents: has to be true or false .found 'no'"),
    ],
)
def test_what_hides_in_files_written_by_hand_is_named(
    pieces: str, settings: str | None, words: str, tmp_path: Path
) -> None:
    text = pieces + "[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n"
    (tmp_path / "vocab.txt").write_text(text, encoding="utf-8")
    if settings is not None:
        (tmp_path / "tokenizer_config.json").write_text(settings, encoding="utf-8")
    with pytest.raises(BadInput, match=words):
        load_vocabulary(tmp_path)


def test_what_is_no_vocabulary_is_refused_by_name(corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        load_vocabulary(tmp_path / "nothing")
    with pytest.raises(UsageError, match="holds no tokenizer"):
        load_vocabulary(corpus)
    (tmp_path / "vocab.txt").write_text("just\nwords\n", encoding="utf-8")
    with pytest.raises(BadInput, match=r"has no \[PAD\]"):
        load_vocabulary(tmp_path / "vocab.txt")
    (tmp_path / "tokenizer.json").write_text("{", encoding="utf-8")
    with pytest.raises(BadInput, match=r"tokenizer\.json: is not a tokenizer file"):
        load_vocabulary(tmp_path)


def test_the_model_of_sentencepiece_in_alberts_folder_is_a_vocabulary(tmp_path: Path) -> None:
    lines = [f"the {word} of {word}s and their {word}al forms" for word in ("cell", "gene", "bone", "renin")]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines * 50),
        model_prefix=str(tmp_path / "spiece"),
        vocab_size=50,
        hard_vocab_limit=False,
        pad_id=0,
        unk_id=1,
        bos_id=-1,
        eos_id=-1,
        control_symbols=["[CLS]", "[SEP]", "[MASK]"],
        minloglevel=2,
    )
    size = sentencepiece.SentencePieceProcessor(str(tmp_path / "spiece.model")).get_piece_size()
    # The same file is T5's or XLNet's: what it is has to be said beside it.
    with pytest.raises(UsageError, match=r"or the model's config\.json beside"):
        load_vocabulary(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "albert"}', encoding="utf-8")
    vocabulary = load_vocabulary(tmp_path)
    assert vocabulary.mark.size == size
    assert vocabulary.tokenizer.encode("the cell", add_special_tokens=False).tokens == ["▁the", "▁cell"]
