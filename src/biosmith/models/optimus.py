"""OPTIMUS's and BioVAE's checkpoints made into a folder of ours.

They are two folders of the transformers library of 2019, `checkpoint-encoder-STEP` and `checkpoint-decoder-STEP`, each with
`config.json`, `pytorch_model.bin` and the files of its tokenizer. The dense layer to mean and log-variance lies in the
encoder's file (`linear.weight`), those to memory and embedding in the decoder's (`transformer.linear.weight`,
`transformer.linear_emb.weight`).
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from biosmith.artefact import Manifest, describe_input, require_new_folder, write_json
from biosmith.errors import BadInput, UsageError
from biosmith.models.bert import BertConfig
from biosmith.models.bert_names import BertNames
from biosmith.models.checkpoint import PICKLE, build_encoder
from biosmith.models.converting import read_pickle
from biosmith.models.gpt2 import Gpt2Config
from biosmith.models.gpt2_names import config_from_hugging_face as decoder_config
from biosmith.models.gpt2_names import decoder_from_tensors
from biosmith.models.saving import TOKENIZER_FILES
from biosmith.models.vae import VaeConfig
from biosmith.models.vae_folder import assemble, save_vae

# What OPTIMUS adds to GPT-2's vocabulary, in this order (run_lm_vae_pretraining_phdist_beta.py).
ADDED = {"pad_token": "<PAD>", "bos_token": "<BOS>", "eos_token": "<EOS>"}
LINEAR, MEMORY, EMBEDDING = "linear.weight", "transformer.linear.weight", "transformer.linear_emb.weight"


def find_parts(source: Path) -> tuple[Path, Path] | None:
    """The folders of encoder and decoder below a folder, if it is such a checkpoint."""
    if not source.is_dir():
        return None
    found = {}
    for part in ("encoder", "decoder"):
        folders = sorted(
            p for p in source.glob(f"*{part}*") if (p / PICKLE).is_file() and (p / "config.json").is_file()
        )
        if len(folders) != 1:
            return None
        found[part] = folders[0]
    return found["encoder"], found["decoder"]


def convert_optimus(source: Path, out: Path) -> Path:
    """Write a folder that `vae_folder.load_vae` reads.

    Raises:
        UsageError: the source lacks a part or a tokenizer, or `out` holds something.
        BadInput: a file is damaged, would run code, or its shapes do not fit together.
    """
    require_new_folder(out)
    parts = find_parts(source)
    if parts is None:
        raise UsageError(
            f"{source} is no OPTIMUS checkpoint: it needs one folder checkpoint-encoder-STEP and one "
            f"checkpoint-decoder-STEP, each with config.json and {PICKLE}"
        )
    encoder_folder, decoder_folder = parts
    raw, tensors = _read(encoder_folder)
    projection = tensors.pop(LINEAR, None)
    if projection is None:
        raise BadInput(encoder_folder / PICKLE, f"lacks {LINEAR!r}, the layer to mean and log-variance")
    raw, names = {**raw, "model_type": "bert"}, BertNames()
    config: BertConfig = names.config_from_hugging_face(raw, encoder_folder / "config.json")
    dropped = (*names.BUFFERS, *names.ALIASES)
    kept = {c: tensor for n, tensor in tensors.items() if (c := names.canonical(n)) not in dropped}
    encoder = build_encoder(encoder_folder, config, raw, kept)
    raw_decoder, tensors = _read(decoder_folder)
    latent = {"to_latent.weight": projection}
    latent |= {
        ours: tensors[n]
        for n, ours in ((MEMORY, "to_memory.weight"), (EMBEDDING, "to_embedding.weight"))
        if n in tensors
    }
    with tempfile.TemporaryDirectory() as scratch:
        vocabulary, special = _decoder_vocabulary(decoder_folder, Path(scratch))
        shape = _decoder_config(raw_decoder, decoder_folder, tensors, special)
        decoder = decoder_from_tensors(shape, tensors, decoder_folder / PICKLE)
        vae = VaeConfig(
            latent_size=projection.shape[0] // 2,
            memory="to_memory.weight" in latent,
            embedding="to_embedding.weight" in latent,
            encoder=config,
            decoder=shape,
        )
        model = assemble(vae, encoder, decoder.state_dict(), latent, source)
        manifest = Manifest(
            kind="model",
            inputs=[describe_input(folder / PICKLE) for folder in (encoder_folder, decoder_folder)],
        )
        return save_vae(
            out, model, encoder_vocabulary=encoder_folder, decoder_vocabulary=vocabulary, manifest=manifest
        )


def _read(folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    file = folder / "config.json"
    try:
        raw = json.loads(file.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise BadInput(file, f"is not JSON: {error}") from error
    if not isinstance(raw, dict):
        raise BadInput(file, "is not a JSON object")
    return raw, read_pickle(folder / PICKLE)


def _decoder_config(
    raw: Mapping[str, Any], folder: Path, tensors: Mapping[str, Tensor], special: Mapping[str, int]
) -> Gpt2Config:
    """The old library called fields otherwise, and its vocab_size may be that before tokens were added."""
    rows = next((len(t) for n, t in tensors.items() if n.endswith("wte.weight") and t.dim() == 2), None)
    if rows is None:
        raise BadInput(folder / PICKLE, "lacks 'transformer.wte.weight'")
    old = {"vocab_size_or_config_json_file", "summary_type", "num_labels"}
    known = {key: value for key, value in raw.items() if key not in old}
    known |= {"model_type": "gpt2", "vocab_size": rows}
    known |= {
        "pad_token_id": special["pad_token"],
        "bos_token_id": special["bos_token"],
        "eos_token_id": special["eos_token"],
    }
    return decoder_config(known, folder / "config.json")


def _decoder_vocabulary(folder: Path, scratch: Path) -> tuple[Path, dict[str, int]]:
    """The decoder's tokenizer with OPTIMUS's tokens, in the files of today, and the numbers of those."""
    from transformers import AutoTokenizer

    if not any((folder / name).is_file() for name in TOKENIZER_FILES):
        raise UsageError(f"{folder} has no tokenizer; copy GPT-2's vocab.json and merges.txt into it")
    for name in TOKENIZER_FILES:
        if (folder / name).is_file():
            shutil.copyfile(folder / name, scratch / name)
    if not (scratch / "config.json").is_file():
        write_json(scratch / "config.json", {"model_type": "gpt2"})
    try:
        tokenizer = AutoTokenizer.from_pretrained(str(scratch), local_files_only=True)
    except (OSError, ValueError, TypeError, KeyError) as error:
        first = str(error).split("\n", 1)[0]
        raise UsageError(f"{folder} holds no tokenizer that can be used ({first})") from error
    tokenizer.add_special_tokens(ADDED)
    written = scratch / "vocabulary"
    tokenizer.save_pretrained(str(written))
    return written, {role: int(tokenizer.convert_tokens_to_ids(token)) for role, token in ADDED.items()}
