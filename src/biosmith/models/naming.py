"""What a family says of its Hugging Face folders: names of tensors, keys of the configuration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol


class Place(NamedTuple):
    """Where a Hugging Face tensor lies in `PretrainingModel`: the parameter and which third of it (fused QKV)."""

    name: str
    third: int | None = None


class Names(Protocol):
    """What a module such as `bert_names` holds: a family's configuration and tensors under Hugging Face's names."""

    @property
    def PREFIX(self) -> str:
        """Of the encoder's tensors in a model with heads."""

    @property
    def HEADS(self) -> tuple[str, ...]:
        """Beginnings of canonical names that never have the prefix."""

    @property
    def BARE(self) -> str:
        """Class name of the encoder alone."""

    @property
    def WITHOUT_POOLER(self) -> tuple[str, ...]:
        """Tuned models that have no pooler in transformers."""

    @property
    def BUFFERS(self) -> tuple[str, ...]:
        """Tensors that are no parameters: index buffers that old versions of transformers saved."""

    @property
    def ALIASES(self) -> Mapping[str, str]:
        """A second name of a tied tensor -> its first name."""

    def places(self, config: Any) -> dict[str, Place]:
        """Canonical Hugging Face name -> place, for a model of that configuration."""

    def canonical(self, name: str) -> str:
        """A file's name for a tensor, without the prefix."""

    def part_of(self, name: str) -> str | None:
        """The part (pooler or a head) of a canonical name; None for the encoder itself and unknown names."""

    def parts(self, names: Iterable[str]) -> frozenset[str]:
        """The parts that a folder with such canonical names holds."""

    def architecture(self, *, masked_language: bool, next_sentence: bool) -> str:
        """Class name in transformers of a model with these heads."""

    def config_from_hugging_face(self, raw: Mapping[str, Any], file: Path) -> Any:
        """Our configuration from a `config.json`; raises `BadInput` where this encoder computes something else."""

    def config_to_hugging_face(self, config: Any, raw: Mapping[str, Any] | None) -> dict[str, Any]:
        """A `config.json` with every field of ours; `raw` is the file it came from, whose other keys are kept."""
