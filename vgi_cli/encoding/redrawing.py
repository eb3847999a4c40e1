"""Rows whose fills keep to relations and have cells that never go together, drawn otherwise.

A cell that is computed from others may become one that goes with another cell of its row in no row: goals of the halves
of a match that add up, 0 and 1, where the score at half time says 1 and 0. Such rows are tried again as a whole: one of
the two cells is given another value, those first that are near to what was drawn, and the others follow from it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from vgi_cli.columns.levelled import Levelled
from vgi_cli.columns.numerals import Bools, Floats, Ints
from vgi_cli.columns.schema import Schema
from vgi_cli.columns.structural_zeros import StructuralZeros
from vgi_cli.encoding.apart import Apart
from vgi_cli.encoding.comparisons import count_broken
from vgi_cli.encoding.orders import out_of_order
from vgi_cli.encoding.redundant import as_number, half_digit
from vgi_cli.encoding.summands import as_summand
from vgi_cli.encoding.unpaired import Unpaired, departing_fills

OTHERS = 4
"""So many other values are tried of each of two cells that do not go together."""
PASSES = 3
"""Pairs of cells of a row that are tried one after another."""


class DrawnRows(NamedTuple):
    """Rows that are to keep to rules; all as in `keep_relations`."""

    draws: Floats
    observed: Floats
    missing: Bools
    uniform: Callable[[str], Floats] | None
    ties: Callable[[str, str], Floats] | None

    def of(self, rows: Ints) -> DrawnRows:
        """Some rows [n] of all draws, copied."""
        uniform, ties = self.uniform, self.ties
        return DrawnRows(
            self.draws[:, rows],
            self.observed[rows],
            self.missing[rows],
            None if uniform is None else lambda name: uniform(name)[:, rows],
            None if ties is None else lambda name, other: ties(name, other)[:, rows],
        )

    def at(self, draw: Ints, row: Ints) -> DrawnRows:
        """Each of some rows [n] of some draws [n] as a row of one draw."""
        uniform, ties = self.uniform, self.ties
        return DrawnRows(
            self.draws[draw, row][None],
            self.observed[row],
            self.missing[row],
            None if uniform is None else lambda name: uniform(name)[draw, row][None],
            None if ties is None else lambda name, other: ties(name, other)[draw, row][None],
        )


def redraw(rows: DrawnRows, schema: Schema, found: Apart, keep: Callable[[DrawnRows], Apart]) -> None:
    """Let rows that have cells which never go together, and break no other rule, keep to all of them, in place; those
    for which nothing is found stay as they are.

    found  where fills do not keep to rules; those rows that do then are no longer there
    keep   lets rows keep to relations and orders
    """
    zeros = [one for one in found.counts() if isinstance(one, StructuralZeros)]
    if not zeros:
        return
    draw, row = np.nonzero(found.rows())
    own = rows.at(draw, row)
    checks = Checks(schema, own.missing)
    wrong = checks.pairs(own.draws[0], np.arange(len(row)))
    left = np.flatnonzero(wrong.sum(1) > 0)
    best, fixed, count = own.draws[0].copy(), np.zeros(own.missing.shape, bool), wrong.sum(1)
    for _ in range(PASSES):
        options = [checks.options(best[i], int(np.flatnonzero(wrong[i])[0]), fixed[i], int(i)) for i in left]
        start, before = best.copy(), fixed.copy()
        open_ = np.ones(len(left), bool)
        for number in range(2 * OTHERS):
            some = np.flatnonzero(open_ & np.array([len(one) > number for one in options], bool))
            if not len(some):
                break
            at = left[some]
            place, code = (np.array(part) for part in zip(*(options[k][number] for k in some.tolist()), strict=True))
            trial = own.at(np.zeros(len(at), int), at)
            trial.draws[0] = start[at]
            set_ = before[at]
            set_[np.arange(len(at)), place.astype(int)] = True
            trial.draws[0, np.arange(len(at)), place.astype(int)] = code
            trial = trial._replace(
                observed=np.where(set_, trial.draws[0], trial.observed), missing=trial.missing & ~set_
            )
            keep(trial)
            pairs = checks.pairs(trial.draws[0], at)
            better = checks.kept(trial.draws[0], own.observed[at], at) & (pairs.sum(1) < count[at])
            better &= checks.within(trial.draws[0], own.draws[0, at])
            new = at[better]
            best[new], fixed[new], wrong[new] = trial.draws[0][better], set_[better], pairs[better]
            count[new] = pairs[better].sum(1)
            open_[some[better]] = False
        left = left[~open_ & (count[left] > 0)]
        if not len(left):
            break
    done = np.flatnonzero((count == 0) & fixed.any(1))
    rows.draws[draw[done], row[done]] = best[done]
    mended = np.zeros(found.shape, bool)
    mended[draw[done], row[done]] = True
    found.mend(mended)


class Checks:
    """Which rules rows keep to; `missing` [n, columns]: their holes."""

    def __init__(self, schema: Schema, missing: Bools) -> None:
        self._schema, self._missing = schema, missing
        names = schema.modelled
        relations = schema.relations
        zeros = schema.structural_zeros
        places = [[names.index(name) for name in one.names] for one in relations]
        self._relations = [(one, Unpaired.of(one, schema), at) for one, at in zip(relations, places, strict=True)]
        self._zeros = [(pair, [names.index(name) for name in pair.names]) for one in zeros for pair in one.single()]
        seen = [[np.unique(part, return_counts=True) for part in np.array(one.seen).T] for one in zeros]
        self._seen = [own for one, own in zip(zeros, seen, strict=True) for _ in one.pairs]
        numbers = [(place, as_number(as_summand(column))) for place, column in enumerate(schema.encoded)]
        self._ends = [(place, number.ends) for place, number in numbers if number is not None]
        self._stay = {names.index(one.name) for one in schema.rules}

    def pairs(self, codes: Floats, rows: Ints) -> Bools:
        """[n, pairs] which structural zeros codes [n, columns] of some rows [n] have, but of observed cells alone."""
        if not self._zeros:
            return np.zeros((len(codes), 0), bool)
        return np.stack(
            [
                one.excludes(*(codes[:, place] for place in places)) & self._missing[rows][:, places].any(1)
                for one, places in self._zeros
            ],
            1,
        )

    def kept(self, codes: Floats, observed: Floats, rows: Ints) -> Bools:
        """[n] which codes [n, columns] of some rows [n] keep to the relations, orders and comparisons; `observed` [n,
        columns]."""
        exact = np.where(self._missing[rows], codes, observed)
        able = self.related(codes, observed, rows) & ~out_of_order(exact, self._schema)
        return np.asarray(able & (count_broken(exact, self._missing[rows], self._schema) == 0))

    def related(self, codes: Floats, observed: Floats, rows: Ints) -> Bools:
        """[n] which of the same keep to the relations."""
        able = np.ones(len(codes), bool)
        exact = np.where(self._missing[rows], codes, observed)
        for one, unpaired, places in self._relations:
            holes, digit = self._missing[rows][:, places], half_digit(self._schema.encoded[places[0]])
            able &= ~(departing_fills(one, unpaired, exact[:, places], holes, digit) & holes.any(1))
        return able

    def within(self, codes: Floats, before: Floats) -> Bools:
        """[n] which codes [n, columns] lie within the limits of their columns, or are as they were `before` [n,
        columns]: what other cells determine may lie beyond, and a value that is tried determines nothing."""
        able = np.ones(len(codes), bool)
        for place, (least, most) in self._ends:
            own = codes[:, place]
            able &= ((own >= least) & (own <= most)) | (own == before[:, place])
        return able

    def options(self, codes: Floats, pair: int, fixed: Bools, row: int) -> list[tuple[int, float]]:
        """What may be tried for the codes [columns] of a row: a place and another code there, of one of the two cells
        of a pair that is missing and not `fixed` [columns]."""
        one, places = self._zeros[pair]
        found: list[tuple[int, float]] = []
        for number, place in enumerate(places):
            if not self._missing[row, place] or fixed[place] or place in self._stay:
                continue
            values, often = self._seen[pair][number]
            cells = [values, np.full(len(values), codes[places[1 - number]])]
            able = ~one.excludes(*(cells if number == 0 else cells[::-1]))
            if isinstance(self._schema.encoded[place], Levelled):
                far = -often[able]
            else:
                far = np.abs(values[able] - codes[place])
            able = values[able][np.argsort(far, kind="stable")]
            found += [(place, float(code)) for code in able[:OTHERS].tolist()]
        return found
