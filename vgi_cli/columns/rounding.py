"""Find out to which values a column is rounded."""

from __future__ import annotations

import math

import numpy as np

from vgi_cli.columns.base import Lattice
from vgi_cli.columns.numerals import EXACT, Floats, decimals_of


def find_lattice(values: Floats, some: Floats, decimals: int | None, *, search: bool, single: bool) -> Lattice | None:
    """The lattice of observed values [n], or None where they are not decimal fractions of at most 15 digits.

    some      those of the values, the least of which is written down as the origin
    decimals  most decimals that the values are spelled with; with `search`, find them from the values instead
    single    the values come from float32

    The spacing is the greatest common divisor of the differences (heights to the nearest 5, codes 2 and 4) when enough
    values say so: eight distinct ones, or eight of each on average; else one unit of the last decimal.
    """
    if search:
        decimals = decimals_of(values, single=single)
    if decimals is None or decimals > 300 or float(np.abs(values).max()) * 10.0**decimals >= EXACT:
        return None
    units = np.rint(values * 10.0**decimals).astype(np.int64)
    distinct = np.unique(units)
    origin = int(distinct[0])
    step = 1
    if len(distinct) > 1 and (len(distinct) >= 8 or len(units) >= 8 * len(distinct)):
        step = int(np.gcd.reduce(distinct - origin))
    lattice = Lattice(decimals, step, int(np.rint(some.min() * 10.0**decimals)))
    return lattice if bool((lattice.snap(values) == values).all()) else None


def has_repeats(values: Floats) -> bool:
    """Whether values repeat as no density does: half of them are repeats, or one value holds 2 % (and five cells)."""
    distinct, counts = np.unique(values, return_counts=True)
    return bool(len(distinct) <= 0.5 * len(values) or counts.max() >= max(0.02 * len(values), 5))


def stand_in(sd: float) -> Lattice:
    """The lattice for a column that has repeats but no resolution: 1e-5 to 1e-4 standard deviations, from zero."""
    return Lattice(math.ceil(4 - math.log10(sd)), 1, 0)
