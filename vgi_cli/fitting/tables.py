"""Tables by the settings of a recipe: read, and their columns inferred. No torch is loaded for it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from vgi_cli.columns.base import Encoding
from vgi_cli.columns.numerals import Bools, Floats
from vgi_cli.columns.schema import Schema, levels_by_column
from vgi_cli.encoding.infer import Said, infer_columns, infer_schema, schema_alone
from vgi_cli.errors import InputError, UsageError, nearest
from vgi_cli.settings.recipe import TableSettings
from vgi_cli.table.base import Table
from vgi_cli.table.reader import read_table
from vgi_cli.table.source import Files, open_table


def read(data: Sequence[str], mask: str | None, settings: TableSettings, schema: Schema | None = None) -> Table:
    """Read a table as the settings say; `schema`: of the fit whose levels it may hold."""
    return read_table(
        data,
        mask=mask,
        na_values=settings.na_values,
        delimiter=settings.delimiter,
        decimal=settings.decimal,
        levels=levels_by_column(settings.columns, schema),
    )


def open_blocks(data: Sequence[str], mask: str | None, settings: TableSettings, schema: Schema | None = None) -> Files:
    """Open a table to read it in blocks, as of `read`."""
    return open_table(
        data,
        mask=mask,
        na_values=settings.na_values,
        delimiter=settings.delimiter,
        decimal=settings.decimal,
        levels=levels_by_column(settings.columns, schema),
    )


def encoding_of(settings: TableSettings) -> Encoding:
    """How the columns of a table are encoded."""
    return Encoding(settings.transform or "linear", settings.spikes or "room", settings.relations)


def inferred(
    table: Table, settings: TableSettings, kinds: Mapping[str, str] | None = None, rows: Bools | None = None
) -> tuple[Schema, list[str]]:
    """The schema of a table that is about to be fitted and what is unusual, a line each; `kinds`: what is said of
    columns (None: as in the settings), `rows` [N]: those that statistics come from (None: all)."""
    return infer_schema(table, **_said(table, settings, kinds), rows=rows)


def inferred_alone(
    table: Table, settings: TableSettings, kinds: Mapping[str, str] | None = None, rows: Bools | None = None
) -> Schema:
    """The schema of `inferred`, without what is unusual."""
    return schema_alone(table, Said(**_said(table, settings, kinds), rows=rows))


def inferred_columns(
    table: Table,
    settings: TableSettings,
    kinds: Mapping[str, str] | None = None,
    rows: Bools | None = None,
    numbers: Collection[str] = (),
) -> Schema:
    """The schema without what holds between its columns, which takes most of the time; arguments as of `inferred`, and
    `numbers`: those columns that are quantities, though they look like codes."""
    return infer_columns(table, Said(**_said(table, settings, kinds), rows=rows), numbers)


def _said(table: Table, settings: TableSettings, kinds: Mapping[str, str] | None) -> dict[str, Any]:
    """What the settings say of the columns of a table."""
    weight = _checked_weight(table, settings)
    return {
        "ids": settings.id,
        "exclude": settings.exclude if weight in (None, *settings.exclude) else (*settings.exclude, str(weight)),
        "kinds": settings.columns if kinds is None else kinds,
        "unbounded": settings.unbounded,
        "bounds": settings.bounds,
        "encoding": encoding_of(settings),
    }


def row_weights(table: Table, name: str) -> Floats:
    """[N] the weights of the rows, from a column of theirs. InputError where a cell is no weight."""
    missing, numbers = table.missing(name), table.numbers(name)
    hint = "a weight is a number from 0 on, and every row has one"
    for wrong, what in (
        (missing, "is missing"),
        (~numbers.number & ~missing, "is not a number"),
        (np.isinf(numbers.values), "is infinite"),
        (numbers.values < 0, "is negative"),
    ):
        rows = np.flatnonzero(wrong)
        if len(rows):
            found = "the weight" if what == "is missing" else f"'{table.raw_text(name)[rows[0]]}'"
            more = f" (and {len(rows) - 1:,} more)" if len(rows) > 1 else ""
            raise InputError(
                f"{table.label}: --weight {name}: {found} {what} in {table.where(int(rows[0]))}{more}", hint
            )
    if not numbers.values.any():
        raise InputError(f"{table.label}: --weight {name}: every weight is 0", hint)
    return np.array(numbers.values, np.float64)


def _checked_weight(table: Table, settings: TableSettings) -> str | None:
    """The column of weights. UsageError where it cannot be one."""
    name = settings.weight
    if name is None:
        return None
    if name not in table.names:
        raise UsageError(f"--weight {name}: {table.label} has no such column", nearest(name, table.names))
    if name in settings.id:
        raise UsageError(f"--weight {name} disagrees with --id {name}", "a column is one or the other")
    kind = settings.columns.get(name, "carry")
    if kind != "carry":
        raise UsageError(f"--weight {name} disagrees with --column {name}={kind}", "weights are not modelled")
    return name
