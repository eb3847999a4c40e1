"""The autoencoder with a mixture as prior against the mixture of Gaussians that it is with a linear decoder."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.distributions import Categorical, MixtureSameFamily, MultivariateNormal

from vgi_cli.layout import Layout
from vgi_cli.maths.diagonal import DiagonalNormal
from vgi_cli.models.vae.vae import VaeConfig, VariationalAutoencoder

D, S = 4, 3
both = pytest.mark.parametrize("encoding", ["masked", "set"])


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def linear(encoding: str = "masked", L: int = 1) -> VariationalAutoencoder:
    """No hidden layer in the decoder; everything shaken."""
    config = VaeConfig(
        latents=L,
        encoding=encoding,  # type: ignore[arg-type]
        encoder=(6,),
        embedding=3,
        cell=(5, 5),
        decoder=(),
        prior="mixture",
        components=S,
        floor=0.0,
    )
    vae = VariationalAutoencoder.build(config, Layout.plain(D)).double()
    x = torch.randn(200, D, generator=generator(1), dtype=torch.float64)
    vae.initialise(x, generator(2))
    with torch.no_grad():
        vae.decoder.outlet.weight.copy_(torch.randn(D, L + S, generator=generator(3), dtype=torch.float64))
        vae.code.classifier.outlet.weight.mul_(8.0)  # far from uniform
    return vae.eval()


def law_of(vae: VariationalAutoencoder, observed: list[int] | None = None) -> MixtureSameFamily:
    """p(x_obs): a mixture with means F m_s + A_s + b and the common covariance F F' + Psi."""
    o = list(range(D)) if observed is None else observed
    weight, b = vae.decoder.outlet.weight.detach(), vae.decoder.outlet.bias.detach()
    F, A = weight[:, :-S], weight[:, -S:]
    means = vae.prior.normal.mean.detach() @ F.mT + A.mT + b
    assert vae.log_variance is not None
    covariance = F @ F.mT + torch.diag(vae.log_variance.detach().exp())
    parts = MultivariateNormal(means[:, o], covariance[o][:, o].expand(S, -1, -1))
    return MixtureSameFamily(Categorical(probs=torch.full((S,), 1 / S, dtype=torch.float64)), parts)


def codes(points: int = 4001) -> tuple[Tensor, float]:
    """A grid over one continuous latent, for every category: [S, points, 1 + S], and the size of a cell."""
    grid = torch.linspace(-12, 12, points, dtype=torch.float64)
    every = torch.eye(S, dtype=torch.float64)[:, None].expand(-1, points, -1)
    return torch.cat([grid[:, None].expand(S, -1, -1), every], -1), 24 / (points - 1)


def test_joint_sums_and_integrates_to_the_mixture() -> None:
    vae = linear()
    x = law_of(vae).sample((6,))
    missing = torch.rand(6, D, generator=generator(5)) < 0.5
    missing[:, 0] = False
    z, cell = codes()
    z = z.reshape(-1, 1 + S)
    xz = torch.cat([x[:, None].expand(-1, len(z), -1), z.expand(6, -1, -1)], -1)
    with torch.no_grad():
        whole = vae.joint_log_prob(xz).logsumexp(1) + math.log(cell)
        part = vae.observed_log_prob(x[:, None], z, missing[:, None]).logsumexp(1) + math.log(cell)
    torch.testing.assert_close(whole, law_of(vae).log_prob(x), rtol=0, atol=1e-9)
    for n in range(6):
        o = torch.nonzero(~missing[n])[:, 0].tolist()
        torch.testing.assert_close(part[n], law_of(vae, o).log_prob(x[n, o]), rtol=0, atol=1e-9)


@both
def test_the_gap_of_the_bound_is_the_divergence_from_the_posterior(encoding: str) -> None:
    """Of the observed cells: mean ELBO over draws = log p(x_obs) - KL(q(z, s | x_obs) ‖ p(z, s | x_obs)), the latter by
    quadrature over z and enumeration of s."""
    vae = linear(encoding)
    x = law_of(vae).sample((8,))
    missing = torch.rand(8, D, generator=generator(6)) < 0.4
    missing[:, 1] = False
    n = 4000
    noise = torch.randn(n, 8, 1 + S, generator=generator(7), dtype=torch.float64)
    grid, cell = codes(2001)
    z = grid.reshape(-1, 1 + S)
    with torch.no_grad():
        q = vae.encode(x, missing)
        elbo = vae.elbo(x.expand(n, -1, -1), noise, missing, q)
        row = vae.encode(x[:, None], missing[:, None])
        log_q = row.log_prob(z.expand(8, -1, -1))
        log_p = vae.observed_log_prob(x[:, None], z, missing[:, None])
        gap = cell * (log_q.exp() * (log_q - log_p + (log_p.logsumexp(1) + math.log(cell))[:, None])).sum(1)
    exact = log_p.logsumexp(1) + math.log(cell)
    error = elbo.std(0) / n**0.5
    assert bool((gap > 0.01).all())
    assert bool(((exact - elbo.mean(0) - gap).abs() < 4.5 * error + 1e-6).all())


@both
def test_relaxed_bound_tends_to_the_bound_as_it_cools(encoding: str) -> None:
    vae = linear(encoding)
    x = law_of(vae).sample((5,))
    missing = torch.rand(5, D, generator=generator(6)) < 0.4
    n = 20_000
    noise = torch.randn(n, 5, 1 + S, generator=generator(7), dtype=torch.float64)
    rows, holes = x.expand(n, -1, -1), missing.expand(n, -1, -1)
    with torch.no_grad():
        exact = vae.elbo(rows, noise, holes, vae.encode(rows, holes))
        cold = vae.relaxed_elbo(rows, noise, holes, 1e-4)
        warm = vae.relaxed_elbo(rows, noise, holes, 1.0)
    error = (cold.var(0) + exact.var(0)).div(n).sqrt()
    assert bool(((cold.mean(0) - exact.mean(0)).abs() < 4.5 * error + 1e-3).all())
    assert bool(((warm.mean(0) - exact.mean(0)).abs() > 10 * error).any())


def test_relaxed_divergence_vanishes_where_q_is_the_prior() -> None:
    """Its best variance is that of the prior: 1."""
    vae = linear(L=2)
    with torch.no_grad():
        for network in (vae.encoder, vae.code.classifier):  # type: ignore[union-attr]
            for parameter in network.parameters():
                parameter.zero_()
        vae.code.means.zero_()  # type: ignore[union-attr]
    x = torch.randn(7, D, generator=generator(), dtype=torch.float64)
    missing = torch.zeros(7, D, dtype=torch.bool)
    noise = torch.randn(7, 2 + S, generator=generator(1), dtype=torch.float64)

    def divergence(log_variance: float) -> Tensor:
        with torch.no_grad():
            vae.encoder.outlet.bias[2:] = log_variance
            return vae.code.relaxed(vae.encoder, x, missing, noise, 0.5)[1]

    torch.testing.assert_close(divergence(0.0), torch.zeros(7, dtype=torch.float64), rtol=0, atol=1e-12)
    for log_variance in (-0.7, math.log(2.0)):
        expected = 2 * 0.5 * (math.exp(log_variance) - 1 - log_variance)
        torch.testing.assert_close(divergence(log_variance), torch.full((7,), expected, dtype=torch.float64))


def test_samples_have_mean_and_covariance_of_the_mixture() -> None:
    vae = linear(L=2)
    x = vae.sample(60_000, generator(4))
    law = law_of(vae)
    torch.testing.assert_close(x.mean(0), law.mean, rtol=0, atol=0.06)
    parts = law.component_distribution
    spread = (parts.mean - law.mean).mT @ (parts.mean - law.mean) / S
    torch.testing.assert_close(torch.cov(x.mT), parts.covariance_matrix[0] + spread, rtol=0.03, atol=0.08)


def test_one_component_is_the_normal_prior() -> None:
    """With one component and mean 0 the bound is that of N(0, I)."""
    config = {"latents": 2, "encoder": (6,), "decoder": (5,), "floor": 0.0}
    plain = VariationalAutoencoder.build(VaeConfig(**config), Layout.plain(D)).double()  # type: ignore[arg-type]
    mixed = VariationalAutoencoder.build(VaeConfig(prior="mixture", components=1, **config), Layout.plain(D)).double()  # type: ignore[arg-type]
    x = torch.randn(30, D, generator=generator(), dtype=torch.float64)
    plain.initialise(x, generator(1))
    with torch.no_grad():
        mixed.encoder.net.layers[0].weight[:, :D] = plain.encoder.net.layers[0].weight  # type: ignore[union-attr]
        mixed.encoder.net.layers[0].bias.copy_(plain.encoder.net.layers[0].bias)  # type: ignore[union-attr]
        mixed.encoder.outlet.load_state_dict(plain.encoder.outlet.state_dict())
        mixed.decoder.layers.load_state_dict(plain.decoder.layers.state_dict())
        mixed.decoder.outlet.weight[:, :-1] = plain.decoder.outlet.weight
        mixed.decoder.outlet.bias.copy_(plain.decoder.outlet.bias)
        mixed.log_variance.copy_(plain.log_variance)  # type: ignore[union-attr]
    noise = torch.randn(30, 3, generator=generator(2), dtype=torch.float64)
    torch.testing.assert_close(mixed.elbo(x, noise), plain.elbo(x, noise[:, :2]))


@both
@pytest.mark.parametrize("prior", ["normal", "mixture"])
def test_what_missing_cells_hold_never_enters_a_bound(encoding: str, prior: str) -> None:
    config = VaeConfig(latents=2, encoding=encoding, prior=prior, components=S)  # type: ignore[arg-type]
    vae = VariationalAutoencoder.build(config, Layout.plain(D)).double()
    x = torch.randn(50, D, generator=generator(1), dtype=torch.float64)
    vae.initialise(x, generator(2))
    missing = torch.rand(50, D, generator=generator(3)) < 0.5
    spoilt = torch.where(missing, math.nan, x)
    noise = torch.randn(50, vae.latents, generator=generator(4), dtype=torch.float64)
    for rows in (x, spoilt):
        vae.zero_grad()
        value = vae.elbo(rows, noise, missing, vae.encode(rows, missing)) + vae.relaxed_elbo(rows, noise, missing, 0.5)
        value.sum().backward()
        grads = [p.grad.clone() for p in vae.parameters() if p.grad is not None]
        if rows is x:
            expected, expected_grads = value.detach(), grads
    assert torch.equal(value, expected) and bool(torch.isfinite(value).all())
    assert all(torch.equal(a, b) for a, b in zip(grads, expected_grads, strict=True))
    assert len(grads) == len(list(vae.parameters()))


def test_default_latents_do_not_count_the_category() -> None:
    vae = VariationalAutoencoder.build(VaeConfig(prior="mixture", components=7), Layout.plain(6))
    assert vae.latents == 5 + 7 and vae.code.categories == 7
    assert isinstance(vae.decode(torch.zeros(2, 12)), DiagonalNormal)
