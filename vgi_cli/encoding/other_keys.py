"""Rows whose fills are out of order with what follows from other cells, filled otherwise.

What follows from a key cannot be moved into the order of its columns by itself: the capacity of a plant is what it is.
Where the key is missing as well, such a row gets another one, with whose value it is in order; where it is not, the
other column of the order moves, and what is computed from that follows. So with a total that is less than what was paid
of it: it moves, if its parts or factors can.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from vgi_cli.columns.levelled import Levelled
from vgi_cli.columns.numerals import Bools, Floats, Ints
from vgi_cli.columns.orders import Order
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.apart import Apart
from vgi_cli.encoding.computing import MOST_AT_ONCE
from vgi_cli.encoding.orders import keep_orders, pairs_in_order, pairs_out_of_order
from vgi_cli.encoding.redrawing import Checks, DrawnRows
from vgi_cli.encoding.redundant import half_digit
from vgi_cli.encoding.summands import as_summand
from vgi_cli.encoding.sums import FLOAT
from vgi_cli.encoding.ties import crossed

OTHERS = 4
"""So many other keys are tried."""
PASSES = 2
"""Cells of a row that are tried one after another: two keys, or a key and another column."""


def orders_of_keys(schema: Schema) -> list[Order]:
    """The orders of columns that follow from keys, are keys, or are computed from such."""
    names = {name for one in schema.relations if one.keys for name in one.names} | {one.name for one in schema.lookups}
    size = -1
    while names and size != len(names):
        size = len(names)
        names |= {name for one in schema.relations if names & set(one.names) for name in one.names}
    return [one for one in schema.orders if names & {one.low, one.high}]


def settled_orders(schema: Schema) -> list[Order]:
    """The orders of columns that relations settle, those of keys (`orders_of_keys`) first."""
    keyed, names = orders_of_keys(schema), {name for one in schema.relations for name in one.names}
    return [*keyed, *(one for one in schema.orders if one not in keyed and names & {one.low, one.high})]


def take_others(
    rows: DrawnRows,
    model: Floats,
    schema: Schema,
    orders: Sequence[Order],
    found: Apart,
    keep: Callable[[DrawnRows], Apart],
) -> None:
    """Let rows that are out of order for a key or a relation, and break no other rule, keep to all of them, in place;
    those for which nothing is found stay as they are.

    model   [m, N, columns] codes as the model drew them, before the fills were to keep to anything
    orders  those of columns that relations settle (`settled_orders`)
    found   where fills do not keep to rules; those rows that do then are no longer there
    keep    lets rows keep to relations and orders

    Without keys, a fill that is out of order is moved by itself. Of the keys with which the row is in order the one is
    taken whose values are nearest to what the fills would be so: what the model draws beside the other cells of the row
    decides about them, and not the number of the key, which says little.
    """
    draw, row = np.nonzero(found.rows_of(orders))
    if not len(row):
        return
    own = rows.at(draw, row)
    tried = _Tried(own, model[draw, row], schema)
    best, fixed, count = own.draws[0].copy(), np.zeros(own.missing.shape, bool), tried.broken(own.draws[0])
    for _ in range(PASSES):
        start, before, open_ = best.copy(), fixed.copy(), count > 0
        for place, codes in tried.options(start, before, orders):
            at = np.flatnonzero(open_ & ~np.isnan(codes))
            if not len(at):
                continue
            trial, set_ = own.at(np.zeros(len(at), int), at), before[at]
            trial.draws[0] = start[at]
            trial.draws[0, :, place], set_[:, place] = codes[at], True
            trial = trial._replace(
                observed=np.where(set_, trial.draws[0], trial.observed), missing=trial.missing & ~set_
            )
            keep(trial)
            after = trial.draws[0]
            broken = tried.broken(after, at)
            better = tried.holds(after, at) & (broken < count[at])
            new = at[better]
            best[new], fixed[new], count[new] = after[better], set_[better], broken[better]
            open_[new] = False
    done = np.flatnonzero((count == 0) & fixed.any(1))
    rows.draws[draw[done], row[done]] = best[done]
    mended = np.zeros(found.shape, bool)
    mended[draw[done], row[done]] = True
    found.mend(mended)


class _Key(NamedTuple):
    """A column of keys.

    place  of it among those that are modelled
    keys   [keys] codes
    said   by the places of the columns that follow from it their codes [keys]; NaN: nothing is said
    """

    place: int
    keys: Floats
    said: dict[int, Floats]


class _Tried:
    """What may be tried in rows [n] of a single draw that are out of order; `model` [n, columns]: as it drew them."""

    def __init__(self, rows: DrawnRows, model: Floats, schema: Schema) -> None:
        self._rows, self._schema = rows, schema
        self._checks = Checks(schema, rows.missing)
        self._alone = replace(schema, relations=())  # in which every column of an order may move
        at_once = tuple(replace(one, small=(0.0,) * len(one.small), ties=None) for one in schema.orders)
        self._nearest_in_order = replace(self._alone, orders=at_once)
        moved = model[None].copy()
        keep_orders(moved, np.where(rows.missing, model, rows.observed), rows.missing, self._alone, None, rows.ties)
        self._model = moved[0]
        self._keys = _keys_of(schema)
        own = [one for one in schema.relations if not one.coded and one.how != "levels"]
        self._computed = [(one, [schema.modelled.index(name) for name in one.names]) for one in own]

    def broken(self, codes: Floats, at: Ints | slice = slice(None)) -> Ints:
        """[n] how many orders are not kept in codes [n, columns] of some rows."""
        return pairs_out_of_order(self._exact(codes, at), self._schema)

    def holds(self, codes: Floats, at: Ints) -> Bools:
        """[n] whether codes [n, columns] of some rows keep to all that is no order."""
        able = self._checks.related(codes, self._rows.observed[at], at)
        able &= ~self._checks.pairs(codes, at).any(1)
        return able & self._checks.within(codes, self._rows.draws[0, at])

    def options(self, codes: Floats, fixed: Bools, orders: Sequence[Order]) -> list[tuple[int, Floats]]:
        """Places, and what may be tried there [n]: other keys, the likeliest first, then columns of orders that are
        moved by themselves, and cells of which these are a sum or a product, as far as they have to move for that; last
        the columns of orders to the nearest value in order. NaN where there is nothing to try. `fixed` [n, columns]:
        cells that stay as they are in codes [n, columns]."""
        free, found, parts = self._rows.missing & ~fixed, list[tuple[int, Floats]](), list[tuple[int, Floats]]()
        exact = self._exact(codes)
        for key in self._keys:
            nearest, some = np.full((OTHERS, len(codes)), np.nan), np.flatnonzero(free[:, key.place])
            for part in np.array_split(some, len(some) * len(key.keys) // MOST_AT_ONCE + 1):
                nearest[:, part] = self._nearest(key, exact[part], part, free[part]).T
            found += [(key.place, own) for own in nearest]
        places = sorted({self._schema.modelled.index(name) for one in orders for name in (one.low, one.high)})
        for place in places:
            found.append((place, _in_order(self._alone, place, codes, exact, free)))
            parts += self._moving(*found[-1], exact, free)
        nearest_ones = [(place, _in_order(self._nearest_in_order, place, codes, exact, free)) for place in places]
        return [*found, *parts, *nearest_ones]

    def _moving(self, place: int, wanted: Floats, exact: Floats, free: Bools) -> Iterator[tuple[int, Floats]]:
        """Of the sums and products of a column: places of other columns that are `free` [n, columns], and what they
        should be [n] so that it is what is `wanted` [n] beside codes `exact` [n, columns]; then a digit more, and one
        less."""
        for one, places in self._computed:
            if place not in places or np.isnan(wanted).all():
                continue
            values = exact[:, places]
            values[:, places.index(place)] = wanted
            for at, other in enumerate(places):
                column = as_summand(self._schema.encoded[other])
                if other != place and free[:, other].any():
                    with np.errstate(all="ignore"):
                        said = one.solved(values, at, values[:, 0])
                    able = free[:, other] & np.isfinite(said)
                    for digits in (0, 1, -1) if half_digit(column) else (0,):
                        moved = column.held(np.where(able, said, 0.0) + 2 * digits * half_digit(column))
                        yield other, np.where(able, moved, np.nan)

    def _exact(self, codes: Floats, at: Ints | slice = slice(None)) -> Floats:
        """[n, columns] codes of some rows, observed ones as they are."""
        return np.where(self._rows.missing[at], codes, self._rows.observed[at])

    def _nearest(self, key: _Key, exact: Floats, at: Ints, free: Bools) -> Floats:
        """[n, OTHERS] the keys with which rows are in order, those first whose values are nearest to what the model
        drew, of equally near ones those that are nearest themselves; NaN: there are no more."""
        model, away = self._model[at], np.zeros((len(at), len(key.keys)))
        able = np.ones(away.shape, bool)
        said = {key.place: key.keys, **key.said}
        for place, own in key.said.items():
            column, known = self._schema.encoded[place], ~free[:, place]
            value = exact[known, place, None]
            able[known] &= ~(np.abs(own - value) > FLOAT * np.abs(value))
            if isinstance(column, Levelled):
                far = np.where(np.isnan(own), 1.0, own != model[:, place, None])
            else:
                far = np.nan_to_num(np.square((own - model[:, place, None]) / column.deviation), nan=1.0)
            away += np.where(known[:, None], 0.0, far)
        for low, high, shift, per in pairs_in_order(self._schema):
            if low in said or high in said:
                ends = [
                    np.where(free[:, place, None], said.get(place, np.full(1, np.nan)), exact[:, place, None])
                    for place in (low, high)
                ]
                able &= ~crossed(per[0] * ends[0], per[1] * ends[1] + shift)
        able &= key.keys != exact[:, key.place, None]
        away[~able] = np.inf
        order = np.lexsort((np.abs(key.keys - model[:, key.place, None]), away))[:, :OTHERS]
        nearest = np.full((len(at), OTHERS), np.nan)
        nearest[:, : order.shape[1]] = np.where(
            np.isfinite(np.take_along_axis(away, order, 1)), key.keys[order], np.nan
        )
        return nearest


def _in_order(schema: Schema, place: int, codes: Floats, exact: Floats, free: Bools) -> Floats:
    """[n] where cells at a place of `codes` [n, columns] that are `free` lie when they alone are brought into the
    orders of a schema beside the others, which are `exact`; NaN: where they are."""
    alone = np.zeros(free.shape, bool)
    alone[:, place] = free[:, place]
    moved = codes[None].copy()
    keep_orders(moved, exact, alone, schema)
    return np.where(free[:, place] & (moved[0, :, place] != codes[:, place]), moved[0, :, place], np.nan)


def _keys_of(schema: Schema) -> list[_Key]:
    """The columns of keys of a schema."""
    found: dict[int, _Key] = {}
    own = [one for one in schema.relations if one.keys]
    for place in sorted({schema.modelled.index(one.names[1]) for one in own}):
        groups = [one for one in own if schema.modelled.index(one.names[1]) == place]
        keys = np.unique(np.concatenate([one.keys for one in groups]))
        said = {schema.modelled.index(one.names[0]): one.said(keys) for one in groups}
        found[place] = _Key(place, keys, said)
    return list(found.values())
