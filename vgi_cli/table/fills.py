"""The texts of filled cells: at the column's resolution, spelled and quoted as the table spells its numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from vgi_cli.columns.base import Column, Schema
from vgi_cli.columns.numerals import Floats, plain, write_numbers, write_significant
from vgi_cli.table.base import Bools, Table
from vgi_cli.table.cells import Ints
from vgi_cli.table.csv.text import CsvText
from vgi_cli.table.tokens import Tokens

UNSPELLED = 17
"""More decimals than this are written with an exponent."""


@dataclass(frozen=True)
class Holes:
    """The holes of one column that are filled.

    column  what the fit knows about it
    place   its position in the table
    d       its position among the modelled columns; None for a constant column
    rows    [n] rows with a hole
    quoted  [n] whether the fill is written in quotes: as the column's numbers are, where it has any
    blanks  [n] the holes as they stand; where a mask hides a cell, what stands for a missing one
    copy    a constant as the table spells it, if it does
    fewest  fewest decimals
    """

    column: Column
    place: int
    d: int | None
    rows: Ints
    quoted: Bools
    blanks: list[bytes]
    copy: bytes | None
    fewest: int

    def values(self, draw: Floats) -> Floats:
        """[n] fills of one draw [N, D], data units, at the column's resolution."""
        if self.d is None:
            return np.full(len(self.rows), self.column.low)
        return self.column.snap(draw[self.rows, self.d])

    def texts(self, draw: Floats) -> list[bytes]:
        """[n] raw cells of one draw [N, D]."""
        if self.copy is not None:
            return [self.copy] * len(self.rows)
        cells = [text.encode() for text in spell(self.column, self.values(draw), self.fewest)]
        if not self.quoted.any():
            return cells
        return [b'"%b"' % cell if q else cell for cell, q in zip(cells, self.quoted.tolist(), strict=True)]


def avoid_codes(draws: Floats, table: Table, schema: Schema) -> dict[str, int]:
    """Move fills that would read as missing, because the user gave their number as a token for that, to the next value
    towards the middle of the column's range (the nearest other level, where there are levels); how many, by column.
    `draws` [m, N, D] at each column's resolution are changed."""
    moved: dict[str, int] = {}
    if not table.tokens:
        return moved
    for d, column in enumerate(schema.encoded):
        rows = np.flatnonzero(table.missing(column.name))
        fills = draws[:, rows, d]
        coded = table.tokens.in_numbers(fills)
        if coded.any():
            moved[column.name] = int(coded.sum())
            fills[coded] = _beside(fills[coded], column, table.tokens)
            draws[:, rows, d] = fills
    return moved


def _beside(values: Floats, column: Column, tokens: Tokens) -> Floats:
    """[n] for each value, which is a token, the next one that is none."""
    if column.levels:
        levels = np.array(column.levels)
        free = levels[~tokens.in_numbers(levels)]
        return free[np.abs(free - values[:, None]).argmin(1)] if len(free) else values
    assert column.low is not None and column.high is not None
    towards = np.where(values < 0.5 * column.low + 0.5 * column.high, 1.0, -1.0)
    for _ in range(len(tokens)):
        coded = tokens.in_numbers(values)
        values = np.where(coded, column.snap(values + towards * _step(column, values)), values)
    return values


def _step(column: Column, values: Floats) -> Floats:
    """The distance of each value from the next one that is written in another way."""
    if column.resolution is not None:
        least = column.resolution
    else:
        least = 1.0 if column.kind == "integer" else 1e-5 * column.deviation
    size = np.abs(values)
    shown = 10.0 ** (1 - column.digits) * size if column.lattice is None else np.spacing(size)
    return np.asarray(np.maximum(least, np.maximum(shown, np.spacing(size))))


def spell(column: Column, values: Floats, fewest: int) -> list[str]:
    """Texts of values that are at the column's resolution."""
    lattice = column.lattice
    if lattice is not None and 0 <= lattice.decimals <= UNSPELLED:
        texts = write_numbers(values, fewest=fewest, most=max(lattice.decimals, fewest))
        off = np.flatnonzero(lattice.snap(values) != values)  # a bound that is on no lattice
        for i in off.tolist():
            texts[i] = plain(float(values[i]))
        return texts
    if column.kind == "integer":
        return write_numbers(values, fewest=fewest, most=fewest)
    if lattice is not None:
        return [plain(v) for v in values.tolist()]
    texts = write_significant(values, column.digits)
    if column.bounds:
        least, most = column.ends
        shown = np.array([float(text) for text in texts])
        left = (shown < np.minimum(least, values)) | (shown > np.maximum(most, values))
        for i in np.flatnonzero(left).tolist():  # a bound that has more digits
            texts[i] = plain(float(values[i]))
    return texts


@dataclass
class Style:
    """How one column of a table is written, from all of its rows.

    holes   whether it has a hole
    quoted  whether its first observed cell is in quotes; None where no cell is observed
    first   that cell as it stands in a CSV text
    token   the first hole as it stands, but for those that a mask hides; None where there is none
    fewest  fewest decimals of its numbers, None where none is written
    """

    holes: bool = False
    quoted: bool | None = None
    first: bytes | None = None
    token: bytes | None = None
    fewest: int | None = None


def find_styles(tables: Iterable[Table], schema: Schema) -> dict[str, Style]:
    """The styles of the modelled and the constant columns, from a table that may come in blocks of rows."""
    styles = {column.name: Style() for column in (*schema.encoded, *schema.constants)}
    for table in tables:
        csv = table.as_csv() if table.format == "csv" else None
        for name, style in styles.items():
            if name in table.names:
                _look(style, table, csv, name)
    return styles


def _look(style: Style, table: Table, csv: CsvText | None, name: str) -> None:
    missing, place = table.missing(name), table.place(name)
    seen = np.flatnonzero(~missing)[:1]
    if style.quoted is None and len(seen):
        style.quoted = bool(table.in_quotes(name, seen)[0])
        style.first = None if csv is None else _raw(csv, int(seen[0]), place)
    style.holes = style.holes or bool(missing.any())
    if csv is not None and style.token is None:
        plain_holes = missing if table.hidden is None else missing & ~table.hidden[:, place]
        rows = np.flatnonzero(plain_holes)[:1]
        style.token = _raw(csv, int(rows[0]), place) if len(rows) else None
    spelled = table.spelling(name)
    if spelled is not None:
        style.fewest = spelled.fewest if style.fewest is None else min(style.fewest, spelled.fewest)


def find_holes(table: Table, schema: Schema, styles: Mapping[str, Style] | None = None) -> list[Holes]:
    """The holes of the modelled and the constant columns of a table; where it is a block of a larger one, `styles` are
    those of the whole, and a column without a hole here has its entry when it has one elsewhere."""
    styles = find_styles([table], schema) if styles is None else styles
    csv = table.as_csv() if table.format == "csv" else None
    order = {name: d for d, name in enumerate(schema.modelled)}
    out = []
    for column in (*schema.encoded, *schema.constants):
        style = styles[column.name]
        if not style.holes:
            continue
        place = table.place(column.name)
        rows = np.flatnonzero(table.missing(column.name))
        blanks, copy = [b"NA"] * len(rows), None
        if csv is not None:
            hidden = None if table.hidden is None else table.hidden[rows, place]
            blanks = _blanks(csv, place, rows, hidden, style.token)
            copy = style.first if column.kind == "constant" else None
        quoted = table.in_quotes(column.name, rows)
        if style.quoted is not None:
            quoted = np.full(len(rows), style.quoted)
        fewest = column.decimals if style.fewest is None else style.fewest
        out.append(Holes(column, place, order.get(column.name), rows, quoted, blanks, copy, min(fewest, UNSPELLED)))
    return out


def _raw(csv: CsvText, row: int, place: int) -> bytes:
    return csv.text[csv.bounds[row, place] : csv.bounds[row, place + 1] - 1]


def _blanks(csv: CsvText, place: int, rows: Ints, hidden: Bools | None, token: bytes | None) -> list[bytes]:
    """The raw cells of holes; in place of hidden ones the column's first missing token, else `NA`."""
    cells = [_raw(csv, row, place) for row in rows.tolist()]
    if hidden is None or not hidden.any():
        return cells
    stand_in = b"NA" if token is None else token
    return [stand_in if h else cell for cell, h in zip(cells, hidden.tolist(), strict=True)]
