"""Which of many values are taken."""

from __future__ import annotations

import numpy as np

from vgi_cli.columns.numerals import Floats, Ints


def evenly(count: int, most: int) -> Ints:
    """Places of `count` values, ascending: of all, or of `most` that are evenly spread, the first and the last of them
    too."""
    return np.linspace(0, count - 1, min(count, most)).astype(np.int64)


def by_chance(chance: Floats, count: int) -> Ints:
    """Places of `count` values that random numbers from 0 to 1 say, each as often."""
    return np.asarray(np.minimum((chance * count).astype(np.int64), count - 1))
