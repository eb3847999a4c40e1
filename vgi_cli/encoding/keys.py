"""What has one value for each key: the exchange rate of a day, the sex of a patient, the size of a school.

The keys are whole numbers, dates and times that are modelled, or texts and ids that are carried, or what comes first in
these: a country in `DE-2024-00017`. (Of levels `relations.py` finds this.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from vgi_cli.columns.base import Carried, Column, ModelledColumn
from vgi_cli.columns.datetime import Moment
from vgi_cli.columns.lattice import find_gaps
from vgi_cli.columns.levelled import Levelled
from vgi_cli.columns.lookups import First, Lookup, digest, first_of
from vgi_cli.columns.notation import quantities
from vgi_cli.columns.number import Number
from vgi_cli.columns.numerals import Bools, Floats, Ints, value_places
from vgi_cli.columns.places import evenly
from vgi_cli.columns.relations import Relation
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.independence import GroupedRows
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
FIRSTS: tuple[First, ...] = ("part", "letters", *range(1, 9))
"""What of texts may be keys, those that are looked for before others first."""


class Key(NamedTuple):
    """A column whose cells may be keys.

    name     of the column
    places   [N] the number of the key of each row; -1: none
    numbers  [keys] the keys, ascending, where they are numbers; else none
    texts    the texts of the others
    first    what of the cells these are; None: all of them
    whole    [N] the number of the whole text of each row, where it is not; -1: none
    """

    name: str
    places: Ints
    numbers: Floats
    texts: Sequence[str]
    first: First | None = None
    whole: Ints | None = None

    @property
    def size(self) -> int:
        """How many keys there are."""
        return len(self.texts) or len(self.numbers)

    @property
    def label(self) -> str:
        """What no other key is called."""
        return self.name if self.first is None else f"{self.name}\0{self.first}"

    @property
    def ordered(self) -> bool:
        """Whether neighbouring keys may have the same by their order: numbers, and the first digits of a counter."""
        return not self.texts or isinstance(self.first, int)


def keys_among(
    table: Table, schema: Schema, relations: Sequence[Relation]
) -> tuple[tuple[Relation, ...], tuple[Lookup, ...]]:
    """What follows from keys, beyond what other `relations` say: from each a value of the column, wherever both are
    observed, by more rows than chance explains. Of several keys with the same column the one with the fewest is taken,
    of those that go one to one the first one in the table."""
    codes = {column.name: codes_of(table, column) for column in schema.encoded}
    firsts = list(first_keys(table, schema, codes.values()))
    numbers = list(number_keys(table, schema))
    texts = [*carried_keys(table, schema), *(one for one in firsts if _may_be_keys(one.places))]
    rows, said = GroupedRows(table, schema, np.arange(table.N), codes), Settled(relations)
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
            same = next((key for key in firsts if _is_written(key, column, codes[name], enough)), None)
            if (text := same or _decided(rows, texts, name, own, enough)) is not None:
                places, values = _pairs(text, own, codes[name])
                digests = tuple(digest(text.texts[place]) for place in places.tolist())
                lookups.append(
                    Lookup(
                        name=name,
                        by=text.name,
                        keys=digests,
                        codes=values,
                        first=text.first,
                        same=same is not None,
                    )
                )
        before.add(name)
    return tuple(found), tuple(lookups)


def gaps_by_keys(table: Table, schema: Schema) -> Schema:
    """A schema whose columns that follow from keys or levels have the gaps of a table in which a value counts once for
    each: a date of birth that a patient has at each visit does not occur again and again for that."""
    by: dict[str, str | Lookup] = {
        one.names[0]: one.names[1] for one in schema.relations if one.how in ("groups", "levels")
    }
    by |= {one.name: one for one in schema.lookups}
    every = [_without_repeats(table, schema, column, by.get(column.name)) for column in schema.columns]
    return replace(schema, columns=tuple(every))


def _without_repeats(table: Table, schema: Schema, column: Column, key: str | Lookup | None) -> Column:
    """A column with the gaps between its values, each of which counts once for each key."""
    number = column.number if isinstance(column, Moment) else column
    if key is None or not isinstance(column, Number | Moment) or not isinstance(number, Number) or not number.gaps:
        return column
    assert number.lattice is not None, "gaps are those of a lattice"
    if isinstance(key, Lookup):
        texts = next(one for one in _carried(table, schema) if one.name == key.by)
        places = texts.places if key.first is None else _begun(texts, key.first).places
    else:
        places = value_places(codes_of(table, schema.encoded[schema.modelled.index(key)]))
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
    keys = _Digests(table, schema, some)
    for one in schema.lookups:
        place = schema.modelled.index(one.name)
        told[:, place] = keys.said(one)
    return told


def answering_keys(table: Table, schema: Schema, rows: Bools) -> list[str]:
    """The carried columns whose keys say something of some rows [N] of a table, in the order of the lookups."""
    some = np.flatnonzero(rows)
    if not schema.lookups or not len(some):
        return []
    keys = _Digests(table, schema, some)
    return list(dict.fromkeys(one.by for one in schema.lookups if not np.isnan(keys.said(one)).all()))


def unlike_keys(table: Table, schema: Schema) -> list[int]:
    """Of each lookup of a schema, in how many rows of a table the cell is observed and is not what the key says."""
    return [int(off.sum()) for off in rows_unlike_keys(table, schema)]


def rows_unlike_keys(table: Table, schema: Schema) -> Iterator[Bools]:
    """Of each lookup of a schema these rows [N]."""
    columns = {column.name: column for column in schema.encoded}
    keys = _Digests(table, schema, np.arange(table.N))
    for one in schema.lookups:
        said, codes = keys.said(one), codes_of(table, columns[one.name])
        yield ~np.isnan(said) & ~np.isnan(codes) & (said != codes)


def said_by_key(table: Table, schema: Schema, one: Lookup, rows: Ints) -> Floats:
    """[n] what a lookup says of some rows [n] of a table; NaN: nothing."""
    return _Digests(table, schema, rows).said(one)


class _Digests:
    """The digests of the cells that some rows [n] of a table have in its carried columns."""

    def __init__(self, table: Table, schema: Schema, rows: Ints) -> None:
        self._table, self._rows = table, rows
        self._columns = {column.name: column for column in schema.encoded}
        self._known: dict[str, tuple[list[str], Ints]] = {}
        self._begun: dict[tuple[str, First | None], tuple[list[str], list[str]]] = {}

    def said(self, one: Lookup) -> Floats:
        """[n] the codes by a lookup; NaN: nothing is said."""
        if one.by not in self._known:
            self._known[one.by] = self._of(one.by)
        texts, places = self._known[one.by]
        if (one.by, one.first) not in self._begun:
            begun = texts if one.first is None else [first_of(text, one.first) or "" for text in texts]
            self._begun[one.by, one.first] = begun, [digest(text) for text in begun]
        begun, digests = self._begun[one.by, one.first]
        codes = one.said(digests)
        if one.same:
            written = [code_of(self._columns[one.name], text) for text in begun]
            codes = np.where(np.isnan(codes), written, codes)
        return np.asarray(np.append(codes, np.nan)[places])

    def _of(self, name: str) -> tuple[list[str], Ints]:
        """The different texts of a column, and which of them each row [n] has (-1: none)."""
        nowhere = np.full(len(self._rows), -1)
        if name not in self._table.names or not (cells := self._table.column(name)).levelled:
            return [], nowhere
        texts, every = cells.distinct
        own = np.where(cells.missing[self._rows], -1, every[self._rows])
        held, at = np.unique(own[own >= 0], return_inverse=True)
        nowhere[own >= 0] = at.reshape(-1)
        return [texts[place] for place in held.tolist()], nowhere


class Settled:
    """What relations say of columns already; `add` one that was found."""

    def __init__(self, relations: Sequence[Relation]) -> None:
        self._coded = {one.names[0] for one in relations if one.coded or one.capped}
        exact = [one for one in relations if not one.slack]
        self._pairs = {frozenset(one.names) for one in exact}
        self._formulas = [one.names for one in exact if not one.coded]
        self._follow: dict[str, set[str]] = {}

    def add(self, relation: Relation) -> None:
        name, key = relation.names
        self._follow.setdefault(key, set()).add(name)

    def settles(self, name: str, key: str) -> bool:
        """Whether a column follows from levels, is another one that is cut off, goes with the key by a formula, or is
        computed from columns that follow from it."""
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
    """The columns that are carried and may be keys."""
    return (key for key in _carried(table, schema) if _may_be_keys(key.places))


def first_keys(table: Table, schema: Schema, codes: Iterable[Floats]) -> Iterator[Key]:
    """What comes first in the texts of columns that are carried, where these begin alike in several rows, and some
    column of `codes` [N] each may follow from that."""
    some = evenly(table.N, FIRST_LOOK)
    known = [value_places(own)[some] for own in codes]
    for texts in _carried(table, schema):
        looked = texts._replace(places=texts.places[some])
        for first in FIRSTS:
            begun = _begun(looked, first).places
            if any(_said_by(begun, own, (begun >= 0) & (own >= 0)) is not None for own in known):
                key = _begun(texts, first)
                if 1 < key.size < texts.size and key.size <= MOST:
                    yield key


def _carried(table: Table, schema: Schema) -> Iterator[Key]:
    """The columns that are carried: ids, whole numbers and names, no measurements."""
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
        used = [texts[place] for place in held.tolist()]
        if column.role == "id" or all(map(str.isdecimal, used)) or not quantities(used):
            yield Key(column.name, places, np.empty(0), used)


def _begun(texts: Key, first: First) -> Key:
    """What comes first in the cells of a column of texts, in their order."""
    used = {place: first_of(texts.texts[place], first) for place in np.unique(texts.places[texts.places >= 0]).tolist()}
    held = sorted({text for text in used.values() if text is not None})
    number = {text: i for i, text in enumerate(held)}
    of = np.full(len(texts.texts) + 1, -1)
    for place, text in used.items():
        of[place] = -1 if text is None else number[text]
    return Key(texts.name, of[texts.places], np.empty(0), held, first, texts.places)


def code_of(column: ModelledColumn, text: str) -> float:
    """The code of a level that is written so, or of a whole number; NaN of what is none."""
    if isinstance(column, Levelled):
        return column.place(text)
    whole = isinstance(column, Number) and column.whole and column.notation is None
    return float(text) if whole and text.isdecimal() else np.nan


def _is_written(key: Key, column: ModelledColumn, codes: Floats, enough: float) -> bool:
    """Whether the cells of a column, with codes [N], are what comes first in those of another one, in so many rows that
    it would be chance by so many nats."""
    written = np.array([*(code_of(column, text) for text in key.texts), np.nan])[key.places]
    both = ~np.isnan(codes) & (key.places >= 0)
    if not both.any() or (written[both] != codes[both]).any():
        return False
    counts = np.unique(codes[both], return_counts=True)[1]
    several = len(_pairs(key, value_places(codes), codes)[0]) > 0
    return several and float(-(counts * np.log(counts / counts.sum())).sum()) >= enough


def _may_be_keys(places: Ints) -> bool:
    """Whether there are several keys, of which many have several rows; places [N]: of each row (-1: none)."""
    counts = np.bincount(places[places >= 0])
    return FEWEST <= len(counts) <= MOST and bool((counts > 1).mean() >= REPEATED)


def is_key(name: str, keys: Sequence[Key]) -> bool:
    """Whether a column is among some that may be keys."""
    return any(key.name == name for key in keys)


def _decided(rows: GroupedRows, keys: Sequence[Key], name: str, own: Ints, enough: float) -> Key | None:
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
        of = _said_by(keys, values, some)
        if of is None:
            return False
    return of is not None and len(np.unique(of[of >= 0])) > 1


def _said_by(keys: Ints, values: Ints, some: Ints | Bools) -> Ints | None:
    """[keys] the value that each key has in some rows (-1: none), by the keys [N] and values [N] of all; None where one
    has several, or there are no rows."""
    own = keys[some]
    if not len(own):
        return None
    of = np.full(int(keys.max()) + 1, -1)
    of[own] = values[some]
    return of if (of[own] == values[some]).all() else None


def evidence_for(rows: GroupedRows, key: Key, name: str, values: Ints) -> float:
    """Nats by which it would be chance that the rows of each key have one value of a column; also where the rows are
    those of groups that another column names, each of which has one key and one value: then it counts groups, not
    rows."""
    counted = values
    if key.whole is not None:  # one row of each text: that all of its rows are alike says nothing of how texts begin
        held = np.flatnonzero((key.places >= 0) & (values >= 0))
        counted, one = np.full(len(values), -1), held[np.unique(key.whole[held], return_index=True)[1]]
        counted[one] = values[one]
    found = [nats_of(key.places, counted, ordered=key.ordered)]
    for keys, own in rows.by_groups((key.label, key.places), (name, values)):
        if len(np.unique(keys)) < len(keys):  # else the groups are the keys by other names
            found.append(_surprise(keys, own, ordered=key.ordered))
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
