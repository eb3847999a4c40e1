"""Columns that are in order in every row (admitted before discharged, a part no greater than the whole): found in a
table that is fitted, and kept by fills.

A model knows such columns as numbers that go together, and where they are close it draws some the other way round.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from vgi_cli.columns.base import ModelledColumn
from vgi_cli.columns.datetime import Moment
from vgi_cli.columns.numerals import Bools, Floats
from vgi_cli.columns.orders import Order
from vgi_cli.columns.relations import Relation
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.redundant import FIRST_LOOK, as_number, codes_of, half_digit
from vgi_cli.table.base import Table

FEWEST = 30
"""Rows in which two columns are observed: with fewer nothing is said."""
ENOUGH = 20.0
"""Nats by which rows must speak for an order, beyond what the choice of two columns explains: of columns that have
nothing to do with each other as many rows are in order with a probability of less than exp(-ENOUGH)."""
CROSSED = 1.0
"""Rows that would not be in order if the difference of the columns were normal: with fewer hardly a fill would be."""
NOISE = 1e-12
"""Share of the size of two cells by which they may be out of order."""


def orders_among(table: Table, schema: Schema, relations: Sequence[Relation]) -> tuple[Order, ...]:
    """The orders of the columns of numbers, and of moments of one kind, but for those that follow from two others.
    Columns of one relation are left to that."""
    columns = [column for column in schema.encoded if as_number(column) is not None]
    codes = [codes_of(table, column) for column in columns]
    together = [{a, b} for one in relations for a, b in itertools.combinations(one.names, 2)]
    choice = 2 * np.log(max(len(columns), 1))
    found: dict[tuple[str, str], Order] = {}
    first = slice(0, FIRST_LOOK)
    for (i, low), (j, high) in itertools.permutations(enumerate(columns), 2):
        shift = _shift(low, high)
        if shift is None or _crossed(codes[i][first], codes[j][first] + shift).any():
            continue
        apart = None if {low.name, high.name} in together else _in_order(codes[i], codes[j] + shift, choice)
        if apart is not None:
            found[low.name, high.name] = Order(low.name, high.name, *apart, shift)
    return tuple(
        order
        for (low, high), order in found.items()
        if not any((low, name) in found and (name, high) in found for name in {a for a, _ in found})
    )


def _shift(low: ModelledColumn, high: ModelledColumn) -> float | None:
    """What is added to the codes of one column to compare them with those of another one; None: they count other
    things."""
    if not isinstance(low, Moment) and not isinstance(high, Moment):
        return 0.0
    if not isinstance(low, Moment) or not isinstance(high, Moment):
        return None
    a, b = low.clock, high.clock
    if (a.what, a.measure) != (b.what, b.measure) or (a.zone is None) != (b.zone is None):
        return None
    return b.origin / b.per - a.origin / a.per


def _in_order(low: Floats, high: Floats, choice: float) -> tuple[float, float] | None:
    """`spread` and `near` of cells [N] that are in order wherever both are observed; None where they are not, or no
    more rows say so than chance explains, or all are so far apart that nothing would cross."""
    both = ~np.isnan(low) & ~np.isnan(high)
    n = int(both.sum())
    if n < FEWEST or _crossed(low[both], high[both]).any():
        return None
    low, high = low[both], high[both]
    crossing = float(np.searchsorted(np.sort(high), low, side="left").mean()) / n  # of two rows that have been mixed
    size = max(float(np.abs(low).max()), float(np.abs(high).max()), np.finfo(float).tiny)  # squares may overflow
    apart = np.maximum(high / size - low / size, 0.0)
    spread = float(apart.std())
    if crossing == 0 or spread == 0 or -n * np.log1p(-min(crossing, 0.999)) < ENOUGH + choice:
        return None
    crossed = NormalDist().cdf(-float(apart.mean()) / spread)
    return (size * spread, size * float(np.quantile(apart, crossed))) if n * crossed >= CROSSED else None


def _crossed(low: Floats, high: Floats) -> Bools:
    """[..] where cells are out of order, beyond the noise of arithmetic."""
    return np.asarray(0.5 * low - 0.5 * high > 0.5 * NOISE * np.maximum(np.abs(low), np.abs(high)))


def crossings(table: Table, schema: Schema) -> list[int]:
    """Of each order of a schema, in how many rows of a table both cells are observed and out of order."""
    columns = {column.name: column for column in schema.encoded}
    codes = {name: codes_of(table, columns[name]) for one in schema.orders for name in (one.low, one.high)}
    return [int(_crossed(codes[one.low], codes[one.high] + one.shift).sum()) for one in schema.orders]


def keep_orders(draws: Floats, observed: Floats, missing: Bools, schema: Schema, but: Collection[str] = ()) -> Bools:
    """Bring fills into the order of their columns, in place; [m, N] where some fill could not.

    draws     [m, N, columns] codes of completed rows
    observed  [N, columns] codes of the same rows, exact where a cell is observed
    missing   [N, columns]
    but       columns whose orders are left alone

    Columns are looked at from the least on. A fill that lies beyond a cell of its row which is observed, or was looked
    at before, is moved to the other side of it: the nearer the less it was on the wrong one, and no farther than the
    nearest of the observed rows. Columns of a relation are settled before, and are not moved.
    """
    apart = np.zeros(draws.shape[:2], bool)
    own = [one for one in schema.orders if not {one.low, one.high} & set(but)]
    if not own or not missing.any():
        return apart
    settled = {name for one in schema.relations for name in one.names}
    names, most, near, spread = _closed(own)
    places = [schema.modelled.index(name) for name in names]
    values = np.where(missing[:, places], draws[:, :, places], observed[:, places])
    fixed = ~missing[:, places] | np.array([name in settled for name in names])
    for k in np.isfinite(most).sum(0).argsort(kind="stable").tolist():
        rows = np.flatnonzero(~fixed[:, k])
        if not len(rows):
            continue
        some, known = values[:, rows], fixed[rows]
        # a cell i is at most cell j + most[i, j]: those that are known give the limits
        lows, highs = np.where(known, some - most[:, k], -np.inf), np.where(known, some + most[k], np.inf)
        below, above = lows.argmax(-1), highs.argmin(-1)
        low = _Limit(lows.max(-1), near[below, k], spread[below, k])
        high = _Limit(highs.min(-1), near[k, above], spread[k, above])
        values[:, rows, k] = _between(schema.encoded[places[k]], some[..., k], low, high)
        fixed[rows, k] = True
    draws[:, :, places] = np.where(missing[:, places], values, draws[:, :, places])
    at = {name: i for i, name in enumerate(names)}
    for one in own:
        i, j = at[one.low], at[one.high]
        filled = missing[:, places[i]] | missing[:, places[j]]
        apart |= filled & _crossed(values[..., i], values[..., j] + one.shift)
    return apart


class _Limit(NamedTuple):
    """On which side of `ends` [..] cells have to lie; `near` and `spread` [..] as of an Order."""

    ends: Floats
    near: Floats
    spread: Floats

    def beside(self, away: Floats) -> Floats:
        """How far from the end a cell is placed that lay so far [..] on the wrong side of it."""
        with np.errstate(invalid="ignore"):
            return np.asarray(-self.near * np.expm1(-np.maximum(away, 0.0) / self.spread))


def _closed(orders: Sequence[Order]) -> tuple[list[str], Floats, Floats, Floats]:
    """The columns of some orders, and by all orders that follow too [columns, columns] each: `most`, cell i is at most
    cell j + most[i, j] (infinite: they are in no order); `near` and `spread` (1 where there is no order)."""
    names = list(dict.fromkeys(name for one in orders for name in (one.low, one.high)))
    most = np.full((len(names), len(names)), np.inf)
    near, spread = np.zeros_like(most), np.ones_like(most)
    for one in orders:
        pair = names.index(one.low), names.index(one.high)
        most[pair], near[pair], spread[pair] = one.shift, one.near, one.spread
    for k in range(len(names)):
        through = most[:, k, None] + most[k]
        shorter = through < most
        near = np.where(shorter, near[:, k, None] + near[k], near)
        spread = np.where(shorter, spread[:, k, None] + spread[k], spread)
        most = np.minimum(most, through)
    return names, most, near, spread


def _between(column: ModelledColumn, values: Floats, low: _Limit, high: _Limit) -> Floats:
    """Values as their column holds them, between two limits; as they were where it holds none there."""
    number = as_number(column)
    assert number is not None, "orders are of numbers"
    least, most = number.ends
    bottom, top = np.maximum(low.ends, least), np.minimum(high.ends, most)
    above, below = low.ends + low.beside(low.ends - values), high.ends - high.beside(values - high.ends)
    moved = np.where(values < low.ends, above, np.where(values > high.ends, below, values))
    inside = (values >= low.ends) & (values <= high.ends)
    held = column.held(np.where(inside, values, np.clip(moved, bottom, np.maximum(bottom, top))))
    digit = 2 * half_digit(column)
    held = np.where(held < low.ends, column.held(held + digit), held)
    held = np.where(held > high.ends, column.held(held - digit), held)
    able = ~_crossed(low.ends, held) & ~_crossed(held, high.ends) & (held >= least) & (held <= most)
    return np.where(inside | ~able, values, held)
