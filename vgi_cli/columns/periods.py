"""Months, quarters and weeks: dates without a day, as whole numbers of them since 1970-01-01.

A week is that of ISO 8601: it begins on Monday, and is of the year that its Thursday is of.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import numpy as np

from vgi_cli.columns.numerals import Ints, Tick

PERIODS: Mapping[Tick, str] = {"Q": "quarter", "M": "month", "W": "week"}
"""Ticks that are no parts of a day, and what they count."""
IN_A_YEAR: Mapping[Tick, int] = {"Q": 4, "M": 12, "W": 52}
THURSDAY = 3
"""Days from the Monday of a week."""


def first_days(ticks: Ints, unit: Tick) -> Ints:
    """The first days of periods, as days since 1970-01-01 (a Thursday)."""
    if unit == "W":
        return np.asarray(ticks * 7 - THURSDAY)
    months = ticks * 3 if unit == "Q" else ticks
    return np.asarray(months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64))


def periods_of(days: Ints, unit: Tick) -> Ints:
    """The periods in which days lie."""
    if unit == "W":
        return np.asarray((days + THURSDAY) // 7)
    months = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
    return np.asarray(months // 3 if unit == "Q" else months)


def unit_of(fields: Mapping[str, object] | set[str]) -> Tick:
    """What a format with these fields of a date counts: days, where it has a day."""
    found = "W" if "V" in fields else "Q" if "q" in fields else "D" if "d" in fields else "M"
    return cast(Tick, found)


def week_of(first: Ints) -> tuple[Ints, Ints]:
    """The years and numbers of weeks, by their Mondays."""
    thursday = first + THURSDAY
    year = thursday.astype("datetime64[D]").astype("datetime64[Y]")
    number = (thursday - year.astype("datetime64[D]").astype(np.int64)) // 7 + 1
    return year.astype(np.int64) + 1970, number


def week(year: Ints, number: Ints) -> Ints:
    """The weeks of these numbers in their years, the first one of which has January 4th."""
    fourth = (year - 1970).astype("datetime64[Y]").astype("datetime64[D]").astype(np.int64) + 3
    return periods_of(fourth, "W") + number - 1
