"""Tables that are read block by block, as often as is needed, in memory that does not grow with their rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import repeat
from pathlib import Path
from typing import BinaryIO, NamedTuple

from vgi_cli.columns.numerals import SingleDecimals
from vgi_cli.errors import InputError, TooLarge
from vgi_cli.table.base import Table
from vgi_cli.table.csv.rows import Place, csv_tables
from vgi_cli.table.folders import Folder
from vgi_cli.table.inputs import Origin, TableFile, TableFiles
from vgi_cli.table.parquet.table import parquet_frame, parquet_rows, parquet_tables
from vgi_cli.table.reader import hidden_cells, name_table, table_in_memory

BLOCK_CELLS = 1 << 17
LEAST_ROWS = 256


def block_rows(width: int) -> int:
    """Rows of a block of a table with so many columns."""
    return max(LEAST_ROWS, BLOCK_CELLS // max(width, 1))


class Block(NamedTuple):
    """Consecutive rows of a table: from row `first` (from 0) on."""

    first: int
    table: Table


class Source(ABC):
    """A table as blocks of rows, first to last. `origin` describes the whole of it."""

    origin: Origin

    @abstractmethod
    def blocks(self) -> Iterator[Block]:
        """The blocks. InputError when the table has changed since it was opened."""


class Whole(Source):
    """A table that is in memory, as one block."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self.origin = table.origin

    def blocks(self) -> Iterator[Block]:
        yield Block(0, self._table)


def open_table(
    paths: Sequence[str | Path],
    *,
    mask: str | Path | None = None,
    na_values: Sequence[str] = (),
    delimiter: str | None = None,
    stdin: BinaryIO | None = None,
    decimal: str | None = None,
    levels: Mapping[str, Collection[str]] | None = None,
) -> Files:
    """Open files as one table; arguments and errors as `read_table`. Every row is looked at before this returns.

    Standard input and compressed files are copied to temporary files.
    """
    named = name_table(paths, mask, na_values, delimiter, stdin, decimal, levels)
    try:
        return Files(named)
    except TooLarge:
        raise
    except InputError:
        table_in_memory(named)  # says which row of the whole table is wrong, and what is wrong with it first of all
        raise


class Files(Source):
    """The rows of files. A table of one block is read once and kept."""

    def __init__(self, named: TableFiles) -> None:
        self._named = named
        self._decimals: dict[str, int | None] = {}
        if named.parquet:
            self._width = parquet_frame(named.files)[0].num_columns
            self._decimals = _single_decimals(named, self._width)
        else:
            first = next(csv_tables(TableFiles.of(named.files[0]), repeat(LEAST_ROWS)), None)
            self._width = 1 if first is None else len(first[1].names)
        self.origin = named.origin
        self._starts: list[_Start] = []
        self._kept: Block | None = None
        kept: Block | None = None
        for start, block in self._read(_Start()):
            self._starts.append(start)
            N = self.origin.N
            kept = block if N == 0 else None
            self.origin = block.table.origin._replace(N=N + block.table.N)
        if self.origin.N == 0:
            label = self.origin.label
            raise InputError(f"{label}: the file has columns but no rows", "expected at least one row of data")
        self._kept = kept

    def blocks(self) -> Iterator[Block]:
        if self._kept is not None:
            yield self._kept
        else:
            yield from (block for _, block in self._read(_Start()))

    def part(self, rows: range) -> Source:
        """Some consecutive rows of the table, at least one, with the numbers that they have in the whole. What comes
        before the block in which they begin is not read again, nor what comes after them."""
        return _Part(self, rows)

    def folder(self) -> Folder:
        """The files of a table that is one folder of Parquet."""
        files = self._named.files
        said = files[0].partition
        counts = parquet_rows(files)
        return Folder(
            [(file.label, count) for file, count in zip(files, counts, strict=True)],
            () if said is None else said.types.names,
        )

    def rows(self, wanted: range) -> Iterator[Block]:
        """Blocks of these rows."""
        starts = [start.table.row for start in self._starts]
        start = self._starts[bisect_right(starts, wanted.start) - 1]
        before = wanted.start - start.table.row
        for _, block in self._read(start, before, wanted.stop):
            if block.first >= wanted.start:
                yield block

    def _read(self, start: _Start, before: int = 0, end: int | None = None) -> Iterator[tuple[_Start, Block]]:
        """From `start` on, before row `end` (None: to the last); a first block of `before` rows, where any are."""
        named, size = self._named, block_rows(self._width)
        rows = _Rows(named, self._decimals, start.table)
        masks = None if named.mask is None else _Masks(named.mask, start.mask)
        at = start.table.row
        while at != end and (table := rows.take(min(before or size, size if end is None else end - at))) is not None:
            found, before = _Start(rows.place), 0
            if masks is not None:
                table.hidden = hidden_cells(table, masks.take(table.N))
                found = found._replace(mask=masks.place)
            yield found, Block(at, table)
            at += table.N
        if masks is not None and end is None:
            masks.require_end()
        for file in (*named.files, *([] if named.mask is None else [named.mask])):
            file.require_unchanged()


class _Part(Source):
    """Some consecutive rows of files."""

    def __init__(self, files: Files, rows: range) -> None:
        self._files, self._rows = files, rows
        self.origin = files.origin._replace(N=len(rows))

    def blocks(self) -> Iterator[Block]:
        return self._files.rows(self._rows)


class _Start(NamedTuple):
    """Where a block begins in the files of a table, and in its mask."""

    table: Place = Place()
    mask: Place = Place()


class _Rows:
    """The rows of files from a place on, as many at a time as is asked; `place`: where those that were taken last
    begin."""

    def __init__(self, named: TableFiles, decimals: Mapping[str, int | None], start: Place) -> None:
        self._wanted = 1
        self.place = start
        rows = iter(lambda: self._wanted, 0)
        self._parts: Iterator[tuple[Place, Table]]
        if named.parquet:
            tables = parquet_tables(named, rows, decimals, start.row)
            self._parts = ((Place(table.first), table) for table in tables)
        else:
            self._parts = csv_tables(named, rows, start)

    def take(self, rows: int) -> Table | None:
        """The next rows, fewer at the end of a file; None after the last."""
        self._wanted = rows
        found = next(self._parts, None)
        if found is None:
            return None
        self.place, table = found
        return table


class _Masks:
    """The rows of a mask file, as many at a time as the table has; `place` as of _Rows."""

    def __init__(self, file: TableFile, start: Place) -> None:
        self._label = file.label
        self._rows = _Rows(TableFiles.of(file), {}, start)

    @property
    def place(self) -> Place:
        return self._rows.place

    def take(self, rows: int) -> Table:
        """The next rows. InputError where the mask has fewer."""
        table = self._rows.take(rows)
        if table is None or rows != table.N:
            raise InputError(f"{self._label}: the mask has fewer rows than the table", "give both the same rows")
        return table

    def require_end(self) -> None:
        """InputError where the mask has more rows than the table."""
        if self._rows.take(1) is not None:
            raise InputError(f"{self._label}: the mask has more rows than the table", "give both the same rows")


def _single_decimals(named: TableFiles, width: int) -> dict[str, int | None]:
    """The decimals of the float32 columns of Parquet files (see SingleDecimals)."""
    found: dict[str, SingleDecimals] = {}
    for table in parquet_tables(named._replace(na_values=()), repeat(block_rows(width)), {}):
        for name in filter(table.single, table.names):
            found.setdefault(name, SingleDecimals()).add(table.numeric(name))
    return {name: decimals.found for name, decimals in found.items()}
