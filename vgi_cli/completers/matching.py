"""Predictive mean matching: holes take observed values of rows for which nearly the same was predicted (Little 1988;
van Buuren 2018, section 3.4)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from vgi_cli.completers.base import Values


def matched(
    predicted: Values, values: Values, wanted: Values, neighbours: int, rng: np.random.Generator
) -> npt.NDArray[np.float64]:
    """For each wanted prediction [n] the value of a random one of the nearest donors.

    predicted, values  [P] predictions and observed values of the donors
    neighbours         how many donors are drawn from; at most all

    Among equal predictions, of which trees make many, chance decides who is near: all are moved by at most 1e-9 of
    their range.
    """
    tie = 1e-9 * max(float(np.ptp(predicted)), 1e-9)
    predicted = predicted + tie * rng.random(len(predicted))
    wanted = wanted + tie * rng.random(len(wanted))
    order = np.argsort(predicted)
    predicted, values = predicted[order], values[order]
    count = min(neighbours, len(predicted))
    window = np.searchsorted(predicted, wanted)[:, None] + np.arange(-count, count)
    inside = (window >= 0) & (window < len(predicted))
    window = window.clip(0, len(predicted) - 1)
    distance = np.where(inside, np.abs(predicted[window] - wanted[:, None]), np.inf)
    nearest = np.argpartition(distance, count - 1, axis=1)[:, :count]
    chosen = np.take_along_axis(nearest, rng.integers(count, size=(len(wanted), 1)), 1)
    return np.asarray(values[np.take_along_axis(window, chosen, 1)[:, 0]])


def matched_together(
    predicted: Values, values: Values, wanted: Values, neighbours: int, rng: np.random.Generator
) -> npt.NDArray[np.float64]:
    """As `matched`, for predictions of several numbers: predicted [P, L], wanted [n, L]."""
    from scipy.spatial import cKDTree

    tie = 1e-9 * max(float(np.ptp(predicted)), 1e-9)
    count = min(neighbours, len(predicted))
    near = cKDTree(predicted + tie * rng.random(predicted.shape))
    _, nearest = near.query(wanted, k=np.arange(1, count + 1))
    return np.asarray(values[nearest[np.arange(len(wanted)), rng.integers(count, size=len(wanted))]])
