"""What holds in nearly every row, where some cell may be wrong: cells of the few rows that contradict it are set apart,
what fills keep to is looked for without them, and the rows are named."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np

from vgi_cli.columns.comparisons import Comparison
from vgi_cli.columns.lookups import Lookup
from vgi_cli.columns.numerals import Bools, Floats, Ints, value_places
from vgi_cli.columns.orders import Order
from vgi_cli.columns.relations import Relation
from vgi_cli.columns.schema import Schema
from vgi_cli.columns.skips import Skip
from vgi_cli.encoding.codes import without_codes
from vgi_cli.encoding.comparisons import breaking_rows
from vgi_cli.encoding.exceptions import (
    SHARE,
    Excepted,
    excepted_among,
    mended_words,
    most_of,
    parts_of,
    speak_for,
    spelled,
)
from vgi_cli.encoding.independence import GroupedRows
from vgi_cli.encoding.key_exceptions import ExceptedKey, excepted_keys, explained_by_another
from vgi_cli.encoding.keys import Key, rows_unlike_keys, said_by_key
from vgi_cli.encoding.orders import crossing_rows
from vgi_cli.encoding.redundant import codes_of, rule_words
from vgi_cli.encoding.relations import departing_rows, enough
from vgi_cli.encoding.skips import most_beside_skips, rows_beside_skips, skip_exceptions
from vgi_cli.table.base import Table
from vgi_cli.table.some_rows import SomeRows

Kept: TypeAlias = Relation | Lookup | Order | Skip | Comparison
T = TypeVar("T", Relation, Lookup, Order, Skip, Comparison)
AS_NEAR = 20
"""Rows for each that is out of order, or in another band, that lie between it and where it should be, fewest."""
AGAIN = 0.001
"""Share of the rows with a key that may be wrong in the same way."""
FEWEST_ALIKE = 2
"""Rows that contradict something and have one cell of a third column in common, fewest, for that to be why."""


class _Against(NamedTuple):
    """What a schema says, and where [N] rows of a table that have all cells of it contradict it, of so many."""

    kept: Kept
    names: tuple[str, ...]
    off: Bools
    of: int

    @property
    def few(self) -> bool:
        """Whether these are so few that a cell of each may be wrong."""
        most = most_beside_skips(self.of) if isinstance(self.kept, Skip) else most_of(self.of)
        return 0 < int(self.off.sum()) <= most


class Exceptions(NamedTuple):
    """What a few rows of a table contradict.

    computed  numbers that are computed from others in all rows but these
    keys      what follows from keys in all rows but these
    clean     the table with the cells missing in which rows contradict that, and whatever else nearly all keep to; the
              table itself where there are none
    """

    computed: list[Excepted]
    keys: list[ExceptedKey]
    clean: Table

    def left(self, schema: Schema) -> tuple[list[Excepted], list[ExceptedKey]]:
        """Those that fills do not keep to by a schema."""
        kept = {one.names[0] for one in schema.relations}
        computed = [one for one in self.computed if one.relation.names[0] not in kept]
        kept |= {one.relation.names[0] for one in computed} | {one.name for one in schema.lookups}
        return computed, [one for one in self.keys if one.name not in kept]


def exceptions_among(table: Table, schema: Schema, search: Callable[[Table], Schema] | None = None) -> Exceptions:
    """What a few rows contradict, and a schema, and what `search` finds in a part of the rows, do not say yet.

    Rows are dealt to several parts, of which one has none of these rows where they are few. What is found there is no
    chance, and was not chosen by which rows are left out."""
    computed = excepted_among(table, schema)
    found = Exceptions(computed, excepted_keys(table, schema, [one.relation.names[0] for one in computed]), table)
    apart: dict[str, Bools] = {}

    def set_apart(names: Sequence[str], rows: Bools) -> None:
        for name in names:
            apart[name] = apart.get(name, np.zeros(table.N, bool)) | rows

    for one in _in_parts(table, schema, search) if search is not None else ():
        set_apart(one.names, one.off)
    for name, other, rows in skip_exceptions(table, schema):
        set_apart([name, other], rows)
    for excepted in found.computed:
        if not excepted.near:
            set_apart(excepted.relation.names, np.isin(np.arange(table.N), excepted.rows))
    for key in found.keys:
        set_apart([key.name], np.isin(np.arange(table.N), [row for row, *_ in key.cells]))
    return found._replace(clean=table.without(apart)) if apart else found


def _in_parts(table: Table, schema: Schema, search: Callable[[Table], Schema]) -> list[_Against]:
    """What is found in a part of the rows, and few of all contradict."""
    known = {_what(one) for one in _all(schema)}
    codes = {column.name: codes_of(table, column) for column in schema.encoded}
    fewest: dict[Hashable, _Against] = {}
    bare = without_codes(table, schema)  # a code is no part of what holds
    for rows in parts_of(table.N):
        found = search(SomeRows(bare, rows))
        bands = tuple(_with_best_cuts(one, codes) for one in found.relations)
        for one in _against(table, replace(found, relations=bands)):
            what = _what(one.kept)
            if what not in known and (what not in fewest or one.off.sum() < fewest[what].off.sum()):
                fewest[what] = one
    every = GroupedRows(table, schema, np.arange(table.N), codes)
    return [one for one in fewest.values() if _no_chance(every, one)]


def counted(table: Table, schema: Schema) -> Schema:
    """A schema that was found without some cells of a table, with how many rows contradict each thing that it says; but
    for what more than a few do."""
    against = {id(one.kept): one for one in _against(table, schema)}

    def those(kept: Sequence[T]) -> tuple[T, ...]:
        counts = ((one, against.get(id(one))) for one in kept)
        return tuple(
            one if found is None else replace(one, but=int(found.off.sum()))
            for one, found in counts
            if found is None or found.few
        )

    return replace(
        schema,
        relations=those(schema.relations),
        lookups=those(schema.lookups),
        orders=those(schema.orders),
        skips=those(schema.skips),
        comparisons=those(schema.comparisons),
    )


def nearly_words(table: Table, schema: Schema) -> list[str]:
    """A line on each thing that a schema says and a few rows of its table contradict, with these rows."""
    if not any(one.but for one in _all(schema)):
        return []
    return [_words(one, table, schema) for one in _against(table, schema)]


def _all(schema: Schema) -> Iterator[Kept]:
    yield from itertools.chain(schema.relations, schema.lookups, schema.orders, schema.skips, schema.comparisons)


def _names(one: Kept) -> tuple[str, ...]:
    """The modelled columns that something is said of."""
    match one:
        case Lookup():
            return (one.name,)
        case Order():
            return one.low, one.high
        case Skip():
            return one.name, *one.others
        case _:
            return one.names


def _what(one: Kept) -> Hashable:
    """What tells apart things that are said of the same columns: that a date is so many months after another one, to
    the day, is more than that so many lie between them."""
    return type(one), _names(one), isinstance(one, Relation) and (one.ends is not None, one.capped)


def _with_best_cuts(one: Relation, codes: Mapping[str, Floats]) -> Relation:
    """Bands of a part of the rows with the cuts that most of all rows (codes [N] by name) keep to; other relations as
    they are."""
    if one.how != "bands" or one.until is not None or None in one.codes:
        return one
    first, second = (codes[name] for name in one.names)
    cuts = []
    for (low, high), cut in zip(itertools.pairwise(one.coding), one.cuts, strict=True):
        below, above = np.sort(second[first == low]), np.sort(second[first == high])
        able = np.append(above[np.isfinite(above)], cut)
        wrong = (len(below) - np.searchsorted(below, able)) + np.searchsorted(above, able)
        cuts.append(float(able[wrong.argmin()]))
    return replace(one, cuts=tuple(cuts)) if cuts == sorted(set(cuts)) else one


def _against(table: Table, schema: Schema) -> Iterator[_Against]:
    """What a schema says that some rows of a table contradict."""
    codes = {column.name: codes_of(table, column) for column in schema.encoded}
    flags = itertools.chain(
        departing_rows(table, schema),
        rows_unlike_keys(table, schema),
        crossing_rows(table, schema),
        rows_beside_skips(table, schema),
        breaking_rows(table, schema),
    )
    for one, off in zip(_all(schema), flags, strict=True):
        if off.any():
            names = _names(one)
            held = np.logical_and.reduce([~np.isnan(codes[name]) for name in names])
            if isinstance(one, Lookup):
                held &= ~table.missing(one.by)
            if isinstance(one, Skip):
                held = one.excludes(codes[one.name])
            yield _Against(one, names, off, int(held.sum()))


def _no_chance(rows: GroupedRows, one: _Against) -> bool:
    """Whether rows speak for something that a few contradict, these may be wrong, and nothing says why they are not; of
    numbers of which one is computed `excepted_among` asks that, and of what follows from keys `excepted_keys`."""
    kept, codes = one.kept, rows.codes
    if isinstance(kept, Lookup | Skip) or not one.few or _explained(codes, one):
        return False
    cells = np.stack([codes[name] for name in one.names], 1)
    held = ~np.isnan(cells).any(1)
    own, off = cells[held], one.off[held]
    if isinstance(kept, Order):
        return _far_beyond((kept.per[1] * own[:, 1] + kept.shift) - kept.per[0] * own[:, 0])
    if isinstance(kept, Relation):
        computed = kept.how in ("sum", "product", "completed") and not kept.apart and kept.ends is None
        if computed or kept.keys or (kept.how == "bands" and not _far_off(kept, own, off)):
            return False
        if kept.apart and not _far_apart(kept, own[off]):
            return False
    choice = speak_for(own[:, 0], off, len(one.names) * float(np.log(len(codes))))
    if choice is None or not enough(own[~off, 0], len(one.names), choice):
        return False
    if isinstance(kept, Comparison):
        return not _again(kept.signs(own[:, 1], own[:, 2]), own[:, 0], off)
    if not kept.coded:
        return True
    if len(one.names) == 2:
        key = Key(one.names[1], value_places(cells[:, 1]), np.unique(own[:, 1]), ())
        if explained_by_another(rows, key, one.names[0], value_places(cells[:, 0]), one.off):
            return False
    return not _again(np.unique(own[:, 1:], axis=0, return_inverse=True)[1].reshape(-1), own[:, 0], off)


def _far_beyond(apart: Floats) -> bool:
    """Whether cells that are in order in all rows but a few, by how far they are apart [n], are so by an edge, and not
    as few lie in the tail of what is mostly greater: many more lie as near to it on its other side, and what is out of
    order is rare among what is not equal too."""
    off = apart < 0
    near = (apart > 0) & (apart <= np.median(-apart[off]))
    return bool(off.sum() <= max(1, SHARE * (apart != 0).sum()) and near.sum() >= AS_NEAR * off.sum())


def _far_off(bands: Relation, cells: Floats, off: Bools) -> bool:
    """Whether rows of bands that are off are so by more than what blurs the cuts: many rows lie between each of them
    and the band of its level. Cells [n, 2], off [n]."""
    edges, x = np.array([-np.inf, *bands.cuts, np.inf]), np.sort(cells[:, 1])
    same = bands.coding[None, :] == cells[off, :1]
    place, no_band = same.argmax(1), ~same.any(1)
    values, low, high = cells[off, 1], edges[place], edges[place + 1]
    below = np.searchsorted(x, low) - np.searchsorted(x, values)
    above = np.searchsorted(x, values, side="right") - np.searchsorted(x, high)
    return bool((no_band | (np.where(values < low, below, above) >= AS_NEAR * off.sum())).all())


def _far_apart(relation: Relation, cells: Floats) -> bool:
    """Whether two columns that differ by a few values alone differ by something else in rows with cells [n, 2], and not
    by the next one: farther from those that were seen than these are from each other."""
    seen = np.array(relation.apart)
    left = np.abs((cells @ np.array(relation.weights))[:, None] - seen).min(1)
    return bool((left > np.ptp(seen)).all())


def _again(keys: Ints, values: Floats, off: Bools) -> bool:
    """Whether rows that are off [n] have the same value [n] beside one key [n] again, and not in hardly any of the rows
    with that key: no cell is wrong in the same way again and again."""
    of = np.bincount(keys - keys.min())
    pairs, counts = np.unique(np.stack([keys[off], values[off]]), axis=1, return_counts=True)
    most = np.maximum(1, AGAIN * of[pairs[0].astype(int) - keys.min()])
    return bool((counts > most).any())


def _explained(codes: Mapping[str, Floats], one: _Against) -> bool:
    """Whether a third column says why rows contradict something: all that have a cell there have the same one, which
    hardly any other row has (a total that is 0 in what was cancelled)."""
    for name, own in codes.items():
        cells = own[one.off & ~np.isnan(own)]
        if name not in one.names and len(cells) >= FEWEST_ALIKE and (cells == cells[0]).all():
            others = (own == cells[0]) & ~one.off
            for held in (codes[other] for other in one.names):
                others &= ~np.isnan(held)
            if others.sum() <= len(cells):
                return True
    return False


def _words(one: _Against, table: Table, schema: Schema) -> str:
    """`'total' = 'a' + 'b', in 389 of the 390 rows that have all of these, but not in row 18 ('total' is 61.45, not
    54.14): fills keep to this; ...`."""
    columns = {column.name: column for column in schema.encoded}
    codes = [codes_of(table, columns[name]) for name in one.names]
    rows, keys = np.flatnonzero(one.off), _keys(one, table, codes)
    by_key = said_by_key(table, schema, one.kept, rows) if isinstance(one.kept, Lookup) else np.full(len(rows), np.nan)
    cells = np.stack([own[rows] for own in codes], 1)
    where = []
    for row, own, said in zip(rows.tolist(), cells, _said(one.kept, cells, by_key).tolist(), strict=True):
        texts = {
            name: columns[name].spell(np.array([code]), None)[0]
            for name, code in zip(one.names, own, strict=True)
            if not np.isnan(code)
        }
        shown = ", ".join(f"'{name}' is {text}" for name, text in texts.items())
        if np.isfinite(said):
            other = spelled(columns[one.names[0]], said)
            beside = np.flatnonzero((keys == keys[row]) & ~one.off & ~np.isnan(codes[0]))
            there = f"and {other} in row {int(beside[0]) + 1:,}" if len(beside) == 1 else f"not {other}"
            shown = f"'{one.names[0]}' is {texts[one.names[0]]}, {there}"
        where.append(f"row {row + 1:,} ({shown})")
    what = one.kept.words() if isinstance(one.kept, Lookup) else rule_words(one.kept, schema)
    held = "both" if isinstance(one.kept, Lookup) or len(one.names) == 2 else "all of these"
    if isinstance(one.kept, Skip):
        held = f"'{columns[one.kept.name].spell(np.array([float(one.kept.level)]), None)[0]}'"
    return mended_words(what, held, where, one.of, kept=True)


def _keys(one: _Against, table: Table, codes: Sequence[Floats]) -> Floats:
    """[N] the keys of what follows from such, by which the rows are found that say what another one should be; NaN of
    anything else."""
    kept = one.kept
    if isinstance(kept, Lookup) and kept.first is None:
        return table.column(kept.by).distinct.places.astype(np.float64)
    return codes[1] if isinstance(kept, Relation) and kept.keys else np.full(table.N, np.nan)


def _said(one: Kept, cells: Floats, by_key: Floats) -> Floats:
    """[n] what the first column of something should be by the others of cells [n, columns], or by keys [n]; NaN: that
    is not one value."""
    match one:
        case Lookup():
            return by_key
        case Order() | Skip():
            return np.full(len(cells), np.nan)
        case Comparison():
            return one.said(cells[:, 1], cells[:, 2])
    if one.how == "completed":
        return one.completed(cells)
    return one.said_in(cells) if one.coded else one.solved(cells, 0, cells[:, 0])
