"""Dates, datetimes, times of day and durations: how cells spell them, what they are worth, and how fills are spelled.

A moment is a whole number of *ticks* (days, seconds, or parts of a second; of dates without a day months, quarters or
weeks) since 1970-01-01, since midnight, or of a duration; with an offset or a time zone it is the instant, in UTC. Its
*value*, which is modelled, is the number of days (of dates; or months, quarters, weeks) or of seconds (of all others)
since the first observed one; durations count from zero, and times of day from midnight, or, where a column's times lie
around midnight, from the middle of the hours without any (`_daybreak`): 23:55 is near 00:05 then. It is a float64
number: microseconds are exact over some thirty years.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise, product
from typing import Literal, NamedTuple, Protocol
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
from pydantic import PositiveInt
from pydantic.dataclasses import dataclass

from vgi_cli.columns import worded
from vgi_cli.columns.base import STRICT, Cells
from vgi_cli.columns.calendar import part_of
from vgi_cli.columns.months import ENGLISH, NUMBERS, OF_DAYS, STYLES, WEEKDAYS, pattern, style_of
from vgi_cli.columns.numerals import Bools, Floats, Ints, Moments, Tick, What
from vgi_cli.columns.periods import PERIODS, first_days, periods_of, unit_of, week, week_of

DECIMALS: Mapping[Tick, int] = {**dict.fromkeys(PERIODS, 0), "D": 0, "s": 0, "ms": 3, "us": 6, "ns": 9}
"""Digits of a value that a tick needs, from the coarsest tick on: values are seconds, or days and longer."""
DAY = 86_400
FARTHEST = 2.0**63 - 2.0**10
"""Ticks from the origin that 64 bits hold, most."""
STEPS = (DAY, 3600, 60)
"""Seconds, of which a column may hold multiples only."""
EMPTY, WIDER, CHANCE = 10_800, 1.5, 0.05
"""Where the day of a column of times begins elsewhere than at midnight: seconds without any of them at least, how many
times as many as around midnight at least, and how likely at most so many are where times lie all around the clock."""

_FIELDS: Mapping[str, str] = {
    "Y": "[0-9]{4}",
    "y": "[0-9]{2}",
    "m": "0?[1-9]|1[0-2]",
    "b": pattern("b"),
    "B": pattern("B"),
    "a": pattern("a"),
    "A": pattern("A"),
    "d": "0?[1-9]|[12][0-9]|3[01]",
    "e": "1er|[2-9]|[12][0-9]|3[01]",
    "H": "[01]?[0-9]|2[0-3]",
    "I": "0?[1-9]|1[0-2]",
    "p": "(?i:AM|PM)",
    "M": "[0-5][0-9]",
    "S": "[0-5][0-9]",
    "f": "[0-9]{1,9}",
    "G": "[0-9]{4}",
    "V": "0?[1-9]|[1-4][0-9]|5[0-3]",
    "q": "[1-4]",
    "z": "Z|[+-][0-9]{2}(?::?[0-9]{2})?",
}
"""What a format may hold after `%`, as Python's strptime; %a and %A are the weekday of the date, %q is a quarter, and
%e a day as French has it (1er, 2, 3); the fraction of a second may be absent from a cell."""
_PADDED = "mdHIV"
"""Fields that may be written without a leading zero: `%-d`."""
_DURATION = (
    r"(?:(?P<D>[+-]?[0-9]+) days?(?P<comma>,?) )?(?P<sign>[+-]?)(?P<H>[0-9]+):(?P<M>[0-5][0-9])"
    r"(?::(?P<S>[0-5][0-9])(?:\.(?P<f>[0-9]{1,9}))?)?"
)
LONG, PYTHON, CLOCK, SHORT = "%D days %H:%M:%S", "%D days, %H:%M:%S", "%H:%M:%S", "%H:%M"
"""How durations are written: as pandas and as Python write them, and as hours, minutes and seconds."""

_TIMES = ("%H:%M:%S", "%H:%M", "%H:%M:%S.%f")
_HALVES = ("%I:%M %p", "%I:%M:%S %p", "%I:%M%p")
_ISO = ("%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d")
_DATES = (
    *_ISO,
    *(f"%{first}{s}%{second}{s}%{y}" for s, y in product("/-.", "Yy") for first, second in (("d", "m"), ("m", "d"))),
    *(f"%d{s}%b{s}%{y}" for s, y in product((" ", "-", ""), "Yy")),
    *("%b %d, %Y", "%d %B %Y", "%B %d, %Y"),
    *(f"{day} %{month} %Y" for day in ("%d.", "%e") for month in "Bb"),
    *(f"%d de %{month}{of} %Y" for month in "Bb" for of in (" de", "")),
    "%d/%b/%Y",
)
_PERIODS = (
    *("%Y-%m", "%Y/%m", "%m/%Y", "%m-%Y"),
    *(f"%{month}{s}%{y}" for month in "bB" for s, y in ("-Y", "-y", " Y")),
    *(f"%Y{s}%b" for s in "- "),
    *("%B de %Y", "%b de %Y"),
    *("%G-W%V", "%GW%V", "%G W%V", "%Y-Q%q", "%YQ%q", "%Y Q%q", "Q%q %Y", "Q%q-%Y", "Q%q/%Y"),
)
"""Of months, weeks and quarters."""
FORMATS: Mapping[What, tuple[str, ...]] = {
    "date": (*_DATES, *_PERIODS),
    "time": (*_TIMES, "%H.%M.%S", *_HALVES),
    "datetime": (
        *(f"{day}{gap}{time}{zone}" for day, gap, time, zone in product(_ISO[:1], "T ", _TIMES, ("", "%z"))),
        *(f"{day} {time}" for day, time in product(_DATES[1:], (*_TIMES, *_HALVES[:2]))),
        *(f"%d%b%{y}:{time}" for y, time in product("Yy", _TIMES)),  # as SAS writes them
        *(f"{_ISO[0]} {time}" for time in _HALVES[:2]),
    ),
}
"""Formats that are looked for where none is said."""
ISO: Mapping[What, tuple[str, ...]] = {
    "date": _ISO[:1],
    "time": _TIMES,
    "datetime": tuple(format for format in FORMATS["datetime"] if format.startswith(_ISO[0])),
}
ISO_PERIODS: Mapping[Tick, str] = {"Q": "%Y-Q%q", "M": "%Y-%m", "W": "%G-W%V"}
"""Those of ISO 8601 (and quarters like them), in which limits may be said whatever the column's own are."""


def formats_in(text: str) -> tuple[str, ...]:
    """The formats of a column, that of its fills first: `%Y-%m-%d|%d/%m/%Y` is two, since one has each field once."""
    fields = re.findall(r"%-?(.?)", text)
    return (text,) if len(fields) == len(set(fields)) else tuple(text.split("|"))


def format_problem(what: What, text: str) -> str | None:
    """What is wrong with a format that was asked for, or with several (of dates); None: nothing."""
    several = formats_in(text)
    if len(several) > 1 and what != "date":
        return f"only a date may have several formats, got '{text}'"
    found = next((problem for one in several if (problem := _problem(what, one)) is not None), None)
    if found is None and len({_unit(one) for one in several}) > 1:
        return f"dates of several formats all have a day, or none has, got '{text}'"
    return found


def _unit(text: str) -> Tick:
    """What a format of dates counts."""
    return unit_of({"d" if field == "e" else field for field in re.findall(r"%-?(.?)", text)})


def is_period(text: str) -> bool:
    """Whether a format of dates has no day."""
    return _unit(formats_in(text)[0]) in PERIODS


def _problem(what: What, text: str) -> str | None:
    """The same of one format."""
    fields = re.findall(r"%-?(.?)", text)
    unknown = [field for field in fields if field not in _FIELDS]
    if unknown:
        return f"'{text}' has %{unknown[0]}, expected {', '.join('%' + field for field in _FIELDS)}"
    fields = ["d" if field == "e" else field for field in fields]
    twice = next((field for i, field in enumerate(fields) if field in fields[:i]), None)
    if twice:
        return f"'{text}' has %{twice} twice"
    days = [set("Yy"), set("mbB"), set("d")] if what in ("date", "datetime") else []
    if what == "date":
        days = {"D": days, "M": days[:2], "Q": [days[0], {"q"}], "W": [{"G"}, {"V"}]}[unit_of(set(fields))]
    clocks = [set("HI"), set("M")] if what in ("time", "datetime") else []
    allowed = set().union(*days, *(clocks and [*clocks, set("Sfp")]), *([set("z")] if what == "datetime" else []))
    allowed |= set("aA") if "d" in allowed else set()
    for choice in (*days, *clocks):
        if len(choice & set(fields)) != 1:
            return f"a {what} has one of {' or '.join(sorted('%' + field for field in choice))}, got '{text}'"
    if foreign := [field for field in fields if field not in allowed]:
        return f"a {what} has no %{foreign[0]}, got '{text}'"
    if ("I" in fields) != ("p" in fields) or ("f" in fields and "S" not in fields):
        return f"%I goes with %p, and %f with %S, got '{text}'"
    return None


def pattern_of(text: str) -> str:
    """A regular expression for the cells of a format, one named group a field."""
    parts = re.split(r"(\.%f|%-?.)", text)
    out = []
    for part in parts:
        if part == ".%f":
            out.append(rf"(?:\.(?P<f>{_FIELDS['f']}))?")
        elif part.startswith("%"):
            out.append(f"(?P<{part[-1]}>{_FIELDS[part[-1]]})")
        else:
            out.append(re.escape(part).replace(r"\ ", " ").replace(r"\-", "-").replace(r"\/", "/"))
    return f"^{''.join(out)}$"


_OFFSET = re.compile(r"[+-][0-9]{2}:[0-9]{2}")
"""How Arrow writes a time zone that has no name."""


Case = Literal["", "upper", "lower"]
"""How words are written; empty: as usual."""


class Fields(Protocol):
    """Texts that may be of a form, such as the cells of a column."""

    def fields(self, pattern: str, rows: Ints | None = None) -> tuple[Bools, Mapping[str, npt.NDArray[np.object_]]]: ...


class GivenTexts:
    """Texts [n] that were said, not read from a table."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = list(texts)

    def fields(self, pattern: str, rows: Ints | None = None) -> tuple[Bools, Mapping[str, npt.NDArray[np.object_]]]:
        """Which texts a regular expression matches, and its named groups: see `Cells.fields`."""
        known = re.compile(pattern)
        found = [known.match(text) for text in self._texts]
        groups = [{} if one is None else one.groupdict("") for one in found]
        parts = {name: np.array([group.get(name, "") for group in groups], object) for name in known.groupindex}
        return np.array([one is not None for one in found], bool), parts


class Reading(NamedTuple):
    """Cells read by a format.

    matched  [N] whether a cell is a moment of that format
    ticks    [N] in `unit`; 0 elsewhere
    fields   the texts of the fields
    """

    matched: Bools
    ticks: Ints
    unit: Tick
    fields: Mapping[str, npt.NDArray[np.object_]]


def read(cells: Fields, what: What, text: str, rows: Ints | None = None) -> Reading:
    """The cells (some rows of them) as moments, by a format; by several (of dates) each by the first that it has, with
    the fields of the first format."""
    first, *more = formats_in(text)
    reading = _read(cells, what, first, rows)
    for other in more:
        also = _read(cells, what, other, rows)
        ticks = np.where(reading.matched, reading.ticks, also.ticks)
        reading = reading._replace(matched=reading.matched | also.matched, ticks=ticks)
    return reading


def _read(cells: Fields, what: What, text: str, rows: Ints | None) -> Reading:
    """By one format."""
    if what == "duration":
        form = worded.pattern_of(text) if worded.is_worded(text) else f"^{_DURATION}$"
    else:
        form = pattern_of(text)
    matched, fields = cells.fields(form, rows)
    if "e" in fields:
        fields = {**fields, "d": np.array([day.removesuffix("er") for day in fields["e"].tolist()], object)}
    number = {key: _whole(part) for key, part in fields.items() if key in "YymdHIMSDGVq"}
    nothing = np.zeros(len(matched), np.int64)
    seconds = number.get("M", nothing) * 60 + number.get("S", nothing)
    hours = number.get("H", nothing)
    if "I" in number:
        after = np.array([part.lower() == "pm" for part in fields["p"]], bool)
        hours = number["I"] % 12 + 12 * after
    seconds = seconds + hours * 3600
    if what == "duration":
        negative = fields["sign"] == "-"
        seconds = np.where(negative, -seconds, seconds) + number["D"] * DAY
    digits = max(map(len, fields["f"]), default=0) if "f" in fields else 0
    unit: Tick = "s" if digits == 0 else "ms" if digits <= 3 else "us" if digits <= 6 else "ns"
    if what in ("date", "datetime"):
        tick = unit_of(fields) if what == "date" else "D"
        days, exist = _dates(number, fields, tick)
        matched = matched & exist
        if (field := _named_by(fields, "aA")) is not None:
            named = [WEEKDAYS.get(name.lower(), 0) for name in fields[field]]
            matched = matched & (part_of(days.astype(np.float64), "D", "weekday") == named)
        if what == "date":
            return Reading(matched, np.where(matched, days, 0), tick, fields)
        seconds = seconds + days * DAY
        if "z" in fields:
            kinds = {part: _offset(part) for part in set(fields["z"].tolist())}
            seconds = seconds - np.array([kinds[part] for part in fields["z"].tolist()], np.int64)
    ticks = seconds * 10 ** DECIMALS[unit]
    if digits:
        parts = _whole(np.array([part.ljust(DECIMALS[unit], "0") for part in fields["f"]], object))
        ticks = ticks + (np.where(fields["sign"] == "-", -parts, parts) if what == "duration" else parts)
    return Reading(matched, np.where(matched, ticks, 0), unit, fields)


def _whole(texts: npt.NDArray[np.object_]) -> Ints:
    """[n] texts of digits as numbers; 0 where nothing stands."""
    return np.where(texts == "", "0", texts).astype(np.int64)


def _dates(number: Mapping[str, Ints], fields: Mapping[str, npt.NDArray[np.object_]], unit: Tick) -> tuple[Ints, Bools]:
    """Days, months, quarters or weeks since 1970-01-01, and whether the month has that day, or the year that week."""
    if unit == "W":
        weeks = week(number["G"], number["V"])
        return weeks, (week_of(first_days(weeks, unit))[0] == number["G"]) & (number["G"] >= 1)
    if "Y" in number:
        year = number["Y"]
    else:  # as POSIX has it
        year = number["y"] + np.where(number["y"] < 69, 2000, 1900)
    if unit == "Q":
        return (year - 1970) * 4 + number["q"] - 1, year >= 1
    if "m" in number:
        month = number["m"]
    else:
        names = fields["b" if "b" in fields else "B"]
        month = np.array([NUMBERS.get(name.lower(), 1) for name in names], np.int64)
    months = (year - 1970) * 12 + month - 1
    if unit == "M":
        return months, year >= 1
    days = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64) + number["d"] - 1
    same = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64) == months
    return days, same & (year >= 1)


def _offset(text: str) -> int:
    """Seconds east of UTC: of `Z`, `+02`, `+0200`, `+02:00`."""
    if len(text) < 3:
        return 0
    return (-1 if text[0] == "-" else 1) * (int(text[1:3]) * 3600 + int(text[-2:] if len(text) > 3 else 0) * 60)


@dataclass(frozen=True, config=STRICT)
class Clock:
    """How the moments of one column are read, counted and spelled.

    what    date, datetime, time or duration
    unit    its tick: Q, M, W, D, s, ms, us or ns
    origin  the tick that counts as 0; of times of day the one at which the day begins
    step    ticks, of which all observed moments are multiples: days, hours, minutes, or the digits of a fraction
    format  of its cells, or several of them (`formats_in`); of a typed column, how they are shown as text
    digits  of the fraction of a second
    ragged  whether a fraction of zero is left out
    months  whether the names of months are upper or lower case; empty: `Jan`
    names   the style of the names of months (columns/months.py); empty: English
    weekdays  whether the names of weekdays are upper or lower case, and ...
    days    ... their style; empty: `Mon`, in English
    halves  whether am and pm are lower case; empty: `AM`
    offset  from UTC as it is written, empty where none is
    fixed   whether all cells have this offset
    zone    of a typed column, None where it has none
    daily   whether all moments are midnights of the zone, whose days differ in length where it has summer time
    """

    what: What
    unit: Tick
    origin: int
    step: PositiveInt
    format: str
    digits: int = 0
    ragged: bool = False
    months: Case = ""
    names: str = ""
    weekdays: Case = ""
    days: str = ""
    halves: Case = ""
    offset: str = ""
    zone: str | None = None
    daily: bool = False
    fixed: bool = False

    @property
    def east(self) -> int | None:
        """Seconds by which the column's clocks are ahead of the time that is counted; None: not by the same at all
        moments."""
        if self.zone is not None:
            return _offset(self.zone) if _OFFSET.fullmatch(self.zone) else 0 if self.zone == "UTC" else None
        return _offset(self.offset) if self.fixed else None if "%z" in self.format else 0

    @property
    def changes(self) -> bool:
        """Whether they are datetimes in a time zone whose clocks are not ahead by the same at all moments."""
        return self.what == "datetime" and self.zone is not None and self.east is None

    def ahead(self, seconds: Floats) -> Floats:
        """Seconds [n] by which the clocks of its time zone are ahead of UTC at moments so many seconds after
        1970-01-01 [n]; NaN where there is no moment."""
        zone, begin = ZoneInfo(self.zone or "UTC"), datetime(1970, 1, 1, tzinfo=UTC)
        found = np.full(seconds.shape, np.nan)
        for place in np.flatnonzero(np.isfinite(seconds)).tolist():
            east = (begin + timedelta(seconds=float(seconds[place]))).astimezone(zone).utcoffset()
            found[place] = 0.0 if east is None else east.total_seconds()
        return found

    @property
    def per(self) -> int:
        """Ticks of one unit of a value: of a day (of dates) or of a second."""
        ticks: int = 10 ** DECIMALS[self.unit]
        return ticks

    @property
    def written(self) -> str:
        """The format of its fills."""
        return formats_in(self.format)[0]

    @property
    def measure(self) -> str:
        """What a value counts."""
        return PERIODS.get(self.unit, "day") if self.what == "date" else "second"

    @property
    def begins(self) -> str:
        """When the day of times of day begins, as the column writes it; empty where that is midnight, and of others."""
        return self.spell(np.zeros(1))[0] if self.what == "time" and self.origin else ""

    def values(self, ticks: Ints) -> Floats:
        """Values of ticks."""
        return np.asarray(self.since(ticks, self.origin, self.unit) / self.per, np.float64)

    def since(self, ticks: Ints, origin: int | Ints, unit: Tick) -> Ints:
        """Ticks of a unit from the origin on, which is in that unit too; of times of day within a day."""
        apart = np.asarray(ticks - origin)
        return np.asarray(apart % (DAY * 10 ** DECIMALS[unit])) if self.what == "time" else apart

    def ticks(self, values: Floats) -> Ints:
        """The nearest ticks of values."""
        ticks = self._apart(values) + self.origin
        return np.asarray(ticks % (DAY * self.per)) if self.what == "time" else ticks

    def _apart(self, values: Floats) -> Ints:
        """The same from the origin on; apart from it, so that large numbers lose nothing. Within what 64 bits hold."""
        values = np.clip(values, -FARTHEST / self.per, FARTHEST / self.per)
        whole = np.floor(values)
        parts = np.rint((values - whole) * self.per)
        return np.asarray(whole.astype(np.int64) * self.per + parts.astype(np.int64))

    def snap(self, values: Floats) -> Floats:
        """The nearest values of moments that the column can hold."""
        if self.daily:
            return self.values(self._midnight(self.ticks(values)))
        steps = np.rint(self._apart(values) / self.step).astype(np.int64)
        return np.asarray(steps * self.step / self.per, np.float64)

    def _midnight(self, ticks: Ints) -> Ints:
        """The nearest ticks at which days begin."""
        days, place = np.unique(to_unit(ticks, self.unit, "D"), return_inverse=True)
        near = [np.clip(days + more, *self.days_held) for more in (-1, 0, 1, 2)]
        begins = np.stack([self.midnights(each) for each in near])[:, place.reshape(ticks.shape)]
        nearest = np.abs(begins - ticks).argmin(0)
        return np.asarray(np.take_along_axis(begins, nearest[None], 0)[0])

    def ticks_in(self, values: Floats, unit: Tick) -> Ints:
        """The same in another unit."""
        return to_unit(self.ticks(values), self.unit, unit)

    def limits(self, ns: bool) -> tuple[float, float]:
        """The least and the greatest value that there is; `ns`: in 64 bits of nanoseconds."""
        if self.what == "time":
            return 0.0, (DAY * self.per - self.step) / self.per
        ends = [timedelta.min // timedelta(days=1), timedelta.max // timedelta(days=1)]
        if self.what != "duration":
            years = (1969, 2068) if "%y" in self.written else (1, 9999)  # two digits of a year, as POSIX has it
            first, last = datetime(years[0], 1, 1), datetime(years[1], 12, 31)
            inward = self.zone is not None  # the year is another one elsewhere
            ends = [(first - datetime(1970, 1, 1)).days + inward, (last - datetime(1970, 1, 1)).days - inward]
        if self.unit in PERIODS:
            first, last = to_unit(np.array(ends), "D", self.unit) - self.origin
            return float(first), float(last)
        most = (2**63 - 1) // (10**9 if ns else self.per) // DAY
        ends = [max(ends[0], -most), min(ends[1], most)]
        per_day = self.per if self.unit == "D" else self.per * DAY
        low, high = ((end * per_day - self.origin) / self.per for end in ends)
        return low, high

    @property
    def days_held(self) -> tuple[int, int]:
        """The first and the last day that 64 bits of ticks hold, and the calendar has."""
        most = (2**63 - 1) // 10 ** DECIMALS[self.unit] // DAY
        first, last = ((end - datetime(1970, 1, 1)).days for end in (datetime(1, 1, 1), datetime(9999, 12, 31)))
        return max(first, -most), min(last, most)

    def midnights(self, days: Ints) -> Ints:
        """The ticks at which days since 1970-01-01 begin, where the column's clocks show them."""
        ticks = to_unit(days, "D", self.unit)
        zone = self.zone or self.offset
        if self.what == "date" or not zone or zone == "UTC":
            return ticks
        if self.zone is None or _OFFSET.fullmatch(zone) is not None:
            return ticks - _offset(zone) * self.per
        east = [_east(day, ZoneInfo(zone)) for day in days.tolist()]
        return np.asarray(ticks - np.array(east, np.int64) * self.per)

    def spell(self, values: Floats) -> list[str]:
        """[n] texts of values."""
        ticks = self.ticks(values)
        if self.what == "duration":
            return [self._duration(tick) for tick in ticks.tolist()]
        if self.zone is not None:
            return [self._zoned(tick) for tick in ticks.tolist()]
        if self.what == "date":
            days, seconds, parts = to_unit(ticks, self.unit, "D"), np.zeros_like(ticks), np.zeros_like(ticks)
        else:
            whole, parts = np.divmod(ticks, self.per)
            days, seconds = np.divmod(whole + _offset(self.offset), DAY)
        months = days.astype("datetime64[D]").astype("datetime64[M]")
        year = months.astype("datetime64[Y]").astype(np.int64) + 1970
        month = months.astype(np.int64) % 12 + 1
        day = days - months.astype("datetime64[D]").astype(np.int64) + 1
        if self.unit == "W":
            year, day = week_of(days)  # the number of the week stands for the day
        pieces = re.split(r"(\.%f|%-?.)", self.written)
        columns = zip(*(array.tolist() for array in (year, month, day, seconds, parts)), strict=True)
        return ["".join(self._piece(piece, *row) for piece in pieces) for row in columns]

    def numbers(self, values: Floats) -> Floats | None:
        """[n] the numbers that the texts of values are (20200131); None where they are none."""
        texts = self.spell(values)
        return np.array(texts, np.float64) if all(text.isdigit() for text in texts) else None

    def _piece(self, piece: str, year: int, month: int, day: int, seconds: int, parts: int) -> str:
        if piece == ".%f":
            return self._fraction(parts)
        if not piece.startswith("%"):
            return piece
        hour, rest = divmod(seconds, 3600)
        field = piece[-1]
        if field in ("b", "B"):
            return _in_case(STYLES[field][self.names][month - 1], self.months)
        if field in ("a", "A"):
            return _in_case(OF_DAYS[field][self.days][datetime(year, month, day).weekday()], self.weekdays)
        if field == "e":
            return "1er" if day == 1 else str(day)
        if field in ("p", "z"):
            return self.offset if field == "z" else _in_case("PM" if hour >= 12 else "AM", self.halves)
        number = {
            "Y": year,
            "y": year % 100,
            "m": month,
            "d": day,
            "G": year,
            "V": day,
            "q": (month - 1) // 3 + 1,
            "H": hour,
            "I": (hour - 1) % 12 + 1,
            "M": rest // 60,
            "S": rest % 60,
        }[field]
        digits = {"Y": 4, "G": 4, "q": 1}.get(field, 2)
        return str(number) if piece[1] == "-" else f"{number:0{digits}d}"

    def _fraction(self, parts: int) -> str:
        """`.250` of some ticks below a second; nothing where a fraction of zero is left out."""
        if not self.digits or (self.ragged and parts == 0):
            return ""
        return f".{parts:0{DECIMALS[self.unit]}d}".ljust(10, "0")[: self.digits + 1]

    def _duration(self, tick: int) -> str:
        if worded.is_worded(self.format):
            return worded.spell(self.format, tick // self.per)
        seconds, parts = divmod(tick, self.per)
        if "%D" in self.format:
            days, rest = divmod(seconds, DAY)
            clock = f"{rest // 3600:02d}:{rest % 3600 // 60:02d}:{rest % 60:02d}{self._fraction(parts)}"
            if self.format.startswith(LONG):
                return f"{days} days {'+' if days < 0 else ''}{clock}"
            clock = clock.removeprefix("0") if rest < 36_000 else clock  # as Python writes it
            return f"{days} day{'s' * (abs(days) != 1)}, {clock}" if days else clock
        sign, tick = ("-", -tick) if tick < 0 else ("", tick)
        seconds, parts = divmod(tick, self.per)
        hours = f"{sign}{seconds // 3600:0{1 if '%-H' in self.format else 2}d}:{seconds % 3600 // 60:02d}"
        return f"{hours}:{seconds % 60:02d}{self._fraction(parts)}" if "%S" in self.format else hours

    def _zoned(self, tick: int) -> str:
        seconds, parts = divmod(tick, self.per)
        zone = self.zone or "UTC"
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
        if _OFFSET.fullmatch(zone) is None:
            moment = moment.astimezone(ZoneInfo(zone))
            return f"{moment:%Y-%m-%d %H:%M:%S}{self._fraction(parts)}{moment.isoformat()[19:]}"
        moment += timedelta(seconds=_offset(zone))
        return f"{moment:%Y-%m-%d %H:%M:%S}{self._fraction(parts)}{zone}"


def _east(day: int, zone: ZoneInfo) -> int:
    """Seconds east of UTC at the midnight with which a day begins."""
    offset = (datetime(1970, 1, 1) + timedelta(days=day)).replace(tzinfo=zone).utcoffset()
    return 0 if offset is None else round(offset.total_seconds())


def to_unit(ticks: Ints, unit: Tick, target: Tick) -> Ints:
    """Ticks in another unit, rounded down."""
    if unit == target:
        return ticks
    if unit in PERIODS:
        return to_unit(first_days(ticks, unit), "D", target)
    if target in PERIODS:
        return periods_of(to_unit(ticks, unit, "D"), target)
    if unit == "D":
        return np.asarray(ticks * (DAY * 10 ** DECIMALS[target]))
    if target == "D":
        return np.asarray(ticks // (DAY * 10 ** DECIMALS[unit]))
    finer = DECIMALS[target] - DECIMALS[unit]
    return np.asarray(ticks * 10**finer if finer >= 0 else ticks // 10**-finer)


def zone_known(zone: str) -> bool:
    """Whether a time zone is an offset or one of the system's."""
    try:
        return _OFFSET.fullmatch(zone) is not None or bool(ZoneInfo(zone))
    except (KeyError, ValueError, OSError):
        return False


def within_calendar(ticks: Ints, unit: Tick, *, zoned: bool) -> bool:
    """Whether dates or datetimes lie in the years 1 to 9999; `zoned`: whatever their time zone."""
    days = to_unit(ticks, unit, "D")
    ends = [(end - datetime(1970, 1, 1)).days for end in (datetime(1, 1, 1), datetime(9999, 12, 31))]
    return bool(((days >= ends[0] + zoned) & (days <= ends[1] - zoned)).all())


def typed_clock(moments: Moments, ticks: Ints) -> Clock:
    """The clock of a typed column, of which `ticks` [n] are the observed ones."""
    unit = moments.unit
    for coarser in ("s", "ms", "us"):  # the coarsest tick that loses nothing
        if unit != "D" and DECIMALS[coarser] < DECIMALS[unit]:
            rough = to_unit(ticks, unit, coarser)
            if np.array_equal(to_unit(rough, coarser, unit), ticks):
                ticks, unit = rough, coarser
                break
    digits = DECIMALS[unit]
    shown = 0 if not digits else 9 if digits == 9 else 6
    format = {
        "date": "%Y-%m-%d",
        "datetime": "%Y-%m-%d %H:%M:%S.%f",
        "time": "%H:%M:%S.%f",
        "duration": LONG if moments.unit == "ns" else PYTHON,
    }[moments.what]
    step = step_of(ticks, unit)
    clock = Clock(
        moments.what,
        unit,
        _origin(moments.what, ticks, unit, step),
        step,
        format,
        digits=shown,
        ragged=True,
        zone=moments.zone,
    )
    if moments.zone is None or clock.step == DAY * clock.per or not zone_known(moments.zone):
        return clock
    return replace(clock, daily=bool(np.array_equal(clock._midnight(ticks), ticks)))


def text_clock(what: What, format: str, reading: Reading, observed: Bools) -> Clock:
    """The clock of a column of texts, read by a format or several."""
    ticks, fields = reading.ticks[observed], reading.fields
    lengths = {len(part) for part in fields["f"][observed]} if "f" in fields else {0}
    digits = max(lengths)
    offset, fixed = "", False
    if "z" in fields:
        kinds, counts = np.unique(fields["z"][observed].astype(str), return_counts=True)
        offset = str(kinds[counts.argmax()])
        fixed = bool(kinds.all()) and len({_offset(kind) for kind in kinds.tolist()}) == 1
    step = step_of(ticks, reading.unit)
    if "S" not in fields or (what == "duration" and not any(fields["S"][observed])):
        step = max(step, 60 * 10 ** DECIMALS[reading.unit]) if what != "date" else step
    if digits:
        step = max(step, 10 ** (DECIMALS[reading.unit] - digits))
    if what == "duration":
        format = format or _duration_format(fields, observed)
    else:
        first, *more = formats_in(format)
        for field in _PADDED:
            if field in fields and any(len(part) == 1 for part in fields[field][observed].tolist()):
                first = first.replace(f"%{field}", f"%-{field}")
        format = "|".join([first, *more])
    origin = _origin(what, ticks, reading.unit, step)
    return Clock(
        what,
        reading.unit,
        origin,
        step,
        format,
        digits,
        0 in lengths,
        months=_case(fields.get("b", fields.get("B")), observed, "title"),
        names=names_of(reading, observed, "bB") or "",
        weekdays=_case(fields.get("a", fields.get("A")), observed, "title"),
        days=names_of(reading, observed, "aA") or "",
        halves=_case(fields.get("p"), observed, "upper"),
        offset=offset,
        fixed=fixed,
    )


def _named_by(fields: Mapping[str, object], either: str) -> str | None:
    """Which of two fields of names some fields hold."""
    return next((one for one in either if one in fields), None)


def names_of(reading: Reading, observed: Bools, either: str) -> str | None:
    """The style of the names of months (`bB`) or weekdays (`aA`) that cells have; English where they have none, None
    where no language has them all."""
    field = _named_by(reading.fields, either)
    if field is None:
        return ENGLISH
    counts = Counter(name.lower() for name in reading.fields[field][observed & reading.matched].tolist() if name)
    return style_of(field, counts)


def _case(words: npt.NDArray[np.object_] | None, observed: Bools, usual: str) -> Case:
    """How most of some words [N] are written, where that is not as usual."""
    held = [] if words is None else [word for word in words[observed].tolist() if word]
    upper, lower = (sum(getattr(word, f"is{case}")() for word in held) for case in ("upper", "lower"))
    if max(upper, lower) <= len(held) / 2:
        return ""
    case: Case = "upper" if upper > lower else "lower"
    return "" if case == usual else case


def _in_case(word: str, case: Case) -> str:
    return word.upper() if case == "upper" else word.lower() if case == "lower" else word


def _origin(what: What, ticks: Ints, unit: Tick, step: int) -> int:
    """The tick that counts as 0, of a column of these [n], which are multiples of a step."""
    if what == "duration" or not len(ticks):
        return 0
    return _daybreak(ticks, 10 ** DECIMALS[unit], step) if what == "time" else int(ticks.min())


def _daybreak(ticks: Ints, per: int, step: int) -> int:
    """The tick at which the day of some times [n] begins, `per` ticks a second: midnight, or the middle of the widest
    part of the day without any, where that is clearly wider than what is empty around midnight."""
    times, n = np.unique(ticks), len(ticks)
    around = int(times[0] + DAY * per - times[-1])
    between = np.diff(times)
    if not len(between) or between.max() < max(EMPTY * per, WIDER * around):
        return 0
    widest = int(between.argmax())
    if n * (1 - between[widest] / (DAY * per)) ** (n - 1) > CHANCE:
        return 0
    return int(times[widest] + between[widest] // 2 // step * step)


def _duration_format(fields: Mapping[str, npt.NDArray[np.object_]], observed: Bools) -> str:
    if any(fields["D"][observed].tolist()):
        return PYTHON if any(fields["comma"][observed].tolist()) else LONG
    seconds = any(fields["S"][observed].tolist())
    unpadded = any(len(part) == 1 for part in fields["H"][observed].tolist())
    format = CLOCK if seconds else SHORT
    return format.replace("%H", "%-H") if unpadded else format


def step_of(ticks: Ints, unit: Tick) -> int:
    """Ticks of a day, an hour, a minute or a second, where all are multiples of it; else 1."""
    if unit == "D" or unit in PERIODS or not len(ticks):
        return 1
    steps = [step * 10 ** DECIMALS[unit] for step in (*STEPS, 1)]
    return next((step for step in steps if not (ticks % step).any()), 1)


_WEEKDAY = re.compile(rf"(?:(?P<A>{_FIELDS['A']})|(?P<a>{_FIELDS['a']}))(?P<gap>, ?| )")
"""A weekday before a date."""


def _possible(what: What, text: str) -> Iterator[str]:
    """The formats that a text may have: those of FORMATS, and where it begins with a weekday (as `Mar 2020` does too),
    those of dates and datetimes behind one."""
    yield from FORMATS[what]
    if what in ("date", "datetime") and (found := _WEEKDAY.match(text)) is not None:
        before = f"%{'A' if found['A'] else 'a'}{found['gap']}"
        yield from (before + format for format in FORMATS[what] if not is_period(format))


def without_weekday(format: str) -> str:
    """A format that is one of FORMATS, but for a weekday before it."""
    return re.sub("^%[aA](, ?| )", "", format)


def candidates(whats: tuple[What, ...], texts: list[str]) -> Iterator[tuple[What, str]]:
    """The formats of FORMATS that some texts all have."""
    for what in whats:
        for format in _possible(what, texts[0]):
            pattern = _compiled(format)
            if all(pattern.match(text) for text in texts):
                yield what, format


class Periods(NamedTuple):
    """Months, quarters or weeks: their format, what they count, and the ticks."""

    format: str
    unit: Tick
    ticks: Ints


def periods_in(texts: Sequence[str]) -> Periods | None:
    """Texts as periods of one format, each another one; None where they are none."""
    for format in _PERIODS:
        if all(_compiled(format).match(text.strip()) for text in texts):
            reading = _read(GivenTexts([text.strip() for text in texts]), "date", format, None)
            if reading.matched.all() and len(np.unique(reading.ticks)) == len(texts):
                return Periods(format, reading.unit, reading.ticks)
    return None


_patterns: dict[str, re.Pattern[str]] = {}


def _compiled(format: str) -> re.Pattern[str]:
    if format not in _patterns:
        _patterns[format] = re.compile(pattern_of(format))
    return _patterns[format]


def mixed(cells: Cells) -> list[str]:
    """The formats that a column of dates mixes, the most frequent one first, as one text (`formats_in`). Empty where
    some cell is no date, or where some dates of one form (two numbers with slashes and a year, say) have the day first
    and others the month; several texts where nothing says which of the two a form has first."""
    observed = ~cells.missing
    left, forms = observed.copy(), []
    while left.any():
        text = str(cells.texts(np.flatnonzero(left)[:1])[0]).strip()
        format = next((one for one in _DATES if _compiled(one).match(text)), None)
        if format is None:
            return []
        either = {one: _read(cells, "date", one, None) for one in dict.fromkeys((format, _swapped(format)))}
        held = observed & np.any([reading.matched for reading in either.values()], 0)
        fit = {one: reading.ticks[held] for one, reading in either.items() if reading.matched[held].all()}
        if not fit or not (held & left).any():
            return []
        same = len({ticks.tobytes() for ticks in fit.values()}) == 1
        forms.append((int((held & left).sum()), list(fit)[: 1 if same else None]))
        left &= ~held
    forms.sort(key=lambda form: -form[0])
    return ["|".join(choice) for choice in product(*(formats for _, formats in forms))] if len(forms) > 1 else []


def _swapped(format: str) -> str:
    """The format with day and month the other way round, where dates are written so; else as it is."""
    other = format.translate(str.maketrans("dm", "md"))
    return other if other in _DATES else format


LENGTHS = frozenset(
    {
        *("duration", "elapsed", "worked", "runtime", "lap", "laptime", "overtime", "uptime", "downtime", "delay"),
        *("laufzeit", "wartezeit", "fahrzeit", "überstunden", "verspätung", "durée", "duree", "retard"),
        *("duración", "duracion", "retraso", "durata", "ritardo", "duração", "duracao", "atraso", "looptijd"),
        *("vertraging", "overuren"),
    }
)
"""Words in the names of columns that hold lengths of time, in small letters."""
COMPOUNDS = ("dauer", "duur")
"""What such words end with in languages that write compounds as one."""
ENDS = frozenset({"start", "begin", "end", "from", "to", "until", "at", "beginn", "ende", "von", "bis"})
"""Words in names that say when something begins or ends."""


def named_long(name: str) -> bool:
    """Whether the name of a column says that it holds lengths of time, not times of day."""
    apart = re.sub(r"(?<=[a-zß-ÿ])(?=[A-ZÀ-Þ])", " ", unicodedata.normalize("NFC", name))
    words = [word.casefold() for word in re.findall(r"[^\W\d_]+", apart)]
    both = [*words, *map("".join, pairwise(words))]  # run_time
    return ENDS.isdisjoint(words) and any(word in LENGTHS or word.endswith(COMPOUNDS) for word in both)


def looks_long(texts: list[str]) -> bool:
    """Whether some texts all are durations."""
    return all(re.fullmatch(_DURATION, text) for text in texts)


DECIMAL = re.compile(r"[+-]?[0-9]*\.[0-9]*([eE][+-]?[0-9]+)?")
"""Numbers with a point, which no format has."""


def like(texts: list[str]) -> list[str | None]:
    """Of each text the first format that it has, None where it has none: for messages."""
    return [_first(text) for text in texts]


@lru_cache(maxsize=10_000)
def _first(text: str) -> str | None:
    """The first format that a text has: a column is asked about more than once where a table is encoded anew."""
    if DECIMAL.fullmatch(text):
        return None
    every = (format for what in FORMATS for format in _possible(what, text))
    return next((format for format in every if _compiled(format).match(text)), None)
