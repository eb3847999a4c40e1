"""Filled tables as CSV: the input's bytes with nothing changed but the filled cells."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np
import pyarrow as pa

from vgi_cli.columns.levelled import Levelled
from vgi_cli.columns.number import Constant, Number
from vgi_cli.columns.numerals import Floats
from vgi_cli.columns.schema import Schema
from vgi_cli.errors import InputError
from vgi_cli.table.base import Table
from vgi_cli.table.csv.table import CsvTable
from vgi_cli.table.csv.text import CsvText, header_cell, quote_if_needed, split_csv
from vgi_cli.table.fills import Holes
from vgi_cli.table.texts import with_point


class Template:
    """A CSV text, the whole of a table or a block of its rows, cut at its holes: texts are put between the pieces."""

    def __init__(self, csv: CsvText, holes: Sequence[Holes]) -> None:
        begin = [csv.bounds[h.rows, h.place] for h in holes]
        end = [csv.bounds[h.rows, h.place + 1] - 1 for h in holes]
        self.csv = csv
        self.holes = holes
        begins, ends = (np.concatenate(x) if x else np.zeros(0, np.int64) for x in (begin, end))
        self._begins, self._ends = begins, ends

    def fill(self, draw: Floats, *, header: bool) -> bytes:
        """The rows with the holes filled from one draw [N, D]; before them, with `header`, all that precedes them."""
        texts = list(chain.from_iterable(h.texts(draw, self.csv.delimiter) for h in self.holes))
        return self._splice(0 if header else self.csv.header[2], self._begins, self._ends, texts)

    def blank(self) -> bytes:
        """All rows with their holes as they stand, and nothing in hidden cells."""
        return self._splice(0, self._begins, self._ends, list(chain.from_iterable(h.blanks for h in self.holes)))

    def long_header(self) -> bytes:
        """The header with columns `.imp` and `.id` last, and what precedes it."""
        csv = self.csv
        extra = csv.delimiter + csv.delimiter.join(('".imp"', '".id"') if csv.quoted else (".imp", ".id"))
        return csv.text[: csv.header[1]] + extra.encode() + csv.newline

    def long(self, number: int, draw: Floats | None, first: int) -> bytes:
        """The rows of draw `number` [N, D] (None: with their holes), with `.imp` and with `.id` from `first` + 1 on."""
        csv = self.csv
        row_ends = csv.bounds[:, -1] - 1
        begins, ends = np.concatenate([self._begins, row_ends]), np.concatenate([self._ends, row_ends])
        texts = [h.blanks if draw is None else h.texts(draw, csv.delimiter) for h in self.holes]
        rows = range(first + 1, first + csv.N + 1)
        tails = [f"{csv.delimiter}{number}{csv.delimiter}{row}".encode() for row in rows]
        tails[-1] += csv.newline if int(csv.following[-1]) == int(row_ends[-1]) else b""
        return self._splice(csv.header[2], begins, ends, list(chain.from_iterable([*texts, tails])))

    def _splice(self, start: int, begins: np.ndarray, ends: np.ndarray, texts: list[bytes]) -> bytes:
        """The text from byte `start` with the ranges [begin, end) replaced.

        A hole that is the last cell of its row begins where the row's end is inserted when it is empty: the sort is
        stable and holes come first.
        """
        order = np.argsort(begins, kind="stable")
        text = self.csv.text
        pieces: list[bytes] = [b""] * (2 * len(order) + 1)
        at = start
        for i, (begin, end) in enumerate(zip(begins[order].tolist(), ends[order].tolist(), strict=True)):
            pieces[2 * i] = text[at:begin]
            at = end
        pieces[-1] = text[at:]
        pieces[1::2] = [texts[i] for i in order.tolist()]
        return b"".join(pieces)


def csv_of(table: Table) -> CsvText:
    """A table as CSV text with the offsets of its cells: the file's own bytes where it was CSV."""
    if isinstance(table, CsvTable):
        return table.csv
    columns = [["" if c is None else c for c in table.raw_text(name)] for name in table.names]
    return _csv_text(table, columns)


def plain_csv(table: Table, schema: Schema) -> CsvText:
    """A table as CSV that R's `read.csv` takes as it is: UTF-8 without a byte-order mark, commas between cells, numbers
    of digits and a point (texts of levels stay), quotes only where they are needed, LF, and `NA` for a missing cell
    (not where only a mask hides a cell that is carried). InputError where a cell that is not missing holds the text
    NA."""
    levels = {column.name for column in schema.encoded if isinstance(column, Levelled)}
    numbers = [column for column in [*schema.encoded, *schema.constants] if isinstance(column, Number | Constant)]
    notations = {column.name: column.notation for column in numbers if column.notation is not None}
    filled = {column.name for column in [*schema.encoded, *schema.constants]}
    columns = []
    for name in table.names:
        cells = table.raw_text(name)
        if name in notations:
            cells = np.array([notations[name].plain(text.strip()) or text for text in cells], object)
        elif name not in levels and table.decimal != ".":
            number = table.numbers(name).number
            cells[number] = with_point(pa.array(cells[number], pa.large_string()), table.decimal).to_pylist()
        blank = table.missing(name) if name in filled else table.blank(name)
        if (cells[~blank] == "NA").any():
            raise InputError(
                f"{table.label}: column '{name}' holds the text 'NA', which R reads as missing",
                "spell that value in another way, or take --format long",
            )
        cells[blank] = "NA"
        columns.append(cells.tolist())
    return _csv_text(table, columns)


def _csv_text(table: Table, columns: Sequence[Sequence[str]]) -> CsvText:
    """The texts of a table's columns as CSV."""
    lines = [",".join(header_cell(name, ",") for name in table.names)]
    lines += (",".join(quote_if_needed(cell, ",") for cell in row) for row in zip(*columns, strict=True))
    return split_csv(("\n".join(lines) + "\n").encode(), table.label, ",")
