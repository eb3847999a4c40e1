"""What has one value for each key: the exchange rate of a day, the sex of a patient, the size of a school.

The keys are whole numbers, dates and times that are modelled, or texts and ids that are carried. (Of levels `relations.py` finds this.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from vgi_cli.columns.base import Carried, Column
from vgi_cli.columns.datetime import Moment
from vgi_cli.columns.lattice import find_gaps
from vgi_cli.columns.lookups import Lookup, digest
from vgi_cli.columns.notation import quantities
from vgi_cli.columns.number import Number
from vgi_cli.columns.numerals import Bools, Floats, Ints, value_places
from vgi_cli.columns.relations import Relation
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.independence import Rows
from vgi_cli.encoding.redundant import as_number, codes_of
from vgi_cli.encoding.relations import ENOUGH
from vgi_cli.table.base import Table

FEWEST, MOST = 3, 10_000
"""Least and greatest number of keys that a table has."""
REPEATED = 0.5
"""Share of the keys, at least, that have the other column in several rows."""
COUNTED = 5
"""So many rows of a key count at most, beyond the first: one large group says little of the others."""
NEIGHBOURS = 2
"""Keys on either side of a number with whose rows its own ones are compared: what changes little by little is the same
there, too."""
FIRST_LOOK = 200
"""Rows by which most pairs of columns are found not to go together."""


class Key(NamedTuple):
    """A column whose cells may be keys.

    name     of the column
    places   [N] the number of the key of each row; -1: none
    numbers  [keys] the keys, ascending, where they are numbers; else none
    texts    the texts of the others
    """

    name: str
    places: Ints
    numbers: Floats
    texts: Sequence[str]

    @property
    def size(self) -> int:
        """How many keys there are."""
        return len(self.texts) or len(self.numbers)


def keys_among(
    table: Table, schema: Schema, relations: Sequence[Relation]
) -> tuple[tuple[Relation, ...], tuple[Lookup, ...]]:
    """What follows from keys, beyond what other `relations` say: from each a value of the column, wherever both are
    observed, by more rows than chance explains. Of several keys with the same column the one with the fewest is taken,
    of those that go one to one the first one in the table."""
    numbers, texts = list(number_keys(table, schema)), list(carried_keys(table, schema))
    if not numbers and not texts:
        return (), ()
    codes = {column.name: codes_of(table, column) for column in schema.encoded}
    rows, said = Rows(table, schema, np.arange(table.N), codes), Said(relations)
    enough = ENOUGH + 2 * float(np.log(len(schema.columns)))
    before: set[str] = set()
    found: list[Relation] = []
    lookups: list[Lookup] = []
    for column in schema.encoded:
        name, own = column.name, value_places(codes[column.name])
        if not column.pooled and own.max() > 0:
            able = [key for key in numbers if key.name != name and not said.settles(name, key.name)]
            # of two columns that go one to one the later one follows from the earlier one
            open_ = [
                key for key in able if key.name in before or not (is_key(name, numbers) and decides(own, key.places))
            ]
            if (number := _decided(rows, open_, name, own, enough)) is not None:
                numbered, values = _pairs(number, own, codes[name])
                keys = tuple(number.numbers[numbered].tolist())
                found.append(Relation(names=(name, number.name), how="groups", keys=keys, codes=values))
                said.add(found[-1])
            if (text := _decided(rows, texts, name, own, enough)) is not None:
                places, values = _pairs(text, own, codes[name])
                digests = tuple(digest(text.texts[place]) for place in places.tolist())
                lookups.append(Lookup(name=name, by=text.name, keys=digests, codes=values))
        before.add(name)
    return tuple(found), tuple(lookups)


def gaps_by_keys(table: Table, schema: Schema) -> Schema:
    """A schema whose columns that follow from keys or levels have the gaps of a table in which a value counts once for
    each: a date of birth that a patient has at each visit does not occur again and again for that."""
    by = {one.names[0]: one.names[1] for one in schema.relations if one.how in ("groups", "levels")}
    by |= {one.name: one.by for one in schema.lookups}
    every = [_without_repeats(table, schema, column, by.get(column.name)) for column in schema.columns]
    return replace(schema, columns=tuple(every))


def _without_repeats(table: Table, schema: Schema, column: Column, key: str | None) -> Column:
    """A column with the gaps between its values, each of which counts once for each key."""
    number = column.number if isinstance(column, Moment) else column
    if key is None or not isinstance(column, Number | Moment) or not isinstance(number, Number) or not number.gaps:
        return column
    assert number.lattice is not None, "gaps are those of a lattice"
    if key in schema.modelled:
        places = value_places(codes_of(table, schema.encoded[schema.modelled.index(key)]))
    else:
        places = next(one.places for one in carried_keys(table, schema) if one.name == key)
    codes = codes_of(table, column)
    held = ~np.isnan(codes)
    keyed = held & (places >= 0)
    pairs = np.unique(np.stack([places[keyed].astype(float), codes[keyed]]), axis=1)
    gaps = find_gaps(np.concatenate([pairs[1], codes[held & ~keyed]]), number.lattice.resolution)
    number = replace(number, gaps=gaps)
    return replace(column, number=number) if isinstance(column, Moment) else number


def told_by_keys(table: Table, schema: Schema, rows: Ints | None = None) -> Floats:
    """[N, columns] the codes that keys which are carried say of the modelled columns, in some rows of a table (None:
    all); NaN: nothing. Keys that the table lacks say nothing."""
    some = np.arange(table.N) if rows is None else rows
    told = np.full((len(some), len(schema.encoded)), np.nan)
    keys = _Digests(table, some)
    for one in schema.lookups:
        place = schema.modelled.index(one.name)
        told[:, place] = keys.said(one)
    return told


def answering_keys(table: Table, schema: Schema, rows: Bools) -> list[str]:
    """The carried columns whose keys say something of some rows [N] of a table, in the order of the lookups."""
    some = np.flatnonzero(rows)
    if not schema.lookups or not len(some):
        return []
    keys = _Digests(table, some)
    return list(dict.fromkeys(one.by for one in schema.lookups if not np.isnan(keys.said(one)).all()))


def unlike_keys(table: Table, schema: Schema) -> list[int]:
    """Of each lookup of a schema, in how many rows of a table the cell is observed and is not what the key says."""
    columns = {column.name: column for column in schema.encoded}
    counts, keys = [], _Digests(table, np.arange(table.N))
    for one in schema.lookups:
        said, codes = keys.said(one), codes_of(table, columns[one.name])
        counts.append(int((~np.isnan(said) & ~np.isnan(codes) & (said != codes)).sum()))
    return counts


class _Digests:
    """The digests of the cells that some rows [n] of a table have in its carried columns."""

    def __init__(self, table: Table, rows: Ints) -> None:
        self._table, self._rows = table, rows
        self._known: dict[str, tuple[list[str], Ints]] = {}

    def said(self, one: Lookup) -> Floats:
        """[n] the codes by a lookup; NaN: nothing is said."""
        if one.by not in self._known:
            self._known[one.by] = self._of(one.by)
        digests, places = self._known[one.by]
        return np.asarray(np.append(one.said(digests), np.nan)[places])

    def _of(self, name: str) -> tuple[list[str], Ints]:
        """The different digests of a column, and which of them each row [n] has (-1: none)."""
        nowhere = np.full(len(self._rows), -1)
        if name not in self._table.names or not (cells := self._table.column(name)).levelled:
            return [], nowhere
        texts, every = cells.distinct
        own = np.where(cells.missing[self._rows], -1, every[self._rows])
        held, at = np.unique(own[own >= 0], return_inverse=True)
        nowhere[own >= 0] = at.reshape(-1)
        return [digest(texts[place]) for place in held.tolist()], nowhere


class Said:
    """What relations say of columns already; `add` one that was found."""

    def __init__(self, relations: Sequence[Relation]) -> None:
        self._coded = {one.names[0] for one in relations if one.coded}
        exact = [one for one in relations if not one.slack]
        self._pairs = {frozenset(one.names) for one in exact}
        self._formulas = [one.names for one in exact if not one.coded]
        self._follow: dict[str, set[str]] = {}

    def add(self, relation: Relation) -> None:
        name, key = relation.names
        self._follow.setdefault(key, set()).add(name)

    def settles(self, name: str, key: str) -> bool:
        """Whether a column follows from levels, goes with the key by a formula, or is computed from columns that follow
        from it."""
        computed = any(names[0] == name and set(names[1:]) <= self._follow.get(key, set()) for names in self._formulas)
        return name in self._coded or frozenset((name, key)) in self._pairs or computed


def number_keys(table: Table, schema: Schema) -> Iterator[Key]:
    """The columns of whole numbers and of dates and times that may be keys."""
    for column in schema.encoded:
        number = as_number(column)
        if number is not None and number.whole:
            codes = codes_of(table, column)
            places = value_places(codes)
            if _may_be_keys(places):
                yield Key(column.name, places, np.unique(codes[~np.isnan(codes)]), ())


def carried_keys(table: Table, schema: Schema) -> Iterator[Key]:
    """The columns that are carried and may be keys: ids, whole numbers and names, no measurements."""
    for column in schema.columns:
        if not isinstance(column, Carried) or column.role not in ("data", "id") or column.name not in table.names:
            continue
        cells = table.column(column.name)
        if not cells.levelled:
            continue
        texts, every = cells.distinct
        known = ~cells.missing & (every >= 0)
        held, own = np.unique(every[known], return_inverse=True)
        places = np.full(table.N, -1)
        places[known] = own.reshape(-1)
        if not _may_be_keys(places):
            continue
        used = [texts[place] for place in held.tolist()]
        if column.role == "id" or all(map(str.isdecimal, used)) or not quantities(used):
            yield Key(column.name, places, np.empty(0), used)


def _may_be_keys(places: Ints) -> bool:
    """Whether there are several keys, of which many have several rows; places [N]: of each row (-1: none)."""
    counts = np.bincount(places[places >= 0])
    return FEWEST <= len(counts) <= MOST and bool((counts > 1).mean() >= REPEATED)


def is_key(name: str, keys: Sequence[Key]) -> bool:
    """Whether a column is among some that may be keys."""
    return any(key.name == name for key in keys)


def _decided(rows: Rows, keys: Sequence[Key], name: str, own: Ints, enough: float) -> Key | None:
    """Of columns that may be keys the one with the fewest keys that decide a column, with the values own [N] (-1:
    none), by so many nats; None where none does."""
    able = sorted((key for key in keys if decides(key.places, own)), key=lambda key: key.size)
    return next((key for key in able if evidence_for(rows, key, name, own) >= enough), None)


def _pairs(key: Key, own: Ints, codes: Floats) -> tuple[Ints, tuple[float, ...]]:
    """The keys of several rows of which one has a value at least [keys], and the codes of these, by the values own [N]
    (-1: none) of the rows and their codes [N]. What is said by a key of one row fills no other one, and would keep a
    value of every single person in the run."""
    code, both = np.full(key.size, np.nan), (key.places >= 0) & (own >= 0)
    code[key.places[both]] = codes[both]
    several = np.bincount(key.places[key.places >= 0], minlength=key.size) > 1
    seen = np.flatnonzero(several & (np.bincount(key.places[both], minlength=key.size) > 0))
    return seen, tuple(code[seen].tolist())


def decides(keys: Ints, values: Ints) -> bool:
    """Whether all rows of a key (places [N], -1: none) have the same value [N] (-1: none), and there are several."""
    both = np.flatnonzero((keys >= 0) & (values >= 0))
    for some in (both[:FIRST_LOOK], both):
        own, of = keys[some], np.full(int(keys.max()) + 1, -1)
        of[own] = values[some]
        if not len(some) or (of[own] != values[some]).any():
            return False
    return len(np.unique(of[of >= 0])) > 1


def evidence_for(rows: Rows, key: Key, name: str, values: Ints) -> float:
    """Nats by which it would be chance that the rows of each key have one value of a column; also where the rows are
    those of groups that another column names, each of which has one key and one value: then it counts groups, not
    rows."""
    found = [nats_of(key.places, values, ordered=not key.texts)]
    for keys, own in rows.by_groups((key.name, key.places), (name, values)):
        if len(np.unique(keys)) < len(keys):  # else the groups are the keys by other names
            found.append(_surprise(keys, own, ordered=not key.texts))
    return min(found)


def nats_of(keys: Ints, values: Ints, *, ordered: bool = False) -> float:
    """The same of all rows, with keys [N] and values [N] (-1: none)."""
    both = (keys >= 0) & (values >= 0)
    return _surprise(keys[both], values[both], ordered=ordered)


def _surprise(keys: Ints, values: Ints, *, ordered: bool) -> float:
    """The same of rows with keys [n] and values [n], of which those of one key are equal; `ordered`: beyond what the
    rows with neighbouring keys say. 0 where most keys have one row alone."""
    held, at, counts = np.unique(keys, return_inverse=True, return_counts=True)
    if not (counts > 1).mean() >= REPEATED:
        return 0.0
    value = np.empty(len(held), int)
    value[at.reshape(-1)] = values
    share = np.bincount(values)[value] / len(values)
    if ordered:
        share = np.maximum(share, _alike(value, counts))
    return float(-(np.minimum(counts - 1, COUNTED) * np.log(share)).sum())


def _alike(value: Ints, counts: Ints) -> Floats:
    """[keys] the share of the rows of neighbouring keys that have the value of a key; counts [keys] of rows."""
    same, rows = np.zeros(len(value)), np.zeros(len(value))
    for step in range(1, NEIGHBOURS + 1):
        for own, other in ((slice(step, None), slice(None, -step)), (slice(None, -step), slice(step, None))):
            rows[own] += counts[other]
            same[own] += counts[other] * (value[other] == value[own])
    return same / np.maximum(rows, 1)
