"""Rubin's rules for one quantity at a time.

D. Rubin, *Multiple Imputation for Nonresponse in Surveys* (1987), chapter 3; degrees of freedom: J. Barnard and
D. Rubin, *Small-sample degrees of freedom with multiple imputation*, Biometrika 86 (1999). Symbols here: m imputations,
P quantities (terms), k of them in a test.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Combined:
    """P quantities, each combined over m imputations; every array is [P].

    estimate  mean of the estimates
    within    W, mean of their squared standard errors
    between   B, variance of the estimates between imputations (divisor m - 1)
    total     T = W + (1 + 1/m) B
    riv       (1 + 1/m) B / W: the relative increase in variance due to the missing data
    share     (1 + 1/m) B / T: the share of the variance that is due to them (lambda)
    df        degrees of freedom of the t distribution of (estimate - truth) / sqrt(T); may be infinite
    fmi       fraction of missing information, (riv + 2 / (df + 3)) / (riv + 1)
    """

    estimate: Floats
    within: Floats
    between: Floats
    total: Floats
    riv: Floats
    share: Floats
    df: Floats
    fmi: Floats


def combine(estimates: Floats, variances: Floats, df_complete: float = np.inf) -> Combined:
    """Combine estimates [m, P] with squared standard errors [m, P]; m is at least 2, variances are positive.

    df_complete  degrees of freedom that the analysis would have without missing data, such as rows less parameters
    """
    m = len(estimates)
    within, between = variances.mean(0), estimates.var(0, ddof=1)
    extra = (1 + 1 / m) * between
    total = within + extra
    riv, share = extra / within, extra / total
    df = barnard_rubin(m - 1, share, within / total, df_complete)
    fmi = (riv + 2 / (df + 3)) / (riv + 1)
    return Combined(estimates.mean(0), within, between, total, riv, share, df, fmi)


def barnard_rubin(between: float, share: Floats, kept: Floats, df_complete: float) -> Floats:
    """[P] degrees of freedom where missing data make `share` [P] of the variance, and leave `kept` [P] of it, which is
    1 - share, but not 0 where that is less than the rounding of 1.

    between  those of the variance between the imputations: m - 1, of one quantity

    Of those of the imputations, between / share², and those that the observed cells leave of `df_complete` the harmonic
    sum. Nothing is added where `share` is zero. R's mice takes a share below 0.0001 for 0.0001, which changes `df` by
    about that part.
    """
    with np.errstate(divide="ignore", over="ignore"):
        imputed = between / np.square(share)
        if np.isinf(df_complete):
            return np.asarray(imputed)
        return np.asarray(1 / (1 / imputed + 1 / (observed_df(df_complete) * kept)))


def observed_df(df_complete: float) -> float:
    """Barnard and Rubin's (v + 1) / (v + 3) · v, what complete data with v degrees of freedom are worth."""
    return (df_complete + 1) / (df_complete + 3) * df_complete
