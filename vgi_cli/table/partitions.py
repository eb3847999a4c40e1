"""Folders whose names are values: `year=2020/month=07/part-0.parquet`, as Hive, Spark and Arrow write them.

The values are columns of the table, after those of the files and in the order of the folders, outer ones first: whole
numbers (int64) where all of its values are, spelled without leading zeros, else texts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import unquote

from vgi_cli.errors import InputError

NOTHING = "__HIVE_DEFAULT_PARTITION__"
"""The name of the folder of rows in which the column is missing."""


class Partition(NamedTuple):
    """What the folders of a file say: a value for each column, and the types of these (an Arrow schema)."""

    values: tuple[str | int | None, ...]
    types: Any


def partitions(files: Sequence[str], label: str) -> list[Partition] | None:
    """What the folders of files below a folder say; None where none of them has a value. InputError where not all files
    have values of the same columns, in one order."""
    import pyarrow as pa  # `vgi --help` waits for what is loaded with this file

    found = [_said(file) for file in files]
    names = [tuple(name for name, _ in each) for each in found]
    if not any(names):
        return None
    other = next((i for i, each in enumerate(names) if each != names[0]), None)
    if other is not None:
        first, second = ("/".join(f"{name}=…" for name in names[i]) or "none" for i in (0, other))
        raise InputError(
            f"{label}: '{files[0]}' lies in folders of {first}, '{files[other]}' of {second}",
            "all files of a table need folders of the same columns, in the same order",
        )
    if len(set(names[0])) < len(names[0]):
        raise InputError(f"{label}: '{files[0]}': a column names two of its folders", "rename one of them")
    columns = [[each[i][1] for each in found] for i in range(len(names[0]))]
    whole = [all(value is None or re.fullmatch(r"-?[1-9][0-9]{0,17}|0", value) for value in each) for each in columns]
    types = pa.schema(
        [(name, pa.int64() if number else pa.string()) for name, number in zip(names[0], whole, strict=True)]
    )
    return [
        Partition(
            tuple(
                None if value is None else int(value) if number else value
                for (_, value), number in zip(each, whole, strict=True)
            ),
            types,
        )
        for each in found
    ]


def _said(file: str) -> list[tuple[str, str | None]]:
    pairs = [part.partition("=") for part in PurePosixPath(file).parts[:-1] if "=" in part]
    return [(unquote(name), None if value == NOTHING else unquote(value)) for name, _, value in pairs if name]


def with_partition(rows: Any, partition: Partition | None, label: str) -> Any:
    """The rows of a file (an Arrow table) with the columns that its folders say last. InputError where the file has
    such a column."""
    import pyarrow as pa

    if partition is None:
        return rows
    for field, value in zip(partition.types, partition.values, strict=True):
        if field.name in rows.column_names:
            raise InputError(
                f"{label}: the column '{field.name}' stands in the file, and its folder is named by it",
                "drop it from the file, or rename the folders",
            )
        rows = rows.append_column(field, pa.repeat(pa.scalar(value, field.type), rows.num_rows))
    return rows


def hidden(file: str) -> bool:
    """Whether a file, or a folder on the way to it, is one that programs keep for themselves: `_delta_log`, `.crc`; not
    `_column=value`."""
    return any(part.startswith(".") or (part.startswith("_") and "=" not in part) for part in PurePosixPath(file).parts)
