"""Columns of numbers in two units: heights of 1.44 to 2.01 (metres) beside others of 146 to 193 (centimetres)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from vgi_cli.columns.number import Number
from vgi_cli.columns.numerals import Floats
from vgi_cli.columns.schema import Schema
from vgi_cli.columns.wording import Alarm, folded
from vgi_cli.encoding.codes import as_written, explained_by_relations, suspected_codes
from vgi_cli.encoding.redundant import codes_of
from vgi_cli.table.base import Table

FACTORS = (10, 100, 1000)
"""By how much one unit is another one."""
FEWEST = 5
"""Different numbers in each unit, at least."""
ALIKE = 2.0
"""In one unit the standard deviations of both groups differ by that factor at most, and neither begins or ends farther
beyond the other than that part of its width (the inverse of this); the means lie no farther apart than one of these
deviations. All of it of logarithms."""


class _Split(NamedTuple):
    """Two groups of values, the larger ones `factor` times the others as far as these may be told."""

    low: Floats
    high: Floats
    factor: int


def two_units(table: Table, schema: Schema) -> list[str]:
    """A line on each column whose numbers are two groups with nothing between them that agree when one is multiplied by
    a power of ten; codes for missing cells, and columns whose numbers others explain, aside."""
    explained, coded = explained_by_relations(schema), suspected_codes(table, schema)
    lines = []
    for column in schema.encoded:
        if isinstance(column, Number) and column.name not in explained:
            values = codes_of(table, column)
            found = _split(values[np.isfinite(values) & ~np.isin(values, [*coded[column.name]])])
            if found is not None:
                ends = [as_written(table, column, float(one)) for own in found[:2] for one in (own.min(), own.max())]
                count, more = f"{len(found.low):,} cells are from", f"{len(found.high):,} from"
                line = (
                    f"column '{column.name}' may be in two units: {count} {ends[0]} to {ends[1]}, {more} {ends[2]} to "
                    f"{ends[3]}, {found.factor:,} times as much; write all in one, or fills will be in neither"
                )
                lines.append((column.name, line))
    return [Alarm(line) for line in folded(lines)]


def _split(values: Floats) -> _Split | None:
    """Finite values of a column as numbers in two units; None where they are not."""
    if len(values) < 2 * FEWEST or values.min() <= 0 or values.max() < FACTORS[0] * values.min():
        return None
    distinct = np.unique(values)
    steps = np.diff(np.log(distinct))
    at = int(steps.argmax()) + 1
    if min(at, len(distinct) - at) < FEWEST:
        return None
    low, high = values[values < distinct[at]], values[values >= distinct[at]]
    factor = next((one for one in FACTORS if _agree(np.log(low) + math.log(one), np.log(high))), None)
    wide = max(np.ptp(np.log(low)), np.ptp(np.log(high)))
    return None if factor is None or steps.max() <= wide else _Split(low, high, factor)


def _agree(first: Floats, second: Floats) -> bool:
    """Whether two groups of logarithms may be of one quantity in one unit."""
    (a, b), (low, high) = (first.std(), second.std()), (first.min() - second.min(), first.max() - second.max())
    near = max(abs(low), abs(high)) <= max(np.ptp(first), np.ptp(second)) / ALIKE
    return bool(max(a, b) <= ALIKE * min(a, b) and near and abs(first.mean() - second.mean()) <= max(a, b))
