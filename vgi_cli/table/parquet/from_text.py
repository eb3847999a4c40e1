"""The Arrow types of tables that were read as text (CSV): numbers where no observed cell changes by it, else texts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vgi_cli.columns.number import Constant
from vgi_cli.columns.numerals import EXACT, Bools, Floats, Ints, plain
from vgi_cli.columns.schema import Schema
from vgi_cli.table.base import Table
from vgi_cli.table.parquet.table import ParquetTable
from vgi_cli.table.texts import with_point

_DIGITS = re.compile(r"[+-]?[0-9]+")
_WHOLE = r"^(0|-?[1-9][0-9]*)$"
"""Whole numbers as an integer is written."""
_UNKNOWN = -1
_FIXED = re.compile(r"-?(?:0|[1-9][0-9]*)\.([0-9]+)")
"""Numbers with as many decimals as the group has digits."""


class Types:
    """The types of a table as Arrow, from all of its rows, which may come in blocks (`see`): the file's own where it
    was Parquet. Of texts:

    columns that are filled  int64 where all observed cells are whole numbers (uint64 where only that holds them),
                             float64 where they are numbers that it holds, else text
    other columns            the same, but numbers only where these give back the text of each cell: as Arrow writes an
                             integer, as Python writes a float, or all with the same number of decimals. `007`, `+1`,
                             `1e2` and numbers of too many digits stay texts
    """

    def __init__(self, schema: Schema) -> None:
        self._filled = {column.name: column for column in [*schema.encoded, *schema.constants]}
        self._own: pa.Schema | None = None
        self._seen: dict[str, _Seen] = {}

    def see(self, table: Table) -> None:
        """Look at some rows."""
        if isinstance(table, ParquetTable):
            self._own = table.arrow.schema
            return
        for name in table.names:
            if name not in self._seen:
                column = self._filled.get(name)
                self._seen[name] = _Seen(column is not None, isinstance(column, Constant))
            self._seen[name].see(table, name)

    def found(self) -> pa.Schema:
        """The types, when all rows were seen."""
        if self._own is not None:
            return self._own
        return pa.schema([(name, seen.kind()) for name, seen in self._seen.items()])


def arrow_schema(table: Table, schema: Schema) -> pa.Schema:
    """The types of a whole table as Arrow, see `Types`."""
    types = Types(schema)
    types.see(table)
    return types.found()


def as_arrow(table: Table, schema: pa.Schema) -> pa.Table:
    """A table as Arrow in the types that `Types` found."""
    if isinstance(table, ParquetTable):
        return table.arrow
    return pa.table([_read_column(table, field.name, field.type) for field in schema], schema=schema)


class _Seen:
    """What the observed cells of one column of texts are.

    filled     whether the column is filled; `constant`: with the one number that it holds
    empty      whether there is none
    numbers    whether all are finite numbers
    small      whether all are whole and below those of which float64 leaves some out
    whole      whether all are whole numbers; of a column that is not filled as an integer is written
    low, high  the least and the greatest of those that are whole
    held       whether float64 holds all as they are written, or as close as a text with a power of ten says
    shortest, plain, decimals  of a column that is not filled: whether all are written as Python writes a float, whether
               all are but for `.0`, and how many decimals all have (None: not the same number)
    """

    def __init__(self, filled: bool, constant: bool) -> None:
        self.filled, self.constant = filled, constant
        self.empty = self.numbers = self.small = self.whole = self.held = self.shortest = self.plain = True
        self.low = self.high = 0
        self.decimals: int | None = _UNKNOWN

    def see(self, table: Table, name: str) -> None:
        """Look at some rows."""
        observed = ~table.missing(name)
        if not observed.any():
            return
        self.empty = False
        numbers = table.numbers(name)
        values = numbers.values[observed]
        self.numbers &= bool(numbers.number[observed].all() and np.isfinite(values).all())
        if not self.numbers:
            return
        large = np.abs(values) >= EXACT
        self.small &= bool((values == np.rint(values)).all() and not large.any())
        if self.filled:
            texts: list[str] = _texts(table, name, np.flatnonzero(observed)[large]).to_pylist()
            self.whole &= bool((values == np.rint(values)).all()) and all(map(_DIGITS.fullmatch, texts))
            self.held &= all(map(_held, texts, values[large].tolist()))
        else:
            written = _texts(table, name, np.flatnonzero(observed))
            self._compare(written, values, large)
            texts = written.filter(pa.array(large)).to_pylist() if self.whole else []
        if self.whole:
            self._reach([*map(int, texts), *(int(end(values[~large], initial=0.0)) for end in (np.min, np.max))])

    def _compare(self, written: pa.Array, values: Floats, large: Bools) -> None:
        """Look at how cells are written that have these values."""
        whole = bool(pc.all(pc.match_substring_regex(written, _WHOLE)).as_py())
        self.whole &= whole
        if whole and not large.any():  # no `.0`, and no digit that a float64 leaves out
            self.shortest, self.decimals = False, None
            return
        if not (self.shortest or self.plain or self.decimals is not None):
            return
        texts, numbers = written.to_pylist(), values.tolist()
        self.shortest = self.shortest and texts == [repr(value) for value in numbers]
        self.plain = self.plain and texts == [plain(value) for value in numbers]
        if self.decimals is not None:
            fixed = {match and len(match[1]) for match in map(_FIXED.fullmatch, texts)}
            (count,) = fixed if len(fixed) == 1 else (None,)
            same = count is not None and self.decimals in (count, _UNKNOWN)
            self.decimals = count if same and texts == [f"{value:.{count}f}" for value in numbers] else None

    def _reach(self, numbers: Sequence[int]) -> None:
        self.low, self.high = min(self.low, *numbers), max(self.high, *numbers)

    def kind(self) -> pa.DataType:
        """The type that holds them."""
        if self.empty:
            return pa.null()
        if not self.numbers:
            return pa.string()
        if self.filled and self.small:
            return pa.int64()
        if self.whole and not self.constant:
            for kind in (np.int64, np.uint64):
                if np.iinfo(kind).min <= self.low and self.high <= np.iinfo(kind).max:
                    return pa.from_numpy_dtype(kind)
        held = self.held if self.filled else self.shortest or self.plain or self.decimals is not None
        return pa.float64() if held else pa.string()


def _held(text: str, value: float) -> bool:
    """Whether a float64 is the number that a text without a power of ten says."""
    return "e" in text.lower() or Decimal(text) in (Decimal(value), Decimal(repr(value)))


def _texts(table: Table, name: str, rows: Ints) -> pa.Array:
    """The texts of some cells that are numbers, with a point before their decimals and no blanks around."""
    cells = pa.array(table.some_text(name, rows) if len(rows) else [], pa.large_string())
    return with_point(pc.utf8_trim_whitespace(cells), table.decimal)


def _read_column(table: Table, name: str, kind: pa.DataType) -> pa.Array:
    if kind == pa.null():
        return pa.nulls(table.N)
    if kind == pa.string():
        return pa.array(table.text(name), pa.string())
    values, missing = table.numeric(name), table.missing(name)
    if pa.types.is_integer(kind) and (large := ~missing & (np.abs(values) >= EXACT)).any():
        return _integers(table, name, values, large, kind)
    return pa.array(values, pa.float64(), mask=missing).cast(kind)


def _integers(table: Table, name: str, values: Floats, large: Bools, kind: pa.DataType) -> pa.Array:
    """A column of whole numbers, `large` ones from their texts."""
    missing = table.missing(name)
    whole = np.where(missing | large, 0.0, values).astype(kind.to_pandas_dtype())
    texts = pc.replace_substring_regex(_texts(table, name, np.flatnonzero(large)), r"^\+", "")
    whole[large] = texts.cast(kind).to_numpy()
    return pa.array(whole, kind, mask=missing)
