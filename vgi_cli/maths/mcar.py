"""Little's test of whether cells are missing completely at random (MCAR), given the moments of the table.

R. J. A. Little, "A test of missing completely at random for multivariate data with missing values", JASA 83 (1988). If
cells are missing completely at random, the rows of every pattern of holes have the same mean. With n_j rows of pattern
j, their mean m_j over its observed columns, and the maximum-likelihood mean mu and covariance S of all rows,

    d2 = sum_j n_j (m_j - mu_j)' S_jj^-1 (m_j - mu_j)

follows for normal rows and many of each pattern a chi-squared law of sum_j k_j - k degrees of freedom; k_j is the
number of columns that pattern j has, k that of all. (The paper takes S N / (N - 1) for S; this takes S, as R's naniar
and misty do, so that their figures are found again.)
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from vgi_cli.maths.gaussian import observed_precision, patterns_of


class LittleTest(NamedTuple):
    """What the test gives.

    statistic  d2
    df         degrees of freedom
    p_value    chance of a d2 as large, if cells are missing completely at random and rows are normal
    patterns   number of patterns of holes
    rows       number of rows that have an observed cell
    fewest     the fewest rows that a pattern has
    """

    statistic: float
    df: int
    p_value: float
    patterns: int
    rows: int
    fewest: int


def little_test(x: Tensor, missing: Tensor, mean: Tensor, covariance: Tensor) -> LittleTest:
    """The test on rows x [N, D] with holes missing [N, D], by their maximum-likelihood mean [D] and covariance [D, D];
    float64. Rows without an observed cell do not count.

    Raises ValueError where no column is observed in rows of two patterns (nothing can be compared),
    torch.linalg.LinAlgError where a block of the covariance is not positive definite.
    """
    used = ~missing.all(1)
    x, missing = x[used], missing[used]
    patterns = patterns_of(missing)
    U, N, D = len(patterns.missing), len(x), x.shape[1]
    df = int((~patterns.missing).sum()) - D
    if df < 1:
        raise ValueError("no column is observed in rows of two patterns of holes: there is nothing to compare")
    rows = torch.bincount(patterns.of_row, minlength=U)
    delta = torch.where(missing, 0.0, x - mean)
    means = delta.new_zeros(U, D).index_add(0, patterns.of_row, delta) / rows[:, None]
    precision = observed_precision(covariance, patterns.missing).padded
    statistic = float((rows * torch.einsum("ud,ude,ue->u", means, precision, means)).sum())
    tail = torch.special.gammaincc(torch.tensor(df / 2, dtype=x.dtype), torch.tensor(statistic / 2, dtype=x.dtype))
    return LittleTest(statistic, df, float(tail), U, N, int(rows.min()))
