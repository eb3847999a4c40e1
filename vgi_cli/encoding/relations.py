"""Relations between columns: found in a table that is fitted, kept by fills.

A model knows a total and its parts as numbers that go together closely, and draws them so: nearly. Where the cells that
are observed say exactly what a missing one is, or drawn cells of a row are to go together exactly, this computes it.
"""

from __future__ import annotations

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
NEARLY = 1e-3
"""What lies so near to half way, as a share of that, does not tell either."""
MOST_TIES = 0.05
"""Share of the rows in which a rounded sum may lie half way between two values, where it says neither."""
MOST_ROWS = 2_000
"""Rows by which the weights of a rounded sum are found, evenly spread; all rows are asked whether it holds."""


def relations_among(table: Table, schema: Schema, found: Sequence[Redundant]) -> tuple[Relation, ...]:
    """The relations among redundant columns that hold in every row in which they can be checked, by more rows than
    chance explains."""
    columns = {column.name: column for column in schema.encoded}
    relations = []
    for one in found:
        names = (one.name, *one.by)
        own = [columns[name] for name in names]
        if any(column.pooled for column in own):
            continue
        codes = np.stack([codes_of(table, column) for column in own], 1)
        whole = codes[~np.isnan(codes).any(1)]
        paired = isinstance(own[-1], Levelled)
        free = len(whole) - (len(np.unique(whole[:, 1])) if paired else len(names))
        if free * _entropy(whole[:, 0]) < ENOUGH + len(one.by) * np.log(len(columns)):
            continue
        if paired:
            relation: Relation | None = _pairs(names, own[1].level_counts[0], whole)
        else:
            relation = _sum(names, whole, 0.0 if one.exact else _half(own[0]))
        if relation is not None:
            relations.append(relation)
    return tuple(relations)


def departures(table: Table, schema: Schema) -> list[int]:
    """Of each relation of a schema, in how many rows of a table all its cells are observed and do not keep to it."""
    columns = {column.name: column for column in schema.encoded}
    counts = []
    for relation in schema.relations:
        own = [columns[name] for name in relation.names]
        codes = np.stack([codes_of(table, column) for column in own], 1)
        whole = codes[~np.isnan(codes).any(1)]
        if relation.codes:
            departs = np.abs(_coded(relation)[whole[:, 1].astype(int)] - whole[:, 0]) > WITHIN * own[0].deviation
        else:
            most = max(_half(own[0]) * relation.rounded, WITHIN * own[0].deviation)
            departs = np.abs(whole @ np.array(relation.weights) - relation.constant) > most
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
    return Relation(names=names, codes=tuple(first.get(level) for level in range(levels)))


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
    that can take what is left, by the size of their share in the sum. Where none can, the next ones move to the end of
    their limits as well. A row whose cells cannot go together within the limits of the columns stays as it was drawn.
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
    values, done = before.copy(), np.zeros(before.shape[:2], bool)
    for end in (False,) if cells.relation.codes else (False, True):  # whether a cell may move to the end of its limits
        for place in _order(cells):
            value, able = _computed(cells, place, values)
            if end:
                value = _clipped(cells.columns[place], value)
            moved = free[:, place] & ~done & (able | end)
            values[..., place] = np.where(moved, value, values[..., place])
            done |= free[:, place] & able
    after = np.where(done[..., None], values, before)
    for place, j in enumerate(cells.places):
        own = free[:, place]
        draws[:, rows[own], j] = after[:, own, place]
    known[np.ix_(rows, cells.places)] = True


def _order(cells: _Cells) -> list[int]:
    """The places of a relation in the order in which their cells are asked to take what is left."""
    if cells.relation.codes or cells.relation.rounded:
        return list(range(len(cells.places)))
    shares = [
        abs(weight) * column.deviation for weight, column in zip(cells.relation.weights, cells.columns, strict=True)
    ]
    return sorted(range(len(shares)), key=lambda place: (-shares[place], place))


def _computed(cells: _Cells, place: int, values: Floats) -> tuple[Floats, Bools]:
    """What the other cells of values [m, n, columns] say of the one at `place` [m, n], and whether its column admits
    it. Of a cell whose rounded sum is known the nearest value to the one that it has."""
    relation = cells.relation
    if relation.codes:
        codes = _coded(relation)
        if place == 0:
            code = codes[values[..., 1].astype(int)]
            return code, ~np.isnan(code)
        away = np.abs(values[..., :1] - codes)
        level = np.nanargmin(away, -1)
        return level.astype(np.float64), np.nanmin(away, -1) <= WITHIN * cells.columns[0].deviation
    weights = np.array(relation.weights)
    rest = [i for i in range(len(weights)) if i != place]
    column, computed = cells.columns[place], (relation.constant - values[..., rest] @ weights[rest]) / weights[place]
    if not relation.rounded:
        return _within(column, computed, computed, 0.0)
    half = _half(cells.columns[0]) / abs(weights[place])
    value, able = _within(column, computed, computed, half)
    if place == 0:
        return value, able
    nearest, as_well = _within(column, np.clip(values[..., place], computed - half, computed + half), computed, half)
    return np.where(as_well, nearest, value), able | as_well


def _within(column: ModelledColumn, values: Floats, computed: Floats, half: float) -> tuple[Floats, Bools]:
    """Values at the resolution of their column, and which of them it admits: within its limits, not farther than `half`
    from what was computed."""
    number = as_number(column)
    if number is None:
        return values, np.isfinite(values)
    snapped, (low, high) = column.snap(values), number.ends
    near = np.abs(snapped - computed) <= max(half, WITHIN * column.deviation)
    return snapped, near & (snapped >= low) & (snapped <= high)


def _clipped(column: ModelledColumn, values: Floats) -> Floats:
    """Values at the resolution and within the limits of their column."""
    number = as_number(column)
    return values if number is None else column.snap(np.clip(values, *number.ends))
