"""Relations between columns: found in a table that is fitted, kept by fills.

A model knows a total and its parts as numbers that go together closely, and draws them so: nearly. Where the cells that
are observed say exactly what a missing one is, or drawn cells of a row are to go together exactly, this computes it.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from vgi_cli.columns.base import ModelledColumn
from vgi_cli.columns.levelled import Levelled
from vgi_cli.columns.numerals import Bools, Floats, Ints
from vgi_cli.columns.relations import Relation
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.redundant import Redundant, as_number, codes_of
from vgi_cli.table.base import Table

ENOUGH = 20.0
"""Nats by which rows must speak for a relation, beyond what the choice of its columns explains: that it holds by chance
has a probability of less than exp(-ENOUGH), or one in 500 million."""
EXACT = 1e-9
"""A sum holds where no row departs from it by more than this share of the standard deviation of its first column."""
WITHIN = 1e-6
"""A computed cell is a value of its column where that is not farther away than this share of the standard deviation, or
than half a unit of the last digit by this share of the unit."""
MOST_DIGITS = 15
"""Significant digits of a weight that are tried."""
MOST_POWER = 3
"""Greatest power in a product."""
NEARLY = 1e-3
"""What lies so near to half way, as a share of that, does not tell either."""
MOST_TIES = 0.05
"""Share of the rows in which a rounded sum may lie half way between two values, where it says neither."""
MOST_ROWS = 2_000
"""Rows by which the weights of a rounded sum are found, evenly spread; all rows are asked whether it holds."""


def relations_among(table: Table, schema: Schema, found: Sequence[Redundant]) -> tuple[Relation, ...]:
    """The relations among candidates for redundant columns that hold in every row in which they can be checked, by more
    rows than chance explains; of each column the first."""
    relations: dict[str, Relation] = {}
    for one in found:
        if one.name not in relations and (relation := _relation(table, schema, one)) is not None:
            relations[one.name] = relation
    return tuple(relations[name] for name in schema.modelled if name in relations)


def _relation(table: Table, schema: Schema, one: Redundant) -> Relation | None:
    """The relation of a candidate, with the fewest of its columns for which there is one; None without one."""
    columns = {column.name: column for column in schema.encoded}
    own = [columns[name] for name in (one.name, *one.by)]
    if any(column.pooled for column in own):
        return None
    codes = np.stack([codes_of(table, column) for column in own], 1)
    if isinstance(own[-1], Levelled):
        whole = codes[~np.isnan(codes).any(1)]
        if not _enough(whole[:, 0], len(np.unique(whole[:, 1])), len(columns)):
            return None
        return _pairs((one.name, *one.by), own[1].level_counts[0], whole)
    search = _product if one.how == "product" else _sum
    halves = sorted({0.0, _half(own[0])})  # exactly, or else as it is rounded
    for places, half in itertools.product(_by_weight(codes, one.how == "product"), halves):
        some = codes[:, [0, *places]]
        whole = some[~np.isnan(some).any(1)]
        if not _enough(whole[:, 0], len(places) + 1, len(columns) ** len(places)):
            continue
        names = (one.name, *(one.by[place - 1] for place in places))
        if (relation := search(names, whole, half)) is not None:
            return relation
    return None


def _enough(first: Floats, used: int, choices: float) -> bool:
    """Whether so many rows [n] speak for what holds in all of them, where so many of them were used to find it, among
    so many choices of columns."""
    return bool((len(first) - used) * _entropy(first) >= ENOUGH + np.log(choices))


def _by_weight(codes: Floats, product: bool) -> list[list[int]]:
    """The columns but the first of codes [N, columns], those with the greatest weights in a sum (of logarithms, of a
    product): one, two, and so on."""
    with np.errstate(divide="ignore", invalid="ignore"):
        x = np.log(codes) if product else codes
    whole = x[np.isfinite(x).all(1)]
    if len(whole) <= x.shape[1]:
        return []
    sd = whole.std(0)
    z = (whole - whole.mean(0)) / np.where(sd > 0, sd, 1.0)
    weights = np.abs(np.linalg.lstsq(z[:, 1:], z[:, 0], rcond=None)[0])
    order = (1 + np.argsort(-weights, kind="stable")).tolist()
    return [sorted(order[:count]) for count in range(1, len(order) + 1)]


def departures(table: Table, schema: Schema) -> list[int]:
    """Of each relation of a schema, in how many rows of a table all its cells are observed and do not keep to it."""
    columns = {column.name: column for column in schema.encoded}
    counts = []
    for relation in schema.relations:
        own = [columns[name] for name in relation.names]
        codes = np.stack([codes_of(table, column) for column in own], 1)
        whole = codes[~np.isnan(codes).any(1)]
        if relation.how == "levels":
            departs = np.abs(_coded(relation)[whole[:, 1].astype(int)] - whole[:, 0]) > WITHIN * own[0].deviation
        else:
            most = max(_half(own[0]) * relation.rounded, WITHIN * own[0].deviation)
            departs = np.abs(relation.solved(whole, 0, whole[:, 0]) - whole[:, 0]) > most
        counts.append(int(departs.sum()))
    return counts


def _coded(relation: Relation) -> Floats:
    """[levels] the code of the first column by the level of the second; NaN: none."""
    return np.array([np.nan if code is None else code for code in relation.codes])


def _entropy(values: Floats) -> float:
    """Of the empirical law of values [n], nats; 0 of none."""
    share = np.unique(values, return_counts=True)[1] / max(len(values), 1)
    return float(-(share * np.log(share)).sum())


def _pairs(names: tuple[str, ...], levels: int, codes: Floats) -> Relation:
    """What goes one to one in codes [n, 2] with the levels of the second column, of which there are so many."""
    first = dict(zip(codes[:, 1].astype(int).tolist(), codes[:, 0].tolist(), strict=True))
    return Relation(names=names, how="levels", codes=tuple(first.get(level) for level in range(levels)))


def _half(column: ModelledColumn) -> float:
    """Half of what the last digit of a column of numbers counts, data units; 0 where it is not rounded."""
    number = as_number(column)
    return 0.0 if number is None else 0.5 * (1 + WITHIN) * (number.resolution or 0.0)


def _sum(names: tuple[str, ...], x: Floats, half: float) -> Relation | None:
    """The first of the columns x [n, columns] as a sum of the others, with weights of few digits, where no row departs
    from it (by more than `half`, where it is rounded); None where some row does."""
    y, others = x[:, 0], x[:, 1:]
    sd = others.std(0)
    if not (sd > 0).all():
        return None
    z, centred, most = (others - others.mean(0)) / sd, y - y.mean(), max(half, EXACT * y.std())
    squares = np.linalg.lstsq(z, centred, rcond=None)[0]
    if np.sqrt(np.mean(np.square(centred - z @ squares))) > most:
        return None  # nor does any other sum have its largest departure within that
    found = _short(y, others, squares / sd, most)
    if found is None and half:
        found = _short(y, others, _closest(z, centred) / sd, most)
    if found is None:
        return None
    weights, constant = found
    if half and (np.abs(y - others @ weights - constant) > (1 - NEARLY) * half).mean() > MOST_TIES:
        return None
    return Relation(names=names, weights=(1.0, *(-weights).tolist()), constant=constant, rounded=half > 0)


def _product(names: tuple[str, ...], x: Floats, half: float) -> Relation | None:
    """The first of the columns x [n, columns], none of them negative, as a product of powers of the others, as `_sum`.
    Powers are whole numbers up to MOST_POWER."""
    above = x[(x > 0).all(1)]
    logs = np.log(above) - np.log(above).mean(0)
    if len(above) <= x.shape[1] or not (logs[:, 1:].std(0) > 0).all():
        return None
    powers = np.rint(np.linalg.lstsq(logs[:, 1:], logs[:, 0], rcond=None)[0])
    if not powers.all() or np.abs(powers).max() > MOST_POWER:
        return None
    y, others = above[:, 0], np.prod(above[:, 1:] ** powers, 1)
    away = np.maximum(half, EXACT * y)
    low, high = float(((y - away) / others).max()), float(((y + away) / others).min())
    constant = _shortest(low, high)
    if constant is None:
        return None
    relation = Relation(
        names=names, how="product", weights=(1.0, *(-powers).tolist()), constant=constant, rounded=half > 0
    )
    left = np.abs(x[:, 0] - relation.solved(x, 0, x[:, 0]))
    if not (left <= np.maximum(half, 2 * EXACT * x[:, 0])).all():  # NaN where what is divided by is 0
        return None
    if half and (left > (1 - NEARLY) * half).mean() > MOST_TIES:
        return None
    return relation


def _shortest(low: float, high: float) -> float | None:
    """The number with the fewest digits that lies between two; None where none does."""
    if not 0 < low <= high < np.inf:
        return None
    for digits in range(MOST_DIGITS):
        if low <= (number := float(f"{0.5 * (low + high):.{digits}e}")) <= high:
            return number
    return 0.5 * (low + high)


def _short(y: Floats, others: Floats, fit: Floats, most: float) -> tuple[Floats, float] | None:
    """The weights of a fit and a constant, in the fewest digits by which no y [n] is more than `most` from the sum of
    the others [n, columns]; None where none are."""
    size = int(np.floor(np.log10(y.std())))
    for digits in range(1, MOST_DIGITS + 1):
        weights = np.array([float(f"{weight:.{digits - 1}e}") for weight in fit])
        left = y - others @ weights
        constant = round(0.5 * float(left.min() + left.max()), digits - 1 - size) + 0.0
        if (weights != 0).all() and np.abs(left - constant).max() <= most:
            return weights, constant
    return None


def _closest(z: Floats, y: Floats) -> Floats:
    """[columns] the weights by which the largest departure of y [n] from a sum of z [n, columns] and a constant is
    least, by MOST_ROWS rows."""
    from scipy.optimize import linprog

    some = np.linspace(0, len(y) - 1, min(len(y), MOST_ROWS)).astype(int)
    sums, scale = np.c_[z[some], np.ones(len(some))], y.std()
    sides = np.c_[np.concatenate([sums, -sums]), -np.ones(2 * len(some))]
    cost, ends = np.eye(sides.shape[1])[-1], np.concatenate([y[some], -y[some]]) / scale
    solved = linprog(cost, sides, ends, bounds=(None, None))
    weights = solved.x[:-2] * scale if solved.success else np.zeros(z.shape[1])
    return np.asarray(weights)


class _Cells(NamedTuple):
    """The columns of a relation in the rows of a table.

    columns  by their place in the relation
    places   of each among the columns that are modelled
    """

    relation: Relation
    columns: Sequence[ModelledColumn]
    places: Ints


def keep_relations(draws: Floats, observed: Floats, missing: Bools, schema: Schema, but: Collection[str] = ()) -> None:
    """Let the fills keep to the relations of their columns, in place.

    draws     [m, N, columns] codes of completed rows
    observed  [N, columns] codes of the same rows, exact where a cell is observed
    missing   [N, columns]
    but       columns whose relations are left alone

    A hole that the other cells of its relation determine gets what they say. Where several cells of a relation are
    missing, all but one stay as they were drawn and the last one is computed: the rounded one, else the first of those
    that can take what is left, by the size of their share in a sum. Where none can, the next ones move to the end of
    their limits as well; a factor is as near to what it should be as its digits go. A row whose cells cannot go
    together within the limits of the columns stays as it was drawn.
    """
    at = {name: i for i, name in enumerate(schema.modelled)}
    cells = [
        _Cells(one, [schema.encoded[at[name]] for name in one.names], np.array([at[name] for name in one.names]))
        for one in schema.relations
        if not set(one.names) & set(but)
    ]
    if not cells or not missing.any():
        return
    known = ~missing
    while True:
        while any(_determine(draws, observed, missing, known, one) for one in cells):
            pass
        left = next((one for one in cells if (~known[:, one.places]).any()), None)
        if left is None:
            return
        _settle(draws, observed, missing, known, left)


def _values(draws: Floats, observed: Floats, missing: Bools, rows: Ints, places: Ints) -> Floats:
    """[m, rows, places] codes, observed ones as they are."""
    some = np.ix_(rows, places)
    return np.where(missing[some], draws[:, rows][:, :, places], observed[some])


def _determine(draws: Floats, observed: Floats, missing: Bools, known: Bools, cells: _Cells) -> bool:
    """Compute the cells that are the only unknown ones of a relation; they are known then. Whether there were any."""
    unknown = ~known[:, cells.places]
    single = unknown.sum(1) == 1
    for place, j in enumerate(cells.places):
        rows = np.flatnonzero(single & unknown[:, place])
        if len(rows):
            values = _values(draws, observed, missing, rows, cells.places)
            value, able = _computed(cells, place, values)
            draws[:, rows, j] = np.where(able, value, values[..., place])
            known[rows, j] = True
    return bool(single.any())


def _settle(draws: Floats, observed: Floats, missing: Bools, known: Bools, cells: _Cells) -> None:
    """Let the cells of a relation go together in the rows in which several are unknown; they are known then."""
    rows = np.flatnonzero((~known[:, cells.places]).any(1))
    free = ~known[np.ix_(rows, cells.places)]
    before = _values(draws, observed, missing, rows, cells.places)
    values, done, order = before.copy(), np.zeros(before.shape[:2], bool), _order(cells)
    for place in order:
        value, able = _computed(cells, place, values)
        moved = free[:, place] & ~done & able
        values[..., place] = np.where(moved, value, values[..., place])
        done |= moved
    if cells.relation.how != "levels":
        _approach(values, free, done, cells)
    after = np.where(done[..., None], values, before)
    for place, j in enumerate(cells.places):
        own = free[:, place]
        draws[:, rows[own], j] = after[:, own, place]
    known[np.ix_(rows, cells.places)] = True


def _approach(values: Floats, free: Bools, done: Bools, cells: _Cells) -> None:
    """Where cells do not go together yet (not `done` [m, rows]), move those that are `free` [rows, columns] to the ends
    of their limits, or a factor as near to what it should be as its digits go; values [m, rows, columns] and `done` are
    changed in place."""
    order, product = _order(cells), cells.relation.how == "product"
    lead = np.array(order)[free[:, order].argmax(1)]
    for place in (*order, *order) if product else order:  # again, since another factor may have left 0
        column, computed = cells.columns[place], cells.relation.solved(values, place, values[..., 0])
        nearest = _clipped(column, computed)
        moved = free[:, place] & ~done & np.isfinite(computed)
        values[..., place] = np.where(moved, nearest, values[..., place])
        near = np.abs(nearest - computed) <= max(_half(column), WITHIN * column.deviation)
        done |= moved & near & ((lead == place) | (not product))


def _order(cells: _Cells) -> list[int]:
    """The places of a relation in the order in which their cells are asked to take what is left: what is rounded, or
    a product, before all others; of a sum those that vary most, of a product those with the finest digits."""
    places = range(len(cells.places))
    if cells.relation.how == "levels":
        return list(places)
    if cells.relation.how == "product":
        return sorted(
            places, key=lambda place: (place > 0, _half(cells.columns[place]) / cells.columns[place].deviation)
        )
    shares = [
        abs(weight) * column.deviation for weight, column in zip(cells.relation.weights, cells.columns, strict=True)
    ]
    return sorted(places, key=lambda place: (cells.relation.rounded and place > 0, -shares[place], place))


def _computed(cells: _Cells, place: int, values: Floats) -> tuple[Floats, Bools]:
    """What the other cells of values [m, n, columns] say of the one at `place` [m, n], and whether its column admits
    it. Of a cell whose rounded sum is known the nearest value to the one that it has."""
    relation = cells.relation
    if relation.how == "levels":
        codes = _coded(relation)
        if place == 0:
            code = codes[values[..., 1].astype(int)]
            return code, ~np.isnan(code)
        away = np.abs(values[..., :1] - codes)
        level = np.nanargmin(away, -1)
        return level.astype(np.float64), np.nanmin(away, -1) <= WITHIN * cells.columns[0].deviation
    column, first = cells.columns[place], values[..., 0]
    computed = relation.solved(values, place, first)
    half = _half(cells.columns[0]) if relation.rounded else 0.0
    if place == 0:
        return _within(column, computed, computed - half, computed + half)
    if not relation.rounded:
        return _within(column, computed, computed, computed)
    least = 0.0 if relation.how == "product" else -np.inf
    ends = [relation.solved(values, place, np.maximum(first + side * half, least)) for side in (-1, 1)]
    low, high = np.minimum(*ends), np.maximum(*ends)
    value, able = _within(column, computed, low, high)
    nearest, as_well = _within(column, np.clip(values[..., place], low, high), low, high)
    return np.where(as_well, nearest, value), able | as_well


def _within(column: ModelledColumn, values: Floats, low: Floats, high: Floats) -> tuple[Floats, Bools]:
    """Values at the resolution of their column, and which of them it admits: within its limits, and from low to
    high."""
    number = as_number(column)
    if number is None:
        return values, np.isfinite(values)
    finite, (least, most), off = np.isfinite(values), number.ends, WITHIN * column.deviation
    snapped = column.snap(np.where(finite, values, number.low))
    near = (snapped >= low - off) & (snapped <= high + off)
    return snapped, finite & near & (snapped >= least) & (snapped <= most)


def _clipped(column: ModelledColumn, values: Floats) -> Floats:
    """Values at the resolution and within the limits of their column; anything where they are not finite."""
    number = as_number(column)
    if number is None:
        return values
    return column.snap(np.clip(np.where(np.isfinite(values), values, number.low), *number.ends))
