"""Univariate KL and Wasserstein distance against closed forms and scipy's quadrature."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.integrate
import scipy.stats
import torch
from torch import Tensor

from vgi_cli.maths.divergences import Transport, compare_univariate, normal_kl, normal_wasserstein2


def normal_transport(mean: Tensor, sd: Tensor) -> Transport:
    u = Transport.levels()
    return Transport(mean[:, None] + sd[:, None] * u, sd[:, None].expand(-1, len(u)))


def even(rows: int, low: float = -6.0, high: float = 6.0) -> Tensor:
    return torch.linspace(low, high, 101, dtype=torch.float64).expand(rows, -1)


@pytest.mark.parametrize("spread", [1.0, 0.2])
def test_two_normals(spread: float) -> None:
    g = torch.Generator().manual_seed(0)
    m = 0.5 * spread * torch.randn(50, generator=g, dtype=torch.float64)
    s = spread * (0.5 + torch.rand(50, generator=g, dtype=torch.float64))
    n, t = torch.zeros_like(m), torch.full_like(m, spread)
    kl, w = compare_univariate(normal_transport(m, s), lambda v: -0.5 * (v / spread).square() + 123.0, even(50))
    assert torch.allclose(kl, normal_kl(m, s, n, t), atol=3e-4, rtol=1e-3)
    assert torch.allclose(w, normal_wasserstein2(m, s, n, t), atol=2e-3 * spread)


def test_equal_laws_have_no_distance() -> None:
    zero, one = torch.zeros(1, dtype=torch.float64), torch.ones(1, dtype=torch.float64)
    kl, w = compare_univariate(normal_transport(zero, one), lambda v: -0.5 * v.square(), even(1))
    assert float(kl) < 1e-4 and float(w) < 2e-3


def test_a_narrow_density_between_the_points_is_found_where_q_is() -> None:
    """p has a standard deviation of 1/1000 of the grid's spacing; one of the points to look at is near it."""
    m, s = torch.tensor([0.1], dtype=torch.float64), torch.tensor([0.3], dtype=torch.float64)
    n, t = torch.tensor([0.037]), torch.tensor([1e-4])
    near = 0.0371 + torch.cat([sign * 2.0 ** -torch.arange(2, 16, dtype=torch.float64) for sign in (1, -1)])
    points = torch.cat([even(1), near[None]], 1)
    kl, w = compare_univariate(normal_transport(m, s), lambda v: -0.5 * ((v - n) / t).square(), points)
    assert float(kl) == pytest.approx(float(normal_kl(m, s, n.double(), t.double())), rel=1e-4)
    assert float(w) == pytest.approx(float(normal_wasserstein2(m, s, n.double(), t.double())), rel=1e-3)


def test_a_mixture_and_a_bent_q_against_scipy() -> None:
    """q = law of u + 0.3 tanh(u); p a mixture of two normals far apart."""
    u = Transport.levels()
    bent = Transport((u + 0.3 * u.tanh())[None], (1 + 0.3 / u.cosh().square())[None])

    def p(x: np.ndarray | float) -> np.ndarray | float:
        return 0.3 * scipy.stats.norm.pdf(x, -2, 0.3) + 0.7 * scipy.stats.norm.pdf(x, 1, 1.0)

    def cdf(x: np.ndarray | float) -> np.ndarray | float:
        return 0.3 * scipy.stats.norm.cdf(x, -2, 0.3) + 0.7 * scipy.stats.norm.cdf(x, 1, 1.0)

    def log_p(x: Tensor) -> Tensor:
        return torch.from_numpy(np.log(np.asarray(p(x.numpy())))) - 7.0

    def kl_integrand(u: float) -> float:
        log_q = -0.5 * u * u - 0.5 * math.log(2 * math.pi) - math.log(1 + 0.3 / math.cosh(u) ** 2)
        return scipy.stats.norm.pdf(u) * (log_q - math.log(p(u + 0.3 * math.tanh(u))))

    grid = np.linspace(-12, 12, 400_001)

    def w_integrand(u: float) -> float:
        quantile = np.interp(scipy.stats.norm.cdf(u), inverse, grid)
        return scipy.stats.norm.pdf(u) * (u + 0.3 * math.tanh(u) - quantile) ** 2

    inverse = cdf(grid)
    expected = scipy.integrate.quad(kl_integrand, -8, 8, limit=200)[0]
    squared = scipy.integrate.quad(w_integrand, -6, 6, limit=500, epsabs=1e-7)[0]
    kl, w = compare_univariate(bent, log_p, even(1))
    assert float(kl) == pytest.approx(expected, abs=5e-4)
    assert float(w) == pytest.approx(math.sqrt(squared), rel=5e-3)


def test_where_p_has_no_mass_the_divergence_is_infinite() -> None:
    zero, one = torch.zeros(1, dtype=torch.float64), torch.ones(1, dtype=torch.float64)

    def log_p(v: Tensor) -> Tensor:
        return torch.where(v > 0, -v, math.nan)  # no number counts as no mass

    kl, w = compare_univariate(normal_transport(zero, one), log_p, even(1, 0.0, 30.0))
    assert math.isinf(float(kl)) and math.isfinite(float(w))
