"""The variational autoencoder against factor analysis, which it is without hidden layers, and its noise."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.linear_vae import linear_vae
from vgi_cli.layout import Layout
from vgi_cli.maths.counted import CountedNormal, normal_of
from vgi_cli.maths.noise import mix64
from vgi_cli.models.vae.codes import LOG_SCALES
from vgi_cli.models.vae.vae import VaeConfig, VariationalAutoencoder


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_bound_of_the_linear_autoencoder_is_the_likelihood_of_factor_analysis() -> None:
    """With the exact posterior as encoder, ELBO = log p(x) on average, and its variance is that of one draw of z."""
    vae, exact = linear_vae(5, 2, generator())
    x = exact.sample((40,))
    noise = torch.randn(5_000, 40, 2, generator=generator(1), dtype=torch.float64)
    with torch.no_grad():
        elbo = vae.elbo(x.expand(5_000, -1, -1), noise)
    error = elbo.std(0) / 5_000**0.5
    assert bool(((elbo.mean(0) - exact.log_prob(x)).abs() < 4.5 * error).all())
    with torch.no_grad():  # log p(x, z) - log q(z | x) is log p(x) for every draw
        z = vae.encode(x).draw(noise[0])
        weight = vae.joint_log_prob(torch.cat([x, z], 1)) - vae.encode(x).log_prob(z)
    torch.testing.assert_close(weight, exact.log_prob(x), rtol=0, atol=1e-9)


def test_marginal_of_observed_cells_of_the_linear_autoencoder() -> None:
    """log p(x_obs, z) - log p(z | x_obs) in closed form is log p(x_obs), for any z."""
    vae, exact = linear_vae(5, 2, generator())
    o = torch.tensor([0, 2, 3])
    missing = torch.ones(5, dtype=torch.bool).index_fill(0, o, False)
    x = exact.sample((1,))
    F, psi = vae.decoder.outlet.weight.detach()[o], vae.decode(torch.zeros(1, 2).double()).scale[0, o].square().detach()
    precision = torch.eye(2, dtype=torch.float64) + F.mT @ (F / psi[:, None])
    mean = torch.linalg.solve(precision, F.mT @ ((x[0, o] - exact.mean[o]) / psi))
    posterior = torch.distributions.MultivariateNormal(mean, precision_matrix=precision)
    marginal = torch.distributions.MultivariateNormal(exact.mean[o], exact.covariance_matrix[o][:, o])
    z = torch.randn(7, 2, generator=generator(2), dtype=torch.float64)
    with torch.no_grad():
        observed = vae.observed_log_prob(x, z, missing)
    expected = marginal.log_prob(x[0, o]).expand(7)
    torch.testing.assert_close(observed - posterior.log_prob(z), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize(("D", "latents"), [(1, 1), (2, 2), (3, 2), (4, 3), (11, 10), (560, 10)])
def test_latents_where_nobody_says(D: int, latents: int) -> None:
    assert VariationalAutoencoder.build(VaeConfig(), Layout.plain(D)).latents == latents


@pytest.mark.parametrize("variance", ["column", "latent"])
def test_variance_never_falls_below_the_floor(variance: str) -> None:
    config = VaeConfig(latents=1, variance=variance, floor=0.01, decoder=(4,))
    vae = VariationalAutoencoder.build(config, Layout.plain(3)).double()
    vae.initialise(torch.randn(50, 3, generator=generator(), dtype=torch.float64), generator())
    z = torch.randn(9, 1, generator=generator(), dtype=torch.float64)
    before = vae.decode(z).scale
    assert bool((before > 0.1).all())
    assert (before.std(0).max() > 1e-6) == (variance == "latent")
    with torch.no_grad():
        target = vae.decoder.outlet.bias[3:] if vae.log_variance is None else vae.log_variance
        target.fill_(-200.0)
    torch.testing.assert_close(vae.decode(z).scale, torch.full((9, 3), 0.1, dtype=torch.float64))


def test_an_outlier_does_not_overflow_the_bound() -> None:
    vae = VariationalAutoencoder.build(VaeConfig(activation="relu"), Layout.plain(2))
    vae.initialise(torch.randn(50, 2, generator=generator()), generator())
    x = torch.tensor([[1e12, -1e12]])
    assert bool(torch.isfinite(vae.log_prob(x)).all())
    log_scale = vae.encode(x).log_scale.detach()
    assert float(log_scale.min()) >= LOG_SCALES[0] and float(log_scale.max()) <= LOG_SCALES[1]


def test_starts_at_mean_and_variance_of_the_rows() -> None:
    x = torch.randn(2000, 3, generator=generator(), dtype=torch.float64) * torch.tensor([0.5, 1.0, 2.0]) + 3
    vae = VariationalAutoencoder.build(VaeConfig(latents=1), Layout.plain(3)).double()
    vae.initialise(x, generator())
    law = vae.decode(torch.zeros(1, 1, dtype=torch.float64))
    torch.testing.assert_close(law.scale[0], x.std(0), rtol=2e-3, atol=0)


def uniform_of(values: Tensor) -> float:
    """Kolmogorov-Smirnov distance of values to the standard normal."""
    u = torch.special.ndtr(values.double().flatten().sort().values)
    return float((u - torch.arange(1, len(u) + 1) / len(u)).abs().max())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("training", [True, False])
def test_noise_is_normal_and_independent_between_rows_and_places(dtype: torch.dtype, training: bool) -> None:
    noise = CountedNormal(4).train(training)
    noise.initialise(generator(3))
    x = torch.randn(20_000, 3, generator=generator(), dtype=dtype)
    draws = noise(x)
    assert draws.dtype == dtype and draws.shape == (20_000, 4)
    assert uniform_of(draws) < 1.95 / 80_000**0.5  # 0.1 % level
    correlation = torch.corrcoef(torch.cat([draws.double(), draws.double().roll(1, 0), x.double()], 1).mT)
    assert float((correlation - torch.eye(11)).abs().max()) < 0.035


def test_noise_follows_key_and_count_and_is_restored() -> None:
    x = torch.zeros(6, 2)
    one, two = CountedNormal(3), CountedNormal(3)
    one.initialise(generator(1))
    two.initialise(generator(2))
    assert not torch.equal(one(x), two(x))
    two.load_state_dict(one.state_dict())
    assert torch.equal(one(x), two(x))
    assert not torch.equal(one(x), one(x))


def test_bits_are_used_without_loss_at_both_ends() -> None:
    ends = torch.tensor([-(2**63), 2**63 - 1])
    for dtype, largest in ((torch.float32, 5.2), (torch.float64, 8.1)):
        low, high = normal_of(ends ^ torch.tensor(-(2**63)), dtype).sort().values.tolist()
        assert low == -high and high == pytest.approx(largest, abs=0.2)
    bits = mix64(torch.arange(100_000))
    torch.testing.assert_close(
        normal_of(bits, torch.float32).double(), normal_of(bits, torch.float64), atol=2e-2, rtol=0
    )
