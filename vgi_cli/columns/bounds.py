"""Bounds: within which values the fills of a column of numbers stay, and why.

The largest value that was seen is not the largest there is: fills that stay in the observed range have too little
spread, and more so the more cells are missing in a tail. So a column is bounded only where something says that nothing
lies beyond (its natural limits), or by request.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Literal

import numpy as np
from pydantic.dataclasses import dataclass

from vgi_cli.columns.base import STRICT, Asked
from vgi_cli.columns.lattice import Lattice, Spike, find_spikes
from vgi_cli.columns.numerals import Floats
from vgi_cli.errors import UsageError

Why = Literal["sign", "spike", "few", "halves", "repeated", "even", "calendar", "levels", "type", "asked", "observed"]
GIVEN = ("asked", "type")
"""Reasons that are no guess."""

FEW, MOST_FEW = 7, 12
"""Whole numbers, or half ones, from the least to the greatest observed one, up to which a column is a scale: its ends
are limits. With more than FEW the last values of a count look alike, so an end is one only ..."""
HALF = 0.5
"""Steps of marks and stars that are no whole numbers."""
OFTEN = 5
"""... where it holds that many cells: the largest of a count is hardly ever seen more than once or twice."""
SPARSE = 0.5
"""Share of the values between the ends below which those that occur, again and again, may be of repeated rows."""
EDGE, DENSE = 0.05, 12
"""Cells are dense up to an end where so many lie no farther from it than that share of the middle nine tenths of the
values is wide: were values as likely beyond, there would be none by chance in one of 100,000 columns."""
FURTHER, THINNER = 4, 3.0
"""Yet not where the DENSE outermost cells are that many times as far apart as the FURTHER times as many next to them:
so thin out the values of a group that is narrow beside the whole range."""
PILED = 0.01
"""Share of the observed cells that pile up at an end that is a limit (fewer than a spike needs to get room)."""
LOWER = 2.5
"""How many times the density of its neighbours an end that is a limit has, where it holds as many cells as a spike:
marks of 100 % go on from those of 99 % and 98 % more smoothly than a spike does from its neighbours."""
NEAREST = 1e-6
"""Fills of a column of positive numbers without resolution are at least that share of the least observed one."""
ALL = "all"
"""Stands for every column, unless one is called that."""
CALENDAR: Sequence[tuple[frozenset[str], tuple[tuple[int, int], ...]]] = (
    (frozenset({"day", "dom", "mday", "dayofmonth"}), ((1, 31),)),
    (frozenset({"month", "mon", "mm", "monthofyear"}), ((1, 12),)),
    (frozenset({"hour", "hr", "hh", "hourofday"}), ((0, 23),)),
    (frozenset({"minute", "second"}), ((0, 59),)),
    (frozenset({"weekday", "wday", "dow", "dayofweek"}), ((0, 6), (1, 7))),
)
"""Names of columns of whole numbers, without what is neither letter nor digit, and the ends of what they count."""
FORMS = (
    "for example 0:100, 0: or :100 (a side left empty keeps its natural limit), 2020-01-01..2024-12-31, "
    "observed or none"
)


@dataclass(frozen=True, config=STRICT)
class Bound:
    """The least or the greatest admissible fill of a column, a value that it can take, and why.

    sign      no observed value lies on the other side of zero
    spike     values pile up there
    few       the end of a few whole numbers
    halves    the end of a few numbers in half steps
    repeated  the end of a few values that occur again and again, with gaps between all of them
    calendar  the end of days, months, hours or the like, by the column's name
    levels    the end of those values that alone occur
    type      what the column's type in the file can hold
    asked     the user said so
    observed  the end of the observed range: by request, or in a run of an earlier version
    """

    value: float
    why: Why


def parse_limits(name: str, text: str, flag: str = "--bounds") -> Asked:
    """`0:100`, `0:`, `:100`, `observed` or `none` for a column (or ALL), or dates or times as `2020-01-01..2024-12-31`,
    which are read when it is known how the column writes them. UsageError otherwise."""
    said = f"{name}={text}"
    if text == "observed":
        return Asked("observed", said)
    if text == "none":
        return Asked("none", said)
    first, moments, last = (part.strip() for part in text.partition(".."))
    if moments and (first or last) and ".." not in last:
        return Asked("range", said, flag=flag, moments=(first, last))
    sides = [side.strip() for side in text.split(":")]
    if len(sides) != 2 or not any(sides):
        what = "LOW:HIGH, LOW..HIGH of dates or times, observed or none"
        raise UsageError(f"{flag} {said}: expected {what}, got '{text}'", FORMS)
    low, high = (_number(side, f"{flag} {said}") if side else None for side in sides)
    if low is not None and high is not None and low >= high:
        raise UsageError(f"{flag} {said}: {sides[0]} is not below {sides[1]}", "give the lower limit first")
    return Asked("range", said, low=low, high=high, flag=flag)


def _number(text: str, said: str) -> float:
    try:
        value = math.nan if "_" in text else float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise UsageError(f"{said}: '{text}' is not a number", FORMS)
    return value


def asked_for(names: Collection[str], bounds: Mapping[str, str], unbounded: Sequence[str]) -> dict[str, Asked]:
    """What was asked for each of the columns of a table, and for names that it does not have.

    bounds     column (or ALL) -> limits
    unbounded  columns (or ALL): the same as `none`. UsageError where both name a column and disagree.
    """
    asked = {name: parse_limits(name, text) for name, text in bounds.items()}
    for name in unbounded:
        if name in asked and asked[name].rule != "none":
            raise UsageError(f"--unbounded {name} disagrees with --bounds {asked[name].said}", "drop one of them")
        asked[name] = Asked("none", f"{name}=none")
    if ALL in asked and ALL not in names:
        everywhere = asked.pop(ALL)._replace(named=False)
        asked = dict.fromkeys(names, everywhere) | asked
    return asked


def bounds_of(
    values: Floats,
    whole: bool,
    lattice: Lattice | None,
    asked: Asked | None,
    limits: tuple[float, float] | None,
    *,
    zero: bool = True,
    calendar: tuple[int, int] | None = None,
    repeated: bool = False,
) -> tuple[Bound | None, Bound | None]:
    """The least and the greatest admissible fill of a column, None where it has no bound on that side.

    values    [n] observed values
    whole     whether it is a column of whole numbers
    asked     what the user asked for
    limits    of the column's type in the file
    zero      whether zero is a limit where all values are on one side of it
    calendar  the ends of what the column counts, by its name (`calendar_ends`)
    repeated  whether it is a few values that occur again and again, with gaps between all of them

    Both are values that the column can take. A natural limit is, the first of these that there is: values that pile up
    at the end; few whole numbers, or half steps, or values with gaps between; the end itself, where cells of a rounded
    column are dense up to both ends and pile up at none; the end of what the column counts; zero, where no value lies
    beyond it (and not zero itself unless it was observed); the limit of the type.
    """
    piles: tuple[Spike, ...] = ()
    if lattice is not None and (asked is None or asked.rule == "range"):
        piles = find_spikes(values, lattice.resolution, PILED, at_end=LOWER)
    low, high = (_bound(values, whole, lattice, asked, limits, piles, side, zero) for side in (-1, 1))
    ends, known = (float(values.min()), float(values.max())), None
    if repeated:
        known = Bound(ends[0], "repeated"), Bound(ends[1], "repeated")
    elif calendar is not None:
        first, last = (_inside(calendar[i], ends[i], whole, lattice, side) for i, side in enumerate((-1, 1)))
        known = Bound(first, "calendar"), Bound(last, "calendar")
    if known is not None and (asked is None or asked.rule == "range"):
        low = known[0] if low is None or low.why in ("sign", "type") else low
        high = known[1] if high is None or high.why in ("sign", "type") else high
    return low, high


def calendar_ends(name: str, values: Floats) -> tuple[int, int] | None:
    """The least and the greatest number of what a column of whole numbers [n] counts by its name (days of a month,
    hours); None where that is nothing of the calendar, or some number lies beyond."""
    word = "".join(letter for letter in name.casefold() if letter.isalnum())
    every = [ends for names, several in CALENDAR if word in names for ends in several]
    fit = [(low, high) for low, high in every if low <= values.min() and values.max() <= high]
    return (min(low for low, _ in fit), max(high for _, high in fit)) if fit else None


def _bound(
    values: Floats,
    whole: bool,
    lattice: Lattice | None,
    asked: Asked | None,
    limits: tuple[float, float] | None,
    piles: tuple[Spike, ...],
    side: int,
    zero: bool,
) -> Bound | None:
    """The bound at the lower (-1) or the upper (1) end."""
    end = float(values.min() if side < 0 else values.max())
    if asked is not None:
        limit = asked.low if side < 0 else asked.high
        if asked.rule == "none":
            return None
        if asked.rule == "observed":
            return Bound(end, "observed")
        if limit is not None:
            return Bound(_inside(limit, end, whole, lattice, side), "asked")
    for pile in piles:
        if lattice is not None and pile.holds(np.array(end), lattice.resolution):
            return Bound(pile.value, "spike")
    if lattice is not None and (whole or lattice.resolution == HALF) and _is_scale(values, lattice, end):
        return Bound(end, "few" if whole else "halves")
    if zero and lattice is not None and not lattice.stand_in and not piles and _is_even(values, lattice.resolution):
        return Bound(end, "even")
    if zero and side * end <= 0:
        return Bound(_beside_zero(end, whole, lattice, side), "sign")
    if limits is not None:
        return Bound(_inside(limits[0] if side < 0 else limits[1], end, whole, lattice, side), "type")
    return None


def _is_scale(values: Floats, lattice: Lattice, end: float) -> bool:
    """Whether the end of a column of whole numbers, or of half ones, is that of a scale."""
    span = round((float(values.max()) - float(values.min())) / lattice.resolution) + 1
    if span > MOST_FEW or 2 * len(np.unique(values)) > len(values):
        return False
    return span <= FEW or int((values == end).sum()) >= OFTEN


def _is_even(values: Floats, resolution: float) -> bool:
    """Whether cells are dense right up to both ends (hours of the day, degrees of a compass, places in a list): then
    some would lie beyond, were that possible."""
    distinct, counts = np.unique(values, return_counts=True)
    if np.median(counts) > 1 and len(distinct) < SPARSE * (distinct[-1] - distinct[0]) / resolution:
        values = distinct  # values between are lacking: rows of one subject, visit by visit, are one cell
    low, high = np.quantile(values, [0.05, 0.95])
    near = EDGE * (high - low)
    inwards = np.sort(values)
    return bool(near > 0 and all(_is_dense(away, near) for away in (inwards - inwards[0], inwards[-1] - inwards[::-1])))


def _is_dense(away: Floats, near: float) -> bool:
    """Whether cells are dense up to an end from which they lie so far away [n], the nearest first."""
    if (away <= near).sum() < DENSE:
        return False
    more = min((1 + FURTHER) * DENSE, len(away) // 2)
    if more <= 2 * DENSE:  # too few to tell
        return True
    outer, inner = away[DENSE - 1] / (DENSE - 1), (away[more - 1] - away[DENSE - 1]) / (more - DENSE)
    return bool(outer <= THINNER * inner)


def _inside(limit: float, end: float, whole: bool, lattice: Lattice | None, side: int) -> float:
    """The outermost value of the column within a limit that the observed end does not exceed."""
    if lattice is None:
        return float(np.floor(limit) if side > 0 else np.ceil(limit)) if whole else limit
    nearest = float(lattice.snap(np.array(limit)))
    if side * nearest > side * limit:
        nearest = float(lattice.snap(np.array(nearest - side * lattice.resolution)))
    return max(nearest, end) if side > 0 else min(nearest, end)  # the end may be on no lattice


def _beside_zero(end: float, whole: bool, lattice: Lattice | None, side: int) -> float:
    """The value of the column next to zero on the side of an observed end that is not zero; else zero."""
    if end == 0:
        return 0.0
    if lattice is None:
        return -side * min(1.0, abs(end)) if whole else NEAREST * end or end
    units = (-side * lattice.origin) % lattice.step or lattice.step
    nearest = float(lattice.snap(np.array(-side * units / 10.0**lattice.decimals)))
    return min(nearest, end) if side < 0 else max(nearest, end)  # the end may be on no lattice
