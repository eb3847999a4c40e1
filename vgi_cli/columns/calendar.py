"""Parts of dates and datetimes: years, months, weekdays and the like, as whole numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeVar, get_args

import numpy as np

from vgi_cli.columns.numerals import Floats, Ints
from vgi_cli.columns.periods import first_days, periods_of, week_of

Part = Literal["year", "quarter", "month", "week", "day", "yearday", "weekday", "hour"]
Count = Literal["Q", "M", "D", "s"]
"""What is counted since 1970-01-01: quarters, months, days or seconds."""
WORDS: Mapping[Part, str] = {
    "year": "year",
    "quarter": "quarter",
    "month": "month",
    "week": "ISO week",
    "day": "day of the month",
    "yearday": "day of the year",
    "weekday": "weekday",
    "hour": "hour",
}
MOST: Mapping[Part, int] = {"quarter": 4, "month": 12, "week": 53, "day": 31, "yearday": 366, "weekday": 7, "hour": 23}
"""The greatest number of a part; the least is 1, of hours 0, and years have neither. Weekdays count from Monday, 1."""
PARTS: Mapping[Count, tuple[Part, ...]] = {
    "Q": ("year", "quarter"),
    "M": ("year", "quarter", "month"),
    "D": ("year", "quarter", "month", "week", "day", "yearday", "weekday"),
    "s": ("year", "quarter", "month", "week", "day", "yearday", "weekday", "hour"),
}
"""The parts that moments have, by what is counted of them."""
SECONDS, HOUR = 86_400, 3_600
"""Of a day, and of an hour."""
Years = Literal["year of 365.25 days", "year of 365 days", "month of 30.4375 days"]
Span = Literal["year", "month", "calendar day", "week", "day", "hour", "minute", Years]
"""What is counted between two moments; `calendar day`: how many midnights lie between them."""
TICKS = 1_000_000
"""Of a second."""
LENGTHS: Mapping[Span, int] = {
    "week": 7 * SECONDS * TICKS,
    "day": SECONDS * TICKS,
    "hour": HOUR * TICKS,
    "minute": 60 * TICKS,
    "year of 365.25 days": 365 * SECONDS * TICKS + SECONDS * TICKS // 4,
    "year of 365 days": 365 * SECONDS * TICKS,
    "month of 30.4375 days": (365 * SECONDS * TICKS + SECONDS * TICKS // 4) // 12,
}
"""Ticks of what is as long everywhere in the calendar, or is taken for as long."""
YEARS: tuple[Years, ...] = get_args(Years)
"""Those by which ages are computed from a number of days."""
PLACES: Mapping[Span, int] = {"month": 31, "year": 12 * 31, "calendar day": 1, **LENGTHS}
"""Places of each: of days in a month and in a year whose months all have 31 days (see `place_of`), days, and ticks."""
Rounding = Literal["down", "half up", "half even", "up"]
"""To which whole number a number of them is rounded; halves of `half even` to the even one."""
_Numbers = TypeVar("_Numbers", Ints, Floats)
Ends = Literal["last", "next"]
"""Which day is so many months after January 31 where a month has no such day: its last one, or the first one after
it."""
NOTHING = 4e-7
"""Seconds by which a moment that is a float64 number may be too small."""
IN_FOUR_YEARS: Mapping[Count, int] = {"Q": 16, "M": 48, "D": 1461, "s": 1461}
"""Quarters, months or days; of seconds the days."""


def whole(counts: Floats, count: Count) -> Ints:
    """The whole seconds, or the days, months or quarters, of numbers of them."""
    near = np.floor(counts + NOTHING) if count == "s" else np.rint(counts)
    return np.asarray(near.astype(np.int64))


def part_of(counts: Floats, count: Count, part: Part) -> Floats:
    """[..] a part of moments, as numbers of what is counted since 1970-01-01; NaN where these are not finite."""
    finite = np.isfinite(counts)
    ticks = whole(np.where(finite, counts, 0.0), count)
    if part == "hour":
        found = ticks % SECONDS // HOUR
    else:
        days = ticks if count == "D" else ticks // SECONDS if count == "s" else first_days(ticks, count)
        found = _of_days(days, part)
    return np.where(finite, found, np.nan)


def _of_days(days: Ints, part: Part) -> Ints:
    if part == "weekday":
        return np.asarray((days + 3) % 7 + 1)  # 1970-01-01 was a Thursday
    if part == "week":
        return week_of(days - (days + 3) % 7)[1]
    dates = days.astype("datetime64[D]")
    years = dates.astype("datetime64[Y]")
    if part == "year":
        return np.asarray(years.astype(np.int64) + 1970)
    if part == "yearday":
        return np.asarray(days - years.astype("datetime64[D]").astype(np.int64) + 1)
    if part == "quarter":
        return np.asarray(periods_of(days, "Q") % 4 + 1)
    months = dates.astype("datetime64[M]")
    if part == "month":
        return np.asarray(months.astype(np.int64) % 12 + 1)
    return np.asarray(days - months.astype("datetime64[D]").astype(np.int64) + 1)


def place_of(days: Ints) -> Ints:
    """[..] the places of days since 1970-01-01 in a calendar whose months all have 31 days, some of which are none.
    From one date to another as many years (or months) are completed as `PLACES` of a whole one lie between them: of
    February 29 on March 1."""
    dates = days.astype("datetime64[D]")
    months = dates.astype("datetime64[M]")
    return np.asarray(31 * months.astype(np.int64) + (dates - months.astype("datetime64[D]")).astype(np.int64))


def day_from(places: Ints) -> Ints:
    """[..] the first days, since 1970-01-01, that are not before some places (`place_of`)."""
    first, after = (first_days(places // 31 + more, "M") for more in (0, 1))
    return np.asarray(np.minimum(first + places % 31, after))


def day_after(days: Ints, places: Ints, ends: Ends) -> Ints:
    """[..] the days, since 1970-01-01, that are some years or months, as `places` of these, after some days."""
    later = place_of(days) + places
    return day_from(later) if ends == "next" else np.asarray(day_from(later + 1) - 1)


def days_before(days: Ints, places: Ints, ends: Ends) -> tuple[Ints, Ints]:
    """[..] from which day on, and before which one, the days lie that are some days so many `places` of years or months
    later: none where both are one."""
    low, high = _reaching(days, ends)
    return day_from(low - places), day_from(high - places)


def exactly_between(first: Ints, last: Ints, span: Span, ends: Ends) -> Floats:
    """[..] how many whole years or months after some days other days are; NaN where none is exactly so many."""
    low, high = _reaching(last, ends)
    begin, size = place_of(first), PLACES[span]
    wholes = (high - 1 - begin) // size
    return np.where(begin + size * wholes >= low, wholes, np.nan)


def _reaching(days: Ints, ends: Ends) -> tuple[Ints, Ints]:
    """[..] from which place on, and before which one, days are meant by some days since 1970-01-01."""
    if ends == "next":
        return place_of(days - 1) + 1, place_of(days) + 1
    return place_of(days), place_of(days + 1)


def day_between(first: int, last: int) -> int:
    """A day, since 1970-01-01, from one to another: one with which a year begins, or a month; else the one halfway."""
    for unit in ("Y", "M"):
        begins = int(np.datetime64(last, "D").astype(f"datetime64[{unit}]").astype("datetime64[D]").astype(np.int64))
        if begins >= first:
            return begins
    return (first + last) // 2


def days_of(counts: Floats, count: Count) -> Ints:
    """[..] the days since 1970-01-01 of numbers of days or seconds since then."""
    ticks = whole(counts, count)
    return ticks // SECONDS if count == "s" else ticks


def days_in(span: Span) -> float:
    """About how many days it has."""
    return PLACES[span] / (SECONDS * TICKS if span in LENGTHS else 1)


def place_in(span: Span, codes: Floats, count: Count, begin: float) -> Ints:
    """[..] the places (`PLACES`) of moments whose codes [..] count days or seconds, of which `begin` lie between
    1970-01-01 and the code 0."""
    if span in LENGTHS:
        size = TICKS * (1 if count == "s" else SECONDS)
        return np.asarray(np.rint(codes * size).astype(np.int64) + np.rint(begin * size).astype(np.int64))
    days = days_of(codes + begin, count)
    return days if span == "calendar day" else place_of(days)


def code_from(span: Span, places: Ints, count: Count, begin: float) -> Floats:
    """[..] the least codes whose places are not before some places [..]: see `place_in`."""
    if span in LENGTHS and count == "s":
        return np.asarray((places - NOTHING * TICKS) / TICKS - begin)
    if span in LENGTHS:
        return np.asarray(-(-places // (SECONDS * TICKS)) - begin)
    days = places if span == "calendar day" else day_from(places)
    return np.asarray(days * float(SECONDS if count == "s" else 1) - begin)


def least_between(wholes: _Numbers, span: Span, rounding: Rounding) -> _Numbers:
    """[..] how many places at least lie between two moments where so many wholes [..] do, rounded."""
    odd = (wholes % 2 == 1) & (rounding == "half even")
    return np.asarray(PLACES[span] * wholes - _shift(span, rounding) + odd)


def wholes_between(places: _Numbers, span: Span, rounding: Rounding) -> _Numbers:
    """[..] how many wholes lie between two moments that are so many places [..] apart, rounded."""
    near = (places + _shift(span, rounding)) // PLACES[span]
    return np.asarray(near - (places < least_between(near, span, rounding)))


def _shift(span: Span, rounding: Rounding) -> int:
    """What is added to a number of places before it is rounded down."""
    return {"down": 0, "half up": PLACES[span] // 2, "half even": PLACES[span] // 2, "up": PLACES[span] - 1}[rounding]
