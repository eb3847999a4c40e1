"""Scores of imputations that several benchmarks print."""

from __future__ import annotations

import numpy as np


def fair_crps(draws: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Fair ensemble CRPS (Ferro 2014) of m draws [m, C] against truth [C]; the absolute error where m = 1."""
    m = len(draws)
    error = np.abs(draws - truth).mean(0)
    if m == 1:
        return error
    rank = 2 * np.arange(1, m + 1) - m - 1
    spread = (np.sort(draws, 0) * rank[:, None]).sum(0)  # = sum over pairs i < j of |x_i - x_j|
    return error - spread / (m * (m - 1))
