"""Vocabularies on disk: any tokenizer folder in, a folder that `transformers.AutoTokenizer` loads out.

A vocabulary's digest is the SHA-256 over its ordered pieces, its merges or scores, and its normaliser and
pre-tokeniser: two folders with one digest cut every text alike.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tokenizers import Tokenizer, models

from biosmith.artefact import digest_value, write_by_rename, write_json
from biosmith.errors import BadInput, UsageError
from biosmith.tokens.schemes import Scheme
from biosmith.tokens.store import VocabularyMark
from biosmith.tokens.training import CLS, MASK, PAD, SEP, SPECIAL_TOKENS, UNK, dress

TOKENIZER, SETTINGS, PIECES = "tokenizer.json", "tokenizer_config.json", "vocab.txt"
_SIGNS = (SETTINGS, "vocab.json", "spiece.model", "sentencepiece.bpe.model", "tokenizer.model", "spm.model")
_ROLES = {
    "pad": ("[PAD]", "<pad>"),
    "unk": ("[UNK]", "<unk>"),
    "cls": ("[CLS]", "<s>", "<cls>"),
    "sep": ("[SEP]", "</s>", "<sep>"),
    "mask": ("[MASK]", "<mask>"),
}
_CAPITAL = re.compile("[A-Z]")  # of ASCII: the signs that stand for bytes are capital letters, too
_KINDS = {"WordPiece": "wordpiece", "Unigram": "sentencepiece", "BPE": "bpe", "WordLevel": "wordlevel"}


@dataclass(frozen=True)
class Vocabulary:
    """A vocabulary ready for use.

    Attributes:
        name: where it came from, as the user named it.
        tokenizer: of the tokenizers library; never pads, cuts, or takes text such as "[MASK]" for a special token.
        mark: size, digest, case and special tokens.
        pieces: all pieces by id.
    """

    name: str
    tokenizer: Tokenizer
    mark: VocabularyMark
    pieces: tuple[str, ...]


def load_vocabulary(path: Path | str) -> Vocabulary:
    """Load a vocabulary from a folder, a `tokenizer.json` or a BERT `vocab.txt`.

    A folder may hold any tokenizer that transformers loads; it is never looked for on the network.

    Raises:
        UsageError: there is no tokenizer.
        BadInput: the files cannot be read, or contradict each other about case.
    """
    path = Path(path)
    if path.is_file():
        tokenizer = _from_pieces(path) if path.suffix == ".txt" else _from_file(path)
    elif (path / TOKENIZER).is_file():
        tokenizer = _from_file(path / TOKENIZER)
        _check_case(path, tokenizer)
    elif (path / PIECES).is_file():
        tokenizer = _from_pieces(path / PIECES, {"do_lower_case": True} | _settings(path))
    elif path.is_dir() and any((path / name).is_file() for name in _SIGNS):
        tokenizer = _from_transformers(path)
    else:
        what = "holds no tokenizer" if path.is_dir() else "does not exist"
        raise UsageError(f"{path} {what}; expected a vocabulary folder, a {TOKENIZER} or a {PIECES}")
    tokenizer.no_padding()
    tokenizer.no_truncation()
    tokenizer.encode_special_tokens = True
    return Vocabulary(str(path), tokenizer, mark_of(tokenizer), _ordered_pieces(tokenizer))


def mark_of(tokenizer: Tokenizer) -> VocabularyMark:
    """Size, digest, case and special tokens of a tokenizer."""
    pieces = _ordered_pieces(tokenizer)
    state = json.loads(tokenizer.to_str())
    model = state["model"]
    identity = {
        "pieces": pieces,
        "model": model["type"],
        "merges": model.get("merges"),
        # The library does not read floats back to the last bit.
        "scores": [f"{s:.6f}" for _, s in model["vocab"]] if model["type"] == "Unigram" else None,
        "normalizer": _resolve_accents(state["normalizer"]),
        "pre_tokenizer": state["pre_tokenizer"],
    }
    ids = {piece: number for number, piece in enumerate(pieces)}
    roles = {role: next((ids[n] for n in names if n in ids), None) for role, names in _ROLES.items()}
    return VocabularyMark(
        size=len(pieces),
        digest=digest_value(identity),
        cased=not lowers_case(tokenizer),
        special_tokens={role: number for role, number in roles.items() if number is not None},
        kind=_KINDS.get(model["type"], model["type"].lower()),
    )


def lowers_case(tokenizer: Tokenizer) -> bool:
    """Whether the normaliser drops capital letters, found by trying."""
    return tokenizer.normalizer is not None and "a" in tokenizer.normalizer.normalize_str("A")


def save_vocabulary(
    folder: Path, tokenizer: Tokenizer, scheme: Scheme, *, max_length: int = 512
) -> VocabularyMark:
    """Write a folder that `transformers.AutoTokenizer` loads; every file states the same flags.

    `vocab.txt` lists the pieces by id for all kinds.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with write_by_rename(folder / TOKENIZER) as temporary:
        tokenizer.save(str(temporary))
    with write_by_rename(folder / PIECES) as temporary:
        temporary.write_text("".join(f"{piece}\n" for piece in _ordered_pieces(tokenizer)), encoding="utf-8")
    tokens = {"pad_token": PAD, "unk_token": UNK, "cls_token": CLS, "sep_token": SEP, "mask_token": MASK}
    settings: dict[str, Any] = {
        **tokens,
        "model_max_length": max_length,
        "clean_up_tokenization_spaces": False,
        "added_tokens_decoder": {
            str(number): _plain_token(token) for number, token in enumerate(SPECIAL_TOKENS)
        },
        # The flags are stated for every kind, for people; transformers acts on them for WordPiece only.
        "do_lower_case": not scheme.cased,
        "strip_accents": scheme.strip_accents,
        "tokenize_chinese_chars": scheme.chinese,
        "tokenizer_class": "BertTokenizer" if scheme.kind == "wordpiece" else "PreTrainedTokenizerFast",
        "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
    }
    write_json(folder / SETTINGS, settings)
    write_json(folder / "special_tokens_map.json", tokens)
    return mark_of(tokenizer)


def copy_file(file: Path, folder: Path) -> None:
    """Copy the file of a vocabulary into a folder that loads as it does; the case of a list of pieces is stated beside it."""
    if file.suffix != ".txt":
        shutil.copyfile(file, folder / TOKENIZER)
        return
    shutil.copyfile(file, folder / PIECES)
    cased = load_vocabulary(file).mark.cased
    write_json(folder / SETTINGS, {"do_lower_case": not cased, "tokenizer_class": "BertTokenizer"})


def _plain_token(token: str) -> dict[str, Any]:
    flags = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True}
    return {"content": token, **flags}


def _ordered_pieces(tokenizer: Tokenizer) -> tuple[str, ...]:
    vocabulary: Mapping[str, int] = tokenizer.get_vocab(with_added_tokens=True)
    size = max(vocabulary.values(), default=-1) + 1
    pieces = [""] * size  # ids that name no piece stay empty
    for piece, number in vocabulary.items():
        pieces[number] = piece
    return tuple(pieces)


def _resolve_accents(normalizer: Any) -> Any:
    """BERT's `strip_accents: null` means "as `lowercase` says": both spellings are one normaliser."""
    if isinstance(normalizer, Mapping) and normalizer.get("type") == "BertNormalizer":
        strip = normalizer.get("strip_accents")
        return {**normalizer, "strip_accents": normalizer["lowercase"] if strip is None else strip}
    return normalizer


def _from_file(path: Path) -> Tokenizer:
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exception
        raise BadInput(path, f"is not a tokenizer file: {error}") from error


def _from_pieces(path: Path, settings: Mapping[str, Any] = MappingProxyType({})) -> Tokenizer:
    """A BERT tokenizer from its list of pieces; the case is read off the pieces where the settings do not state it."""
    try:
        pieces = path.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise BadInput(path, f"is not a list of pieces in UTF-8: {error}") from error
    if pieces[0].startswith("\ufeff"):  # part of the first piece for whoever else reads the file
        raise BadInput(path, "begins with a byte-order mark; save it as UTF-8 without")
    if pieces and not pieces[-1]:
        pieces.pop()
    ids = {piece.rstrip("\r"): number for number, piece in enumerate(pieces)}
    missing = [token for token in SPECIAL_TOKENS if token not in ids]
    if missing:
        raise BadInput(path, f"is not the vocab.txt of a BERT tokenizer: it has no {', '.join(missing)}")
    lower_case = bool(settings.get("do_lower_case", not _has_capitals(ids)))
    if lower_case and _has_capitals(ids):
        raise BadInput(
            path,
            f"has pieces with capital letters, but the text would be lower-cased; "
            f'if the model is cased, write {{"do_lower_case": false}} to {SETTINGS} beside it',
        )
    accents, chinese = settings.get("strip_accents"), settings.get("tokenize_chinese_chars", True)
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token=UNK))
    dress(tokenizer, Scheme("wordpiece", cased=not lower_case, strip_accents=accents, chinese=chinese))
    return tokenizer


def _from_transformers(folder: Path) -> Tokenizer:
    from transformers import AutoTokenizer

    try:
        loaded = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
        return Tokenizer.from_str(loaded.backend_tokenizer.to_str())
    except Exception as error:  # transformers raises whatever the folder made it stumble over
        first = str(error).split("\n", 1)[0]
        # A SentencePiece file does not say of which kind of model it is; the model's own folder does.
        beside = (
            "" if (folder / "config.json").is_file() else ", or the model's config.json beside what is there"
        )
        raise UsageError(
            f"{folder} holds no tokenizer that can be used ({first}); expected {TOKENIZER} or {PIECES}{beside}"
        ) from error


def _settings(folder: Path) -> dict[str, Any]:
    path = folder / SETTINGS
    if not path.is_file():
        return {}
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise BadInput(path, f"is not JSON: {error}") from error
    settings = settings if isinstance(settings, dict) else {}
    for key in ("do_lower_case", "strip_accents", "tokenize_chinese_chars"):
        if not isinstance(value := settings.get(key), bool | None):
            raise BadInput(path, "has to be true or false", record=key, value=value)
    return settings


def _check_case(folder: Path, tokenizer: Tokenizer) -> None:
    """transformers lets the settings overrule the tokenizer file of a BERT tokenizer; text must not be cut two ways."""
    settings = _settings(folder)
    lowers = lowers_case(tokenizer)
    if str(settings.get("tokenizer_class", "")).startswith("BertTokenizer"):
        stated = settings.get("do_lower_case", True)
        if stated != lowers:
            raise BadInput(
                folder / SETTINGS,
                f"contradicts {TOKENIZER}, which {'lower-cases' if lowers else 'keeps case'}; set one as the other",
                record="do_lower_case",
                value=stated,
                valid=[lowers],
            )
    if lowers and _has_capitals(tokenizer.get_vocab()):
        raise BadInput(
            folder / TOKENIZER,
            "lower-cases text, but its pieces have capital letters, which it could never use",
        )


def _has_capitals(pieces: Mapping[str, int]) -> bool:
    """Whether one piece in a hundred has a capital letter.

    Special tokens, in brackets, do not count, nor single characters: with those a byte-level vocabulary spells bytes.
    """
    words = [piece for piece in pieces if len(piece.lstrip("Ġ▁#")) > 1 and not piece.startswith(("[", "<"))]
    return sum(_CAPITAL.search(piece) is not None for piece in words) > len(words) / 100
