"""Latent vectors to pieces, token by token with a cache: greedy, beam, top-k, nucleus.

Every draw is a function of (seed, number of the sentence, step), so the same call writes the same sentences, whatever the
size of the batches.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from biosmith.errors import UsageError
from biosmith.models.memory_attention import CachedAttention
from biosmith.models.vae import VariationalAutoencoder
from biosmith.randomness import derive_key, uniform

Strategy = Literal["greedy", "beam", "top-k", "nucleus"]
SENTENCES_AT_ONCE = 64


@dataclass(frozen=True)
class Decoding:
    """How a sentence is written.

    Attributes:
        strategy: "greedy" takes the likeliest piece, "beam" the likeliest of `beams` sentences kept in sight, "top-k"
            draws from the `top_k` likeliest pieces (Fan et al., 2018), "nucleus" from the fewest pieces that have the
            probability `top_p` together (Holtzman et al., 2020).
        temperature: divides the logits before a draw.
        length_penalty: of beams: log-likelihood / length ** penalty.
        most_pieces: a sentence that has not ended by then is cut.
        seed: of the draws.
    """

    strategy: Strategy = "greedy"
    beams: int = 4
    top_k: int = 40
    top_p: float = 0.9
    temperature: float = 1.0
    length_penalty: float = 1.0
    most_pieces: int = 128
    seed: int = 0

    def __post_init__(self) -> None:
        if self.strategy not in ("greedy", "beam", "top-k", "nucleus"):
            raise UsageError(f"strategy {self.strategy!r} is unknown; valid: greedy, beam, top-k, nucleus")
        for name in ("beams", "top_k", "most_pieces"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 1, not {getattr(self, name)}")
        if not 0 < self.top_p <= 1:
            raise UsageError(f"top_p must lie in (0, 1], not {self.top_p}")
        if not -(2**63) <= self.seed < 2**64:
            raise UsageError(f"seed must be a number of 64 bits, not {self.seed}")
        if not 0 < self.temperature < math.inf:
            raise UsageError(
                f"temperature must be above 0 and finite, not {self.temperature}; "
                "strategy greedy always takes the likeliest piece"
            )


@dataclass(frozen=True)
class Written:
    """A sentence: its pieces without special tokens, log p(x|z) under the model as it is, and whether it came to an end."""

    pieces: tuple[int, ...]
    log_likelihood: float
    ended: bool


@dataclass
class _Row:
    pieces: list[int] = field(default_factory=list)
    log_likelihood: float = 0.0
    ended: bool = False

    def done(self) -> Written:
        return Written(tuple(self.pieces), self.log_likelihood, self.ended)


def decode(model: VariationalAutoencoder, z_NZ: Tensor, how: Decoding) -> list[Written]:
    """Write one sentence for each latent vector, in evaluation mode."""
    model.eval()
    most = min(how.most_pieces, model.config.decoder.positions - model.first_position() - 1)
    write = _beams if how.strategy == "beam" else _one_by_one
    found: list[Written] = []
    with torch.no_grad():
        for start in range(0, len(z_NZ), SENTENCES_AT_ONCE):
            found += write(model, z_NZ[start : start + SENTENCES_AT_ONCE], how, most, start)
    return found


def _one_by_one(
    model: VariationalAutoencoder, z_BZ: Tensor, how: Decoding, most: int, first: int
) -> list[Written]:
    config = model.config.decoder
    z, cache = model.inject(z_BZ), CachedAttention()
    rows = [_Row() for _ in range(len(z_BZ))]
    choose = _chooser(how, first)
    ids_B = torch.full((len(z_BZ),), config.begin_id, device=z_BZ.device)
    for step in range(most + 1):
        likelihood_BV = _next_likelihoods(model, ids_B, cache, z)
        chosen_B = choose(likelihood_BV, step)
        likelihood_B = likelihood_BV.gather(1, chosen_B[:, None])[:, 0].tolist()
        for row, piece, likelihood in zip(rows, chosen_B.tolist(), likelihood_B, strict=True):
            if row.ended:
                continue
            if piece == config.end_id:
                row.ended = True
                row.log_likelihood += likelihood
            elif step < most:
                row.pieces.append(piece)
                row.log_likelihood += likelihood
        if all(row.ended for row in rows):
            break
        ids_B = chosen_B
    return [row.done() for row in rows]


def _next_likelihoods(
    model: VariationalAutoencoder, ids_B: Tensor, cache: CachedAttention, z: object
) -> Tensor:
    """Log-likelihoods [B, V] of the next piece, float32; padding and the beginning are never written."""
    config = model.config.decoder
    hidden = model.decoder.forward_cached(ids_B[:, None], cache, z)  # type: ignore[arg-type]
    likelihood_BV = model.decoder.logits(hidden)[:, -1].float().log_softmax(-1)
    forbidden = [n for n in {config.pad_id, config.begin_id} if n != config.end_id]
    likelihood_BV[:, forbidden] = -torch.inf
    return likelihood_BV


def _chooser(how: Decoding, first: int) -> Callable[[Tensor, int], Tensor]:
    """A function (logits [B, V], step) -> pieces [B]; `first` is the number of the batch's first sentence."""
    if how.strategy == "greedy":
        return lambda logits, step: logits.argmax(-1)
    from transformers import TopKLogitsWarper, TopPLogitsWarper

    warp = TopKLogitsWarper(how.top_k) if how.strategy == "top-k" else TopPLogitsWarper(how.top_p)

    def choose(logits_BV: Tensor, step: int) -> Tensor:
        # The likeliest piece gets 0, so that a temperature near 0 leaves it alone instead of nothing.
        logits_BV = logits_BV.double() - logits_BV.double().amax(-1, keepdim=True)
        kept = warp(None, logits_BV / how.temperature)
        cumulative = kept.double().softmax(-1).cumsum(-1)
        keys = (derive_key(how.seed, "decoding", first + row) for row in range(len(logits_BV)))
        draws = torch.tensor(
            [[uniform(key, np.array([step]))[0]] for key in keys],
            dtype=torch.float64,
            device=logits_BV.device,
        )
        # Scaled by the sum, which rounding may leave a little below 1: a draw then never falls behind the last piece.
        return torch.searchsorted(cumulative, draws * cumulative[:, -1:], right=True)[:, 0]

    return choose


@dataclass
class _Beam:
    """What one sentence's search holds."""

    pieces: list[list[int]]
    scores: list[float]
    finished: list[tuple[float, Written]] = field(default_factory=list)

    def finish(self, pieces: list[int], score: float, how: Decoding, *, ended: bool) -> None:
        """Keep a whole sentence if it is among the best."""
        worth = score / (len(pieces) + 1) ** how.length_penalty
        self.finished.append((worth, Written(tuple(pieces), score, ended)))
        self.finished = sorted(self.finished, key=lambda item: -item[0])[: how.beams]

    def is_over(self, how: Decoding) -> bool:
        """Whether no unfinished sentence is worth more as it stands. Its score only falls; with a penalty it might still
        win by its length, which the search does not wait for."""
        if len(self.finished) < how.beams:
            return False
        best = max(self.scores) / (max(map(len, self.pieces)) + 1) ** how.length_penalty
        return self.finished[-1][0] >= best


def _beams(
    model: VariationalAutoencoder, z_BZ: Tensor, how: Decoding, most: int, first: int
) -> list[Written]:
    config, width, count = model.config.decoder, how.beams, len(z_BZ)
    z, cache = model.inject(z_BZ.repeat_interleave(width, 0)), CachedAttention()
    # The first step has one beam only: the others would be copies of it.
    searches = [
        _Beam([[] for _ in range(width)], [0.0] + [-float("inf")] * (width - 1)) for _ in range(count)
    ]
    ids = torch.full((count * width,), config.begin_id, device=z_BZ.device)
    for step in range(most + 1):
        likelihoods = _next_likelihoods(model, ids, cache, z)
        scores = torch.tensor([s for search in searches for s in search.scores], device=likelihoods.device)
        total = (likelihoods + scores[:, None]).unflatten(0, (count, width)).flatten(1)
        best, places = total.topk(min(2 * width, total.shape[1]), dim=1)
        rows: list[int] = []
        pieces: list[int] = []
        for number, search in enumerate(searches):
            chosen = zip(best[number].tolist(), places[number].tolist(), strict=True)
            kept = _advance(search, list(chosen), likelihoods.shape[1], config.end_id, how, step == most)
            rows += [number * width + beam for beam, _ in kept]
            pieces += [piece for _, piece in kept]
        if step == most or all(search.is_over(how) for search in searches):
            break
        cache.select(torch.tensor(rows, device=z_BZ.device))
        ids = torch.tensor(pieces, device=z_BZ.device)
    for search in searches:
        if not search.finished:
            for beam, score in zip(search.pieces, search.scores, strict=True):
                search.finish(beam, score, how, ended=False)
    return [search.finished[0][1] for search in searches]


def _advance(
    search: _Beam, chosen: list[tuple[float, int]], vocabulary: int, end_id: int, how: Decoding, last: bool
) -> list[tuple[int, int]]:
    """Put the best continuations (score, place) into a search; (beam, piece) of those that go on. In the last step
    sentences end or stay as they are."""
    kept: list[tuple[int, int]] = []
    pieces, scores = [], []
    for rank, (score, place) in enumerate(chosen):
        beam, piece = divmod(place, vocabulary)
        if piece == end_id:
            if rank < how.beams and score > -float("inf"):
                search.finish(search.pieces[beam], score, how, ended=True)
        elif len(kept) < how.beams:
            kept.append((beam, piece))
            pieces.append([*search.pieces[beam], piece])
            scores.append(score)
    if not last:
        search.pieces, search.scores = pieces, scores
    return kept
