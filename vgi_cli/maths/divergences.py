"""Closed forms that compare Gaussians: Kullback-Leibler divergence, squared 2-Wasserstein distance, factor rotation."""

from __future__ import annotations

import torch
from torch import Tensor


def gaussian_kl(mean: Tensor, covariance: Tensor, other_mean: Tensor, other_covariance: Tensor) -> Tensor:
    """KL(N(mean, covariance) || N(other)), nats: means [D], positive definite covariances [D, D] -> [].

    0.5 (|W|^2 + |v|^2 - D - log det(W W')), W and v the first's factor and shift seen through the second's whitening.
    """
    factor = torch.linalg.cholesky(covariance)
    other = torch.linalg.cholesky(other_covariance)
    white: Tensor = torch.linalg.solve_triangular(other, factor, upper=False)
    shift: Tensor = torch.linalg.solve_triangular(other, (mean - other_mean)[:, None], upper=False)
    logs = 2 * white.diagonal().log().sum()
    return 0.5 * (white.square().sum() + shift.square().sum() - len(mean) - logs)


def gaussian_wasserstein2_squared(
    mean: Tensor, covariance: Tensor, other_mean: Tensor, other_covariance: Tensor
) -> Tensor:
    """Squared 2-Wasserstein distance of two Gaussians (Dowson and Landau 1982), [D], [D, D] -> [].

    |m - m'|^2 + tr(S + S' - 2 (S^1/2 S' S^1/2)^1/2): the trace of the last root is the sum of the singular values of
    L' L2 for any factors L, L2 of S, S', which needs no root of a matrix that rounding made indefinite.
    """
    factor, other = torch.linalg.cholesky(covariance), torch.linalg.cholesky(other_covariance)
    cross: Tensor = torch.linalg.svdvals(factor.mT @ other).sum()
    spread = covariance.trace() + other_covariance.trace() - 2 * cross
    return (mean - other_mean).square().sum() + spread.clamp(min=0)


def procrustes(F: Tensor, target: Tensor) -> Tensor:
    """F R [D, L] for the orthogonal R (rotations and reflections) that brings F nearest to the target in Frobenius
    norm (Schoenemann 1966)."""
    U, _, Vh = torch.linalg.svd(F.mT @ target)
    rotation: Tensor = U @ Vh
    return F @ rotation


def normal_kl(mean: Tensor, sd: Tensor, other_mean: Tensor, other_sd: Tensor) -> Tensor:
    """KL(N(mean, sd^2) || N(other)), nats, elementwise."""
    ratio = sd / other_sd
    return 0.5 * (ratio.square() + ((mean - other_mean) / other_sd).square() - 1) - ratio.log()


def normal_wasserstein2(mean: Tensor, sd: Tensor, other_mean: Tensor, other_sd: Tensor) -> Tensor:
    """2-Wasserstein distance of univariate normals, elementwise."""
    return torch.hypot(mean - other_mean, sd - other_sd)
