"""Columns that are in order in every row (admitted before discharged, a part no greater than the whole): found in a
table that is fitted, and kept by fills.

A model knows such columns as numbers that go together, and where they are close it draws some the other way round.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from vgi_cli.columns.base import ModelledColumn
from vgi_cli.columns.clock import DAY
from vgi_cli.columns.datetime import Moment
from vgi_cli.columns.number import Number
from vgi_cli.columns.numerals import Bools, Floats, Ints
from vgi_cli.columns.orders import SMALL, Order
from vgi_cli.columns.places import evenly
from vgi_cli.columns.relations import Relation
from vgi_cli.columns.scale import decades
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.apart import Apart
from vgi_cli.encoding.caps import cut_off_again
from vgi_cli.encoding.comparable import comparable
from vgi_cli.encoding.computing import brought
from vgi_cli.encoding.dates import Parted
from vgi_cli.encoding.redundant import FIRST_LOOK, as_number, codes_of, days_and_times, half_digit, shift_between
from vgi_cli.encoding.ties import NOISE, Pair, beside, crossed, same, ties_of
from vgi_cli.table.base import Table

ROWS = 2_000
"""Observed cells of a column by which it is asked how often two columns cross in rows that have been mixed."""
ALONE = 0.5
"""Share of the observed cells of one of two columns that lie in rows with both, below which these alone count too: what
is zero where the other column has no cell says nothing of it."""
FEWEST = 30
"""Rows in which two columns are observed: with fewer nothing is said."""
ENOUGH = 20.0
"""Nats by which rows must speak for an order, beyond what the choice of two columns explains: of columns that have
nothing to do with each other as many rows are in order with a probability of less than exp(-ENOUGH)."""
CROSSED = 1e-3
"""Share of the rows that would not be in order if the difference of the columns were normal: below, hardly a fill
would be."""
TIMES = 3.0
"""So many times the share of the rows that would not be in order then have small distances."""
EQUAL, NEARLY = 5.0, 1e-3
"""Rows that would be equal in two columns in order, by those that nearly are: where none is, none may be. Share of a
step by which arithmetic may be off."""
TAIL = 0.4
"""How far on the wrong side fills lie on average, in spreads of the distance: of a normal law as its tail does."""


def orders_among(table: Table, schema: Schema, relations: Sequence[Relation], bare: Table) -> tuple[Order, ...]:
    """The orders of the columns of numbers that may be compared (`comparable`), and of moments of one kind, but for
    those that follow from two others; the surest first. Columns of one relation, and parts of dates, are left to that.
    `bare`: the table without the cells that say nothing; they must be in order too.
    """
    found = _found_among(bare, schema, relations)
    against = [0] * len(found) if bare is table else crossings(table, replace(schema, orders=found))
    return tuple(one for one, rows in zip(found, against, strict=True) if not rows)


def _found_among(table: Table, schema: Schema, relations: Sequence[Relation]) -> tuple[Order, ...]:
    """As of `orders_among`, by the cells of a table."""
    columns = [column for column in schema.encoded if as_number(column) is not None]
    cells = [_Cells.of(codes_of(table, column)) for column in columns]
    kinds = {column.clock.what for column in columns if isinstance(column, Moment)}
    mixed = {"date", "datetime"} <= kinds
    related = [one for one in relations if one.how != "completed"]  # but for the dates of completed years
    together = [{a, b} for one in related for a, b in itertools.combinations(one.names, 2)]
    parts = [one.names[0] for one in relations if one.part is not None]
    together += [{a, b} for a, b in itertools.combinations(parts, 2)]
    together += cut_off_again(relations)
    choice = 2 * np.log(max(len(columns), 1))
    found: dict[tuple[str, str], Order] = {}
    for (i, low), (j, high) in itertools.permutations(enumerate(columns), 2):
        between = _between_codes(low, high) if mixed else _same_codes(low, high)
        if between is None:
            continue
        own, shift = (cells[i].times(between.per[0]), cells[j].times(between.per[1])), between.shift
        if crossed(own[0].first, own[1].first + shift).any():
            continue
        ratio = not isinstance(low, Moment)  # codes of moments count from an origin of their own
        settled = {low.name, high.name} in together
        apart = None if settled else _in_order(*own, shift, choice, ratio=ratio)
        if apart is not None:
            names = low.name, high.name
            found[names] = Order(*names, apart.spread, apart.small, shift, apart.ratio, per=between.per)
    found = comparable(table, schema, found, ENOUGH)
    above: dict[str, set[str]] = {}
    for low_name, high_name in found:
        above.setdefault(low_name, set()).add(high_name)
    follows = {(low, high) for low, highs in above.items() for name in highs for high in above.get(name, set())}
    every = {column.name: (column, codes_of(table, column)) for column in schema.encoded if found}
    return tuple(_settled(order, every) for pair, order in found.items() if pair not in follows)


class _Codes(NamedTuple):
    """As of an Order."""

    per: tuple[float, float]
    shift: float


def _same_codes(low: ModelledColumn, high: ModelledColumn) -> _Codes | None:
    """How the codes of two columns of one kind are compared; None where they count other things."""
    shift = shift_between(low, high)
    return None if shift is None else _Codes((1.0, 1.0), shift)


def _between_codes(low: ModelledColumn, high: ModelledColumn) -> _Codes | None:
    """The same, of a column of days and one of times too."""
    found = days_and_times(low, high)
    if found is None:
        return _same_codes(low, high)
    per, shift = found
    return _Codes(per, shift + (DAY - 2 * half_digit(low) if per[1] == DAY else 0.0))  # until the day ends


def _settled(order: Order, columns: Mapping[str, tuple[ModelledColumn, Floats]]) -> Order:
    """An order with what is to be said of where its cells are equal, or by what they differ at least where none are."""
    (low, a), (high, b) = columns[order.low], columns[order.high]
    if order.mixed:
        return order
    if gap := _gap(low, high, b + order.shift - a):
        small = tuple(max(own - gap, 0.0) for own in order.small) if not order.ratio else order.small
        return replace(order, shift=order.shift - gap, small=small, gap=gap)
    return replace(
        order, ties=ties_of(Pair(low, high, a, b + order.shift, order.shift), np.array(order.small), columns)
    )


def _gap(low: ModelledColumn, high: ModelledColumn, apart: Floats) -> float:
    """By what cells of two columns differ at least, a step of the finer one, by their distances [N]; 0 where some are
    equal, or where that none is may be chance: fewer than EQUAL would be by those that differ by one step and by two,
    going on as these do, or by a normal law of the distance."""
    apart = apart[~np.isnan(apart)]
    digits = [2 * half_digit(one) for one in (low, high)]
    step = min(digits)
    if not step or not len(apart) or float(apart.min()) < step * (1 - NEARLY):
        return 0.0
    steps = apart / step
    one, two = (int((np.abs(steps - count) < NEARLY).sum()) for count in (1, 2))
    normal = NormalDist(float(steps.mean()), max(float(steps.std()), NEARLY))
    equal = len(steps) * (normal.cdf(0.5) - normal.cdf(-0.5))
    return step if max(one * min(one / max(two, 1), 1.0), equal) >= EQUAL else 0.0


class _Cells(NamedTuple):
    """The codes [N] of a column, the first of them, and of those that are observed some, sorted: evenly spread ones."""

    codes: Floats
    first: Floats
    ordered: Floats

    @classmethod
    def of(cls, codes: Floats) -> _Cells:
        seen = codes[~np.isnan(codes)]
        return cls(codes, codes[:FIRST_LOOK], np.sort(seen[evenly(len(seen), ROWS)]))

    def times(self, per: float) -> _Cells:
        """The same in another unit."""
        return self if per == 1 else _Cells(*(per * own for own in self))


class _Distances(NamedTuple):
    """As of an Order."""

    spread: float
    small: tuple[float, ...]
    ratio: bool


def _in_order(low: _Cells, high: _Cells, shift: float, choice: float, *, ratio: bool) -> _Distances | None:
    """How far apart cells are that are in order wherever both are observed; None where they are not, or no more rows
    say so than chance explains, or all are so far apart that nothing would cross. `ratio`: whether that may be by the
    logarithms."""
    both = ~np.isnan(low.codes) & ~np.isnan(high.codes)
    n = int(both.sum())
    if n < FEWEST:
        return None
    a, b = low.codes[both], high.codes[both] + shift
    if crossed(a, b).any():
        return None
    ratio = ratio and bool(a.min() > 0) and decades(a, 0.0) and decades(b, 0.0)
    if ratio:
        a, b = np.log(a), np.log(b)
    size = max(float(np.abs(a).max()), float(np.abs(b).max()), np.finfo(float).tiny)  # squares may overflow
    apart = np.maximum(b / size - a / size, 0.0)
    spread = float(apart.std())
    if spread == 0:
        return None
    beyond = NormalDist().cdf(-float(apart.mean()) / spread)
    mixed = _crossing(low.ordered, high.ordered + shift)
    if n < ALONE * max(np.isfinite(own.codes).sum() for own in (low, high)):
        mixed = max(mixed, _crossing(low.codes[both], np.sort(high.codes[both]) + shift))
    if beyond < CROSSED or -n * np.log1p(-min(mixed, 0.999)) < ENOUGH + choice:  # mixed: of two other rows
        return None
    levels = (np.arange(SMALL) + 0.5) / SMALL * min(TIMES * beyond, 1.0)
    small = np.quantile(b - a, levels, method="nearest").clip(0.0)
    middle = float(np.subtract(*np.quantile(apart, (0.75, 0.25))))
    return _Distances(size * (min(spread, middle) or spread), tuple(small.tolist()), ratio)


def _crossing(low: Floats, high: Floats) -> float:
    """How often a cell of some [n] is greater than one of others [m], ascending, of two other rows."""
    return float(np.searchsorted(high, low).mean()) / max(len(high), 1)


def crossings(table: Table, schema: Schema) -> list[int]:
    """Of each order of a schema, in how many rows of a table both cells are observed and out of order."""
    return [int(off.sum()) for off in crossing_rows(table, schema)]


def crossing_rows(table: Table, schema: Schema) -> Iterator[Bools]:
    """Of each order of a schema these rows [N]."""
    columns = {column.name: column for column in schema.encoded}
    codes = {name: codes_of(table, columns[name]) for name in {n for one in schema.orders for n in (one.low, one.high)}}
    for one in schema.orders:
        yield crossed(one.per[0] * codes[one.low], one.per[1] * codes[one.high] + one.shift)


def keep_orders(
    draws: Floats,
    observed: Floats,
    missing: Bools,
    schema: Schema,
    room: Mapping[str, tuple[Floats, Floats]] | None = None,
    ties: Callable[[str, str], Floats] | None = None,
    parts: Mapping[str, Parted] | None = None,
) -> Apart:
    """Bring fills into the order of their columns, in place; where some fill could not.

    draws     [m, N, columns] codes of completed rows
    observed  [N, columns] codes of the same rows, exact where a cell is observed
    missing   [N, columns]
    room      by columns of relations from where to where [N] each may move all the same
    ties      by the names of a column and of the other one of its order random numbers from 0 to 1 [m, N]; None: fills
              are equal as often as they are drawn so
    parts     by columns of dates what is known of their parts

    Columns are looked at from the least on. A fill that lies beyond a cell of its row which is observed, or was looked
    at before, is moved to the other side of it, by one of the small distances that were seen: the farther the more it
    was on the wrong one. Where cells of two columns are equal in many rows, fills are made equal as often before that
    (`ties.py`). Other columns of a relation are settled before, and are not moved. A date of which parts are known is
    moved from there to the nearest day that has them: beside the cells that are settled before the others are looked
    at, and beside all cells of its row afterwards, where it lies on the wrong side of one still.
    """
    apart = Apart(draws.shape[:2])
    if not schema.orders or not missing.any():
        return apart
    rooms, parted = room or {}, parts or {}
    filled = _Filled.of(draws, observed, missing, schema, rooms)
    sequence = [(k, filled.names[k]) for k in np.isfinite(filled.closed.most).sum(0).argsort(kind="stable").tolist()]
    for k, name in sequence:  # what may move nowhere is there before the others
        if name in rooms:
            filled.hold(k, rooms[name][0] == np.inf, parted.get(name))
    for k, name in sequence:
        filled.move(k, rooms.get(name), ties)
    for k, name in sequence:
        if name in parted:
            rows = np.flatnonzero(parted[name].rows & missing[:, filled.places[k]])
            filled.take_parts(k, parted[name], rows, np.ones((len(rows), len(sequence)), bool))
    draws[:, :, filled.places] = np.where(
        missing[:, filled.places], filled.values / filled.unit, draws[:, :, filled.places]
    )
    filled.note_apart(apart)
    return apart


def out_of_order(values: Floats, schema: Schema) -> Bools:
    """[..] which rows of codes [.., columns] are not in the order of their columns."""
    return pairs_out_of_order(values, schema) > 0


def pairs_out_of_order(values: Floats, schema: Schema) -> Ints:
    """[..] how many pairs of columns rows of codes [.., columns] have out of order."""
    wrong = np.zeros(values.shape[:-1], np.int64)
    for low, high, shift, per in pairs_in_order(schema):
        wrong += crossed(per[0] * values[..., low], per[1] * values[..., high] + shift)
    return wrong


def pairs_in_order(schema: Schema) -> Iterator[tuple[int, int, float, tuple[float, float]]]:
    """The places of two columns, and `shift` and `per` of their order, of all orders of a schema, those included that
    follow from others."""
    if schema.orders:
        per = _units(schema)
        closed = _closed(schema.orders, per)
        names, most = closed.names, closed.most
        places = [schema.modelled.index(name) for name in names]
        for i, j in np.argwhere(np.isfinite(most)).tolist():
            yield places[i], places[j], float(most[i, j]), (per[names[i]], per[names[j]])


def rooms_in_order(
    observed: Floats, missing: Bools, schema: Schema, names: Collection[str]
) -> dict[int, tuple[Floats, Floats]]:
    """By the places of the columns of some names from where to where [N] the cells that are observed of others leave
    them; observed and missing [N, columns]."""
    least_of_all, most_of_all = (np.full(len(missing), side * np.inf) for side in (-1, 1))
    rooms = {schema.modelled.index(name): (least_of_all, most_of_all) for name in names}
    for low, high, shift, per in pairs_in_order(schema) if names else ():
        if high in rooms:
            least = np.where(missing[:, low], -np.inf, (per[0] * observed[:, low] - shift) / per[1])
            rooms[high] = np.maximum(rooms[high][0], least), rooms[high][1]
        if low in rooms:
            most = np.where(missing[:, high], np.inf, (per[1] * observed[:, high] + shift) / per[0])
            rooms[low] = rooms[low][0], np.minimum(rooms[low][1], most)
    return rooms


def orders_without(schema: Schema, names: Collection[str]) -> tuple[Order, ...]:
    """The orders of a schema but for those of some columns; those of two others that follow through these stay."""
    rest = [one for one in schema.orders if one.low not in names and one.high not in names]
    if len(rest) == len(schema.orders):
        return schema.orders
    per = _units(schema)
    every, left = _closed(schema.orders, per), _closed(rest, per)
    for i, j in np.argwhere(np.isfinite(every.most)).tolist():
        low, high = every.names[i], every.names[j]
        known = np.inf if {low, high} - {*left.names} else left.most[left.names.index(low), left.names.index(high)]
        if low in names or high in names or every.most[i, j] >= known:
            continue
        mixed = per[low] != per[high]
        unit = 1.0 if mixed else per[low]
        rest.append(
            Order(
                low,
                high,
                float(every.spread[i, j] / unit),
                tuple((every.small[i, j] / unit).tolist()),
                float(every.most[i, j] / unit),
                bool(every.ratio[i, j]),
                per=(per[low], per[high]) if mixed else (1.0, 1.0),
            )
        )
    return tuple(rest)


def _units(schema: Schema) -> dict[str, float]:
    """By columns of orders how many of a common unit their codes count: seconds of a day, where dates are compared with
    times; else 1."""
    mixed = any(one.mixed for one in schema.orders)
    columns = {column.name: column for column in schema.encoded}

    def unit(column: ModelledColumn) -> float:
        days = isinstance(column, Moment) and column.clock.what == "date" and column.clock.measure == "day"
        return float(DAY) if mixed and days else 1.0

    return {name: unit(columns[name]) for one in schema.orders for name in (one.low, one.high)}


class _Filled(NamedTuple):
    """Rows that are brought into order.

    names    the columns of orders, and `places` those that they have among all
    values   [m, N, names] their codes so far, in units that all of them share, of which ...
    unit     [names] ... one code of each counts so many
    fixed    [N, names] which cells stay where they are: those that are observed or settled, and that were looked at
    closed   by how much the columns are in order
    """

    schema: Schema
    names: list[str]
    places: list[int]
    values: Floats
    unit: Floats
    fixed: Bools
    closed: _Closed
    draws: Floats
    observed: Floats
    missing: Bools

    @classmethod
    def of(cls, draws: Floats, observed: Floats, missing: Bools, schema: Schema, movable: Collection[str]) -> _Filled:
        """Those of `keep_orders`; `movable`: the columns of relations that may be moved all the same."""
        per = _units(schema)
        closed = _closed(schema.orders, per)
        names, unit = closed.names, np.array([per[name] for name in closed.names])
        places = [schema.modelled.index(name) for name in names]
        settled = {name for one in schema.relations for name in one.names} - set(movable)
        values = np.where(missing[:, places], draws[:, :, places], observed[:, places]) * unit
        fixed = ~missing[:, places] | np.array([name in settled for name in names], bool)
        return cls(schema, names, places, values, unit, fixed, closed, draws, observed, missing)

    def codes(self, name: str, rows: Ints) -> Floats:
        """[m, rows] of a column."""
        if name in self.names:
            place = self.names.index(name)
            return np.asarray(self.values[:, rows, place] / self.unit[place])
        place = self.schema.modelled.index(name)
        return np.where(self.missing[rows, place], self.draws[:, rows, place], self.observed[rows, place])

    def limits(self, k: int, rows: Ints, known: Bools) -> tuple[_Limit, _Limit]:
        """Between which cells of its rows that are `known` [rows, names] a column lies."""
        # a cell i is at most cell j + most[i, j]: those that are known give the limits
        some, (_, most, small, spread, ratio) = self.values[:, rows], self.closed
        lows, highs = np.where(known, some - most[:, k], -np.inf), np.where(known, some + most[k], np.inf)
        below, above = lows.argmax(-1), highs.argmin(-1)
        low = _Limit(lows.max(-1), small[below, k], spread[below, k], ratio[below, k])
        high = _Limit(highs.min(-1), small[k, above], spread[k, above], ratio[k, above])
        return low.in_units(self.unit[k]), high.in_units(self.unit[k])

    def hold(self, k: int, held: Bools, parted: Parted | None) -> None:
        """Let the cells of a column stay that are `held` [N], where their known parts leave them."""
        if parted is not None:
            rows = np.flatnonzero(held & parted.rows & self.missing[:, self.places[k]])
            self.take_parts(k, parted, rows, self.fixed[rows])
        self.fixed[:, k] |= held

    def take_parts(self, k: int, parted: Parted, rows: Ints, known: Bools) -> None:
        """Move dates of which parts are known to where they are in order with `known` cells [rows, names]."""
        column = self.schema.encoded[self.places[k]]
        assert isinstance(column, Moment), "dates have parts"
        low, high = self.limits(k, rows, known)
        drawn = self.values[:, rows, k] / self.unit[k]
        draw, row = np.nonzero(crossed(low.ends, drawn) | crossed(drawn, high.ends))
        if len(row):
            near = _between(column, drawn, low, high, (parted.ends[0][rows], parted.ends[1][rows]))[draw, row]
            found, able = parted.placed(column, near, rows[row], (low.ends[draw, row], high.ends[draw, row]))
            self.values[draw, rows[row], k] = np.where(able, found, drawn[draw, row]) * self.unit[k]

    def move(self, k: int, room: tuple[Floats, Floats] | None, ties: Callable[[str, str], Floats] | None) -> None:
        """Bring the cells of a column into order with those that are fixed, as which they count from then on; equal to
        these as often as `ties` say (see `keep_orders`). `room`: from where to where [N] they may be moved."""
        rows = np.flatnonzero(~self.fixed[:, k])
        if not len(rows):
            return
        low, high = self.limits(k, rows, self.fixed[rows])
        least, greatest = (-np.inf, np.inf) if room is None else (room[0][rows], room[1][rows])
        column, drawn = self.schema.encoded[self.places[k]], self.values[:, rows, k] / self.unit[k]
        if ties is not None:
            ends = np.maximum(low.ends, least), np.minimum(high.ends, greatest)
            own = [one for one in self.schema.orders if one.ties is not None and column.name in (one.low, one.high)]
            drawn = _Cell(self, column, rows, drawn, ends).tied(own, ties)
        self.values[:, rows, k] = _between(column, drawn, low, high, (least, greatest)) * self.unit[k]
        self.fixed[rows, k] = True

    def note_apart(self, apart: Apart) -> None:
        """Add to `apart` where fills are out of order."""
        most, said = self.closed.most, {(one.low, one.high): one for one in self.schema.orders}
        for i, j in np.argwhere(np.isfinite(most)).tolist():
            pair = [self.places[i], self.places[j]]
            wrong = self.missing[:, pair].any(1) & crossed(self.values[..., i], self.values[..., j] + most[i, j])
            apart.add(pair, wrong, said.get((self.names[i], self.names[j])))


class _Cell(NamedTuple):
    """The cells of a `column` in some `rows`, as they were `drawn` [m, rows], and between which `ends` they lie."""

    filled: _Filled
    column: ModelledColumn
    rows: Ints
    drawn: Floats
    ends: tuple[Floats, Floats]

    def tied(self, orders: Sequence[Order], ties: Callable[[str, str], Floats]) -> Floats:
        """[m, rows] the cells, equal to those of the other columns of some orders as often as is to be, where these are
        fixed before."""
        number = as_number(self.column)
        assert number is not None, "orders are of numbers"
        low, high = np.maximum(self.ends[0], number.ends[0]), np.minimum(self.ends[1], number.ends[1])
        values, done, taken = self.drawn, np.zeros(self.drawn.shape, bool), np.zeros(self.drawn.shape)
        asked = list[tuple[Bools, Floats]]()
        for one in orders:
            below = self.column.name == one.low
            name = one.high if below else one.low
            other = self.codes(name) + (one.shift if below else -one.shift)
            assert one.ties is not None, "an order with ties"
            chances = one.ties.low if below else one.ties.high
            likely = chances.of(self.codes, other.shape)
            alike = one.ties.likeness(self.codes, likely, low=below)
            known = self.filled.fixed[self.rows, self.filled.names.index(name)]
            held = _valued(self.column, number, other, other, other)
            able = known & same(held, other) & ~crossed(low, held) & ~crossed(held, high)
            chance = np.where(able, np.minimum(likely / np.maximum(1 - taken, NOISE), 1.0), 0.0)  # as it is not another
            u = ties(self.column.name, name)[:, self.rows]
            found = beside(one, values, other, chance, alike, u, low=below)
            apart = self.apart(found.values, other, number, -1 if below else 1)
            away = known & found.moved & ~crossed(low, apart) & ~crossed(apart, high)
            for there, before in asked:  # to which it is not to be equal
                away &= ~(there & same(apart, before))
            asked.append((known, other))
            moved = np.where(found.equal, held, np.where(away, apart, values))
            values, done = np.where(done, values, moved), done | found.equal
            taken += chance * (1 - taken)
        return values

    def codes(self, name: str) -> Floats:
        """[m, rows] of a column."""
        return self.filled.codes(name, self.rows)

    def apart(self, values: Floats, other: Floats, number: Number, side: int) -> Floats:
        """Values as the column has them, and not the other ones: by its last digit above (side 1) or below (-1)."""
        held = _valued(self.column, number, values, values, values)
        return np.where(side * (held - other) > 0, held, other + side * 2 * half_digit(self.column))


class _Limit(NamedTuple):
    """On which side of `ends` [..] cells have to lie; `small` [.., SMALL], `spread` and `ratio` [..] as of an Order."""

    ends: Floats
    small: Floats
    spread: Floats
    ratio: Bools

    def in_units(self, unit: float) -> _Limit:
        """The same as codes that count so many each."""
        return _Limit(self.ends / unit, self.small / unit, self.spread / unit, self.ratio) if unit != 1 else self

    def beside(self, values: Floats, side: int) -> Floats:
        """Where a cell is placed that lies below its end (side 1) or above it (-1): beyond it, the farther the more it
        was on the wrong side."""
        logs = self.ratio & (self.ends > 0)
        with np.errstate(invalid="ignore", divide="ignore"):
            apart = np.where(logs, np.log(self.ends) - np.log(np.maximum(values, 0.0)), self.ends - values)
            share = -np.expm1(-np.maximum(side * apart, 0.0) / (TAIL * self.spread))
            place = np.clip(np.nan_to_num(share) * SMALL, 0, SMALL - 1).astype(int)
            small = side * np.take_along_axis(self.small, place[..., None], -1)[..., 0]
            small = np.where(self.ratio & ~logs, 0.0, small)  # of an end that is 0 there is no ratio
            return np.where(logs, self.ends * np.exp(np.where(logs, small, 0.0)), self.ends + small)


class _Closed(NamedTuple):
    """By how much some columns are in order, by all orders that follow too.

    most    [columns, columns] cell i is at most cell j + most[i, j]; infinite: they are in no order
    small   [columns, columns, SMALL] as of an Order, and ...
    spread  [columns, columns] ... its spread (1 where there is no order), and ...
    ratio   [columns, columns] ... whether both are of the logarithms
    """

    names: list[str]
    most: Floats
    small: Floats
    spread: Floats
    ratio: Bools


def _closed(orders: Sequence[Order], per: Mapping[str, float]) -> _Closed:
    """The columns of some orders, with those that follow. Through a third column, distances of the same kind add up; of
    two kinds, those that are no ratios count. All in the units of which codes count so many (`per`)."""
    names = list(dict.fromkeys(name for one in orders for name in (one.low, one.high)))
    most = np.full((len(names), len(names)), np.inf)
    small, spread, ratio = np.zeros((*most.shape, SMALL)), np.ones_like(most), np.ones(most.shape, bool)
    for one in orders:
        pair = names.index(one.low), names.index(one.high)
        unit = 1.0 if one.mixed else per[one.low]
        most[pair], spread[pair], ratio[pair] = unit * one.shift, unit * one.spread, one.ratio
        small[pair] = unit * np.array(one.small)
    for k in range(len(names)):
        through = most[:, k, None] + most[k]
        shorter = through < most
        first, second, both = ratio[:, k, None], ratio[k], ratio[:, k, None] & ratio[k]
        own, other = np.where(both | ~first, 1.0, 0.0), np.where(both | ~second, 1.0, 0.0)  # logarithms add up alone
        added = own[..., None] * small[:, k, None] + other[..., None] * small[k]
        small = np.where(shorter[..., None], added, small)
        spread = np.where(shorter, own * spread[:, k, None] + other * spread[k], spread)
        ratio = np.where(shorter, both, ratio)
        most = np.minimum(most, through)
    return _Closed(names, most, small, spread, ratio)


def _between(
    column: ModelledColumn, values: Floats, low: _Limit, high: _Limit, room: tuple[Floats | float, Floats | float]
) -> Floats:
    """Values as their column holds them, between two limits and within a room, anywhere where that is narrower than
    small distances from the limits; as they were where it holds none there."""
    number = as_number(column)
    assert number is not None, "orders are of numbers"
    least, most = np.maximum(number.ends[0], room[0]), np.minimum(number.ends[1], room[1])
    bottom, top = np.maximum(low.ends, least), np.minimum(high.ends, most)
    above, below = low.beside(values, 1), high.beside(values, -1)
    moved = np.where(values < low.ends, above, np.where(values > high.ends, below, values))
    inside = (values >= low.ends) & (values <= high.ends)
    beyond = ((moved < room[0]) | (moved > room[1])) & (bottom <= top)  # its room is narrower than they are apart
    moved = np.where(beyond, brought(values, bottom, top), moved)
    moved = np.where(inside, values, np.clip(moved, bottom, np.maximum(bottom, top)))
    digit = 2 * half_digit(column)
    held, able = values, inside
    for other in (moved, moved + digit, moved - digit, bottom, top):  # the last: a gap between may be wide
        found = _valued(column, number, other, bottom, top)
        good = ~crossed(low.ends, found) & ~crossed(found, high.ends) & (found >= least) & (found <= most)
        held, able = np.where(able, held, found), able | good
        held = np.where(able, held, values)
    return held


def _valued(column: ModelledColumn, number: Number, values: Floats, low: Floats, high: Floats) -> Floats:
    """Values as a column has them: the nearest to which there is one, and of those in a gap the end of it that lies
    between low and high."""
    held = column.held(np.where(np.isfinite(values), values, number.low))
    for start, end in number.gaps:
        inside = (start < held) & (held < end)
        nearer = np.where(held - start < end - held, start, end)
        other = np.where(nearer == start, end, start)
        fits = (low <= nearer) & (nearer <= high)
        held = np.where(inside, np.where(fits, nearer, other), held)
    return held
