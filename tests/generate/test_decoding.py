"""Decoding strategies beside plain searches over the whole model."""

from __future__ import annotations

import functools
import itertools
import math

import pytest
import torch

from biosmith.errors import UsageError
from biosmith.generate.decoding import Decoding, Strategy, Written, decode
from biosmith.models.vae import VariationalAutoencoder
from biosmith.models.vae_folder import LoadedVae


@pytest.fixture
def z() -> torch.Tensor:
    return torch.randn(5, 8, generator=torch.Generator().manual_seed(2)) * 2


def next_probabilities(model: VariationalAutoencoder, pieces: list[int], z: torch.Tensor) -> torch.Tensor:
    """Of the piece after these, without a cache; padding and the beginning are forbidden."""
    config = model.config.decoder
    with torch.no_grad():
        hidden = model.decoder(torch.tensor([[config.begin_id, *pieces]]), model.inject(z))
        logits = model.decoder.logits(hidden)[0, -1]
    probabilities = logits.softmax(-1)
    probabilities[[config.pad_id, config.begin_id]] = 0
    return probabilities


def test_greedy_takes_the_likeliest_piece_each_time(vae: LoadedVae, z: torch.Tensor) -> None:
    end = vae.model.config.decoder.end_id
    for number, written in enumerate(decode(vae.model, z, Decoding(most_pieces=6))):
        pieces: list[int] = []
        while len(pieces) < 6:
            piece = int(next_probabilities(vae.model, pieces, z[number : number + 1]).argmax())
            if piece == end:
                break
            pieces.append(piece)
        assert list(written.pieces) == pieces


def test_a_wide_beam_finds_the_likeliest_sentence_of_all(vae: LoadedVae, z: torch.Tensor) -> None:
    # With as many beams as there are prefixes the search is complete: compare with all sentences of at most two pieces.
    model, end = vae.model, vae.model.config.decoder.end_id
    found = decode(model, z[:2], Decoding("beam", beams=700, most_pieces=2, length_penalty=0.0))
    size = model.config.decoder.vocabulary_size
    forbidden = {end, model.config.decoder.pad_id, model.config.decoder.begin_id}
    allowed = [piece for piece in range(size) if piece not in forbidden]
    for number, written in enumerate(found):

        @functools.cache
        def after(pieces: tuple[int, ...], number: int = number) -> list[float]:
            return next_probabilities(model, list(pieces), z[number : number + 1]).log().tolist()

        best, best_pieces = -math.inf, ()
        for pieces in itertools.chain([()], ((a,) for a in allowed), itertools.product(allowed, repeat=2)):
            if len(pieces) == 2 and after(())[pieces[0]] + after(pieces[:1])[pieces[1]] < best:
                continue  # no sentence that begins so can be better
            score = sum(after(pieces[:place])[piece] for place, piece in enumerate([*pieces, end]))
            if score > best:
                best, best_pieces = score, pieces
        assert written.pieces == best_pieces
        assert written.log_likelihood == pytest.approx(best, abs=1e-3)
        assert written.ended


def test_one_beam_is_greedy(vae: LoadedVae, z: torch.Tensor) -> None:
    one = decode(vae.model, z, Decoding("beam", beams=1, most_pieces=8))
    assert [w.pieces for w in one if w.ended] == [
        g.pieces for g, w in zip(decode(vae.model, z, Decoding(most_pieces=8)), one, strict=True) if w.ended
    ]


@pytest.mark.parametrize("how", [Decoding("top-k", top_k=1), Decoding("nucleus", top_p=1e-6)])
def test_drawing_from_one_piece_is_greedy(vae: LoadedVae, z: torch.Tensor, how: Decoding) -> None:
    assert decode(vae.model, z, how) == decode(vae.model, z, Decoding())


@pytest.mark.parametrize("strategy", ["top-k", "nucleus"])
def test_a_seed_writes_the_same_whatever_the_batch(vae: LoadedVae, z: torch.Tensor, strategy: str) -> None:
    how = Decoding(strategy, seed=5, most_pieces=10)  # type: ignore[arg-type]
    together = decode(vae.model, z, how)
    assert together == decode(vae.model, z, how)
    assert pieces_of(decode(vae.model, z[:2], how)) == pieces_of(together[:2])
    others = [decode(vae.model, z, Decoding(strategy, seed=s, most_pieces=10)) for s in (6, 7, 8)]  # type: ignore[arg-type]
    assert any(pieces_of(other) != pieces_of(together) for other in others)


def pieces_of(written: list[Written]) -> list[tuple[int, ...]]:
    return [item.pieces for item in written]


def test_draws_follow_the_probabilities_of_the_kept_pieces(vae: LoadedVae, z: torch.Tensor) -> None:
    # 600 first pieces from the three likeliest: shares within four standard deviations.
    many = z[:1].repeat(600, 1)
    first = [w.pieces[:1] for w in decode(vae.model, many, Decoding("top-k", top_k=3, most_pieces=1, seed=1))]
    top = next_probabilities(vae.model, [], z[:1]).topk(3)
    shares = (top.values / top.values.sum()).tolist()
    for piece, share in zip(top.indices.tolist(), shares, strict=True):
        wanted = () if piece == vae.model.config.decoder.end_id else (piece,)
        found = sum(f == wanted for f in first) / 600
        assert abs(found - share) < 4 * math.sqrt(share * (1 - share) / 600) + 1e-3


@pytest.mark.parametrize("most", [1, 3, 30])
@pytest.mark.parametrize("strategy", ["greedy", "beam", "top-k", "nucleus"])
def test_the_log_likelihood_is_that_of_the_model(
    vae: LoadedVae, z: torch.Tensor, strategy: str, most: int
) -> None:
    """Of the pieces that were written, and of the end only where it came; padding and beginning take their share."""
    config = vae.model.config.decoder
    for number, written in enumerate(decode(vae.model, z, Decoding(strategy, beams=3, most_pieces=most))):  # type: ignore[arg-type]
        assert len(written.pieces) <= most
        ids = torch.tensor([[config.begin_id, *written.pieces]])
        labels = torch.tensor([[*written.pieces, config.end_id if written.ended else -100]])
        with torch.no_grad():
            expected = vae.model.log_likelihood(ids, labels, z[number : number + 1]).item()
        assert written.log_likelihood == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"strategy": "best"}, "valid: greedy, beam, top-k, nucleus"),
        ({"beams": 0}, "beams must be at least 1"),
        ({"top_p": 0.0}, "top_p must lie in"),
        ({"temperature": 0.0}, "temperature must be above 0"),
        ({"seed": 2**64}, "seed must be a number of 64 bits"),
        ({"temperature": math.inf}, "temperature must be above 0 and finite"),
        ({"temperature": math.nan}, "temperature must be above 0 and finite"),
    ],
)
def test_impossible_settings_are_named(arguments: dict[str, object], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        Decoding(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("strategy", ["top-k", "nucleus"])
def test_a_temperature_near_zero_is_greedy(vae: LoadedVae, z: torch.Tensor, strategy: Strategy) -> None:
    """So small that every logit but the likeliest piece's becomes minus infinity."""
    assert decode(vae.model, z, Decoding(strategy, temperature=1e-39)) == decode(vae.model, z, Decoding())
