"""From what a user names to what a method sees: table, schema, encoded rows, and the lines to say on the way."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from vgi_cli.data import TensorTable, split_rows
from vgi_cli.errors import InputError, UsageError
from vgi_cli.run.config import Recipe, TableSettings
from vgi_cli.run.directory import RunFolder
from vgi_cli.run.reporting import Reporter
from vgi_cli.table.encoder import encode
from vgi_cli.table.reader import Table, read_table
from vgi_cli.table.schema import Schema, check, infer_schema


class Rows(NamedTuple):
    """Encoded rows with their keys."""

    table: TensorTable
    keys: Tensor

    def at(self, index: Tensor) -> Rows:
        """Some of the rows."""
        return Rows(self.table.rows(index), self.keys[index])


def read(data: Sequence[str], mask: str | None, settings: TableSettings) -> Table:
    """Read a table as the settings say."""
    return read_table(
        data, mask=None if mask is None else Path(mask), na_values=settings.na_values, delimiter=settings.delimiter
    )


def new_schema(table: Table, recipe: Recipe, reporter: Reporter) -> Schema:
    """The schema of a table that is about to be fitted, with a line for what is unusual."""
    settings = recipe.table
    schema, notes = infer_schema(
        table,
        ids=settings.id,
        exclude=settings.exclude,
        kinds=settings.columns,
        unbounded=settings.unbounded,
        transform=settings.transform or "linear",
    )
    for note in filter(None, notes):
        reporter.say(note)
    return schema


def match(table: Table, schema: Schema, reporter: Reporter, fate: str = "imputed from the model") -> None:
    """Check a table against a fitted schema, with a line for what is unusual."""
    for note in check(table, schema, fate):
        reporter.say(note)


def rows_of(table: Table, schema: Schema, seed: int, draw: int = 0) -> Rows:
    """The encoded rows of a table."""
    encoded = encode(table, schema, seed=seed, draw=draw)
    return Rows(encoded.table, encoded.keys)


def training_rows(rows: Rows, keep_empty: bool) -> Rows:
    """The rows that a fit uses. InputError when no row has an observed cell."""
    empty = rows.table.missing.all(1)
    if bool(empty.all()):
        raise InputError("no modelled cell is observed", "check --na-values, --mask and the kinds of the columns")
    return rows if keep_empty or not bool(empty.any()) else rows.at((~empty).nonzero()[:, 0])


def split(rows: Rows, fraction: float, generator: torch.Generator) -> tuple[Rows, Rows]:
    """(training, held out). UsageError when either would be empty."""
    kept, held = split_rows(rows.table.N, fraction, generator)
    if len(held) == 0 or len(kept) == 0:
        raise UsageError(
            f"--val {fraction:g}: of {rows.table.N} rows {len(held)} would be held out and {len(kept)} fitted",
            "give another fraction, or a file",
        )
    return rows.at(kept), rows.at(held)


def check_same_data(run: RunFolder, table: Table) -> None:
    """InputError when the table is not the one that the run was fitted on."""
    if table.sha256 != run.manifest["data"]["sha256"]:
        raise InputError(
            f"{table.label} has changed since {run.path} was fitted (SHA-256 {table.sha256[:12]}…, "
            f"the run has {run.manifest['data']['sha256'][:12]}…)",
            "restore the file, or give DATA to impute new rows",
        )
