"""Tables without a cell, to be filled: the columns of a fitted table, but for an index."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from vgi_cli.columns.base import ConstantColumn, ModelledColumn
from vgi_cli.columns.schema import Schema
from vgi_cli.table.csv.table import CsvTable
from vgi_cli.table.csv.text import header_cell, split_csv
from vgi_cli.table.inputs import Origin
from vgi_cli.table.parquet.table import ParquetTable
from vgi_cli.table.parquet.types import fitted_type
from vgi_cli.table.reader import as_delimiter

LABEL = "the sample"


def _names(schema: Schema) -> list[str]:
    return [column.name for column in schema.columns if column.role != "index"]


def blank_csv(
    schema: Schema, N: int, *, na_values: Sequence[str], delimiter: str | None, decimal: str | None
) -> CsvTable:
    """N rows of CSV text; arguments as of `read_table`. UsageError for a bad delimiter."""
    names, mark = _names(schema), "," if delimiter is None else as_delimiter(delimiter)
    lines = [mark.join(header_cell(name, mark) for name in names), *[mark * (len(names) - 1)] * N]
    text = split_csv("".join(f"{line}\n" for line in lines).encode(), LABEL, mark)
    origin = Origin("sample", ".csv", LABEL)
    return CsvTable(text, origin, [(0, LABEL, 0, 0)], na_values, decimal=decimal or ".")


def blank_arrow_table(schema: Schema, N: int, na_values: Sequence[str]) -> ParquetTable:
    """N rows in the types that the cells had in the fit; of columns that are not filled there is none."""
    types = {c.name: fitted_type(c) for c in schema.columns if isinstance(c, ModelledColumn | ConstantColumn)}
    arrow = pa.table({name: pa.nulls(N, types.get(name, pa.null())) for name in _names(schema)})
    return ParquetTable(arrow, Origin("sample", ".parquet", LABEL), (), na_values)
