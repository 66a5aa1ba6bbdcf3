"""How fast the CPU engines are on this machine: a small encoder of Bioformer-8L's width, fresh, on random tokens."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import torch

from biosmith.annotate.engines import has_int8_dot_products, is_installed
from biosmith.annotate.engines.conversion import FILES, PaddedNetwork, Traceable
from biosmith.annotate.engines.quantization import MAKERS, SCHEMES, open_engine
from biosmith.annotate.engines.thresholds import tokens_a_second
from biosmith.annotate.engines.torch_engine import SharedTagger, TorchEngine
from biosmith.annotate.sequences import Engine, Sequences
from biosmith.models.bert import BertConfig
from biosmith.models.encoder import Encoder
from biosmith.tasks.network import EncoderTagger

LAYERS, MEASURED = 8, 2  # a model's layers all take the same time; two of them are made and measured
LABELS, VOCABULARY, LONGEST = 3, 1_000, 64


def measure_engines() -> dict[str, int]:
    """Tokens a second of each installed engine, of a tagger of 8 layers, 512 wide: torch in 32 bits, the others in int8."""
    config = BertConfig(
        vocabulary_size=VOCABULARY, layers=MEASURED, width=512, heads=8, feed_forward=2_048, positions=LONGEST
    )
    tagger = EncoderTagger(Encoder(config, pooler=False), LABELS, 0.0, Path()).eval()
    sequences = _sequences()
    speeds = {
        "torch": _speed(
            TorchEngine(SharedTagger([tagger]), LABELS, torch.device("cpu"), torch.float32, ""), sequences
        )
    }
    traced = Traceable(PaddedNetwork([tagger]).eval(), None, [None], LONGEST)
    for engine, make in MAKERS.items():
        if is_installed(engine):
            with tempfile.TemporaryDirectory(prefix="biosmith-") as folder:
                file, spared = Path(folder) / FILES[engine], next(iter(SCHEMES.values()))
                make(traced, sequences, spared, file, vnni=has_int8_dot_products())
                speeds[f"{engine} int8"] = _speed(open_engine(engine, file, LABELS, LONGEST), sequences)
    return speeds


def _sequences() -> Sequences:
    """Sequences as long as sentences are."""
    generator = np.random.default_rng(0)
    lengths = generator.integers(8, LONGEST, 128)
    begins = np.append(0, np.cumsum(lengths))
    ids = generator.integers(5, VOCABULARY, begins[-1]).astype(np.int32)
    return Sequences(ids, begins, begins[:-1] + 1)


def _speed(engine: Engine, sequences: Sequences) -> int:
    return round(tokens_a_second(engine, sequences) * MEASURED / LAYERS)
