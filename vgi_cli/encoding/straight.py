"""Columns that go together so closely along a line that bending each towards a normal distribution by a map of its own
would tear them apart: dates of one stay, a minimum and a maximum, the same measured twice.

A column of dates over two years knows the other one to days. Bent by maps that were learnt from the columns, each with
an error of its own, the two know each other to weeks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from vgi_cli.columns.base import Column, ModelledColumn
from vgi_cli.columns.datetime import Moment
from vgi_cli.columns.number import Number
from vgi_cli.columns.numerals import Bools, Floats, Ints
from vgi_cli.columns.places import evenly
from vgi_cli.columns.scale import codec
from vgi_cli.encoding.redundant import EXACT, ROUNDING, half_digit, pairwise_r
from vgi_cli.table.base import Table

FEWEST = 30
"""Rows in which two columns are observed: with fewer they are bent."""
CLOSE, WORSE = 0.02, 2.0
"""Two columns are left as they are where a line leaves at most this share of the variance of one, and so many times as
much of it once they are bent."""
EVEN = 4.0
"""Times as far from a line as the smaller half of the values the larger half may be."""
ROWS, MOST = 2_000, 100
"""Rows by which that is decided, evenly spread, and columns up to which it is asked."""


def torn(table: Table, columns: Sequence[Column], rows: Bools | None, *, logs: bool = False) -> list[tuple[int, bool]]:
    """The places of columns, bent to normal, that are nearer to a line with another one if neither is bent, and whether
    they are so as logarithms, where these are taken.

    rows  [N] which rows decide; None: all
    logs  only those of which logarithms are taken, whatever the others are
    """
    numbers = [(i, one) for i, column in enumerate(columns) if (one := all_numbers(column)) is not None]
    able = np.array([bool(one.scale.logs or (one.scale.knots and not logs)) for _, one in numbers], bool)
    if not logs:
        numbers, able = [one for one, bent in zip(numbers, able, strict=True) if bent], able[able]
    if not 1 < len(numbers) <= MOST or not able.any():
        return []
    some = some_rows(table, rows)
    straight, unbent, bent = np.empty((3, len(some), len(numbers)))
    for j, (i, number) in enumerate(numbers):
        codes = observed_codes(table, columns[i], some)
        straight[:, j], bent[:, j] = codes, codec(number.scale).encode(codes)
        unbent[:, j] = codec(replace(number.scale, knots=())).encode(codes)
    left, left_logs, left_bent = _left(straight), _left(unbent), _left(bent)
    halves = [half_digit(cast(ModelledColumn, columns[i])) for i, _ in numbers]
    open_by = np.array(halves) / [number.deviation for _, number in numbers]
    left_bent[left <= np.square(ROUNDING * (open_by + open_by[:, None]) + EXACT)] = 0.0  # one says the other, rounded
    over = np.array([number.scale.logs is not None for _, number in numbers], bool)
    close, close_logs = (_close(one, left_bent) for one in (left, left_logs))
    for i, j in np.argwhere(close & over[:, None] & over).tolist():
        close[i, j] = _even(straight[:, i], straight[:, j])
    least, least_logs = np.where(close, left, np.inf).min(0), np.where(close_logs, left_logs, np.inf).min(0)
    found = np.flatnonzero(np.isfinite(np.minimum(least, least_logs)) & able).tolist()
    return [(numbers[j][0], bool(over[j] and least_logs[j] < least[j])) for j in found]


def _close(left: Floats, left_bent: Floats) -> Bools:
    """[columns, columns] whether a line leaves little of one column, and much less than of the bent one."""
    close = (left <= CLOSE) & (left_bent > WORSE * left)
    np.fill_diagonal(close, False)
    return close


def _even(x: Floats, y: Floats) -> bool:
    """Whether values over decades [N] are about as far from a line through others where these are small as where they
    are large. If not, the line is that of the few largest, and says nothing of the others."""
    both = np.isfinite(x) & np.isfinite(y)
    x, y = x[both], y[both]
    large = x > np.median(x)
    away = np.abs(y - np.median(y[large] / x[large]) * x)
    return bool(np.median(away[large]) <= EVEN * np.median(away[~large]))


def some_rows(table: Table, rows: Bools | None) -> Ints:
    """Which rows decide how columns go together, ROWS of `rows` [N] at most; None: of all."""
    every = np.arange(table.N) if rows is None else np.flatnonzero(rows)
    return every[evenly(len(every), ROWS)]


def observed_codes(table: Table, column: Column, some: Ints) -> Floats:
    """The numbers [n] of a column of `all_numbers` in some rows [n]; NaN where a cell is missing."""
    cells = table.column(column.name)
    return np.asarray(np.where(cells.missing, np.nan, column.codes(cells))[some])  # type: ignore[attr-defined]


def all_numbers(column: Column) -> Number | None:
    """The numbers of a column that is encoded as numbers, all of it."""
    number = column.number if isinstance(column, Moment) else column
    if not isinstance(number, Number) or number.pile is not None or number.ranked or number.scale is None:
        return None
    return number


def _left(x: Floats) -> Floats:
    """[columns, columns] the share of the variance of one column of x [N, columns] that a line through another one
    leaves, in the rows that have both; 1 of too few."""
    return 1 - np.square(correlations(x))


def sizes(x: Floats) -> Floats:
    """[columns] the greatest numbers of columns of x [N, columns], or a number of x [N], but above 0: by which they are
    divided where squares may overflow."""
    return np.asarray(np.maximum(np.nanmax(np.abs(x), 0, initial=0.0), np.finfo(float).tiny))


def correlations(x: Floats) -> Floats:
    """[columns, columns] correlations of x [N, columns] in the rows that have both columns; 0 of too few."""
    n, r = pairwise_r(x / sizes(x))
    return np.where((n >= FEWEST) & np.isfinite(r), r, 0.0)
