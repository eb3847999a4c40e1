"""Rows that follow each other in time: neighbours are alike beyond what their dates say, and no model of rows knows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from vgi_cli.columns.base import Carried
from vgi_cli.columns.datetime import Moment
from vgi_cli.columns.levelled import Levelled
from vgi_cli.columns.number import Number
from vgi_cli.columns.numerals import Bools, Floats, Ints, mean_ranks
from vgi_cli.columns.schema import Schema
from vgi_cli.columns.wording import named
from vgi_cli.table.base import Table

ROWS, MOST_ROWS, COLUMNS = 40, 1_000_000, 50
"""Fewest and most rows, and columns, in which a series is looked for."""
ROWS_A_TERM = 5
"""Rows of a series for each term of its trend: of few a lower degree is taken off."""
EVEN = 0.6
"""Share of the steps in time that are the usual one: a series of days may lack some."""
REPEATED = 0.01
"""Share of the steps, or one, that may be none: clocks that go back in autumn write an hour twice."""
DEGREE = 5
"""Of the polynomial in time that is taken off first: a model of rows has the date, and learns a trend. Of several
series it is one for all, and each has a level of its own."""
SHARED = 2.0
"""Rows for each value of a column of whole numbers from which on it may count the moments of several series (years)."""
GROUP_ROWS, GROUPS = 10, 200
"""Fewest rows of a group in which a series is looked for, and the number of groups, the first ones, that are taken."""
MOSTLY = 0.5
"""Share of the rows that are in such groups, from which on a column names groups that are series."""
ALIKE, SURELY = 0.3, 5.0
"""Least correlation of neighbours, and how many standard errors of one that is 0 it is at least."""


class _Series(NamedTuple):
    """Rows in the order of their moments, of one series after the other.

    rows     [n] which rows of the table
    moments  [n] of each
    several  whether these are the series of groups, however many
    starts   where each series begins, and the end
    usual    [n - 1] whether the next row is of the same series, and one usual step later
    """

    rows: Ints
    moments: Floats
    several: bool
    starts: Ints
    usual: Bools


def series(table: Table, schema: Schema) -> list[str]:
    """A line where the rows, or those of each group that a column names, are the moments of a series, and neighbours
    are alike in columns with holes which other columns do not tell."""
    if not ROWS <= table.N <= MOST_ROWS:
        return []
    moments = [one for one in schema.encoded if isinstance(one, Moment) and one.kind in ("date", "datetime")]
    codes = [(one.name, one.codes(table.column(one.name))) for one in moments]
    for name, own in codes:
        if line := _said(table, schema, _ordered(own), name, "rows"):
            return [line]
    codes += _counts(table, schema)
    for group, places in _groups(table, schema) if codes else ():
        for name, own in codes:
            what = f"the rows of each level of '{group}'"
            if name != group and (line := _said(table, schema, _ordered(own, places), name, what)):
                return [line]
    return []


def _counts(table: Table, schema: Schema) -> list[tuple[str, Floats]]:
    """The columns of whole numbers that may count moments, years above all, each [N]: rows share their values."""
    found = []
    for column in [one for one in schema.encoded if isinstance(one, Number)][:COLUMNS]:
        codes = column.codes(table.column(column.name))
        known = codes[np.isfinite(codes)]
        if (known == np.floor(known)).all() and len(known) >= SHARED * len(np.unique(known)):
            found.append((column.name, codes))
    return found


def _groups(table: Table, schema: Schema) -> Iterator[tuple[str, Ints]]:
    """The columns of levels, of ids and of other texts that may name series, and of each row [N] the number of its
    group, -1 where it has none."""
    found = 0
    for column in schema.columns:
        able = isinstance(column, Levelled) or (isinstance(column, Carried) and column.role in ("data", "id"))
        if not able or column.name not in table.names or found == COLUMNS:
            continue
        cells = table.column(column.name)
        if isinstance(column, Levelled):
            codes = column.codes(cells)
            places = np.where(np.isfinite(codes), codes, -1).astype(np.int64)
        elif cells.textual and cells.levelled:
            places = np.where(table.missing(column.name), -1, cells.distinct.places).astype(np.int64)
        else:
            continue
        counts = np.bincount(places[places >= 0])
        large = counts >= GROUP_ROWS
        if large.sum() >= 2 and counts[large].sum() >= MOSTLY * table.N:
            found += 1
            kept = np.flatnonzero(large)[:GROUPS]
            yield column.name, np.where(np.isin(places, kept), places, -1)


def _ordered(moments: Floats, groups: Ints | None = None) -> _Series | None:
    """The rows of groups [N] (-1: of none; None: one series of all) in the order of their moments [N]; None where these
    are no series: many rows at one moment, or steps of all lengths."""
    several = groups is not None
    groups = np.zeros(len(moments), np.int64) if groups is None else groups
    known = np.flatnonzero(np.isfinite(moments) & (groups >= 0))
    rows = known[np.lexsort((moments[known], groups[known]))]
    if len(rows) < ROWS:
        return None
    own, steps = groups[rows], np.diff(moments[rows])
    within = own[1:] == own[:-1]
    if not within.any() or (steps[within] == 0).sum() > max(1, REPEATED * within.sum()):
        return None
    step = np.median(steps[within])
    usual = within & (np.abs(steps - step) <= 0.1 * step)  # months and quarters differ in length
    if usual.sum() < EVEN * within.sum():
        return None
    starts = np.flatnonzero(np.concatenate([[True], ~within, [True]]))
    return _Series(rows, moments[rows], several, starts, usual)


def _said(table: Table, schema: Schema, order: _Series | None, by: str, what: str) -> str | None:
    """The line on columns with holes in which neighbours are alike; None where there is none. by: the column of the
    moments; what: which rows follow each other."""
    if order is None:
        return None
    found = {}
    told = {one.names[0] for one in schema.relations if one.coded} | {one.name for one in schema.lookups}
    told |= {by} | {one.names[1] for one in schema.relations if one.how == "levels"}
    for other in [one for one in schema.encoded if isinstance(one, Number)][:COLUMNS]:
        values = other.codes(table.column(other.name))
        if table.missing(other.name).any() and other.name not in told and not _constant(values[order.rows], order):
            r = _neighbours(values[order.rows], order)
            if r is not None:
                found[other.name] = r
    if not found:
        return None
    return (
        f"{what} follow each other in '{by}', and neighbours are alike in {named('column', tuple(found))} "
        f"(correlation {max(found.values()):.2f} beyond a trend): each row is filled as if by "
        "itself; columns with the values before and after it tell the model"
    )


def _constant(values: Floats, order: _Series) -> bool:
    """Whether values [n] are the same within each series, which a model of rows knows by its name."""
    known = np.isfinite(values)
    seen, place = values[known], np.repeat(np.arange(len(order.starts) - 1), np.diff(order.starts))[known]
    return bool((seen[1:] == seen[:-1])[place[1:] == place[:-1]].all())


def _neighbours(values: Floats, order: _Series) -> float | None:
    """The correlation of the ranks of neighbours [n] that are one usual step apart, where it is clear."""
    seen = np.isfinite(values)
    if seen.sum() < ROWS:
        return None
    ranks = np.full(len(values), np.nan)
    ranks[seen] = mean_ranks(values[seen]) / seen.sum()
    left = _beyond_trend(ranks, order.moments)
    if order.several:
        for start, end in zip(order.starts[:-1].tolist(), order.starts[1:].tolist(), strict=True):
            own = left[start:end]
            own -= own[np.isfinite(own)].mean() if np.isfinite(own).any() else 0.0
    pairs = np.isfinite(left[1:]) & np.isfinite(left[:-1]) & order.usual
    if pairs.sum() < ROWS:
        return None
    before, after = left[:-1][pairs], left[1:][pairs]
    if not (before.std() > 0 and after.std() > 0):
        return None
    r = float(np.corrcoef(before, after)[0, 1])
    return r if r >= ALIKE and r * np.sqrt(pairs.sum()) >= SURELY else None


def _beyond_trend(ranks: Floats, moments: Floats) -> Floats:
    """Ranks [n] less their trend, NaN where they are, and where too few are there to tell one."""
    seen = np.isfinite(ranks)
    degree = min(DEGREE, int(seen.sum()) // ROWS_A_TERM - 1)
    first, last = moments.min(), moments.max()
    if degree < 0 or last == first:
        return np.full(len(ranks), np.nan)
    time = 2 * (moments - first) / (last - first) - 1
    return np.asarray(ranks - np.polynomial.Chebyshev.fit(time[seen], ranks[seen], degree)(time))
