"""Laws of latents against torch.distributions, quadrature and enumeration of the category."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.distributions import Categorical, Independent, MixtureSameFamily, Normal, kl_divergence

from vgi_cli.maths.diagonal import CategoricalNormal, DiagonalNormal, relaxed

S, P = 3, 2


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=generator(seed), dtype=torch.float64)


def law(*rows: int, seed: int = 0, width: int = P) -> CategoricalNormal:
    given = DiagonalNormal(1.5 * normal(*rows, S, width, seed=seed), 0.3 * normal(*rows, S, width, seed=seed + 1) - 0.2)
    return CategoricalNormal(normal(*rows, S, seed=seed + 2).log_softmax(-1), given)


def test_divergence_of_normals() -> None:
    one, two = law(5).normal, law(5, seed=9).normal
    expected = kl_divergence(Independent(Normal(one.mean, one.scale), 1), Independent(Normal(two.mean, two.scale), 1))
    torch.testing.assert_close(one.kl(two), expected)


def test_density_of_a_category_and_its_normals() -> None:
    q = law(4)
    z = normal(4, P, seed=5)
    for s in range(S):
        code = torch.cat([z, torch.eye(S, dtype=torch.float64)[s].expand(4, -1)], 1)
        expected = q.log_weight[:, s] + Normal(q.normal.mean[:, s], q.normal.scale[:, s]).log_prob(z).sum(1)
        torch.testing.assert_close(q.log_prob(code), expected)


def test_divergence_is_the_integral_over_z_summed_over_the_categories() -> None:
    q, p = law(width=1), law(seed=7, width=1)
    grid = torch.linspace(-12, 12, 20_001, dtype=torch.float64)
    total = 0.0
    for s in range(S):
        code = torch.cat([grid[:, None], torch.eye(S, dtype=torch.float64)[s].expand(len(grid), -1)], 1)
        log_q, log_p = q.log_prob(code), p.log_prob(code)
        total += torch.trapezoid(log_q.exp() * (log_q - log_p), grid).item()
    assert q.kl(p).item() == pytest.approx(total, abs=1e-9)
    assert q.kl(q).item() == pytest.approx(0.0, abs=1e-12)


def test_draws_have_the_law() -> None:
    q = law()
    n = 60_000
    z = q.draw(normal(n, P + S, seed=3))
    own, s = q.split(z)
    assert bool(((s == 0) | (s == 1)).all()) and bool((s.sum(1) == 1).all())
    share = s.mean(0)
    error = (q.log_weight.exp() * (1 - q.log_weight.exp()) / n).sqrt()
    assert bool(((share - q.log_weight.exp()).abs() < 4 * error).all())
    mixture = MixtureSameFamily(Categorical(logits=q.log_weight), Normal(q.normal.mean[:, 0], q.normal.scale[:, 0]))
    u = mixture.cdf(own[:, 0]).sort().values
    assert float((u - torch.arange(1, n + 1) / n).abs().max()) < 1.95 / n**0.5  # 0.1 % level
    torch.testing.assert_close(z.mean(0), q.mean, rtol=0, atol=0.04)


def test_noise_of_another_precision_and_of_extreme_size_stays_finite() -> None:
    q = CategoricalNormal(
        law().log_weight.float(), DiagonalNormal(law().normal.mean.float(), law().normal.log_scale.float())
    )
    noise = torch.tensor([-6.0, -3.0, 0.0, 5.2, 6.0])
    z = q.draw(torch.cartesian_prod(*[noise] * (P + S)))
    assert z.dtype == torch.float32 and bool(torch.isfinite(z).all())


def curve(z: Tensor) -> Tensor:
    """A smooth function of z [.., 1 + S]."""
    return torch.sin(z[..., 0] + 2.0 * z[..., 1] - z[..., 3]) + 0.3 * z[..., 0].square()


def test_spread_has_the_expectation_and_its_gradient() -> None:
    """Against Gauss-Hermite quadrature over z and a sum over s."""
    base = law(width=1)
    parts = [base.log_weight.detach(), base.normal.mean, base.normal.log_scale]
    weights, mean, log_scale = (p.clone().requires_grad_() for p in parts)
    q = CategoricalNormal(weights.log_softmax(-1), DiagonalNormal(mean, log_scale))
    # 40 nodes of Gauss-Hermite quadrature (Golub and Welsch)
    off = torch.arange(1, 40, dtype=torch.float64).sqrt()
    nodes, vectors = torch.linalg.eigh(torch.diag(off, 1) + torch.diag(off, -1))
    share = vectors[0].square()
    exact = torch.zeros((), dtype=torch.float64)
    for s in range(S):
        z = mean[s, 0] + log_scale[s, 0].exp() * nodes
        code = torch.cat([z[:, None], torch.eye(S, dtype=torch.float64)[s].expand(40, -1)], 1)
        exact = exact + q.log_weight[s].exp() * (share * curve(code)).sum()
    expected = torch.autograd.grad(exact, (weights, mean, log_scale), retain_graph=True)
    noise = torch.cat([nodes[:, None], torch.zeros(40, S, dtype=torch.float64)], 1)
    z, weight = q.spread(noise)
    assert z.shape == (S, 40, 1 + S) and weight.shape == (S, 40)
    value = (share * (weight * curve(z)).sum(0)).sum()
    torch.testing.assert_close(value, exact)
    for got, right in zip(torch.autograd.grad(value, (weights, mean, log_scale)), expected, strict=True):
        torch.testing.assert_close(got, right, rtol=1e-9, atol=1e-9)


def test_a_normal_spreads_to_one_point() -> None:
    q = law(4).normal
    noise = normal(4, S, P, seed=1)
    z, weight = q.spread(noise)
    assert torch.equal(z[0], q.draw(noise)) and bool((weight == 1).all())
    assert (weight * z.sum(-1)).sum(0).shape == (4, S)


def test_the_gradient_of_a_drawn_category_is_that_of_the_relaxation() -> None:
    weights = normal(50, S, seed=4).requires_grad_()
    zeros = torch.zeros(50, S, 1, dtype=torch.float64)
    noise = normal(50, 1 + S, seed=6)
    target = normal(50, S, seed=7)
    drawn = CategoricalNormal(weights.log_softmax(-1), DiagonalNormal(zeros, zeros)).draw(noise)[..., 1:]
    soft = relaxed(weights.log_softmax(-1), noise[..., 1:], 0.5)
    (got,) = torch.autograd.grad((drawn * target).sum(), weights, retain_graph=True)
    (right,) = torch.autograd.grad((soft * target).sum(), weights)
    torch.testing.assert_close(got, right)
    assert float(got.abs().max()) > 0.01


def test_a_cold_relaxation_is_the_category() -> None:
    weights = normal(200, S, seed=4).log_softmax(-1)
    noise = normal(200, S, seed=6)
    cold = relaxed(weights, noise, 1e-6)
    warm = relaxed(weights, noise, 0.5)
    assert torch.equal(cold.round(), torch.nn.functional.one_hot(warm.argmax(-1), S).double())
    torch.testing.assert_close(warm.sum(-1), torch.ones(200, dtype=torch.float64))
    assert math.isclose(float(cold.max(-1).values.mean()), 1.0, abs_tol=1e-3)


def test_a_walk_leaves_the_law_as_it_is() -> None:
    """Moments after a walk from draws of the law, and the share of categories that stay."""
    p = law()
    n = 60_000
    z = p.draw(normal(n, P + S, seed=3))
    moved = p.walk(z, torch.full((n, 1), 0.4, dtype=torch.float64), normal(n, P + S, seed=8))
    own, s = p.split(moved)
    kept = (s * p.split(z)[1]).sum(1).mean()
    weight = p.log_weight.exp()
    assert abs(float(kept - (0.6 + 0.4 * weight.square().sum()))) < 4 * 0.5 / n**0.5
    assert bool(((s.mean(0) - weight).abs() < 4 * 0.5 / n**0.5).all())
    for c in range(S):
        inside = own[s[:, c] == 1]
        error = 4.5 / len(inside) ** 0.5
        size = (inside - p.normal.mean[c]) / p.normal.scale[c]
        assert bool((size.mean(0).abs() < error).all()) and bool(((size.var(0) - 1).abs() < 2 * error).all())
    assert float((moved[:, :P] - z[:, :P]).abs().amin()) > 0


def test_a_walk_of_size_one_is_an_independent_draw() -> None:
    p = law()
    noise, one = normal(9, P + S, seed=3), torch.ones(9, 1, dtype=torch.float64)
    starts = [p.draw(normal(9, P + S, seed=seed)) for seed in (4, 5)]
    assert torch.equal(*(p.walk(z, one, noise) for z in starts))
    assert torch.equal(p.walk(starts[0], one, noise), p.draw(noise))
    q = p.normal
    torch.testing.assert_close(q.walk(q.draw(normal(S, P)), one[:1], noise[:S, :P]), q.draw(noise[:S, :P]))


def test_a_walk_of_a_normal_keeps_mean_and_variance() -> None:
    q = law().normal
    z = q.draw(normal(60_000, S, P, seed=3))
    moved = q.walk(z, torch.full((1, 1), 0.4, dtype=torch.float64), normal(60_000, S, P, seed=8))
    size = (moved - q.mean) / q.scale
    assert float(size.mean(0).abs().max()) < 0.02 and float((size.var(0) - 1).abs().max()) < 0.03
    between = (size * (z - q.mean) / q.scale).mean(0)
    torch.testing.assert_close(between, torch.full_like(between, (1 - 0.16) ** 0.5), rtol=0, atol=0.02)
