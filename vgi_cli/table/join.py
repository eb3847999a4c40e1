"""Several files as one table: rows below each other, columns matched by name."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from vgi_cli.errors import InputError
from vgi_cli.table.csv_text import CsvText, check_names, line_number, rewrite


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
    newline = first.text[first.header[1] : first.header[2]] or b"\n"
    for text in texts[1:]:
        same_names(first.names, text.names, text.label, first.label)
        if chunks[-1][-1:] not in (b"\n", b"\r"):
            chunks.append(newline)
            size += len(newline)
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
    joined = CsvText(
        b"".join(chunks),
        first.label,
        first.delimiter,
        first.names,
        np.concatenate(bounds),
        np.concatenate(following),
        first.header,
        first.quoted,
    )
    return joined, sources


def join_parquet(parts: Sequence[tuple[str, bytes]]) -> tuple[pa.Table, list[str]]:
    """Rows of all files (name, bytes) below each other, and the names of the columns that number the rows."""
    tables: list[pa.Table] = []
    index: list[str] = []
    for label, data in parts:
        try:
            table = pq.ParquetFile(pa.BufferReader(data)).read()
        except (pa.ArrowException, OSError, ValueError) as error:
            reason = str(error).splitlines()[0][:120]
            raise InputError(f"{label}: not a Parquet file, or damaged ({reason})", "write it again") from None
        check_names(table.column_names, label)
        if tables:
            same_names(tables[0].column_names, table.column_names, label, parts[0][0])
            table = table.select(tables[0].column_names)
        else:
            described = (table.schema.pandas_metadata or {}).get("index_columns", [])
            index = [n for n in described if isinstance(n, str) and n in table.column_names]
            if table.column_names and not table.column_names[0].strip():
                index.append(table.column_names[0])
        tables.append(table)
    try:
        joined = pa.concat_tables(tables, promote_options="permissive") if len(tables) > 1 else tables[0]
    except pa.ArrowException as error:
        message = f"{parts[0][0]} and others: columns differ in type ({error})"
        raise InputError(message, "give them one type") from None
    if joined.num_columns == 0:
        raise InputError(f"{parts[0][0]}: the file has no columns", "expected named columns")
    if joined.num_rows == 0:
        raise InputError(f"{parts[0][0]}: the file has columns but no rows", "expected at least one row of data")
    return joined, index
