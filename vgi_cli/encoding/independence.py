"""Which rows of a table say something of two of its columns independently of each other.

Rows of a log follow each other: the cells of a device that rise little by little are one piece of evidence, however
many they are. So are the rows of a person whose sex, region and birth year are in each of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from vgi_cli.columns.datetime import Moment
from vgi_cli.columns.numerals import Bools, Floats, Ints, mean_ranks, value_places
from vgi_cli.columns.schema import Schema
from vgi_cli.table.base import Table

SO_MANY = 2
"""Rows of a group, on average, from which on the cells of a column may name groups."""
ALIKE, SURELY = 0.3, 5.0
"""Least correlation of neighbours, and how many standard errors of one that is 0 it is at least."""
SCATTERED = 0.5
"""Share of the changes of level by chance, from number to number, up to which these decide the level by intervals."""
MIXED = 20
"""Rows that are followed by one of another level from which on a table may be sorted by the numbers beside."""


class GroupedRows:
    """Some rows [R] of a table, the cells of whose columns have these codes [R]; NaN where they are missing."""

    def __init__(self, table: Table, schema: Schema, rows: Ints, codes: Mapping[str, Floats]) -> None:
        self._table, self._schema, self._rows, self.codes = table, schema, rows, codes
        self._places: dict[str, Ints] | None = None
        self._within: dict[str, list[str]] = {}

    def by_groups(self, *columns: tuple[str, Ints]) -> list[tuple[Ints, ...]]:
        """Of some columns, with the states of their rows [R] (-1: none), those of groups of rows [G] that have one
        state in each of them; for each column that names such groups."""
        found = []
        for group in set.intersection(*(set(self._groups_of(*one)) for one in columns)):
            states = np.stack([self._by_group(group, state) for _, state in columns])
            found.append(tuple(states[:, (states >= 0).all(0)]))
        return found

    def _groups_of(self, name: str, state: Ints) -> list[str]:
        """The columns whose cells name groups of rows, in each of which a column has one state [R] (-1: none)."""
        if name not in self._within:
            named = self._named().items()
            self._within[name] = [other for other, places in named if other != name and _decides(places, state)]
        return self._within[name]

    def _by_group(self, group: str, state: Ints) -> Ints:
        """The states [G] of the groups that a column names, by those of their rows [R]; -1 where no row has one."""
        places = self._named()[group]
        known = (places >= 0) & (state >= 0)
        out = np.full(int(places.max()) + 1, -1)
        out[places[known]] = state[known]
        return out

    def one_of_each(self, name: str, state: Ints, number: str) -> Bools:
        """[R] which rows to count, so that these are independent of each other in the numbers beside the levels (state
        [R], -1: none) of a column: all of them; none where those of a level follow each other; one of each group where
        those of a group are alike, and a level has several groups."""
        values = self.codes[number]
        known = (state >= 0) & ~np.isnan(values)
        ranks = np.full(len(values), np.nan)
        ranks[known] = mean_ranks(values[known])
        if any(_follow(state[order], ranks[order]) for order in self._orders(known, number)):
            return np.zeros(len(values), bool)
        counted = known.copy()
        for other in self._groups_of(name, state):
            if other == number and _in_intervals(values[known], state[known]):  # it says the level, and names nobody
                continue
            places = self._named()[other]
            order = np.flatnonzero(known & (places >= 0))
            order = order[np.argsort(places[order], kind="stable")]
            if _alike(state[order], ranks[order], places[order]):
                counted &= _first(places, state, known)
        return counted

    def _named(self) -> dict[str, Ints]:
        """By columns that may name groups the number of that of each row [R], -1 where it has none."""
        if self._places is None:
            self._places = {}
            for name in self._table.names:
                places = self._places_of(name)
                count = int((places >= 0).sum())
                if count and SO_MANY * (int(places.max()) + 1) <= count:
                    self._places[name] = places
        return self._places

    def _places_of(self, name: str) -> Ints:
        """[R] the number of the value of each row in a column, -1 where it is missing, or neither number nor level."""
        if name in self.codes:
            return value_places(self.codes[name])
        cells = self._table.column(name)
        if not cells.levelled:
            return np.full(len(self._rows), -1)
        places = cells.distinct.places[self._rows]
        known = (places >= 0) & ~cells.missing[self._rows]
        return value_places(np.where(known, places, np.nan))

    def _orders(self, known: Bools, number: str) -> Iterator[Ints]:
        """The orders in which rows may follow each other: that of the table, and those of its moments."""
        yield np.flatnonzero(known)
        for column in self._schema.encoded:
            if isinstance(column, Moment) and column.kind in ("date", "datetime") and column.name != number:
                moments = self.codes.get(column.name)
                if moments is not None:
                    order = np.flatnonzero(known & ~np.isnan(moments))
                    yield order[np.argsort(moments[order], kind="stable")]


def _in_intervals(values: Floats, state: Ints) -> bool:
    """Whether the levels (state [n]) of different numbers [n], each of which has one, come in intervals: in their order
    the next one has another level in at most so many cases (SCATTERED) as in any other order."""
    first = np.unique(values, return_index=True)[1]
    levels = state[first]
    if len(levels) < 2:
        return True
    shares = np.bincount(levels) / len(levels)
    return float((levels[1:] != levels[:-1]).mean()) <= SCATTERED * (1 - float(np.square(shares).sum()))


def _decides(places: Ints, state: Ints) -> bool:
    """Whether all rows of a group (places [R]) have the same state [R]; both -1: none."""
    known = (places >= 0) & (state >= 0)
    if not known.any():
        return False
    own, of = places[known], np.full(int(places.max()) + 1, -1)
    of[own] = state[known]
    return bool((of[own] == state[known]).all()) and SO_MANY * len(np.unique(own)) <= len(own)


def _first(places: Ints, state: Ints, known: Bools) -> Bools:
    """[R] the known rows, of each group (places [R]) the first alone; those of no group, and of levels (state [R]) of
    one group, all."""
    named = known & (places >= 0)
    rows = np.flatnonzero(named)
    first = rows[np.unique(places[rows], return_index=True)[1]]
    groups = np.bincount(state[first], minlength=int(state.max()) + 1)
    counted = known.copy()
    counted[rows[groups[state[rows]] > 1]] = False
    counted[first] = True
    return counted


def _follow(state: Ints, ranks: Floats) -> bool:
    """Whether numbers (ranks [n]) change little by little from one row of a level (state [n]) to its next one, and not
    as well from each row to the next, as they do in a table that is sorted by them."""
    order = np.argsort(state, kind="stable")
    if not _alike(state[order], ranks[order], state[order]):
        return False
    own = np.diff(ranks[order])[np.diff(state[order]) == 0]
    others = np.diff(ranks)[np.diff(state) != 0]
    return len(others) < MIXED or float(np.square(others).mean()) > float(np.square(own).mean())


def _alike(state: Ints, ranks: Floats, groups: Ints) -> bool:
    """Whether neighbours of one group (groups [n]) are more alike in numbers (ranks [n]) than rows of a level (state
    [n]) are: von Neumann's ratio within levels."""
    if len(ranks) < 2:
        return False
    counts = np.bincount(state)
    means = np.bincount(state, ranks) / np.maximum(counts, 1)
    free = len(ranks) - int((counts > 0).sum())
    variance = float(np.square(ranks - means[state]).sum()) / max(free, 1)
    steps = np.diff(ranks)[np.diff(groups) == 0]
    if not len(steps) or variance <= 0:
        return False
    r = 1 - float(np.square(steps).mean()) / (2 * variance)
    return r >= ALIKE and r * np.sqrt(len(steps)) >= SURELY
