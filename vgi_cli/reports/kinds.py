"""Does a column look as if its kind were wrong: a key, a code, a mark for missing cells, numbers as categories?"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from vgi_cli.columns.base import ModelledColumn
from vgi_cli.columns.levelled import Levelled, number_of
from vgi_cli.columns.number import Number
from vgi_cli.columns.numerals import Bools, Floats, plain

FEWEST_ROWS = 30
"""Observed cells from which on a column is judged."""
MOST_CODES, CELLS_A_CODE = 60, 4
"""Different whole numbers of a column that may be a code, at most, and cells of a number from which on it is looked
at."""
CODE_GAIN = 0.25
"""What a column explains of another one as labels beyond what it explains as a quantity (a cubic, or the mean of the
values next to each), as a share of that column's variance: from here on it is called a code."""
CHANCE = 4.0
"""Standard deviations of the adjusted share that L labels explain of n cells by chance, sqrt(2 (L - 1)) / (n - L), that
are taken off: there may be hundreds of other columns to be explained, and few rows."""
MANY_LEVELS = 15
"""Levels that are all numbers, from which on categories without an order are called wrong."""


def suspicion(
    place: int, columns: Sequence[ModelledColumn], codes: Floats, numeric: Bools, values: Floats
) -> str | None:
    """Why the kind of a column may be wrong, in words; None: nothing says so.

    codes    [n, columns] of some rows, NaN at a hole
    numeric  [columns] which hold numbers
    values   the observed codes of the column in all rows
    """
    column = columns[place]
    if len(values) < FEWEST_ROWS:
        return None
    if isinstance(column, Levelled):
        numbers = [number_of(text) for text in column.texts]
        if not column.ordered and len(numbers) >= MANY_LEVELS and all(number is not None for number in numbers):
            return f"its {len(numbers)} categories are all numbers, of which the model sees neither order nor distance"
        return None
    if not isinstance(column, Number):
        return None
    if column.whole and _is_key(values):
        return "its values number the rows: a key, which nothing can predict"
    if (mark := _mark(values)) is not None:
        return f"{plain(mark)} stands far from all other values and is repeated: perhaps a mark for missing cells"
    if column.whole and (other := _explained_as_labels(place, codes, numeric)) is not None:
        return f"as labels its values explain '{columns[other].name}', as a quantity they do not: perhaps a code"
    return None


def _is_key(values: Floats) -> bool:
    """Whether all values differ and fill a range of whole numbers with next to no gap."""
    return len(np.unique(values)) == len(values) and values.max() - values.min() < 1.2 * len(values)


def _mark(values: Floats) -> float | None:
    """A value that two cells or more hold, at least three times the range of all others away from them."""
    distinct, counts = np.unique(values, return_counts=True)
    if len(distinct) < 4:
        return None
    for end, rest in ((0, distinct[1:]), (-1, distinct[:-1])):
        gap = abs(distinct[end] - rest[0 if end == 0 else -1])
        if counts[end] >= 2 and gap > 3 * (rest[-1] - rest[0]):
            return float(distinct[end])
    return None


def _explained_as_labels(place: int, codes: Floats, numeric: Bools) -> int | None:
    """The column of numbers that a column of few whole numbers explains as labels and not as a quantity; None: none."""
    own = codes[:, place]
    best, found = CODE_GAIN, None
    distinct = np.unique(own[np.isfinite(own)])
    if not 4 <= len(distinct) <= MOST_CODES:
        return None
    for other in np.flatnonzero(numeric):
        if other == place:
            continue
        both = np.isfinite(own) & np.isfinite(codes[:, other])
        x, y = _of_frequent(own[both], codes[both, other])
        labels, groups = np.unique(x, return_inverse=True)
        if len(labels) < 4 or y.std() == 0:
            continue
        L, n = len(labels), len(x)
        sums, counts = np.bincount(groups, y).astype(float), np.bincount(groups).astype(float)
        centred = (x - x.mean()) / x.std()
        cubic = np.polynomial.Polynomial.fit(centred, y, 3)(centred)
        beside = _neighbours(sums, counts)[groups]
        as_quantity = max(_explained(y, cubic, 4), _explained(y, beside, 1), 0.0)
        chance = CHANCE * math.sqrt(2 * (L - 1)) / max(n - L, 1)
        gain = _explained(y, (sums / counts)[groups], L) - as_quantity - chance
        if gain > best:
            best, found = gain, int(other)
    return found


def _of_frequent(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """The cells whose value in x is that of CELLS_A_CODE or more: the mean of one or two far cells explains these cells
    whatever x is."""
    _, place, counts = np.unique(x, return_inverse=True, return_counts=True)
    often = counts[place] >= CELLS_A_CODE
    return x[often], y[often]


def _neighbours(sums: Floats, counts: Floats) -> Floats:
    """[L] of each value in order the mean of the cells of the values next to it, its own left out: near the mean of its
    own where a column acts as a quantity, however bent, and unrelated to it where its values are labels."""
    padded, cells = np.pad(sums, 1), np.pad(counts, 1)
    return (padded[:-2] + padded[2:]) / (cells[:-2] + cells[2:])


def _explained(y: Floats, fitted: Floats, parameters: int) -> float:
    """Share of the variance of y that is explained, adjusted for the number of parameters."""
    n = len(y)
    left = float(np.square(y - fitted).sum()) / max(n - parameters, 1)
    return 1 - left / float(y.var(ddof=1))
