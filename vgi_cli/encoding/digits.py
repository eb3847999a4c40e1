"""How many significant digits the cells of a column have, where large ones have fewer decimals for that."""

from __future__ import annotations

import numpy as np

from vgi_cli.columns.base import ModelledColumn
from vgi_cli.columns.number import Number
from vgi_cli.columns.numerals import Floats, at_digits

MOST = 13
"""Significant digits at most: with more, what rounding leaves is no larger than what arithmetic does."""
MANY = 6
"""So many are not all that a cell has by chance, even where few cells could have more: programs write as many."""
SAME = 1e-15
"""Share of a value by which the nearest one with so many digits may be off, and be it."""


def significant_of(column: ModelledColumn, codes: Floats) -> int | None:
    """The significant digits to which a column of codes [N] is rounded (NaN: missing), where these and not its decimals
    are what its cells have in common; None where they are not."""
    if not isinstance(column, Number) or column.levels:
        return None
    values = np.unique(np.abs(codes[np.isfinite(codes) & (codes != 0)]))
    digits = _most(values)
    if digits is None:
        return None
    lattice = column.lattice
    if column.significant is not None:
        return digits
    if lattice is None or lattice.stand_in:
        return None if column.whole else digits
    could = values.max() >= 10.0 ** (digits - lattice.decimals)
    return digits if digits >= MANY and lattice.decimals > 0 and lattice.step == 1 and could else None


def _most(values: Floats) -> int | None:
    """Significant digits of that of some values [n] which has most; None where these are more than MOST, or there is no
    value."""
    for digits in range(1, MOST + 1) if len(values) else ():
        values = values[np.abs(at_digits(values, digits) - values) > SAME * values]
        if not len(values):
            return digits
    return None
