"""Which engine scores sequences: what is asked for, or what the folder, the machine and the installed extras allow.

An engine is a module of this package and a line in `ENGINES`.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from biosmith.annotate.pieces import CutsWords
from biosmith.annotate.sequences import Engine
from biosmith.annotate.spans import Head
from biosmith.annotate.tuned import TunedTagger, read_tuned
from biosmith.errors import UsageError
from biosmith.machine import has_graphics_card, processor
from biosmith.tasks.decoding import Chain

Precision = Literal["auto", "float32", "bfloat16", "float16"]
PRECISIONS: tuple[Precision, ...] = ("auto", "float32", "bfloat16", "float16")

# name -> (module that must be installed, the extra that brings it)
ENGINES: dict[str, tuple[str, str]] = {
    "torch": ("torch", ""),
    "openvino": ("openvino", "cpu"),
    "onnx": ("onnxruntime", "cpu"),
}


@dataclass(frozen=True)
class Settings:
    """How engines run.

    Attributes:
        engine: "auto" or a key of `ENGINES`.
        device: "auto", "cpu", "cuda", ...; for torch.
        precision: of the arithmetic; "auto" is the fastest that the machine has in hardware.
        threads: cores to use; None is all that this process may use.
    """

    engine: str = "auto"
    device: str = "auto"
    precision: Precision = "auto"
    threads: int | None = None

    def __post_init__(self) -> None:
        if self.engine not in ("auto", *ENGINES):
            raise UsageError(f"engine {self.engine!r} is unknown; valid: auto, {', '.join(ENGINES)}")
        if self.precision not in PRECISIONS:
            raise UsageError(f"precision {self.precision!r} is unknown; valid: {', '.join(PRECISIONS)}")


@dataclass(frozen=True)
class Choice:
    """An engine and why it was chosen."""

    engine: str
    reason: str


@dataclass
class Reader:
    """One encoder with the heads of the taggers that share it.

    Attributes:
        cutter: the tokenizer.
        engine: scores sequences for all heads in one pass.
        heads: one a tagger.
        max_length: tokens of the longest sequence that is read, special tokens included.
        stride: pieces that overlapping windows share.
    """

    cutter: CutsWords
    engine: Engine
    heads: list[Head]
    max_length: int
    stride: int


def is_installed(engine: str) -> bool:
    """Whether an engine's library is there."""
    return importlib.util.find_spec(ENGINES[engine][0]) is not None


def choose_engine(tuned: TunedTagger, settings: Settings) -> Choice:
    """The engine for a folder, and why.

    Raises:
        UsageError: the engine is not installed, or the folder was made for another one.
    """
    made_for = None if tuned.network is None else tuned.network.engine
    if settings.engine != "auto":
        if made_for is not None and settings.engine != made_for:
            raise UsageError(
                f"{tuned.folder} was made for the {made_for} engine; take it, auto, or the folder it was made from"
            )
        require_engine(settings.engine)
        return Choice(settings.engine, "asked for")
    if made_for is not None:
        require_engine(made_for)
        return Choice(made_for, f"the model was quantised for it{_vnni_words(tuned)}")
    if settings.device != "cpu" and has_graphics_card():
        return Choice("torch", "there is a graphics card")
    faster = "; `biosmith quantize` makes one that is faster here" if has_int8_dot_products() else ""
    return Choice("torch", f"the model is as it was tuned{faster}")


def require_engine(engine: str) -> None:
    """Raise `UsageError` with the extra to install if an engine's library is missing."""
    if not is_installed(engine):
        module, extra = ENGINES[engine]
        raise UsageError(f"engine {engine} needs {module}: pip install 'biosmith[{extra}]'")


def _vnni_words(tuned: TunedTagger) -> str:
    assert tuned.network is not None
    here = has_int8_dot_products()
    if tuned.network.careful is not None:
        return ""  # which then reads alone
    if tuned.network.vnni and not here:
        return ", but on a processor with int8 dot products, which this one lacks: scores may be off, quantize it here"
    return "" if here else "; this processor has no int8 dot products, so it gains little"


def has_int8_dot_products() -> bool:
    """Whether the processor multiplies int8 at full speed and without overflow."""
    return bool({"avx512_vnni", "avx_vnni", "amx_int8", "asimddp", "i8mm"} & set(processor().features))


def has_fast_bfloat16() -> bool:
    """Whether the processor multiplies bfloat16 faster than float32."""
    here = processor()
    if "avx512_bf16" in here.features and "Intel" not in here.model:
        return True
    # Intel's AVX-512 alone was measured slower in bfloat16 (benchmarks/results/annotation_intel.json).
    return bool({"amx_bf16", "bf16"} & set(here.features))


def open_readers(folders: dict[str, Path], settings: Settings) -> list[Reader]:
    """Taggers by name, ready to run; those that share an encoder and a tokenizer share a reader.

    Raises:
        UsageError, BadInput: as `read_tuned` and `choose_engine`.
    """
    taggers = {name: read_tuned(folder) for name, folder in folders.items()}
    readers = []
    for group in _groups(taggers):
        choice = choose_engine(taggers[group[0]], settings)
        readers.append(_open({name: taggers[name] for name in group}, choice, settings))
    return readers


def _open(group: dict[str, TunedTagger], choice: Choice, settings: Settings) -> Reader:
    if choice.engine == "torch":
        from biosmith.annotate.engines.torch_engine import open_torch

        return open_torch(group, choice, settings)
    if any(tagger.network is None for tagger in group.values()):
        from biosmith.annotate.engines.conversion import converted

        group = converted(group, choice.engine)
    if choice.engine == "openvino":
        from biosmith.annotate.engines.openvino_engine import open_openvino

        return open_openvino(group, choice, settings)
    from biosmith.annotate.engines.onnx_engine import open_onnx

    return open_onnx(group, choice, settings)


def _groups(taggers: dict[str, TunedTagger]) -> list[list[str]]:
    """Names of taggers that share an encoder, a tokenizer and the length they read."""
    if len(taggers) == 1:
        return [list(taggers)]
    groups: dict[object, list[str]] = {}
    for name, tagger in taggers.items():
        groups.setdefault(_encoder_key(tagger, name), []).append(name)
    return list(groups.values())


def _encoder_key(tagger: TunedTagger, name: str) -> object:
    from biosmith.annotate.engines.sharing import encoder_digest

    digest = None if tagger.network is not None else encoder_digest(tagger.folder)
    return name if digest is None else (digest, tagger.max_length)


def stacked_heads(group: dict[str, TunedTagger], chains: Sequence[Chain | None] | None = None) -> list[Head]:
    """One head a tagger over the columns of its labels, in order."""
    heads, at = [], 0
    for number, (name, tagger) in enumerate(group.items()):
        count = len(tagger.label_set.labels)
        chain = tagger.chain if chains is None else chains[number]
        heads.append(Head(name, tagger.label_set, slice(at, at + count), chain))
        at += count
    return heads
