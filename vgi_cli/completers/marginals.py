"""Imputers that look at one column at a time: the weakest baselines, `empirical` and `mean`."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from vgi_cli.completers.base import Ask, Holes, Values, never


def empirical(x: Values, missing: Holes, seed: int, settings: Mapping[str, int | None], give_up: Ask = never) -> Values:
    """Each hole is an independent draw from the observed values of its column (see TableImputer)."""
    rng = np.random.default_rng(seed)
    filled = x.copy()
    for column, absent in enumerate(missing.T):
        seen, holes = x[~absent, column], int(absent.sum())
        filled[absent, column] = rng.choice(seen, holes) if len(seen) else rng.standard_normal(holes)
    return filled


def mean(x: Values, missing: Holes, seed: int, settings: Mapping[str, int | None], give_up: Ask = never) -> Values:
    """Each hole is the mean of the observed values of its column; nothing here is random (see TableImputer)."""
    seen = np.maximum((~missing).sum(0), 1)
    return np.where(missing, np.where(missing, 0.0, x).sum(0) / seen, x)
