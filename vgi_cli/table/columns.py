"""A table whose columns lie in a file, each read when it is asked for: what a table costs that is too large for memory.

The rows are read once, block by block, and their cells are copied to a temporary file, column by column, as they stand:
the bytes of CSV cells, the Arrow values of Parquet. A column that is asked for is then a table of one column, so that
its cells are read by the same code, and mean the same, as in memory.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from vgi_cli.columns.base import Cells, Distinct
from vgi_cli.columns.numerals import Bools, Ints, Moments, Numbers, Spelling
from vgi_cli.errors import UsageError
from vgi_cli.table.base import Table
from vgi_cli.table.csv.table import CsvTable
from vgi_cli.table.csv.text import CsvText
from vgi_cli.table.inputs import scratch, scratch_errors
from vgi_cli.table.parquet.table import ParquetTable
from vgi_cli.table.source import Source

CELLS = 1 << 21
"""Cells that are gathered before they are written: a column is read in pieces of so many, divided by the columns."""
CACHED = 64
"""Bytes of a cell that a column in memory takes, roughly."""


class _Piece(NamedTuple):
    """Where some cells of a column lie in the file: `size` bytes from `at`; of CSV the ends of the cells after them."""

    at: int
    size: int
    rows: int
    hidden: bool


class TableInFiles(Table):
    """The rows of a source; a few columns at a time are in memory.

    source  its rows, block by block
    folder  where temporary files of it lie
    """

    def __init__(self, source: Source, folder: Path, cache: int = 0) -> None:
        """cache: bytes that columns may take in memory, beside the one that is asked for."""
        self.source, self.folder = source, folder
        self._file: BinaryIO = scratch(folder / "columns")
        weakref.finalize(self, self._file.close)
        self._at = 0
        self._stored: list[list[_Piece]] = [[] for _ in source.origin.names]
        self._header: Table | None = None
        waiting: list[Table] = []
        for block in source.blocks():
            if self._header is None:
                self._header = block.table
            waiting.append(block.table)
            if sum(table.N for table in waiting) * len(self._stored) >= CELLS:
                self._write(waiting)
                waiting = []
        if waiting:
            self._write(waiting)
        first = self._first
        super().__init__(source.origin, first.index, (), 0, first.decimal)
        self._tokens, self._own, self._own_tokens, self.levels = (
            first._tokens,
            first._own,
            first._own_tokens,
            first.levels,
        )
        self._most = max(1, cache // max(CACHED * self.N, 1))
        self._columns: OrderedDict[str, Table] = OrderedDict()

    @property
    def _first(self) -> Table:
        assert self._header is not None, "a source has rows"
        return self._header

    def _write(self, tables: Sequence[Table]) -> None:
        """Append the cells of some blocks, column by column."""
        with scratch_errors(self.folder / "columns"):
            for i, stored in enumerate(self._stored):
                cells = _bytes_of(tables, i)
                hidden = [table.hidden for table in tables if table.hidden is not None]
                mask = b"".join(part[:, i].tobytes() for part in hidden)
                self._file.write(cells + mask)
                stored.append(_Piece(self._at, len(cells), sum(table.N for table in tables), bool(hidden)))
                self._at += len(cells) + len(mask)

    def _column(self, name: str) -> Table:
        """The table of one column."""
        if name in self._columns:
            self._columns.move_to_end(name)
            return self._columns[name]
        while len(self._columns) >= self._most:
            self._columns.popitem(last=False)
        i = self.place(name)
        parts, masks = [], []
        for piece in self._stored[i]:
            self._file.seek(piece.at)
            parts.append(self._file.read(piece.size))
            if piece.hidden:
                masks.append(np.frombuffer(self._file.read(piece.rows), bool))
        made = self._of_cells(name, parts)
        made.hidden = np.concatenate(masks)[:, None] if masks else None
        made._tokens, made.levels = self._tokens, self.levels
        made._own_tokens = {name: self._own_tokens[name]} if name in self._own_tokens else {}
        self._columns[name] = made
        return made

    def _of_cells(self, name: str, parts: list[bytes]) -> Table:
        first = self._first
        if isinstance(first, ParquetTable):
            arrow = pa.concat_tables([pa.ipc.open_stream(part).read_all() for part in parts])
            arrow = arrow.replace_schema_metadata(first.arrow.schema.metadata)
            return ParquetTable(arrow, self.origin, [name] if name in self.index else [])
        ends = np.concatenate([[0], *(np.frombuffer(part[-8 * _rows(part) - 8 : -8], np.int64) for part in parts)])
        sizes = [len(part) - 8 * _rows(part) - 8 for part in parts]
        starts = np.repeat(np.cumsum([0, *sizes[:-1]]), [_rows(part) for part in parts])
        bounds = np.empty((len(starts), 2), np.int64)
        bounds[:, 1] = ends[1:] + starts
        bounds[0, 0], bounds[1:, 0] = 0, bounds[:-1, 1]
        text = b"".join(part[:size] for part, size in zip(parts, sizes, strict=True))
        csv = CsvText(text, self.label, ",", (name,), bounds, bounds[:, 1], (0, 0, 0), False)
        return CsvTable(csv, self.origin, [(0, self.label, 0, 0)], (), decimal=self.decimal)

    # --- what a table says of its columns ---

    def column(self, name: str) -> Cells:
        """The cells of a column; what is read of them is kept by nobody."""
        return Cells(self, name)

    def missing(self, name: str) -> Bools:
        absent = self._column(name).missing(name)
        return absent | self._forgotten[name] if name in self._forgotten else absent

    def blank(self, name: str) -> Bools:
        return self._column(name).blank(name)

    def keep_levels(self, name: str, texts: Collection[str]) -> None:
        super().keep_levels(name, texts)
        self._columns.pop(name, None)

    def forget(self, name: str, which: Bools) -> None:
        self._forgotten[name] = self.forgotten(name) | which

    def hiding(self, cells: object) -> TableInFiles:
        raise UsageError("cells of a table that is kept in files cannot be hidden", "--max-memory with a larger size")

    def numbers(self, name: str) -> Numbers:
        column = self._column(name)
        return column._read_numbers(0, self.missing(name)) if name in self._forgotten else column.numbers(name)

    def some_text(self, name: str, rows: Ints | None) -> npt.NDArray[np.object_]:
        return self._column(name).some_text(name, rows)

    def typed(self, name: str) -> bool:
        return self._first.typed(name)

    def textual(self, name: str) -> bool:
        return self._first.textual(name)

    def single(self, name: str) -> bool:
        return self._first.single(name)

    def precision(self, name: str) -> np.dtype[np.floating]:
        return self._first.precision(name)

    def limits(self, name: str) -> tuple[float, float] | None:
        return self._first.limits(name)

    def levelled(self, name: str) -> bool:
        return self._first.levelled(name)

    def stored(self, name: str) -> str | None:
        return self._first.stored(name)

    def spelling(self, name: str) -> Spelling | None:
        return self._column(name).spelling(name)

    def dictionary(self, name: str) -> bool:
        return self._column(name).dictionary(name)

    def distinct(self, name: str) -> Distinct:
        texts, places = self._column(name).distinct(name)
        return Distinct(texts, np.where(self._forgotten[name], -1, places) if name in self._forgotten else places)

    def scale(self, name: str) -> Sequence[str] | None:
        return self._column(name).scale(name)

    def moments(self, name: str) -> Moments | None:
        return self._column(name).moments(name)

    def where(self, row: int) -> str:
        for block in self.source.blocks():
            if row < block.first + block.table.N:
                return block.table.where(row - block.first)
        raise IndexError(row)

    def _missing(self, i: int) -> Bools:
        return self._column(self.names[i])._missing(0)

    def _read_numbers(self, i: int, missing: Bools) -> Numbers:
        return self._column(self.names[i])._read_numbers(0, missing)


def _rows(part: bytes) -> int:
    """How many cells a piece of CSV has: its last eight bytes."""
    return int.from_bytes(part[-8:], "little")


def _bytes_of(tables: Sequence[Table], i: int) -> bytes:
    """The cells of the i-th column: an Arrow stream; of CSV each cell and a line end, where they end, and how many."""
    if isinstance(tables[0], ParquetTable):
        arrow = pa.concat_tables([table.arrow.select([i]) for table in tables if isinstance(table, ParquetTable)])
        arrow = arrow.replace_schema_metadata(None)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, arrow.schema) as stream:
            stream.write_table(arrow)
        return bytes(sink.getvalue())
    texts, lengths = [], []
    for table in tables:
        assert isinstance(table, CsvTable)
        bounds = table.csv.bounds
        length = bounds[:, i + 1] - bounds[:, i]
        offsets = np.concatenate([[0], np.cumsum(length)])
        source = np.repeat(bounds[:, i] - offsets[:-1], length) + np.arange(offsets[-1])
        data = np.frombuffer(table.csv.text + b"\n", np.uint8)[source]  # the last cell of a file may have no line end
        texts.append(data.tobytes())
        lengths.append(length)
    ends = np.cumsum(np.concatenate(lengths)).astype(np.int64)
    return b"".join(texts) + ends.tobytes() + len(ends).to_bytes(8, "little")
