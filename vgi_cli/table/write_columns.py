"""A small table of results (not an imputed one) as the bytes of a CSV or Parquet file."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from vgi_cli.table.base import Format
from vgi_cli.table.parquet.write import parquet_bytes


def columns_bytes(columns: Mapping[str, Sequence[Any]], format: Format, delimiter: str = ",") -> bytes:
    """Columns of equal length, name -> values; None is an empty cell (a null), numbers are written exactly."""
    if format == "parquet":
        return parquet_bytes(pa.table({name: list(values) for name, values in columns.items()}))
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue().encode()
