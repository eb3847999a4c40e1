"""Filled tables as Parquet: the input's types, as far as the fills fit in."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from vgi_cli.table.fills import Holes, spell
from vgi_cli.table.numerals import Floats


def fill_arrow(arrow: pa.Table, holes: Sequence[Holes], draw: Floats) -> pa.Table:
    """The table with the holes filled from one draw [N, D]; other columns, their types and the metadata stay."""
    for hole in holes:
        field = arrow.schema.field(hole.place)
        column = _fill(arrow.column(hole.place), hole, draw)
        arrow = arrow.set_column(hole.place, field.with_type(column.type), column)
    return arrow


def blank_arrow(arrow: pa.Table, holes: Sequence[Holes]) -> pa.Table:
    """The table with null in every hole, hidden cells and codes for missing included."""
    for hole in holes:
        column = arrow.column(hole.place)
        mask = np.zeros(arrow.num_rows, bool)
        mask[hole.rows] = True
        column = pc.if_else(pa.array(mask), pa.scalar(None, column.type), column)
        arrow = arrow.set_column(hole.place, arrow.schema.field(hole.place), column)
    return arrow


def long_arrow(arrow: pa.Table, holes: Sequence[Holes], draws: Floats, *, original: bool) -> pa.Table:
    """All draws [m, N, D] below each other with columns `.imp` and `.id` last; first, as `.imp` 0, the holes."""
    filled = [fill_arrow(arrow, holes, draw) for draw in draws]
    parts = list(enumerate(filled, 1))
    if original:
        types = filled[0].schema if filled else arrow.schema
        parts.insert(0, (0, blank_arrow(arrow, holes).cast(types)))
    ids = pa.array(np.arange(1, arrow.num_rows + 1))
    numbered = [
        part.append_column(".imp", pa.array(np.full(arrow.num_rows, i))).append_column(".id", ids) for i, part in parts
    ]
    metadata = {k: v for k, v in (arrow.schema.metadata or {}).items() if k != b"pandas"}  # its row index is gone
    return pa.concat_tables(numbered, promote_options="permissive").replace_schema_metadata(metadata or None)


def parquet_bytes(arrow: pa.Table) -> bytes:
    """A Parquet file."""
    sink = pa.BufferOutputStream()
    pq.write_table(arrow, sink)
    return sink.getvalue().to_pybytes()


def _fill(column: pa.ChunkedArray, hole: Holes, draw: Floats) -> pa.ChunkedArray:
    values = hole.values(draw)
    whole = hole.column.kind != "numeric" and bool((values == np.rint(values)).all())
    kind = _type(column.type, values, whole)
    mask = np.zeros(len(column), bool)
    mask[hole.rows] = True
    if pa.types.is_decimal(kind):
        scale = Decimal(1).scaleb(-kind.scale)
        fills = pa.array([Decimal(text).quantize(scale) for text in spell(hole.column, values, 0)], kind)
    elif pa.types.is_floating(kind):
        fills = pa.array(values, pa.float64()).cast(kind, safe=False)
    elif pa.types.is_integer(kind):
        fills = pa.array([int(v) for v in values.tolist()], kind)
    else:
        fills = pa.array(spell(hole.column, values, hole.fewest), kind)
    return pc.replace_with_mask(column.cast(kind).combine_chunks(), pa.array(mask), fills)


def _type(kind: pa.DataType, values: Floats, whole: bool) -> pa.DataType:
    """The column's type, or the one that it needs to hold the fills."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_null(kind):
        kind = pa.int64() if whole else pa.float64()
    if pa.types.is_integer(kind):
        if not whole:
            return pa.float64()
        limits = np.iinfo(kind.to_pandas_dtype())
        return kind if limits.min <= values.min() and values.max() <= limits.max else pa.int64()
    return kind
