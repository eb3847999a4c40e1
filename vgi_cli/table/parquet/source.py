"""Parquet files as one table, some rows at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from vgi_cli.table.base import Table
from vgi_cli.table.inputs import TableFile
from vgi_cli.table.join import check_parquet, concatenate, parquet_errors
from vgi_cli.table.parquet.table import ParquetTable

BATCH = 8192
"""Rows that Arrow decodes at a time."""


def parquet_frame(files: Sequence[TableFile]) -> tuple[pa.Table, list[str]]:
    """The joined table without its rows, and the names of the columns that number the rows."""
    empty = []
    for one in files:
        with one.open() as file, parquet_errors(one.label):
            empty.append((one.label, pq.ParquetFile(file).schema_arrow.empty_table()))
    index = check_parquet(empty)
    return concatenate([table for _, table in empty], files[0].label), index


def parquet_tables(
    files: Sequence[TableFile],
    na_values: Sequence[str],
    rows: Iterator[int],
    decimals: Mapping[str, int | None],
) -> Iterator[Table]:
    """The rows of all files, as many at a time as `rows` says (fewer at the end); decimals: see ParquetTable."""
    frame, index = parquet_frame(files)
    first = 0
    for part in _cut(_batches(files, frame), rows):
        yield ParquetTable(
            part,
            index=index,
            na_values=na_values,
            sha256="",
            label=files[0].label,
            stem="",
            suffix="",
            first=first,
            decimals=decimals,
        )
        first += part.num_rows


def _batches(files: Sequence[TableFile], frame: pa.Table) -> Iterator[pa.Table]:
    """Rows of the files in the types of the joined table."""
    for one in files:
        with one.open() as file, parquet_errors(one.label):
            parquet = pq.ParquetFile(file, buffer_size=1 << 16, pre_buffer=False)
            for batch in parquet.iter_batches(BATCH):
                part = pa.Table.from_batches([batch]).replace_schema_metadata(parquet.schema_arrow.metadata)
                yield part if len(files) == 1 else concatenate([frame, part], one.label)


def _cut(parts: Iterator[pa.Table], rows: Iterator[int]) -> Iterator[pa.Table]:
    held: list[pa.Table] = []
    wanted = next(rows)
    for part in parts:
        held.append(part)
        while sum(table.num_rows for table in held) >= wanted:
            whole = pa.concat_tables(held)
            yield whole.slice(0, wanted).combine_chunks()
            held = [whole.slice(wanted)]
            wanted = next(rows)
    if sum(table.num_rows for table in held):
        yield pa.concat_tables(held)
