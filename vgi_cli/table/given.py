"""What the estimators are handed: an array, a DataFrame or what exports Arrow; completed, it has its type again."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from vgi_cli.columns.numerals import Bools, SingleDecimals, at_decimals
from vgi_cli.errors import InputError, InvalidCells, InvalidInput, InvalidParameter
from vgi_cli.table.base import Table
from vgi_cli.table.csv.text import check_names
from vgi_cli.table.frames import ArrowStream, Frame, arrow_of_pandas, exported, from_frame, in_pandas, is_frame, native

OUTPUTS = ("default", "pandas", "polars")
"""What `set_output` takes."""


@dataclass(frozen=True)
class Given:
    """A table as an estimator was handed it.

    source    an array [N, d], a pandas DataFrame, an Arrow table, or another object that exports Arrow
    arrow     the same cells under `names`; what was float32 is float64, as the decimal fractions it was written as
    named     whether the names are its own; otherwise they are x0, x1, …
    types     the Arrow types of the source
    decimals  of each column that was float32, by place: those of its fractions, None where it has none
    """

    source: Any
    arrow: pa.Table
    named: bool
    types: pa.Schema
    decimals: Mapping[int, int | None]

    @property
    def names(self) -> list[str]:
        """Of its columns."""
        return list(self.arrow.column_names)

    def called(self, names: Sequence[str]) -> Given:
        """The same under other names."""
        notes = self.arrow.schema.metadata if list(names) == self.names else None
        return replace(self, arrow=self.arrow.rename_columns(list(names)).replace_schema_metadata(notes))

    def table(self) -> Table:
        """Its cells as commands read them. InputError where it cannot be read."""
        return from_frame(self.arrow)

    def emptied(self) -> Given:
        """The same without a row: what is left of it knows the type."""
        arrow = self.arrow.slice(0, 0)
        if isinstance(self.source, np.ndarray):
            return replace(self, source=self.source[:0], arrow=arrow)
        if library_of(self.source) in ("pandas", "polars"):
            return replace(self, source=self.source.head(0), arrow=arrow)
        return replace(self, source=arrow, arrow=arrow)

    def of_rows(self, frame: Frame) -> Frame:
        """Other rows, a pandas DataFrame with the same columns in the same order, as the type of this table. A column
        keeps its type where this holds the cells."""
        arrow = pa.Table.from_pandas(frame, preserve_index=False)
        kept = set[int]()
        for j, field in enumerate(self.types):
            with suppress(pa.ArrowException):
                arrow = arrow.set_column(j, field.name, arrow.column(j).cast(field.type))
                kept.add(j)
        if isinstance(self.source, np.ndarray):
            out = np.empty(arrow.shape, self.source.dtype)
            for j in range(arrow.num_columns):
                out[:, j] = arrow.column(j).to_numpy()
            return out
        if is_frame(self.source) == "pandas":
            made = arrow.replace_schema_metadata(self.types.metadata).to_pandas()
            for j in kept:
                made.isetitem(j, made.iloc[:, j].astype(self.source.dtypes.iloc[j]))
            return made.set_axis(self.source.columns, axis=1)
        return self._in_polars(arrow, kept) if library_of(self.source) == "polars" else arrow

    def _in_polars(self, arrow: pa.Table, kept: Collection[int]) -> Frame:
        """The table in polars, columns that are `kept` in the types of the source."""
        types = self.source.dtypes
        names = {name: types[j] for j, name in enumerate(arrow.column_names) if j in kept}
        return as_library(arrow, "polars", None).cast(names)

    def completed(self, table: Table, filled: pa.Table) -> Frame:
        """A copy of the source with the fills of `filled` (the Arrow table that was made of `table`): every cell that
        was observed stays as it is, and every column keeps its type where this can hold the fills."""
        fills = {j: table.missing(name) for j, name in enumerate(self.names)}
        fills = {j: holes for j, holes in fills.items() if holes.any()}
        if isinstance(self.source, np.ndarray):
            return _filled_array(self.source, filled, fills)
        kept = {j for j in fills if filled.schema.field(j).type == self.arrow.schema.field(j).type}
        if is_frame(self.source) == "pandas":
            return _filled_pandas(self.source, filled, fills, kept)
        kept |= set(range(len(self.names))) - fills.keys()
        for j in kept & self.decimals.keys():
            filled = filled.set_column(j, filled.schema.names[j], filled.column(j).cast(self.types.field(j).type))
        return self._in_polars(filled, kept) if library_of(self.source) == "polars" else filled


def given(X: Any, estimator: str, decimals: Mapping[int, int | None] | None = None) -> Given:
    """What an estimator of that name was handed as a table.

    decimals  of a table that was given before: columns of float32 are read with these, so that a row is read alike
              whatever stands beside it

    InvalidInput or InvalidCells, which are a ValueError and a TypeError, where it is none.
    """
    if type(X).__module__.startswith("scipy.sparse"):
        raise InvalidInput(f"{estimator} does not take sparse data", "X.toarray() makes an array of it")
    if is_frame(X) == "pandas":
        _refuse_empty(X.shape)
        source, arrow, named = _from_pandas(X)
    elif isinstance(X, ArrowStream) and (stream := exported(X)) is not None:
        source, arrow, named = X, stream, True
        _refuse_empty(arrow.shape)
    else:
        source, arrow, named = _from_array(X)
    types, found = arrow.schema, {}
    for j, field in enumerate(types):
        if pa.types.is_float32(field.type) or pa.types.is_float16(field.type):
            cells = arrow.column(j).cast(pa.float64()).to_numpy()
            found[j] = SingleDecimals().add(cells).found if decimals is None else decimals.get(j)
            short = at_decimals(cells, found[j])
            written = np.where(short.astype(np.float32) == cells, short, cells)
            arrow = arrow.set_column(j, field.name, pa.array(written, from_pandas=True))
    return Given(source, arrow, named, types, found)


def _refuse_empty(shape: tuple[int, ...]) -> None:
    """InvalidInput for a table without rows or columns."""
    for count, what in zip(shape, ("sample", "feature"), strict=True):
        if count == 0:
            raise InvalidInput(f"Found array with 0 {what}(s) (shape={shape}) while a minimum of 1 is required.")


def plain_names(count: int) -> list[str]:
    """What columns without names are called: x0, x1, …"""
    return [f"x{j}" for j in range(count)]


def select(frame: Frame, places: Sequence[int], names: Sequence[str] | None) -> Frame:
    """Some columns of an array or a table, under other names (None: their own); what these are of (`columns.name` of
    pandas) stays."""
    if isinstance(frame, np.ndarray):
        return frame if list(places) == list(range(frame.shape[1])) else frame[:, list(places)]
    library = library_of(frame)
    if library == "pandas":
        some = frame.iloc[:, list(places)]
        name = some.columns.name
        return some if names is None else some.set_axis(list(names), axis=1).rename_axis(columns=name)
    if library == "polars":
        some = frame[:, list(places)]
        return some if names is None else some.rename(dict(zip(some.columns, names, strict=True)))
    some = frame.select(list(places))
    return some if names is None else some.rename_columns(list(names))


def as_library(frame: Frame, library: str, names: Sequence[str] | None, index: Any = None) -> Frame:
    """An array or a table as a DataFrame of `pandas` or `polars`.

    names  of the columns of an array
    index  of the rows, for pandas; None: that of the frame, if it has one

    InvalidParameter where the library is not installed.
    """
    if library_of(frame) == library:
        return frame
    if isinstance(frame, np.ndarray):
        assert names is not None
        frame = pa.table({name: _arrow_column(frame[:, j], name) for j, name in enumerate(names)})
    elif is_frame(frame) == "pandas":
        frame = pa.Table.from_pandas(frame, preserve_index=False)
    elif not isinstance(frame, pa.Table):
        frame = pa.table(frame)
    if library == "pandas":
        made = in_pandas(frame)
        return made if index is None else made.set_axis(index)
    try:
        import polars
    except ImportError:
        raise InvalidParameter("set_output: polars is not installed", "pip install polars") from None
    return polars.from_arrow(frame)


def index_of(X: Any) -> Any:
    """The row index of a pandas DataFrame; None of anything else."""
    return X.index if is_frame(X) == "pandas" else None


def library_of(frame: Any) -> str:
    """The package that a table is of."""
    return is_frame(frame) or type(frame).__module__.partition(".")[0]


# --- arrays ---


def _from_array(X: Any) -> tuple[npt.NDArray[Any], pa.Table, bool]:
    if np.ma.isMaskedArray(X):
        raise InvalidInput("masked arrays are not taken", "X.filled(numpy.nan) has NaN where it is masked")
    array = np.asarray(X)
    if array.ndim == 0:
        hint = "an array, a DataFrame of pandas or polars, or an Arrow table; of a LazyFrame X.collect() makes one"
        raise InvalidInput(f"expected a table, got {type(X).__name__}", hint)
    if array.dtype == object and not isinstance(X, np.ndarray):  # lists, in which None stands for a hole
        with suppress(TypeError, ValueError):
            array = array.astype(np.float64)
    if np.iscomplexobj(array):
        raise InvalidInput("Complex data not supported", "give its real and imaginary parts as columns")
    if array.ndim != 2:
        hint = "X.reshape(-1, 1) if it is one column, X.reshape(1, -1) if it is one row"
        raise InvalidInput(
            f"Expected 2D array, got {array.ndim}D array instead. Reshape your data: a table has rows and columns", hint
        )
    _refuse_empty(array.shape)
    names = plain_names(array.shape[1])
    columns = {name: _arrow_column(array[:, j], name) for j, name in enumerate(names)}
    return array, pa.table(columns), False


_READ_AS = {np.dtype(np.float16): np.float32, np.dtype(np.longdouble): np.float64}
"""What commands do not read, and what they read instead."""


def _arrow_column(column: npt.NDArray[Any], name: str) -> pa.Array:
    try:
        kind = native(column.dtype)
        return pa.array(column.astype(_READ_AS.get(kind, kind)), from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        _refuse_types(column, name)
        raise InvalidInput(f"column '{name}' cannot be read: {error}", "give every column one type") from None


def _refuse_types(column: npt.NDArray[Any], name: str) -> None:
    """InvalidCells for the first cell that is neither a text nor a number."""
    for row, cell in enumerate(column.tolist(), 1):
        if isinstance(cell, dict | list | set | tuple):
            kind = type(cell).__name__
            raise InvalidCells(f"column '{name}', row {row}: argument must be a string or a real number, not '{kind}'")


def _filled_array(source: npt.NDArray[Any], filled: pa.Table, fills: dict[int, Bools]) -> npt.NDArray[Any]:
    out = source.copy()
    for j, holes in fills.items():
        column = filled.column(j).combine_chunks()
        which = holes & ~np.asarray(column.is_null(nan_is_null=True))
        out[which, j] = column.filter(pa.array(which)).to_numpy(zero_copy_only=False)
    return out


# --- pandas ---


def _from_pandas(frame: Frame) -> tuple[Frame, pa.Table, bool]:
    kinds = {type(name).__name__ for name in frame.columns}
    named = kinds == {"str"}
    if not named and "str" in kinds:
        raise InvalidCells(
            f"Feature names are only supported if all input features have string names, but your input has "
            f"{sorted(kinds)} as column name types",
            "X.columns = X.columns.astype(str)",
        )
    if named:
        check_names(list(frame.columns), "the table")
    plain = frame.reset_index(drop=True)
    plain = plain if named else plain.set_axis(plain_names(frame.shape[1]), axis=1)
    try:
        arrow = arrow_of_pandas(plain, "the table", index=False)
    except InputError:
        for name in plain.columns:
            _refuse_types(plain[name].to_numpy(), name)
        raise
    return frame, arrow, named


def _filled_pandas(source: Frame, filled: pa.Table, fills: dict[int, Bools], same: set[int]) -> Frame:
    """`same`: columns whose type holds the fills."""
    out, read = source.copy(), in_pandas(filled.select(list(fills)))
    for number, j in enumerate(fills):
        column = read.iloc[:, number].set_axis(source.index)
        out.isetitem(j, column.astype(source.dtypes.iloc[j]) if j in same else column)
    return out
