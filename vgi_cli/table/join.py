"""Several files as one table: rows below each other, columns matched by name."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from vgi_cli.errors import InputError, TooLarge
from vgi_cli.ranges import FREE_CELLS, FREE_EXPANSION, MOST_CELLS, MOST_COLUMNS, MOST_EXPANSION
from vgi_cli.table.csv.text import CsvText, check_names, line_number, rewrite
from vgi_cli.table.inputs import TableFile
from vgi_cli.table.pandas_notes import row_index
from vgi_cli.table.partitions import with_partition


def same_names(first: Sequence[str], other: Sequence[str], label: str, first_label: str) -> None:
    lacking = [n for n in first if n not in other]
    extra = [n for n in other if n not in first]
    if lacking or extra:
        found = [f"lacks '{n}'" for n in lacking[:3]] + [f"has '{n}' too" for n in extra[:3]]
        raise InputError(
            f"{label}: other columns than {first_label} ({', '.join(found)})",
            "files of one table need the same column names",
        )


def join_csv(texts: Sequence[CsvText]) -> tuple[CsvText, list[tuple[int, str, int, int]]]:
    """Rows of all files below the header of the first; rows in another order of columns are written anew."""
    first = texts[0]
    if len(texts) == 1:
        return first, [(0, first.label, 0, 0)]
    sources = [(0, first.label, 0, 0)]
    chunks, bounds, following = [first.text], [first.bounds], [first.following]
    size, rows = len(first.text), first.N
    for text in texts[1:]:
        same_names(first.names, text.names, text.label, first.label)
        if chunks[-1][-1:] not in (b"\n", b"\r"):
            chunks.append(first.newline)
            size += len(first.newline)
            following[-1] = following[-1].copy()
            following[-1][-1] = size
        begin = text.header[2]
        lines = line_number(text.text, begin) - 1
        if text.names != first.names or text.delimiter != first.delimiter:
            text = rewrite(text, first.names, first.delimiter)
            begin = text.header[2]
        sources.append((rows, text.label, size, lines))
        chunks.append(text.text[begin:])
        bounds.append(text.bounds + (size - begin))
        following.append(text.following + (size - begin))
        size += len(chunks[-1])
        rows += text.N
    every, after = np.concatenate(bounds), np.concatenate(following)
    return replace(first, text=b"".join(chunks), bounds=every, following=after), sources


def join_parquet(files: Sequence[TableFile]) -> tuple[pa.Table, list[str]]:
    """Rows of all files below each other, and the names of the columns that number the rows."""
    tables = []
    for one in files:
        with one.open() as file, parquet_errors(one.label):
            parquet = opened(file, one.label)
            rows = whole_text(parquet.read()).replace_schema_metadata(
                parquet.schema_arrow.metadata
            )  # as blocks have it
            tables.append(with_partition(rows, one.partition, one.label))
    index = check_parquet([(one.label, table) for one, table in zip(files, tables, strict=True)])
    joined = concatenate(tables, files[0].label)
    if joined.num_rows == 0:
        raise InputError(f"{files[0].label}: the file has columns but no rows", "expected at least one row of data")
    return joined, index


def opened(file: BinaryIO, label: str, **options: Any) -> pq.ParquetFile:
    """A Parquet file by its footer. TooLarge where that promises more than a table of its size holds."""
    parquet = pq.ParquetFile(file, **options)
    size = file.seek(0, os.SEEK_END)
    footer = parquet.metadata
    width, rows = len(parquet.schema_arrow), footer.num_rows
    if width > MOST_COLUMNS:
        raise TooLarge(f"{label}: {width:,} columns, at most {MOST_COLUMNS:,} are read", "leave some out")
    if rows * width > max(FREE_CELLS, MOST_CELLS * size):
        raise TooLarge(f"{label}: {rows:,} rows of {width:,} columns in {size:,} bytes", "leave out constant columns")
    plain = sum(footer.row_group(i).total_byte_size for i in range(footer.num_row_groups))
    if plain > max(FREE_EXPANSION, MOST_EXPANSION * size):
        raise TooLarge(
            f"{label}: its {size:,} bytes expand to {plain:,}", "if it is meant, write it again without compression"
        )
    return parquet


def whole_text(rows: pa.Table) -> pa.Table:
    """The same rows. ValueError where a damaged file holds text that is not UTF-8: Arrow reads it without a look."""
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        for part in column.chunks:
            text = part.dictionary if pa.types.is_dictionary(part.type) else part
            if not any(known(text.type) for known in (pa.types.is_string, pa.types.is_large_string, _is_view)):
                continue
            try:
                text.validate(full=True)
            except pa.ArrowInvalid:
                raise ValueError(f"column '{name}' holds text that is not UTF-8") from None
    return rows


def _is_view(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string_view(kind))


@contextmanager
def parquet_errors(label: str) -> Iterator[None]:
    """What Arrow says of a damaged file as InputError."""
    try:
        yield
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = str(error).splitlines()[0][:120]
        raise InputError(f"{label}: not a Parquet file, or damaged ({reason})", "write it again") from None


def check_parquet(tables: Sequence[tuple[str, pa.Table]]) -> list[str]:
    """The names of the columns that number the rows. InputError where the columns are not those of one table."""
    label, first = tables[0]
    for other, table in tables:
        check_names(table.column_names, other)
        same_names(first.column_names, table.column_names, other, label)
    if first.num_columns == 0:
        raise InputError(f"{label}: the file has no columns", "expected named columns")
    index = row_index(first.schema, label)
    if not first.column_names[0].strip():
        index.append(first.column_names[0])
    return index


def concatenate(tables: Sequence[pa.Table], label: str) -> pa.Table:
    """Tables below each other, columns in the order of the first, types as wide as all need."""
    ordered = [table.select(tables[0].column_names) for table in tables]
    try:
        return pa.concat_tables(ordered, promote_options="permissive") if len(tables) > 1 else tables[0]
    except pa.ArrowException as error:
        raise InputError(f"{label} and others: columns differ in type ({error})", "give them one type") from None
