"""What follows from two columns together: a price from an item and its size, a fee from a plan and a region.

Of columns with few levels, or few whole numbers, each pair is asked which other columns have one value in all rows of
each of its combinations. (What follows from one column: relations.py, keys.py.)
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from vgi_cli.columns.base import ModelledColumn
from vgi_cli.columns.levelled import Levelled
from vgi_cli.columns.lookups import Lookup
from vgi_cli.columns.number import Number
from vgi_cli.columns.numerals import Bools, Floats, Ints, value_places
from vgi_cli.columns.places import evenly
from vgi_cli.columns.relations import Relation
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.independence import GroupedRows
from vgi_cli.encoding.keys import REPEATED
from vgi_cli.encoding.redundant import as_number, codes_of
from vgi_cli.encoding.relations import ENOUGH
from vgi_cli.table.base import Table

MOST_LEVELS = 60
"""Levels, or different whole numbers, of each of the two columns at most."""
LOOKS = (100, 1_000)
"""Rows by which most columns are found not to follow from a pair, and then most others; evenly spread."""


class _Found(NamedTuple):
    """A column that follows from two others.

    name   of the column
    by     of the two others
    size   number of their combinations
    nats   by which rows speak for it
    last   what decides between the ways in which three columns follow from each other: how many combinations there
           might be of the two, then which of the columns is the last one of the table
    """

    name: str
    by: tuple[str, str]
    size: int
    nats: float
    last: tuple[int, int]


def pairs_among(
    table: Table, schema: Schema, relations: Sequence[Relation], lookups: Sequence[Lookup]
) -> tuple[Relation, ...]:
    """What follows from two columns together and from neither of them alone, beyond what other `relations` and
    `lookups` say, by more rows than chance explains; of several pairs of one column the one with the fewest
    combinations, of these the one for which rows speak most."""
    columns = {column.name: column for column in schema.encoded if not column.pooled}
    codes = {name: codes_of(table, column) for name, column in columns.items()}
    by = {name: places for name, column in columns.items() if (places := _few(column, codes[name])) is not None}
    settled = {one.names[0] for one in relations} | {one.name for one in lookups}
    names = [
        name
        for name, column in columns.items()
        if name not in settled and (isinstance(column, Levelled) or as_number(column) is not None)
    ]
    enough = ENOUGH + float(np.log(max(len(by) ** 2 * len(names), 1)))
    rows = GroupedRows(table, schema, np.arange(table.N), codes)
    order = list(columns)
    found = []
    for name, pair in _may_follow(names, codes, by):
        if _said_otherwise(name, pair, relations):
            continue
        own = value_places(codes[name])
        a, b = by[pair[0]], by[pair[1]]
        if _decided(_together(a, b), own):
            states = ((pair[0], a), (pair[1], b), (name, own))
            nats = min([_surprise(a, b, own), *_of_groups(rows, states)])
            if nats >= enough:
                size = len(np.unique(_together(a, b)[(a >= 0) & (b >= 0) & (own >= 0)]))
                last = (int(a.max()) + 1) * (int(b.max()) + 1), -order.index(name)
                found.append(_Found(name, pair, size, nats, last))
    chosen = {one.name: _relation(one, codes) for one in _chosen(found)}
    return tuple(chosen[name] for name in order if name in chosen)


def _few(column: ModelledColumn, codes: Floats) -> Ints | None:
    """[N] the number of the value of each cell of a column with few levels or whole numbers (-1: it is missing), by its
    codes [N]; None of others."""
    if isinstance(column, Levelled):
        few = column.level_counts[0] <= MOST_LEVELS
    else:
        few = isinstance(column, Number) and column.whole and column.notation is None
        few = few and len(np.unique(_some(codes, LOOKS[-1]))) <= MOST_LEVELS
    if not few:
        return None
    places = value_places(codes)
    return places if 0 < places.max(initial=-1) < MOST_LEVELS else None


def _some(values: np.ndarray, count: int) -> np.ndarray:
    """So many of the rows of values [N, ..], evenly spread; all of fewer."""
    return values[evenly(len(values), count)]


def _together(a: Ints, b: Ints) -> Ints:
    """[N] the number of the combination of two values [N]; -1 where one is missing (-1)."""
    return np.where((a >= 0) & (b >= 0), a * (int(b.max()) + 1) + b, -1)


def _may_follow(
    names: Sequence[str], codes: Mapping[str, Floats], by: Mapping[str, Ints]
) -> Iterator[tuple[str, tuple[str, str]]]:
    """Which of some columns may follow from which pairs of others, as far as some rows tell; codes and the numbers of
    values `by` columns, all [N]."""
    if not names or len(by) < 2:
        return
    values = np.stack([codes[name] for name in names], 1)
    looks = [(_some(values, count), {name: _some(places, count) for name, places in by.items()}) for count in LOOKS]
    for pair in itertools.combinations(by, 2):
        able = np.array([name not in pair for name in names])
        for own, places in looks:
            left = np.flatnonzero(able)
            if not len(left):
                break
            able[left] = _alike(_together(places[pair[0]], places[pair[1]]), own[:, left])
        yield from ((names[place], pair) for place in np.flatnonzero(able).tolist())


def _alike(pairs: Ints, values: Floats) -> Bools:
    """[columns] whether the values [n, columns] of neighbours among the rows of a pair [n] (-1: none) are the same."""
    order = np.argsort(pairs.astype(np.int16), kind="stable")  # of so few bits they are sorted in one pass
    pairs = pairs[order]
    next_ = np.flatnonzero((pairs[1:] == pairs[:-1]) & (pairs[1:] >= 0))
    before, after = values[order[next_]], values[order[next_ + 1]]
    return np.asarray(~((before < after) | (before > after)).any(0))


def _said_otherwise(name: str, pair: tuple[str, str], relations: Sequence[Relation]) -> bool:
    """Whether a sum or a product says what a column is by two others, or by what follows from one of them; or both of
    these follow from it, each by itself."""
    coded = [one.names for one in relations if one.coded]
    known = set(pair)
    while more := {first for first, *others in coded if known.issuperset(others)} - known:
        known |= more
    exact = (one.names for one in relations if not one.coded and not one.slack)
    computed = any(name in names and set(names) <= {name, *known} for names in exact)
    return name in known or computed or all((other, name) in coded for other in pair)


def _decided(pairs: Ints, values: Ints) -> bool:
    """Whether all rows of each pair [N] have one value [N]; both -1: none."""
    both = (pairs >= 0) & (values >= 0)
    if not both.any():
        return False
    of = np.zeros(int(pairs.max()) + 1, int)
    of[pairs[both]] = values[both]
    return bool((of[pairs[both]] == values[both]).all())


def _of_groups(rows: GroupedRows, states: Sequence[tuple[str, Ints]]) -> Iterator[float]:
    """As `_surprise`, where the rows are those of groups that another column names, each of which has one value in each
    of three columns (states [N], -1: none): then it counts groups, not rows."""
    for a, b, values in rows.by_groups(*states):
        if len(np.unique(_together(a, b))) < len(a):  # else the groups are the pairs by other names
            yield _surprise(a, b, values)


def _surprise(a: Ints, b: Ints, values: Ints) -> float:
    """Nats by which it would be chance that the rows of each pair, of the values of two columns [n], have one value [n]
    (-1: none), were these drawn beside either of the two alone. 0 where most pairs have one row alone."""
    whole = (a >= 0) & (b >= 0) & (values >= 0)
    a, b, values = a[whole], b[whole], values[whole]
    first, counts = np.unique(_together(a, b), return_index=True, return_counts=True)[1:]
    if not (counts > 1).mean() >= REPEATED:
        return 0.0
    nats = []
    for own in (a, b):
        at, often = np.unique(_together(own, values), return_inverse=True, return_counts=True)[1:]
        share = often[at.reshape(-1)] / np.bincount(own)[own]
        nats.append(float(-((counts - 1) * np.log(share[first])).sum()))
    return min(nats)


def _chosen(found: Sequence[_Found]) -> Iterator[_Found]:
    """One for each column, and for each three columns; none by which columns would follow from each other in turn."""
    by: dict[str, tuple[str, str]] = {}
    for one in sorted(found, key=lambda one: (one.size, one.last, -one.nats)):
        three = {one.name, *one.by}
        told = any({name, *pair} == three for name, pair in by.items())
        if one.name not in by and not told and one.name not in _before(one.by, by):
            by[one.name] = one.by
            yield one


def _before(names: Collection[str], by: Mapping[str, tuple[str, str]]) -> set[str]:
    """Some columns, and all from which they follow."""
    every = set(names)
    while more := {other for name in every if name in by for other in by[name]} - every:
        every |= more
    return every


def _relation(one: _Found, codes: Mapping[str, Floats]) -> Relation:
    """What each of the combinations says that are seen."""
    values = np.stack([codes[name] for name in (*one.by, one.name)], 1)
    seen = np.unique(values[~np.isnan(values).any(1)], axis=0)
    pairs = tuple((first, second) for first, second, _ in seen.tolist())
    return Relation(names=(one.name, *one.by), how="pairs", pairs=pairs, codes=tuple(seen[:, 2].tolist()))
