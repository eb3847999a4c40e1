"""Columns that are the rank of another one: the place of a runner by the finish time."""

from __future__ import annotations

import numpy as np

from vgi_cli.columns.number import Number
from vgi_cli.columns.numerals import Floats
from vgi_cli.columns.schema import Schema
from vgi_cli.columns.wording import capped, typed
from vgi_cli.encoding.redundant import NEAR, as_number, codes_of, looked_for
from vgi_cli.table.base import Table

FEWEST = 20
"""Rows that have a rank and the number of which it is one, at least."""
OF_PLACES = 0.5
"""Share of the numbers from 1 to the greatest rank that occur, at least: others are ids."""
DIFFERENT = 0.5
"""Share of those rows that have different numbers, at least: else ranks within levels would be in order as well."""


def ranks(table: Table, schema: Schema) -> list[str]:
    """A line on each column that is the rank of another one, as far as its cells say: whole numbers from 1 on, all
    different, in the order of the other one's numbers or in the opposite one. A fill knows no other row, so that it is
    no rank. Columns that follow from others, and those that are nearly a line of the other one, are left to the lines
    that say so."""
    if not looked_for(table, schema):
        return []
    settled = {relation.names[0] for relation in schema.relations}
    numbers = {column.name: codes_of(table, column) for column in schema.encoded if as_number(column) is not None}
    places = [
        column.name
        for column in schema.encoded
        if isinstance(column, Number) and column.name not in settled and _places(numbers[column.name], table.N)
    ]
    lines = []
    for name in places:
        found = {other: _order(numbers[name], numbers[other]) for other in numbers if other not in places}
        best = max(found, key=lambda other: abs(found[other]), default=name)
        if found.get(best):
            lines.append(_words(name, best, rising=found[best] > 0))
    return capped(lines)


def _words(name: str, other: str, *, rising: bool) -> str:
    """What to do about a rank of another column, 1 of the least of its numbers (`rising`), or of the greatest."""
    first = "smallest" if rising else "largest"
    return (
        f"column '{name}' is the rank of '{other}' (1 is the {first}), and fills do not keep to that: some ranks come "
        f"twice, or out of order; `{typed('--exclude', name)}` leaves it out: compute it anew from the filled '{other}'"
    )


def _places(cells: Floats, rows: int) -> bool:
    """Whether cells [N] may be the ranks of so many rows, in another order than that of the rows."""
    seen = cells[np.isfinite(cells)]
    if len(seen) < FEWEST or (seen != np.rint(seen)).any() or seen.min() < 1 or seen.max() > rows:
        return False
    steps = np.diff(seen)
    return len(np.unique(seen)) == len(seen) >= OF_PLACES * seen.max() and not (steps > 0).all()


def _order(places: Floats, other: Floats) -> float:
    """How many different numbers another column [N] has in the order of some places [N], negative in the opposite one;
    0 where it is in neither, or there are too few, or it is nearly a line."""
    both = np.isfinite(places) & np.isfinite(other)
    if both.sum() < FEWEST:
        return 0.0
    rank, values = places[both], other[both]
    steps = np.diff(values[np.argsort(rank)])
    side = 1.0 if (steps >= 0).all() else -1.0 if (steps <= 0).all() else 0.0
    count = len(np.unique(values))
    if not side or count < DIFFERENT * len(values):
        return 0.0
    line = np.corrcoef(rank, values)[0, 1] ** 2 > 1 - NEAR**2
    return 0.0 if line else side * count
