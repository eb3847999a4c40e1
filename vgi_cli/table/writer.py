"""Write filled tables: one file per draw, all draws in one long table, or a single one."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np

from vgi_cli.errors import InputError, UsageError
from vgi_cli.table.base import Format, Table
from vgi_cli.table.columns import Schema
from vgi_cli.table.csv_text import rewrite
from vgi_cli.table.fills import find_holes
from vgi_cli.table.numerals import Floats
from vgi_cli.table.outputs import (
    Layout,
    default_output,
    output_format,
    output_paths,
    refuse_existing,
    split_name,
    write_whole,
)
from vgi_cli.table.write_csv import Template
from vgi_cli.table.write_parquet import fill_arrow, long_arrow, parquet_bytes

__all__ = ["check_output", "default_output", "output_paths", "refuse_existing", "write_imputed"]


def check_output(
    table: Table, *, layout: Layout, out: Path | BinaryIO, m: int, format: Format | None = None, force: bool = False
) -> list[Path]:
    """What `write_imputed` would refuse, before any work: the paths that it would make (none for a stream).

    Raises UsageError for existing outputs and for what cannot go to a stream, InputError when `long` would clash with
    columns of the table.
    """
    if layout == "long":
        clash = [name for name in (".imp", ".id") if name in table.names]
        if clash:
            message = f"{table.label}: has a column '{clash[0]}', which the long layout adds"
            raise InputError(message, "rename it, or use `--format files`")
    if not isinstance(out, Path):
        if layout == "files":
            raise UsageError(
                "several files cannot go to standard output", "use `--format long` or `single`, or `-o FILE`"
            )
        if format == "parquet":
            raise UsageError("Parquet cannot go to standard output", "use `-o FILE.parquet`")
        return []
    paths = output_paths(out, table, m=m, layout=layout)
    refuse_existing(paths, force=force)
    return paths


def write_imputed(
    table: Table,
    schema: Schema,
    draws: Floats,
    *,
    layout: Layout,
    out: Path | BinaryIO,
    format: Format | None = None,
    original: bool = True,
    force: bool = False,
) -> list[Path]:
    """Write the table with its holes filled; the paths written (none for a stream).

    draws     [m, N, D] data units, columns as `schema.modelled`; only cells that are missing in the table are read
    layout    `files`: one file per draw; `long`: all draws below each other with `.imp` and `.id`; `single`: one draw
    out       a path (for `files` the pattern: `out.csv` makes `out.1.csv` …) or a binary stream (CSV only)
    format    default: what the extension of `out` says, else the type of the input
    original  whether `long` begins with the table and its holes, as `.imp` 0
    force     whether existing files are overwritten

    Files are written aside, synced and renamed when all of them are whole. Raises what `check_output` raises.
    """
    draws = np.asarray(draws, np.float64)
    shape = (table.N, len(schema.modelled))
    if draws.ndim != 3 or draws.shape[1:] != shape or (layout == "single" and len(draws) != 1):
        raise ValueError(f"expected draws [m, {shape[0]}, {shape[1]}] (m = 1 for a single table), got {draws.shape}")
    paths = check_output(table, layout=layout, out=out, m=len(draws), format=format, force=force)
    for i, name in enumerate(schema.modelled):
        if not np.isfinite(draws[:, table.missing(name), i]).all():
            raise ValueError(f"a fill of column '{name}' is not finite")
    if not isinstance(out, Path):
        for content in _contents(table, schema, draws, layout, "csv", table.suffix, original):
            out.write(content)
        out.flush()
        return []
    suffix = split_name(paths[0])[1].lower()
    contents = _contents(table, schema, draws, layout, format or output_format(out, table), suffix, original)
    packed = (gzip.compress(c, mtime=0) for c in contents) if suffix.endswith(".gz") else contents
    write_whole(paths, packed, force=force)
    return paths


def _contents(
    table: Table, schema: Schema, draws: Floats, layout: Layout, format: Format, suffix: str, original: bool
) -> Iterator[bytes]:
    """One file after the other."""
    holes = find_holes(table, schema)
    if format == "parquet":
        arrow = table.as_arrow()
        if layout == "long":
            yield parquet_bytes(long_arrow(arrow, holes, draws, original=original))
        else:
            yield from (parquet_bytes(fill_arrow(arrow, holes, draw)) for draw in draws)
        return
    csv = table.as_csv()
    template = Template(rewrite(csv, csv.names, _delimiter(csv.delimiter, table.suffix, suffix)), holes)
    if layout == "long":
        yield template.long(draws, original=original)
    else:
        yield from (template.fill(draw) for draw in draws)


def _delimiter(given: str, source: str, target: str) -> str:
    """The input's delimiter, unless the extension says otherwise: `.tsv` has tabs, `.csv` made from `.tsv` commas."""
    if target.startswith(".tsv"):
        return "\t"
    if target.startswith(".csv") and source.lower().startswith(".tsv"):
        return ","
    return given
