"""Rounded columns that others follow as they are written: terms of 12, 24 or 36 months, amounts in steps of 500, doses.

A rounded number stands for all that rounds to it, and within these bounds nobody knows where it lies. So what follows
from an age in years is known as well as the age, to half a year. Of a term it is not: 24 months are no 19 or 29 that
were rounded, and a payment follows from 24. Spread over all that would round to it, such a column says of others less
than it knows, and they are filled with an error that no row has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from vgi_cli.columns.base import Column
from vgi_cli.columns.levelled import Levelled
from vgi_cli.columns.number import Number
from vgi_cli.columns.numerals import Bools, Floats, Ints
from vgi_cli.encoding.redundant import half_digit
from vgi_cli.encoding.straight import FEWEST, MOST, correlations, observed_codes, sizes, some_rows
from vgi_cli.table.base import Table

LESS = 0.75
"""Share of the variance that the spread of a column would leave of another one, at most which is left of it: as much as
is spread is the least that a rounded number leaves."""
CHANCE = 2.0
"""Standard errors by which what is left may be less by chance."""
COARSE = 0.01
"""Mean width of the cells of a column, in its standard deviations, from which on it is looked at."""
GAIN, CLOSE = 0.05, 0.5
"""Share of what is left of a column's variance that another predictor says of it, at the least; and of all of it that
they say together, by correlations of the rows that have each two."""
MOSTLY = 0.5
"""Share of the rows in which a predictor has to be observed."""
PREDICTORS = 5
"""By how many others, one number or one level each, a column is described at most."""
KNOWN, EXACT = 2.0, 1e-6
"""Times the error of its own rounding, and share of its standard deviation, up to which a column follows exactly: that
is a relation, and kept as such, or two columns are rounded alike, and each says the other one as well as it is
written."""
OUTLYING, KEPT = 4.0, 0.95
"""Robust standard deviations beyond which a row counts as an error of its own, and share of the rows that are none."""
LEFT, NARROWEST = 0.05, 1e-3
"""Share of what is left of another column that a column leaves which is spread by less; by which part of its cells it
is spread at the least."""
LEVELS = 10
"""Most levels of a column that are looked at, each by itself."""


def sharp_among(table: Table, columns: Sequence[Column], rows: Bools | None) -> list[tuple[int, float]]:
    """The places of rounded columns that others follow as they are written, and the width in data units by which their
    values are spread for it.

    A column of numbers, or its logarithm, is regressed on up to PREDICTORS others (numbers and their logarithms,
    levels). Where one of these moves over a cell of its own, what is said of the column moves as well: evenly spread,
    that alone leaves a variance. If much less than that is left, the column follows the number that is written.

    rows  [N] which rows decide; None: all
    """
    numbers = [(i, one) for i, one in enumerate(columns) if isinstance(one, Number) and one.pile is None]
    coarse = [j for j, (_, one) in enumerate(numbers) if _is_coarse(one)]
    if not coarse or not 1 < len(numbers) <= MOST:
        return []
    some = some_rows(table, rows)
    codes = np.stack([observed_codes(table, one, some) for _, one in numbers], 1)
    units = sizes(codes)
    pool = _Pool.of(codes / units, [_indicators(table, one, some) for one in columns if isinstance(one, Levelled)])
    cells = {j: _widths(numbers[j][1], codes[:, j]) / units[j] for j in coarse}
    parts: dict[int, float] = {}
    for j, (_, one) in enumerate(numbers):
        found = [pool.followed(form, half_digit(one) / float(units[j]), cells) for form in pool.forms(j)]
        if None not in found:
            for k, part in (said for one_form in found if one_form for said in one_form.items()):
                parts[k] = min(part, parts.get(k, 1.0))
    return [(numbers[k][0], part * _narrowest(numbers[k][1])) for k, part in sorted(parts.items())]


def _is_coarse(column: Number) -> bool:
    """Whether the values of a column are spread over cells that are not narrow beside its spread."""
    usual = column.noisy and not column.unrounded and column.heaps is None
    return usual and _narrowest(column) >= COARSE * column.deviation


def _narrowest(column: Number) -> float:
    """The width of the narrowest cells of a rounded column, data units."""
    return float(np.diff(column.levels).min()) if column.levels else column.step


def _widths(column: Number, codes: Floats) -> Floats:
    """[n] how wide the cells of values [n] of a column are: of one of few levels half-way to its neighbours."""
    if not column.levels:
        return np.full(len(codes), column.step)
    gaps = np.diff(column.levels)
    width = 0.5 * (np.append(gaps[0], gaps) + np.append(gaps, gaps[-1]))
    return np.asarray(width[np.searchsorted(column.levels, np.where(np.isnan(codes), column.levels[0], codes))])


def _indicators(table: Table, column: Levelled, some: Ints) -> Floats:
    """[n, levels] which level each cell of a column holds, but for the first level; NaN where it is missing."""
    place = observed_codes(table, column, some)
    own = np.unique(place[~np.isnan(place)])
    if not 1 < len(own) <= LEVELS:
        return np.empty((len(some), 0))
    return np.where(np.isnan(place)[:, None], np.nan, place[:, None] == own[1:])


class _Pool(NamedTuple):
    """What columns may be described by, and as what.

    x          [n, parts] numbers, their logarithms where all are positive, and indicators of levels
    of_number  [parts] of which column of numbers a part is; -1: of levels
    logs       [parts] whether it is a logarithm
    r          [parts, parts] correlations
    """

    x: Floats
    of_number: list[int]
    logs: list[bool]
    r: Floats

    @classmethod
    def of(cls, codes: Floats, indicators: Sequence[Floats]) -> _Pool:
        positive = np.flatnonzero(np.nanmin(codes, 0, initial=np.inf) > 0).tolist()
        x = np.concatenate([codes, np.log(codes[:, positive]), *indicators], 1)
        levels = x.shape[1] - codes.shape[1] - len(positive)
        logs = [False] * codes.shape[1] + [True] * len(positive) + [False] * levels
        return cls(x, [*range(codes.shape[1]), *positive, *[-1] * levels], logs, correlations(x))

    def forms(self, j: int) -> list[int]:
        """The parts that are a column of numbers: as it is, and its logarithm."""
        return [part for part, of in enumerate(self.of_number) if of == j]

    def followed(self, described: int, half: float, cells: Mapping[int, Floats]) -> dict[int, float] | None:
        """Which columns a part follows as they are written, and over which part of their cells they are spread so that
        it is; None where others say it exactly. half: of the last digit of its column; cells: how wide [n] those of the
        columns are."""
        chosen = self._predictors(described)
        if not any(self.of_number[k] in cells for k in chosen):
            return {}
        by = sorted(
            {form for k in chosen for form in ([k] if self.of_number[k] < 0 else self.forms(self.of_number[k]))}
        )
        y, rows = self.x[:, described], np.asarray(np.isfinite(self.x[:, [described, *by]]).all(1))
        fit = _fit(y, self.x[:, by], rows)
        if fit is None:
            return {}
        weights, rows, left = fit
        with np.errstate(over="ignore"):  # of what is far smaller than its last digit counts elsewhere
            digit = half**2 / 3 * (np.square(1 / np.exp(y[rows])).mean() if self.logs[described] else 1.0)
        if left <= max(KNOWN**2 * digit, EXACT**2 * float(y[rows].var())):
            return None
        most = left * (1 + CHANCE * np.sqrt(2 / (rows.sum() - len(by) - 1)))
        found = dict[int, float]()
        for k in sorted({self.of_number[part] for part in by} & cells.keys()):
            moved = np.zeros(rows.sum())
            for part, weight in zip(by, weights, strict=True):
                if self.of_number[part] == k:
                    unit = np.exp(-self.x[rows, part]) if self.logs[part] else 1.0
                    moved += weight * unit * cells[k][rows]
            spread = float(np.square(moved).mean()) / 12
            if most <= LESS * spread:
                found[k] = max(float(np.sqrt(LEFT * left / spread)), NARROWEST)
        return found

    def _predictors(self, described: int) -> list[int]:
        """The parts by which a part is described, those of other columns, as correlations choose them one after the
        other among those that are observed in most rows of the ones before; none where these say too little of it."""
        r, by = self.r.copy(), list[int]()
        own, seen = np.array(self.of_number) == self.of_number[described], np.isfinite(self.x)
        rows = seen[:, described]
        for _ in range(PREDICTORS):
            room = np.diag(r)
            few = seen[rows].mean(0) < MOSTLY
            said = np.where(own | few | (room < GAIN), 0.0, np.square(r[described]) / np.maximum(room, GAIN))
            said[by] = 0.0
            k = int(said.argmax())
            if said[k] <= GAIN * max(float(r[described, described]), 0.0):
                break
            by.append(k)
            rows = rows & seen[:, k]
            r = r - np.outer(r[:, k], r[k]) / r[k, k]
        return by if r[described, described] <= 1 - CLOSE else []


def _fit(y: Floats, x: Floats, rows: Bools) -> tuple[Floats, Bools, float] | None:
    """The weights [parts] of y [n] on x [n, parts] in some rows [n], which of these count, and the variance that is
    left in them; None of too few. Rows far off, a few slips, do not count."""
    for again in (False, True):
        if rows.sum() < FEWEST + x.shape[1]:
            return None
        design = np.column_stack([np.ones(rows.sum()), x[rows]])
        weights = np.linalg.lstsq(design, y[rows], rcond=None)[0]
        off = np.full(len(y), np.inf)
        off[rows] = np.abs(y[rows] - design @ weights)
        if again:
            return weights[1:], rows, float(np.square(off[rows]).sum()) / (rows.sum() - x.shape[1] - 1)
        near = off <= OUTLYING * 1.4826 * np.median(off[rows])
        rows = near if near.sum() >= KEPT * rows.sum() else rows
    return None
