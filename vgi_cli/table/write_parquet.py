"""Filled tables as Parquet: the input's types, as far as the fills fit in."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from vgi_cli.table.fills import Holes, spell
from vgi_cli.table.numerals import Floats

GROUP_CELLS = 1 << 22
"""A row group has about so many cells, whatever the blocks that a table comes in."""


class Extent:
    """What a column's type must hold: the least and the greatest fill, and whether all are whole."""

    def __init__(self) -> None:
        self.low, self.high, self.whole = np.inf, -np.inf, True

    def add(self, hole: Holes, draw: Floats) -> None:
        """Look at the fills of some rows from one draw [N, D]."""
        values = hole.values(draw)
        self.low = min(self.low, float(values.min(initial=np.inf)))
        self.high = max(self.high, float(values.max(initial=-np.inf)))
        self.whole = self.whole and hole.column.kind != "numeric" and bool((values == np.rint(values)).all())


def filled_schema(schema: pa.Schema, extents: Mapping[str, Extent]) -> pa.Schema:
    """The types of a table whose holes are filled; columns without a hole have no extent and keep theirs."""
    changed = {}
    for i, field in enumerate(schema):
        if field.name in extents:
            kind = _type(field.type, extents[field.name])
            schema = schema.set(i, field.with_type(kind))
            if kind != field.type:
                changed[field.name] = kind
    return _told_to_pandas(schema, changed)


def _told_to_pandas(schema: pa.Schema, changed: Mapping[str, pa.DataType]) -> pa.Schema:
    """The schema with the new types of some columns in what pandas keeps beside it, else pandas casts them back."""
    metadata = dict(schema.metadata or {})
    if not changed or b"pandas" not in metadata:
        return schema
    described = json.loads(metadata[b"pandas"])
    for column in described.get("columns", []):
        kind = changed.get(column.get("field_name"))
        if kind is not None:
            nullable = str(column.get("numpy_type"))[:1].isupper()
            column["metadata"] = None
            if pa.types.is_integer(kind) or pa.types.is_floating(kind):
                name = kind.to_pandas_dtype().__name__
                column["pandas_type"], column["numpy_type"] = name, name.capitalize() if nullable else name
            else:
                column["pandas_type"], column["numpy_type"] = "unicode", "object"
    return schema.with_metadata({**metadata, b"pandas": json.dumps(described).encode()})


def fill_arrow(arrow: pa.Table, holes: Sequence[Holes], draw: Floats, types: pa.Schema | None = None) -> pa.Table:
    """The table with the holes filled from one draw [N, D]; other columns, their types and the metadata stay.

    `types`: of `filled_schema`, where these are rows of a larger table.
    """
    if types is None:
        types = filled_schema(arrow.schema, extents_of([(holes, draw)]))
    for hole in holes:
        column = _fill(arrow.column(hole.place), hole, draw, types.field(hole.place).type)
        arrow = arrow.set_column(hole.place, types.field(hole.place), column)
    return arrow.replace_schema_metadata(types.metadata)


def extents_of(blocks: Iterable[tuple[Sequence[Holes], Floats]]) -> dict[str, Extent]:
    """The extents of one draw, from the blocks of a table and their fills."""
    extents: dict[str, Extent] = {}
    for holes, draw in blocks:
        for hole in holes:
            extents.setdefault(hole.column.name, Extent()).add(hole, draw)
    return extents


def blank_arrow(arrow: pa.Table, holes: Sequence[Holes]) -> pa.Table:
    """The table with null in every hole, hidden cells and codes for missing included."""
    for hole in holes:
        column = arrow.column(hole.place)
        mask = np.zeros(arrow.num_rows, bool)
        mask[hole.rows] = True
        column = pc.if_else(pa.array(mask), pa.scalar(None, column.type), column)
        arrow = arrow.set_column(hole.place, arrow.schema.field(hole.place), column)
    return arrow


def numbered(arrow: pa.Table, number: int, first: int) -> pa.Table:
    """Rows of draw `number` with columns `.imp` and `.id` last; the first row's id is `first` + 1."""
    ids = pa.array(np.arange(first + 1, first + arrow.num_rows + 1))
    return arrow.append_column(".imp", pa.array(np.full(arrow.num_rows, number))).append_column(".id", ids)


def long_schema(filled: Sequence[pa.Schema]) -> pa.Schema:
    """The types of the long layout, given those of each draw."""
    empty = [numbered(schema.empty_table(), 0, 0) for schema in filled]
    joined = pa.concat_tables(empty, promote_options="permissive").schema
    metadata = {k: v for k, v in (filled[0].metadata or {}).items() if k != b"pandas"}  # its row index is gone
    return joined.with_metadata(metadata or None)


def widened(arrow: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows in wider types."""
    both = [schema.empty_table(), arrow]
    return pa.concat_tables(both, promote_options="permissive").replace_schema_metadata(schema.metadata)


def parquet_pieces(parts: Iterable[pa.Table], schema: pa.Schema) -> Iterator[bytes]:
    """A Parquet file, from the rows of its table in any blocks; row groups are of one size."""
    rows = max(1, GROUP_CELLS // max(len(schema), 1))
    sink = _Drain()
    held: list[pa.Table] = []
    with pq.ParquetWriter(sink, schema) as writer:
        for part in parts:
            held.append(part)
            while sum(table.num_rows for table in held) >= rows:
                whole = pa.concat_tables(held)
                writer.write_table(whole.slice(0, rows))
                held = [whole.slice(rows)]
                yield sink.drain()
        if sum(table.num_rows for table in held):
            writer.write_table(pa.concat_tables(held))
    yield sink.drain()


class _Drain(io.RawIOBase):
    """A file that is taken away as it is written."""

    def __init__(self) -> None:
        super().__init__()
        self._pieces: list[bytes] = []
        self._at = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        piece = bytes(data)
        self._pieces.append(piece)
        self._at += len(piece)
        return len(piece)

    def tell(self) -> int:
        return self._at

    def drain(self) -> bytes:
        """What was written since."""
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)


def parquet_bytes(arrow: pa.Table) -> bytes:
    """A Parquet file."""
    sink = pa.BufferOutputStream()
    pq.write_table(arrow, sink)
    return sink.getvalue().to_pybytes()


def _fill(column: pa.ChunkedArray, hole: Holes, draw: Floats, kind: pa.DataType) -> pa.ChunkedArray:
    values = hole.values(draw)
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


def _type(kind: pa.DataType, fills: Extent) -> pa.DataType:
    """The column's type, or the one that it needs to hold the fills."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_null(kind):
        kind = pa.int64() if fills.whole else pa.float64()
    if pa.types.is_integer(kind):
        if not fills.whole:
            return pa.float64()
        limits = np.iinfo(kind.to_pandas_dtype())
        return kind if limits.min <= fills.low and fills.high <= limits.max else pa.int64()
    return kind
