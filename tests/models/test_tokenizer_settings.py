"""A saved model's tokenizer cuts text as its own file says, in every family and with settings or without."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import sentencepiece
import transformers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from biosmith.errors import BadInput, UsageError
from biosmith.models.albert import AlbertConfig
from biosmith.models.bert import BertConfig, PretrainingModel
from biosmith.models.converting import convert
from biosmith.models.megatron import MegatronConfig
from biosmith.models.modern import ModernConfig
from biosmith.models.saving import check_vocabulary, save_model

BRACKETS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
ANGLES = ("<pad>", "<unk>", "<s>", "</s>", "<mask>")
TEXT = "Génes 中文"
FAMILIES = {
    "bert": BertConfig,
    "albert": AlbertConfig,
    "megatron-bert": MegatronConfig,
    "modernbert": ModernConfig,
}


def vocabulary(folder: Path, kind: str, special: tuple[str, ...]) -> Tokenizer:
    """A cased vocabulary of the kind that removes accents and keeps Chinese signs together."""
    pieces = [*special, "G", "g", "##e", "e", "##n", "n", "##s", "s", "中文", "##é", "é"]
    ids = {piece: number for number, piece in enumerate(pieces)}
    unknown = special[1]
    tokenizer = Tokenizer(
        {
            "wordpiece": lambda: models.WordPiece(ids, unk_token=unknown),
            "bpe": lambda: models.BPE(ids, [], unk_token=unknown),
            "unigram": lambda: models.Unigram([(piece, -1.0) for piece in pieces], unk_id=1),
        }[kind]()
    )
    tokenizer.normalizer = normalizers.BertNormalizer(
        lowercase=False, strip_accents=True, handle_chinese_chars=False
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens(list(special))
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    return tokenizer


def saved(folder: Path, family: str, size: int, vocabulary: Path) -> Path:
    """A model of the family, saved with the vocabulary."""
    shape = {"layers": 1, "width": 16, "heads": 2, "feed_forward": 32, "positions": 16}
    config = FAMILIES[family](vocabulary_size=size, **shape)  # type: ignore[arg-type]
    return save_model(folder, PretrainingModel(config, next_sentence=False), tokenizer_from=vocabulary)


@pytest.mark.parametrize("special", [BRACKETS, ANGLES], ids=["brackets", "angles"])
@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "unigram"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_tokenizer_without_settings_is_read_as_it_is(
    family: str, kind: str, special: tuple[str, ...], tmp_path: Path
) -> None:
    """transformers would take the class of the model's family: BERT's lower-cases, ALBERT's reads no WordPiece."""
    own = vocabulary(tmp_path / "vocabulary", kind, special)
    folder = saved(tmp_path / "model", family, own.get_vocab_size(), tmp_path / "vocabulary")
    loaded = transformers.AutoTokenizer.from_pretrained(folder)
    assert loaded(TEXT, add_special_tokens=False)["input_ids"] == own.encode(TEXT).ids
    assert [getattr(loaded, f"{role}_token") for role in ("pad", "unk", "cls", "sep", "mask")] == list(
        special
    )
    assert ("token_type_ids" in loaded(TEXT)) == (family != "modernbert")
    assert len(loaded("e " * 20, truncation=True)["input_ids"]) == 16


@pytest.mark.parametrize("family", ["albert", "modernbert"])
def test_settings_that_name_no_class_get_one_where_the_family_has_another(
    family: str, tmp_path: Path
) -> None:
    """Old BERT folders say whether they lower-case, and no more."""
    own = vocabulary(tmp_path / "vocabulary", "wordpiece", BRACKETS)
    (tmp_path / "vocabulary" / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    folder = saved(tmp_path / "model", family, own.get_vocab_size(), tmp_path / "vocabulary")
    loaded = transformers.AutoTokenizer.from_pretrained(folder)
    assert loaded(TEXT, add_special_tokens=False)["input_ids"] == own.encode(TEXT).ids
    assert loaded.pad_token == "[PAD]"
    assert json.loads((folder / "tokenizer_config.json").read_text())["do_lower_case"] is False


@pytest.mark.parametrize("settings", [None, '{"do_lower_case": false}'])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_bare_list_of_pieces_is_wordpiece_in_every_family(
    family: str, settings: str | None, tmp_path: Path
) -> None:
    pieces = [*BRACKETS, "G", "g", "##ene", "##s"]
    (tmp_path / "vocabulary").mkdir()
    (tmp_path / "vocabulary" / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces))
    if settings:
        (tmp_path / "vocabulary" / "tokenizer_config.json").write_text(settings)
    folder = saved(tmp_path / "model", family, len(pieces), tmp_path / "vocabulary")
    loaded = transformers.AutoTokenizer.from_pretrained(folder)
    assert loaded.tokenize("Genes") == ["G" if settings else "g", "##ene", "##s"]
    assert loaded.mask_token == "[MASK]"


def test_pieces_that_are_line_ends_of_unicode_are_counted_once(tmp_path: Path) -> None:
    pieces = [*BRACKETS, "\u2028", "\x85", "g"]
    (tmp_path / "vocabulary").mkdir()
    (tmp_path / "vocabulary" / "vocab.txt").write_text("".join(f"{p}\n" for p in pieces), encoding="utf-8")
    saved(tmp_path / "model", "bert", len(pieces), tmp_path / "vocabulary")


def test_the_folder_of_a_bare_sentencepiece_model_is_one(tmp_path: Path) -> None:
    folder = tmp_path / "bare"
    folder.mkdir()
    text = tmp_path / "text.txt"
    text.write_text("\n".join(f"aspirin lowers the risk of stroke {i}" for i in range(200)), encoding="utf-8")
    sentencepiece.SentencePieceTrainer.train(
        input=str(text), model_prefix=str(folder / "spiece"), vocab_size=40, minloglevel=2
    )
    shape = {"layers": 1, "width": 16, "heads": 2, "feed_forward": 32, "embedding_width": 8}
    model = PretrainingModel(AlbertConfig(vocabulary_size=40, **shape))
    save_model(tmp_path / "model", model, tokenizer_from=folder)
    assert (tmp_path / "model" / "spiece.model").read_bytes() == (folder / "spiece.model").read_bytes()
    check_vocabulary(folder, 40)
    with pytest.raises(UsageError, match="40 pieces, but the model was made for 5,000"):
        check_vocabulary(folder, 5_000)
    (folder / "spiece.model").write_bytes(b"no model")
    with pytest.raises(BadInput, match="is no SentencePiece model"):
        check_vocabulary(folder, 40)


def test_a_tokenizer_file_that_does_not_say_its_kind_is_read(tmp_path: Path) -> None:
    """Those of the first published BERTs do not: the library knows the kind by the keys."""
    own = vocabulary(tmp_path / "vocabulary", "wordpiece", BRACKETS)
    file = tmp_path / "vocabulary" / "tokenizer.json"
    raw = json.loads(file.read_text(encoding="utf-8"))
    del raw["model"]["type"]
    file.write_text(json.dumps(raw), encoding="utf-8")
    folder = saved(tmp_path / "model", "bert", own.get_vocab_size(), tmp_path / "vocabulary")
    loaded = transformers.AutoTokenizer.from_pretrained(folder)
    assert loaded(TEXT, add_special_tokens=False)["input_ids"] == own.encode(TEXT).ids


def test_the_largest_number_of_a_piece_has_to_fit_the_embedding(tmp_path: Path) -> None:
    """A vocabulary with numbers left out has fewer pieces than rows, and may still point behind the last one."""
    own = vocabulary(tmp_path / "vocabulary", "wordpiece", BRACKETS)
    file = tmp_path / "vocabulary" / "tokenizer.json"
    raw = json.loads(file.read_text(encoding="utf-8"))
    raw["model"]["vocab"]["é"] = 40
    file.write_text(json.dumps(raw), encoding="utf-8")
    with pytest.raises(UsageError, match=f"but the model was made for {own.get_vocab_size()}"):
        check_vocabulary(tmp_path / "vocabulary", own.get_vocab_size())
    check_vocabulary(tmp_path / "vocabulary", 41)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("tokenizer_config.json", b"{", "is not JSON"),
        ("special_tokens_map.json", b"\xff", "is not JSON"),
        ("tokenizer.json", b'{"version": "1.0"}', "is not a tokenizer"),
    ],
)
def test_a_damaged_tokenizer_is_refused_by_name(
    name: str, content: bytes, words: str, tmp_path: Path
) -> None:
    source = saved(tmp_path / "source", "bert", 16, _own_folder(tmp_path))
    (source / name).write_bytes(content)
    with pytest.raises(BadInput, match=f"source/{name}: {words}"):
        convert(source, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_list_of_pieces_that_is_not_utf_8_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_bytes(b"[PAD]\n\xff\xfe\n")
    with pytest.raises(BadInput, match=r"vocab\.txt: is not UTF-8"):
        check_vocabulary(tmp_path, 2)


def _own_folder(parent: Path) -> Path:
    vocabulary(parent / "vocabulary", "wordpiece", BRACKETS)
    return parent / "vocabulary"
