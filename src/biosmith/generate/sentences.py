"""What a latent-variable model writes: reconstructions, interpolations, samples of the prior, analogies."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from biosmith.errors import BadInput, UsageError
from biosmith.generate.decoding import Decoding, Written, decode
from biosmith.generate.scores import bleu, distinct, edit_distance, self_bleu, sentence_bleu
from biosmith.models.vae_folder import LoadedVae
from biosmith.models.vae_measures import perplexity
from biosmith.models.vae_scoring import encode_sentences, log_likelihoods, score_sentences
from biosmith.rejects import Rejects

Way = Literal["linear", "spherical"]


@dataclass(frozen=True)
class Reconstruction:
    """A sentence and what came back.

    Attributes:
        text, written: the sentence, and what the model wrote from its latent vector.
        perplexity: exp(-log p(text|z) / tokens), the end of the sentence being a token: 1 where the model is sure of every
            word. So Table 1 of BioVAE's supplement must be meant, which gives the input itself 1.000.
        edit_distance: in words, between the two.
        bleu: of `written` against `text`.
        ended: whether the model came to an end by itself.
    """

    text: str
    written: str
    perplexity: float
    edit_distance: int
    bleu: float
    ended: bool


@dataclass(frozen=True)
class Step:
    """A sentence on the way from one to another: `place` is 0 at the first, 1 at the second."""

    place: float
    written: str
    perplexity: float


def readable(vae: LoadedVae, texts: Sequence[str], rejects: Rejects | None = None) -> list[str]:
    """The sentences that the model can take, each on one line; the others are set aside.

    Args:
        vae: the model; sentences longer than it was trained with are over-long.
        texts: any.
        rejects: where the others go; None raises at the first.

    Raises:
        BadInput: no sentence is left, or `rejects` is None and one is empty or over-long.
    """
    rejects = rejects or Rejects(strict=True)
    longest = longest_sentence(vae)
    lines = [" ".join(text.split()) for text in texts]
    kept = []
    for number, (line, read, written) in enumerate(
        zip(lines, vae.read(lines), vae.write(lines), strict=True), start=1
    ):
        size = max(len(read), len(written) + 1)
        if not line or len(read) <= 2 or not written:
            rejects.add(
                "sentences", f"number {number}", "is empty, or has no piece of the model's vocabulary", line
            )
        elif size > longest:
            reason = f"is over-long: {size} tokens, the model takes {longest}"
            rejects.add("sentences", f"number {number}", reason, line)
        else:
            kept.append(line)
    if not kept:
        why = f"; {rejects.items[0]['record']} {rejects.items[0]['reason']}" if rejects.items else ""
        raise BadInput("sentences", f"there is none that the model can take{why}")
    return kept


def longest_sentence(vae: LoadedVae) -> int:
    """Most tokens of a sentence with its special ones: what the model was trained with, where its folder says so."""
    config = vae.model.config
    return min(config.encoder.positions, config.decoder.positions - 1, int(vae.config.get("length", 10**9)))


def write(vae: LoadedVae, z_NZ: Tensor, how: Decoding | None = None) -> list[Written]:
    """One sentence for each latent vector, none longer than the model has learnt to write."""
    how = how or Decoding()
    most = min(how.most_pieces, max(1, longest_sentence(vae) - 1))
    return decode(vae.model, z_NZ, dataclasses.replace(how, most_pieces=most))


def encode(vae: LoadedVae, texts: Sequence[str], *, seed: int | None = None) -> Tensor:
    """Latent vectors [N, Z] of sentences: the mean of q(z|x), or with a seed a draw from it."""
    posterior = encode_sentences(vae.model, vae.read(texts))
    if seed is None:
        return posterior.mean_NZ
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(tuple(posterior.mean_NZ.shape), generator=generator)
    return posterior.sample(noise.to(posterior.mean_NZ.device))


def reconstruct(
    vae: LoadedVae, texts: Sequence[str], how: Decoding | None = None, *, draw: bool = False
) -> list[Reconstruction]:
    """Sentences through the latent space and back; `draw` takes a draw from q(z|x) instead of its mean."""
    how = how or Decoding()
    z = encode(vae, texts, seed=how.seed if draw else None)
    pieces = vae.write(texts)
    likelihoods = log_likelihoods(vae.model, pieces, z).tolist()
    found = []
    for text, ids, likelihood, written in zip(texts, pieces, likelihoods, write(vae, z, how), strict=True):
        back = vae.text(written.pieces)
        # What the tokenizer makes of the text itself: an uncased vocabulary cannot give capital letters back.
        plain = vae.text(ids)
        found.append(
            Reconstruction(
                text,
                back,
                perplexity(likelihood, len(ids) + 1),
                edit_distance(back, plain),
                sentence_bleu(back, plain),
                written.ended,
            )
        )
    return found


def summarise_reconstructions(vae: LoadedVae, found: Sequence[Reconstruction]) -> dict[str, Any]:
    """Scores over all of them: BLEU, self-BLEU, distinct-n, edit distance, share that is exact, and the model's own."""
    texts = [vae.text(ids) for ids in vae.write([item.text for item in found])]
    written = [item.written for item in found]
    inputs = [item.text for item in found]
    scores = score_sentences(vae.model, vae.read(inputs), vae.write(inputs), samples=1).as_dict()
    own = {key: scores[key] for key in ("negative_elbo", "reconstruction", "kl", "reconstruction_perplexity")}
    return {
        "bleu": bleu(written, texts),
        "edit_distance": sum(item.edit_distance for item in found) / len(found),
        "exact": sum(item.edit_distance == 0 for item in found) / len(found),
        **variety(written),
        **own,
    }


def variety(written: Sequence[str]) -> dict[str, Any]:
    """How different sentences are from each other."""
    return {
        "self_bleu": self_bleu(written),
        "distinct_1": distinct(written, 1),
        "distinct_2": distinct(written, 2),
    }


def between(one: Tensor, other: Tensor, steps: int, way: Way = "linear") -> tuple[list[float], Tensor]:
    """`steps` latent vectors from one to the other, both included, and their places in [0, 1].

    "spherical" keeps to the arc between them (Shoemake, 1985; White, 2016): draws of a Gaussian of many dimensions have
    nearly one length, which a straight line leaves. Vectors of one direction are joined by the line.

    Raises:
        UsageError: fewer than two steps, or an unknown way.
    """
    if steps < 2:
        raise UsageError(f"an interpolation has at least 2 steps, not {steps}")
    if way not in ("linear", "spherical"):
        raise UsageError(f"way {way!r} is unknown; valid: linear, spherical")
    places = torch.linspace(0, 1, steps, dtype=torch.float64)
    a, b = one.double(), other.double()
    angle = torch.acos(((a @ b) / (a.norm() * b.norm()).clamp(min=1e-12)).clamp(-1, 1))
    t = places[:, None].to(a.device)
    if way == "linear" or torch.sin(angle) < 1e-6:
        path = (1 - t) * a + t * b
    else:
        path = (torch.sin((1 - t) * angle) * a + torch.sin(t * angle) * b) / torch.sin(angle)
    return places.tolist(), path.to(one.dtype)


def interpolate(
    vae: LoadedVae, one: str, other: str, steps: int = 7, way: Way = "linear", how: Decoding | None = None
) -> list[Step]:
    """Sentences on the way from one to another."""
    z = encode(vae, [one, other])
    places, path = between(z[0], z[1], steps, way)
    return [
        Step(place, *_told(vae, written))
        for place, written in zip(places, write(vae, path, how), strict=True)
    ]


def sample(vae: LoadedVae, count: int, how: Decoding | None = None) -> list[Step]:
    """Sentences of latent vectors drawn from the prior; `place` is 0."""
    if count < 1:
        raise UsageError(f"count must be at least 1, not {count}")
    how = how or Decoding()
    generator = torch.Generator().manual_seed(how.seed)
    z = torch.randn((count, vae.model.config.latent_size), generator=generator)
    z = z.to(next(vae.model.parameters()).device)
    return [Step(0.0, *_told(vae, written)) for written in write(vae, z, how)]


def analogy(vae: LoadedVae, a: str, b: str, c: str, how: Decoding | None = None) -> Step:
    """The sentence that is to `c` as `b` is to `a`: z = z_b - z_a + z_c (OPTIMUS, section 4.2)."""
    z = encode(vae, [a, b, c])
    written = write(vae, (z[1] - z[0] + z[2])[None], how)[0]
    return Step(1.0, *_told(vae, written))


def _told(vae: LoadedVae, written: Written) -> tuple[str, float]:
    """Its text, and its perplexity given the latent vector."""
    return vae.text(written.pieces), perplexity(
        written.log_likelihood, len(written.pieces) + int(written.ended)
    )
