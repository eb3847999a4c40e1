"""What follows from a key in all rows but a few, in which some cell may be wrong: these rows are named, so that it can
be mended."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from vgi_cli.columns.numerals import Bools, Ints, value_places
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.exceptions import FEWEST, mended_words, most_of, speak_for, spelled
from vgi_cli.encoding.independence import GroupedRows
from vgi_cli.encoding.keys import (
    FIRST_LOOK,
    Key,
    Settled,
    carried_keys,
    decides,
    evidence_for,
    is_key,
    nats_of,
    number_keys,
)
from vgi_cli.encoding.redundant import codes_of, looked_for
from vgi_cli.encoding.relations import ENOUGH
from vgi_cli.table.base import Table


class ExceptedKey(NamedTuple):
    """A column that follows from a key in all rows of a table but a few.

    name   of the column
    by     name of the column of keys
    cells  in which rows it does not, each with the code there, the one in most rows of the key, and the single row
           that has that one; None: several have
    of     how many rows have both
    """

    name: str
    by: str
    cells: tuple[tuple[int, float, float, int | None], ...]
    of: int


def excepted_keys(table: Table, schema: Schema, settled: Collection[str] = ()) -> list[ExceptedKey]:
    """What follows from keys in all rows but a few, of columns of which neither fills keep to another relation nor
    something else is said (`settled`); of each one at most, in the order of the table."""
    if not looked_for(table, schema):
        return []
    numbers, texts = list(number_keys(table, schema)), list(carried_keys(table, schema))
    if not numbers and not texts:
        return []
    codes = {column.name: codes_of(table, column) for column in schema.encoded}
    rows = GroupedRows(table, schema, np.arange(table.N), codes)
    said = Settled([one for one in schema.relations if not one.keys])
    back = {one.names for one in schema.relations if one.keys}
    done = {*settled, *(one.names[0] for one in schema.relations), *(one.name for one in schema.lookups)}
    before: set[str] = set()
    found: list[ExceptedKey] = []
    for column in schema.encoded:
        name, own = column.name, value_places(codes[column.name])
        before.add(name)
        if column.pooled or own.max() <= 0 or name in done:
            continue
        able = [key for key in numbers if key.name != name and not said.settles(name, key.name)]
        # of two columns that go one to one the later one follows from the earlier one
        able = [
            key
            for key in able
            if key.name in before or not (is_key(name, numbers) and _off(own, key.places) is not None)
        ]
        for key in sorted([*able, *texts], key=lambda key: key.size):
            off = _off(key.places, own)
            if off is None or not _sure(rows, key, name, own, off, len(schema.columns)):
                continue
            if _again(key.places, own, off) or explained_by_another(rows, key, name, own, off.where):
                continue
            if (key.name, name) in back and (np.bincount(own[own >= 0])[own[off.where]] > 1).any():
                continue  # the key follows from the column, of which a value has a key of its own
            at, values = np.flatnonzero(off.where), np.full(int(own.max()) + 1, np.nan)
            values[own[own >= 0]] = codes[name][own >= 0]
            beside = [np.flatnonzero((key.places == key.places[row]) & (own == off.said[row])) for row in at]
            single = [int(one[0]) if len(one) == 1 else None for one in beside]
            told = values[off.said[at]].tolist()
            cells = tuple(zip(at.tolist(), codes[name][at].tolist(), told, single, strict=True))
            found.append(ExceptedKey(name, key.name, cells, off.of))
            break
    return found


def excepted_key_words(found: Sequence[ExceptedKey], schema: Schema) -> list[str]:
    """A line on each, with its rows: `'capacity' follows from 'plant', in 319 of the 320 rows that have both, but not
    in row 18 ('capacity' is 1078, not 1071): ...`."""
    lines = []
    for one in found:
        column = schema.encoded[schema.modelled.index(one.name)]
        where = []
        for row, own, other, beside in one.cells:
            said = spelled(column, other)
            there = f"not {said}" if beside is None else f"and {said} in row {beside + 1:,}"
            where.append(f"row {row + 1:,} ('{one.name}' is {spelled(column, own)}, {there})")
        lines.append(mended_words(f"'{one.name}' follows from '{one.by}'", "both", where, one.of))
    return lines


class _Off(NamedTuple):
    """Where [N] rows do not have the value that most rows of their key have (`said` [N]; of equally many, that of the
    first row), of so many with both."""

    where: Bools
    said: Ints
    of: int


def _off(keys: Ints, values: Ints) -> _Off | None:
    """Where the values [N] of rows are not those of their keys [N] (-1: none); None where these are none or more than a
    few."""
    both = np.flatnonzero((keys >= 0) & (values >= 0))
    if len(both) < FEWEST:
        return None
    size, most, of = int(values.max()) + 1, most_of(len(both)), np.full(int(keys.max()) + 1, -1)
    for some in (both[:FIRST_LOOK], both):
        pairs, first, counts = np.unique(keys[some] * size + values[some], return_index=True, return_counts=True)
        order = np.lexsort((-first, counts))  # the last one of each key is taken
        of[pairs[order] // size] = pairs[order] % size
        if (of[keys[some]] != values[some]).sum() > most:
            return None
    said = np.where(keys >= 0, of[keys], -1)
    where = (keys >= 0) & (values >= 0) & (values != said)
    return _Off(where, said, len(both)) if where.any() else None


def _again(keys: Ints, values: Ints, off: _Off) -> bool:
    """Whether several rows of a key that are off have the same value [N], as well as those that are not: no cell is
    wrong in the same way again and again."""
    at = np.flatnonzero(off.where)
    return bool((np.unique(np.stack([keys[at], values[at]]), axis=1, return_counts=True)[1] > 1).any())


def explained_by_another(rows: GroupedRows, key: Key, name: str, own: Ints, off: Bools) -> bool:
    """Whether a third column says that the rows which are `off` [N] are right: the key follows from it and the column,
    with the values own [N], in all rows, but not from the column alone, and these rows have another cell there than the
    others of their keys (a pay of two grades, in another step of each)."""
    at = np.flatnonzero(off)
    clean = np.where(off, -1, own)
    if not np.isin(own[at], clean).all() or decides(clean, key.places):
        return False
    enough = ENOUGH + 3 * float(np.log(len(rows.codes)))
    for other, codes in rows.codes.items():
        third = value_places(codes)
        if other in (name, key.name) or third.max() <= 0:
            continue
        beside = {(k, z) for k, z, v in zip(key.places.tolist(), third.tolist(), clean.tolist(), strict=True) if v >= 0}
        known = at[third[at] >= 0].tolist()
        if not known or any((int(key.places[row]), int(third[row])) in beside for row in known):
            continue
        both = value_places(np.where((own >= 0) & (third >= 0), own * (third.max() + 1) + third, np.nan))
        if decides(both, key.places) and nats_of(both, key.places) >= enough:
            return True
    return False


def _sure(rows: GroupedRows, key: Key, name: str, values: Ints, off: _Off, columns: int) -> bool:
    """Whether the rows speak for what follows from a key in all of them but those that are off, which might be any."""
    both = (key.places >= 0) & (values >= 0)
    choice = speak_for(values[both], off.where[both], 2 * float(np.log(columns)))
    if choice is None:
        return False
    clean = np.where(off.where, -1, values)
    return evidence_for(rows, key, name, clean) >= ENOUGH + choice
