"""Hugging Face folders read into the fast encoder; `saving` writes them, equal bit for bit.

Only safetensors are read; a pickle can run code when it is opened (`biosmith convert` makes safetensors of one).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from biosmith.errors import BadInput, UsageError
from biosmith.models.bert import PretrainingModel
from biosmith.models.electra import Discriminator, ElectraConfig, ReplacedTokenHead
from biosmith.models.encoder import Encoder, initialise
from biosmith.models.families import ModelConfig, config_from_hugging_face, names_of
from biosmith.models.heads import NextSentenceHead, Pooler
from biosmith.models.naming import Names, Place
from biosmith.progress import say

WEIGHTS, INDEX, PICKLE = "model.safetensors", "model.safetensors.index.json", "pytorch_model.bin"
# What weights are cast to.
DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
# Whatever is smaller is quantised, and means nothing without its scales.
READABLE = (*DTYPES.values(), torch.float64)
# What `biosmith quantize` leaves in the place of weights, and beside OpenVINO's where close decisions are made again.
ENGINE_FILES = {"openvino": "openvino.xml", "onnx": "model.onnx"}
CAREFUL_FILE = "careful.xml"
# How a file begins that Git LFS left in the place of the real one.
POINTER = b"version https://git-lfs"
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True)
class Origin:
    """Where a model's weights came from, and what is needed to write the same folder again.

    Attributes:
        folder: the Hugging Face folder.
        config: its `config.json` as it stands, unknown keys included.
        names: canonical name -> the file's name for it.
        parts: which of pooler and heads the file holds ("other" for heads of another kind).
        carried: buffers that are no parameters, by the file's name.
        initialised: parts that the file lacks and that were made afresh.
        unused: tensors of the file that the model has no place for.
    """

    folder: Path
    config: Mapping[str, Any]
    names: Mapping[str, str]
    parts: frozenset[str]
    carried: Mapping[str, Tensor] = field(default_factory=dict)
    initialised: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()


def load_encoder(folder: str | Path, *, dtype: torch.dtype | None = None) -> tuple[Encoder, ModelConfig]:
    """The encoder of a Hugging Face folder of any family in `families`, whatever its heads; in evaluation mode.

    Args:
        folder: holds `config.json` and safetensors (one file or shards).
        dtype: of the parameters; None keeps the file's.

    Raises:
        UsageError: the folder or its weights are missing, or the weights are a pickle only.
        BadInput: another architecture, a damaged file, or tensors that do not fit the configuration.
    """
    folder = Path(folder)
    config, raw = read_config(folder)
    return build_encoder(folder, config, raw, read_tensors(folder), dtype), config


def build_encoder(
    folder: Path,
    config: ModelConfig,
    raw: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    dtype: torch.dtype | None = None,
) -> Encoder:
    """The encoder of a configuration and tensors (by Hugging Face's names) that were read from a folder.

    Raises:
        BadInput: a tensor is missing or has another shape than the configuration says.
    """
    read = _Read.of(folder, config, raw, tensors)
    wanted = read.parts & {"pooler"}
    state, origin = read.state(wanted, wanted)
    with torch.device("meta"):
        encoder = read.config.make_encoder(pooler="pooler" in wanted)
    _fill(encoder, {name.removeprefix("encoder."): tensor for name, tensor in state.items()}, dtype, folder)
    encoder.origin = origin
    return encoder.eval()


def load_pretraining_model(
    folder: str | Path, *, next_sentence: bool | None = None, dtype: torch.dtype | None = None
) -> tuple[PretrainingModel, ModelConfig]:
    """The encoder and pretraining heads of a Hugging Face folder of any family in `families`; in evaluation mode.

    Heads that the folder lacks are initialised, named on stderr and in `model.encoder.origin.initialised`.

    Args:
        folder: holds `config.json` and safetensors (one file or shards).
        next_sentence: with that head and the pooler; None takes what the folder has.
        dtype: of the parameters; None keeps the file's.

    Raises:
        UsageError, BadInput: as `load_encoder`; or the family has no next-sentence head.
    """
    folder = Path(folder)
    config, raw = read_config(folder)
    if next_sentence and not config.has_pooler:
        raise UsageError(
            f"{folder} is a {config.kind} model, which has no next-sentence head: "
            "pretrain it without an objective over pairs of segments"
        )
    read = _Read.of(folder, config, raw, read_tensors(folder))
    wanted = {"masked_language_head"} | (read.parts & {"pooler"})
    if next_sentence or (next_sentence is None and "next_sentence_head" in read.parts):
        wanted |= {"pooler", "next_sentence_head"}
    state, origin = read.state(wanted, wanted & read.parts)
    with torch.device("meta"):
        model = PretrainingModel(
            read.config, next_sentence="next_sentence_head" in wanted, pooler="pooler" in wanted
        )
    _fill(model, state, dtype, folder)
    model.encoder.origin = origin
    if origin.initialised:
        say(f"{folder} has no {', '.join(origin.initialised)}: initialised afresh")
    return model.eval(), read.config


def load_discriminator(
    folder: str | Path, *, dtype: torch.dtype | None = None
) -> tuple[Discriminator, ElectraConfig]:
    """The discriminator of an ELECTRA-shaped Hugging Face folder, with its head; in evaluation mode.

    A head that the folder lacks is initialised, and named as in `load_pretraining_model`.

    Args:
        folder: holds `config.json` and safetensors (one file or shards).
        dtype: of the parameters; None keeps the file's.

    Raises:
        UsageError, BadInput: as `load_encoder`; or the folder is of another family.
    """
    folder = Path(folder)
    config, raw = read_config(folder)
    if not isinstance(config, ElectraConfig):
        raise UsageError(f"{folder} is a {config.kind} model, not an electra one: it has no discriminator")
    read = _Read.of(folder, config, raw, read_tensors(folder))
    wanted = {"replaced_token_head"}
    state, origin = read.state(wanted, wanted & read.parts)
    with torch.device("meta"):
        model = Discriminator(config)
    _fill(model, state, dtype, folder)
    model.encoder.origin = origin
    if origin.initialised:
        say(f"{folder} has no {', '.join(origin.initialised)}: initialised afresh")
    return model.eval(), config


def read_config(folder: Path) -> tuple[ModelConfig, dict[str, Any]]:
    """A folder's configuration, as ours and as it stands in `config.json`. Raises as `load_encoder`."""
    file = folder / "config.json"
    if not file.is_file():
        what = "has no config.json" if folder.is_dir() else "does not exist"
        raise UsageError(f"{folder} {what}; expected a Hugging Face model folder")
    try:
        raw = json.loads(file.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise BadInput(file, f"is not JSON: {error}") from error
    if not isinstance(raw, dict):
        raise BadInput(file, "is not a JSON object")
    return config_from_hugging_face(raw, file), raw


def read_tensors(folder: Path) -> dict[str, Tensor]:
    """All tensors of a folder's safetensors, one file or shards, by the file's names. Raises as `load_encoder`."""
    if (folder / WEIGHTS).is_file():
        return _read_file(folder / WEIGHTS)
    if (folder / INDEX).is_file():
        return {n: tensor for shard in find_shards(folder / INDEX) for n, tensor in _read_file(shard).items()}
    refuse_pickle(folder)
    raise UsageError(f"{folder} has no {WEIGHTS}")


def find_shards(index: Path) -> list[Path]:
    """The files that an index of shards names.

    Raises:
        BadInput: it is no such index, or one of them is not there.
    """
    try:
        shards = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
        files = [index.parent / shard for shard in shards]
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise BadInput(index, f"is not an index of shards: {error!r}") from error
    missing = [file.name for file in files if not file.is_file()]
    if missing:
        raise BadInput(index, f"names shards that are not there: {', '.join(missing)}")
    return files


def refuse_pointer(file: Path) -> None:
    """Raise `BadInput` for a file that Git LFS left in the place of the weights."""
    with file.open("rb") as opened:
        if opened.read(len(POINTER)) == POINTER:
            raise BadInput(
                file, "is a pointer of Git LFS, not the weights themselves; fetch them with: git lfs pull"
            )


def require_pickle(file: Path) -> None:
    """Raise `BadInput` unless a file begins as what `torch.save` writes: a zip file, or a pickle of protocol 2 or later."""
    refuse_pointer(file)
    with file.open("rb") as opened:
        beginning = opened.read(2)
    if beginning[:1] != b"\x80" and beginning != b"PK":
        raise BadInput(file, "is damaged or no checkpoint of torch")


def cast(tensors: Mapping[str, Tensor], dtype: torch.dtype | None, where: Path) -> dict[str, Tensor]:
    """The same numbers as `dtype`; what is no floating-point number stays as it is, and all does for None.

    Raises:
        BadInput: a number is too large for `dtype`, and would be infinite; `where` is the file that is named.
    """
    made = dict(tensors)
    for name, tensor in tensors.items() if dtype is not None else ():
        if not tensor.is_floating_point():
            continue
        made[name] = tensor.to(dtype)
        if bool((made[name].isinf() & ~tensor.isinf()).any()):
            raise BadInput(
                where,
                f"{name!r} holds a number that is too large for {str(dtype).removeprefix('torch.')}",
                value=tensor[tensor.isfinite()].abs().max().item(),
            )
    return made


def refuse_pickle(folder: Path) -> None:
    """Raise `UsageError`, which says what to do, if a folder's weights are a pickle, or an engine's, and nothing else."""
    if list(folder.glob("*.safetensors")):
        return
    networks = (ENGINE_FILES["openvino"], CAREFUL_FILE)  # with their numbers in a .bin file each
    if any(file.with_suffix(".xml").name not in networks for file in folder.glob("*.bin")):
        raise UsageError(
            f"{folder} has no safetensors, only a pickle, which can run code when it is opened; "
            f"make a safe folder of it first: biosmith convert {folder} --out MODEL"
        )
    for engine, file in ENGINE_FILES.items():
        if (folder / file).is_file():
            raise UsageError(
                f"{folder} was made for {engine} and has no weights to train; take the folder it was made from"
            )


def _read_file(file: Path) -> dict[str, Tensor]:
    refuse_pointer(file)
    try:
        with safe_open(file, framework="pt") as opened:
            return {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 (it is no mapping)
    except SafetensorError as error:
        raise BadInput(file, f"is damaged or no safetensors file: {error}") from error


@dataclass(frozen=True)
class _Read:
    """A folder as read: what it holds under canonical names, and what that makes of a model's parameters."""

    folder: Path
    family: Names
    config: ModelConfig
    raw: Mapping[str, Any]
    tensors: Mapping[str, Tensor]  # by canonical name
    names: Mapping[str, str]  # canonical name -> the file's name

    @classmethod
    def of(
        cls, folder: Path, config: ModelConfig, raw: Mapping[str, Any], tensors: Mapping[str, Tensor]
    ) -> _Read:
        family = names_of(raw, folder / "config.json")
        names = {family.canonical(name): name for name in tensors}
        for alias, name in family.ALIASES.items():
            # A tensor with two names may be saved under either.
            if alias in names and name not in names:
                names[name] = names.pop(alias)
        return cls(folder, family, config, raw, {c: tensors[n] for c, n in names.items()}, names)

    @property
    def parts(self) -> frozenset[str]:
        """Which of pooler and heads the folder holds."""
        return self.family.parts(self.tensors)

    def state(self, wanted: Iterable[str], present: Iterable[str]) -> tuple[dict[str, Tensor], Origin]:
        """Parameters under the names of `PretrainingModel`, `wanted` parts only; those not `present` are made."""
        wanted, present = frozenset(wanted), frozenset(present)
        places = self.family.places(self.config)
        pieces: dict[str, dict[int | None, Tensor]] = {}
        for name, place in places.items():
            part = self.family.part_of(name)
            if part is None or part in present:
                pieces.setdefault(place.name, {})[place.third] = self._tensor(name)
        state = {name: self._whole(name, thirds) for name, thirds in pieces.items()}
        self._check_ties()
        self._name_layers_left_out(places)
        missing = tuple(sorted(wanted - present))
        for part in missing:
            state |= _fresh(part, self.config, state["encoder.embeddings.words.weight"].dtype)
        return state, self._origin(places, present, missing)

    def _tensor(self, name: str) -> Tensor:
        if name not in self.tensors:
            raise BadInput(self.folder, f"lacks the tensor {name!r} that its config.json asks for")
        tensor = self.tensors[name]
        if tensor.dtype not in READABLE:
            raise BadInput(
                self.folder,
                f"the weights {self.names[name]!r} are quantised, which is not supported",
                value=str(tensor.dtype).removeprefix("torch."),
                valid=[str(dtype).removeprefix("torch.") for dtype in READABLE],
            )
        return tensor

    def _whole(self, name: str, thirds: Mapping[int | None, Tensor]) -> Tensor:
        """A parameter of its only piece, or of queries, keys and values."""
        if None in thirds:
            return thirds[None].clone()
        shapes = [tuple(thirds[i].shape) for i in range(3)]
        if len(set(shapes)) > 1:
            raise BadInput(
                self.folder,
                f"queries, keys and values of {name} have the shapes {shapes}, which have to be equal",
            )
        return torch.cat([thirds[i] for i in range(3)])

    def _check_ties(self) -> None:
        for alias, name in self.family.ALIASES.items():
            if alias in self.tensors and not torch.equal(self.tensors[alias], self._tensor(name)):
                raise BadInput(
                    self.folder, f"{alias!r} differs from {name!r}; only tied decoders are supported"
                )

    def _name_layers_left_out(self, places: Mapping[str, Place]) -> None:
        """Heads of other kinds are often left out; layers of the encoder never without a word."""
        forms = {_NUMBER.sub("#", name) for name in places if self.family.part_of(name) is None}
        beyond = [name for name in self.tensors if name not in places and _NUMBER.sub("#", name) in forms]
        if beyond:
            say(
                f"{self.folder} has more layers than its config.json asks for; left out: {self.names[beyond[0]]}, ..."
            )

    def _origin(
        self, places: Mapping[str, Place], used: frozenset[str], initialised: tuple[str, ...]
    ) -> Origin:
        carried, unused = {}, []
        for name, tensor in self.tensors.items():
            if name in self.family.BUFFERS:
                carried[self.names[name]] = tensor
            elif name not in self.family.ALIASES and (
                name not in places or self.family.part_of(name) not in {None, *used}
            ):
                unused.append(self.names[name])
        other = any(self.family.canonical(name) not in places for name in unused)
        parts = self.parts | ({"other"} if other else set())
        return Origin(self.folder, self.raw, self.names, parts, carried, initialised, tuple(unused))


def _fresh(part: str, config: ModelConfig, dtype: torch.dtype) -> dict[str, Tensor]:
    """Initialised parameters of a part, under the names of `PretrainingModel`."""
    kinds: dict[str, tuple[Callable[[], nn.Module], str]] = {
        "pooler": (lambda: Pooler(config), "encoder.pooler."),
        "masked_language_head": (config.make_masked_language_head, "masked_language_head."),
        "next_sentence_head": (lambda: NextSentenceHead(config), "next_sentence_head."),
        "replaced_token_head": (lambda: ReplacedTokenHead(config), "replaced_token_head."),  # type: ignore[arg-type]
    }
    make, prefix = kinds[part]
    module = make()
    initialise(module, config.head_initializer_range)
    return {prefix + name: tensor.detach().to(dtype) for name, tensor in module.state_dict().items()}


def _fill(model: nn.Module, state: Mapping[str, Tensor], dtype: torch.dtype | None, where: Path) -> None:
    """Put tensors into a model that was made on the meta device. Raises `BadInput` where a shape does not fit."""
    expected = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    for name, shape in expected.items():
        if tuple(state[name].shape) != shape:
            raise BadInput(
                where, f"{name} has shape {tuple(state[name].shape)}, config.json asks for {shape}"
            )
    kept = {name: state[name] if dtype is None else state[name].to(dtype) for name in expected}
    model.load_state_dict(kept, assign=True)
