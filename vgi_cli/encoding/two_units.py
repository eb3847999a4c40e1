"""Columns of numbers in two units: heights of 1.44 to 2.01 (metres) beside others of 146 to 193 (centimetres), and
glucose in mg/dl beside mmol/l."""

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

TENS = (10, 100, 1000)
"""Powers of ten by which one unit may be another one."""
MIXED = {18.02: "mg/dl and mmol/l of glucose", 88.4: "µmol/l and mg/dl of creatinine"}
NEAR = {3.6: "km/h and m/s", 2.54: "cm and inches", 2.2046: "pounds and kg", 1.609: "km and miles"}
"""Other factors, and the units that people mix; those that are near 1, as two groups of one unit may be by chance."""
DEGREES, ZERO, FAHRENHEIT = 1.8, 32.0, "degrees Fahrenheit and Celsius"
HOTTEST = 1e6
"""Numbers that may be degrees, at most: squares of others may overflow."""
FEWEST = 5
"""Different numbers in each unit, at least."""
ALIKE = 2.0
"""In one unit the standard deviations of both groups differ by that factor at most, and neither begins or ends farther
beyond the other than that part of its width (the inverse of this); the means lie no farther apart than one of these
deviations. All of it of logarithms."""
ERRORS, KNOWN = 3.0, 0.05
"""By a factor that is near 1 the means, and the logarithms of the deviations, differ by so many standard errors at
most; the factor is to be known from the means by that share."""
PARTS = 12
"""Of the span of logarithms, one of which at least is empty where there are two groups: the gap is a third of it."""


class _Split(NamedTuple):
    """Two groups of values, and by how much the larger ones are the others, in words."""

    low: Floats
    high: Floats
    much: str


def two_units(table: Table, schema: Schema) -> list[str]:
    """A line on each column whose numbers are two groups with nothing between them that agree when one is multiplied by
    a power of ten, or by the factor of two units that people mix; codes for missing cells, and columns whose numbers
    others explain, aside."""
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
                    f"{ends[3]}, {found.much}; write all in one, or fills will be in neither"
                )
                lines.append((column.name, line))
    return [Alarm(line) for line in folded(lines)]


def _split(values: Floats) -> _Split | None:
    """Finite values of a column as numbers in two units; None where they are not."""
    if len(values) < 2 * FEWEST or values.min() <= 0 or values.max() < min(NEAR) * values.min():
        return None
    logs = np.log(values)
    if np.bincount(((logs - logs.min()) / np.ptp(logs) * PARTS).astype(int), minlength=PARTS).min() > 0:
        return None
    distinct = np.unique(values)
    steps = np.diff(np.log(distinct))
    at = int(steps.argmax()) + 1
    if min(at, len(distinct) - at) < FEWEST:
        return None
    low, high = values[values < distinct[at]], values[values >= distinct[at]]
    if steps.max() <= max(np.ptp(np.log(low)), np.ptp(np.log(high))):
        return None
    much = _much(low, high)
    return None if much is None else _Split(low, high, much)


def _much(low: Floats, high: Floats) -> str | None:
    """By how much of two groups of values the larger ones are the others, in words; None: by no factor of two units."""
    small, large = np.log(low), np.log(high)
    ratio = float(large.mean() - small.mean())
    error = ERRORS * math.sqrt(small.var() / len(small) + large.var() / len(large))
    off = {factor: abs(ratio - math.log(factor)) for factor in (*TENS, *MIXED, *NEAR)}
    for factor in sorted(off, key=lambda one: (one not in TENS or off[one] > error, off[one])):
        moved = small + math.log(factor)
        if _agree(moved, large) and (factor not in NEAR or _exactly(moved, large, KNOWN)):
            units = {**MIXED, **NEAR}.get(factor)
            others = [
                f", or {one:,} times ({own}?)" for one, own in MIXED.items() if one != factor and off[one] <= error
            ]
            return f"{factor:,} times as much" + (f" ({units}?)" if units is not None else "".join(others))
    if (
        high.max() <= HOTTEST
        and _agree(low, (high - ZERO) / DEGREES)
        and _exactly(low, (high - ZERO) / DEGREES, KNOWN * float(low.mean()))
    ):
        return f"{DEGREES} times as much and {ZERO:.0f} ({FAHRENHEIT}?)"
    return None


def _agree(first: Floats, second: Floats) -> bool:
    """Whether two groups of logarithms may be of one quantity in one unit."""
    (a, b), (low, high) = (first.std(), second.std()), (first.min() - second.min(), first.max() - second.max())
    near = max(abs(low), abs(high)) <= max(np.ptp(first), np.ptp(second)) / ALIKE
    return bool(max(a, b) <= ALIKE * min(a, b) and near and abs(first.mean() - second.mean()) <= max(a, b))


def _exactly(first: Floats, second: Floats, known: float) -> bool:
    """Whether two groups of numbers are alike but for errors of their means and deviations, and these so well `known`
    that it says something."""
    (a, b), (n, m) = (first.std(), second.std()), (len(first), len(second))
    error = ERRORS * math.sqrt(a**2 / n + b**2 / m)
    spread = ERRORS * math.sqrt(1 / (2 * n) + 1 / (2 * m))
    return abs(first.mean() - second.mean()) <= error <= known and abs(math.log(a / b)) <= spread
