"""Two cells of a row that a sum and a product say together, neither of them alone: a subtotal and a discount, where the
net amount and the percentage are known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from vgi_cli.columns.numerals import Bools, Floats, Ints
from vgi_cli.encoding.computing import RelationCells, clipped, solve
from vgi_cli.encoding.redundant import half_digit
from vgi_cli.encoding.relations import departing

STEPS = 30
"""Of the secant method at most."""
DIGITS = (0, 1, -1, 2, -2)
"""By how many last digits the first of the two cells is tried farther from what they are without rounding."""


class Two(NamedTuple):
    """Two relations that have the same two unknown cells in some rows.

    first, other  the relations
    columns       the places of the two cells among the modelled columns; the former is solved for
    rows          [n] the rows
    """

    first: RelationCells
    other: RelationCells
    columns: tuple[int, int]
    rows: Ints

    @property
    def key(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The columns of both relations."""
        return self.first.relation.names, self.other.relation.names


def two_unknowns(told: Sequence[RelationCells], known: Bools, tried: dict[object, Bools]) -> Two | None:
    """The first two relations that leave the same two cells of some rows unknown, where at least one is a product;
    sums say that together already. A third one of one of them stays as it was drawn. `known` [N, columns]; `tried`:
    rows [N] in which it was asked, by relations."""
    able = [one for one in told if one.relation.how in ("sum", "product") and not one.relation.slack]
    unknown = [~known[:, one.places] for one in able]
    counts = [own.sum(1) for own in unknown]
    for i, first in enumerate(able):
        for j in range(i + 1, len(able)):
            other = able[j]
            shared = np.intersect1d(first.places, other.places)
            if len(shared) < 2 or {first.relation.how, other.relation.how} == {"sum"}:
                continue
            rows = ((~known[:, shared]).sum(1) == 2) & (counts[i] + counts[j] <= 5)
            before = tried.setdefault((first.relation.names, other.relation.names), np.zeros(len(known), bool))
            some = np.flatnonzero(rows & ~before)
            if len(some):
                pair = shared[~known[some[0], shared]]
                same = some[(~known[np.ix_(some, pair)]).all(1)]
                computed = int(pair[0] == other.places[0])  # what is rounded follows from the one that is solved for
                return Two(first, other, (int(pair[computed]), int(pair[1 - computed])), same)
    return None


def solved_together(two: Two, values: tuple[Floats, Floats]) -> tuple[Floats, Bools]:
    """The former of the two cells [m, n], nearest to what was drawn, and where both relations hold with it and what the
    first one says of the latter. `values`: the cells of both relations [m, n, places]."""
    ways = [(one, own.copy()) for one, own in zip((two.first, two.other), values, strict=True)]
    places = [[one.places.tolist().index(j) for j in two.columns] for one, _ in ways]
    column = two.first.columns[places[0][0]]

    def with_cells(which: int, cells: Sequence[Floats]) -> Floats:
        own = ways[which][1]
        for place, cell in zip(places[which], cells, strict=False):
            own[..., place] = cell
        return own

    def left(u: Floats) -> Floats:
        """By how much the first relation says another cell, with what the second one says of the latter."""
        own = with_cells(1, [u])
        v = two.other.relation.solved(own, places[1][1], own[..., 0])
        own = with_cells(0, [u, v])
        return np.asarray(two.first.relation.solved(own, places[0][0], own[..., 0]) - u)

    with np.errstate(all="ignore"):
        u = values[0][..., places[0][0]]
        error = left(u)
        after = u + np.where(error == 0, column.deviation, error)
        for _ in range(STEPS):
            now = left(after)
            step = now * (after - u) / (now - error)
            u, error, after = after, now, np.where(np.isfinite(step) & (now != 0), after - step, after)
        found, done = values[0][..., places[0][0]].copy(), np.zeros(after.shape, bool)
        for digits in DIGITS:
            own = clipped(column, after + digits * 2 * half_digit(column))
            v, able = solve(two.first, places[0][1], with_cells(0, [own]), guessed=False)
            holds = able & np.isfinite(after) & ~done
            for which, one in enumerate((two.first, two.other)):
                holds &= ~departing(one.relation, with_cells(which, [own, v]), one.digit)
            found, done = np.where(holds, own, found), done | holds
    return found, done
