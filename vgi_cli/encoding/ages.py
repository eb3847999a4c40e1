"""Ages: completed years or months between two dates of a row, found in a table that is fitted.

By the calendar, not by days: a year is completed on the birthday, of February 29 on March 1. A number of days divided
by 365.25 and rounded down says the same in most rows, and something else on some birthdays.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, cast

import numpy as np

from vgi_cli.columns.calendar import PLACES, Span, days_of, place_of
from vgi_cli.columns.number import Number
from vgi_cli.columns.numerals import Bools, Floats, Ints
from vgi_cli.columns.relations import Relation
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.dates import counted
from vgi_cli.encoding.redundant import FEWEST, FIRST_LOOK, codes_of
from vgi_cli.table.base import Table

NEAR: Mapping[Span, int] = {"year": 31, "month": 3}
"""Days around a birthday (or the day of each month that is like it): ..."""
FEWEST_NEAR = 3
"""... so many rows have a date in them after it, and so many before it, at least: a date a month later would say
another age there, and so would one a month earlier."""
CLEARLY = 3
"""Days from a birthday on either side, beyond which another age is an error, and no other way to count."""


class Age(NamedTuple):
    """A column that is completed years or months between two dates.

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
    """A column of dates: what is counted since 1970-01-01, how many of these its code 0 is, and the places of its days
    (`place_of`) [N], NaN where a cell is missing."""

    name: str
    counted: tuple[Literal["D", "s"], float]
    places: Floats


class _Rule(NamedTuple):
    """Which years or months are completed from one date to another one, and how many places lie between them [N]."""

    first: _Date
    last: _Date
    span: Span
    between: Floats

    def relation(self, name: str) -> Relation:
        names, dates = (name, self.first.name, self.last.name), (self.first.counted, self.last.counted)
        return Relation(names=names, how="completed", span=self.span, dates=dates)

    def off(self, cells: Floats, rows: Ints | slice = slice(None)) -> Bools:
        """Which cells [n] of some rows, that are there as both dates are, are not what it says."""
        between = self.between[rows]
        said = np.floor(between / PLACES[self.span])
        return np.asarray(np.isfinite(cells) & np.isfinite(between) & (said != cells))

    def clear(self, rows: Bools) -> bool:
        """Whether no date of some rows [N] is next to a birthday."""
        after = np.mod(self.between[rows], PLACES[self.span])
        return bool(((after >= CLEARLY) & (after < PLACES[self.span] - CLEARLY)).all())

    def told(self, known: Bools) -> bool:
        """Whether enough rows that are `known` [N] have a date soon after a birthday, and soon before one."""
        size, near = PLACES[self.span], NEAR[self.span]
        after = np.mod(self.between[known], size)
        return min(int((after < near).sum()), int((after >= size - near).sum())) >= FEWEST_NEAR

    def same(self, other: _Rule) -> bool:
        """Whether it has the same dates as another one in all rows that have both: of a copy, or the day of a time."""
        if self.span != other.span:
            return False
        pairs = ((self.first, other.first), (self.last, other.last))
        apart = [np.abs(own.places - its.places) for own, its in pairs]
        return all(bool((one[np.isfinite(one)] == 0).all() and np.isfinite(one).any()) for one in apart)


def ages_among(table: Table, schema: Schema, most: Callable[[int], int] = lambda rows: 0) -> list[Age]:
    """The columns of whole numbers that are completed years or months between two dates in every row that has all
    three, or in all but so many at most (by how many these are); of each one the first two dates of which that is so,
    in the order of the table."""
    numbers = {column.name: codes_of(table, column) for column in schema.encoded if isinstance(column, Number)}
    numbers = {name: cells for name, cells in numbers.items() if _whole(cells)}
    dates = list(_dates(table, schema)) if numbers else []
    held: dict[str, list[_Rule]] = {}
    for first, last in itertools.permutations(dates, 2):
        between = last.places - first.places
        some = np.flatnonzero(np.isfinite(between))[:FIRST_LOOK]
        for span in PLACES:
            rule = _Rule(first, last, span, between)
            for name, cells in numbers.items():
                if rule.off(cells[some], some).sum() > most(table.N):
                    continue
                count = int(_known(cells, rule).sum())
                if count >= FEWEST and rule.off(cells).sum() <= most(count):
                    held.setdefault(name, []).append(rule)
    return [_age(name, numbers[name], rules) for name, rules in held.items()]


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
            days = days_of(np.where(known, codes + begin, 0.0), count)
            own = (cast(Literal["D", "s"], count), begin)
            yield _Date(column.name, own, np.where(known, place_of(days), np.nan))


def _known(cells: Floats, rule: _Rule) -> Bools:
    """[N] the rows that have a cell and both dates."""
    return np.isfinite(cells) & np.isfinite(rule.between)


def _age(name: str, cells: Floats, rules: Sequence[_Rule]) -> Age:
    """What a column is by the rules that hold of it: by those that hold in every row, where there are such, and of
    them the first of those with most rows."""
    best = max(rules, key=lambda one: (not one.off(cells).any(), int(_known(cells, one).sum())))
    known, off = _known(cells, best), best.off(cells)
    rows = np.flatnonzero(known)
    alone = best.told(known & ~off) and best.clear(off) and all(one is best or best.same(one) for one in rules)
    return Age(best.relation(name), rows, cells[rows], off[rows], alone)
