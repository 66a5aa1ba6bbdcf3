"""KL, evidence lower bound, importance-weighted bound, active units and mutual information beside what they must be."""

from __future__ import annotations

import math

import pytest
import torch
from torch.distributions import Independent, MultivariateNormal, Normal, kl_divergence

from biosmith.models.vae import Posterior
from biosmith.models.vae_measures import (
    active_units,
    collapse_warning,
    importance_weighted_bound,
    log_normal,
    mutual_information,
    perplexity,
)


@pytest.fixture
def posterior() -> Posterior:
    torch.manual_seed(0)
    return Posterior(torch.randn(6, 4).double(), torch.randn(6, 4).double())


def test_the_divergence_is_that_of_torch_distributions(posterior: Posterior) -> None:
    q = Normal(posterior.mean_NZ, (0.5 * posterior.log_variance_NZ).exp())
    expected = kl_divergence(q, Normal(torch.zeros(6, 4).double(), torch.ones(6, 4).double()))
    torch.testing.assert_close(posterior.divergence(), expected)


def test_the_divergence_is_the_mean_log_ratio_of_many_draws(posterior: Posterior) -> None:
    # KL = E_q[log q(z) - log p(z)]; 200,000 draws leave an error of a few thousandths.
    one = Posterior(posterior.mean_NZ[:1], posterior.log_variance_NZ[:1])
    z = one.sample(torch.randn(200_000, 4, generator=torch.Generator().manual_seed(1)).double())
    zero = torch.zeros(4).double()
    ratio = log_normal(z, one.mean_NZ, one.log_variance_NZ) - log_normal(z, zero, zero)
    assert abs(float(ratio.mean()) - float(one.divergence().sum())) < 0.03


class LinearGaussian:
    """x = W z + noise with z from N(0, I): log p(x) and the true posterior have closed forms."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(5)
        self.weight = torch.randn(3, 2, generator=generator).double()
        self.x = torch.randn(4, 3, generator=generator).double()
        self.variance = 0.3

    def log_likelihood(self, z: torch.Tensor) -> torch.Tensor:
        mean = z @ self.weight.t()
        return log_normal(self.x, mean, torch.full_like(mean, math.log(self.variance)))

    def log_evidence(self) -> torch.Tensor:
        covariance = self.weight @ self.weight.t() + self.variance * torch.eye(3).double()
        return MultivariateNormal(torch.zeros(3).double(), covariance).log_prob(self.x)

    def true_posterior(self) -> tuple[torch.Tensor, torch.Tensor]:
        precision = torch.eye(2).double() + self.weight.t() @ self.weight / self.variance
        covariance = torch.linalg.inv(precision)
        return self.x @ self.weight @ covariance / self.variance, covariance


def test_the_bound_is_exact_with_the_true_posterior_and_any_number_of_samples() -> None:
    # p(x|z) p(z) / q(z|x) is p(x) for every z where q is the true posterior. It has to be independent: one dimension.
    model = LinearGaussian()
    model.weight = model.weight[:, :1]
    precision = 1 + float((model.weight**2).sum()) / model.variance
    mean = model.x @ model.weight / model.variance / precision
    posterior = Posterior(mean, torch.full_like(mean, -math.log(precision)))
    covariance = model.weight @ model.weight.t() + model.variance * torch.eye(3).double()
    expected = MultivariateNormal(torch.zeros(3).double(), covariance).log_prob(model.x)
    for samples in (1, 7):
        bound, _ = importance_weighted_bound(
            model.log_likelihood, posterior, torch.randn(samples, 4, 1).double()
        )
        torch.testing.assert_close(bound, expected)


def test_the_bound_grows_with_samples_from_the_elbo_to_the_evidence() -> None:
    # Burda et al. (2016), theorem 1. The proposal is wrong on purpose: the prior widened.
    model = LinearGaussian()
    posterior = Posterior(torch.zeros(4, 2).double(), torch.zeros(4, 2).double())
    generator = torch.Generator().manual_seed(3)
    found = {}
    for samples, repeats in ((1, 1_000), (10, 100), (3_000, 1)):
        noise = torch.randn(repeats, samples, 4, 2, generator=generator).double()
        bounds = torch.stack(
            [importance_weighted_bound(model.log_likelihood, posterior, n)[0] for n in noise]
        )
        found[samples] = float(bounds.mean(0).sum())
    evidence = float(model.log_evidence().sum())
    assert found[1] < found[10] < found[3_000] + 0.2
    assert abs(found[3_000] - evidence) < 0.5
    # With q = p(z) the ELBO is E_p(z)[log p(x|z)], in closed form: the distance of the mean and W's variance.
    distance = (model.x**2).sum() + 4 * (model.weight**2).sum()
    elbo = -0.5 * (4 * 3 * math.log(2 * math.pi * model.variance) + float(distance) / model.variance)
    assert abs(found[1] - elbo) < 0.05 * abs(elbo)


def test_units_are_active_where_the_mean_moves() -> None:
    generator = torch.Generator().manual_seed(0)
    scales = torch.tensor([1.0, 0.5, 0.2, 0.05, 0.0])  # variances 1, .25, .04, .0025, 0 against 0.01
    assert active_units(torch.randn(5_000, 5, generator=generator) * scales) == 3
    assert active_units(torch.ones(1, 5)) == 0


def test_mutual_information_of_well_separated_sentences_is_the_log_of_their_number() -> None:
    # Posteriors that do not overlap tell the sentence apart: log N nats.
    mean = torch.arange(50.0)[:, None] * 100
    found = mutual_information(Posterior(mean, torch.zeros(50, 1)), torch.randn(50, 1))
    assert found == pytest.approx(math.log(50))


def test_mutual_information_is_that_of_a_gaussian_channel() -> None:
    # z = x + noise, both standard normal: I = log(2) / 2, whatever the number of sentences, if it is large.
    generator = torch.Generator().manual_seed(2)
    mean = torch.randn(4_000, 1, generator=generator)
    found = mutual_information(
        Posterior(mean, torch.zeros(4_000, 1)), torch.randn(4_000, 1, generator=generator)
    )
    assert abs(found - 0.5 * math.log(2)) < 0.05


def test_a_collapsed_posterior_carries_no_information_and_is_named() -> None:
    collapsed = Posterior(torch.zeros(200, 32), torch.zeros(200, 32))
    information = mutual_information(collapsed, torch.randn(200, 32))
    assert information == pytest.approx(0.0, abs=1e-9)  # not noise around it
    warning = collapse_warning(active_units(collapsed.mean_NZ), 32, 0.0)
    assert warning is not None
    assert "collapsed: 0 of 32" in warning
    assert "free_bits" in warning
    assert collapse_warning(30, 32, 4.2) is None


def test_perplexity_is_finite_or_infinite_never_an_error() -> None:
    # An issue of the original reports a perplexity of 4e66: a likelihood a token, never that of the sentence.
    assert perplexity(-10 * math.log(2), 10) == pytest.approx(2.0)
    assert perplexity(-1e9, 10) == math.inf
    assert perplexity(0.0, 0) == 1.0


def test_the_density_is_that_of_torch_distributions(posterior: Posterior) -> None:
    z = torch.randn(6, 4).double()
    q = Independent(Normal(posterior.mean_NZ, (0.5 * posterior.log_variance_NZ).exp()), 1)
    torch.testing.assert_close(log_normal(z, posterior.mean_NZ, posterior.log_variance_NZ), q.log_prob(z))
