"""Do several chains tell the same? Split R-hat and effective sample size of their traces."""

from __future__ import annotations

import math

import numpy as np

from vgi_cli.columns.numerals import Floats

FEWEST = 4
"""States of a half chain from which on these numbers mean something."""


def halves(traces: Floats) -> Floats:
    """[2 K, T // 2] the first and the last half of each of K traces [K, T]."""
    half = traces.shape[1] // 2
    return np.concatenate([traces[:, :half], traces[:, traces.shape[1] - half :]])


def split_rhat(traces: Floats) -> float:
    """Split R-hat of K chains [K, T] (Gelman et al., Bayesian Data Analysis, third edition, section 11.4): the square
    root of the variance over all half chains by that within them; 1 where they tell the same. Infinite where no chain
    moves and they differ; 1 where nothing differs at all; NaN for half chains of fewer than FEWEST states."""
    parts = halves(traces)
    n = parts.shape[1]
    if n < FEWEST:
        return math.nan
    within = float(parts.var(axis=1, ddof=1).mean())
    between = float(parts.mean(axis=1).var(ddof=1))
    scale = float(np.abs(parts).max()) or 1.0
    if within <= (1e-12 * scale) ** 2:
        return 1.0 if between <= (1e-12 * scale) ** 2 else math.inf
    return math.sqrt((n - 1) / n + between / within)


def effective_size(traces: Floats) -> float:
    """Effective sample size of K chains [K, T] together, from the autocorrelations of their halves, which are summed
    while pairs of them stay positive and do not grow (Geyer 1992; as in the book above, section 11.5). At most K T
    log10(K T); NaN for half chains of fewer than FEWEST states, 0 where no chain moves."""
    parts = halves(traces)
    m, n = parts.shape
    if n < FEWEST:
        return math.nan
    within = float(parts.var(axis=1, ddof=1).mean())
    variance = (n - 1) / n * within + float(parts.mean(axis=1).var(ddof=1))
    if within <= 0 or variance <= 0:
        return 0.0
    centred = parts - parts.mean(axis=1, keepdims=True)
    size = 2 ** math.ceil(math.log2(2 * n))
    spectrum = np.abs(np.fft.rfft(centred, size, axis=1)) ** 2
    covariance = np.fft.irfft(spectrum, size, axis=1)[:, :n].mean(0) / n
    rho = 1 - (within - covariance) / variance
    rho[0] = 1.0
    total, before = 0.0, math.inf
    for t in range(0, n - 1, 2):
        pair = float(rho[t] + rho[t + 1])
        if pair < 0:
            break
        before = min(before, pair)
        total += before
    draws = m * n
    return float(draws / max(2 * total - 1, 1 / math.log10(draws)))
