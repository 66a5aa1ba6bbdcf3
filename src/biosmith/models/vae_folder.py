"""A latent-variable model as a folder, and OPTIMUS's checkpoints made into one.

config.json            latent size, ways of injection, digests of both vocabularies
latent.safetensors     to_latent.weight, to_memory.weight, to_embedding.weight
encoder/               a BERT folder with its tokenizer, which `transformers` and every command load as it is
decoder/               a GPT-2 folder with its tokenizer, likewise
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from biosmith.artefact import (
    Manifest,
    describe_files,
    digest_value,
    folder_by_rename,
    require_new_folder,
    write_json,
)
from biosmith.errors import BadInput, UsageError
from biosmith.lineage import keep_lineage
from biosmith.models.bert import BertConfig
from biosmith.models.checkpoint import WEIGHTS, load_encoder
from biosmith.models.encoder import Encoder
from biosmith.models.gpt2_names import SPECIAL, config_to_hugging_face, load_decoder, to_hugging_face
from biosmith.models.saving import (
    check_vocabulary,
    copy_tokenizer,
    name_tokenizer_class,
    save_model,
    save_tensors,
)
from biosmith.models.vae import VaeConfig, VariationalAutoencoder
from biosmith.surrogates import replace_surrogates

KIND, LATENT, ENCODER, DECODER = "biosmith_vae", "latent.safetensors", "encoder", "decoder"
PROJECTIONS = ("to_latent.weight", "to_memory.weight", "to_embedding.weight")


@dataclass(frozen=True)
class LoadedVae:
    """A model in evaluation mode and its two tokenizers."""

    model: VariationalAutoencoder
    folder: Path
    config: Mapping[str, Any]

    @cached_property
    def reader(self) -> Any:
        """The encoder's tokenizer."""
        return load_tokenizer(self.folder / ENCODER)

    @cached_property
    def writer(self) -> Any:
        """The decoder's tokenizer."""
        return load_tokenizer(self.folder / DECODER)

    def read(self, texts: Sequence[str]) -> list[list[int]]:
        """What the encoder takes: beginning, pieces, end."""
        reader = self.reader
        begin = reader.cls_token_id if reader.cls_token_id is not None else reader.bos_token_id
        end = reader.sep_token_id if reader.sep_token_id is not None else reader.eos_token_id
        return [[begin, *ids, end] for ids in encode_texts(reader, texts)]

    def write(self, texts: Sequence[str]) -> list[list[int]]:
        """The decoder's pieces, without beginning and end."""
        return encode_texts(self.writer, texts)

    def text(self, pieces: Sequence[int]) -> str:
        """The text of the decoder's pieces."""
        return str(self.writer.decode(list(pieces), skip_special_tokens=True)).strip()


def load_tokenizer(folder: Path) -> Any:
    """The tokenizer of a folder, by `transformers`; never looked for on the network.

    Raises:
        UsageError: the folder holds none that can be used.
    """
    from transformers import AutoTokenizer

    if not folder.is_dir():
        raise UsageError(f"{folder} does not exist; expected a folder with a tokenizer")
    try:
        return AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, StrictDataclassError) as error:
        first = str(error).split("\n", 1)[0]
        raise UsageError(f"{folder} holds no tokenizer that can be used ({first})") from error


def vocabulary_digest(folder: Path) -> str:
    """SHA-256 over the numbered pieces of a folder's tokenizer."""
    return digest_value(sorted(load_tokenizer(folder).get_vocab().items(), key=lambda item: item[1]))


def encode_texts(tokenizer: Any, texts: Sequence[str]) -> list[list[int]]:
    """Pieces of each text without special tokens; a text cannot name a special token.

    Args:
        tokenizer: of `load_tokenizer`.
        texts: any; lone surrogates are read as U+FFFD.
    """
    backend = tokenizer.backend_tokenizer
    backend.no_padding()
    backend.no_truncation()
    backend.encode_special_tokens = True
    return [
        found.ids
        for found in backend.encode_batch_fast([*map(replace_surrogates, texts)], add_special_tokens=False)
    ]


def save_vae(
    folder: Path,
    model: VariationalAutoencoder,
    *,
    encoder_vocabulary: Path,
    decoder_vocabulary: Path,
    manifest: Manifest | None = None,
    more: Mapping[str, Any] | None = None,
) -> Path:
    """Write a model as a folder, by rename.

    Args:
        folder: must not exist, or be empty.
        model: conditioned on its encoder.
        encoder_vocabulary, decoder_vocabulary: folders of tokenizers, which are copied.
        manifest: what made it; kind "model".
        more: further keys of config.json (beta, free bits, scores).

    Raises:
        UsageError: the folder holds something, a vocabulary does not fit, or the model has no encoder.
    """
    require_new_folder(folder)
    config = model.config
    if model.encoder is None:
        raise UsageError("a decoder that is conditioned on nothing is no latent-variable model to export")
    check_vocabulary(decoder_vocabulary, config.decoder.vocabulary_size)
    state = {
        name: t.detach().cpu().contiguous() for name, t in model.state_dict().items() if name in PROJECTIONS
    }
    raw = {
        "model_type": KIND,
        "architectures": ["VariationalAutoencoder"],
        "latent_size": config.latent_size,
        "memory": config.memory,
        "embedding": config.embedding,
        "encoder_vocabulary": vocabulary_digest(encoder_vocabulary),
        "decoder_vocabulary": vocabulary_digest(decoder_vocabulary),
        **dict(more or {}),
    }
    manifest = manifest or Manifest(kind="model")
    with folder_by_rename(folder) as temporary:
        # Each part is a model folder of its own, made by the same command from the same things.
        part = dataclasses.replace(manifest, counts={k: v for k, v in manifest.counts.items() if k == "step"})
        save_model(temporary / ENCODER, model.encoder, tokenizer_from=encoder_vocabulary, manifest=part)
        (temporary / DECODER).mkdir()
        save_tensors(to_hugging_face(model.decoder), temporary / DECODER / WEIGHTS)
        dtype = model.decoder.words.weight.dtype
        write_json(temporary / DECODER / "config.json", config_to_hugging_face(config.decoder, dtype))
        copy_tokenizer(decoder_vocabulary, temporary / DECODER)
        name_tokenizer_class(temporary / DECODER, "gpt2")
        save_tensors(state, temporary / LATENT)
        write_json(temporary / "config.json", raw)
        (temporary / "README.md").write_text(_card(folder.name, config, raw), encoding="utf-8")
        counts = {"parameters": sum(p.numel() for p in model.parameters()), **manifest.counts}
        keep_lineage(temporary, manifest)
        files = describe_files(temporary)
        dataclasses.replace(manifest, config=manifest.config or raw, counts=counts, files=files).save(
            temporary
        )
    return folder


def is_vae(folder: Path) -> bool:
    """Whether a folder holds a latent-variable model."""
    try:
        raw = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(raw, dict) and raw.get("model_type") == KIND


def load_vae(folder: str | Path) -> LoadedVae:
    """Read a folder that `save_vae` wrote; in evaluation mode, float32.

    Raises:
        UsageError: no such folder, or a folder of another kind of model.
        BadInput: a part is damaged, sizes do not match, or a part's vocabulary is another than that of training.
    """
    folder = Path(folder)
    file = folder / "config.json"
    if not file.is_file():
        what = "has no config.json" if folder.is_dir() else "does not exist"
        raise UsageError(
            f"{folder} {what}; expected a latent-variable model (biosmith export RUN, or biosmith convert)"
        )
    try:
        raw = json.loads(file.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise BadInput(file, f"is not JSON: {error}") from error
    if not isinstance(raw, dict) or raw.get("model_type") != KIND:
        kind = raw.get("model_type") if isinstance(raw, dict) else None
        if isinstance(raw, dict) and "objective" in raw:
            raise UsageError(
                f"{folder} is a run; biosmith export {folder} makes a latent-variable model of it"
            )
        raise UsageError(f"{folder} is a {kind or 'nameless'} model, not a latent-variable model ({KIND})")
    for name in ("latent_size", "length"):
        value = raw.get(name, 1)
        if not isinstance(value, int) or value < 1:
            raise BadInput(file, f"{name} has to be a whole number above 0", value=value)
    for name in ("memory", "embedding"):
        if not isinstance(raw.get(name, True), bool):
            raise BadInput(
                file, f"{name} is not a way of injection or none", value=raw[name], valid=[True, False]
            )
    encoder, encoder_config = load_encoder(folder / ENCODER, dtype=torch.float32)
    decoder = load_decoder(folder / DECODER)
    if not isinstance(encoder_config, BertConfig):
        raise BadInput(folder / ENCODER, "is not a BERT folder", value=encoder_config.kind, valid=["bert"])
    for theirs, ours in SPECIAL.items():
        if not 0 <= getattr(decoder.config, ours) < decoder.config.vocabulary_size:
            raise BadInput(
                folder / DECODER / "config.json",
                f"{theirs} is none of the {decoder.config.vocabulary_size:,} pieces",
                value=getattr(decoder.config, ours),
            )
    for name, part in (("encoder_vocabulary", ENCODER), ("decoder_vocabulary", DECODER)):
        found = vocabulary_digest(folder / part)
        if name in raw and found != raw[name]:
            raise BadInput(
                folder / part,
                f"has another vocabulary than the model was trained with ({found[:6]}, not {str(raw[name])[:6]})",
            )
    config = VaeConfig(
        latent_size=int(raw.get("latent_size", 0)),
        memory=raw.get("memory", True),
        embedding=raw.get("embedding", True),
        encoder=encoder_config,
        decoder=decoder.config,
    )
    try:
        latent = load_file(folder / LATENT)
    except (SafetensorError, OSError) as error:
        raise BadInput(folder / LATENT, f"is missing or damaged: {error}") from error
    return LoadedVae(assemble(config, encoder, decoder.state_dict(), latent, folder / LATENT), folder, raw)


def assemble(
    config: VaeConfig,
    encoder: Encoder,
    decoder: Mapping[str, Tensor],
    latent: Mapping[str, Tensor],
    where: Path,
) -> VariationalAutoencoder:
    """A model of its parts, in evaluation mode.

    Args:
        config: must be that of the parts.
        encoder: with or without a pooler, which a latent-variable model needs.
        decoder: state of `gpt2.Decoder`.
        latent: the projections.
        where: the file that an error names.

    Raises:
        BadInput: a projection is missing, or its shape is not what latent size, encoder and decoder ask for.
    """
    if encoder.pooler is None:
        raise BadInput(where, "the encoder has no pooler, which the mean and variance are computed from")
    with torch.device("meta"):
        model = VariationalAutoencoder(config)
    state = {f"encoder.{name}": tensor for name, tensor in encoder.state_dict().items()}
    state |= {f"decoder.{name}": tensor for name, tensor in decoder.items()}
    for name in PROJECTIONS:
        wanted = model.state_dict().get(name)
        if wanted is None:
            continue
        if name not in latent:
            raise BadInput(where, f"lacks the tensor {name!r}", valid=sorted(latent))
        if latent[name].shape != wanted.shape:
            raise BadInput(
                where,
                f"{name} has shape {tuple(latent[name].shape)}; a latent size of {config.latent_size}, an encoder "
                f"{config.encoder.width} wide and a decoder of {config.decoder.layers} layers, "
                f"{config.decoder.width} wide, ask for {tuple(wanted.shape)}",
            )
        state[name] = latent[name].float()
    for name, tensor in state.items():
        if not torch.isfinite(tensor).all():
            raise BadInput(where.parent, f"holds numbers that are none (NaN or infinite) in {name}")
    model.load_state_dict(state, assign=True)
    for parameter in model.parameters():
        parameter.requires_grad_(True)
    model.encoder.origin = None  # type: ignore[union-attr]  # what is trained from here on is another model
    return model.eval()


def _card(name: str, config: VaeConfig, raw: Mapping[str, Any]) -> str:
    ways = " and ".join(way for way in ("memory", "embedding") if raw[way])
    return f"""---
language: en
library_name: transformers
pipeline_tag: text-generation
tags:
- biomedical
- biosmith
- variational-autoencoder
---
# {name}

A latent-variable language model of sentences (the form of OPTIMUS, Li et al., 2020) written by biosmith; `manifest.json`
beside this file names what made it and from what.

| | |
|---|---|
| latent size | {config.latent_size} |
| encoder | BERT, {config.encoder.layers} layers, {config.encoder.width} wide |
| decoder | GPT-2, {config.decoder.layers} layers, {config.decoder.width} wide; latent vector as {ways} |

## Use

```bash
biosmith generate reconstruct --model {name} --text "Angiogenesis is essential for tumor growth."
biosmith finetune ner --model {name}/encoder --data DATA --out TUNED
```

`encoder/` and `decoder/` are folders that `transformers` loads alone (`AutoModel`, `AutoModelForCausalLM`).
"""
