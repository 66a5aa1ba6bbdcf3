"""Models written as Hugging Face folders that `transformers` loads with equal logits."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from biosmith.artefact import (
    MANIFEST,
    Manifest,
    describe_files,
    describe_input,
    folder_by_rename,
    to_plain,
    write_by_rename,
    write_json,
)
from biosmith.errors import BadInput, BiosmithError, UsageError
from biosmith.lineage import keep_lineage
from biosmith.models.bert import PretrainingModel
from biosmith.models.card import model_card
from biosmith.models.checkpoint import INDEX, WEIGHTS, Origin
from biosmith.models.electra import Discriminator
from biosmith.models.encoder import Encoder
from biosmith.models.families import FAMILIES, config_from_hugging_face, names_of

if TYPE_CHECKING:
    from tokenizers import Tokenizer

TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.txt",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "spiece.model",
    "sentencepiece.bpe.model",
    "tokenizer.model",
)
SPECIAL_TOKENS_MAP = "special_tokens_map.json"
# Whose tokenizers transformers takes for WordPiece where nothing else is said.
WORDPIECE_FAMILIES = ("bert", "electra", "megatron-bert")
# What special tokens are called; the first name that a vocabulary has is the one.
SPECIAL_TOKENS = {
    "pad_token": ("[PAD]", "<pad>"),
    "unk_token": ("[UNK]", "<unk>"),
    "cls_token": ("[CLS]", "<s>", "<cls>"),
    "sep_token": ("[SEP]", "</s>", "<sep>"),
    "mask_token": ("[MASK]", "<mask>"),
    "bos_token": ("<BOS>", "<|endoftext|>", "<s>"),
    "eos_token": ("<EOS>", "<|endoftext|>", "</s>"),
}
MODEL_INPUTS = ["input_ids", "token_type_ids", "attention_mask"]
Saveable = Encoder | PretrainingModel | Discriminator
# Rows that a model may have beyond its vocabulary: Megatron pads to a multiple of 128 times the number of devices.
MOST_PADDING_ROWS = 1_024


def save_model(
    folder: str | Path,
    model: Saveable,
    *,
    tokenizer_from: str | Path | None = None,
    architecture: str | None = None,
    head: Mapping[str, Tensor] | None = None,
    config: Mapping[str, Any] | None = None,
    manifest: Manifest | None = None,
    card: str | None = None,
) -> Path:
    """Write a folder that `transformers` loads with equal logits: config.json, model.safetensors, tokenizer files
    byte for byte (but that the tokenizer of a model without segments makes none, and see `name_tokenizer_class`),
    README.md and manifest.json.

    A model loaded from a Hugging Face folder gets the same tensors, names and configuration keys again; parameters
    keep their dtype.

    Args:
        folder: must not exist, or be empty; appears by rename when all is written.
        model: an encoder, the pretraining model, or ELECTRA's discriminator.
        tokenizer_from: vocabulary or model folder whose tokenizer files are copied.
        architecture: class name in transformers; None is the one that fits the parts of the model.
        head: further tensors under Hugging Face's names (`classifier.weight`, ...), for a tuned model.
        config: further keys of config.json (`id2label`, ...).
        manifest: what made it; None is a manifest of kind "model" that names the inputs known here.
        card: text of README.md; None writes a model card.

    Raises:
        UsageError: the folder holds something, or a vocabulary of another folder does not fit the model; both sizes
            are named.
    """
    folder = Path(folder)
    tokenizer = None if tokenizer_from is None else Path(tokenizer_from)
    encoder = model if isinstance(model, Encoder) else model.encoder
    origin, family = encoder.origin, FAMILIES[model.config.kind]
    if tokenizer is not None and not (origin is not None and tokenizer.resolve() == origin.folder.resolve()):
        # What a folder came with is its own affair: there may be rows to spare, or files whose pieces are not counted.
        check_vocabulary(tokenizer, model.config.vocabulary_size)
    same = origin is not None and architecture is None and not head and _parts(model) == origin.parts
    architecture = architecture or architecture_of(model)
    if same and origin is not None:
        architecture = (origin.config.get("architectures") or [architecture])[0]
    tensors = hugging_face_tensors(model, architecture, origin if same else None)
    if not same and architecture in family.WITHOUT_POOLER and head:
        tensors = {name: tensor for name, tensor in tensors.items() if "pooler." not in name}
    tensors |= dict(head or {})
    raw = family.config_to_hugging_face(model.config, None if origin is None else origin.config)
    if not same:
        raw["architectures"] = [architecture]
    _name_dtype(raw, encoder.embeddings.words.weight.dtype, is_new=origin is None)
    if origin is None and tokenizer is not None:
        _name_special_tokens(raw, tokenizer)
    raw |= dict(config or {})
    manifest = manifest or Manifest(
        kind="model", inputs=describe_inputs(origin.folder if origin else None, tokenizer)
    )
    return write_folder(folder, tensors, raw, manifest, tokenizer, card)


def write_folder(
    folder: Path,
    tensors: Mapping[str, Tensor],
    raw: Mapping[str, Any],
    manifest: Manifest,
    tokenizer: Path | None = None,
    card: str | None = None,
) -> Path:
    """Write a Hugging Face folder by rename.

    Args:
        folder: must not exist, or be empty.
        tensors: parameters under Hugging Face's names.
        raw: content of config.json.
        manifest: gets the files and counts, and `raw` as its config if it has none.
        tokenizer: folder whose tokenizer files are copied.
        card: text of README.md; None writes a model card.

    Raises:
        UsageError: the folder holds something.
        OSError: the disk is full; it names the file, and nothing is left.
    """
    family, config = (
        names_of(raw, folder / "config.json"),
        config_from_hugging_face(raw, folder / "config.json"),
    )
    architecture = (raw.get("architectures") or [family.BARE])[0]
    held = {family.canonical(name): tensor.numel() for name, tensor in tensors.items()}
    parameters = sum(
        size
        for name, size in held.items()
        if name not in family.BUFFERS and family.ALIASES.get(name) not in held
    )
    counts = {"parameters": parameters, "vocabulary": config.vocabulary_size, **manifest.counts}
    manifest = dataclasses.replace(manifest, counts=counts)
    with folder_by_rename(folder) as temporary:
        save_tensors(_apart(tensors), temporary / WEIGHTS)
        write_json(temporary / "config.json", raw)
        copy_tokenizer(tokenizer, temporary)
        name_tokenizer_class(temporary, str(raw.get("model_type", "")), raw.get("max_position_embeddings"))
        if not config.has_segments:
            _withhold_segments(temporary / "tokenizer_config.json")
        text = model_card(folder.resolve().name, architecture, config, manifest) if card is None else card
        with write_by_rename(temporary / "README.md") as card_file:
            card_file.write_text(text, encoding="utf-8")
        keep_lineage(temporary, manifest)
        settings = manifest.config or to_plain(raw)
        dataclasses.replace(manifest, config=settings, files=describe_files(temporary)).save(temporary)
    return folder


def save_tensors(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Write a safetensors file, which others may read as far as they may read what this process writes elsewhere.

    Raises:
        OSError: the file cannot be written, most often as the disk is full.
    """
    path.touch()
    mode = path.stat().st_mode
    try:
        save_file(dict(tensors), path, metadata={"format": "pt"})
    except SafetensorError as error:  # of the system's error it keeps the words
        number = re.search(r"\(os error (\d+)\)", str(error))
        if number is None:
            raise BiosmithError(f"{path} cannot be written: {error}") from error
        raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from error
    path.chmod(mode)  # the library writes for the owner alone


def _apart(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Contiguous tensors, none of which shares its memory with another, as safetensors wants them."""
    made: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in tensors.items():
        made[name] = tensor.contiguous()
        if (place := made[name].untyped_storage().data_ptr()) in seen:
            made[name] = made[name].clone()
        seen.add(place)
    return made


def copy_tokenizer(source: Path | None, folder: Path) -> None:
    """Copy a folder's tokenizer files, byte for byte. Raises `BadInput` for a damaged one."""
    for name in TOKENIZER_FILES if source is not None else ():
        if source is None or not (source / name).is_file():
            continue
        if name == "tokenizer.json":
            read_tokenizer(source / name)
        elif name.endswith(".json"):
            try:
                json.loads((source / name).read_text(encoding="utf-8"))
            except ValueError as error:
                raise BadInput(source / name, f"is not JSON: {error}") from error
        shutil.copyfile(source / name, folder / name)


def read_tokenizer(file: Path) -> Tokenizer:
    """A tokenizer.json. Raises `BadInput` if it is none."""
    from tokenizers import Tokenizer

    try:
        return Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises nothing more precise
        raise BadInput(file, f"is not a tokenizer: {error}") from error


def hugging_face_tensors(
    model: Saveable, architecture: str, origin: Origin | None = None
) -> dict[str, Tensor]:
    """A model's parameters under Hugging Face's names, on the CPU; `origin` gives the names of the file they came
    from, its aliases and buffers."""
    family = FAMILIES[model.config.kind]
    prefix = "encoder." if isinstance(model, Encoder) else ""
    state = {prefix + name: tensor.detach().cpu() for name, tensor in model.state_dict().items()}
    found = {}
    for name, place in family.places(model.config).items():
        if place.name not in state:
            continue
        tensor = state[place.name]
        found[name] = tensor if place.third is None else tensor.chunk(3)[place.third].clone()
    if origin is None:
        outer = "" if architecture == family.BARE else family.PREFIX
        return {n if n.startswith(family.heads) else outer + n: tensor for n, tensor in found.items()}
    for alias, name in family.ALIASES.items():
        if alias in origin.names:
            found[alias] = found[name].clone()
    return {origin.names[name]: tensor for name, tensor in found.items()} | dict(origin.carried)


def check_vocabulary(tokenizer: Path, rows: int) -> None:
    """Raise `UsageError` unless a tokenizer's ids fit a word embedding of `rows` rows (`BadInput` if damaged)."""
    size = _count_pieces(tokenizer)
    if size is None:
        raise UsageError(f"{tokenizer} has none of tokenizer.json, vocab.txt and spiece.model")
    if not 0 <= rows - size < MOST_PADDING_ROWS:
        raise UsageError(f"{tokenizer} has {size:,} pieces, but the model was made for {rows:,}")


def refuse_more_pieces(tokenizer: Path | None, rows: int) -> None:
    """Raise `UsageError` for a tokenizer with ids behind the last of `rows` rows; more rows than pieces are no fault in
    a folder of somebody else's, nor are files whose pieces are not counted here."""
    size = None if tokenizer is None else _count_pieces(tokenizer)
    if size is not None and size > rows:
        raise UsageError(f"{tokenizer} has {size:,} pieces, but its embedding of words has {rows:,} rows")


def _count_pieces(tokenizer: Path) -> int | None:
    """How many rows a tokenizer's ids ask for; None if it has no file that tells (`BadInput` if that is damaged)."""
    if (tokenizer / "tokenizer.json").is_file():
        # Numbers may be left out: what has to fit is the largest.
        return max(read_tokenizer(tokenizer / "tokenizer.json").get_vocab().values(), default=-1) + 1
    if (tokenizer / "vocab.txt").is_file():
        try:
            text = (tokenizer / "vocab.txt").read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise BadInput(tokenizer / "vocab.txt", f"is not UTF-8: {error}") from error
        # Not `splitlines`: a piece may be one of Unicode's rarer line ends.
        return len(text.removesuffix("\n").split("\n"))
    if (tokenizer / "spiece.model").is_file():
        from sentencepiece import SentencePieceProcessor

        try:
            return int(SentencePieceProcessor(model_file=str(tokenizer / "spiece.model")).get_piece_size())
        except (OSError, RuntimeError) as error:
            raise BadInput(tokenizer / "spiece.model", f"is no SentencePiece model: {error}") from error
    return None


def _parts(model: Saveable) -> frozenset[str]:
    encoder = model if isinstance(model, Encoder) else model.encoder
    parts = set() if encoder.pooler is None else {"pooler"}
    heads = ("masked_language_head", "next_sentence_head", "replaced_token_head")
    return frozenset(parts | {head for head in heads if getattr(model, head, None) is not None})


def architecture_of(model: Saveable) -> str:
    """Class name in transformers of a model with these parts."""
    if isinstance(model, Discriminator):
        return model.architecture
    parts = _parts(model)
    return FAMILIES[model.config.kind].architecture(
        masked_language="masked_language_head" in parts, next_sentence="next_sentence_head" in parts
    )


def architecture_for(encoder: Encoder, task: str) -> str:
    """Class name in transformers of a tuned model of the encoder's family: `task` is "ForTokenClassification", ..., or
    "Model" for the encoder alone."""
    return FAMILIES[encoder.config.kind].BARE.removesuffix("Model") + task


def _name_dtype(raw: dict[str, Any], dtype: torch.dtype, *, is_new: bool) -> None:
    """Say the dtype under the key that the file used, if it used one."""
    keys = [key for key in ("dtype", "torch_dtype") if raw.get(key) is not None]
    for key in ["dtype"] if is_new else keys:
        raw[key] = str(dtype).removeprefix("torch.")


def _name_special_tokens(raw: dict[str, Any], tokenizer: Path) -> None:
    """Fill in the ids of special tokens that a new configuration leaves open."""
    files = [tokenizer / "tokenizer.json", tokenizer / "tokenizer_config.json"]
    if not all(file.is_file() for file in files):
        return
    pieces, named = read_tokenizer(files[0]), json.loads(files[1].read_text(encoding="utf-8"))
    # An encoder's sequences begin with its [CLS] and end with its [SEP].
    for key, token in (("cls", "cls"), ("bos", "cls"), ("sep", "sep"), ("eos", "sep")):
        name = named.get(f"{token}_token")
        name = name.get("content") if isinstance(name, dict) else name
        if f"{key}_token_id" in raw and raw[f"{key}_token_id"] is None and name is not None:
            raw[f"{key}_token_id"] = pieces.token_to_id(name)


def name_tokenizer_class(folder: Path, family: str, longest: int | None = None) -> None:
    """Say how a tokenizer is read whose settings do not. transformers would take the class of the model's family, which
    knows one kind of pieces, and may cut text otherwise than `tokenizer.json` says (BERT's lower-cases it). `longest` is
    what the model takes, where it is known: else `truncation=True` would cut nothing."""
    file, settings = folder / "tokenizer.json", folder / "tokenizer_config.json"
    stated = json.loads(settings.read_text(encoding="utf-8")) if settings.is_file() else {}
    if not file.is_file():
        if family in WORDPIECE_FAMILIES or not (folder / "vocab.txt").is_file():
            return
        from transformers import BertTokenizer

        BertTokenizer.from_pretrained(folder, local_files_only=True).backend_tokenizer.save(str(file))
    tokenizer = read_tokenizer(file)
    kind = type(tokenizer.model).__name__  # which old files do not say
    fits = kind == "WordPiece" if family in WORDPIECE_FAMILIES else (family, kind) == ("albert", "Unigram")
    if "tokenizer_class" in stated or (stated and fits):
        return
    named: dict[str, Any] = {}
    for role, names in SPECIAL_TOKENS.items():
        found = [name for name in names if tokenizer.token_to_id(name) is not None]
        named |= {role: found[0]} if found else {}
    if (folder / SPECIAL_TOKENS_MAP).is_file():
        listed = json.loads((folder / SPECIAL_TOKENS_MAP).read_text(encoding="utf-8"))
        tokens = {role: listed[role] for role in SPECIAL_TOKENS if listed.get(role)}
        named |= {role: t["content"] if isinstance(t, dict) else t for role, t in tokens.items()}
    # The class that takes the file as it is. Alone it makes no segments.
    named |= {"tokenizer_class": "PreTrainedTokenizerFast", "model_input_names": MODEL_INPUTS}
    named |= {} if longest is None else {"model_max_length": longest}
    write_json(settings, named | stated)


def _withhold_segments(tokenizer_config: Path) -> None:
    """Let a copied tokenizer make no segments, which the model's class in transformers would not take."""
    if not tokenizer_config.is_file():
        return
    settings = json.loads(tokenizer_config.read_text(encoding="utf-8"))
    if "token_type_ids" in settings.get("model_input_names", ["token_type_ids"]):
        write_json(tokenizer_config, {**settings, "model_input_names": ["input_ids", "attention_mask"]})


def describe_inputs(model: Path | None, tokenizer: Path | None) -> list[dict[str, Any]]:
    """What a model was made from: artefacts by their manifest, other folders by the file that matters."""
    sources: list[tuple[Path, tuple[str, ...]]] = []
    if model is not None:
        sources.append((model, (WEIGHTS, INDEX)))
    if tokenizer is not None:
        sources.append((tokenizer, TOKENIZER_FILES))
    found: list[dict[str, Any]] = []
    for folder, files in sources:
        plain = [folder / name for name in files if (folder / name).is_file()]
        item = describe_input(folder if (folder / MANIFEST).is_file() or not plain else plain[0])
        if item not in found:
            found.append(item)
    return found
