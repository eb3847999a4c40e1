"""The posterior of mixtures of Gaussians: each step against closed forms and quadrature, and all of them together by
the joint law of parameters and rows (Geweke 2004)."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from vgi_cli.layout import Layout
from vgi_cli.maths.wishart import inverse_wishart, wishart
from vgi_cli.models.gaussian import posterior as sampler
from vgi_cli.models.gaussian.family import EmTable, em_table
from vgi_cli.models.gaussian.incomplete import Incomplete
from vgi_cli.models.gaussian.mixture import GaussianMixture, MixtureConfig
from vgi_cli.models.gaussian.posterior import Completed, Hyper, MixturePosterior, Parameters


def mixture(K: int, D: int, outliers: bool = False, **config: object) -> GaussianMixture:
    settings = MixtureConfig(components=K, outliers=outliers, **config)  # type: ignore[arg-type]
    return GaussianMixture.build(settings, Layout.plain(D)).double()


def rows(N: int, D: int, share: float = 0.0, seed: int = 0) -> EmTable:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(N, D, dtype=torch.float64, generator=generator)
    x[:, 1:] += x[:, :1]
    missing = torch.rand(N, D, generator=generator) < share
    missing[:, 0] &= ~missing.all(1)
    return em_table(x, missing)


def hyper(D: int, **values: object) -> Hyper:
    W = torch.eye(D, dtype=torch.float64) + 0.3
    return Hyper(2.0, 0.5, D + 4.0, D + 5.0, W)._replace(**values)  # type: ignore[arg-type]


# -- the steps -------------------------------------------------------------------------------------------------------


def test_one_component_of_complete_rows_has_a_normal_inverse_wishart_posterior(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler, "SPREADS", (3.0,))
    N, D, draws = 25, 2, 600
    table = rows(N, D)
    posterior = MixturePosterior(mixture(1, D), table)
    m, V, kappa, nu = posterior.m, posterior.V, sampler.ALONE, D + 1 + 3.0 * D
    state, rng = posterior.start(), np.random.default_rng(0)
    complete = posterior.completed(state, rng)
    torch.testing.assert_close(complete.x, table.x)
    found = [posterior.parameters(complete, state.hyper, rng) for _ in range(draws)]
    mean = torch.stack([one.mean[0] for one in found])
    covariance = torch.stack([one.factor[0] @ one.factor[0].mT for one in found])
    centre = table.x.mean(0)
    scatter = (table.x - centre).mT @ (table.x - centre)
    pull = kappa * N / (kappa + N) * torch.outer(centre - m, centre - m)
    scale = (nu - D - 1) * torch.diag(V) + scatter + pull + sampler.FLOOR * torch.diag(V)
    expected = scale / (nu + N - D - 1)
    torch.testing.assert_close(covariance.mean(0), expected, rtol=0, atol=0.06)
    torch.testing.assert_close(mean.mean(0), (N * centre + kappa * m) / (N + kappa), rtol=0, atol=0.04)
    torch.testing.assert_close(mean.mT.cov(), expected / (N + kappa), rtol=0, atol=0.01)
    spread = 2 * expected.diagonal().square() / (nu + N - D - 3)
    torch.testing.assert_close(covariance.diagonal(dim1=-2, dim2=-1).var(0), spread, rtol=0.3, atol=0)


def test_labels_and_holes_are_drawn_from_the_mixture() -> None:
    """Of two rows, in many copies: labels as the posterior probabilities of components given the observed cells, holes
    with the mean and variance of the mixture's conditional; of a complete row nothing is drawn."""
    copies = 4000
    two = torch.tensor([[0.5, 0.0], [1.0, -1.0]], dtype=torch.float64)
    holes = torch.tensor([[False, True], [False, False]])
    model = mixture(2, 2, outliers=True)
    model.initialise(
        torch.randn(50, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0)), torch.Generator()
    )
    table = em_table(two.repeat(copies, 1), holes.repeat(copies, 1))
    posterior = MixturePosterior(model, table)
    done = posterior.completed(posterior.start(), np.random.default_rng(0))
    hole = table.patterns.missing[table.patterns.of_row][:, 1]
    torch.testing.assert_close(done.x[~hole], table.x[~hole])
    torch.testing.assert_close(done.x[hole][:, 0], table.x[hole][:, 0])
    with torch.no_grad():
        seen = model.gaussians.observe(
            Incomplete(two, em_table(two, holes).patterns._replace(of_row=torch.tensor([1, 0])))
        )
        weights = torch.softmax(seen.log_prob + model.log_weights(), -1)
    for which, row in ((hole, 0), (~hole, 1)):
        shares = torch.bincount(done.label[which], minlength=4) / copies
        torch.testing.assert_close(shares.double(), weights[row], rtol=0, atol=0.03)
    law = model.conditional(two[:1], holes[:1])
    assert done.x[hole][:, 1].mean().item() == pytest.approx(law.mean()[0, 1].item(), abs=0.05)


def test_degrees_of_freedom_by_quadrature() -> None:
    """One column: the density of each component's rows, its mean and variance integrated numerically."""
    x = torch.tensor([[-1.0], [-0.2], [0.3], [2.0], [2.2]], dtype=torch.float64)
    posterior = MixturePosterior(mixture(3, 1), em_table(x, torch.zeros(5, 1, dtype=torch.bool)), floor=0.0)
    label, kappa, W = torch.tensor([0, 0, 0, 2, 2]), 0.7, torch.tensor([[0.8]], dtype=torch.float64)
    found = posterior.log_freedom(posterior.moments(Completed(x, label)), kappa, W)

    mean, log_variance = np.linspace(-8, 8, 1201)[:, None], np.linspace(-9, 14, 1201)[None, :]
    variance = np.exp(log_variance)
    area = float((mean[1] - mean[0])[0] * (log_variance[0, 1] - log_variance[0, 0]))

    def log_density(values: np.ndarray, nu: float) -> float:
        joint = stats.invgamma(nu / 2, scale=(nu - 2) * 0.8 / 2).pdf(variance) * variance
        joint = joint * stats.norm(float(posterior.m), np.sqrt(variance / kappa)).pdf(mean)
        for value in values:
            joint = joint * stats.norm(mean, np.sqrt(variance)).pdf(value)
        return float(np.log(joint.sum() * area))

    grid = sampler.freedoms(1, sampler.SPREADS)
    chosen = [0, 6]
    expected = [sum(log_density(x[label == k, 0].numpy(), float(grid[g])) for k in (0, 2)) for g in chosen]
    assert (found[6] - found[0]).item() == pytest.approx(expected[1] - expected[0], abs=1e-4)


def test_concentrations_are_those_of_dirichlet_multinomial_counts() -> None:
    posterior = MixturePosterior(mixture(3, 2, outliers=True), rows(10, 2))
    count = torch.tensor([4.0, 0.0, 3.0, 1.0, 2.0], dtype=torch.float64)
    expected = [
        stats.dirichlet_multinomial([alpha / 3] * 3 + [1.0, 1.0], 10).logpmf(count.numpy().astype(int))
        for alpha in sampler.CONCENTRATIONS
    ]
    gap = posterior.log_concentration(count) - torch.tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(gap, gap[:1].expand_as(gap), rtol=0, atol=1e-9)


def test_the_common_covariance_has_the_density_of_its_prior() -> None:
    posterior = MixturePosterior(mixture(2, 2), rows(10, 2))
    W = torch.tensor([[0.5, 0.1], [0.1, 0.7]], dtype=torch.float64)
    grid = sampler.freedoms(2, sampler.COMMON)
    expected = [stats.wishart(float(n0), np.diag(posterior.V / 2) / float(n0)).logpdf(W.numpy()) for n0 in grid]
    torch.testing.assert_close(posterior.log_common(W), torch.tensor(expected, dtype=torch.float64))


def test_the_pull_of_means_is_the_density_of_their_prior() -> None:
    offset = torch.tensor([[0.4, -1.0], [0.2, 0.3]], dtype=torch.float64)
    factor = torch.tensor([[[1.0, 0.0], [0.5, 0.8]], [[0.7, 0.0], [-0.2, 1.1]]], dtype=torch.float64)
    expected = [
        sum(
            stats.multivariate_normal(np.zeros(2), f @ f.T / kappa).logpdf(o)
            for o, f in zip(offset.numpy(), factor.numpy(), strict=True)
        )
        for kappa in sampler.PULLS
    ]
    gap = sampler._log_pull(offset, factor) - torch.tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(gap, gap[:1].expand_as(gap), rtol=0, atol=1e-9)


def test_weights_have_a_dirichlet_law(monkeypatch: pytest.MonkeyPatch) -> None:
    """Means and variances, also of components that hold no row and next to no pseudo-row."""
    monkeypatch.setattr(sampler, "CONCENTRATIONS", (0.02,))
    table, draws = rows(6, 2), 500
    posterior, rng = MixturePosterior(mixture(2, 2, outliers=True), table), np.random.default_rng(0)
    label = torch.tensor([0, 0, 0, 0, 2, 3])
    W = hyper(2, W=torch.eye(2, dtype=torch.float64))
    found = torch.stack([posterior.parameters(Completed(table.x, label), W, rng).log_weights for _ in range(draws)])
    assert bool(found.isfinite().all())
    a = torch.tensor([4.01, 0.01, 2.0, 2.0], dtype=torch.float64)
    mean = a / a.sum()
    torch.testing.assert_close(found.exp().mean(0), mean, rtol=0, atol=0.03)
    torch.testing.assert_close(found.exp().var(0), mean * (1 - mean) / (a.sum() + 1), rtol=0.3, atol=1e-3)


@pytest.mark.parametrize("config", [{"covariance": "factor", "factors": 1}])
def test_other_covariances_have_no_posterior_draws(config: dict[str, object]) -> None:
    with pytest.raises(TypeError, match="full covariances"):
        MixturePosterior(mixture(2, 4, **config), rows(10, 4))


# -- all together ----------------------------------------------------------------------------------------------------


def summary(state: Parameters) -> Tensor:
    """What of the parameters is compared."""
    weights = state.log_weights.exp()
    covariance = state.factor @ state.factor.mT
    h = state.hyper
    values = [h.alpha**0.5, h.kappa, h.nu, h.n0, h.W[0, 0], h.W[0, 1], h.W.diagonal().log().sum()]
    values += [
        weights.square().sum(),
        covariance.diagonal(dim1=-2, dim2=-1).log().mean(),
        state.mean.abs().mean().log(),
    ]
    values += [(weights[: len(state.mean), None] * state.mean).sum(0)[0], covariance[0, 0, 1].clamp(-1, 1)]
    return torch.tensor([float(value) for value in values], dtype=torch.float64)


def prior(posterior: MixturePosterior, rng: np.random.Generator) -> Parameters:
    """A draw of everything from the prior."""
    K, B, D = posterior.K, posterior.B, posterior.D
    alpha, kappa = rng.choice(sampler.CONCENTRATIONS), rng.choice(sampler.PULLS)
    nu, n0 = (rng.choice(sampler.freedoms(D, shares).numpy()) for shares in (sampler.SPREADS, sampler.COMMON))
    inverse = torch.diag((n0 / (sampler.WITHIN * posterior.V)).sqrt())
    W = wishart(torch.tensor(n0, dtype=torch.float64), inverse, rng)
    many = torch.full((K,), nu, dtype=torch.float64)
    factor = inverse_wishart(many, torch.linalg.cholesky((nu - D - 1) * W).expand(K, D, D), rng)
    z = torch.from_numpy(rng.standard_normal((K, D, 1)))
    mean = posterior.m + (factor @ z)[:, :, 0] / kappa**0.5
    weights = torch.from_numpy(rng.dirichlet([alpha / K] * K + [1.0] * B)).clamp(min=1e-300)
    return Parameters(mean, factor, weights.log(), Hyper(alpha, kappa, nu, n0, W))


def observed_again(posterior: MixturePosterior, state: Parameters, label: Tensor, rng: np.random.Generator) -> None:
    """New observed cells of the table given labels and parameters."""
    mean = torch.cat([state.mean, posterior._all.mean[posterior.K :]])
    factor = torch.cat([state.factor, posterior._all.cholesky()[posterior.K :]])
    z = torch.from_numpy(rng.standard_normal((len(label), posterior.D, 1)))
    x = mean[label] + (factor[label] @ z)[:, :, 0]
    posterior._table = posterior._table._replace(x=torch.where(posterior._missing, 0.0, x))


@pytest.mark.slow
@torch.no_grad()
def test_rows_and_parameters_drawn_in_turn_have_the_law_of_the_prior() -> None:
    """Geweke's joint distribution test: z-scores of the means of `summary` and of their squares, by batches."""
    table = rows(6, 2, 0.3)
    model = mixture(3, 2, outliers=True)
    model.initialise(table.x, torch.Generator().manual_seed(0))
    posterior, rng = MixturePosterior(model, table, floor=0.0), np.random.default_rng(0)
    first = torch.stack([summary(prior(posterior, rng)) for _ in range(3000)])
    state, chain = prior(posterior, rng), []
    done = Completed(table.x, torch.multinomial(state.log_weights.exp(), 6, replacement=True))
    for _ in range(6000):
        observed_again(posterior, state, done.label, rng)
        done = posterior.completed(state, rng)
        state = posterior.parameters(done, state.hyper, rng)
        chain.append(summary(state))
    second = torch.stack(chain)
    for a, b in ((first, second), (first.square(), second.square())):
        batches = b.unflatten(0, (40, -1)).mean(1)
        error = (a.var(0) / len(a) + batches.var(0) / 40).sqrt()
        score = (a.mean(0) - b.mean(0)) / error
        assert bool((score.abs() < 4).all()), score
