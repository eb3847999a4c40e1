"""Columns of few levels that say which of two others is greater (on time, over the budget, who won a match): found in a
table that is fitted, and kept by fills.

A model knows that such a level goes with both columns, and draws some rows near the border on its other side.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from vgi_cli.columns.base import ModelledColumn
from vgi_cli.columns.comparisons import NOISE, Comparison, signs_of
from vgi_cli.columns.levelled import Levelled
from vgi_cli.columns.number import Number
from vgi_cli.columns.numerals import Bools, Floats, Ints, value_places
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.apart import Apart
from vgi_cli.encoding.independence import GroupedRows
from vgi_cli.encoding.orders import pairs_out_of_order
from vgi_cli.encoding.redundant import FIRST_LOOK, as_number, codes_of, half_digit, shift_between
from vgi_cli.table.base import Table

LEVELS = (2, 3)
"""Levels of a column, or different numbers, fewest and most, that may say which of two others is greater."""
LOOK = 100
"""Rows of each level by which most pairs of columns are found not to be compared, evenly spread."""
ENOUGH = 20.0
"""Nats by which rows must speak for a comparison, beyond what the choice of three columns explains."""
NEAREST = 11
"""Rows with the nearest numbers of one column by which it is asked what level a row would have by that column alone."""
STEP = 0.01
"""Of a column without a last digit, the share of its standard deviation by which cells are moved apart that must not be
equal."""


def comparisons_among(table: Table, schema: Schema, bare: Table) -> tuple[Comparison, ...]:
    """The comparisons of a table, one for each flag: of several pairs of columns the one with the most rows. Flags that
    follow from other columns by a relation, or from carried ones, are left to that. `bare`: the table without the cells
    that say nothing; they must go together too."""
    columns = {column.name: column for column in schema.encoded if not column.pooled}
    codes = {name: codes_of(bare, column) for name, column in columns.items()}
    settled = {one.names[0] for one in schema.relations} | {one.name for one in schema.lookups}
    flags = {
        name: places
        for name, column in columns.items()
        if name not in settled and (places := _flag(column, codes[name])) is not None
    }
    kinds = _kinds([column for column in columns.values() if as_number(column) is not None])
    choice = len(flags) * sum(len(kind) * (len(kind) - 1) // 2 for kind in kinds)
    enough = ENOUGH + float(np.log(max(choice, 1)))
    rows = GroupedRows(table, schema, np.arange(table.N), codes)
    found: list[Comparison] = []
    for flag, places in flags.items():
        compared: list[tuple[int, Comparison]] = []
        for first, second, shift in _may_compare(flag, places, kinds, codes):
            one = _compared((flag, first, second), codes, shift)
            if one is not None and _nats(places, codes[first], codes[second]) >= enough:
                states = (flag, places), *((name, value_places(codes[name])) for name in (first, second))
                if all(_nats(*own) >= enough for own in rows.by_groups(*states)):
                    known = one.signs(codes[one.first], codes[one.second]) >= 0
                    compared.append((-int((known & (places >= 0)).sum()), one))
        found += [one for _, one in sorted(compared, key=lambda each: each[0])[:1]]
    against = breaks(table, replace(schema, comparisons=tuple(found)))
    return tuple(one for one, count in zip(found, against, strict=True) if not count)


def _flag(column: ModelledColumn, codes: Floats) -> Ints | None:
    """[N] the number of the value of each cell (-1: it is missing), by codes [N] of a column that has two or three;
    None of others."""
    if not isinstance(column, Levelled) and as_number(column) is None:
        return None
    seen = codes[~np.isnan(codes)]
    if len(np.unique(seen[:FIRST_LOOK])) > LEVELS[1]:
        return None
    places = value_places(codes)
    return places if LEVELS[0] <= places.max(initial=-1) + 1 <= LEVELS[1] else None


def _kinds(columns: Sequence[ModelledColumn]) -> list[dict[str, float]]:
    """Columns of numbers, or of moments, that may be compared: by name by how much later than the first one's their
    origins are. Numbers of other units count other things."""
    kinds: list[tuple[ModelledColumn, dict[str, float]]] = []
    for column in columns:
        for first, own in kinds:
            shift = shift_between(first, column)
            if shift is not None and _unit(first) == _unit(column):
                own[column.name] = shift
                break
        else:
            kinds.append((column, {column.name: 0.0}))
    return [own for _, own in kinds if len(own) > 1]


def _unit(column: ModelledColumn) -> tuple[str, str]:
    """What is written before and after the numbers of a column."""
    notation = column.notation if isinstance(column, Number) else None
    return ("", "") if notation is None else (notation.prefix.strip(), notation.suffix.strip())


def _may_compare(
    flag: str, places: Ints, kinds: Sequence[Mapping[str, float]], codes: Mapping[str, Floats]
) -> Iterator[tuple[str, str, float]]:
    """Which pairs of columns may say what a flag is, as far as some rows of each of its levels (their numbers `places`
    [N]) tell; with what the second one is moved by."""
    of = [np.flatnonzero(places == level) for level in range(int(places.max()) + 1)]
    some = [own[np.linspace(0, len(own) - 1, min(len(own), LOOK)).astype(int)] for own in of]
    for kind in kinds:
        names = [name for name in kind if name != flag]
        above = np.zeros((len(some), len(names), len(names)), bool)
        for level, rows in enumerate(some):
            values = np.stack([codes[name][rows] + kind[name] for name in names], 1) if names else np.zeros((0, 0))
            over = values + 2 * NOISE * np.abs(values)
            above[level] = (values[:, :, None] > over[:, None, :]).any(0)
        able = above.sum(0) <= 1
        for i, j in np.argwhere(np.triu(able & able.T, 1)).tolist():
            yield names[i], names[j], kind[names[j]] - kind[names[i]]


def _compared(names: tuple[str, str, str], codes: Mapping[str, Floats], shift: float) -> Comparison | None:
    """What a flag says of two columns, by their `names` and codes [N]; None where a sign of the difference that is not
    zero goes with several levels, or all go with one. Of two levels the later column is named first (what was spent,
    beside a budget)."""
    flag, first, second = names
    signs = signs_of(codes[first], codes[second] + shift)
    levels = [np.unique(codes[flag][(signs == sign) & ~np.isnan(codes[flag])]) for sign in range(3)]
    if max(len(levels[0]), len(levels[2])) > 1:
        return None
    below, equal, above = (float(own[0]) if len(own) == 1 else None for own in levels)
    said = {below, equal, above}
    if len(said - {None}) < LEVELS[0]:
        return None
    if len(said - {None}) == LEVELS[0]:
        return Comparison(flag, second, first, (above, equal, below), -shift)
    return Comparison(flag, first, second, (below, equal, above), shift)


def _nats(flag: Ints, *numbers: Floats | Ints) -> float:
    """Nats by which it would be chance that each row has the level (flag [n], -1: none) that it has, were this drawn
    beside one of two columns alone, as in the rows with the nearest numbers of it: few where a level begins at a
    number."""
    whole = (flag >= 0) & ~np.isnan(numbers).any(0)
    return min((_beside(flag[whole], own[whole]) for own in numbers), default=0.0)


def _beside(flag: Ints, values: Floats | Ints) -> float:
    """The same for one column, whose equal numbers [n] are all looked at together."""
    if not len(flag):
        return 0.0
    order = np.argsort(values, kind="stable")
    flag, values = flag[order], values[order]
    start, stop = (np.searchsorted(values, values, side) for side in ("left", "right"))
    lack = np.maximum(NEAREST - (stop - start), 0)
    start, stop = np.maximum(start - lack // 2, 0), np.minimum(stop + (lack + 1) // 2, len(flag))
    counts = np.zeros((len(flag) + 1, int(flag.max()) + 1), np.int64)
    counts[1:] = np.cumsum(flag[:, None] == np.arange(counts.shape[1]), 0)
    return float(-np.log((counts[stop, flag] - counts[start, flag]) / (stop - start)).sum())


def breaks(table: Table, schema: Schema) -> list[int]:
    """Of each comparison of a schema, how many rows of a table have another level."""
    columns = {column.name: column for column in schema.encoded}
    return [
        int(one.excludes(*(codes_of(table, columns[name]) for name in one.names)).sum()) for one in schema.comparisons
    ]


def broken(one: Comparison, cells: Sequence[Floats] | Floats, holes: Sequence[Bools] | Bools) -> Bools:
    """[..] where cells [..] of the columns of a comparison do not go together, and one of these is a hole (holes, as
    they are broadcast); not beside an observed level that is said of no sign."""
    open_ = np.logical_or.reduce(holes)
    return np.asarray(one.excludes(*cells) & open_ & (holes[0] | one.knows(cells[0])))


def count_broken(codes: Floats, missing: Bools, schema: Schema) -> Ints:
    """[n] how many comparisons of a schema rows of exact codes [n, columns] break; missing [n, columns]."""
    count = np.zeros(len(codes), np.int64)
    for one in schema.comparisons:
        places = [schema.modelled.index(name) for name in one.names]
        count += broken(one, codes[:, places].T, missing[:, places].T)
    return count


def keep_comparisons(
    draws: Floats, observed: Floats, missing: Bools, schema: Schema, settled: Collection[str] = ()
) -> Apart:
    """Let fills keep to comparisons, in place, where a sampler that knows of them (`possible`) was not asked, or had no
    other draw; where they do not. A flag gets the level that its row says. Beside one that is observed a number is
    moved to the other side of the second one, as far from it as it was where its column admits that, else next to it,
    or made equal to it; not where columns in order would be out of it then.

    draws     [m, N, columns] codes of completed rows
    observed  [N, columns] codes of the same rows, exact where a cell is observed
    missing   [N, columns]
    settled   columns whose fills stay
    """
    apart = Apart(draws.shape[:2])
    moving = missing & np.array([name not in settled for name in schema.modelled], bool)
    told = [(one, np.array([schema.modelled.index(name) for name in one.names])) for one in schema.comparisons]

    def wrong(one: Comparison, places: Ints, rows: Ints) -> tuple[Ints, Ints]:
        holes = missing[np.ix_(rows, places)]
        cells = np.where(holes, draws[:, rows][..., places], observed[np.ix_(rows, places)])
        draw, at = np.nonzero(broken(one, np.moveaxis(cells, -1, 0), holes.T))
        return draw, rows[at]

    for one, places in told:
        draw, row = wrong(one, places, np.flatnonzero(moving[:, places[1:]].any(1) & ~moving[:, places[0]]))
        if len(row):
            exact = np.where(missing[row], draws[draw, row], observed[row])
            moved = _moved(exact, missing[row], moving[row], one, schema)
            draws[draw, row] = np.where(moving[row], moved, draws[draw, row])
    for one, places in told:
        draw, row = wrong(one, places, np.flatnonzero(moving[:, places[0]]))
        exact = np.where(missing[row], draws[draw, row], observed[row])
        draws[draw, row, places[0]] = one.said(*(exact[:, place] for place in places[1:]))
    for one, places in told:
        rows = np.zeros(apart.shape, bool)
        rows[wrong(one, places, np.flatnonzero(missing[:, places].any(1)))] = True
        apart.add(places.tolist(), rows, one)
    return apart


def _moved(rows: Floats, missing: Bools, moving: Bools, one: Comparison, schema: Schema) -> Floats:
    """Rows of exact codes [n, columns] that break a comparison with one of its numbers moved; those for which nothing
    is found as they are. `moving` [n, columns]: fills that may be."""
    places = [schema.modelled.index(name) for name in one.names]
    flags = np.isin(schema.modelled, [other.flag for other in schema.comparisons])

    def against(codes: Floats, some: Ints) -> Ints:
        """How many comparisons codes [k, columns] of some rows [k] break, but for those whose flag is filled after."""
        return count_broken(np.where(flags & moving[some], np.nan, codes), missing[some], schema)

    left = np.arange(len(rows))
    for place in (1, 2):
        k, side = places[place], 1 if place == 1 else -1
        some = left[moving[left, k]]
        start, done = rows[some], np.zeros(len(some), bool)
        other = start[:, places[3 - place]] + side * one.shift
        before, crossed = against(start, some), pairs_out_of_order(start, schema)
        for values in _tries(schema.encoded[k], start[:, k], other):
            trial = start.copy()
            trial[:, k] = values
            able = ~done & (one.said(trial[:, places[1]], trial[:, places[2]]) == trial[:, places[0]])
            able &= (against(trial, some) < before) & (pairs_out_of_order(trial, schema) <= crossed)
            rows[some[able]] = trial[able]
            done |= able
        left = np.setdiff1d(left, some[done])
    return rows


def _tries(column: ModelledColumn, values: Floats, other: Floats) -> Iterator[Floats]:
    """What may be tried in place of values [n] of a column that lie on the wrong side of others: as far on the other
    side, the same, next to them there, and on this side."""
    number = as_number(column)
    assert number is not None, "comparisons are of numbers"
    step = 2 * half_digit(column) or STEP * column.deviation
    side = np.where(other >= values, 1.0, -1.0)
    across, along = (other + way * side * step for way in (1, -1))
    for wanted, where in ((2 * other - values, side), (other, side), (across, side), (along, -side)):
        held = column.held(np.clip(wanted, *number.ends))
        for start, end in number.gaps:
            held = np.where((start < held) & (held < end), np.where(where > 0, end, start), held)
        held = np.clip(held, *number.ends)
        yield held if number.significant is None else number.written(held)
