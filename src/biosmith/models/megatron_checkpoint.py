"""BERT checkpoints of Megatron-LM made into Hugging Face `MegatronBert` folders.

A checkpoint is a folder with `latest_checkpointed_iteration.txt`, a folder for an iteration in it, and one
`mp_rank_XX/model_optim_rng.pt` for each of the devices that shared the model; tensors under the names of Megatron-LM up to
2023 or of Megatron-core. What the order of a fused query, key and value matrix is, its `checkpoint_version` says:

| version | rows of one device's matrix |
|---|---|
| 0 | [3, heads, width of a head] |
| 1 | [heads, width of a head, 3] |
| 2, 3 | [heads, 3, width of a head] |

Parts that a checkpoint lacks (heads, pooler) are named, and not made up.
"""

from __future__ import annotations

import argparse
import pickle
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from biosmith.artefact import Manifest, describe_input
from biosmith.errors import BadInput, UsageError
from biosmith.models.checkpoint import build_encoder, cast, require_pickle
from biosmith.models.megatron import MegatronConfig
from biosmith.models.megatron_names import MegatronNames
from biosmith.models.saving import TOKENIZER_FILES, write_folder

LATEST = "latest_checkpointed_iteration.txt"
FILES = ("model_optim_rng.pt", "model_rng.pt")
VERSIONS = (0.0, 1.0, 2.0, 3.0)
# Modules of what stands beside the tensors (arguments, random states, enumerations): read as inert stand-ins.
HARMLESS = (
    "megatron",
    "numpy",
    "apex",
    "transformer_engine",
    "argparse",
    "_codecs",
    "collections",
    "signal",
    "pathlib",
)

# Megatron's argument -> our field.
ARGUMENTS = {
    "num_attention_heads": "heads",
    "layernorm_epsilon": "layer_norm_epsilon",
    "norm_epsilon": "layer_norm_epsilon",
    "hidden_dropout": "dropout",
    "attention_dropout": "attention_dropout",
    "init_method_std": "initializer_range",
}
# Arguments that stand for something this encoder does not compute, with the only value that is taken.
UNSUPPORTED = {
    "swiglu": False,
    "squared_relu": False,
    "apply_residual_connection_post_layernorm": False,
    "apply_layernorm_1p": False,
    "untie_embeddings_and_output_weights": False,
    "add_position_embedding": True,
    "normalization": "LayerNorm",
    "position_embedding_type": "learned_absolute",
    "num_experts": None,
}


class _Cut(NamedTuple):
    """Where a tensor of Megatron's goes, and how devices share it: along a dimension, or not at all (None)."""

    name: str
    along: int | None


# Megatron's name (both generations) -> Hugging Face's; {} is the number of the layer. A layer's attention is also called
# `attention`, its LayerNorms `norm`; the fused matrices are "qkv".
_BOTH = ("weight", "bias")
_TABLE: dict[str, _Cut] = {
    r"embedding\.word_embeddings\.weight": _Cut("bert.embeddings.word_embeddings.weight", 0),
    r"embedding\.position_embeddings\.weight": _Cut("bert.embeddings.position_embeddings.weight", None),
    r"embedding\.tokentype_embeddings\.weight": _Cut("bert.embeddings.token_type_embeddings.weight", None),
    r"lm_head\.bias|output_layer\.bias": _Cut("cls.predictions.bias", 0),
}
_WITH_BIAS: dict[str, tuple[str, int | None, int | None]] = {  # how weight and bias are cut
    r"(?:transformer|encoder)\.final_(?:layer)?norm": ("bert.encoder.ln", None, None),
    r"pooler\.dense": ("bert.pooler.dense", None, None),
    r"lm_head\.dense": ("cls.predictions.transform.dense", None, None),
    r"lm_head\.(?:layer_?)?norm": ("cls.predictions.transform.LayerNorm", None, None),
    r"binary_head": ("cls.seq_relationship", None, None),
}
_LAYER = r"(?:transformer|encoder)\.layers\.(\d+)\."
_IN_LAYERS: dict[str, tuple[str, int | None, int | None]] = {
    r"input_(?:layer)?norm": ("attention.ln", None, None),
    r"(?:self_)?attention\.(?:query_key_value|linear_qkv)": ("attention.qkv", 0, 0),
    r"(?:self_)?attention\.(?:dense|linear_proj)": ("attention.output.dense", 1, None),
    r"(?:post_attention|pre_mlp)_(?:layer)?norm": ("ln", None, None),
    r"mlp\.(?:dense_h_to_4h|linear_fc1)": ("intermediate.dense", 0, 0),
    r"mlp\.(?:dense_4h_to_h|linear_fc2)": ("output.dense", 1, None),
}
# Megatron-core fuses a LayerNorm with the matrix behind it.
_FUSED_NORMS = {
    r"self_attention\.linear_qkv\.layer_norm_": "attention.ln",
    r"mlp\.linear_fc1\.layer_norm_": "ln",
}
PARTS = {"pooler": "bert.pooler.", "lm_head": "cls.predictions.", "binary_head": "cls.seq_relationship."}


@dataclass(frozen=True)
class Conversion:
    """What was converted.

    Attributes:
        model: the folder written.
        architecture: class name in transformers.
        checkpoint_version: 0, 1, 2 or 3.
        shards: devices that had shared the model.
        iteration: of the training; None where the checkpoint does not say.
        missing: parts that the checkpoint lacks, and so the folder.
        notes: what to know before the model is used.
    """

    model: Path
    architecture: str
    checkpoint_version: float
    shards: int
    iteration: int | None
    missing: tuple[str, ...]
    notes: tuple[str, ...]


def is_megatron(source: Path) -> bool:
    """Whether a path is a checkpoint of Megatron-LM, or a folder around one."""
    if source.is_file():
        return source.name in FILES
    return (source / LATEST).is_file() or any(next(source.glob(f"**/{name}"), None) for name in FILES)


def convert_megatron(
    source: Path, out: Path, dtype: torch.dtype | None = None, settings: Mapping[str, Any] | None = None
) -> Conversion:
    """Write the Hugging Face folder of a checkpoint; nothing is written unless it makes an encoder.

    Args:
        source: folder of the checkpoints, of an iteration, or of a shard; or the file of the only shard.
        out: must not exist, or be empty.
        dtype: of the weights written; None keeps the checkpoint's.
        settings: fields of `MegatronConfig` that the checkpoint does not hold (very old ones hold no arguments).

    Raises:
        UsageError: the checkpoint does not say how many heads there are, or `out` holds something.
        BadInput: a shard is missing, damaged, would run code, or disagrees with another one; or the model has
            something that MegatronBert does not.
    """
    files = find_shards(source)
    shards = [_read(file) for file in files]
    stated = shards[0].get("checkpoint_version", 0.0)
    if stated not in VERSIONS:
        raise BadInput(files[0], "checkpoint_version is not known", value=stated, valid=list(VERSIONS))
    version = float(stated)
    arguments = _arguments(shards[0], files)
    notes: list[str] = []
    flat = [dict(_flatten(shard["model"])) for shard in shards]
    heads = _heads(arguments, settings or {}, files[0])
    tensors, unused = _merge(flat, files, version, heads)
    config = _configuration(tensors, arguments, {"heads": heads, **(settings or {})}, files[0], notes)
    if unused:
        notes.append(f"not part of a MegatronBert, and left out: {', '.join(unused)}")
    words = tensors["bert.embeddings.word_embeddings.weight"]
    if "bert.embeddings.token_type_embeddings.weight" not in tensors:
        tensors["bert.embeddings.token_type_embeddings.weight"] = words.new_zeros(2, words.shape[1])
        notes.append(
            "the checkpoint tells no segments apart: its token types are zeros, which change nothing"
        )
    missing = tuple(
        part for part, start in PARTS.items() if not any(name.startswith(start) for name in tensors)
    )
    names = MegatronNames()
    architecture = names.architecture(
        masked_language="lm_head" not in missing,
        next_sentence="binary_head" not in missing and "pooler" not in missing,
    )
    if dtype is not None:
        tensors = cast(tensors, dtype, files[0])
    if architecture == names.BARE:
        tensors = {
            name.removeprefix("bert."): t for name, t in tensors.items() if not name.startswith("cls.")
        }
    raw = names.config_to_hugging_face(config, None)
    raw |= {
        "architectures": [architecture],
        "dtype": str(next(iter(tensors.values())).dtype).removeprefix("torch."),
    }
    build_encoder(files[0], config, raw, tensors)
    found = shards[0].get("iteration")
    iteration = int(found) if isinstance(found, int) else None
    counts = {} if iteration is None else {"iteration": iteration}
    manifest = Manifest(kind="model", inputs=[describe_input(file) for file in files], counts=counts)
    write_folder(out, tensors, raw, manifest, _tokenizer(source, files[0]))
    return Conversion(out, architecture, version, len(files), iteration, missing, tuple(notes))


def read_settings(assignments: Sequence[str]) -> dict[str, Any]:
    """`heads=16` and the like as values of `MegatronConfig`'s fields.

    Raises:
        UsageError: no such field, or not a value for it.
    """
    kinds: dict[str, type] = {"heads": int, "layer_norm_epsilon": float, "activation": str}
    kinds |= {"dropout": float, "attention_dropout": float, "initializer_range": float}
    found: dict[str, Any] = {}
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if key not in kinds or not equals:
            raise UsageError(
                f"--override {assignment!r} is not of the form field=value; fields: {', '.join(kinds)}"
            )
        try:
            found[key] = kinds[key](value)
        except ValueError as error:
            raise UsageError(f"--override {assignment!r}: {key} is a number") from error
    return found


def find_shards(source: Path) -> list[Path]:
    """The files of a checkpoint, one a device, in order.

    Raises:
        UsageError: there is no such file.
        BadInput: a shard is missing, or the layers are spread over devices (pipeline parallelism).
    """
    if source.is_file():
        return [source]
    folder = source
    if (source / LATEST).is_file():
        latest = (source / LATEST).read_text(encoding="utf-8", errors="replace").strip()
        folder = source / (latest if not latest.isdigit() else f"iter_{int(latest):07d}")
    if (folder / ".metadata").is_file():
        raise UsageError(
            f"{folder} is a distributed checkpoint; let Megatron-LM write it with --ckpt-format torch first"
        )
    for name in FILES:
        if (folder / name).is_file():
            return [folder / name]
        found = {path.parent.name: path for path in sorted(folder.glob(f"mp_rank_[0-9]*/{name}"))}
        if not found:
            continue
        ranks = {rank.removeprefix("mp_rank_"): path for rank, path in found.items()}
        stages = {rank.partition("_")[2] or "000" for rank in ranks}
        if len(stages) > 1:
            raise BadInput(
                folder,
                f"spreads its layers over {len(stages)} devices (pipeline parallelism); merge them first",
            )
        numbers = sorted(int(rank.partition("_")[0]) for rank in ranks)
        absent = sorted(set(range(numbers[-1] + 1)) - set(numbers))
        if absent:
            raise BadInput(folder, f"lacks the shard mp_rank_{absent[0]:02d}")
        return list(ranks.values())
    raise UsageError(f"{folder} holds no {FILES[0]}, nor folders mp_rank_00, mp_rank_01, ... with one")


class _Inert:
    """Stands for an object of another tool, which is not needed."""

    def __init__(self, *arguments: object, **named: object) -> None:
        pass

    def __setstate__(self, state: object) -> None:
        pass


def _read(file: Path) -> dict[str, Any]:
    """A shard, opened with torch's restricted reader, which runs no code."""
    require_pickle(file)
    try:
        named = torch.serialization.get_unsafe_globals_in_checkpoint(file)
    # A file of torch before 1.6, or a damaged one.
    except (ValueError, RuntimeError, OSError, pickle.UnpicklingError):
        named = []
    stand_ins: list[Any] = [argparse.Namespace]
    for name in named:
        if name.partition(".")[0] in HARMLESS and name != "argparse.Namespace":
            stand_ins.append((type("Inert", (_Inert,), {}), name))
    try:
        with torch.serialization.safe_globals(stand_ins):
            state = torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        reason = "holds something else than tensors and arguments, and opening it could run code"
        raise BadInput(file, reason) from error
    except (RuntimeError, EOFError, OSError, TypeError, ValueError, LookupError, AttributeError) as error:
        raise BadInput(file, f"is damaged or no checkpoint of torch: {error}") from error
    if not isinstance(state, dict) or not isinstance(state.get("model"), Mapping):
        raise BadInput(file, "is no checkpoint of Megatron-LM: it has no 'model'")
    return state


def _arguments(shard: Mapping[str, Any], files: Sequence[Path]) -> dict[str, Any]:
    """The training arguments, checked; {} where the checkpoint has none."""
    found = shard.get("args")
    arguments = (
        dict(found) if isinstance(found, Mapping) else vars(found) if hasattr(found, "__dict__") else {}
    )
    for name, wanted in UNSUPPORTED.items():
        if arguments.get(name, wanted) != wanted:
            raise BadInput(
                files[0], f"{name} is not part of a MegatronBert", value=arguments[name], valid=[wanted]
            )
    devices = arguments.get("tensor_model_parallel_size", arguments.get("model_parallel_size"))
    if isinstance(devices, int) and devices != len(files):
        raise BadInput(
            files[0].parent.parent, f"was shared by {devices} devices, but {len(files)} shards are there"
        )
    return arguments


def _flatten(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Tensor]]:
    for key, item in value.items():
        if isinstance(item, Mapping):
            yield from _flatten(item, f"{prefix}{key}.")
        elif isinstance(item, Tensor) and not key.endswith("_extra_state"):
            yield prefix + key, item


def _heads(arguments: Mapping[str, Any], settings: Mapping[str, Any], file: Path) -> int:
    heads = settings.get("heads", arguments.get("num_attention_heads"))
    if heads is None:
        raise UsageError(f"{file} does not say how many attention heads there are: add --override heads=16")
    if not str(heads).isdecimal() or int(heads) < 1:
        raise BadInput(file, "a number of attention heads has to be a whole one above 0", value=heads)
    return int(heads)


def _place(name: str) -> _Cut | None:
    """Where a tensor belongs; None if a MegatronBert has no such place."""
    name = name.removeprefix("language_model.")
    for pattern, cut in _TABLE.items():
        if re.fullmatch(pattern, name):
            return cut
    stem, _, kind = name.rpartition(".")
    for pattern, (target, *along) in _WITH_BIAS.items():
        if kind in _BOTH and re.fullmatch(pattern, stem):
            return _Cut(f"{target}.{kind}", along[_BOTH.index(kind)])
    layer = re.match(_LAYER, name)
    if layer is None:
        return None
    inside = name[layer.end() :]
    for pattern, target in _FUSED_NORMS.items():
        if fused := re.fullmatch(pattern + "(weight|bias)", inside):
            return _Cut(f"bert.encoder.layer.{layer[1]}.{target}.{fused[1]}", None)
    stem, _, kind = inside.rpartition(".")
    for pattern, (target, *along) in _IN_LAYERS.items():
        if kind in _BOTH and re.fullmatch(pattern, stem):
            return _Cut(f"bert.encoder.layer.{layer[1]}.{target}.{kind}", along[_BOTH.index(kind)])
    return None


def _merge(
    shards: Sequence[Mapping[str, Tensor]], files: Sequence[Path], version: float, heads: int
) -> tuple[dict[str, Tensor], list[str]]:
    """Tensors under Hugging Face's names, whole; and those that have no place."""
    for file, shard in zip(files, shards, strict=True):
        if shard.keys() != shards[0].keys():
            odd = sorted(shard.keys() ^ shards[0].keys())[0]
            raise BadInput(file, f"has other tensors than {files[0]}: {odd!r} is in one of them only")
    if heads % len(shards):
        raise BadInput(files[0], f"has {heads} attention heads, which {len(shards)} devices cannot share")
    tensors: dict[str, Tensor] = {}
    unused = []
    for name in shards[0]:
        cut, parts = _place(name), [shard[name] for shard in shards]
        if cut is None:
            unused.append(name)
        elif ".attention.qkv." in cut.name:
            thirds = torch.cat(
                [by_part(part, version, heads // len(shards), name, files[0]) for part in parts], 1
            )
            for part, third in zip(("query", "key", "value"), thirds, strict=True):
                tensors[cut.name.replace("qkv", f"self.{part}")] = third.contiguous()
        elif cut.along is not None:
            tensors[cut.name] = torch.cat(parts, cut.along)
        else:
            differing = [
                file for file, part in zip(files, parts, strict=True) if not torch.equal(part, parts[0])
            ]
            if differing:
                raise BadInput(
                    differing[0], f"disagrees with {files[0]} about {name!r}, which both hold whole"
                )
            tensors[cut.name] = parts[0]
    return tensors, unused


def by_part(fused: Tensor, version: float, heads: int, name: str, file: Path) -> Tensor:
    """One device's fused matrix or bias as [3, heads * width of a head, ...]: queries, keys, values.

    Args:
        fused: [3 * heads * width of a head, ...] in the order of its version (see the module).
        version: of the checkpoint.
        heads: of the device.
        name, file: where it comes from, for the message.

    Raises:
        BadInput: the rows cannot be shared by so many heads.
    """
    rows = len(fused) if fused.dim() else 0
    if not rows or rows % (3 * heads):
        raise BadInput(
            file,
            f"{name} has {rows:,} rows, which are not queries, keys and values of {heads} heads",
        )
    if version == 0.0:
        return fused.unflatten(0, (3, -1))
    if version == 1.0:
        return fused.unflatten(0, (heads, -1, 3)).movedim(2, 0).flatten(1, 2)
    return fused.unflatten(0, (heads, 3, -1)).movedim(1, 0).flatten(1, 2)


def _configuration(
    tensors: Mapping[str, Tensor],
    arguments: Mapping[str, Any],
    settings: Mapping[str, Any],
    file: Path,
    notes: list[str],
) -> MegatronConfig:
    """Sizes from the tensors, the rest from the training arguments and the user."""
    embeddings = "bert.embeddings."
    for name in ("word_embeddings.weight", "position_embeddings.weight"):
        if embeddings + name not in tensors or tensors[embeddings + name].dim() != 2:
            raise BadInput(file, f"lacks the matrix of {name}; is it the first stage of a BERT?")
    words, positions = (
        tensors[embeddings + f"{name}_embeddings.weight"].shape for name in ("word", "position")
    )
    types = tensors.get(embeddings + "token_type_embeddings.weight")
    layers = {
        int(found[1]) for name in tensors if (found := re.match(r"bert\.encoder\.layer\.(\d+)\.", name))
    }
    first = tensors.get("bert.encoder.layer.0.intermediate.dense.weight")
    if first is None or first.dim() == 0:
        raise BadInput(file, "has no layer 0; is it the first stage of a BERT?")
    values: dict[str, Any] = {
        ours: arguments[a] for a, ours in ARGUMENTS.items() if arguments.get(a) is not None
    }
    values["activation"] = _activation(arguments, notes)
    if not arguments:
        notes.append(
            "the checkpoint holds no training arguments: layer_norm_epsilon and activation are Megatron-LM's defaults"
        )
    values |= {
        "vocabulary_size": words[0],
        "vocabulary_multiple": 128 if words[0] % 128 == 0 else 1,
        "width": words[1],
        "positions": positions[0],
        "token_types": 2 if types is None else types.shape[0],
        "layers": max(layers) + 1,
        "feed_forward": first.shape[0],
    }
    for argument, field in {"num_layers": "layers", "hidden_size": "width"}.items():
        if arguments.get(argument) not in (None, values[field]):
            raise BadInput(
                file,
                f"{argument} is {arguments[argument]} among the arguments, the tensors say {values[field]}",
            )
    return MegatronConfig(**(values | dict(settings)))


def _activation(arguments: Mapping[str, Any], notes: list[str]) -> str:
    """Megatron's fused kernel and `openai_gelu` compute the tanh form, everything else the exact one."""
    if arguments.get("openai_gelu"):
        return "gelu_new"
    if arguments and (arguments.get("onnx_safe") or not arguments.get("bias_gelu_fusion")):
        return "gelu"
    notes.append(
        "trained with the tanh form of GELU in the layers and the exact one in lm_head; Hugging Face has one for both"
    )
    return "gelu_new"


def _tokenizer(source: Path, file: Path) -> Path | None:
    """The folder with tokenizer files, beside the shard or around it."""
    folders = [source, *file.parents][:4]
    return next((f for f in folders if any((f / name).is_file() for name in TOKENIZER_FILES)), None)
