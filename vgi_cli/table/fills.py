"""The texts of filled cells: at the column's resolution, spelled and quoted as the table spells its numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vgi_cli.table.base import Bools, Table
from vgi_cli.table.cells import Ints
from vgi_cli.table.columns import Column, Schema
from vgi_cli.table.csv_text import CsvText
from vgi_cli.table.numerals import Floats, plain, write_numbers, write_significant

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


def spell(column: Column, values: Floats, fewest: int) -> list[str]:
    """Texts of values that are at the column's resolution."""
    lattice = column.lattice
    if lattice is not None and 0 <= lattice.decimals <= UNSPELLED:
        texts = write_numbers(values, fewest=fewest, most=max(lattice.decimals, fewest))
        off = np.flatnonzero(lattice.snap(values) != values)  # an end of the range that is on no lattice
        for i in off.tolist():
            texts[i] = plain(float(values[i]))
        return texts
    if column.kind == "integer":
        return write_numbers(values, fewest=fewest, most=fewest)
    if lattice is not None:
        return [plain(v) for v in values.tolist()]
    return write_significant(values, column.digits)


def find_holes(table: Table, schema: Schema) -> list[Holes]:
    """The holes of the modelled and the constant columns of a table."""
    csv = table.as_csv() if table.format == "csv" else None
    order = {name: d for d, name in enumerate(schema.modelled)}
    out = []
    for column in (*schema.encoded, *schema.constants):
        if column.name not in table.names:
            continue
        missing = table.missing(column.name)
        rows = np.flatnonzero(missing)
        if not len(rows):
            continue
        place = table.place(column.name)
        seen = np.flatnonzero(~missing)[:1]
        blanks, copy = [b"NA"] * len(rows), None
        if csv is not None:
            blanks = _blanks(csv, place, rows, None if table.hidden is None else table.hidden[rows, place])
            if column.kind == "constant" and len(seen):
                copy = _raw(csv, int(seen[0]), place)
        quoted = table.in_quotes(column.name, rows)
        if len(seen):
            quoted = np.full(len(rows), bool(table.in_quotes(column.name, seen)[0]))
        spelled = table.spelling(column.name)
        fewest = column.decimals if spelled is None else spelled.fewest
        out.append(Holes(column, place, order.get(column.name), rows, quoted, blanks, copy, min(fewest, UNSPELLED)))
    return out


def _raw(csv: CsvText, row: int, place: int) -> bytes:
    return csv.text[csv.bounds[row, place] : csv.bounds[row, place + 1] - 1]


def _blanks(csv: CsvText, place: int, rows: Ints, hidden: Bools | None) -> list[bytes]:
    """The raw cells of holes; in place of hidden ones the column's first missing token, else `NA`."""
    cells = [_raw(csv, row, place) for row in rows.tolist()]
    if hidden is None or not hidden.any():
        return cells
    token = next((cell for cell, h in zip(cells, hidden.tolist(), strict=True) if not h), b"NA")
    return [token if h else cell for cell, h in zip(cells, hidden.tolist(), strict=True)]
