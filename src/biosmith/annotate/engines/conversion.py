"""A tuned tagger's network in the form of a CPU engine. Needs torch; what it makes does not.

The network is traced as it is, over padded batches, so its scores are those of torch up to rounding.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.metadata
import logging
import os
import shutil
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from biosmith.annotate.engines.cache import cache_folder
from biosmith.annotate.engines.torch_engine import SharedTagger
from biosmith.annotate.pieces import TOKENIZER
from biosmith.annotate.tuned import EngineFile, TunedTagger
from biosmith.artefact import (
    MANIFEST,
    Manifest,
    describe_files,
    digest_file,
    digest_value,
    folder_by_rename,
    load_manifest,
    to_plain,
)
from biosmith.errors import BiosmithError, UsageError
from biosmith.lineage import keep_lineage
from biosmith.models.checkpoint import ENGINE_FILES
from biosmith.progress import say
from biosmith.tasks.decoding import Chain
from biosmith.tasks.inputs import InputTransform
from biosmith.tasks.network import AnyTagger, EncoderTagger, TransformersEncoder, load_tagger
from biosmith.tasks.tagging import chain_of

FILES = ENGINE_FILES
OPSET = 20


class PaddedNetwork(nn.Module):
    """Scores [B, L, K] of all tokens of a padded batch."""

    def __init__(self, taggers: Sequence[AnyTagger]) -> None:
        super().__init__()
        self.shared = SharedTagger(taggers)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Token ids and mask, both int64 [B, L]."""
        first = self.shared.first
        if not isinstance(first, EncoderTagger):
            scores: Tensor = first.model(input_ids=input_ids, attention_mask=attention_mask).logits
            return scores
        if isinstance(first.encoder, TransformersEncoder):
            hidden = first.encoder.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        else:
            hidden = first.encoder(input_ids, attention_mask)
        heads = (first.scorer, *self.shared.others)
        return heads[0](hidden) if len(heads) == 1 else torch.cat([head(hidden) for head in heads], dim=-1)


@dataclass(frozen=True)
class Traceable:
    """A network and what its engine folder says beside it."""

    network: PaddedNetwork
    transform: InputTransform | None
    chains: list[Chain | None]
    max_length: int


def load_traceable(group: dict[str, TunedTagger]) -> Traceable:
    """The network of taggers that share an encoder.

    Raises:
        UsageError: a head that only torch computes.
    """
    taggers = [load_tagger(tagger.folder) for tagger in group.values()]
    for tagger, tuned in zip(taggers, group.values(), strict=True):
        if getattr(tagger, "lstm", None) is not None:
            raise UsageError(f"{tuned.folder} has an LSTM in its head, which only the torch engine reads")
    first = next(iter(group.values()))
    length = min(taggers[0].positions, first.max_length or taggers[0].positions)
    network = PaddedNetwork(taggers).eval()
    return Traceable(network, InputTransform(first.folder), [chain_of(t) for t in taggers], length)


def example_inputs() -> tuple[Tensor, Tensor]:
    """A small padded batch to trace with."""
    mask_BL = torch.ones(3, 16, dtype=torch.int64)
    mask_BL[1:, 9:] = 0
    return torch.full((3, 16), 1, dtype=torch.int64) * mask_BL, mask_BL


def to_openvino(network: PaddedNetwork) -> Any:
    """The network as an OpenVINO model of any batch and length.

    Raises:
        BiosmithError: it has no such form, or scores sequences of other lengths than the example's otherwise.
    """
    import openvino

    ids, mask = example_inputs()
    with _tracing("openvino"):
        model = openvino.convert_model(network, example_input={"input_ids": ids, "attention_mask": mask})
    for port, name in zip(model.inputs, ("input_ids", "attention_mask"), strict=True):
        port.tensor.set_names({name})
    model.reshape({port.any_name: openvino.PartialShape([-1, -1]) for port in model.inputs})
    with _tracing("openvino"):  # what was a constant of the example shows in another shape
        other = {
            "input_ids": torch.ones(2, 23, dtype=torch.int64),
            "attention_mask": torch.ones(2, 23).long(),
        }
        compiled = openvino.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        found = compiled({name: value.numpy() for name, value in other.items()})[0]
        torch.testing.assert_close(torch.from_numpy(found), network(**other).float(), atol=1e-2, rtol=1e-2)
    return model


def to_onnx(network: PaddedNetwork, file: Path) -> None:
    """Write the network as an ONNX file of any batch and length.

    Raises:
        BiosmithError: it has no such form.
    """
    batch, length = torch.export.Dim("batch", min=1), torch.export.Dim("length", min=2)
    with _tracing("onnx"):
        program = torch.onnx.export(
            network,
            example_inputs(),
            dynamo=True,
            input_names=["input_ids", "attention_mask"],
            output_names=["scores"],
            dynamic_shapes={name: {0: batch, 1: length} for name in ("input_ids", "attention_mask")},
            opset_version=OPSET,
            verbose=False,
        )
    assert program is not None
    program.save(str(file), external_data=False)


def save_network(network: PaddedNetwork, engine: str, folder: Path) -> None:
    """Write the network for an engine, in 32 bits."""
    if engine == "onnx":
        to_onnx(network, folder / FILES[engine])
        return
    import openvino

    openvino.save_model(to_openvino(network), folder / FILES[engine], compress_to_fp16=False)


def write_engine_folder(
    folder: Path, tuned: TunedTagger, traced: Traceable, engine: EngineFile, manifest: Manifest
) -> None:
    """Write what lies beside a network: label map, tokenizer and a manifest that names the engine."""
    shutil.copyfile(tuned.folder / "config.json", folder / "config.json")
    assert traced.transform is not None
    traced.transform.tokenizer.backend_tokenizer.save(str(folder / TOKENIZER))
    config = {
        "task": "ner",
        **manifest.config,
        "labels": tuned.label_set.labels,
        "max_length": traced.max_length,
        "engine": dataclasses.asdict(engine),
        "chain": _plain(traced.chains[0]),
        "chains": [_plain(chain) for chain in traced.chains],
    }
    counts = {**manifest.counts, "longest_mention": tuned.stride}
    keep_lineage(folder, manifest)
    dataclasses.replace(manifest, config=config, counts=counts, files=describe_files(folder)).save(folder)


def _plain(chain: Chain | None) -> list[Any] | None:
    return None if chain is None else [part.tolist() for part in chain]


def converted(group: dict[str, TunedTagger], engine: str) -> dict[str, TunedTagger]:
    """The same taggers with their common network in an engine's form, made once and kept in the user's cache."""
    key = digest_value([engine, _library(engine), [_identity(tagger.folder) for tagger in group.values()]])
    folder = cache_folder() / f"{engine}-{key[:24]}"
    first = next(iter(group.values()))
    if not (folder / MANIFEST).is_file():
        say(f"Converting {', '.join(str(t.folder) for t in group.values())} for {engine}; kept in {folder}")
        traced = load_traceable(group)
        network = EngineFile(engine, FILES[engine], "float32", traced.max_length)
        with contextlib.suppress(UsageError), folder_by_rename(folder) as temporary:
            save_network(traced.network, engine, temporary)
            write_engine_folder(temporary, first, traced, network, Manifest("tuned"))
    config = load_manifest(folder).config
    network = EngineFile(**config["engine"])
    return {
        name: dataclasses.replace(
            tagger,
            folder=folder,
            network=network,
            chain=None if chain is None else Chain(*(torch.tensor(part).numpy() for part in chain)),
        )
        for (name, tagger), chain in zip(group.items(), config["chains"], strict=True)
    }


def _library(engine: str) -> str:
    names = {"openvino": "openvino", "onnx": "onnxruntime"}
    return f"{importlib.metadata.version(names[engine])} torch {torch.__version__}"


def _identity(folder: Path) -> Any:
    """What tells a tuned folder from another at the same place: its manifest, and size and time of its files.

    Of all files, as tokenizer and configuration decide what is converted, and whether it is refused.
    """
    held = sorted(p for p in folder.iterdir() if p.is_file() and not p.name.startswith("."))
    stats = [(p.name, p.stat().st_size, p.stat().st_mtime_ns) for p in held]
    manifest = folder / MANIFEST
    return to_plain([str(folder.resolve()), digest_file(manifest) if manifest.is_file() else "", stats])


@contextlib.contextmanager
def _tracing(engine: str) -> Iterator[None]:
    """Say what to do where a network cannot be traced: attention in windows, say, depends on the example's length."""
    try:
        with quiet(), torch.no_grad():
            yield
    except MemoryError:
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise BiosmithError(
            f"the model cannot be converted for the {engine} engine ({reason}); take --engine torch"
        ) from error


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Tracers warn of what is meant to be so (constants of the example) and print their progress."""
    with warnings.catch_warnings(), Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        warnings.simplefilter("ignore")
        loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "openvino", "nncf")]
        levels = [logger.level for logger in loggers]
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        try:
            with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
                yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
