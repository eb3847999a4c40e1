"""Ages: completed years or months between two dates of a row, or from a date to one day, found in a table that is
fitted; and lengths of time between datetimes in whole days, hours or the like.

Ages go by the calendar: a year is completed on the birthday, of February 29 on March 1. A number of days divided by
365.25 and rounded down says the same in most rows, and something else on some birthdays; where this holds in every row
and the calendar does not, the ages were computed so. So with the nights between two datetimes, which are calendar days:
the days of 24 hours are sometimes one less.

Where a date was computed from another one and a term, all rows lie on the birthday itself, or as many days from it: the
end of a loan. What is found then says each of the three.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, cast, get_args

import numpy as np

from vgi_cli.columns.base import ModelledColumn
from vgi_cli.columns.calendar import (
    LENGTHS,
    PLACES,
    YEARS,
    Ends,
    Rounding,
    Span,
    code_from,
    day_after,
    day_between,
    day_from,
    place_in,
    place_of,
    wholes_between,
)
from vgi_cli.columns.levelled import Levelled, number_of
from vgi_cli.columns.number import Number
from vgi_cli.columns.numerals import Bools, Floats, Ints
from vgi_cli.columns.relations import Relation
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.dates import counted
from vgi_cli.encoding.redundant import FEWEST, FIRST_LOOK, codes_of
from vgi_cli.table.base import Table

AGES: tuple[Span, ...] = ("month", "year")
OF_DATES: tuple[tuple[Span, Rounding], ...] = tuple(itertools.product(YEARS, ("down", "half up")))
"""How whole numbers may be ages that were computed from a number of days."""
RULES: tuple[tuple[Span, Rounding], ...] = (
    ("calendar day", "down"),
    *itertools.product([one for one in LENGTHS if one not in YEARS], cast(tuple[Rounding, ...], get_args(Rounding))),
    *OF_DATES,
)
"""How they may be lengths of time between two moments; the first one is meant where several hold."""
NEAR: Mapping[Span, int] = {"year": 31, "month": 3}
"""Days around a birthday (or the day of each month that is like it): ..."""
FEWEST_NEAR = 3
"""... so many rows have a date in them after it, and so many before it, at least: a date a month later would say
another age there, and so would one a month earlier."""
FEWEST_AGES, FEWEST_ALIKE = 3, 5
"""So many different ages, and rows on either side of a birthday, of two ages at least, where the day to which years are
completed is in no cell."""
FEWEST_TO_THE_DAY = 20
"""Rows in which a date is another one and some years or months to the day, with so many different ones of these as of
ages."""
MOST_AGE, BEYOND = 12_000, 30
"""The greatest age that is looked at, in years or months; and years beyond the greatest one of a column for which it is
said from which dates on they are."""
CLEARLY = 3
"""Days from a birthday on either side, beyond which another age is an error, and no other way to count."""


class Age(NamedTuple):
    """A column that is completed years or months, or a length of time, between two dates.

    relation  what holds
    rows      [n] those that have all three
    cells     [n] of the column there
    off       [n] where it does not hold
    alone     whether no two other dates of the table say as much, and enough rows tell
    """

    relation: Relation
    rows: Ints
    cells: Floats
    off: Bools
    alone: bool


class _Date(NamedTuple):
    """A column of dates: what is counted since 1970-01-01, how many of these its code 0 is, and the places of its
    moments in each span (`place_in`) [N], NaN where a cell is missing."""

    name: str
    counted: tuple[Literal["D", "s"], float]
    places: Mapping[Span, Floats]

    @property
    def without_times(self) -> bool:
        """Whether all its moments are midnights."""
        ticks = self.places["day"]
        return not np.mod(ticks[np.isfinite(ticks)], LENGTHS["day"]).any()


class _Rule(NamedTuple):
    """Which years or the like are counted from one date to another one, how, what is added to their number, and how
    many places lie between the dates [N]. With `ends`: the last date is the first one and these, to the day, but for so
    many days as are the constant."""

    first: _Date
    last: _Date
    span: Span
    between: Floats
    rounding: Rounding = "down"
    constant: float = 0.0
    ends: Ends | None = None

    def relation(self, name: str) -> Relation:
        names, dates = (name, self.first.name, self.last.name), (self.first.counted, self.last.counted)
        return Relation(
            names=names,
            how="completed",
            span=self.span,
            dates=dates,
            rounding=self.rounding,
            constant=self.constant,
            ends=self.ends,
        )

    def said(self, rows: Ints | slice = slice(None)) -> Floats:
        """What it says of some rows [n]; NaN where a date is missing."""
        return wholes_between(self.between[rows], self.span, self.rounding) + self.constant

    def off(self, cells: Floats, rows: Ints | slice = slice(None)) -> Bools:
        """Which cells [n] of some rows, that are there as both dates are, are not what it says."""
        if self.ends is not None:
            days = self.days(cells, rows)
            return np.asarray(np.isfinite(days) & (days != self.constant))
        said = self.said(rows)
        return np.asarray(np.isfinite(cells) & np.isfinite(said) & (said != cells))

    def days(self, cells: Floats, rows: Ints | slice = slice(None)) -> Floats:
        """How many days the last date of some rows is after the first one and as many years or months as cells [n]
        are; NaN where one is missing, or these are too many."""
        assert self.ends is not None, "years or months to the day"
        first, last = (date.places["calendar day"][rows] for date in (self.first, self.last))
        known = np.isfinite(first) & np.isfinite(last) & (np.abs(cells) <= MOST_AGE)
        begin, many = (np.where(known, one, 0.0).astype(np.int64) for one in (first, cells))
        return np.where(known, last - day_after(begin, PLACES[self.span] * many, self.ends), np.nan)

    def clear(self, cells: Floats, rows: Bools) -> bool:
        """Whether no other way to count says what cells [N] of some rows [N] are: none of them has a date next to a
        birthday, and none is the next whole number to a length."""
        if self.span not in AGES:
            return bool((np.abs(cells - self.said())[rows] > 1).all())
        after = np.mod(self.between[rows], PLACES[self.span])
        return bool(((after >= CLEARLY) & (after < PLACES[self.span] - CLEARLY)).all())

    def told(self, known: Bools) -> bool:
        """Whether enough rows that are `known` [N] have a date soon after a birthday, and soon before one: any few rows
        tell a length from others, or years to the day."""
        if self.span not in AGES or self.ends is not None:
            return True
        size, near = PLACES[self.span], NEAR[self.span]
        after = np.mod(self.between[known], size)
        return min(int((after < near).sum()), int((after >= size - near).sum())) >= FEWEST_NEAR

    def same(self, other: _Rule) -> bool:
        """Whether it has the same dates as another one in all rows that have both: of a copy, or the day of a time."""
        if (self.first.name, self.last.name) == (other.first.name, other.last.name):
            return True
        if self.span != other.span:
            return False
        pairs = ((self.first, other.first), (self.last, other.last))
        apart = [np.abs(own.places[self.span] - its.places[self.span]) for own, its in pairs]
        return all(bool((one[np.isfinite(one)] == 0).all() and np.isfinite(one).any()) for one in apart)


def ages_among(table: Table, schema: Schema, most: Callable[[int], int] = lambda rows: 0) -> list[Age]:
    """The columns of whole numbers that are completed years or months, or a length of time, between two dates in every
    row that has all three, or in all but so many at most (by how many these are); of each one the first two dates of
    which that is so, in the order of the table."""
    numbers = _numbers(table, schema)
    dates = list(_dates(table, schema)) if numbers else []
    held: dict[str, list[_Rule]] = {}
    for first, last in itertools.permutations(dates, 2):
        some = _with_both(first, last)[:FIRST_LOOK]
        found = _ages(first, last, numbers), _lengths(first, last, numbers, some, most)
        for name, rule in itertools.chain(_to_the_day(first, last, numbers, some), *found):
            cells = numbers[name]
            if rule.off(cells[some], some).sum() > most(table.N):
                continue
            count = int(_known(cells, rule).sum())
            if count >= FEWEST and rule.off(cells).sum() <= most(count):
                held.setdefault(name, []).append(rule)
    return [_age(name, numbers[name], rules) for name, rules in held.items()]


def terms_among(table: Table, schema: Schema) -> dict[str, Relation]:
    """The columns of whole numbers that are the years or months from one date of a row to another one, to the day."""
    numbers, found = _numbers(table, schema), dict[str, Relation]()
    for first, last in itertools.permutations(_dates(table, schema) if numbers else (), 2):
        for name, rule in _to_the_day(first, last, numbers, _with_both(first, last)[:FIRST_LOOK]):
            found.setdefault(name, rule.relation(name))
    return found


def _to_the_day(first: _Date, last: _Date, numbers: Mapping[str, Floats], rows: Ints) -> Iterator[tuple[str, _Rule]]:
    """Of columns of numbers [N] the years or months after which one date is another one to the day, but for a fixed
    number of days, in every row: the last days of months are meant where rows do not tell. Of dates without times
    alone, and of several numbers. `rows` are looked at first."""
    if not len(rows) or not (first.without_times and last.without_times):
        return
    for span in AGES:
        between = last.places[span] - first.places[span]
        for (name, cells), ends in itertools.product(numbers.items(), cast(tuple[Ends, ...], get_args(Ends))):
            apart = between[rows] - PLACES[span] * cells[rows]
            apart = apart[np.isfinite(apart)]
            if not len(apart) or np.ptp(apart) >= PLACES["month"]:
                continue
            rule = _Rule(first, last, span, between, ends=ends)
            days = rule.days(cells)
            told = np.isfinite(days)
            several = told.sum() >= FEWEST_TO_THE_DAY and len(np.unique(cells[told])) >= FEWEST_AGES
            if several and np.array_equal(told, _known(cells, rule)) and not np.ptp(days[told]):
                yield name, rule._replace(constant=float(days[told][0]))


def _ages(first: _Date, last: _Date, numbers: Iterable[str]) -> Iterator[tuple[str, _Rule]]:
    """The ages between two dates that some columns may be."""
    for span in AGES:
        rule = _Rule(first, last, span, last.places[span] - first.places[span])
        yield from ((name, rule) for name in numbers)


def _lengths(
    first: _Date, last: _Date, numbers: Mapping[str, Floats], rows: Ints, most: Callable[[int], int]
) -> Iterator[tuple[str, _Rule]]:
    """Of columns of numbers [N] the lengths between two dates that they may be by some rows [n], all but so many of
    these: of each column the plainest one of those that these rows speak for most. Where neither date has a time, whole
    days are a sum, and it is ages that are looked for."""
    if not len(rows):
        return
    rules = RULES if "s" in (first.counted[0], last.counted[0]) else OF_DATES
    found: dict[str, list[_Rule]] = {}
    names, cells = list(numbers), np.stack([own[rows] for own in numbers.values()])
    for span, rounding in rules:
        rule = _Rule(first, last, span, last.places[span] - first.places[span], rounding)
        apart = cells - rule.said(rows)
        for name, own in ((names[i], apart[i]) for i in np.flatnonzero(_alike(apart, most(len(rows))))):
            values, often = np.unique(own[np.isfinite(own)], return_counts=True)
            constant = float(values[often.argmax()])
            if span in YEARS and constant:
                continue  # an age to a date a year later, less one, says the same in most rows
            found.setdefault(name, []).append(rule._replace(constant=constant))
    for name, held in found.items():
        own = numbers[name][rows]
        yield name, min(held, key=lambda rule: (int(rule.off(own, rows).sum()), rule.constant != 0))


def _alike(numbers: Floats, most: int) -> Bools:
    """[k] which numbers [k, n] are all the same but for so many at most; NaN: there is none."""
    ordered, counts = np.sort(numbers, 1), np.isfinite(numbers).sum(1)
    held = np.zeros(len(numbers), bool)
    for start in range(min(most + 1, numbers.shape[1])):
        last = np.clip(counts - 1 - most + start, start, numbers.shape[1] - 1)
        held |= np.take_along_axis(ordered, last[:, None], 1)[:, 0] == ordered[:, start]
    return held


def _whole(cells: Floats) -> bool:
    """Whether cells [N] are whole numbers, several of them."""
    seen = cells[np.isfinite(cells)]
    return len(seen) >= FEWEST and bool((seen == np.rint(seen)).all()) and bool(np.ptp(seen) > 0)


def _dates(table: Table, schema: Schema) -> Iterator[_Date]:
    """The columns of dates and of datetimes without a zone."""
    for column in schema.encoded:
        of = counted(column)
        if of is not None and of[0] in ("D", "s"):
            codes, (count, begin) = codes_of(table, column), of
            known = np.isfinite(codes)
            whole = np.where(known, codes, -begin)
            ticks = np.where(known, place_in("day", whole, count, begin), np.nan)
            others = {
                span: np.where(known, place_in(span, whole, count, begin), np.nan) for span in PLACES.keys() - LENGTHS
            }
            places = {**others, **dict.fromkeys(LENGTHS, ticks)}
            yield _Date(column.name, (cast(Literal["D", "s"], count), begin), places)


def _numbers(table: Table, schema: Schema) -> dict[str, Floats]:
    """The columns of whole numbers, of several each [N]."""
    numbers = {column.name: codes_of(table, column) for column in schema.encoded if isinstance(column, Number)}
    return {name: cells for name, cells in numbers.items() if _whole(cells)}


def _with_both(first: _Date, last: _Date) -> Ints:
    """The rows that have both dates."""
    return np.flatnonzero(np.isfinite(first.places["day"]) & np.isfinite(last.places["day"]))


def _known(cells: Floats, rule: _Rule) -> Bools:
    """[N] the rows that have a cell and both dates."""
    return np.isfinite(cells) & np.isfinite(rule.between)


def _age(name: str, cells: Floats, rules: Sequence[_Rule]) -> Age:
    """What a column is by the rules that hold of it: by those that hold in every row, where there are such, of them by
    those to the day, and of these the first of those with most rows."""
    to_the_day = [one for one in rules if one.ends is not None]
    if to_the_day:
        best = max(to_the_day, key=lambda one: (not one.constant, int(_known(cells, one).sum())))
        rules = [best]
    else:
        best = max(rules, key=lambda one: (not one.off(cells).any(), int(_known(cells, one).sum())))
    known, off = _known(cells, best), best.off(cells)
    rows = np.flatnonzero(known)
    alone = best.told(known & ~off) and best.clear(cells, off) and all(one is best or best.same(one) for one in rules)
    return Age(best.relation(name), rows, cells[rows], off[rows], alone)


class AgeToADay(NamedTuple):
    """A column that is completed years or months from a date to one day.

    relation  what holds
    cells     [n] of the column where it and the date are there
    """

    relation: Relation
    cells: Floats


def ages_to_a_day(table: Table, schema: Schema) -> list[AgeToADay]:
    """The columns of whole numbers, or of levels that are such, that are completed years or months from a date to one
    day, the same of all rows, in every row that has both: which day, the rows tell by those next to a birthday. Of each
    one the first date of which that is so, in the order of the table."""
    dates, found = list(_dates(table, schema)), dict[str, AgeToADay]()
    for column in schema.encoded if dates else ():
        numbers = _numbers_of(column)
        if numbers is None:
            continue
        ages = codes_of(table, column)
        if len(numbers):
            ages = np.where(np.isnan(ages), np.nan, numbers[np.nan_to_num(ages).astype(int)])
        if not _whole(ages) or np.nanmin(ages) < 0 or np.nanmax(ages) > MOST_AGE:
            continue
        for date, span in itertools.product(dates, AGES):
            places = date.places[span]
            if not _may_be(ages[:FIRST_LOOK], places[:FIRST_LOOK], span):
                continue
            both = np.isfinite(ages) & np.isfinite(places)
            until = _until(ages[both], places[both], span)
            if until is not None and column.name != date.name:
                relation = _to_a_day((column.name, date.name), numbers, ages[both], date, span, until)
                found.setdefault(column.name, AgeToADay(relation, ages[both]))
    return list(found.values())


def _numbers_of(column: ModelledColumn) -> Floats | None:
    """Which number each level of a column is, [] of one of numbers; None where they are none."""
    if isinstance(column, Number):
        return np.empty(0)
    if not isinstance(column, Levelled) or column.pooled:
        return None
    numbers = [number_of(text) for text in column.texts]
    return None if None in numbers else np.array(numbers, np.float64)


def _may_be(ages: Floats, places: Floats, span: Span) -> bool:
    """Whether years or months are completed at some same time that are some ages [n] from days at some places [n]; NaN
    where one is missing."""
    begins = places + PLACES[span] * ages
    begins = begins[np.isfinite(begins)]
    return not len(begins) or bool(np.ptp(begins) < PLACES[span])


def _until(ages: Floats, places: Floats, span: Span) -> tuple[int, int] | None:
    """From which day to which one years or months are completed that are some ages [n] from days at some places [n];
    None where there is no such day, or too few rows are next to a birthday."""
    size = PLACES[span]
    if len(ages) < FEWEST or not _may_be(ages, places, span) or len(np.unique(ages)) < FEWEST_AGES:
        return None
    first, last = (places + size * ages).max(), (places + size * (ages + 1)).min() - 1
    days = int(day_from(np.array(int(first)))), int(day_from(np.array(int(last) + 1))) - 1
    if days[0] > days[1]:
        return None
    after, before = first - places - size * ages < NEAR[span], places + size * (ages + 1) - 1 - last < NEAR[span]
    told = all(near.sum() >= FEWEST_ALIKE and len(np.unique(ages[near])) > 1 for near in (after, before))
    return days if told and last - first < NEAR[span] else None


def _to_a_day(
    names: tuple[str, str], numbers: Floats, ages: Floats, date: _Date, span: Span, until: tuple[int, int]
) -> Relation:
    """Which ages go with which dates: as bands of these, the last of which begins after the day. `numbers`: see
    `_numbers_of`."""
    (count, begin), size = date.counted, PLACES[span]
    day = int(place_of(np.array(day_between(*until))))
    most = int(ages.max()) + BEYOND * (1 if span == "year" else 12)
    said = np.arange(most, -1, -1)
    cuts = code_from(span, day + 1 - size * np.append(said + 1, 0), count, begin)
    level = {number: float(code) for code, number in enumerate(numbers.tolist())}
    codes = [level.get(float(age)) for age in said] if len(numbers) else [float(age) for age in said]
    return Relation(
        names=names,
        how="bands",
        codes=(None, *codes, None),
        cuts=tuple(cuts.tolist()),
        count=count,
        begin=begin,
        until=until,
        span=span,
    )
