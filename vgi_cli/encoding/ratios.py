"""Columns that are the ratio of two others, or what that is more or less than one, in percent or not: shares, changes
and margins.

The logarithms by which products are found say little of these: a change may be negative, and the logarithm of one that
is rounded and next to zero is off by much.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np

from vgi_cli.columns.numerals import Floats
from vgi_cli.columns.places import evenly
from vgi_cli.encoding.redundant import MOST_NOTED, NEAR, ROUNDING, ByPairs, Redundant
from vgi_cli.encoding.sums import CodedRows

WHOLES = (0.0, 100.0, -100.0, 1.0, -1.0)
"""What a change is divided by before it is added to 1, and is a ratio then; 0: it is one itself."""
ROWS = 500
"""Rows by which a column is compared with the ratios of all others, evenly spread."""
OPEN = 0.1
"""Half of a last digit of what is looked at is at most this share of its standard deviation."""
TRIED = 3
"""Ratios of which a column is asked whether it is one, those that leave least of it."""


def ratio_candidates(every: CodedRows, names: Sequence[str], settled: Collection[str]) -> Iterator[Redundant]:
    """Columns of some `names`, not settled ones, that may be a ratio of two others, times a number, or what is said to
    be of that by WHOLES; what leaves least of a column comes first."""
    if not 2 < len(names) <= MOST_NOTED:
        return
    x = every.codes(names)
    x = x[evenly(len(x), ROWS)]
    halves, sd = every.digits(names).halves, np.array([every.columns[name].deviation for name in names])
    own = np.flatnonzero([name not in settled for name in names] & (halves <= OPEN * sd))
    most = np.square(np.maximum(NEAR, ROUNDING * halves[own] / sd[own]))
    left, columns = np.full((len(own), len(names), len(names)), np.inf), ByPairs.of(x[:, own])
    for below in range(len(names)):
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            ratio = x / x[:, [below]]
        r = ByPairs.of(np.where(np.isfinite(ratio), ratio, np.nan)).correlations(columns)
        left[..., below] = np.where(r < 0, np.inf, 1 - np.square(r))
        left[own == below, :, below] = np.inf
    left[np.arange(len(own)), own] = np.inf
    for j, some, least in zip(own.tolist(), left, most.tolist(), strict=True):
        order = np.argsort(some, axis=None, kind="stable")[:TRIED].tolist()
        for above, below in (divmod(place, len(names)) for place in order if some.flat[place] <= least):
            whole = _whole(x[:, j], x[:, above], x[:, below])
            percent = (names[j], whole) if whole else None
            yield Redundant(names[j], (names[above], names[below]), "product", percent=percent)


def _whole(cells: Floats, above: Floats, below: Floats) -> float:
    """Of WHOLES the one by which cells [n] are a ratio of others [n] times a number."""
    rows = np.isfinite(cells) & np.isfinite(above) & np.isfinite(below) & (below != 0)
    design = np.stack([np.ones(rows.sum()), above[rows] / below[rows]], 1)
    constant = float(np.linalg.lstsq(design, cells[rows], rcond=None)[0][0])
    return min(WHOLES, key=lambda whole: abs(constant + whole))
