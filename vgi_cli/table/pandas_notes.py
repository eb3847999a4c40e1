"""What pandas keeps beside an Arrow table: its row index and the types of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, ValidationError

from vgi_cli.errors import InputError

KEY = b"pandas"


class _Column(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True)

    field_name: str | None = None
    numpy_type: str | None = None
    pandas_type: str | None = None
    metadata: dict[str, Any] | None = None


class _Notes(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True)

    index_columns: list[str | dict[str, Any] | None] = []
    columns: list[_Column] = []


def row_index(schema: pa.Schema, label: str) -> list[str]:
    """The columns that number the rows. InputError where the notes are damaged."""
    return [name for name in _read(schema, label).index_columns if isinstance(name, str) and name in schema.names]


def categories(schema: pa.Schema, label: str) -> dict[str, bool]:
    """The columns that pandas holds as categories, and whether these have an order. Of categories that are numbers a
    Parquet file keeps no more than that: Arrow reads dictionaries of texts alone. InputError where the notes are
    damaged."""
    return {
        column.field_name: bool((column.metadata or {}).get("ordered"))
        for column in _read(schema, label).columns
        if column.field_name is not None and column.pandas_type == "categorical"
    }


def _read(schema: pa.Schema, label: str) -> _Notes:
    text = (schema.metadata or {}).get(KEY)
    if text is None:
        return _Notes()
    try:
        return _Notes.model_validate(json.loads(text))
    except (ValueError, RecursionError) as error:  # not UTF-8, not JSON, nested without end; or JSON of another shape
        reason = str(error).splitlines()[0]
        if isinstance(error, ValidationError):
            first = error.errors()[0]
            reason = f"{'.'.join(map(str, first['loc'])) or 'all of them'}: {first['msg']}"
        raise InputError(
            f"{label}: damaged, in what pandas notes beside the columns ({reason[:120]})",
            "write it again; in Python `table.replace_schema_metadata(None)` drops the notes",
        ) from None


def told_to_pandas(schema: pa.Schema, changed: Mapping[str, pa.DataType]) -> pa.Schema:
    """The schema with the new types of some columns in the notes, else pandas casts them back."""
    metadata = dict(schema.metadata or {})
    if not changed or KEY not in metadata:
        return schema
    described = json.loads(metadata[KEY])
    for column in described.get("columns", []):
        kind = changed.get(column.get("field_name"))
        if kind is not None:
            nullable = str(column.get("numpy_type"))[:1].isupper()
            column["metadata"] = None
            if pa.types.is_integer(kind) or pa.types.is_floating(kind):
                name = kind.to_pandas_dtype().__name__
                own = ("UI" + name[2:] if name.startswith("u") else name.capitalize()) if nullable else name
                column["pandas_type"], column["numpy_type"] = name, own
            elif pa.types.is_decimal(kind):
                column["pandas_type"], column["numpy_type"] = "decimal", "object"
            elif pa.types.is_boolean(kind):
                column["pandas_type"], column["numpy_type"] = "bool", "bool"
            elif pa.types.is_date(kind) or pa.types.is_time(kind):
                column["pandas_type"], column["numpy_type"] = "date" if pa.types.is_date(kind) else "time", "object"
            elif pa.types.is_timestamp(kind):
                column["pandas_type"] = "datetime" if kind.tz is None else "datetimetz"
                column["numpy_type"] = f"datetime64[{kind.unit}]"
                column["metadata"] = None if kind.tz is None else {"timezone": kind.tz}
            elif pa.types.is_duration(kind):
                column["pandas_type"], column["numpy_type"] = "timedelta", f"timedelta64[{kind.unit}]"
            elif pa.types.is_dictionary(kind):
                column["pandas_type"], column["numpy_type"] = "categorical", str(kind.index_type)
                column["metadata"] = {"num_categories": None, "ordered": kind.ordered}
            else:
                column["pandas_type"], column["numpy_type"] = "unicode", "object"
    return schema.with_metadata({**metadata, KEY: json.dumps(described).encode()})
