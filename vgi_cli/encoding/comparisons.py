"""Columns of few levels that say which of two others is greater (on time, over the budget, who won a match): found in a
table that is fitted, and kept by fills.

A model knows that such a level goes with both columns, and draws some rows near the border on its other side.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np

from vgi_cli.columns.base import ModelledColumn
from vgi_cli.columns.clock import DAY
from vgi_cli.columns.comparisons import NOISE, Comparison, day_of, signs_of
from vgi_cli.columns.levelled import Levelled
from vgi_cli.columns.number import Number
from vgi_cli.columns.numerals import Bools, Floats, Ints, value_places
from vgi_cli.columns.places import evenly
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.independence import GroupedRows
from vgi_cli.encoding.redundant import FIRST_LOOK, as_number, codes_of, days_and_times, shift_between
from vgi_cli.table.base import Table

LEVELS = (2, 3)
"""Levels of a column, or different numbers, fewest and most, that may say which of two others is greater."""
LOOK = 100
"""Rows of each level by which most pairs of columns are found not to be compared, evenly spread."""
ENOUGH = 20.0
"""Nats by which rows must speak for a comparison, beyond what the choice of three columns explains."""
NEAREST = 11
"""Rows with the nearest numbers of one column by which it is asked what level a row would have by that column alone."""


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
    numbers = [column for column in columns.values() if as_number(column) is not None]
    kinds = [*_kinds(numbers, codes), *_days(numbers, codes)]
    choice = len(flags) * sum(len(kind.shifts) * (len(kind.shifts) - 1) // 2 for kind in kinds)
    enough = ENOUGH + float(np.log(max(choice, 1)))
    rows = GroupedRows(table, schema, np.arange(table.N), codes)
    found: list[Comparison] = []
    for flag, places in flags.items():
        compared: list[tuple[int, Comparison]] = []
        for kind, first, second in _may_compare(flag, places, kinds):
            one = _compared((flag, first, second), codes[flag], kind)
            if one is None:
                continue
            own = np.where(np.isnan(one.said(codes[one.first], codes[one.second])), -1, places)
            if _nats(own, codes[first], codes[second]) >= enough:
                states = (flag, own), *((name, value_places(codes[name])) for name in (first, second))
                if all(_nats(*group) >= enough for group in rows.by_groups(*states)):
                    compared.append((-int((own >= 0).sum()), one))
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


class _Kind(NamedTuple):
    """Columns that may be compared.

    shifts  by name by how much later than the first one's their origins are
    codes   by name [N] what is compared of them
    begins  by the names of times, whose days are compared with dates, `shift` of a Comparison; none: there are none
    """

    shifts: Mapping[str, float]
    codes: Mapping[str, Floats]
    begins: Mapping[str, float] = {}

    def able(self, first: str, second: str) -> bool:
        """Whether these two may be compared: two times, or two dates, are not as such."""
        return not self.begins or (first in self.begins) != (second in self.begins)


def _kinds(columns: Sequence[ModelledColumn], codes: Mapping[str, Floats]) -> list[_Kind]:
    """Columns of numbers, or of moments, by codes [N]. Numbers of other units count other things."""
    kinds: list[tuple[ModelledColumn, dict[str, float]]] = []
    for column in columns:
        for first, own in kinds:
            shift = shift_between(first, column)
            if shift is not None and _unit(first) == _unit(column):
                own[column.name] = shift
                break
        else:
            kinds.append((column, {column.name: 0.0}))
    return [_Kind(own, codes) for _, own in kinds if len(own) > 1]


def _days(columns: Sequence[ModelledColumn], codes: Mapping[str, Floats]) -> Iterator[_Kind]:
    """Each column of dates with those of times, whose days are compared with it, by codes [N]."""
    for date in columns:
        begins = {
            time.name: between[1]
            for time in columns
            if (between := days_and_times(date, time)) is not None and between[0][0] == DAY
        }
        if begins:
            days = {name: day_of(codes[name] + begin) for name, begin in begins.items()}
            yield _Kind(dict.fromkeys([date.name, *begins], 0.0), {date.name: codes[date.name], **days}, begins)


def _unit(column: ModelledColumn) -> tuple[str, str]:
    """What is written before and after the numbers of a column."""
    notation = column.notation if isinstance(column, Number) else None
    return ("", "") if notation is None else (notation.prefix.strip(), notation.suffix.strip())


def _may_compare(flag: str, places: Ints, kinds: Sequence[_Kind]) -> Iterator[tuple[_Kind, str, str]]:
    """Which pairs of columns of a kind may say what a flag is, as far as some rows of each of its levels (their numbers
    `places` [N]) tell, of which those of two have both."""
    of = [np.flatnonzero(places == level) for level in range(int(places.max()) + 1)]
    some = [rows[evenly(len(rows), LOOK)] for rows in of]
    for kind in kinds:
        names = [name for name in kind.shifts if name != flag]
        above, both = np.zeros((2, len(some), len(names), len(names)), bool)
        for level, rows in enumerate(some):
            own = [kind.codes[name][rows] + kind.shifts[name] for name in names]
            values = np.stack(own, 1) if names else np.zeros((0, 0))
            over = values + 2 * NOISE * np.abs(values)
            above[level] = (values[:, :, None] > over[:, None, :]).any(0)
            known = (~np.isnan(values)).astype(np.float32)
            both[level] = known.T @ known > 0
        able, unequal = above.sum(0) <= 1, above.any(0)
        able &= able.T & (unequal | unequal.T) & (both.sum(0) >= LEVELS[0])
        for i, j in np.argwhere(np.triu(able, 1)).tolist():
            if kind.able(names[i], names[j]):
                yield kind, names[i], names[j]


def _compared(names: tuple[str, str, str], codes: Floats, kind: _Kind) -> Comparison | None:
    """What a flag (codes [N]) says of two columns of a kind, by their `names`; None where a sign of the difference that
    is not zero goes with several levels, or all go with one. Of two levels the later column is named first (what was
    spent, beside a budget)."""
    flag, first, second = names
    shift = kind.shifts[second] - kind.shifts[first]
    signs = signs_of(kind.codes[first], kind.codes[second] + shift)
    levels = [np.unique(codes[(signs == sign) & ~np.isnan(codes)]) for sign in range(3)]
    if max(len(levels[0]), len(levels[2])) > 1:
        return None
    below, equal, above = (float(own[0]) if len(own) == 1 else None for own in levels)
    said = {below, equal, above}
    if len(said - {None}) < LEVELS[0]:
        return None
    if len(said - {None}) == LEVELS[0]:
        first, second, below, above, shift = second, first, above, below, -shift
    if not kind.begins:
        return Comparison(flag, first, second, (below, equal, above), shift)
    days: Literal["first", "second"] = "first" if first in kind.begins else "second"
    return Comparison(
        flag, first, second, (below, equal, above), kind.begins[first if days == "first" else second], days
    )


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
    return [int(off.sum()) for off in breaking_rows(table, schema)]


def breaking_rows(table: Table, schema: Schema) -> Iterator[Bools]:
    """Of each comparison of a schema these rows [N]."""
    columns = {column.name: column for column in schema.encoded}
    for one in schema.comparisons:
        yield one.excludes(*(codes_of(table, columns[name]) for name in one.names))


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
