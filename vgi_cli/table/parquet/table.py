"""A Parquet file, or a folder of them, as a table, whole or some rows at a time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from vgi_cli.columns.base import Distinct
from vgi_cli.columns.numerals import (
    Bools,
    Floats,
    Ints,
    Moments,
    Numbers,
    Spelling,
    Tick,
    What,
    at_decimals,
    plain,
    shorten,
)
from vgi_cli.columns.wording import kind_flag
from vgi_cli.errors import InputError
from vgi_cli.table.base import Table
from vgi_cli.table.inputs import Origin, TableFile, TableFiles
from vgi_cli.table.join import check_parquet, concatenate, opened, parquet_errors, whole_text
from vgi_cli.table.pandas_notes import categories
from vgi_cli.table.parquet.orders import common_order
from vgi_cli.table.partitions import with_partition
from vgi_cli.table.texts import encoded, parse

BATCH = 8192
"""Rows that Arrow decodes at a time."""
LEVELS_SHOWN = 6
"""Of an order, in messages."""
MILLISECONDS = 86_400_000
"""Of a day."""


def is_number(kind: pa.DataType) -> bool:
    """Integers, floats and decimals; truth values are categories."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def is_text(kind: pa.DataType) -> bool:
    """Strings, dictionary-encoded or not."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type of the values of a dictionary, any other type as it is."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


_CALLED = (
    (r"timestamp\[(s|ms|us|ns), tz=(.+)\]", lambda unit, zone: pa.timestamp(unit, zone)),
    (r"decimal32\((\d+), (-?\d+)\)", lambda digits, scale: pa.decimal32(int(digits), int(scale))),
    (r"decimal64\((\d+), (-?\d+)\)", lambda digits, scale: pa.decimal64(int(digits), int(scale))),
    (r"decimal128\((\d+), (-?\d+)\)", lambda digits, scale: pa.decimal128(int(digits), int(scale))),
    (r"decimal256\((\d+), (-?\d+)\)", lambda digits, scale: pa.decimal256(int(digits), int(scale))),
    (
        r"(large_)?list<(\w+): (.+)>",
        lambda large, item, kind: (pa.large_list if large else pa.list_)(pa.field(item, type_called(kind))),
    ),
    (r"fixed_size_binary\[(\d+)\]", lambda width: pa.binary(int(width))),
    (
        r"dictionary<values=(.+), indices=(u?int\d+), ordered=([01])>",
        lambda values, indices, ordered: pa.dictionary(type_called(indices), type_called(values), ordered == "1"),
    ),
)
"""How Arrow writes the types that have parameters, and the types of these."""


def type_called(text: str) -> pa.DataType | None:
    """The type that Arrow writes so; None where it is none of a single value or of a list of such."""
    for pattern, made in _CALLED:
        if (found := re.fullmatch(pattern, text)) is not None:
            try:
                return made(*found.groups())
            except (TypeError, ValueError):  # pa.ArrowException is a ValueError
                return None
    try:
        return pa.type_for_alias(text)
    except ValueError:
        return None


def what_of(kind: pa.DataType) -> What | None:
    """Whether a type is of dates, datetimes, times or durations."""
    if pa.types.is_date(kind):
        return "date"
    if pa.types.is_time(kind):
        return "time"
    return "datetime" if pa.types.is_timestamp(kind) else "duration" if pa.types.is_duration(kind) else None


def tick_of(kind: pa.DataType) -> Tick:
    """The tick of such a type: date64 counts milliseconds."""
    if pa.types.is_date(kind):
        return "D" if pa.types.is_date32(kind) else "ms"
    tick: Tick = kind.unit
    return tick


class ParquetTable(Table):
    """A table read from Parquet: the Arrow table stays as it was read."""

    def __init__(
        self,
        arrow: pa.Table,
        origin: Origin,
        index: Sequence[str],
        na_values: Sequence[str] = (),
        first: int = 0,
        decimals: Mapping[str, int | None] | None = None,
    ) -> None:
        """`decimals`: those of float32 columns, where these are rows of a larger table."""
        origin = origin._replace(format="parquet", names=tuple(arrow.column_names), N=arrow.num_rows)
        super().__init__(origin, index, na_values, first)
        self._decimals = decimals
        self.arrow = arrow

    def some_text(self, name: str, rows: Ints | None) -> npt.NDArray[np.object_]:
        i = self.place(name)
        column = self.arrow.column(i)
        if pa.types.is_string_view(self._type(i)) or pa.types.is_binary_view(self._type(i)):  # Arrow cannot take from
            column = column.cast(pa.large_string() if is_text(self._type(i)) else pa.large_binary())
        column = column if rows is None else column.take(pa.array(rows))
        if pa.types.is_floating(self._type(i)):
            absent = np.asarray(pc.is_null(column).to_numpy(), bool)
            values = self._floats(i) if rows is None else self._floats(i)[rows]
            cells = [None if a else plain(v) for v, a in zip(values.tolist(), absent.tolist(), strict=True)]
        else:
            try:
                cells = [None if v is None else str(v) for v in column.to_pylist()]
            except OverflowError:  # dates that Python does not have
                cells = [_text_of(cell) for cell in column]
        return np.array(cells, dtype=object)

    @cached_property
    def _categories(self) -> Mapping[str, bool]:
        return categories(self.arrow.schema, self.label)

    def typed(self, name: str) -> bool:
        return not is_number(self._type(self.place(name))) or name in self._categories

    def stored(self, name: str) -> str | None:
        kind = self._type(self.place(name))
        return str(kind) if type_called(str(kind)) == kind else None

    def textual(self, name: str) -> bool:
        return is_text(self._type(self.place(name)))

    def single(self, name: str) -> bool:
        return self.precision(name).itemsize < 8

    def precision(self, name: str) -> np.dtype[np.floating]:
        kind = self._type(self.place(name))
        return np.dtype(kind.to_pandas_dtype() if pa.types.is_floating(kind) else np.float64)

    def limits(self, name: str) -> tuple[float, float] | None:
        kind = self._type(self.place(name))
        if pa.types.is_decimal(kind):
            most = float(Decimal(10**kind.precision - 1).scaleb(-kind.scale))
            return -most, most
        if not pa.types.is_integer(kind):
            return None
        info = np.iinfo(kind.to_pandas_dtype())
        most = float(info.max)  # the float64 next to it may be one too many
        return float(info.min), most if int(most) <= info.max else float(np.nextafter(most, 0.0))

    def spelling(self, name: str) -> Spelling | None:
        return None

    def levelled(self, name: str) -> bool:
        kind = plain_type(self._type(self.place(name)))
        return is_number(kind) or is_text(kind) or bool(pa.types.is_boolean(kind))

    def dictionary(self, name: str) -> bool:
        return pa.types.is_dictionary(self._type(self.place(name))) or name in self._categories

    def distinct(self, name: str) -> Distinct:
        i, missing = self.place(name), self.missing(name)
        if is_text(self._type(i)):
            return encoded(self._strings(i), missing)
        if pa.types.is_floating(self._type(i)):
            values, places = np.unique(np.where(missing, np.nan, self._floats(i)), return_inverse=True)
            return Distinct([plain(value) for value in values.tolist()], np.where(missing, -1, places))
        kind = plain_type(self._type(i))
        if pa.types.is_decimal(kind) and kind.bit_width < 128:  # of which Arrow makes no dictionary
            kind = pa.decimal128(kind.precision, kind.scale)
        cells = self.arrow.column(i).cast(kind).combine_chunks().dictionary_encode()
        places = pc.fill_null(cells.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
        return Distinct([str(cell) for cell in cells.dictionary.to_pylist()], np.where(missing, -1, places))

    def scale(self, name: str) -> Sequence[str] | None:
        kind = self._type(self.place(name))
        if is_number(kind) and self._categories.get(name, False):
            return ()
        if not pa.types.is_dictionary(kind) or not kind.ordered or self.arrow.num_rows == 0:
            return None
        chunks = self.arrow.column(self.place(name)).chunks
        known = dict.fromkeys(tuple(str(cell).strip() for cell in one.dictionary.to_pylist()) for one in chunks)
        found = common_order(list(known))
        if found is None:
            one, other = list(known)[:2]
            raise InputError(
                f"{self.label}: column '{name}' has levels in an order, but not in one: {_chain(one)} here, "
                f"{_chain(other)} there",
                f"`{kind_flag(name, 'ordinal:LEVEL,LEVEL,...')}` says the order, "
                f"`{kind_flag(name, 'categorical')}` drops it",
            )
        return found

    def moments(self, name: str) -> Moments | None:
        kind = plain_type(self._type(self.place(name)))
        what = what_of(kind)
        if what is None:
            return None
        column = self.arrow.column(self.place(name)).cast(kind)
        ticks = column.cast(pa.int32()) if kind.bit_width == 32 else column
        numbers = np.asarray(pc.fill_null(ticks.cast(pa.int64()), 0).to_numpy(), np.int64)
        if what == "date":
            return Moments(what, numbers if kind.bit_width == 32 else numbers // MILLISECONDS, "D", None)
        return Moments(what, numbers, tick_of(kind), kind.tz if what == "datetime" else None)

    def where(self, row: int) -> str:
        return f"row {self.first + row + 1}"

    def _type(self, i: int) -> pa.DataType:
        return self.arrow.schema.field(i).type

    def _missing(self, i: int) -> Bools:
        column = self.arrow.column(i)
        absent = np.asarray(pc.is_null(column, nan_is_null=True).to_numpy(), bool)
        for tokens in self.tokens(self.names[i]):
            if is_text(self._type(i)):
                absent |= tokens.in_texts(self._strings(i).fill_null(""))
            elif is_number(self._type(i)):
                absent |= tokens.in_numbers(self._floats(i))
            elif what_of(self._type(i)) in ("date", "datetime"):
                absent |= tokens.in_moments(column)
        return absent

    def _strings(self, i: int) -> pa.Array:
        column = self.arrow.column(i).cast(pa.large_string()).combine_chunks()
        return pc.utf8_trim_whitespace(column)

    def _floats(self, i: int) -> Floats:
        column = self.arrow.column(i)
        if pa.types.is_decimal(self._type(i)):
            column = column.cast(pa.string())  # the cast of decimals to float64 is not correctly rounded
        values = np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), np.float64)
        if not self.single(self.names[i]):
            return values
        known = self._decimals
        if known is None:
            return shorten(values)
        fractions = at_decimals(values, known.get(self.names[i]))
        return np.where(fractions.astype(np.float32) == values, fractions, values)

    def _read_numbers(self, i: int, missing: Bools) -> Numbers:
        kind = self._type(i)
        if is_number(kind):
            return Numbers(np.where(missing, np.nan, self._floats(i)), ~missing, np.zeros(self.N, bool))
        if is_text(kind):
            return parse(self._strings(i), missing)
        if pa.types.is_dictionary(kind) and is_number(kind.value_type) and not pa.types.is_decimal(kind.value_type):
            cells = self.arrow.column(i).cast(kind.value_type).cast(pa.float64(), safe=False)
            return Numbers(np.where(missing, np.nan, cells.to_numpy()), ~missing, np.zeros(self.N, bool))
        nothing = np.zeros(self.N, bool)
        return Numbers(np.full(self.N, np.nan), nothing, nothing)


def _text_of(cell: pa.Scalar) -> str | None:
    """A cell as Python writes it; of a moment that Python does not have its number, in the unit of the column."""
    try:
        value = cell.as_py()
    except OverflowError:
        value = cell.value
    return None if value is None else str(value)


def _chain(levels: Sequence[str]) -> str:
    shown = " < ".join(f"'{level}'" for level in levels[:LEVELS_SHOWN])
    return shown + (" < …" if len(levels) > LEVELS_SHOWN else "")


def binary(table: Table, name: str) -> Floats:
    """[N] the numbers of a column, with the truth values of a Parquet file as 0 and 1: for masks."""
    if isinstance(table, ParquetTable) and pa.types.is_boolean(table.arrow.schema.field(table.place(name)).type):
        column = table.arrow.column(table.place(name))
        return np.asarray(column.cast(pa.int8()).cast(pa.float64()).to_numpy(), np.float64)
    return table.numeric(name)


def parquet_frame(files: Sequence[TableFile]) -> tuple[pa.Table, list[str]]:
    """The joined table without its rows, and the names of the columns that number the rows."""
    empty = []
    for one in files:
        with one.open() as file, parquet_errors(one.label):
            rows = opened(file, one.label).schema_arrow.empty_table()
            empty.append((one.label, with_partition(rows, one.partition, one.label)))
    index = check_parquet(empty)
    return concatenate([table for _, table in empty], files[0].label), index


def parquet_rows(files: Sequence[TableFile]) -> list[int]:
    """How many rows each file has."""
    rows = []
    for one in files:
        with one.open() as file, parquet_errors(one.label):
            rows.append(int(opened(file, one.label).metadata.num_rows))
    return rows


def parquet_tables(
    table: TableFiles, rows: Iterator[int], decimals: Mapping[str, int | None], first: int = 0
) -> Iterator[Table]:
    """The rows of all files from row `first` (from 0) on, as many at a time as `rows` says (fewer at the end);
    decimals: see ParquetTable."""
    frame, index = parquet_frame(table.files)
    for part in cut(_batches(table.files, frame, first), rows):
        yield ParquetTable(part.combine_chunks(), table.origin, index, table.na_values, first, decimals)
        first += part.num_rows


def _batches(files: Sequence[TableFile], frame: pa.Table, skip: int) -> Iterator[pa.Table]:
    """Rows of the files in the types of the joined table, but for the first `skip`; whole row groups of these are not
    read."""
    for one in files:
        with one.open() as file, parquet_errors(one.label):
            parquet = opened(file, one.label, buffer_size=1 << 16, pre_buffer=False)
            group, groups = 0, parquet.num_row_groups
            while skip and group < groups and skip >= (rows := parquet.metadata.row_group(group).num_rows):
                skip, group = skip - rows, group + 1
            if group == groups:
                continue
            for batch in parquet.iter_batches(BATCH, row_groups=list(range(group, groups))):
                skip, left = max(0, skip - batch.num_rows), batch.slice(skip)
                if not left.num_rows:
                    continue
                part = whole_text(pa.Table.from_batches([left])).replace_schema_metadata(parquet.schema_arrow.metadata)
                part = with_partition(part, one.partition, one.label)
                yield part if len(files) == 1 else concatenate([frame, part], one.label)


def cut(parts: Iterable[pa.Table], rows: Iterator[int]) -> Iterator[pa.Table]:
    """Tables below each other, cut into parts of as many rows as `rows` says (the last may have fewer)."""
    held: list[pa.Table] = []
    wanted = next(rows)
    for part in parts:
        held.append(part)
        while sum(table.num_rows for table in held) >= wanted:
            whole = pa.concat_tables(held)
            yield whole.slice(0, wanted)
            held = [whole.slice(wanted)]
            wanted = next(rows)
    if sum(table.num_rows for table in held):
        yield pa.concat_tables(held)
