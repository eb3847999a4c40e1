"""Kullback-Leibler divergence and 2-Wasserstein distance: of Gaussians in closed form (and the rotation of factors), of
univariate distributions by quadrature, many rows at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

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


REACH, LEVELS = 6.0, 121
"""q is seen at this many equally spaced standard normal values up to REACH."""
ROUNDS, MORE = 2, 96
"""Refinements of the grid for p, and points that each adds where p has its mass."""


class Transport(NamedTuple):
    """q of R rows as the law of T(u), u standard normal, T increasing: values and slopes [R, LEVELS] at the levels."""

    value: Tensor
    slope: Tensor

    @staticmethod
    def levels() -> Tensor:
        """The standard normal values [LEVELS], float64, symmetric about 0."""
        return torch.linspace(-REACH, REACH, LEVELS, dtype=torch.float64)


def compare_univariate(q: Transport, log_p: Callable[[Tensor], Tensor], points: Tensor) -> tuple[Tensor, Tensor]:
    """(KL(q || p), 2-Wasserstein distance), each [R], float64.

    log_p   log density of p at values [R, P] -> [R, P], up to a constant a row: it is normalised here
    points  [R, P] where to look for p first, besides where q is; the grid is then refined where p has its mass

    KL = E_u[log N(u) - log T'(u) - log p(T(u))], by the trapezium rule in u; W2^2 = E_u[(T(u) - P^-1(Phi(u)))^2], the
    distribution function P by the trapezium rule on the grid.
    """
    u = Transport.levels().to(q.value)
    grid = torch.cat([q.value, points], 1)
    height = _clean(log_p(grid))
    at_q = height[:, : len(u)]
    grid, order = grid.sort(1)
    height = height.gather(1, order)
    for _ in range(ROUNDS):
        more = _quantiles(grid, _cumulative(grid, height)[0], _shares(MORE, grid))
        grid, order = torch.cat([grid, more], 1).sort(1)
        height = torch.cat([height, _clean(log_p(more))], 1).gather(1, order)
    share, log_mass = _cumulative(grid, height)
    weight = (-0.5 * u.square()).exp()
    weight = weight / weight.sum()
    normal_log_prob = -0.5 * u.square() - 0.5 * torch.log(torch.tensor(2 * torch.pi, dtype=u.dtype))
    kl = (weight * (normal_log_prob - q.slope.log() - at_q)).sum(1) + log_mass
    gap = q.value - _quantiles(grid, share, torch.special.ndtr(u).expand_as(q.value))
    return kl.clamp(min=0.0), (weight * gap.square()).sum(1).sqrt()


def _clean(log_p: Tensor) -> Tensor:
    """Where a density is no number it is taken as 0."""
    return log_p.double().nan_to_num(nan=-torch.inf, posinf=-torch.inf, neginf=-torch.inf)


def _shares(count: int, like: Tensor) -> Tensor:
    """[R, count] shares in (0, 1), equally spaced in normal scores: tails count for the distance."""
    shares: Tensor = torch.special.ndtr(torch.linspace(-5, 5, count, dtype=like.dtype))
    return shares.expand(len(like), -1)


def _cumulative(grid: Tensor, height: Tensor) -> tuple[Tensor, Tensor]:
    """Share of the mass below each point [R, P] and the logarithm of the mass [R], from log densities [R, P]."""
    top = height.amax(1, keepdim=True)
    top = torch.where(torch.isfinite(top), top, 0.0)
    density = (height - top).exp()
    pieces = 0.5 * (density[:, 1:] + density[:, :-1]) * grid.diff(dim=1)
    total = pieces.sum(1, keepdim=True)
    below = torch.nn.functional.pad(pieces.cumsum(1), (1, 0)) / total.clamp(min=1e-300)
    return below, total[:, 0].log() + top[:, 0]


def _quantiles(grid: Tensor, share: Tensor, level: Tensor) -> Tensor:
    """[R, Q] where the distribution function, linear between points, reaches the levels [R, Q]."""
    right = torch.searchsorted(share.contiguous(), level.contiguous()).clamp(1, grid.shape[1] - 1)
    low, high = share.gather(1, right - 1), share.gather(1, right)
    start, end = grid.gather(1, right - 1), grid.gather(1, right)
    part = ((level - low) / (high - low).clamp(min=1e-300)).clamp(0, 1)
    return start + part * (end - start)
