"""Dummies: truth values of which exactly one holds in every row, the levels of one column spread over several.

Each is modelled as a column of its own, whose fills know of the others as far as they predict it, and no further.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vgi_cli.columns.places import evenly
from vgi_cli.columns.schema import Schema
from vgi_cli.columns.wording import named
from vgi_cli.encoding.redundant import codes_of
from vgi_cli.table.base import Table

FEWEST, MOST = 3, 200
"""Dummies of one column; two are each other's opposite, which `relations.py` finds. Columns of truth values that are
looked at."""
LOOKED_AT = 2_000
"""Rows in which it is looked first."""
ROWS = 20
"""Fewest rows in which all of them are observed."""


def dummies(table: Table, schema: Schema) -> list[str]:
    """A line for each set of columns of truth values with holes of which exactly one holds in every row."""
    columns = [column for column in schema.encoded if column.kind == "boolean"]
    if not FEWEST <= len(columns) <= MOST:
        return []
    codes = np.stack([codes_of(table, column) for column in columns], 1)
    held = (codes == 1).astype(np.float64)
    together = held.T @ held
    free, lines = list(range(len(columns))), []
    spread = evenly(len(codes), LOOKED_AT)
    while free:
        own = [free[0]]
        for other in free[1:]:
            if not together[own, other].any():
                own.append(other)
        few = codes[spread][:, own]
        few = few[~np.isnan(few).any(1)]
        every = len(own) >= FEWEST and bool((few.sum(1) == 1).all())
        if every:
            rows = codes[~np.isnan(codes[:, own]).any(1)][:, own]
            every = len(rows) >= ROWS and bool((rows.sum(1) == 1).all() and (rows.sum(0) > 0).all())
        if every and np.isnan(codes[:, own]).any():
            names = [columns[place].name for place in own]
            if not _follow(names, schema):
                lines.append(
                    f"exactly one of {named('column', names)} holds in every row, as of dummies of one column: fills "
                    "may break that; one column of levels in their place keeps it"
                )
        free = [place for place in free if place not in own] if every else free[1:]
    return lines


def _follow(names: Sequence[str], schema: Schema) -> bool:
    """Whether columns all follow from the levels of one and the same other column, to which fills keep."""
    of = [{one.names[1] for one in schema.relations if one.of_levels and one.names[0] == name} for name in names]
    return bool(set.intersection(*of))
