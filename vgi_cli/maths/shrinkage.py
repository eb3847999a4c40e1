"""What a covariance matrix of few rows is shrunk to: factors that several columns share, and the pairs of columns that
go together beyond these.

A sample correlation of n rows has an error of about n^-1/2, so that among many columns the matrix is mostly noise where
rows are few. Its large eigenvalues are no noise: factors are kept for those beyond sqrt(D / n) as Marchenko and Pastur
(1967) have it. Of what the factors leave (the correlations of their residuals) single large entries are kept and small
ones set to 0, smoothly (POET: Fan, Liao and Mincheva 2013; the adaptive lasso's rule of Rothman, Levina and Zhu 2009).
A column that goes with two others alone keeps these two, which a pull towards the columns' variances would shrink by as
much as noise.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

ROUNDS = 30
"""Of the principal axis method."""
MOST_SHARED = 0.98
"""Of a column's variance may be that of factors."""
POWER = 4
"""An entry z of the residual correlations whose threshold is t is brought nearer to 0 by t (t / z)^(POWER - 1): one
twice as large as its threshold loses a sixteenth."""
LEAST = 0.05
"""Eigenvalue of the residual correlations that is left: what is below is drawn towards independence."""


def factored(covariance: Tensor, rows: Tensor, *, pairs: bool) -> Tensor:
    """[D, D] a positive definite matrix of the same diagonal as a covariance matrix [D, D] (no variance may be 0), made
    of its factors and, with `pairs`, of what stands out beside them.

    rows  [D, D] in how many rows two columns were seen together
    """
    D = len(covariance)
    sd = covariance.diagonal().sqrt()
    correlation = covariance / torch.outer(sd, sd)
    typical = max(float(rows.sum() - rows.diagonal().sum()) / max(D * (D - 1), 1), 1.0)
    loadings = principal_axes(correlation, factors_beyond_noise(correlation, typical))
    shared = loadings @ loadings.mT
    own = (1 - shared.diagonal()).clamp(min=1 - MOST_SHARED)
    eye = torch.eye(D, dtype=covariance.dtype, device=covariance.device)
    rest = eye
    if pairs and D > 1:
        scale = own.sqrt()
        left = (correlation - shared) / torch.outer(scale, scale)
        threshold = (math.log(D) / rows.clamp(min=1.0)).sqrt()
        size = left.abs().clamp(min=1e-12)
        kept = left.sign() * (size - threshold**POWER / size ** (POWER - 1)).clamp(min=0.0)
        rest = kept - torch.diag(kept.diagonal()) + eye
        least = float(torch.linalg.eigvalsh(rest)[0])
        if least < LEAST:
            share = (LEAST - least) / (1 - least)
            rest = (1 - share) * rest + share * eye
    target = shared + torch.outer(own.sqrt(), own.sqrt()) * rest
    scale = sd / target.diagonal().sqrt()
    return target * torch.outer(scale, scale)


def factors_beyond_noise(correlation: Tensor, rows: float) -> int:
    """How many eigenvalues of a correlation matrix [D, D] of so many rows are larger than those of independent columns
    come to, (1 + sqrt(D / rows))^2; at most a third of the columns."""
    D = len(correlation)
    edge = (1 + math.sqrt(D / rows)) ** 2
    return min(int((torch.linalg.eigvalsh(correlation) > edge).sum()), D // 3)


def principal_axes(correlation: Tensor, L: int) -> Tensor:
    """[D, L] loadings of L factors of a correlation matrix [D, D], by the principal axis method: the eigenvectors of
    the matrix whose diagonal is what the factors explain, found in ROUNDS rounds."""
    D = len(correlation)
    loadings = correlation.new_zeros(D, L)
    if L == 0:
        return loadings
    explained = correlation.new_full((D,), 0.5)
    for _ in range(ROUNDS):
        values, vectors = torch.linalg.eigh(correlation - torch.diag(1 - explained))
        loadings = vectors[:, -L:] * values[-L:].clamp(min=0.0).sqrt()
        explained = loadings.square().sum(1).clamp(max=MOST_SHARED)
    return loadings * (explained / loadings.square().sum(1).clamp(min=1e-300)).sqrt().clamp(max=1.0)[:, None]
