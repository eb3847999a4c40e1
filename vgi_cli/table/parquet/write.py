"""Filled tables as Parquet: the input's types, as far as the fills fit in."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from vgi_cli.columns.levelled import Levelled
from vgi_cli.columns.numerals import Floats
from vgi_cli.table.fills import Holes
from vgi_cli.table.pandas_notes import KEY
from vgi_cli.table.parquet.table import cut
from vgi_cli.table.parquet.types import cells, replaceable

GROUP_CELLS = 1 << 22
"""A row group has about so many cells, whatever the blocks that a table comes in."""


def fill_arrow(arrow: pa.Table, holes: Sequence[Holes], draw: Floats, types: pa.Schema) -> pa.Table:
    """The table with the holes filled from one draw [N, D], in the types of `filled_types`; other columns stay."""
    for hole in holes:
        column = _fill(arrow.column(hole.place), hole, draw, types.field(hole.place).type)
        arrow = arrow.set_column(hole.place, types.field(hole.place), column)
    return arrow.replace_schema_metadata(types.metadata)


def blank_arrow(arrow: pa.Table, holes: Sequence[Holes]) -> pa.Table:
    """The table with null in every hole, hidden cells and codes for missing included."""
    for hole in holes:
        kind = arrow.schema.field(hole.place).type
        column = arrow.column(hole.place).cast(replaceable(kind))
        mask = np.zeros(arrow.num_rows, bool)
        mask[hole.rows] = True
        column = pc.if_else(pa.array(mask), pa.scalar(None, column.type), column)
        if pa.types.is_dictionary(kind):
            column = _in_dictionary(column.combine_chunks(), arrow.column(hole.place), kind)
        else:
            column = column.cast(kind)
        arrow = arrow.set_column(hole.place, arrow.schema.field(hole.place), column)
    return arrow


def in_types(arrow: pa.Table, types: pa.Schema) -> pa.Table:
    """Rows in the types of a filled table."""
    for i, (field, old) in enumerate(zip(types, arrow.schema, strict=True)):
        if field.type != old.type:  # Arrow cannot cast every type to itself
            column = arrow.column(i)
            empty = column.null_count == len(column)
            arrow = arrow.set_column(i, field, pa.nulls(len(column), field.type) if empty else column.cast(field.type))
    return arrow.replace_schema_metadata(types.metadata)


def numbered(arrow: pa.Table, number: int, first: int) -> pa.Table:
    """Rows of draw `number` with columns `.imp` and `.id` last; the first row's id is `first` + 1, and the row index
    that pandas noted is gone."""
    metadata = {k: v for k, v in (arrow.schema.metadata or {}).items() if k != KEY}
    ids = pa.array(np.arange(first + 1, first + arrow.num_rows + 1))
    wide = arrow.append_column(".imp", pa.array(np.full(arrow.num_rows, number))).append_column(".id", ids)
    return wide.replace_schema_metadata(metadata)


def parquet_pieces(parts: Iterable[pa.Table], schema: pa.Schema) -> Iterator[bytes]:
    """A Parquet file, from the rows of its table in any blocks; row groups are of one size."""
    rows = max(1, GROUP_CELLS // max(len(schema), 1))
    sink = Drain()
    with pq.ParquetWriter(sink, schema) as writer:
        for group in cut(parts, repeat(rows)):
            writer.write_table(group)
            yield sink.drain()
    yield sink.drain()


class RowsInTurn:
    """Tables below each other, whose rows are taken front to back."""

    def __init__(self, parts: Iterator[pa.Table]) -> None:
        self._parts = parts
        self._held: pa.Table | None = None

    def take(self, rows: int) -> Iterator[pa.Table]:
        """The next `rows` rows, in parts."""
        while rows > 0:
            if self._held is None:
                self._held = next(self._parts)
            part = self._held.slice(0, rows)
            rows -= part.num_rows
            rest = self._held.slice(part.num_rows)
            self._held = rest if rest.num_rows else None
            yield part


class Drain(io.RawIOBase):
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
    return bytes(sink.getvalue())


def _fill(column: pa.ChunkedArray, hole: Holes, draw: Floats, kind: pa.DataType) -> pa.Array:
    """A column in type `kind` with its holes filled, but for those that stay in the draw."""
    own = hole.filled(draw)
    mask = np.zeros(len(column), bool)
    mask[hole.rows] = True
    plain = replaceable(kind)
    known = pa.nulls(len(column), plain) if mask.all() else column.cast(plain).combine_chunks()
    fills = cells(own, own.values(draw), kind if pa.types.is_duration(kind) else plain).cast(plain)
    if len(own.rows) < len(hole.rows):
        places = np.searchsorted(own.rows, hole.rows)
        stays = ~np.isin(hole.rows, own.rows)
        fills = pc.take(fills, pa.array(np.where(stays, 0, places), mask=stays))
    filled = pc.replace_with_mask(known, pa.array(mask), fills)
    if pa.types.is_dictionary(kind):
        if not pa.types.is_dictionary(column.type) and isinstance(hole.column, Levelled):  # it was empty: as in the fit
            return _coded(filled, pa.array(hole.column.texts).cast(filled.type), kind)
        return _in_dictionary(filled, column, kind)
    return filled.cast(kind)


def _in_dictionary(filled: pa.Array, column: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    """Filled cells in the dictionary that their column had, with what is new at its end."""
    chunks = column.unify_dictionaries().chunks if pa.types.is_dictionary(column.type) else []
    return _coded(filled, chunks[0].dictionary.cast(filled.type) if chunks else pa.array([], filled.type), kind)


def _coded(filled: pa.Array, known: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cells in a dictionary of what is known, with what is new at its end."""
    every = pa.concat_arrays([known, pc.drop_null(filled)]).unique()
    indices = pc.index_in(filled, every, skip_nulls=True).cast(kind.index_type)
    return pa.DictionaryArray.from_arrays(indices, every.cast(kind.value_type), ordered=kind.ordered)
