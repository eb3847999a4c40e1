"""Wishart laws against their moments, and against scipy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from vgi_cli.maths.wishart import inverse_wishart, log_integral, wishart

B = torch.tensor([[2.0, 0.6, 0.1], [0.6, 1.0, -0.3], [0.1, -0.3, 0.5]], dtype=torch.float64)
DRAWS = 20_000


def test_inverse_wishart_draws_have_its_moments() -> None:
    """Mean B / (df - D - 1); variances of the diagonal 2 B_jj^2 / ((df - D - 1)^2 (df - D - 3))."""
    df = 26.5
    many = torch.full((DRAWS,), df, dtype=torch.float64)
    factor = inverse_wishart(many, torch.linalg.cholesky(B).expand(DRAWS, 3, 3), np.random.default_rng(0))
    assert torch.equal(factor, factor.tril()) and bool((factor.diagonal(dim1=-2, dim2=-1) > 0).all())
    drawn = factor @ factor.mT
    torch.testing.assert_close(drawn.mean(0), B / (df - 4), rtol=0, atol=1e-3)
    variance = 2 * B.diagonal().square() / ((df - 4) ** 2 * (df - 6))
    torch.testing.assert_close(drawn.diagonal(dim1=-2, dim2=-1).var(0), variance, rtol=0.06, atol=0)


def test_inverse_wishart_draws_go_each_by_its_own_scale() -> None:
    df = torch.tensor([30.0, 300.0], dtype=torch.float64).repeat(2000, 1)
    scale = torch.stack([B, 10 * torch.eye(3, dtype=torch.float64)])
    factor = inverse_wishart(df, torch.linalg.cholesky(scale).expand(2000, 2, 3, 3), np.random.default_rng(1))
    mean = (factor @ factor.mT).mean(0)
    torch.testing.assert_close(mean, scale / (df[0] - 4)[:, None, None], rtol=0, atol=2e-3)


def test_wishart_draws_have_its_moments() -> None:
    """Mean df B^-1; variances of the diagonal 2 df (B^-1)_jj^2."""
    df = 7.5
    many = torch.full((DRAWS,), df, dtype=torch.float64)
    drawn = wishart(many, torch.linalg.cholesky(B).expand(DRAWS, 3, 3), np.random.default_rng(0))
    inverse = torch.linalg.inv(B)
    torch.testing.assert_close(drawn.mean(0), df * inverse, rtol=0.02, atol=0.1)
    variance = 2 * df * inverse.diagonal().square()
    torch.testing.assert_close(drawn.diagonal(dim1=-2, dim2=-1).var(0), variance, rtol=0.05, atol=0)


@pytest.mark.parametrize("df", [3.0, 4.5, 20.0])
def test_the_integral_is_what_scipy_divides_by(df: float) -> None:
    P = np.array([[1.0, 0.2, 0.0], [0.2, 2.0, 0.5], [0.0, 0.5, 1.5]])
    kernel = (df - 4) / 2 * np.linalg.slogdet(P)[1] - np.trace(B.numpy() @ P) / 2
    expected = kernel - stats.wishart(df, np.linalg.inv(B.numpy())).logpdf(P)
    found = log_integral(torch.tensor(df, dtype=torch.float64), torch.logdet(B), 3)
    assert found.item() == pytest.approx(expected, abs=1e-9)
