"""Numbers that are angles: 350 and 10 degrees are neighbours, and a model takes them for numbers that lie far apart."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from vgi_cli.columns.base import Column
from vgi_cli.columns.number import Number
from vgi_cli.columns.numerals import Floats
from vgi_cli.columns.wording import named
from vgi_cli.table.base import Table

FEWEST_ROWS = 30
"""Fewest observed cells that say something of a column."""
CIRCLE, QUARTER, EDGE, END = 360.0, 90.0, 10.0, 30.0
"""Degrees: of the circle; of its quarters next to the ends; how near to both ends angles come; the width of an end."""
SOME = 0.05
"""Share of the cells of a column that is named a direction in the first and in the last quarter, each, at least."""
DENSER, SURELY = 1.5, 4.0
"""How many times as dense as the half of the circle in the middle each end is where a column has another name, and by
how many standard errors it is denser at least."""
DIRECTION = re.compile(
    r"(?i)(?:(?:^|[\W_]|wind|w)dir|direction|bearing|heading|azimuth|azimut|(?:^|[\W_])aspect|richtung)"
    r"s?(?:_?deg(?:rees?)?)?(?:$|[\W_\d])"
)
"""Names of directions."""


def angles(table: Table, columns: Sequence[Column]) -> list[str]:
    """A line on columns of numbers that are angles in degrees from 0 to 360, by their name or by how their values lie:
    dense next to both ends, and less so between them."""
    found = []
    for column in columns:
        if isinstance(column, Number):
            values = column.codes(table.column(column.name))
            if _angles(values[np.isfinite(values)], direction=DIRECTION.search(column.name) is not None):
                found.append(column.name)
    if not found:
        return []
    one = len(found) == 1
    holds, its, place = ("holds", "its", "its place") if one else ("hold", "their", "their place")
    return [
        f"{named('column', found)} {holds} angles in degrees, it seems, and a model takes 350 and 10 for numbers that "
        f"lie far apart: {its} sine and cosine as two columns in {place} keep neighbours together (`atan2` of the two "
        "fills is the angle)"
    ]


def _angles(values: Floats, *, direction: bool) -> bool:
    """Whether values [n] are angles in degrees; `direction`: the name of the column says that it is one."""
    n = len(values)
    if n < FEWEST_ROWS or values.min() < 0 or values.max() > CIRCLE:
        return False
    low, high = values < QUARTER, values > CIRCLE - QUARTER
    if direction:
        return bool(min(low.sum(), high.sum()) >= SOME * n)
    if values.min() > EDGE or values.max() < CIRCLE - EDGE:
        return False
    middle = float((~low & ~high).sum()) * END / (CIRCLE - 2 * QUARTER)
    ends = [float((values <= END).sum()), float((values >= CIRCLE - END).sum())]
    return all(end >= DENSER * middle and end - middle >= SURELY * np.sqrt(end) for end in ends)
