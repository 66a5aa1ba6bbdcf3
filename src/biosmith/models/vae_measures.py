"""What is measured of a latent-variable language model, as OPTIMUS reports it (Li et al., 2020, section 4.1 and Table 1).

All in nats. Sums over many sentences are taken in float64, likelihoods stay in the logarithm until the very end, and every
sentence counts once: the original averages over full batches and encodes padding in some of its measures.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from biosmith.models.vae import Posterior

ACTIVE = 0.01  # Burda et al. (2016), section 5: variance of a unit's mean above which it is active


def log_normal(z: Tensor, mean: Tensor, log_variance: Tensor) -> Tensor:
    """Log-density of independent Gaussians, summed over the last dimension."""
    deviation = (z - mean).square() / log_variance.exp()
    return -0.5 * (math.log(2 * math.pi) + log_variance + deviation).sum(-1)


def importance_weighted_bound(
    log_likelihood: Callable[[Tensor], Tensor], posterior: Posterior, noise_KNZ: Tensor
) -> tuple[Tensor, Tensor]:
    """A lower bound of log p(x), [N], that grows tighter with K samples (Burda et al., 2016), and the mean of log p(x|z).

    log p(x) >= log 1/K sum_k p(x|z_k) p(z_k) / q(z_k|x), with z_k from q(z|x); one sample gives an estimate of the ELBO.

    Args:
        log_likelihood: z [N, Z] -> log p(x|z) [N].
        posterior: q(z|x) of N sentences.
        noise_KNZ: standard normal draws.
    """
    weights, likelihoods = [], []
    zero = torch.zeros_like(posterior.mean_NZ)
    for noise_NZ in noise_KNZ:
        z = posterior.sample(noise_NZ)
        likelihood = log_likelihood(z).double()
        prior = log_normal(z, zero, zero).double()
        proposal = log_normal(z, posterior.mean_NZ, posterior.log_variance_NZ).double()
        weights.append(likelihood + prior - proposal)
        likelihoods.append(likelihood)
    bound = torch.logsumexp(torch.stack(weights), dim=0) - math.log(len(weights))
    return bound, torch.stack(likelihoods).mean(0)


def active_units(mean_NZ: Tensor, threshold: float = ACTIVE) -> int:
    """Dimensions whose mean varies from sentence to sentence: Var_x(E[z|x]) > threshold (Burda et al., 2016).

    Divided by N - 1, as in the original code.
    """
    if mean_NZ.shape[0] < 2:
        return 0
    return int((mean_NZ.double().var(dim=0) > threshold).sum())


def mutual_information(posterior: Posterior, noise_NZ: Tensor, block: int = 64) -> float:
    """Estimate of I(x, z) under q: E[log q(z|x) - log q(z)], q(z) being the mean of q(z|x) over the N sentences (Hoffman and
    Johnson, 2016; He et al., 2019). No sample of N sentences can show more than log N.

    Both terms take the same draw, one a sentence. OPTIMUS takes the exact entropy for the first, whose difference to the draw
    of the second then is noise: half a nat with 768 dimensions and 1,000 sentences, and below zero where z says nothing.
    """
    mean, log_variance = posterior.mean_NZ.double(), posterior.log_variance_NZ.double()
    count = mean.shape[0]
    z = mean + noise_NZ.double() * (0.5 * log_variance).exp()
    total = log_normal(z, mean, log_variance).sum()
    for start in range(0, count, block):
        # [block, N]: each draw under each sentence's posterior.
        densities = log_normal(z[start : start + block, None], mean[None], log_variance[None])
        total = total - (torch.logsumexp(densities, dim=1) - math.log(count)).sum()
    return float(total / count)


def perplexity(total_log_likelihood: float, tokens: int) -> float:
    """exp(-log-likelihood a token); infinite rather than an overflow where a model is hopeless."""
    nats = -total_log_likelihood / max(1, tokens)
    return math.exp(nats) if nats < 700 else math.inf


def collapse_warning(active: int, latent_size: int, information: float) -> str | None:
    """What to say of a posterior that has collapsed onto the prior, None if it has not.

    Collapsed: fewer than a tenth of the units are active, or z tells less than 0.1 nats about the sentence.
    """
    if active >= max(1, 0.1 * latent_size) and information >= 0.1:
        return None
    return (
        f"the posterior has collapsed: {active} of {latent_size} latent units are active and z carries {information:.2f} "
        "nats about the sentence, so the decoder ignores it. Lower objective.beta, raise objective.free_bits, or give beta "
        "more steps at zero (objective.ratio_zero)."
    )
