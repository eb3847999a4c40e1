"""What a covariance of few rows is shrunk to: factors, and what stands out beside them."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from vgi_cli.maths.shrinkage import POWER, factored, factors_beyond_noise, principal_axes

MANY = 1e12


def rows_of(covariance: torch.Tensor, n: float) -> torch.Tensor:
    return torch.full_like(covariance, n)


def law(D: int, L: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The covariance of L strong factors, and that with one pair of columns beside them."""
    generator = torch.Generator().manual_seed(seed)
    loadings = 0.8 * torch.randn(D, L, dtype=torch.float64, generator=generator)
    factors = loadings @ loadings.mT + torch.diag(torch.linspace(0.5, 2.0, D, dtype=torch.float64))
    beside = factors.clone()
    beside[0, 1] = beside[1, 0] = beside[0, 1] + 0.5
    return factors, beside


def test_factors_are_found_where_rows_are_many() -> None:
    factors, beside = law(12, 2, 0)
    found = factored(factors, rows_of(factors, MANY), pairs=False)
    assert factors_beyond_noise(factors / torch.outer(*2 * [factors.diagonal().sqrt()]), 200.0) == 2
    # with no noise every eigenvalue above 1 is a factor: nothing of the matrix is lost
    torch.testing.assert_close(found, factors, rtol=0.02, atol=0.02)
    everything = factored(beside, rows_of(beside, MANY), pairs=True)
    torch.testing.assert_close(everything, beside, rtol=1e-6, atol=1e-6)


def test_a_pair_beside_the_factors_is_kept_with_pairs_alone() -> None:
    _, beside = law(12, 2, 0)
    rows = rows_of(beside, 200.0)
    without, kept = factored(beside, rows, pairs=False), factored(beside, rows, pairs=True)
    assert abs(float(beside[0, 1] - without[0, 1])) > 0.15 > 0.1 > abs(float(beside[0, 1] - kept[0, 1]))


def test_noise_is_left_out() -> None:
    x = torch.randn(60, 20, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    noise = x.mT @ x / 60
    off = ~torch.eye(20, dtype=torch.bool)
    assert factors_beyond_noise(torch.corrcoef(x.mT), 60.0) <= 1
    kept = factored(noise, rows_of(noise, 60.0), pairs=True)
    assert float(kept[off].square().mean()) < 0.25 * float(noise[off].square().mean())


def test_an_entry_loses_what_the_rule_says() -> None:
    """Two columns have no factor: one correlation z, against the threshold t = sqrt(log 2 / n)."""
    for z, n in ((0.6, 50.0), (-0.3, 50.0), (0.1, 50.0), (0.1, 5_000.0)):
        t = math.sqrt(math.log(2) / n)
        kept = math.copysign(max(abs(z) - t**POWER / abs(z) ** (POWER - 1), 0.0), z)
        covariance = torch.tensor([[4.0, 6.0 * z], [6.0 * z, 9.0]], dtype=torch.float64)
        assert float(factored(covariance, rows_of(covariance, n), pairs=True)[0, 1]) == pytest.approx(6 * kept)


def test_principal_axes_of_a_factor_model_are_its_loadings() -> None:
    loadings = torch.tensor([[0.9], [0.8], [0.7], [0.6], [-0.5]], dtype=torch.float64)
    correlation = loadings @ loadings.mT
    correlation.fill_diagonal_(1.0)
    found = principal_axes(correlation, 1)
    torch.testing.assert_close(found @ found.mT, loadings @ loadings.mT, rtol=1e-3, atol=1e-3)


@given(st.integers(1, 8), st.integers(1, 12), st.booleans(), st.integers(0, 10_000))
def test_a_target_is_positive_definite_and_has_the_variances(D: int, n: int, pairs: bool, seed: int) -> None:
    x = torch.randn(n, D, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    covariance = x.mT @ x / n + 1e-9 * torch.eye(D, dtype=torch.float64)
    target = factored(covariance, rows_of(covariance, n), pairs=pairs)
    torch.testing.assert_close(target.diagonal(), covariance.diagonal())
    torch.testing.assert_close(target, target.mT)
    scale = covariance.diagonal().sqrt()
    assert float(torch.linalg.eigvalsh(target / torch.outer(scale, scale))[0]) > 1e-4
