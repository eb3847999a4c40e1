"""Tables by the settings of a recipe: read, and their columns inferred. No torch is loaded for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from vgi_cli.columns.numerals import Bools
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.infer import infer_schema
from vgi_cli.settings.recipe import TableSettings
from vgi_cli.table.base import Table
from vgi_cli.table.reader import read_table
from vgi_cli.table.source import Source, open_table


def read(data: Sequence[str], mask: str | None, settings: TableSettings) -> Table:
    """Read a table as the settings say."""
    return read_table(
        data,
        mask=None if mask is None else Path(mask),
        na_values=settings.na_values,
        delimiter=settings.delimiter,
        decimal=settings.decimal,
    )


def open_blocks(data: Sequence[str], mask: str | None, settings: TableSettings) -> Source:
    """Open a table to read it in blocks, as the settings say."""
    return open_table(
        data,
        mask=None if mask is None else Path(mask),
        na_values=settings.na_values,
        delimiter=settings.delimiter,
        decimal=settings.decimal,
    )


def inferred(
    table: Table, settings: TableSettings, kinds: Mapping[str, str] | None = None, rows: Bools | None = None
) -> tuple[Schema, list[str]]:
    """The schema of a table that is about to be fitted and what is unusual, a line each; `kinds`: what is said of
    columns (None: as in the settings), `rows` [N]: those that statistics come from (None: all)."""
    return infer_schema(
        table,
        ids=settings.id,
        exclude=settings.exclude,
        kinds=settings.columns if kinds is None else kinds,
        unbounded=settings.unbounded,
        bounds=settings.bounds,
        transform=settings.transform or "linear",
        rows=rows,
    )
