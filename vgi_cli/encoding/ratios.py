"""Columns that are the ratio of two others, or what that is more or less than one, in percent or not: shares, changes
and margins.

The logarithms by which products are found say little of these: a change may be negative, and the logarithm of one that
is rounded and next to zero is off by much.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np

from vgi_cli.columns.numerals import Floats
from vgi_cli.encoding.redundant import CONSTANT, EXACT, FEWEST, MOST_NOTED, NEAR, ROUNDING, Redundant
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
    x = x[np.linspace(0, len(x) - 1, min(len(x), ROWS)).astype(int)]
    z, sd = _standardised(x)
    halves = every.digits(names).halves
    own = np.flatnonzero([name not in settled for name in names] & (sd > 0) & (halves <= OPEN * sd))
    most = np.square(np.maximum(NEAR, ROUNDING * halves[own] / sd[own]))
    left = np.full((len(own), len(names), len(names)), np.inf)
    for below in np.flatnonzero(sd > 0).tolist():
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            ratio = x / x[:, [below]]
        left[..., below] = _left(z[:, own], _standardised(np.where(np.isfinite(ratio), ratio, np.nan))[0])
        left[own == below, :, below] = np.inf
    left[np.arange(len(own)), own] = np.inf
    for j, some, least in zip(own.tolist(), left, most.tolist(), strict=True):
        order = np.argsort(some, axis=None, kind="stable")[:TRIED].tolist()
        for above, below in (divmod(place, len(names)) for place in order if some.flat[place] <= least):
            whole = _whole(x[:, j], x[:, above], x[:, below])
            percent = (names[j], whole) if whole else None
            yield Redundant(names[j], (names[above], names[below]), "product", percent=percent)


def _standardised(x: Floats) -> tuple[Floats, Floats]:
    """Columns [n, columns] less their means, in standard deviations, NaN where a cell is missing or they do not vary;
    and these deviations [columns]."""
    seen = ~np.isnan(x)
    count = np.maximum(seen.sum(0), 1)
    size = np.maximum(np.where(seen, np.abs(x), 0.0).max(0, initial=0.0), np.finfo(float).tiny)
    apart = x / size - np.where(seen, x / size, 0.0).sum(0) / count
    sd = np.sqrt(np.where(seen, np.square(apart), 0.0).sum(0) / count)
    sd = np.where(sd > CONSTANT, sd, 0.0)
    return apart / np.where(sd > 0, sd, np.nan), sd * size


def _left(own: Floats, ratios: Floats) -> Floats:
    """[some, ratios] the variance of standardised columns [n, some] that lines in ratios [n, ratios] leave, in the rows
    that have both; infinite where these are few, or one of the two does not vary in them."""
    seen, known = ~np.isnan(own), ~np.isnan(ratios)
    y, r = np.where(seen, own, 0.0), np.where(known, ratios, 0.0)
    count = seen.T.astype(np.float64) @ known
    n = np.maximum(count, 1)
    means = (y.T @ known) / n, (seen.T @ r) / n
    first, second = (np.square(y).T @ known) / n - means[0] ** 2, (seen.T @ np.square(r)) / n - means[1] ** 2
    varied = (count >= FEWEST) & (first > EXACT) & (second > EXACT)
    both = (y.T @ r) / n - means[0] * means[1]
    return np.where(varied, first - np.square(both) / np.where(varied, second, 1.0), np.inf)


def _whole(cells: Floats, above: Floats, below: Floats) -> float:
    """Of WHOLES the one by which cells [n] are a ratio of others [n] times a number."""
    rows = np.isfinite(cells) & np.isfinite(above) & np.isfinite(below) & (below != 0)
    design = np.stack([np.ones(rows.sum()), above[rows] / below[rows]], 1)
    constant = float(np.linalg.lstsq(design, cells[rows], rcond=None)[0][0])
    return min(WHOLES, key=lambda whole: abs(constant + whole))
