"""Rows that follow each other in time: neighbours are alike beyond what their dates say, and no model of rows knows."""

from __future__ import annotations

import numpy as np

from vgi_cli.columns.datetime import Moment
from vgi_cli.columns.number import Number
from vgi_cli.columns.numerals import Floats, mean_ranks
from vgi_cli.columns.schema import Schema
from vgi_cli.columns.wording import named
from vgi_cli.table.base import Table

ROWS, MOST_ROWS, COLUMNS = 40, 1_000_000, 50
"""Fewest and most rows, and columns, in which a series is looked for."""
EVEN = 0.6
"""Share of the steps in time that are the usual one: a series of days may lack some."""
DEGREE = 5
"""Of the polynomial in time that is taken off first: a model of rows has the date, and learns a trend."""
ALIKE, SURELY = 0.3, 5.0
"""Least correlation of neighbours, and how many standard errors of one that is 0 it is at least."""


def series(table: Table, schema: Schema) -> list[str]:
    """A line where the rows are the moments of a series, and neighbours are alike in columns with holes."""
    if not ROWS <= table.N <= MOST_ROWS:
        return []
    for column in [one for one in schema.encoded if isinstance(one, Moment) and one.kind in ("date", "datetime")]:
        moments = column.codes(table.column(column.name))
        order = np.argsort(moments)[: int(np.isfinite(moments).sum())]
        steps = np.diff(moments[order])
        if len(order) < ROWS or not (steps > 0).all():
            continue
        usual = np.abs(steps - np.median(steps)) <= 0.1 * np.median(steps)  # months and quarters differ in length
        if usual.mean() < EVEN:
            continue
        found = {}
        for other in [one for one in schema.encoded if isinstance(one, Number)][:COLUMNS]:
            values = other.codes(table.column(other.name))
            if table.missing(other.name).any():
                r = _neighbours(values[order], moments[order], usual)
                if r is not None:
                    found[other.name] = r
        if found:
            what = f"neighbours are alike in {named('column', tuple(found))} (correlation {max(found.values()):.2f}"
            return [
                f"rows follow each other in '{column.name}', and {what} beyond a trend): each row is filled as if by "
                "itself; columns with the values before and after it tell the model"
            ]
    return []


def _neighbours(values: Floats, moments: Floats, usual: np.ndarray) -> float | None:
    """The correlation of the ranks of neighbours [n] that are one usual step apart, where it is clear."""
    seen = np.isfinite(values)
    if seen.sum() < ROWS:
        return None
    ranks = np.full(len(values), np.nan)
    ranks[seen] = mean_ranks(values[seen]) / seen.sum()
    time = 2 * (moments - moments[0]) / (moments[-1] - moments[0]) - 1
    trend = np.polynomial.Chebyshev.fit(time[seen], ranks[seen], DEGREE)
    left = ranks - trend(time)
    pairs = seen[1:] & seen[:-1] & usual
    if pairs.sum() < ROWS:
        return None
    r = float(np.corrcoef(left[:-1][pairs], left[1:][pairs])[0, 1])
    return r if r >= ALIKE and r * np.sqrt(pairs.sum()) >= SURELY else None
