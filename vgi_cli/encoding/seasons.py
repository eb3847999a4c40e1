"""Numbers that vary with the time of year, or of day, of a column of moments: to a model of rows the moment is a number
that only grows, and it does not see the cycle."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from vgi_cli.columns.base import ModelledColumn
from vgi_cli.columns.datetime import Moment
from vgi_cli.columns.number import Number
from vgi_cli.columns.numerals import Floats, Ints
from vgi_cli.columns.places import evenly
from vgi_cli.columns.relations import Relation
from vgi_cli.columns.schema import Schema
from vgi_cli.columns.wording import named
from vgi_cli.encoding.dates import by_its_clock, part_between
from vgi_cli.encoding.redundant import codes_of
from vgi_cli.table.base import Table

ROWS, LOOKED_AT, COLUMNS = 60, 5_000, 50
"""Fewest rows in which a cycle is looked for; rows, and columns, that are looked at."""
MOST = 200
"""Dimensions of other columns, at most, given which a cycle is looked for."""
PERIODS = 1.5
"""How many cycles the moments span at least: within one a trend that turns says as much."""
VALUES = 60
"""Different values of another column up to which each has a mean of its own: months, weeks, hours."""
ABSENT = 0.05
"""Share of the cells of a column of numbers that may be missing where others are compared given it."""
DEGREE = 3
"""Of the polynomial in time that is taken off, beside what the other columns say."""
BINS, NEAR, DECIDED = 24, 0.1, 0.9
"""Parts of a cycle; and in which share of the rows a number is how near to the middle one of its part, in units of its
range, where it only says which part that is."""
SHARE, SURELY = 0.05, 14.0
"""Of the variance of a column, that a cycle explains at the least; and nats by which rows speak for it, beyond what the
choice of columns explains: by chance as much has a probability of exp(-SURELY)."""
CHANCE = 2.0
"""Rows of one moment are alike where these moments differ by so many standard errors more than by chance."""
CYCLES = (("year", 365.25, "month"), ("day", 1.0, "hour"))
"""Cycles, their length in days, and the column that tells a model of them."""
TELLING = {"year": ("month", "week", "yearday"), "day": ("hour",)}
"""Parts of moments that tell a model where in a cycle these are."""
DAYS = {"Q": 365.25 / 4, "M": 365.25 / 12, "W": 7.0}
"""Days of a unit of dates."""


def seasons(table: Table, schema: Schema) -> list[str]:
    """A line for each column of dates or datetimes and each cycle that columns with holes vary with, though neither a
    trend nor another column says so."""
    moments = [one for one in schema.encoded if isinstance(one, Moment) and one.kind in ("date", "datetime")]
    holed = [one for one in schema.encoded if isinstance(one, Number) and table.missing(one.name).any()][:COLUMNS]
    if not moments or not holed or not ROWS <= table.N:
        return []
    some = evenly(table.N, LOOKED_AT)
    codes = {column.name: codes_of(table, column)[some] for column in schema.encoded[: 2 * COLUMNS]}
    beside = {
        column.name: _indicators(codes[column.name], numbers=isinstance(column, Number))
        for column in schema.encoded[: 2 * COLUMNS]
        if not isinstance(column, Moment)
    }
    choice = np.log(2 * len(moments) * len(holed))
    lines = []
    for moment in moments:
        if moment.name not in codes:
            continue
        local, times = by_its_clock(moment, codes[moment.name])
        shown = {**codes, moment.name: times}
        days = codes[moment.name] * (DAYS.get(moment.clock.unit, 1.0) if moment.kind == "date" else 1 / 86_400)
        for cycle, length, part in CYCLES:
            spanned = np.nanmax(days) - np.nanmin(days) >= PERIODS * length
            if not spanned or (cycle == "day" and moment.kind == "date"):
                continue
            if any(_tells(one, local, shown, cycle) for one in schema.encoded if one.name in codes):
                continue
            found = {}
            for other in holed:
                y = codes.get(other.name)
                if y is None or _share(y, days, length, [], choice) is None:  # nothing is left of it beside others then
                    continue
                if _told(y, days, length) or _part(other, local, shown) is not None:
                    continue
                design = _at_most([values for name, values in beside.items() if name != other.name])
                share = _share(y, days, length, design, choice)
                if share is not None:
                    found[other.name] = share
            if found:
                most, one = f"{max(found.values()):.0%}", len(found) == 1
                how = f"varies with the time of {cycle}" if one else f"vary with the time of {cycle}"
                much = f"{most} of its variance" if one else f"up to {most} of a variance"
                lines.append(
                    f"{named('column', tuple(found))} {how} in '{moment.name}' ({much}), and to a model that column is "
                    f"a time that only grows: a column of the {part} beside it tells the model"
                )
    return lines


def _indicators(codes: Floats, *, numbers: bool) -> Floats:
    """[N, k] what a column says of others: of few values an indicator of each; the numbers, standardised, of one that
    is there in nearly all rows; else nothing."""
    absent = np.isnan(codes)
    values = np.unique(codes[~absent])
    if len(values) <= VALUES:
        return np.asarray(codes[:, None] == values[1:], np.float64)
    if not numbers or absent.mean() > ABSENT:
        return np.zeros((len(codes), 0))
    spread = float(np.nanstd(codes)) or 1.0
    return np.asarray(np.where(absent, 0.0, (codes - np.nanmean(codes)) / spread)[:, None])


def _part(column: ModelledColumn, moment: Moment, codes: Mapping[str, Floats]) -> Relation | None:
    """How a column is the month, the hour or the like of the moments: a fill of it follows from these. None: it is
    none."""
    both = ~np.isnan(codes[column.name]) & ~np.isnan(codes[moment.name])
    first, second = codes[column.name][both], codes[moment.name][both]
    return part_between(column, moment, first, second)


def _tells(column: ModelledColumn, moment: Moment, codes: Mapping[str, Floats], cycle: str) -> bool:
    """Whether a column is the part of the moments that tells where in a cycle they are, each value of it by another
    one: its holes, which follow from the moments, say nothing against it."""
    part = _part(column, moment, codes)
    if part is None or part.part not in TELLING[cycle]:
        return False
    said = [code for code in part.codes if code is not None]
    return len(set(said)) == len(said)


def _at_most(beside: list[Floats]) -> list[Floats]:
    """The first of some columns that have at most MOST dimensions together."""
    sizes = np.cumsum([values.shape[1] for values in beside])
    return beside[: int(np.searchsorted(sizes, MOST, side="right"))]


def _told(y: Floats, days: Floats, length: float) -> bool:
    """Whether y [N] is all but decided by where in the cycle a moment is: its month or hour, but for some slips. Beside
    the middle value of its part of the cycle it is near in most rows."""
    seen = np.isfinite(y) & np.isfinite(days)
    y, place = y[seen], np.floor(days[seen] % length / length * BINS).astype(int)
    middle = np.array([np.median(y[place == part]) if (place == part).any() else 0.0 for part in range(BINS)])
    return bool((np.abs(y - middle[place]) <= NEAR * np.ptp(y)).mean() >= DECIDED)


def _share(y: Floats, days: Floats, length: float, beside: list[Floats], choice: float) -> float | None:
    """The share of the variance of y [N] that a sine and a cosine of the cycle explain beyond a trend and the other
    columns; None where that is too little, or may be by chance: rows of one moment that are alike count once."""
    seen = np.isfinite(y) & np.isfinite(days)
    n = int(seen.sum())
    if n < ROWS:
        return None
    time, y = days[seen], y[seen]
    at = 2 * (time - time.min()) / (float(np.ptp(time)) or 1.0) - 1
    others = [values[seen] for values in beside]
    design = np.concatenate([np.polynomial.chebyshev.chebvander(at, DEGREE), *others], 1)
    if 3 * design.shape[1] > n:
        return None
    phase = 2 * np.pi * time / length
    shown = np.stack([y - y.mean(), np.sin(phase), np.cos(phase)], 1)
    left = shown - design @ np.linalg.lstsq(design, shown, rcond=None)[0]
    cycle = left[:, 1:]
    if (cycle**2).sum(0).min() < 1e-3 * n:  # the other columns say as much
        return None
    total, before = float((shown[:, 0] ** 2).sum()), float((left[:, 0] ** 2).sum())
    rest = left[:, 0] - cycle @ np.linalg.lstsq(cycle, left[:, 0], rcond=None)[0]
    after = float((rest**2).sum())
    if not 0 < after < before or (before - after) / total < SHARE:
        return None
    nats = 0.5 * (n - design.shape[1]) * np.log(before / after)
    if nats * _own(rest[np.argsort(time, kind="stable")]) < SURELY + choice:
        return None
    moments, places = np.unique(time, return_inverse=True)
    if len(moments) < n and _alike(rest, places) and _by_moments(shown, design, places) < SURELY + choice:
        return None
    return (before - after) / total


def _own(rest: Floats) -> float:
    """Which share of rows that follow each other in time says something of its own, by how much what is left of them
    [n] goes on from one to the next (Bartlett 1935), which is more than is seen beside a trend and a cycle (Kendall
    1954): a price that wanders is high in some months of any two years."""
    on = float(np.corrcoef(rest[1:], rest[:-1])[0, 1])
    on = min(on + 2 * (DEGREE + 3) / len(rest), 1.0)
    return (1 - on) / (1 + on) if on > 0 else 1.0


def _alike(rest: Floats, places: Ints) -> bool:
    """Whether what is left of numbers [n] beside a trend and a cycle is more alike in rows of one moment (places [n])
    than in others; so too where the moments are so few that the trend and the cycle all but say each of them."""
    counts = np.bincount(places)
    means = np.bincount(places, rest) / counts
    between, within = len(counts) - (DEGREE + 3), len(rest) - len(counts)
    if between < DEGREE + 3:
        return True
    of_moments, of_rows = (
        float((counts * means**2).sum()) / between,
        float(((rest - means[places]) ** 2).sum()) / within,
    )
    return bool(of_moments > (1 + CHANCE * np.sqrt(2 / between + 2 / within)) * of_rows)


def _by_moments(shown: Floats, design: Floats, places: Ints) -> float:
    """The nats by which the means of moments (places [n]) of `shown` [n, 3], numbers and a sine and a cosine, speak for
    the cycle, beyond those of the trend and the other columns (design [n, k])."""
    counts = np.bincount(places)[:, None]
    means = np.zeros((len(counts), 3 + design.shape[1]))
    np.add.at(means, places, np.concatenate([shown, design], 1))
    means /= counts
    coefficients, _, rank, _ = np.linalg.lstsq(means[:, 3:], means[:, :3], rcond=None)
    left = means[:, :3] - means[:, 3:] @ coefficients
    rest = left[:, 0] - left[:, 1:] @ np.linalg.lstsq(left[:, 1:], left[:, 0], rcond=None)[0]
    free, after = len(means) - rank - 2, float((rest**2).sum())
    if free < 1 or not after > 0:
        return 0.0
    return 0.5 * free * float(np.log(float((left[:, 0] ** 2).sum()) / after))
