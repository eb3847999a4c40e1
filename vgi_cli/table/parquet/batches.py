"""Arrow batches of a larger table that nobody sees as a whole: types that depend on the fit alone, whatever the batch
holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from vgi_cli.columns.base import ConstantColumn, ModelledColumn
from vgi_cli.columns.datetime import ConstantMoment, Moment
from vgi_cli.columns.levelled import Levelled
from vgi_cli.columns.number import Number
from vgi_cli.columns.numerals import Floats, plain
from vgi_cli.columns.schema import Schema
from vgi_cli.errors import InputError
from vgi_cli.table.base import Table
from vgi_cli.table.fills import Holes, Style, find_holes, find_styles
from vgi_cli.table.inputs import Origin
from vgi_cli.table.join import check_parquet
from vgi_cli.table.pandas_notes import told_to_pandas
from vgi_cli.table.parquet.table import ParquetTable, is_number
from vgi_cli.table.parquet.types import Extent, fitted_type, wide_enough
from vgi_cli.table.parquet.write import fill_arrow, in_types

LABEL = "the batch"
DRAW = ".imp"
"""The column that numbers the draws, from 1, where a batch comes back with several."""


def batch_table(arrow: pa.Table, schema: Schema, na_values: Sequence[str]) -> ParquetTable:
    """Rows of a batch as a table. Fractions in float32 have the decimals that the fit knows, whatever else the batch
    holds. InputError where its columns are not those of one table."""
    index = check_parquet([(LABEL, arrow)])
    decimals = {
        column.name: column.lattice.decimals
        for column in schema.encoded
        if isinstance(column, Number) and column.lattice is not None
    }
    origin = Origin("batch", ".parquet", LABEL)
    return ParquetTable(arrow.combine_chunks(), origin, index, na_values, 0, decimals)


def whole_numbers(table: Table, name: str) -> list[int] | None:
    """The numbers of a column of integers. None where it is of another type; InputError where one is missing."""
    assert isinstance(table, ParquetTable)
    column = table.arrow.column(table.place(name))
    if not pa.types.is_integer(column.type):
        return None
    if column.null_count:
        raise InputError(f"{LABEL}: the key '{name}' is missing in a row", "every row needs a key")
    numbers: list[int] = column.to_pylist()
    return numbers


def steady_schema(types: pa.Schema, schema: Schema, several: bool) -> pa.Schema:
    """The types in which batches of these types come back, whatever their fills: the same, and wider ones where a fill
    might not fit in; with DRAW last where they hold `several` draws. InputError where they have that column."""
    changed: dict[str, pa.DataType] = {}
    columns: list[ModelledColumn | ConstantColumn] = [*schema.encoded, *schema.constants]
    for column in columns:
        place = types.get_field_index(column.name)
        if place >= 0 and (kind := _steady(column, types.field(place).type)) != types.field(place).type:
            changed[column.name] = kind
            types = types.set(place, types.field(place).with_type(kind))
    types = told_to_pandas(types, changed)
    if not several:
        return types
    if DRAW in types.names:
        raise InputError(f"{LABEL}: has a column '{DRAW}', which several draws add", "rename it, or take m=1")
    return types.append(pa.field(DRAW, pa.int64()))


def _steady(column: ModelledColumn | ConstantColumn, given: pa.DataType) -> pa.DataType:
    if pa.types.is_null(given):
        given = fitted_type(column)
    if pa.types.is_dictionary(given):
        return pa.dictionary(pa.int32(), given.value_type, given.ordered)
    if isinstance(column, Number):
        if pa.types.is_integer(given):
            fractions = not column.whole and (column.resolution is None or column.resolution % 1 != 0)
            wide = given if given.bit_width == 64 else pa.int64()
            return pa.float64() if fractions else wide
        return pa.float32() if given == pa.float16() else given
    if isinstance(column, Moment | ConstantMoment):
        return given
    codes = np.arange(len(column.texts), dtype=np.float64) if isinstance(column, Levelled) else np.zeros(1)
    every = Holes(column, 0, 0, np.arange(len(codes)), np.zeros(len(codes), bool), [], None, None)
    extent = Extent(column)
    extent.empty = False
    extent.add(every, codes[:, None])
    kind = wide_enough(given, extent)[0]
    return given if kind is None else kind


def filled_batch(table: ParquetTable, schema: Schema, draws: Floats, several: bool) -> pa.Table:
    """The rows with their holes filled from draws [m, n, columns], in the types of `steady_schema`: one draw below the
    other. Levels and units are spelled as the fit spells them. InputError where a fill does not fit."""
    found = find_styles([table], schema)
    styles: dict[str, Style] = {name: replace(style, levels={}, written=[]) for name, style in found.items()}
    holes = find_holes(table, schema, styles)
    types = steady_schema(table.arrow.schema, schema, several)
    own = types.remove(len(types) - 1) if several else types
    arrow = in_types(table.arrow, own)
    parts = []
    for number, draw in enumerate(draws):
        _require_room(holes, draw, own)
        part = fill_arrow(arrow, holes, draw, own)
        if several:
            part = part.append_column(types.field(DRAW), pa.array(np.full(len(part), number + 1)))
        parts.append(part)
    return pa.concat_tables(parts).combine_chunks().cast(types)


def _require_room(holes: Sequence[Holes], draw: Floats, types: pa.Schema) -> None:
    for hole in holes:
        given, extent = types.field(hole.place).type, Extent(hole.column)
        if not is_number(given):
            continue
        extent.empty = False
        extent.add(hole, draw)
        if wide_enough(given, extent)[0] != given:
            raise InputError(
                f"{LABEL}: column '{hole.column.name}': the fill {plain(extent.farthest)} does not fit in {given}",
                "cast the column to double before it is filled",
            )


def in_shape_of(filled: pa.Table, given: pa.Table | pa.RecordBatch) -> pa.Table | pa.RecordBatch:
    """A table as what was given: a table, or a record batch."""
    if isinstance(given, pa.Table):
        return filled
    batches = filled.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=filled.schema)


def as_table(given: object) -> pa.Table | None:
    """What was given as an Arrow table; None where it is neither a table nor a record batch."""
    if isinstance(given, pa.RecordBatch):
        return pa.Table.from_batches([given])
    return given if isinstance(given, pa.Table) else None
