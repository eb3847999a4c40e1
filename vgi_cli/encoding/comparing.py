"""Fills keep to comparisons (`comparisons.py`), where a sampler that knows of them was not asked, had no other draw, or
drew a cell that a relation or an order moved since.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator

import numpy as np

from vgi_cli.columns.base import ModelledColumn
from vgi_cli.columns.clock import DAY
from vgi_cli.columns.comparisons import Comparison
from vgi_cli.columns.numerals import Bools, Floats, Ints
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.apart import Apart
from vgi_cli.encoding.comparisons import broken, count_broken
from vgi_cli.encoding.orders import pairs_out_of_order
from vgi_cli.encoding.redrawing import Checks, DrawnRows
from vgi_cli.encoding.redundant import as_number, half_digit

STEP = 0.01
"""Of a column without a last digit, the share of its standard deviation by which cells are moved apart that must not be
equal."""


def keep_comparisons(
    draws: Floats, observed: Floats, missing: Bools, schema: Schema, settled: Collection[str] = ()
) -> Apart:
    """Let fills keep to comparisons, in place; where they do not. A flag gets the level that its row says. Beside one
    that is observed a number is moved to the other side of the second one, as far from it as it was where its column
    admits that, else next to it, or made equal to it; not where columns in order would be out of it then, or would no
    more keep to relations.

    draws     [m, N, columns] codes of completed rows
    observed  [N, columns] codes of the same rows, exact where a cell is observed
    missing   [N, columns]
    settled   flags whose fills stay
    """
    apart = Apart(draws.shape[:2])
    flags = {one.flag for one in schema.comparisons} & set(settled)
    moving = missing & np.array([name not in flags for name in schema.modelled], bool)
    told = [(one, np.array([schema.modelled.index(name) for name in one.names])) for one in schema.comparisons]

    def wrong(one: Comparison, places: Ints, rows: Ints) -> tuple[Ints, Ints]:
        holes = missing[np.ix_(rows, places)]
        cells = np.where(holes, draws[:, rows[:, None], places], observed[np.ix_(rows, places)])
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
    checks = Checks(schema, missing)
    flags = np.isin(schema.modelled, [other.flag for other in schema.comparisons])

    def against(codes: Floats, some: Ints) -> Ints:
        """How many comparisons codes [k, columns] of some rows [k] break, but for those whose flag is filled after."""
        return count_broken(np.where(flags & moving[some], np.nan, codes), missing[some], schema)

    left = np.arange(len(rows))
    for place in (1, 2):
        k = places[place]
        some = left[moving[left, k]]
        start, done = rows[some], np.zeros(len(some), bool)
        other = one.equal_to(place, start[:, places[3 - place]], start[:, k])
        before, crossed = against(start, some), pairs_out_of_order(start, schema)
        related = checks.related(start, start, some)
        for values in _tries(schema.encoded[k], start[:, k], other, days=one.is_time(place)):
            trial = start.copy()
            trial[:, k] = values
            able = ~done & (one.said(trial[:, places[1]], trial[:, places[2]]) == trial[:, places[0]])
            able &= (against(trial, some) < before) & (pairs_out_of_order(trial, schema) <= crossed)
            able &= checks.related(trial, trial, some) | ~related
            rows[some[able]] = trial[able]
            done |= able
        left = np.setdiff1d(left, some[done])
    return rows


def redraw_compared(rows: DrawnRows, schema: Schema, found: Apart, keep: Callable[[DrawnRows], Apart]) -> None:
    """Let rows that still break comparisons keep to all rules, in place: a number is moved, as in `keep_comparisons`,
    and what goes with it by relations follows from that; those for which nothing is found stay as they are.

    found  where fills do not keep to rules; those rows that do then are no longer there
    keep   lets rows keep to relations and orders
    """
    draw, row = np.nonzero(found.rows_of(schema.comparisons))
    if not len(row):
        return
    own = rows.at(draw, row)
    checks, exact = Checks(schema, own.missing), np.where(own.missing, own.draws[0], own.observed)
    done = np.zeros(len(row), bool)
    for one, place in itertools.product(schema.comparisons, (1, 2)):
        places = [schema.modelled.index(name) for name in one.names]
        k = places[place]
        other = one.equal_to(place, exact[:, places[3 - place]], exact[:, k])
        some = np.flatnonzero(own.missing[:, k] & broken(one, exact[:, places].T, own.missing[:, places].T) & ~done)
        for values in _tries(schema.encoded[k], exact[some, k], other[some], days=one.is_time(place)):
            at, moved = some[~done[some]], values[~done[some]]
            if not len(at):
                break
            trial = own.at(np.zeros(len(at), int), at)
            trial.draws[0, :, k], trial.observed[:, k], trial.missing[:, k] = moved, moved, False
            keep(trial)
            codes = trial.draws[0]
            good = checks.kept(codes, own.observed[at], at) & checks.within(codes, own.draws[0, at])
            good &= ~checks.pairs(codes, at).any(1)
            own.draws[0, at[good]] = codes[good]
            done[at[good]] = True
    rows.draws[draw[done], row[done]] = own.draws[0, done]
    mended = np.zeros(found.shape, bool)
    mended[draw[done], row[done]] = True
    found.mend(mended)


def _tries(column: ModelledColumn, values: Floats, other: Floats, *, days: bool) -> Iterator[Floats]:
    """What may be tried in place of values [n] of a column that lie on the wrong side of others: as far on the other
    side, the same, next to them there, and on this side; of times whose `days` are compared a day from there."""
    number = as_number(column)
    assert number is not None, "comparisons are of numbers"
    step = DAY if days else 2 * half_digit(column) or STEP * column.deviation
    side = np.where(other >= values, 1.0, -1.0)
    across, along = (other + way * side * step for way in (1, -1))
    for wanted, where in ((2 * other - values, side), (other, side), (across, side), (along, -side)):
        held = column.held(np.clip(wanted, *number.ends))
        for start, end in number.gaps:
            held = np.where((start < held) & (held < end), np.where(where > 0, end, start), held)
        held = np.clip(held, *number.ends)
        yield held if number.significant is None else number.written(held)
