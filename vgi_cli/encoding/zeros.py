"""Zeros that may stand for missing cells: far below all other values of a column, none of which is near zero (a body
mass index of 0), and those of other columns that stand beside all of them.

True zeros (no rain, no cigarettes, a dose of 0, a control group) go on to small values, are many, or stand beside a few
values with gaps as wide as that above zero.
"""

from __future__ import annotations

import math

import numpy as np

from vgi_cli.columns.numerals import Bools, Floats

FEWEST_OTHERS, MOST = 20, 0.3
"""Different values beside such a zero at least, and the share of cells that hold it at most: of more, many are true."""
DEVIATIONS, STEPS = 1.2, 3.0
"""How far the least other value is above zero: so many standard deviations of the others, and so many times the widest
step from one of these to the next in their lower half."""
FEWEST_BESIDE, CHANCE, STEPS_BESIDE = 5, 1e-6, 1.5
"""Such zeros that another column's zeros stand beside, without exception, at least; the probability of that by chance;
and how many such steps the zeros of that one lie below its other values."""


def zero_far_below(values: Floats) -> bool:
    """Whether zeros of some finite values lie far below all others, none of which is near zero."""
    zero = values == 0
    if not 0 < zero.sum() <= MOST * len(zero):
        return False
    others = values[~zero]
    return len(np.unique(others)) >= FEWEST_OTHERS and others.min() > DEVIATIONS * others.std() and _gap(others) > STEPS


def zero_beside(zero: Bools, values: Floats) -> bool:
    """Whether zeros of values [N] (NaN: missing), none of them negative, stand beside all of some others [N], and may
    stand for missing cells as these do."""
    known = np.isfinite(values)
    held, others = values[zero & known], values[known & (values != 0)]
    if len(held) < FEWEST_BESIDE or held.any() or len(np.unique(others)) < FEWEST_OTHERS or others.min() < 0:
        return False
    by_chance = len(held) * math.log((values == 0).sum() / known.sum())
    return by_chance < math.log(CHANCE) and _gap(others) > STEPS_BESIDE


def _gap(values: Floats) -> float:
    """How many times as far the least of some positive values is above zero as the widest step between neighbours among
    the lower half of them."""
    distinct = np.unique(values)
    return float(distinct[0] / np.diff(distinct[: len(distinct) // 2 + 1]).max())
