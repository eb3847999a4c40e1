"""Tables that are read block by block, as often as is needed, in memory that does not grow with their rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from pathlib import Path
from typing import BinaryIO, NamedTuple

from vgi_cli.columns.numerals import SingleDecimals
from vgi_cli.errors import InputError
from vgi_cli.table.base import Table
from vgi_cli.table.csv.rows import csv_tables
from vgi_cli.table.inputs import Origin, TableFile, TableFiles
from vgi_cli.table.parquet.table import parquet_frame, parquet_tables
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
    mask: Path | None = None,
    na_values: Sequence[str] = (),
    delimiter: str | None = None,
    stdin: BinaryIO | None = None,
    decimal: str | None = None,
) -> Source:
    """Open files as one table; arguments and errors as `read_table`. Every row is looked at before this returns.

    Standard input and compressed files are copied to temporary files.
    """
    named = name_table(paths, mask, na_values, delimiter, stdin, decimal)
    try:
        return _Files(named)
    except InputError:
        table_in_memory(named)  # says which row of the whole table is wrong, and what is wrong with it first of all
        raise


class _Files(Source):
    """The rows of files. A table of one block is read once and kept."""

    def __init__(self, named: TableFiles) -> None:
        self._named = named
        self._decimals: dict[str, int | None] = {}
        if named.parquet:
            self._width = parquet_frame(named.files)[0].num_columns
            self._decimals = _single_decimals(named, self._width)
        else:
            table = next(csv_tables(TableFiles.of(named.files[0]), repeat(1)), None)
            self._width = 1 if table is None else len(table.names)
        self.origin = named.origin
        self._kept: Block | None = None
        kept: Block | None = None
        for block in self._read():
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
            yield from self._read()

    def _read(self) -> Iterator[Block]:
        named = self._named
        first = 0
        masks = None if named.mask is None else _Masks(named.mask)
        for table in _tables(named, repeat(block_rows(self._width)), self._decimals):
            if masks is not None:
                table.hidden = hidden_cells(table, masks.take(table.N))
            yield Block(first, table)
            first += table.N
        if masks is not None:
            masks.require_end()
        for file in (*named.files, *([] if named.mask is None else [named.mask])):
            file.require_unchanged()


def _tables(named: TableFiles, rows: Iterator[int], decimals: Mapping[str, int | None]) -> Iterator[Table]:
    return parquet_tables(named, rows, decimals) if named.parquet else csv_tables(named, rows)


class _Masks:
    """The rows of a mask file, as many at a time as the table has."""

    def __init__(self, file: TableFile) -> None:
        self._label = file.label
        self._wanted = 1
        rows = iter(lambda: self._wanted, 0)
        self._tables = _tables(TableFiles.of(file), rows, {})

    def take(self, rows: int) -> Table:
        """The next rows. InputError where the mask has fewer."""
        self._wanted = rows
        table = next(self._tables, None)
        if table is None or rows != table.N:
            raise InputError(f"{self._label}: the mask has fewer rows than the table", "give both the same rows")
        return table

    def require_end(self) -> None:
        """InputError where the mask has more rows than the table."""
        self._wanted = 1
        if next(self._tables, None) is not None:
            raise InputError(f"{self._label}: the mask has more rows than the table", "give both the same rows")


def _single_decimals(named: TableFiles, width: int) -> dict[str, int | None]:
    """The decimals of the float32 columns of Parquet files (see SingleDecimals)."""
    found: dict[str, SingleDecimals] = {}
    for table in parquet_tables(named._replace(na_values=()), repeat(block_rows(width)), {}):
        for name in filter(table.single, table.names):
            found.setdefault(name, SingleDecimals()).add(table.numeric(name))
    return {name: decimals.found for name, decimals in found.items()}
