"""Tables in memory: pandas DataFrames and Arrow tables in, completed ones out."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from numbers import Number
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from vgi_cli.columns.numerals import EXACT, Floats
from vgi_cli.columns.schema import Schema
from vgi_cli.errors import InputError
from vgi_cli.table.base import Table
from vgi_cli.table.csv.text import check_names
from vgi_cli.table.draws import HeldDraws
from vgi_cli.table.fills import find_holes, find_styles
from vgi_cli.table.inputs import Origin
from vgi_cli.table.pandas_notes import row_index
from vgi_cli.table.parquet.from_text import arrow_schema, as_arrow
from vgi_cli.table.parquet.table import ParquetTable
from vgi_cli.table.parquet.write import blank_arrow, parquet_bytes
from vgi_cli.table.source import Whole
from vgi_cli.table.writer import Content, Say, files_arrow, long_arrow

Frame: TypeAlias = Any
"""A pandas DataFrame or an Arrow table."""


@runtime_checkable
class ArrowStream(Protocol):
    """What exports its columns as Arrow (polars and others), by the Arrow PyCapsule interface."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """A capsule with a stream of record batches."""


def is_frame(data: object) -> Literal["", "pandas", "arrow"]:
    """Whether something is a table in memory, and of which library (pandas is only looked at if it is loaded)."""
    if isinstance(data, pa.Table):
        return "arrow"
    kinds = ((kind.__module__.partition(".")[0], kind.__name__) for kind in type(data).__mro__)
    return "pandas" if ("pandas", "DataFrame") in kinds else ""


def exported(source: ArrowStream) -> pa.Table | None:
    """The table of what exports its columns, its texts in the layout that every function of Arrow knows; None of one
    column alone."""
    try:
        return _without_views(pa.table(source))
    except (TypeError, ValueError):
        return None


def _without_views(table: pa.Table) -> pa.Table:
    """The table with its texts in offsets, not in views."""
    for place, field in enumerate(table.schema):
        column = table.column(place)
        if pa.types.is_string_view(field.type):
            table = table.set_column(place, field.name, column.cast(pa.large_string()))
        elif pa.types.is_dictionary(field.type) and pa.types.is_string_view(field.type.value_type):
            ordered = field.type.ordered
            chunks = [
                pa.DictionaryArray.from_arrays(chunk.indices, chunk.dictionary.cast(pa.large_string()), ordered=ordered)
                for chunk in column.unify_dictionaries().chunks
            ]
            table = table.set_column(place, field.name, pa.chunked_array(chunks))
    return table


def from_frame(frame: Frame) -> ParquetTable:
    """A DataFrame (its index is carried) or an Arrow table as a Table. InputError where it has no rows or columns."""
    arrow = frame if isinstance(frame, pa.Table) else arrow_of_pandas(frame, "the table in memory")
    if arrow.num_columns == 0 or arrow.num_rows == 0:
        raise InputError("the table in memory is empty", "expected at least one column and one row")
    check_names(arrow.column_names, "the table in memory")
    index = row_index(arrow.schema, "the table in memory")
    try:
        digest = hashlib.sha256(parquet_bytes(arrow.replace_schema_metadata(None))).hexdigest()
    except _NOT_IN_PARQUET as error:
        name = next((name for name in arrow.column_names if not _storable(arrow.select([name]))), "")
        what = f"the table in memory cannot be read: column '{name}': {error}"
        raise InputError(what, "drop the column or cast it (categories of intervals: `.astype(str)`)") from None
    table = ParquetTable(arrow, Origin("table", ".parquet", "the table", digest), index)
    table.in_memory = True
    return table


_NOT_IN_PARQUET = (pa.ArrowException, OSError)
"""What Arrow raises for types that Parquet does not have."""
_UNREADABLE = (pa.ArrowException, ValueError, TypeError, OverflowError)
"""What Arrow raises for columns of pandas that it does not read."""


def arrow_of_pandas(frame: Frame, label: str, index: bool | None = None) -> pa.Table:
    """A pandas DataFrame as Arrow; `index` as `preserve_index` of Arrow. InputError that names the first column that
    cannot be read, and why."""
    frame = _in_native_order(frame)
    try:
        return pa.Table.from_pandas(frame, preserve_index=index)
    except _UNREADABLE as error:
        check_names([str(name) for name in frame.columns], label)
        for place, name in enumerate(frame.columns):
            try:
                pa.Array.from_pandas(frame.iloc[:, place])
            except _UNREADABLE as reason:
                raise InputError(*_unreadable(frame.iloc[:, place], f"{label}: column '{name}'", reason)) from None
        raise InputError(
            f"{label} cannot be read: {error.args[0]}", "`.reset_index(drop=True)` drops its index"
        ) from None


def native(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The same type of numbers in the order of bytes of this machine, which Arrow asks for: those of FITS and IDL are
    big-endian."""
    return dtype.newbyteorder("=")


def _in_native_order(frame: Frame) -> Frame:
    """A DataFrame, its columns and index of numpy types in the order of bytes of this machine."""
    foreign = [j for j, kind in enumerate(frame.dtypes) if isinstance(kind, np.dtype) and not kind.isnative]
    if foreign:
        frame = frame.copy()
        for j in foreign:
            frame.isetitem(j, frame.iloc[:, j].astype(native(frame.dtypes.iloc[j])))
    kind = frame.index.dtype
    if isinstance(kind, np.dtype) and not kind.isnative:
        frame = frame.set_axis(frame.index.astype(native(kind)))
    return frame


def _unreadable(column: Any, where: str, reason: Exception) -> tuple[str, str]:
    """What is wrong with a column of pandas, and what to do."""
    if str(column.dtype).startswith("Sparse["):
        return f"{where} is sparse", "`column.sparse.to_dense()` makes a plain one of it"
    if column.dtype.kind == "c":
        return f"{where} holds complex numbers", "give their real and imaginary parts as columns"
    first: tuple[int, str] | None = None
    for row in np.flatnonzero(column.notna().to_numpy()) if column.dtype == object else ():
        cell = column.iloc[row]
        kind = type(cell).__name__
        kind = "a number" if isinstance(cell, Number) and kind != "bool" else kind
        if first is not None and kind != first[1]:
            what = f"{first[1]} in row {first[0] + 1}, {kind} in row {row + 1}"
            return (
                f"{where} holds cells of several types: {what}",
                "give it one; `column.astype('string')` makes texts of all",
            )
        first = first or (int(row), kind)
    return (
        f"{where} cannot be read: {reason.args[0]}",
        "drop the column or cast it (`column.astype('string')` makes texts)",
    )


def _storable(arrow: pa.Table) -> bool:
    """Whether Parquet has the types of a table."""
    try:
        parquet_bytes(arrow.replace_schema_metadata(None))
    except _NOT_IN_PARQUET:
        return False
    return True


def in_pandas(arrow: pa.Table) -> Frame:
    """An Arrow table as a pandas DataFrame. Whole numbers beside holes become floats, as pandas has it, but where these
    do not hold them: Int64 or UInt64. InputError that names the first column that pandas cannot hold."""
    try:
        frame = arrow.to_pandas()
    except _UNREADABLE:
        for name in arrow.column_names:
            try:
                arrow.select([name]).replace_schema_metadata(None).to_pandas()
            except _UNREADABLE as reason:
                raise InputError(
                    f"column '{name}' ({arrow.schema.field(name).type}) cannot be put into pandas: {reason.args[0]}",
                    "give an Arrow table, and Arrow tables come back; or write files, with `out`",
                ) from None
        raise
    for place, name in enumerate(map(str, frame.columns)):
        if frame.dtypes.iloc[place] == np.float64 and (at := arrow.schema.get_field_index(name)) >= 0:
            column = arrow.column(at)
            if not pa.types.is_integer(column.type):
                continue
            ends = pc.min_max(column).as_py()
            if max(-(ends["min"] or 0), ends["max"] or 0) > EXACT:
                frame.isetitem(place, _nullable(column).set_axis(frame.index))
    return frame


def _nullable(column: pa.ChunkedArray) -> Any:
    """A column of integers as a pandas Series of whole numbers that may be missing."""
    import pandas as pd

    kind = pd.UInt64Dtype() if column.type == pa.uint64() else pd.Int64Dtype()
    return pd.Series(kind.__from_arrow__(column))


def to_frames(
    table: Table,
    schema: Schema,
    draws: Floats,
    arrow: bool,
    long: bool = False,
    original: bool = True,
    *,
    say: Say,
) -> list[Frame] | Frame:
    """One completed table per draw [m, N, D] (data units), all of the same types, or all in one (`long`, see
    `long_arrow`): Arrow tables, else pandas DataFrames. `say` is told which columns change their type."""
    content = Content(Whole(table), schema, find_styles([table], schema), HeldDraws(np.asarray(draws, np.float64)))
    if long:
        one = long_arrow(content, original, say)
        return one if arrow else _indexed(in_pandas(one), [name for name in table.names if name in table.index])
    filled = files_arrow(content, say)
    return filled if arrow else [in_pandas(one) for one in filled]


def content_frame(content: Content, *, say: Say) -> Frame:
    """What would be written of the first draw, as a pandas DataFrame; `say` as in `to_frames`."""
    return in_pandas(files_arrow(content, say)[0])


def blank_frame(table: Table, schema: Schema, arrow: bool) -> Frame:
    """A table as it is, with nothing in the holes of the columns that a model fills, hidden cells included: an Arrow
    table, else a pandas DataFrame."""
    blank = blank_arrow(
        as_arrow(table, arrow_schema(table, schema)), find_holes(table, schema, find_styles([table], schema))
    )
    return blank if arrow else in_pandas(blank)


def columns_frame(columns: Mapping[str, Sequence[Any]], arrow: bool) -> Frame:
    """Columns of equal length, name -> values (None: missing), as an Arrow table or a pandas DataFrame."""
    table = pa.table({name: list(values) for name, values in columns.items()})
    return table if arrow else table.to_pandas()


def named_columns(frame: Frame) -> list[str] | None:
    """The names of the columns of a DataFrame or an Arrow table; None where they are not all texts."""
    names = frame.column_names if isinstance(frame, pa.Table) else list(frame.columns)
    return list(names) if all(isinstance(name, str) for name in names) else None


def columns_array(frame: Frame) -> npt.NDArray[Any]:
    """The columns of a DataFrame or an Arrow table side by side [rows, columns], as an array."""
    if not isinstance(frame, pa.Table):
        return np.asarray(frame)
    return np.array([column.to_pylist() for column in frame.columns]).reshape(frame.num_columns, -1).T


def _indexed(frame: Frame, names: list[str]) -> Frame:
    """A DataFrame with the columns of these names, if any, as its index again."""
    if not names:
        return frame
    frame = frame.set_index(names)
    return frame.rename_axis([None if name.startswith("__index_level_") else name for name in names])


def frame_of(columns: Mapping[str, Any], rows: Sequence[str], name: str) -> Frame:
    """A DataFrame of columns by name, its rows named, and these names' own name."""
    import pandas as pd

    return pd.DataFrame(dict(columns), index=pd.Index(rows, name=name))
