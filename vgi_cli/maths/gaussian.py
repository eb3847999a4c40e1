"""Gaussians under masks: marginals and conditionals for many patterns of holes at once, dense and factor-analytic.

The dense form works on the side of the holes, from the precision Q = S^-1 of the whole row: C = Q_mm^-1, the covariance
of the missing cells given the observed ones, set into a D x D matrix of zeros (`hole_covariance`). Its systems are as
small as the row's holes are few, and with it every quantity is a plain product. For delta = x - mean with zeros at the
holes and g = Q delta,

    delta' g - g' C g, log|S| + log|Q_mm|   are the quadratic form and the log determinant of the observed cells,
    delta - C g                             is the conditional mean less the mean,
    delta - C g + y + C Q y_o               is a conditional draw when y ~ N(0, S), at the holes   (Matheron's rule).

The factor-analytic form S = F F' + diag(psi) needs L x L systems only (Woodbury; paper, appendix "Expectation-
Maximisation for Factor Analysis with Incomplete Data"). Rows with the same holes share their systems.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

LOG_2PI = math.log(2.0 * math.pi)
WIDE, FEW = 100, 0.05
"""Size of a matrix, and part of it that its wanted eigenvectors are at most, from which on these are found by Lanczos'
method: all of a matrix of 200 columns take 5 ms and a few 1, of 2,000 columns two seconds and a tenth."""


class Patterns(NamedTuple):
    """The distinct patterns of holes of a table.

    missing  [U, D] bool, in lexicographic order
    of_row   [R] int64, the pattern of each row
    """

    missing: Tensor
    of_row: Tensor


def patterns_of(missing: Tensor) -> Patterns:
    """The distinct rows of a mask [R, D]."""
    if not missing.shape[1]:  # one pattern, of no dimension
        return Patterns(missing[:1], torch.zeros(len(missing), dtype=torch.int64, device=missing.device))
    unique, of_row = distinct_rows(missing.to(torch.int64), [2] * missing.shape[1])
    return Patterns(unique.to(missing.dtype), of_row)


def distinct_rows(rows: Tensor, counts: Sequence[int]) -> tuple[Tensor, Tensor]:
    """The distinct ones among rows [R, n] (int64) in lexicographic order, and the place of each row there [R]; column i
    holds numbers from 0 to counts[i] - 1. Where one number of 63 bits can stand for a row, which is some ten times as
    quick as comparing rows, it does."""
    if math.prod(counts) >= 2**63:
        distinct, of_row = torch.unique(rows, dim=0, return_inverse=True)
        return distinct, of_row
    place, base = _digits(tuple(counts), rows.device)
    keys, of_row = torch.unique((rows * place).sum(1), return_inverse=True)
    return keys[:, None] // place % base, of_row


@functools.lru_cache(maxsize=64)
def _digits(counts: tuple[int, ...], device: torch.device) -> tuple[Tensor, Tensor]:
    """[n] what each digit of a number stands for whose digits are below `counts`, and these."""
    below = [math.prod(counts[i + 1 :]) for i in range(len(counts))]
    place, base = (torch.tensor(part, dtype=torch.int64, device=device) for part in (below, list(counts)))
    return place, base


class HoleCovariance(NamedTuple):
    """The missing cells given the observed ones, under K Gaussians and each pattern.

    padded  [K, U, D, D] their covariance, zero in the rows and columns of observed cells
    logdet  [K, U] the logarithm of the determinant of its inverse Q_mm (0 where nothing is missing)
    """

    padded: Tensor
    logdet: Tensor


class HoleBlocks(NamedTuple):
    """The n patterns that have m holes each, m at least 1.

    patterns  [n] their numbers
    cells     [n * m * m] where the block of their holes lies in a D x D matrix, row by row
    places    [n * m * m] the same in U such matrices, each in that of its pattern
    """

    patterns: Tensor
    cells: Tensor
    places: Tensor


def hole_blocks(missing: Tensor) -> list[HoleBlocks]:
    """Patterns [U, D] by their number of holes."""
    D = missing.shape[1]
    count = missing.sum(1)
    order = torch.argsort(count, stable=True)
    columns = missing[order].nonzero()[:, 1]
    blocks = []
    row = start = 0
    for m, n in enumerate(torch.bincount(count).tolist()):
        if m and n:
            patterns, holes = order[row : row + n], columns[start : start + n * m].view(n, m)
            cells = (holes[:, :, None] * D + holes[:, None, :]).flatten(1)
            blocks.append(HoleBlocks(patterns, cells.view(-1), (cells + patterns[:, None] * (D * D)).view(-1)))
        row, start = row + n, start + n * m
    return blocks


def hole_covariance(precision: Tensor, missing: Tensor, blocks: Sequence[HoleBlocks] | None = None) -> HoleCovariance:
    """Conditional covariances from precisions Q [K, D, D] of whole rows, under patterns [U, D].

    Patterns with the same number of holes are one batch of systems of just that size (`blocks`: those of `missing`,
    where they are known). Raises torch.linalg.LinAlgError where a block is not positive definite.
    """
    (K, D), U = precision.shape[:2], missing.shape[0]
    flat = precision.flatten(1)
    padded, logdet = flat.new_zeros(K, U * D * D), flat.new_zeros(K, U)
    for patterns, cells, places in hole_blocks(missing) if blocks is None else blocks:
        n = len(patterns)
        m = math.isqrt(len(cells) // n)
        factor = torch.linalg.cholesky(flat.index_select(1, cells).view(K, n, m, m))
        logdet.index_copy_(1, patterns, 2 * factor.diagonal(dim1=-2, dim2=-1).log().sum(-1))
        padded.index_copy_(1, places, torch.cholesky_inverse(factor).reshape(K, -1))
    return HoleCovariance(padded.view(K, U, D, D), logdet)


class Precision(NamedTuple):
    """The observed block of one covariance under each pattern.

    padded  [U, D, D] its inverse, zero in the rows and columns of missing cells
    logdet  [U] the logarithm of its determinant (0 where nothing is observed)
    """

    padded: Tensor
    logdet: Tensor


def observed_precision(covariance: Tensor, missing: Tensor) -> Precision:
    """Padded precisions of a covariance [D, D] under patterns [U, D].

    Rows and columns of missing cells are replaced by those of the identity, which leaves the determinant of the
    observed block and its inverse as they are. Raises torch.linalg.LinAlgError where a block is not positive definite.
    """
    o = (~missing).to(covariance.dtype)
    pairs = o[:, :, None] * o[:, None, :]
    factor = torch.linalg.cholesky(covariance * pairs + torch.diag_embed(1 - o))
    logdet = 2 * factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    return Precision(torch.cholesky_inverse(factor) * pairs, logdet)


def apply_by_pattern(matrices: Tensor, of_row: Tensor | None, delta: Tensor) -> Tensor:
    """matrices[k, of_row[r]] @ delta[k, r] for each row: [K, U, D, E], [R] (None: each row has its own), [K, R, E] ->
    [K, R, D].

    One product a pattern, which costs some ten microseconds each; or the matrices gathered by row (unless they lie that
    way already), which costs three nanoseconds a number: the cheaper way is taken.
    """
    U, R = matrices.shape[1], delta.shape[1]
    if of_row is None:
        return (matrices @ delta[..., None])[..., 0]
    if R * matrices[0, 0].numel() < 3000 * U:
        return (matrices[:, of_row] @ delta[..., None])[..., 0]
    order = torch.argsort(of_row, stable=True)
    counts = torch.bincount(of_row, minlength=U).tolist()
    pairs = zip(delta[:, order].split(counts, 1), matrices.unbind(1), strict=True)
    return torch.cat([rows @ matrix.mT for rows, matrix in pairs], 1)[:, torch.argsort(order)]


class FactorPosterior(NamedTuple):
    """z | x_obs ~ N(mean, (C C')^-1) of K factor models, and the density of the observed cells.

    mean      [K, R, L]
    cholesky  [K, U, L, L] lower factors C of the posterior precisions, by pattern
    log_prob  [K, R] log p(x_obs)
    """

    mean: Tensor
    cholesky: Tensor
    log_prob: Tensor


def factor_posterior(F: Tensor, log_psi: Tensor, delta: Tensor, patterns: Patterns) -> FactorPosterior:
    """Latent posteriors of K factor models under masks.

    F [K, D, L]; log_psi [K, D]; delta [K, R, D] = x - mean, anything finite at missing cells. Equations
    (em-stats-sigmazobs) and (em-stats-muzobs) of the paper's appendix. The quadratic form is taken as
    sum (delta - F m)^2 / psi + |m|^2, which cannot cancel.
    """
    o = (~patterns.missing).to(F.dtype)
    L = F.shape[-1]
    observed = o[patterns.of_row]
    scaled = F * torch.exp(-log_psi)[:, :, None]
    outer = (scaled[:, :, :, None] * F[:, :, None, :]).flatten(2)  # [K, D, L * L]
    precision = (o @ outer).unflatten(2, (L, L)) + torch.eye(L, dtype=F.dtype, device=F.device)
    cholesky = torch.linalg.cholesky(precision)
    right = (delta * observed) @ scaled
    mean = torch.cholesky_solve(right[..., None], cholesky[:, patterns.of_row])[..., 0]
    residual = (delta - mean @ F.mT) * observed
    quadratic = (residual.square() * torch.exp(-log_psi)[:, None, :]).sum(-1) + mean.square().sum(-1)
    logdet = (o @ log_psi.mT).mT + 2 * cholesky.diagonal(dim1=-2, dim2=-1).log().sum(-1)  # [K, U]
    constant = LOG_2PI * o.sum(-1)
    log_prob = -0.5 * (quadratic + (logdet + constant)[:, patterns.of_row])
    return FactorPosterior(mean, cholesky, log_prob)


def factor_precision(F: Tensor, log_psi: Tensor) -> tuple[Tensor, Tensor]:
    """Dense precisions [K, D, D] of K factor models and log determinants [K] of their covariances.

    F [K, D, L]; log_psi [K, D].
    """
    inverse = torch.exp(-log_psi)
    scaled = F * inverse[:, :, None]
    eye = torch.eye(F.shape[-1], dtype=F.dtype, device=F.device)
    cholesky = torch.linalg.cholesky(eye + scaled.mT @ F)
    half = torch.linalg.solve_triangular(cholesky, scaled.mT, upper=False)
    logdet = log_psi.sum(-1) + 2 * cholesky.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    return torch.diag_embed(inverse) - half.mT @ half, logdet


def greatest(matrices: Tensor, L: int) -> tuple[Tensor, Tensor]:
    """The L greatest eigenvalues [K, L] of symmetric matrices [K, D, D], ascending, and their vectors [K, D, L]."""
    D = matrices.shape[-1]
    if D >= WIDE and L <= FEW * D:
        found = [_by_lanczos(matrix, L) for matrix in matrices]
        values, vectors = (torch.stack(part) for part in zip(*found, strict=True))
        return values, vectors
    values, vectors = torch.linalg.eigh(matrices)
    return values[:, -L:], vectors[:, :, -L:]


def _by_lanczos(matrix: Tensor, L: int) -> tuple[Tensor, Tensor]:
    """As `greatest`, of one matrix; by all of its eigenvectors where that does not settle, or cannot be repeated bit
    for bit (SciPy before 1.17 goes on at random from an invariant subspace)."""
    import numpy as np
    from scipy.sparse.linalg import ArpackError, eigsh

    begin = np.random.default_rng(0).normal(size=len(matrix))
    try:
        values, vectors = eigsh(matrix.cpu().numpy(), L, which="LA", v0=begin, rng=np.random.default_rng(1))
    except (ArpackError, TypeError):
        values, vectors = (part.cpu().numpy() for part in torch.linalg.eigh(matrix))
        values, vectors = values[-L:], vectors[:, -L:]
    return torch.tensor(values).to(matrix), torch.tensor(vectors).to(matrix)
