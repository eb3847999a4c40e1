"""Pooled tests of k parameters at once: D1 from covariances, D2 from test statistics, D3 from likelihood ratios.

D1: K. Li, T. Raghunathan and D. Rubin, JASA 86 (1991); its degrees of freedom where those of the complete data are
known: J. Reiter, Biometrika 94 (2007). D2: K. Li, X.-L. Meng, T. Raghunathan and D. Rubin, Statistica Sinica 1 (1991).
D3: X.-L. Meng and D. Rubin, Biometrika 79 (1992). All three compare F with k and df2 degrees of freedom, and take the
fraction of missing information for the same in all k directions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vgi_cli.errors import InputError
from vgi_cli.pooling.rubin import Floats, barnard_rubin, observed_df

SINGULAR = 1e-10
"""Least eigenvalue of the terms' correlations with which they can be tested: of terms that repeat one another it is
rounding, 1e-15 or so."""


@dataclass(frozen=True)
class Hypothesis:
    """A test that k parameters are zero.

    method     `D1`, `D2` or `D3`
    statistic  to be compared with an F distribution
    df1, df2   its degrees of freedom: k, and of the denominator (may be infinite)
    p_value    probability of a statistic that is larger
    riv        average relative increase in variance due to the missing data
    """

    method: str
    statistic: float
    df1: int
    df2: float
    p_value: float
    riv: float


def d1(estimates: Floats, covariances: Floats, df_complete: float = np.inf) -> Hypothesis:
    """The Wald test of estimates [m, k] with covariance matrices [m, k, k]; of one parameter it is the t test.

    The strongest of the three where covariances are at hand. InputError where their mean cannot be inverted, or m is 1.
    """
    m, k = estimates.shape
    _require_two("D1", m)
    mean, within = estimates.mean(0), covariances.mean(0)
    deviations = estimates - mean
    between = deviations.T @ deviations / (m - 1)
    riv = (1 + 1 / m) * float(np.trace(_solve(within, between))) / k
    statistic = float(mean @ _solve(within, mean)) / (k * (1 + riv))
    return _tested("D1", statistic, k, _df_of_wald(m, k, riv, df_complete), riv)


def d2(statistics: Floats, k: int) -> Hypothesis:
    """From m statistics [m], one for each imputation, that are chi-square with k degrees of freedom where the k
    parameters are zero: Wald's, the likelihood ratio's, Pearson's. Weaker than D1 and D3, and may be off by a factor of
    two in the p-value. InputError where one of them is negative, or m is 1."""
    _require_two("D2", len(statistics))
    if not (np.isfinite(statistics).all() and (statistics >= 0).all()):
        raise InputError("D2: the statistics of a chi-square test are finite and not negative", "look at each fit")
    m = len(statistics)
    riv = (1 + 1 / m) * float(np.sqrt(statistics).var(ddof=1))
    statistic = (float(statistics.mean()) / k - (m + 1) / (m - 1) * riv) / (1 + riv)
    df2 = k ** (-3 / m) * (m - 1) * _square_of_inverse(1, riv)
    return _tested("D2", statistic, k, df2, riv)


def d3(own: Floats, at_pooled: Floats, k: int) -> Hypothesis:
    """From two likelihood-ratio statistics for each imputation, both [m]: 2 (log L of the full model - log L of the
    model without the k parameters).

    own        each model at its own estimates in that imputation
    at_pooled  each model at the means of its estimates over the imputations

    InputError where m is 1.
    """
    m = len(own)
    _require_two("D3", m)
    mean = float(at_pooled.mean())
    riv = max(0.0, (m + 1) / (k * (m - 1)) * (float(own.mean()) - mean))
    return _tested("D3", mean / (k * (1 + riv)), k, _df_of_large_samples(m, k, riv), riv)


def wald(estimates: Floats, covariances: Floats) -> Floats:
    """[m] Wald's statistics, chi-square with k degrees of freedom, of estimates [m, k] with covariances [m, k, k]."""
    return np.array([float(q @ _solve(u, q)) for q, u in zip(estimates, covariances, strict=True)])


def _require_two(method: str, m: int) -> None:
    """InputError where nothing tells how far imputations lie apart."""
    if m < 2:
        raise InputError(f"{method}: pooling needs two imputations or more, got {m}", "test each of several fits")


def _solve(matrix: Floats, right: Floats) -> Floats:
    """matrix⁻¹ right. InputError where the matrix is no covariance that can be inverted: also where it is singular but
    for rounding, which would decide the test."""
    sd = np.sqrt(np.maximum(np.diag(matrix), 0.0))
    scale = np.where(sd > 0, sd, 1.0)
    correlation = matrix / scale / scale[:, None]
    if not float(np.linalg.eigvalsh(correlation)[0]) > SINGULAR:
        raise InputError(
            "the covariance matrix of the terms that are tested is not positive definite",
            "test fewer terms, or look at the fits: a term may repeat others",
        )
    each = scale if right.ndim == 1 else scale[:, None]
    return np.asarray(np.linalg.solve(correlation, right / each) / each)


def _tested(method: str, statistic: float, k: int, df2: float, riv: float) -> Hypothesis:
    from scipy import special

    if statistic <= 0 or df2 == 0:
        p_value = 1.0
    elif np.isinf(df2):
        p_value = float(special.chdtrc(k, k * statistic))
    else:
        p_value = float(special.fdtrc(k, df2, statistic))
    return Hypothesis(method, statistic, k, df2, p_value, riv)


def _square_of_inverse(factor: float, riv: float) -> float:
    """(1 + factor / riv)²; infinite where nothing is added by missing data."""
    return np.inf if riv == 0 else (1 + factor / riv) ** 2


def _df_of_large_samples(m: int, k: int, riv: float) -> float:
    """Degrees of freedom of the denominator of D1 and D3 where complete data would have infinitely many."""
    t = k * (m - 1)
    if t > 4:
        return 4 + (t - 4) * _square_of_inverse(1 - 2 / t, riv)
    return t * (1 + 1 / k) / 2 * _square_of_inverse(1, riv)


def _df_of_wald(m: int, k: int, riv: float, df_complete: float) -> float:
    """Degrees of freedom of the denominator of D1.

    Reiter's formula needs t = k (m - 1) > 4, and complete data worth more than 4 (1 + a) degrees of freedom. Elsewhere,
    and for one parameter, it is Barnard and Rubin's number at the average increase `riv`, in which the imputations
    count (k + 1) / 2 times: the rule of Li et al. for t up to 4, joined with what the observed cells leave of
    `df_complete`. It is never more than complete data are worth.
    """
    t = k * (m - 1)
    if np.isinf(df_complete) and k > 1:
        return _df_of_large_samples(m, k, riv)
    worth = observed_df(df_complete)
    a = riv * t / (t - 2) if t > 4 else np.inf
    spare = worth - 4 * (1 + a)
    if k == 1 or spare <= 0:
        share, kept = np.array(riv / (1 + riv)), np.array(1 / (1 + riv))
        return float(barnard_rubin((k + 1) / 2 * (m - 1), share, kept, df_complete))
    more = worth - 2 * (1 + a)
    terms = (
        a**2 * more / ((1 + a) ** 2 * spare)
        + 8 * a**2 * more / ((1 + a) * spare**2)
        + 4 * a**2 / ((1 + a) * spare)
        + 4 * a**2 / (spare * more)
        + 16 * a**2 * more / spare**3
        + 8 * a**2 / spare**2
    )
    return 4 + 1 / (1 / spare + terms / (t - 4))
