"""Continued pretraining: the weights of a model taken over, its word embedding brought to another vocabulary.

A piece that both vocabularies have keeps its vector; any other one begins at the mean of the vectors of the pieces that
the old vocabulary cuts its text into, and the bias of the decoder likewise. Vocabularies mark pieces in different ways
("##" inside a word, "▁" or a space at its beginning): pieces are the same where their text and place in a word are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from tokenizers import decoders
from torch import Tensor

from biosmith.models.bert import PretrainingModel
from biosmith.progress import say
from biosmith.tokens.vocabulary import Vocabulary, load_vocabulary

WORDS, BIAS = "encoder.embeddings.words.weight", "masked_language_head.bias"


class Surface(NamedTuple):
    """What a piece stands for: its text, and whether a word begins with it."""

    text: str
    starts: bool


@dataclass(frozen=True)
class Transfer:
    """From which old pieces each new one begins.

    Attributes:
        sources: for each piece of the new vocabulary ids of the old one; () where nothing is known of it.
        copied: pieces that both have.
        averaged: pieces that begin at a mean.
        fresh: pieces that begin as in a new model.
    """

    sources: tuple[tuple[int, ...], ...]
    copied: int
    averaged: int
    fresh: int


def plan_transfer(old: Vocabulary, new: Vocabulary) -> Transfer:
    """Find where the pieces of a new vocabulary come from."""
    by_surface: dict[Surface, int] = {}
    old_surfaces = surfaces(old)
    for number, surface in enumerate(old_surfaces):
        if surface is not None:
            by_surface.setdefault(surface, number)
    by_name = {piece: number for number, piece in enumerate(old.pieces) if piece}
    roles = {
        number: old.mark.special_tokens[role]
        for role, number in new.mark.special_tokens.items()
        if role in old.mark.special_tokens
    }
    sources: list[tuple[int, ...]] = []
    copied, cut = 0, []  # cut: pieces whose text has to be cut by the old vocabulary
    for number, surface in enumerate(surfaces(new)):
        source = roles.get(number)
        if source is None and surface is not None:
            source = by_surface.get(surface)
        if source is None and old.mark.kind == new.mark.kind:
            source = by_name.get(new.pieces[number])
        sources.append(() if source is None else (source,))
        copied += source is not None
        if source is None and surface is not None:
            cut.append((number, surface))
    encodings = old.tokenizer.encode_batch([surface.text for _, surface in cut], add_special_tokens=False)
    unknown, normalizer = old.mark.special_tokens.get("unk"), old.tokenizer.normalizer
    for (number, surface), encoding in zip(cut, encodings, strict=True):
        text = surface.text if normalizer is None else normalizer.normalize_str(surface.text)
        inside = () if surface.starts else _cut_inside(text, by_surface)
        sources[number] = inside or tuple(piece for piece in encoding.ids if piece != unknown)
    fresh = sum(not source for source in sources)
    return Transfer(tuple(sources), copied, len(sources) - copied - fresh, fresh)


def _cut_inside(text: str, by_surface: Mapping[Surface, int]) -> tuple[int, ...]:
    """Ids of the old pieces that stand inside words and make up a text, longest first (as WordPiece); () if none do."""
    ids, at = [], 0
    while at < len(text):
        ends = range(len(text), at, -1)
        end = next((end for end in ends if Surface(text[at:end], False) in by_surface), None)
        if end is None:
            return ()
        ids.append(by_surface[Surface(text[at:end], False)])
        at = end
    return tuple(ids)


def surfaces(vocabulary: Vocabulary) -> list[Surface | None]:
    """What each piece stands for; None for special tokens and for bytes that are no text by themselves."""
    special = set(vocabulary.mark.special_tokens.values())
    kind, plain = vocabulary.mark.kind, decoders.ByteLevel()
    found: list[Surface | None] = []
    for number, piece in enumerate(vocabulary.pieces):
        if kind == "bpe":
            text = plain.decode([piece])
            surface = Surface(text.lstrip(" "), text.startswith(" "))
        elif kind == "sentencepiece":
            surface = Surface(piece.removeprefix("▁"), piece.startswith("▁"))
        else:
            surface = Surface(piece.removeprefix("##"), not piece.startswith("##") or piece == "##")
        usable = number not in special and surface.text and "\N{REPLACEMENT CHARACTER}" not in surface.text
        found.append(surface if usable else None)
    return found


def transferred(old: Tensor, fresh: Tensor, sources: Sequence[tuple[int, ...]]) -> Tensor:
    """Rows of a new table, in float32.

    Args:
        old: [old rows, ...].
        fresh: [new rows, ...] as initialised; rows without a source, and padding, stay as they are.
        sources: for each new row the old ones whose mean it becomes.
    """
    rows = torch.tensor(
        [number for number, source in enumerate(sources) for _ in source], dtype=torch.long, device=old.device
    )
    taken = torch.tensor([i for source in sources for i in source], dtype=torch.long, device=old.device)
    sums = torch.zeros_like(fresh, dtype=torch.float32).index_add_(0, rows, old.float()[taken])
    counts = torch.bincount(rows, minlength=len(fresh)).view(-1, *[1] * (fresh.ndim - 1))
    return torch.where(counts > 0, sums / counts.clamp(min=1), fresh.float())


def take_over(
    model: PretrainingModel, loaded: Mapping[str, Tensor], init: Path, vocabulary: Path | None
) -> Transfer | None:
    """Put the weights of a loaded model into a fresh one, which may have another vocabulary, or other padding.

    Args:
        model: fresh, for the vocabulary of the run's tokens.
        loaded: weights read from `init`; parts that it lacks stay fresh.
        init: its folder, with its tokenizer.
        vocabulary: folder of the vocabulary of the run's tokens; None where it is known to be the same.

    Returns:
        What was transferred; None where the vocabulary is the same.
    """
    state = dict(loaded)
    fresh = model.state_dict()
    transfer = None
    if vocabulary is not None:
        old, new = load_vocabulary(init), load_vocabulary(vocabulary)
        if old.mark.digest != new.mark.digest:
            transfer = plan_transfer(old, new)
            say(
                f"{init} has another vocabulary: {transfer.copied:,} of {new.mark.size:,} pieces are in both, "
                f"{transfer.averaged:,} begin at the mean of their old pieces, {transfer.fresh:,} afresh."
            )
    for name in (WORDS, BIAS):
        if name not in state or name not in fresh:
            continue
        if transfer is not None:
            state[name] = transferred(state[name], fresh[name], transfer.sources)
        elif state[name].shape != fresh[name].shape:  # rows of padding
            rows = min(len(state[name]), len(fresh[name]))
            state[name] = torch.cat([state[name][:rows], fresh[name][rows:]])
    model.load_state_dict(state, strict=False)
    return transfer
