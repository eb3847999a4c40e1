"""Tables without a cell, to be filled: the columns of a fitted table, but for an index."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from vgi_cli.columns.base import Column, ConstantColumn, ModelledColumn
from vgi_cli.columns.levelled import Levelled
from vgi_cli.columns.schema import Schema
from vgi_cli.table.csv.table import CsvTable
from vgi_cli.table.csv.text import header_cell, split_csv
from vgi_cli.table.inputs import Origin, delimiter_of
from vgi_cli.table.parquet.table import ParquetTable, type_called
from vgi_cli.table.parquet.types import fitted_type
from vgi_cli.table.reader import as_delimiter

LABEL = "the sample"


def _names(schema: Schema) -> list[str]:
    return [column.name for column in schema.columns if column.role != "index"]


def blank_csv(
    schema: Schema,
    N: int,
    *,
    na_values: Sequence[str],
    delimiter: str | None,
    decimal: str | None,
    paths: Sequence[str] = (),
) -> CsvTable:
    """N rows of CSV text; arguments as of `read_table`. Where no delimiter was said, it is that of the files at `paths`
    if all have the same. UsageError for a bad delimiter."""
    usual = {delimiter_of(path) for path in paths}
    tabs = delimiter is None and usual == {"\t"}
    names, mark = _names(schema), ("\t" if tabs else ",") if delimiter is None else as_delimiter(delimiter)
    lines = [mark.join(header_cell(name, mark) for name in names), *[mark * (len(names) - 1)] * N]
    text = split_csv("".join(f"{line}\n" for line in lines).encode(), LABEL, mark)
    origin = Origin("sample", ".tsv" if tabs else ".csv", LABEL)
    return CsvTable(text, origin, [(0, LABEL, 0, 0)], na_values, decimal=decimal or ".")


def blank_arrow_table(schema: Schema, N: int, na_values: Sequence[str]) -> ParquetTable:
    """N rows in the types that the cells had in the fit, and dictionaries with all levels. Columns that are not filled
    have no type where the fitted table had none (CSV), or one of structures."""
    arrow = pa.table({c.name: _nulls(c, N) for c in schema.columns if c.role != "index"})
    return ParquetTable(arrow, Origin("sample", ".parquet", LABEL), (), na_values)


def _nulls(column: Column, N: int) -> pa.Array:
    """N cells of a column, all of them missing."""
    if not isinstance(column, ModelledColumn | ConstantColumn):
        carried = None if column.stored is None else type_called(column.stored)
        return pa.nulls(N, pa.null() if carried is None else carried)
    kind = fitted_type(column)
    if pa.types.is_dictionary(kind) and isinstance(column, Levelled):
        levels = pa.array(column.texts).cast(kind.value_type)
        return pa.DictionaryArray.from_arrays(pa.nulls(N, kind.index_type), levels, ordered=kind.ordered)
    return pa.nulls(N, kind)
