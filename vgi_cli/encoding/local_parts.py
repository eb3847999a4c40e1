"""Columns that are parts of times in a zone whose offset changes (daylight saving): fills do not keep to these, and a
line says so."""

from __future__ import annotations

import numpy as np

from vgi_cli.columns.base import ModelledColumn
from vgi_cli.columns.calendar import SECONDS
from vgi_cli.columns.datetime import Moment
from vgi_cli.columns.numerals import Floats
from vgi_cli.columns.places import evenly
from vgi_cli.columns.schema import Schema
from vgi_cli.columns.wording import first_names
from vgi_cli.encoding.dates import by_its_clock, counted, part_between
from vgi_cli.encoding.redundant import codes_of
from vgi_cli.table.base import Table

FEWEST, LOOKED_AT = 60, 5_000
"""Rows with both cells by which a column is a part of times, fewest; and rows that are looked at."""


def local_parts(table: Table, schema: Schema) -> list[str]:
    """A line for each column of times in a zone whose offset changes that has dates or parts beside it which follow
    from its local times in all rows that are looked at, and from no other such column before it."""
    lines, said = [], set[str]()
    some = evenly(table.N, LOOKED_AT)
    for moment in schema.encoded:
        if not isinstance(moment, Moment) or not moment.clock.changes:
            continue
        local, codes = by_its_clock(moment, codes_of(table, moment)[some])
        beside = {one.name: (one, codes_of(table, one)[some]) for one in schema.encoded if one.name not in said}
        names = [name for name, (one, own) in beside.items() if _follows(one, local, own, codes)]
        said.update(names)
        if names:
            quoted = [f"'{name}'" for name in names]
            lines.append(
                f"{first_names(quoted)} follow{'s' * (len(names) == 1)} from '{moment.name}' by the clocks of "
                f"{moment.clock.zone}, whose offset changes: fills do not keep to that, as they do to what follows "
                "from local times without a zone"
            )
    return lines


def _follows(column: ModelledColumn, local: Moment, codes: Floats, times: Floats) -> bool:
    """Whether a column with codes [n] is the day, or a part, of local times with other codes [n] in all rows."""
    both = ~np.isnan(codes) & ~np.isnan(times)
    first, second = codes[both], times[both]
    if len(first) < FEWEST or len(np.unique(first)) < 2:
        return False
    own, of = counted(column), counted(local)
    if own is not None and of is not None and own[0] == "D":
        return bool((np.floor((second + of[1]) / SECONDS) == first + own[1]).all())
    return part_between(column, local, first, second) is not None
