"""Columns that may not be what they look like: numbers read as text, codes for missing read as numbers, slips of a pen;
rows that may be none.

Nothing here changes how a table is read: these are lines for the user, with the flag that would change it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from vgi_cli.columns.base import Column
from vgi_cli.columns.datetime import Moment
from vgi_cli.columns.levelled import Levelled
from vgi_cli.columns.number import Number
from vgi_cli.columns.numerals import Floats, plain
from vgi_cli.columns.schema import Schema
from vgi_cli.columns.wording import (
    COMMA,
    are,
    capped,
    first_cell,
    kind_flag,
    made_missing,
    named,
    typed,
)
from vgi_cli.encoding.texts import UNKNOWN, text_doubts, thousands
from vgi_cli.encoding.totals import totals
from vgi_cli.table.base import Table

FEWEST = 10
"""Fewest other values beside which one can be far away, and fewest from which a column is learnt."""
MOST_KEYED, SO_MANY = 1_000_000, 2
"""Rows up to which it is looked whether their ids repeat, and how many rows with the same ones are many."""
FEWEST_ROWS = 20
"""Fewest rows that a column can be said to number."""
NINES_AWAY, CODE_AWAY, ONE_AWAY = 0.5, 3.0, 100.0
"""How far from the other values, in units of their range, is far: for 99, -999 and the like that occur more than once;
for other values that do; for a value that occurs once."""
NINES = re.compile(r"-?9{2,}")
NEGATIVE = re.compile(r"-(?:[1-9]|77+|88+|99+|9[678])")
"""Codes of surveys for cells without an answer: -1, -9, -77, -88, -99, -97."""
FEWEST_CODED, SO_OFTEN, SO_LARGE = 3, 3.0, 4.0
"""A negative value may be such a code where so many cells hold it, and it is far away as 99 is, or so many times the
cells of a usual value hold it and the largest value is so many times its size."""
FAR, BELOW = "far from all other values", "negative, unlike all other values"
FEWEST_SKIPPED, ASKED = 10, 0.5
"""Rows of a level, all without a cell of another column, and the share of the other rows that have one, from which on
that column may be one that does not apply there."""
MOST_GROUPS = 20
"""Levels of a column that may tell where another one applies."""
KEY = re.compile(r"(?:(?:^|[\W_])(?i:id|key|code|nr|no|number)|[a-z](?:ID|Id|Key|Code|Nr|No|Number))$")
"""What the name of a key ends with: `id`, `patient_id`, `PatientID`, but not `humid`."""
SCALE = (3, 10)
"""Fewest and most whole numbers of a scale."""
MOST_CODES = 3
"""Distinct values at either end of a column that may be far from the others."""


def suspects(table: Table, schema: Schema, said: Collection[str] = ()) -> list[str]:
    """One line for each doubt. `said`: columns whose kind the user named."""
    unnamed = [column for column in schema.columns if column.role == "data" and column.name not in said]
    doubts = thousands(table, unnamed) + text_doubts(table, unnamed)
    doubts += capped(_missing_levels(table, schema)) + _scales(table, unnamed) + _unordered(table, unnamed)
    keys = _counters(table, schema, said) + _keys(table, schema, said)
    return (
        doubts
        + totals(table, schema)
        + keys
        + repeated(table, schema)
        + _scarce(table, schema)
        + _skipped(table, schema)
        + _far_away(table, schema)
    )


def _missing_levels(table: Table, schema: Schema) -> list[str]:
    """Levels that may stand for missing cells."""
    lines = []
    for column in schema.encoded:
        levels = column.levels if isinstance(column, Levelled) else ()
        negative = [level for level in levels if level.startswith("-")]
        others = [level for level in levels if level not in negative]
        coded = len(others) > 1 and all(map(COMMA.fullmatch, others)) and all(map(NEGATIVE.fullmatch, negative))
        for code, level in enumerate(levels):
            if level.casefold() in UNKNOWN or NINES.fullmatch(level) or (coded and level in negative):
                count = int((column.codes(table.column(column.name)) == code).sum())
                if count:
                    lines.append(
                        f"'{level}' ({count} cell{'s' * (count != 1)}) is a level of column '{column.name}': "
                        f"{made_missing(table.column(column.name), level)} if it means missing"
                    )
    return lines


def _scales(table: Table, columns: Sequence[Column]) -> list[str]:
    """Whole numbers that look like a scale, and are modelled as quantities."""
    names = []
    for column in columns:
        if isinstance(column, Number) and column.whole and not column.levels:
            ends = {bound.why for bound in column.bounds}
            held = len(np.unique(column.codes(table.column(column.name))[~table.missing(column.name)]))
            if len(column.bounds) == 2 and ends == {"few"} and SCALE[0] <= held <= SCALE[1]:
                names.append(column.name)
    if not names:
        return []
    are_scales = "is a scale" if len(names) == 1 else "are scales"
    flag = f"`{kind_flag(names[0], 'ordinal')}`"
    what = f"{named('column', names)} of few whole numbers {are(names)} modelled as "
    quantities = "a quantity" if len(names) == 1 else "quantities"
    return [f"{what}{quantities}: {flag} if {'it ' if len(names) == 1 else 'they '}{are_scales}"]


def _unordered(table: Table, columns: Sequence[Column]) -> list[str]:
    """Categories that are numbers, and have an order that the file does not keep."""
    names = [c.name for c in columns if isinstance(c, Levelled) and not c.ordered and table.scale(c.name) == ()]
    if not names:
        return []
    what = "an order that the file does not keep: taken for categories without one"
    return [
        f"{named('column', names)} {'has' if len(names) == 1 else 'have'} {what}; "
        f"`{kind_flag(names[0], 'ordinal')}` orders the numbers by size"
    ]


def _counters(table: Table, schema: Schema, said: Collection[str]) -> list[str]:
    """Columns that number the rows: keys that would be modelled as quantities."""
    names = [
        column.name
        for column in schema.encoded
        if isinstance(column, Number)
        and column.whole
        and column.name not in said
        and _counts(column.codes(table.column(column.name)))
    ]
    if not names:
        return []
    its, flags = ("its", "it is a key") if len(names) == 1 else ("their", "they are keys")
    rule = f"`{typed('--id', names[0])}` or `{typed('--exclude', names[0])}` if {flags}"
    return [f"{named('column', names)} {are(names)} modelled, but {its} values number the rows: {rule}"]


def repeated(table: Table, schema: Schema) -> list[str]:
    """A line where rows share their ids: visits of one patient, say."""
    ids = [table.column(name) for name in schema.ids if name in table.names]
    if not ids or not FEWEST_ROWS <= table.N <= MOST_KEYED or not all(cells.levelled for cells in ids):
        return []
    keys = len(np.unique(np.stack([cells.distinct[1] for cells in ids], 1), axis=0))
    if SO_MANY * keys > table.N:
        return []
    return [
        f"{table.N:,} rows have {keys:,} different values of {named('column', schema.ids)} (--id): what rows of one "
        "have in common is not modelled, each is filled as if by itself; a table with one row for each and its cells "
        "side by side keeps it"
    ]


def _keys(table: Table, schema: Schema, said: Collection[str]) -> list[str]:
    """Columns of whole numbers that are called a key, and hold no value twice (those that number the rows aside)."""
    lines = []
    for column in schema.encoded:
        if isinstance(column, Number) and column.whole and column.name not in said and KEY.search(column.name):
            values = column.codes(table.column(column.name))
            observed = values[~np.isnan(values)]
            if len(observed) >= FEWEST_ROWS and len(np.unique(observed)) == len(observed) and not _counts(values):
                rule = f"`{typed('--id', column.name)}` or `{typed('--exclude', column.name)}` if it is one"
                what = "is modelled, but it has the name of a key, and no value twice"
                lines.append(f"column '{column.name}' {what}: {rule}")
    return capped(lines)


def _counts(values: Floats) -> bool:
    return len(values) >= FEWEST_ROWS and bool((np.diff(values) == 1).all())


def _scarce(table: Table, schema: Schema) -> list[str]:
    """Columns of which next to nothing is known."""
    counts = {column.name: int((~table.missing(column.name)).sum()) for column in schema.encoded}
    names = [name for name, count in counts.items() if count < FEWEST and 2 * count < table.N]
    if not names:
        return []
    have = "has" if len(names) == 1 else "have"
    return [f"{named('column', names)} {have} fewer than {FEWEST} values: the fills rest on very little"]


class _Far(NamedTuple):
    """A value unlike all others of its column, and how many cells hold it."""

    value: float
    cells: int


def _far_away(table: Table, schema: Schema) -> list[str]:
    codes: dict[tuple[str, str], tuple[list[str], int]] = {}
    slips: list[str] = []
    for column in (c for c in schema.encoded if isinstance(c, Number | Moment)):
        values = column.codes(table.column(column.name))
        finite = values[np.isfinite(values)]
        far_off = dict.fromkeys(far_values(finite), FAR)
        if isinstance(column, Number):
            far_off = {**dict.fromkeys(negative_codes(finite), BELOW), **far_off}
        for far, what in far_off.items():
            number = isinstance(column, Number) and column.notation is None
            text = plain(far.value) if number else column.spell(np.array([far.value]), None)[0]
            text = text.replace(".", table.decimal) if number else text
            if far.cells == 1:
                cells = table.column(column.name)
                where = first_cell(cells, values == far.value)
                slips.append(
                    f"column '{column.name}' has a value far from all others: {where}; "
                    f"{made_missing(cells, text)} if it is a slip"
                )
            else:
                names, count = codes.setdefault((text, what), ([], 0))
                codes[text, what] = ([*names, column.name], count + far.cells)
    lines = [
        f"{text} ({count} cells) is {what} of {named('column', names)}: {_flags(table, names, text)}"
        for (text, what), (names, count) in codes.items()
    ]
    return lines + capped(slips)


def _flags(table: Table, names: list[str], text: str) -> str:
    """How a value is made to mean missing, in the one column that has it or in all."""
    one = made_missing(table.column(names[0]), text)
    if len(names) == 1 or table.in_memory:
        return f"{one} if it means missing"
    return f"`{typed('--na-values', text)}` if that means missing, {one} in '{names[0]}' alone"


def far_values(values: Floats) -> list[_Far]:
    """Of some finite values the few least and greatest that are far from all between them.

    Of all ways to set aside up to MOST_CODES distinct values at either end such that each is far from the rest, in
    units of the range of the rest, that which sets aside most.
    """
    distinct, cells = np.unique(values, return_counts=True)
    u = distinct / 2  # halves: the range of float64 numbers may be infinite
    away = np.array([_away(v, n) for v, n in zip(_ends(distinct), _ends(cells), strict=True)])
    best: tuple[int, int] = (0, 0)
    for low, high in itertools.product(range(MOST_CODES + 1), repeat=2):
        rest = slice(low, len(u) - high)
        if len(u[rest]) < 2 or cells[rest].sum() < FEWEST or low + high <= sum(best):
            continue
        first, last = u[rest][0], u[rest][-1]
        gaps = np.concatenate([first - u[:low], u[len(u) - high :] - last])
        needed = np.concatenate([away[:low], away[len(away) - high :]])
        with np.errstate(over="ignore"):
            if (gaps > needed * (last - first)).all():
                best = low, high
    low, high = best
    chosen = [*range(low), *range(len(u) - high, len(u))]
    return [_Far(float(distinct[i]), int(cells[i])) for i in chosen]


def negative_codes(values: Floats) -> list[_Far]:
    """Of some finite values the negative ones, at most MOST_CODES, that look like codes of a survey in a column that is
    else not negative."""
    distinct, cells = np.unique(values, return_counts=True)
    below = distinct < 0
    usual, counts = distinct[~below], cells[~below]
    codes = distinct[below]
    if not 0 < len(codes) <= MOST_CODES or len(usual) < 2 or counts.sum() < FEWEST:
        return []
    if cells[below].min() < FEWEST_CODED or not all(NEGATIVE.fullmatch(plain(code)) for code in codes.tolist()):
        return []
    if usual.tolist() == [0.0, 1.0] and codes.tolist() == [-1.0] and 2 * cells[below][0] >= counts.min():
        return []  # down, level, up
    away = usual[0] / 2 - codes[-1] / 2 > NINES_AWAY * (usual[-1] / 2 - usual[0] / 2)
    often = cells[below].min() >= SO_OFTEN * float(np.median(counts)) and usual[-1] >= -SO_LARGE * codes[0]
    found = [_Far(float(v), int(n)) for v, n in zip(codes, cells[below], strict=True)]
    return found if away or often else []


def _skipped(table: Table, schema: Schema) -> list[str]:
    """Columns without a cell in all rows of a level of another column, and with cells in most other rows."""
    columns = schema.encoded
    observed = (
        np.stack([~table.missing(column.name) for column in columns], 1) if columns else np.zeros((table.N, 0), bool)
    )
    lines = []
    holes = ~observed.all(0) & observed.any(0)
    for place, column in enumerate(columns):
        levels = list(column.levels) if isinstance(column, Levelled) else []
        if not 2 <= len(levels) <= MOST_GROUPS:
            continue
        codes = column.codes(table.column(column.name))
        for code, level in enumerate(levels):
            there = codes == code
            elsewhere = ~there & ~np.isnan(codes)
            if there.sum() < FEWEST_SKIPPED or not elsewhere.any():
                continue
            share = observed[elsewhere].mean(0)
            names = [
                columns[j].name
                for j in np.flatnonzero(holes & ~observed[there].any(0) & (share >= ASKED)).tolist()
                if j != place
            ]
            if names:
                have = "has" if len(names) == 1 else "have"
                lines.append(
                    f"{named('column', names)} {have} no cell in the {there.sum():,} rows where '{column.name}' is "
                    f"'{level}', and cells in most others: if {'it does' if len(names) == 1 else 'they do'} not apply "
                    "there, the fills of these rows mean nothing (leave them out afterwards)"
                )
    return capped(lines)


def _ends(items: npt.NDArray[Any]) -> list[Any]:
    """The first and the last few of some items (all where these meet)."""
    if len(items) <= 2 * MOST_CODES:
        return [*items.tolist()]
    return [*items[:MOST_CODES].tolist(), *items[-MOST_CODES:].tolist()]


def _away(value: float, cells: int) -> float:
    if cells == 1:
        return ONE_AWAY
    return NINES_AWAY if NINES.fullmatch(plain(value)) else CODE_AWAY
