"""What a family says of its Hugging Face folders: names of tensors, keys of the configuration."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from biosmith.errors import BadInput, UsageError
from biosmith.models.configuration import ACTIVATIONS

# Other names of the two activations.
ACTIVATION_NAMES = {"gelu_pytorch_tanh": "gelu_new", "gelu_python": "gelu"}

# Hugging Face's field -> ours, in BERT and what descends from it.
FIELDS = {
    "vocab_size": "vocabulary_size",
    "num_hidden_layers": "layers",
    "hidden_size": "width",
    "num_attention_heads": "heads",
    "intermediate_size": "feed_forward",
    "max_position_embeddings": "positions",
    "type_vocab_size": "token_types",
    "hidden_dropout_prob": "dropout",
    "attention_probs_dropout_prob": "attention_dropout",
    "layer_norm_eps": "layer_norm_epsilon",
    "hidden_act": "activation",
    "initializer_range": "initializer_range",
    "pad_token_id": "pad_id",
}


class Place(NamedTuple):
    """Where a Hugging Face tensor lies in `PretrainingModel`: the parameter and which third of it (fused QKV)."""

    name: str
    third: int | None = None


def dense(stems: Mapping[str, str]) -> dict[str, Place]:
    """Weight and bias of parts, named without these, on either side."""
    return {
        f"{theirs}.{kind}": Place(f"{ours}.{kind}")
        for theirs, ours in stems.items()
        for kind in ("weight", "bias")
    }


def thirds(theirs: str, ours: str) -> dict[str, Place]:
    """Three matrices (named with a "{}" for query, key or value) and their biases, which are one of ours."""
    return {
        f"{theirs.format(part)}.{kind}": Place(f"{ours}.{kind}", third)
        for third, part in enumerate(("query", "key", "value"))
        for kind in ("weight", "bias")
    }


TABLES = {
    "embeddings.word_embeddings.weight": Place("encoder.embeddings.words.weight"),
    "embeddings.position_embeddings.weight": Place("encoder.embeddings.positions.weight"),
    "embeddings.token_type_embeddings.weight": Place("encoder.embeddings.types.weight"),
}


class Names(ABC):
    """A family's configuration and tensors under Hugging Face's names, both ways.

    Canonical names are those of the class with all pretraining heads, without the prefix of the encoder.

    Attributes:
        TITLE: of the family, as people write it.
        PREFIX: of the encoder's tensors in a model with heads.
        PARTS: what a folder may lack, each with the beginnings of its canonical names.
        BARE: class name of the encoder alone.
        WITHOUT_POOLER: tuned models that have no pooler in transformers.
        BUFFERS: tensors that are no parameters: index buffers that old versions of transformers saved.
        ALIASES: a second name of a tied tensor -> its first name.
        FIELDS: Hugging Face's field -> ours.
        DEFAULTS: what a file may leave out: transformers' own defaults.
        NEW: further keys of a new file.
        FIXED: keys that change what is computed, with the only value that this encoder knows.
    """

    TITLE: ClassVar[str]
    PREFIX: ClassVar[str]
    PARTS: ClassVar[Mapping[str, tuple[str, ...]]]
    BARE: ClassVar[str]
    WITHOUT_POOLER: ClassVar[tuple[str, ...]] = ()
    BUFFERS: ClassVar[tuple[str, ...]] = ("embeddings.position_ids", "embeddings.token_type_ids")
    ALIASES: ClassVar[Mapping[str, str]]
    FIELDS: ClassVar[Mapping[str, str]] = FIELDS
    DEFAULTS: ClassVar[Any]
    NEW: ClassVar[Mapping[str, Any]]
    FIXED: ClassVar[Mapping[str, Any]] = {
        "position_embedding_type": "absolute",
        "is_decoder": False,
        "add_cross_attention": False,
    }

    @abstractmethod
    def places(self, config: Any) -> dict[str, Place]:
        """Canonical Hugging Face name -> place, for a model of that configuration."""

    @property
    def heads(self) -> tuple[str, ...]:
        """Beginnings of canonical names that never have the prefix."""
        return tuple(start for part, starts in self.PARTS.items() if part != "pooler" for start in starts)

    def canonical(self, name: str) -> str:
        """A file's name for a tensor, without the prefix."""
        return name.removeprefix(self.PREFIX)

    def part_of(self, name: str) -> str | None:
        """The part (pooler or a head) of a canonical name; None for the encoder itself and unknown names."""
        return next((part for part, starts in self.PARTS.items() if name.startswith(starts)), None)

    def parts(self, names: Iterable[str]) -> frozenset[str]:
        """The parts that a folder with such canonical names holds."""
        found = {self.part_of(name) for name in names if name not in self.ALIASES}
        return frozenset(part for part in found if part is not None)

    def architecture(self, *, masked_language: bool, next_sentence: bool) -> str:
        """Class name in transformers of a model with these heads."""
        if not masked_language:
            return self.BARE
        both = next_sentence and "next_sentence_head" in self.PARTS
        return self.BARE.removesuffix("Model") + ("ForPreTraining" if both else "ForMaskedLM")

    def config_from_hugging_face(self, raw: Mapping[str, Any], file: Path) -> Any:
        """Our configuration from a `config.json`.

        Raises:
            BadInput: a model with something that this encoder does not compute.
        """
        for key, wanted in self.FIXED.items():
            if raw.get(key, wanted) not in (wanted, None):
                raise BadInput(file, f"{key} is not supported", value=raw[key], valid=[wanted])
        if raw.get("tie_word_embeddings") is False:
            raise BadInput(file, "the decoder is not tied to the word embedding", value=False, valid=[True])
        values = {ours: getattr(self.DEFAULTS, ours) for ours in self.FIELDS.values()}
        values |= {ours: raw[theirs] for theirs, ours in self.FIELDS.items() if raw.get(theirs) is not None}
        for theirs, ours in self.FIELDS.items():
            if not ours.endswith("activation"):
                continue
            values[ours] = ACTIVATION_NAMES.get(str(values[ours]), values[ours])
            if values[ours] not in ACTIVATIONS:
                valid = [*ACTIVATIONS, *ACTIVATION_NAMES]
                raise BadInput(file, f"{theirs} is not supported", value=raw[theirs], valid=valid)
        try:
            return type(self.DEFAULTS)(**self._settled(values, raw, file))
        except (TypeError, UsageError) as error:
            raise BadInput(file, f"is not a usable {self.TITLE} configuration: {error}") from error

    def _settled(self, values: dict[str, Any], raw: Mapping[str, Any], file: Path) -> dict[str, Any]:
        """What a family makes otherwise of the values of its fields."""
        return values

    def config_to_hugging_face(self, config: Any, raw: Mapping[str, Any] | None) -> dict[str, Any]:
        """A `config.json` with every field of ours. `raw` is the file it came from: its other keys are kept, another name
        of an activation stays as it is, and what it left out because it is the default stays out."""
        made = {"model_type": config.kind, **self.NEW} if raw is None else dict(raw)
        for theirs, ours in self.FIELDS.items():
            value, before = getattr(config, ours), made.get(theirs)
            is_default = raw is not None and before is None and value == getattr(self.DEFAULTS, ours)
            is_synonym = theirs == "hidden_act" and ACTIVATION_NAMES.get(str(before)) == value
            if not is_default and not is_synonym:
                made[theirs] = value
        return made
