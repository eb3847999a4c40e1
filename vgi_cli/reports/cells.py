"""Observed against imputed cells of a column: how they differ, how far fills reach out, and as a picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from vgi_cli.columns.base import ModelledColumn
from vgi_cli.columns.datetime import Moment
from vgi_cli.columns.levelled import Levelled
from vgi_cli.columns.numerals import Bools, Floats, Ints, mean_ranks, plain
from vgi_cli.reports.values import ColumnPicture, Pair, Ticks, Together

GRID = 96
BARS = 12
"""Different numbers of a column up to which these are bars, and levels that are drawn."""
FEW = 8
"""Fills of a draw up to which they are drawn one by one."""
FEWEST_BESIDE = 20
"""Rows with both columns, and rows with a hole, from which on their ranges are compared."""
LIKELY = 32
"""Rows at an end of a column among which one has no hole in another column, mostly."""
POINTS = 250
"""Points of each sort in a plot of pairs."""


class Fills(NamedTuple):
    """How the fills of a column compare with its observed cells; see ColumnNumbers."""

    mean: float | None
    sd: float | None
    imputed_mean: float | None
    imputed_sd: float | None
    shift: float | None
    outside: float | None
    furthest: float | None


def compare(column: ModelledColumn, observed: Floats, fills: Floats) -> Fills:
    """Of the codes of its observed cells [n] and of its fills [m, c]; c may be 0."""
    drawn = fills.size > 0 and len(observed) > 0
    if isinstance(column, Levelled):
        L = len(column.texts)
        apart = 0.5 * float(np.abs(shares(fills, L) - shares(observed, L)).sum()) if drawn else None
        return Fills(None, None, None, None, apart, None, None)
    mean = float(observed.mean()) if len(observed) else None
    sd = float(observed.std()) if len(observed) else None
    if not drawn or mean is None or sd is None:
        return Fills(mean, sd, None, None, None, None, None)
    low, high = observed.min(), observed.max()
    beyond = np.maximum(low - fills, fills - high).clip(min=0)
    unit = sd or 1.0
    own = float(fills.mean())
    return Fills(
        mean, sd, own, float(fills.std()), (own - mean) / unit, float((beyond > 0).mean()), float(beyond.max()) / unit
    )


def shares(codes: Floats, L: int) -> Floats:
    """[L] share of each level among codes [..] of levels."""
    counts = np.bincount(codes.ravel().astype(int), minlength=L)[:L]
    return np.asarray(counts / max(codes.size, 1))


class Beyond(NamedTuple):
    """A share of rows, and the column in which they lie beyond the others; see ColumnNumbers.extrapolated."""

    share: float
    by: str | None


def extrapolated(
    codes: Floats, missing: Bools, names: Sequence[str], numeric: Bools, unasked: Bools | None = None
) -> list[Beyond | None]:
    """For each column: of the rows in which it has a hole, the share in which another column of numbers lies outside
    the range that it has in the rows where both are observed; the largest over these columns. None where the rows are
    too few to say so.

    codes [n, columns], NaN at a hole; missing [n, columns]; numeric [columns]; unasked [n, columns] holes that do not
    count, since no answer was asked for
    """
    found: list[Beyond | None] = []
    counted = missing if unasked is None else missing & ~unasked
    places = np.flatnonzero(numeric)
    others = codes[:, places]
    known = np.isfinite(others).astype(float)
    counts_of = (~missing).T.astype(float) @ known  # [columns, others] rows with both
    holes_of = (
        counted.T.astype(float) @ known
    )  # [columns, others] rows with a hole in the one and a number in the other
    orders = [np.argsort(sign * others, 0, kind="stable") for sign in (1, -1)]  # NaN last
    for j in range(len(names)):
        hole, seen = counted[:, j], ~missing[:, j]
        if hole.sum() < FEWEST_BESIDE or seen.sum() < FEWEST_BESIDE or len(places) == 0:
            found.append(None)
            continue
        holes, counts = holes_of[j], counts_of[j]
        low, high = (_first(others, order, seen) for order in orders)
        inside = others[hole]
        with np.errstate(invalid="ignore"):
            out = ((inside < low) | (inside > high)).sum(0)
        usable = (counts >= FEWEST_BESIDE) & (holes >= FEWEST_BESIDE) & (places != j)
        share = np.where(usable, out / np.maximum(holes, 1), -1.0)
        best = int(share.argmax())
        if share[best] < 0:
            found.append(None)
        else:
            found.append(Beyond(float(share[best]), names[places[best]] if share[best] > 0 else None))
    return found


def _first(others: Floats, order: Ints, which: Bools) -> Floats:
    """[P] of each of some columns [n, P] its value in the first row that is one of `which` [n], by an order [n, P] of
    its own; NaN where there is none."""
    found = np.full(others.shape[1], np.nan)
    left = np.arange(others.shape[1])
    for rows in (order[:LIKELY], order):
        among = which[rows[:, left]]
        there = among.any(0)
        found[left[there]] = others[rows[among.argmax(0)[there], left[there]], left[there]]
        left = left[~there]
    return found


def picture(column: ModelledColumn, observed: Floats, fills: Floats) -> ColumnPicture:
    """Of codes: observed [n], n > 0, fills [m, c]."""
    drawn = _picture(column, observed, fills)
    if not isinstance(column, Moment):
        return drawn
    means = [float(some.mean()) for some in (observed, fills) if some.size]
    return replace(drawn, means=spelled(column, np.array(means)))


def _picture(column: ModelledColumn, observed: Floats, fills: Floats) -> ColumnPicture:
    """As `picture`, without the means."""
    if isinstance(column, Levelled):
        L = len(column.texts)
        own = shares(observed, L)
        shown = np.sort(np.argsort(-own, kind="stable")[:BARS])
        drawn = np.stack([shares(one, L)[shown] for one in fills]) if fills.shape[1] else np.zeros((0, len(shown)))
        labels = [str(column.texts[i]) for i in shown]
        return ColumnPicture("bars", np.arange(len(shown), dtype=float), labels, own[shown], drawn)
    values = np.unique(np.concatenate([np.unique(observed), np.unique(fills)]))
    if len(values) <= BARS:
        own = (observed[:, None] == values).mean(0)
        drawn = (fills[:, :, None] == values).mean(1) if fills.shape[1] else np.zeros((0, len(values)))
        return ColumnPicture("bars", np.arange(len(values), dtype=float), spelled(column, values), own, drawn)
    low, high = float(values[0]), float(values[-1])
    # a few far values must not press the rest into one bin: the picture ends where 99.5 % of the observed cells do, and
    # a margin beyond
    inner = np.quantile(observed, [0.0025, 0.9975])
    margin = float(inner[1] - inner[0]) * 0.5 or 1.0
    low, high = max(low, float(inner[0]) - margin), min(high, float(inner[1]) + margin)
    if high <= low:
        low, high = low - 1, high + 1
    grid = np.linspace(low, high, GRID)
    labels = spelled(column, column.snap(np.array([low, (low + high) / 2, high])))
    own = density(observed, grid)
    if fills.shape[1] <= FEW:
        return ColumnPicture("strip", grid, labels, own, fills)
    return ColumnPicture("density", grid, labels, own, np.stack([density(one, grid) for one in fills]))


def spelled(column: ModelledColumn, codes: Floats) -> list[str]:
    """Codes as the labels of a picture: numbers to four digits, moments and levels as the table has them."""
    numbers = column.numbers(codes)
    if numbers is not None and column.kind in ("numeric", "integer", "bounded", "zero-inflated"):
        return [plain(float(f"{value:.4g}")) for value in numbers]
    return [str(text) for text in column.spell(codes, None)]


def density(values: Floats, grid: Floats) -> Floats:
    """A kernel estimate of the density of values [n] on an even grid [g]: a normal kernel of Silverman's width (0.9
    times the smaller of standard deviation and interquartile range / 1.34, times n^-1/5, at least a step of the grid),
    of values counted on the grid."""
    step = float(grid[1] - grid[0])
    quarter, three = np.quantile(values, [0.25, 0.75])
    spread = [s for s in (float(values.std()), float(three - quarter) / 1.34) if s > 0]
    width = max(0.9 * min(spread, default=step) * len(values) ** -0.2, step)
    place = (values - grid[0]) / step
    inside = (place >= 0) & (place <= len(grid) - 1)
    left = np.floor(place[inside]).astype(int).clip(max=len(grid) - 2)
    right = place[inside] - left
    counts = np.bincount(left, 1 - right, len(grid)) + np.bincount(left + 1, right, len(grid))
    apart = (grid[:, None] - grid) / width
    kernel = np.exp(-0.5 * apart**2) / (width * math.sqrt(2 * math.pi))
    return np.asarray(kernel @ counts / len(values))


def pair(
    columns: tuple[ModelledColumn, ModelledColumn], codes: tuple[Floats, Floats], drawn: tuple[Floats, Floats]
) -> Pair:
    """A plot of two columns: codes [n] each, NaN at holes, and one draw of the rows [n] each. At most POINTS points of
    each sort, evenly chosen."""
    first, second = codes
    both = np.isfinite(first) & np.isfinite(second)

    def some(x: Floats, y: Floats, where: Bools) -> Floats:
        index = np.flatnonzero(where)
        if len(index) > POINTS:
            index = index[np.linspace(0, len(index) - 1, POINTS).astype(int)]
        return np.stack([x[index], y[index]])

    def labels(column: ModelledColumn, values: Floats) -> Ticks | None:
        if not isinstance(column, Moment) or not len(values):
            return None
        return ticks(column, np.linspace(values.min(), values.max(), 5)[[1, 3]])

    observed, imputed = some(first, second, both), some(*drawn, ~both)
    one, other = columns
    x, y = np.concatenate([observed, imputed], 1)
    return Pair((one.name, other.name), observed, imputed, (labels(one, x), labels(other, y)))


def ticks(column: Moment, places: Floats) -> Ticks:
    """An axis of moments: places near the given ones, with the labels that the table would have there."""
    snapped = column.snap(places)
    return snapped.tolist(), spelled(column, snapped)


def together(drawn: Pair) -> Together:
    """How the columns of a plot go together, by its points."""
    counts = drawn.observed.shape[1], drawn.imputed.shape[1]
    return Together(drawn.names, *counts, rank_correlation(drawn.observed), rank_correlation(drawn.imputed))


def rank_correlation(points: Floats) -> float | None:
    """Spearman's correlation of points [2, n], ties by their mean rank; None where a coordinate does not vary."""
    if any(len(np.unique(values)) < 2 for values in points):
        return None
    return float(np.asarray(np.corrcoef([mean_ranks(values) for values in points]))[0, 1])
