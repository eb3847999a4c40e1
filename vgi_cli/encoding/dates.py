"""Columns that are a part of a date, or follow from one: found beside dates and datetimes; and dates are moved to where
their parts are what is known of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from vgi_cli.columns.base import ModelledColumn
from vgi_cli.columns.calendar import HOUR, IN_FOUR_YEARS, MOST, NOTHING, PARTS, SECONDS, Count, Part, part_of, whole
from vgi_cli.columns.datetime import Moment
from vgi_cli.columns.lattice import off_gaps
from vgi_cli.columns.levelled import Levelled
from vgi_cli.columns.number import Number
from vgi_cli.columns.numerals import Bools, Floats, Ints
from vgi_cli.columns.periods import first_days
from vgi_cli.columns.relations import Relation

FIRST_LOOK = 200
"""Rows by which most columns are found to be no part of a date."""
OF_LEVELS: tuple[Part, ...] = ("quarter", "month", "weekday", "hour")
"""Parts from which levels may follow: names of months, seasons, weekends, shifts."""
WEEKDAYS: tuple[tuple[float | None, ...], ...] = (
    (None, *range(7)),
    (None, 1, 2, 3, 4, 5, 6, 0),
    (None, 2, 3, 4, 5, 6, 7, 1),
)
"""Numbers of weekdays from Monday on beside 1 to 7: from Monday, 0, and from Sunday, 0 or 1."""
AROUND = 10
"""Times four years, that days are looked for around those that were drawn: a February 29 on a Monday comes again after
28 years, or 40 across a century."""
LONG = ("year", "quarter", "month")
"""Parts that say in which interval a date lies, with its year."""
COMPLETED: tuple[tuple[set[str], tuple[str, ...]], ...] = (
    ({"day", "weekday", "yearday"}, ()),
    ({"week"}, ("weekday",)),
    ({"month"}, ("day",)),
    ({"quarter"}, ("third", "day")),
    ({"year"}, ("month", "day")),
)
"""What of a drawn date stays, where it can, by the finest of the parts that are known (third: of a quarter)."""


def counted(column: ModelledColumn) -> tuple[Count, float] | None:
    """What is counted of the moments of a column, and how many of them since 1970-01-01 its code 0 is; None where they
    are no dates, months or quarters, nor datetimes; of these as the clocks of the column show them, if all cells have
    one offset."""
    if not isinstance(column, Moment):
        return None
    clock = column.clock
    if clock.what == "datetime" and clock.east is not None:
        return "s", clock.origin / clock.per + clock.east
    if clock.what == "date" and clock.unit in ("Q", "M", "D"):
        return ("Q" if clock.unit == "Q" else "M" if clock.unit == "M" else "D"), float(clock.origin)
    return None


def by_its_clock(column: Moment, codes: Floats) -> tuple[Moment, Floats]:
    """A column of datetimes in a time zone whose offset changes as one of the local times that its clocks show, and its
    codes [n] as codes of that; another column and its codes as they are."""
    clock = column.clock
    if not clock.changes:
        return column, codes
    return replace(column, clock=replace(clock, zone="UTC")), codes + clock.ahead(codes + clock.origin / clock.per)


def part_between(column: ModelledColumn, other: ModelledColumn, first: Floats, second: Floats) -> Relation | None:
    """Which part of the moments of another column, with codes `second` [n], a column is in all rows, or, of levels,
    from which its codes `first` [n] follow; None where there is none."""
    of = counted(other)
    if of is None or not len(first):
        return None
    names, (count, begin) = (column.name, other.name), of
    for part in PARTS[count]:
        if isinstance(column, Levelled):
            if part in OF_LEVELS and (codes := _following(first, second + begin, count, part)) is not None:
                return Relation(names=names, how="part", part=part, count=count, begin=begin, codes=codes)
        elif isinstance(column, Number):
            for codes in ((), *WEEKDAYS) if part == "weekday" else ((),):
                relation = Relation(names=names, how="part", part=part, count=count, begin=begin, codes=codes)
                if all((relation.said(second[some]) == first[some]).all() for some in _looks(first)):
                    return relation
    return None


def _looks(codes: Floats) -> tuple[slice, slice]:
    return slice(0, FIRST_LOOK), slice(0, len(codes))


def _following(levels: Floats, counts: Floats, count: Count, part: Part) -> tuple[float | None, ...] | None:
    """Which level goes with each number of a part that is seen more than once; None where some goes with several."""
    said = np.full(MOST[part] + 1, np.nan)
    for some in _looks(levels):
        places = part_of(counts[some], count, part).astype(int)
        said[places] = levels[some]
        if (said[places] != levels[some]).any():
            return None
    often = np.bincount(places, minlength=len(said)) > 1
    told = tuple(float(level) if seen else None for level, seen in zip(said, often, strict=True))
    return told if len(set(told) - {None}) > 1 else None


class Wanted(NamedTuple):
    """What cells [m, n] say of the moments in some `rows` [n], by a relation."""

    relation: Relation
    cells: Floats
    rows: Bools

    def holds(self, moments: Floats) -> Bools:
        """Whether it is so of moments [m, n]; of other rows it is."""
        return np.asarray((self.relation.said(moments) == self.cells) | ~self.rows)


def moved(
    column: Moment,
    values: Floats,
    wanted: Sequence[Wanted],
    ends: tuple[Floats, Floats],
    *,
    guessed: bool,
    alike: bool = True,
) -> Floats:
    """Moments [m, n] of a column, each moved to the nearest one of which is so what is wanted, from one end [m, n] to
    the other; as far as it can, the others of its parts stay (the day, where the month is another one), if they are to
    be `alike`. As they were where there is none. `guessed`: whether limits count that are guesses from the values which
    were observed."""
    known = np.stack([np.broadcast_to(one.rows, values.shape[1:]) for one in wanted])
    patterns, which = np.unique(known, axis=1, return_inverse=True)
    found = values.copy()
    for kind, pattern in enumerate(patterns.T):
        rows = np.flatnonzero(which.reshape(-1) == kind)
        own = [(one.relation, one.cells[:, rows]) for one, told in zip(wanted, pattern, strict=True) if told]
        if own:
            some = _Drawn(column, values[:, rows], (ends[0][:, rows], ends[1][:, rows]), guessed, alike)
            found[:, rows] = some.moved(own)
    return found


class Parted(NamedTuple):
    """What is `wanted` of the moments of a column in some rows, and from where to where [N] all of them lie besides."""

    wanted: Sequence[Wanted]
    ends: tuple[Floats, Floats]

    @property
    def rows(self) -> Bools:
        """[N] of which something is wanted."""
        return np.asarray(np.logical_or.reduce([one.rows for one in self.wanted]))

    def placed(self, column: Moment, values: Floats, rows: Ints, ends: tuple[Floats, Floats]) -> tuple[Floats, Bools]:
        """Moments [n] of some rows [n], each moved to the nearest one of which is so what is wanted, from one end [n]
        to the other, and where there is such; beyond limits that are guesses where there is none within."""
        wanted = [Wanted(one.relation, one.cells[None, rows], one.rows[rows]) for one in self.wanted]
        values, ends = values[None], (ends[0][None], ends[1][None])
        found, done = values, np.zeros(values.shape, bool)
        of = counted(column)
        assert of is not None, "moments that have parts"
        for guessed in (True, False):
            least, most = column.number.ends if guessed else column.number.given_ends
            low = np.maximum(np.maximum(ends[0], self.ends[0][rows]), least)
            high = np.minimum(np.minimum(ends[1], self.ends[1][rows]), most)
            for first, last in ((low, high), _whole_days(low, high, of[1])) if of[0] == "s" else ((low, high),):
                near = moved(column, values, wanted, (first, last), guessed=guessed, alike=False)
                for other in (near, np.clip(near, low, high)):  # at another time of the first or the last day
                    held = column.held(other)
                    able = np.logical_and.reduce([one.holds(held) for one in wanted]) & (held >= low) & (held <= high)
                    found, done = np.where(done | ~able, found, held), done | able
        return found[0], done[0]


def _whole_days(low: Floats, high: Floats, begin: float) -> tuple[Floats, Floats]:
    """Ends [..] of datetimes moved to those of the days that are between them from midnight to midnight."""
    first = np.ceil((low + begin) / SECONDS) * SECONDS
    last = np.floor((high + begin + 1) / SECONDS) * SECONDS - 1
    return first - begin, last - begin


def room_of(column: ModelledColumn, parts: Sequence[Wanted]) -> tuple[Floats, Floats]:
    """From where to where [N] the parts of dates that are known let them move: within the year, or the quarter or the
    month of it, where no more is known; else nowhere, where some part is."""
    of, rows = counted(column), np.stack([one.rows for one in parts])
    free = ~rows.any(0)
    low, high = np.where(free, -np.inf, np.inf), np.where(free, np.inf, -np.inf)
    number = {one.relation.part: one for one in parts if one.relation.part in LONG and not one.relation.codes}
    others = np.logical_or.reduce([one.rows for one in parts if one not in number.values()], initial=False)
    year = number.get("year")
    if of is None or year is None or of[0] not in ("D", "s"):
        return low, high
    (count, begin), size = of, SECONDS if of[0] == "s" else 1
    some = np.flatnonzero(year.rows & ~others & (year.cells >= 1) & (year.cells < 9999))
    first, length = 12 * (year.cells[some].astype(np.int64) - 1970), np.full(len(some), 12)
    for part, months in (("quarter", 3), ("month", 1)):
        if part in number:
            known, which = number[part].rows[some], number[part].cells[some].astype(np.int64) - 1
            first = np.where(known, first - first % 12 + months * which, first)
            length = np.where(known, months, length)
    low[some] = first_days(first, "M") * size - begin
    high[some] = first_days(first + length, "M") * size - begin - (1 if count == "D" else NOTHING)
    return low, high


class _Drawn(NamedTuple):
    """Moments [m, n] of a column as they were drawn, within which ends [m, n] they have to lie, and
    as of `moved`."""

    column: Moment
    values: Floats
    ends: tuple[Floats, Floats]
    guessed: bool
    alike: bool

    def moved(self, own: Sequence[tuple[Relation, Floats]]) -> Floats:
        """The moments with what relations and their cells [m, n] say of them."""
        of = counted(self.column)
        assert of is not None, "moments that have parts"
        count, begin = of
        at = self.values + begin
        size = SECONDS if count == "s" else 1
        days = whole(at, count) // size  # or months, or quarters
        rest = at - days * size if count == "s" else np.zeros_like(at)
        hours = [one for one in own if one[0].part == "hour"]
        dated = [one for one in own if one[0].part != "hour"]
        done = np.ones(at.shape, bool)
        if dated:
            days, done = self._days(days, count, begin, dated)
        if hours:
            keys = [(one.said(np.arange(0.0, SECONDS, HOUR) - one.begin), cells) for one, cells in hours]
            hour, known = _nearest(np.arange(24), (rest // HOUR).astype(np.int64), keys, (0, 23), np.ones(24, bool))
            rest, done = rest % HOUR + HOUR * hour, done & known
        low, high = self.ends
        stays = np.logical_and.reduce([one.said(self.values) == cells for one, cells in own])
        stays &= (self.values >= low) & (self.values <= high)
        return np.where(stays | ~done, self.values, days * size + rest - begin)

    def _days(
        self, days: Ints, count: Count, begin: float, own: Sequence[tuple[Relation, Floats]]
    ) -> tuple[Ints, Bools]:
        """Days, or months or quarters [m, n] where relations say so, and where there are such."""
        size = SECONDS if count == "s" else 1
        table = self._table(days, count, begin, own)
        at = np.asarray(table * size, np.float64)
        keys = [(relation.said(at - begin), cells) for relation, cells in own]
        parts = {str(relation.part) for relation, _ in own}
        more = next(names for finest, names in COMPLETED if parts & finest) if self.alike else ()
        stay = [(_named(at, count, name), _named(np.asarray(days * size, np.float64), count, name)) for name in more]
        first, last = (np.clip(end + begin, at[0], at[-1]) // size for end in self.ends)
        near, ends = np.clip(days, first, last).astype(np.int64), (first, last)
        may = self._within(at - begin, size)
        often = may
        if size == 1:  # no time of the day is to be added
            codes = at - begin
            often = may & (off_gaps(codes, self.column.number.gaps) == codes) & (self.column.held(codes) == codes)
        found, done = near, np.zeros(near.shape, bool)
        for wanted, usable in (([*keys, *stay], often), (keys, often), (keys, may)):
            other, able = _nearest(table, near, wanted, ends, usable)
            found, done = np.where(done, found, other), done | able
            if done.all():
                break
        return found, done

    def _table(self, days: Ints, count: Count, begin: float, own: Sequence[tuple[Relation, Floats]]) -> Ints:
        """All days (or months, or quarters) around those that were drawn, and the years that are known: so far that
        what is nearest to one does not depend on the others."""
        of, size = IN_FOUR_YEARS[count], SECONDS if count == "s" else 1
        years = [cells for relation, cells in own if relation.part == "year"]
        known = np.concatenate([days.ravel(), *(np.rint((one.ravel() - 1970) * of / 4) for one in years)])
        low, high = ((end + begin) // size for end in self.column.clock.limits(False))
        least, most = (int(np.clip(end, low, high)) for end in (known.min() - AROUND * of, known.max() + AROUND * of))
        return np.arange(least, most + 1)

    def _within(self, codes: Floats, size: int) -> Bools:
        """Which of the days with these codes are within the limits of the column, at some time of the day."""
        least, most = self.column.number.ends if self.guessed else self.column.number.given_ends
        return (codes > least - size) & (codes <= most)


def _named(counts: Floats, count: Count, name: str) -> Floats:
    """A part of moments, or of a quarter which of its months."""
    if name == "third":
        return np.asarray(part_of(counts, count, "month") % 3)
    return part_of(counts, count, "day" if name == "day" else "weekday" if name == "weekday" else "month")


def _nearest(
    table: Ints,
    near: Ints,
    keys: Sequence[tuple[Floats, Floats]],
    ends: tuple[Floats | int, Floats | int],
    usable: Bools,
) -> tuple[Ints, Bools]:
    """Of consecutive numbers `table` [T], those among them that are `usable` [T], the nearest ones to `near` [..] whose
    keys [T] are those [..] beside them, from one end [..] to the other, between which `near` is; and where there are
    such."""
    may = usable.copy()
    own, wanted, known = np.zeros(len(table), np.int64), np.zeros(near.shape, np.int64), np.ones(near.shape, bool)
    for key, cells in keys:
        distinct = np.unique(key[~np.isnan(key)])
        if not len(distinct):
            return near, np.zeros(near.shape, bool)
        place, other = (np.minimum(np.searchsorted(distinct, each), len(distinct) - 1) for each in (key, cells))
        may &= distinct[place] == key
        known &= distinct[other] == cells
        own, wanted = own * len(distinct) + place, wanted * len(distinct) + other
    count = len(table)
    held = np.sort((own * count + np.arange(count))[may])
    if not len(held):
        return near, np.zeros(near.shape, bool)
    target = np.clip(near - table[0], 0, count - 1)
    at = np.searchsorted(held, wanted * count + target)
    best, apart = np.zeros(near.shape, np.int64), np.full(near.shape, count + 1)
    for each in (held[np.maximum(at - 1, 0)], held[np.minimum(at, len(held) - 1)]):
        there = (each // count == wanted) & (table[each % count] >= ends[0]) & (table[each % count] <= ends[1])
        away = np.where(there, np.abs(each % count - target), count + 1)
        best, apart = np.where(away < apart, each % count, best), np.minimum(away, apart)
    return table[best], known & (apart <= count)


def dated(columns: Sequence[ModelledColumn]) -> Iterator[tuple[ModelledColumn, ModelledColumn]]:
    """The pairs of a column that may be a part of a date, and the date."""
    firsts = [one for one in columns if isinstance(one, Number) or (isinstance(one, Levelled) and not one.pooled)]
    return itertools.product(firsts, [one for one in columns if counted(one) is not None])
