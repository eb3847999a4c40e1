"""Rows that may be none of the table: a line of units above the others, a line of totals below them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vgi_cli.columns.base import Cells, Column
from vgi_cli.columns.number import Number
from vgi_cli.columns.numerals import Bools, Floats
from vgi_cli.columns.schema import Schema
from vgi_cli.columns.wording import TOTALS, Alarm, is_limit, is_plain, is_written, named, unit_above
from vgi_cli.table.base import Table

LAST = 3
"""Rows with a cell, from the last one up, that are looked at."""
NEAR, FEWEST_ROWS = 0.001, 10
"""How near to a sum, as a share of it, is nearly the sum, and of how many rows at least."""
FEWEST_SUMS, SHARE = 2, 1 / 3
"""In how many columns a row has the sum, and which part of its numbers these are: of many a few do by chance."""
FEWEST_UNITS, NUMERIC, LOOKED_AT = 3, 0.9, 1000
"""Columns in which the first row has what looks like a unit, fewest and as a part of those of numbers (SHARE_UNITS);
share of numbers and limits below it that makes a column one of numbers; and different texts that are looked at."""
SHARE_UNITS = 0.75
SURE = 3.0
"""Standard deviations of the sum of missing cells by which it may be off."""


def units(table: Table, columns: Sequence[Column]) -> list[str]:
    """A line where the first row looks like the units of the columns: no number in nearly all columns that hold numbers
    in the rows below."""
    found: dict[str, str] = {}
    numbers = 0
    for column in columns if table.N > FEWEST_ROWS else ():
        cells = table.column(column.name)
        unit = None if isinstance(column, Number) else unit_above(cells)
        if unit is not None and _numeric_below(cells):
            found[column.name] = unit
        numbers += column.name in found or (isinstance(column, Number) and not cells.missing[0])
    if len(found) < max(FEWEST_UNITS, SHARE_UNITS * numbers):
        return []
    name, unit = next(iter(found.items()))
    others = (
        f"'{unit}' in column '{name}', and no number in {len(found) - 1} more columns whose other cells are numbers"
    )
    line = f"{table.where(0)} looks like a line of units or a second header ({others}): delete it"
    return [Alarm(line)]


def _numeric_below(cells: Cells) -> bool:
    """Whether nearly all cells but the first are numbers, however they are written, or limits."""
    texts, places = cells.distinct
    counts = np.bincount(places[1:][places[1:] >= 0], minlength=len(texts))
    held = [(texts[i].strip(), int(counts[i])) for i in np.argsort(-counts, kind="stable")[:LOOKED_AT] if counts[i]]
    good = sum(
        count
        for text, count in held
        if is_plain(text, cells.decimal) or is_written(text, cells.decimal) or is_limit(text)
    )
    return bool(held) and good >= NUMERIC * sum(count for _, count in held)


def totals(table: Table, schema: Schema) -> list[str]:
    """A line for each of the last rows that looks like a line of totals."""
    filled = _filled(table)
    rows = np.flatnonzero(filled)[::-1][:LAST].tolist() if filled.sum() > FEWEST_ROWS else []
    lines = []
    for row in rows:
        if (why := _word(table, schema, row) or _sums(table, schema, row)) is None:
            break
        lines.append(f"{table.where(row)} looks like a line of totals ({why}): delete it")
    return lines[::-1]


def _filled(table: Table) -> Bools:
    """[N] which rows have a cell at all."""
    filled = np.zeros(table.N, bool)
    for name in table.names:
        filled |= ~table.blank(name)
    return filled


def _word(table: Table, schema: Schema, row: int) -> str | None:
    """A text of the row that says so, which no other row has."""
    for column in schema.columns:
        cells = table.column(column.name)
        if isinstance(column, Number) or not (cells.textual and cells.levelled) or cells.missing[row]:
            continue
        text = str(cells.texts(np.array([row]))[0]).strip()
        if text.casefold().rstrip(" :") in TOTALS and (cells.distinct.places == cells.distinct.places[row]).sum() == 1:
            return f"'{text}' in column '{column.name}'"
    return None


def _sums(table: Table, schema: Schema, row: int) -> str | None:
    """The columns in which the row has the sum of the rows above, where these are many of its numbers."""
    names, numbers = [], 0
    for column in (c for c in schema.encoded if isinstance(c, Number)):
        values = column.codes(table.column(column.name))
        above = values[:row][np.isfinite(values[:row])]
        if np.isfinite(values[row]) and len(above) >= FEWEST_ROWS:
            numbers += 1
            if abs(values[row]) > np.abs(above).max() and _is_sum(values[row], above, row - len(above)):
                names.append(column.name)
    return f"the sums of {named('column', names)}" if len(names) >= max(FEWEST_SUMS, SHARE * numbers) else None


def _is_sum(value: float, above: Floats, holes: int) -> bool:
    """Whether a value is the sum of the cells above, or that of these and what some holes among them may have held."""
    with np.errstate(over="ignore", invalid="ignore"):
        observed = above.sum()
        total = observed + holes * above.mean()
        unsure = SURE * above.std() * np.sqrt(holes) if holes else 0.0
        nearly = abs(value - total) <= NEAR * abs(total) + unsure
        return bool(np.isfinite(unsure) and (nearly or abs(value - observed) <= NEAR * abs(observed)))
