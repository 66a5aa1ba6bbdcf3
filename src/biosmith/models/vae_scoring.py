"""Scores of a latent-variable model on held-out sentences."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from biosmith.models.vae import Posterior, VariationalAutoencoder
from biosmith.models.vae_measures import (
    active_units,
    importance_weighted_bound,
    mutual_information,
    perplexity,
)


@dataclass(frozen=True)
class VaeScores:
    """Means over sentences, in nats, as OPTIMUS reports them (Li et al., 2020, Table 1).

    Attributes:
        sentences, tokens: scored; the end of a sentence is a token.
        negative_elbo: reconstruction + kl.
        reconstruction: -E_q[log p(x|z)].
        kl: KL(q(z|x) || p(z)), in closed form.
        negative_log_likelihood: minus the importance-weighted bound.
        perplexity: by that bound, a token.
        reconstruction_perplexity: exp(reconstruction a token).
        active_units: of the latent dimensions; None for a decoder conditioned on nothing.
        mutual_information: between sentence and latent vector under q.
        samples: of the importance-weighted bound.
    """

    sentences: int
    tokens: int
    negative_elbo: float
    reconstruction: float
    kl: float
    negative_log_likelihood: float
    perplexity: float
    reconstruction_perplexity: float
    active_units: int | None
    mutual_information: float | None
    samples: int

    def as_dict(self) -> dict[str, Any]:
        """By name."""
        return dataclasses.asdict(self)


def padded(rows: Sequence[Sequence[int]], fill: int, device: torch.device) -> Tensor:
    """Rows of numbers padded on the right, [B, L]."""
    width = max((len(row) for row in rows), default=0)
    return torch.tensor([[*row, *[fill] * (width - len(row))] for row in rows], device=device)


def encode_sentences(
    model: VariationalAutoencoder, read: Sequence[Sequence[int]], batch_tokens: int = 16_384
) -> Posterior:
    """q(z|x) of sentences as the encoder takes them (special tokens included), in their order."""
    device = next(model.parameters()).device
    order = sorted(range(len(read)), key=lambda i: len(read[i]))
    means, log_variances = [], []
    with torch.no_grad():
        for chosen in _batches(order, [len(ids) for ids in read], batch_tokens):
            rows = [read[i] for i in chosen]
            ids_BL = padded(rows, model.config.encoder.pad_id, device)
            lengths = torch.tensor([len(row) for row in rows], device=device)
            mask_BL = torch.arange(ids_BL.shape[1], device=device) < lengths[:, None]
            found = model.encode(ids_BL, None if mask_BL.all() else mask_BL)
            means.append(found.mean_NZ)
            log_variances.append(found.log_variance_NZ)
    back = torch.tensor(sorted(range(len(order)), key=order.__getitem__), device=device)
    return Posterior(torch.cat(means)[back], torch.cat(log_variances)[back])


def _batches(order: Sequence[int], lengths: Sequence[int], tokens: int) -> list[list[int]]:
    """Numbers in order, in batches of at most so many tokens when padded."""
    batches: list[list[int]] = []
    for number in order:
        if batches and (len(batches[-1]) + 1) * lengths[number] <= tokens:
            batches[-1].append(number)
        else:
            batches.append([number])
    return batches


def log_likelihoods(
    model: VariationalAutoencoder,
    written: Sequence[Sequence[int]],
    z: Tensor | None,
    batch_tokens: int = 8_192,
) -> Tensor:
    """log p(x|z) of each sentence (decoder's pieces, without special tokens), float64 on the CPU."""
    device, config = next(model.parameters()).device, model.config.decoder
    order = sorted(range(len(written)), key=lambda i: len(written[i]))
    found = torch.zeros(len(written), dtype=torch.float64)
    with torch.no_grad():
        for chosen in _batches(order, [len(ids) + 1 for ids in written], batch_tokens):
            rows = [written[i] for i in chosen]
            ids = padded([[config.begin_id, *row] for row in rows], config.pad_id, device)
            labels = padded([[*row, config.end_id] for row in rows], -100, device)
            given = None if z is None else z[torch.tensor(chosen, device=z.device)]
            found[torch.tensor(chosen)] = model.log_likelihood(ids, labels, given).double().cpu()
    return found


def score_sentences(
    model: VariationalAutoencoder,
    read: Sequence[Sequence[int]],
    written: Sequence[Sequence[int]],
    *,
    samples: int = 1,
    seed: int = 0,
) -> VaeScores:
    """Score sentences; the same seed gives the same scores whatever the batches.

    Args:
        model: put into evaluation mode, and back.
        read: as the encoder takes them, special tokens included.
        written: the decoder's pieces, without.
        samples: of the importance-weighted bound; the reconstruction is their mean.
        seed: of the noise.
    """
    was_training = model.training
    model.eval()
    try:
        return _score(model, read, written, samples, seed)
    finally:
        model.train(was_training)


def _score(
    model: VariationalAutoencoder,
    read: Sequence[Sequence[int]],
    written: Sequence[Sequence[int]],
    samples: int,
    seed: int,
) -> VaeScores:
    count, tokens = len(written), sum(len(ids) + 1 for ids in written)
    if not model.config.is_conditioned:
        loss = -float(log_likelihoods(model, written, None).sum())
        a_token = perplexity(-loss, tokens)
        mean = loss / count
        return VaeScores(count, tokens, mean, mean, 0.0, mean, a_token, a_token, None, None, 0)
    posterior = encode_sentences(model, read)
    generator = torch.Generator().manual_seed(seed)
    device = posterior.mean_NZ.device
    shape = (count, model.config.latent_size)
    noise = torch.stack([torch.randn(shape, generator=generator) for _ in range(samples)]).to(device)
    bound, likelihood = importance_weighted_bound(
        lambda z: log_likelihoods(model, written, z).to(device), posterior, noise
    )
    kl = float(posterior.divergence().double().sum())
    reconstruction = -float(likelihood.sum())
    return VaeScores(
        sentences=count,
        tokens=tokens,
        negative_elbo=(reconstruction + kl) / count,
        reconstruction=reconstruction / count,
        kl=kl / count,
        negative_log_likelihood=-float(bound.sum()) / count,
        perplexity=perplexity(float(bound.sum()), tokens),
        reconstruction_perplexity=perplexity(-reconstruction, tokens),
        active_units=active_units(posterior.mean_NZ),
        mutual_information=mutual_information(posterior, torch.randn(shape, generator=generator).to(device)),
        samples=samples,
    )
