"""Closed forms between Gaussians against torch, scipy and Monte Carlo."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import torch
from torch.distributions import MultivariateNormal, Normal, kl_divergence

from tests.oracles import random_covariance
from vgi_cli.maths.divergences import (
    gaussian_kl,
    gaussian_wasserstein2_squared,
    normal_kl,
    normal_wasserstein2,
    procrustes,
)


def pair(D: int, seed: int) -> tuple[torch.Tensor, ...]:
    g = torch.Generator().manual_seed(seed)
    means = torch.randn(2, D, generator=g, dtype=torch.float64)
    return means[0], random_covariance(D, g), means[1], random_covariance(D, g)


@pytest.mark.parametrize("D", [1, 2, 7])
def test_kl_is_that_of_torch(D: int) -> None:
    m, S, n, T = pair(D, D)
    expected = kl_divergence(MultivariateNormal(m, S), MultivariateNormal(n, T))
    assert float(gaussian_kl(m, S, n, T)) == pytest.approx(float(expected), rel=1e-12)
    assert float(gaussian_kl(m, S, m, S)) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("D", [1, 2, 7])
def test_wasserstein_is_the_formula_with_matrix_roots(D: int) -> None:
    m, S, n, T = pair(D, 10 + D)
    root = scipy.linalg.sqrtm(S.numpy())
    cross = scipy.linalg.sqrtm(root @ T.numpy() @ root)
    expected = float((m - n).square().sum()) + np.trace((S + T).numpy() - 2 * np.real(cross))
    assert float(gaussian_wasserstein2_squared(m, S, n, T)) == pytest.approx(float(expected), rel=1e-9)
    assert float(gaussian_wasserstein2_squared(m, S, m, S)) == pytest.approx(0.0, abs=1e-12)


def test_wasserstein_of_a_scaling_map() -> None:
    """x -> 3 x + b is an optimal map (a gradient of a convex function): the cost is E |2 x + b|^2."""
    m, S, b, _ = pair(4, 3)
    expected = (2 * m + b).square().sum() + 4 * S.trace()
    assert float(gaussian_wasserstein2_squared(m, S, 3 * m + b, 9 * S)) == pytest.approx(float(expected), rel=1e-12)


def test_kl_does_not_change_under_linear_maps_and_wasserstein_does() -> None:
    m, S, n, T = pair(3, 5)
    scale = torch.tensor([1.0, 10.0, 0.1], dtype=torch.float64)
    moved = (m * scale, S * scale * scale[:, None], n * scale, T * scale * scale[:, None])
    assert float(gaussian_kl(*moved)) == pytest.approx(float(gaussian_kl(m, S, n, T)), rel=1e-10)
    assert float(gaussian_wasserstein2_squared(*moved)) > 2 * float(gaussian_wasserstein2_squared(m, S, n, T))


def test_procrustes_is_that_of_scipy_and_undoes_rotations_and_reflections() -> None:
    g = torch.Generator().manual_seed(0)
    F, target = torch.randn(2, 6, 3, generator=g, dtype=torch.float64)
    R, _ = scipy.linalg.orthogonal_procrustes(F.numpy(), target.numpy())
    assert np.allclose(procrustes(F, target).numpy(), F.numpy() @ R)
    turn, _ = torch.linalg.qr(torch.randn(3, 3, generator=g, dtype=torch.float64))
    for sign in (1.0, -1.0):
        turn = torch.cat([turn[:, :1] * sign, turn[:, 1:]], 1)
        assert torch.allclose(procrustes(F @ turn, F), F)


def test_normals_are_gaussians_of_one_column() -> None:
    m, S, n, T = pair(1, 8)
    args = (m[0], S[0, 0].sqrt(), n[0], T[0, 0].sqrt())
    assert float(normal_kl(*args)) == pytest.approx(float(kl_divergence(Normal(*args[:2]), Normal(*args[2:]))))
    squared = gaussian_wasserstein2_squared(m, S, n, T)
    assert float(normal_wasserstein2(*args)) == pytest.approx(float(squared.sqrt()), rel=1e-10)
