"""What the tests of models share: small models, awkward batches, folders that transformers wrote."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from biosmith.models.bert import BertConfig, PretrainingModel
from biosmith.models.packed import PackedSequences

TINY = BertConfig(
    vocabulary_size=97, layers=3, width=48, heads=4, feed_forward=80, positions=40, initializer_range=0.2
)
LENGTHS = (40, 1, 17, 5, 2)  # the longest possible, the shortest possible, and some between


def tiny_model(seed: int = 0, **changes: Any) -> PretrainingModel:
    """A random model whose every parameter differs from zero and one, so that no part can be left out unseen."""
    torch.manual_seed(seed)
    model = PretrainingModel(dataclasses.replace(TINY, **changes))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


def sequences(seed: int = 0) -> tuple[list[list[int]], list[list[int]]]:
    """Token ids and segments of sequences of the lengths above."""
    generator = torch.Generator().manual_seed(seed)
    ids = [torch.randint(1, 97, (n,), generator=generator).tolist() for n in LENGTHS]
    return ids, [[0] * (n // 2) + [1] * (n - n // 2) for n in LENGTHS]


def padded(rows: list[list[int]]) -> Tensor:
    """Rows as one tensor [B, L], zeros behind the shorter ones."""
    return torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True)


def padded_batch() -> tuple[Tensor, Tensor, Tensor]:
    """Ids, attention mask and segments [B, L] of the sequences."""
    ids, types = sequences()
    return padded(ids), padded([[1] * len(row) for row in ids]), padded(types)


def packed_batch() -> PackedSequences:
    """The same sequences, packed."""
    return PackedSequences.of(*sequences())


def write_transformers_folder(
    folder: Path, kind: str, *, dtype: torch.dtype = torch.float32, **changes: Any
) -> Path:
    """A random tiny model of that class as `transformers` saves it, its zero biases and unit gains shaken."""
    import transformers

    values = {"vocab_size": 97, "hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4}
    values |= {"intermediate_size": 80, "max_position_embeddings": 40, "initializer_range": 0.2}
    torch.manual_seed(1)
    model = getattr(transformers, kind)(transformers.BertConfig(**(values | changes)))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    model.to(dtype).save_pretrained(folder)
    return folder
