"""Levels: a few whole numbers with gaps between them (codes 1, 7, 13, 99; engines of 3, 4, 5, 6 and 8 cylinders).

A density over the whole numbers in between would put most fills where nothing is. So such values are numbered from 0,
and the numbers are spread over their cells and modelled: every level has as much room as any other, and reading back,
everything in its cell is the level itself.
"""

from __future__ import annotations

import numpy as np

from vgi_cli.columns.numerals import Floats

MOST = 12
"""Distinct values that levels are at most."""
CELLS = 3
"""Cells that each value beside a gap holds at least ..."""
LACKING = 5
"""... and cells that would lie in the gap if the values there were as frequent as the rarer one beside it: with five,
there is none by chance in 0.7 % of such gaps. The tail of a count (0, 1, 2, 3, 5, 8, 14 children) has gaps too, because
its values are rare: those beside them occur once or twice."""


def find_levels(values: Floats, resolution: float) -> tuple[float, ...]:
    """The levels among observed whole numbers [n] of a column of that resolution, smallest first; none: empty.

    Levels are at most MOST distinct values of which some neighbours lie farther apart than the spacing of the column
    (multiples of 5 have no gaps), and each gap is one in which values are lacking: see CELLS and LACKING.
    """
    distinct, counts = np.unique(values, return_counts=True)
    if not 1 < len(distinct) <= MOST:
        return ()
    between = np.rint(np.diff(distinct) / resolution) - 1
    rarer = np.minimum(counts[:-1], counts[1:])
    empty = (rarer >= CELLS) & (rarer * between >= LACKING)
    return tuple(distinct.tolist()) if (between > 0).any() and empty[between > 0].all() else ()


def mostly_gaps(levels: tuple[float, ...], resolution: float) -> bool:
    """Whether fewer than half of the values that the column could have between its ends are levels."""
    return 2 * len(levels) < (levels[-1] - levels[0]) / resolution + 1


def numbers_of(values: Floats, levels: tuple[float, ...]) -> Floats:
    """The number of each value's level, the nearest one where it is none."""
    middles = 0.5 * (np.array(levels[:-1]) + np.array(levels[1:]))
    return np.searchsorted(middles, values).astype(np.float64)


def levels_at(numbers: Floats, levels: tuple[float, ...]) -> Floats:
    """The levels with the nearest numbers."""
    return np.array(levels)[np.clip(np.rint(numbers), 0, len(levels) - 1).astype(np.int64)]
