"""`vgi hide`: a trial on a table of one's own: cells are hidden by a known mechanism, and the truth is kept beside."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from vgi_cli.columns.numerals import Bools
from vgi_cli.columns.schema import Schema
from vgi_cli.commands.requests import HideRequest
from vgi_cli.encoding.encoder import RowKeys
from vgi_cli.errors import InputError, UsageError, nearest
from vgi_cli.fitting.rows import quiet_schema, read
from vgi_cli.maths.mechanisms import Hidden, Unreachable, hide
from vgi_cli.maths.noise import KeyedNoise
from vgi_cli.reporting import READING, WRITING, Reporter
from vgi_cli.runs.files import json_bytes
from vgi_cli.settings.options import Frame
from vgi_cli.settings.recipe import Recipe, to_recipe
from vgi_cli.table.base import Table
from vgi_cli.table.csv.safe import safe_cells
from vgi_cli.table.csv.table import CsvTable
from vgi_cli.table.frames import blank_frame, columns_frame
from vgi_cli.table.outputs import refuse_safe, refuse_sources, write_whole
from vgi_cli.table.writer import blanked, columns_bytes

SHOWN = 20
"""Columns that are told apart on stderr; trial.json has all of them."""


class Trial(NamedTuple):
    """A trial in memory.

    table   the table with its holes, a pandas DataFrame or an Arrow table; `truth`: the table before
    mask    of the same columns (but an index), 1 = observed, 0 = missing in `table`
    record  how the cells were hidden: what `vgi hide` writes to trial.json
    """

    table: Frame
    mask: Frame
    truth: Frame
    record: dict[str, Any]


class _Made(NamedTuple):
    """What a mechanism hides of a table: cells [N, columns] of the modelled columns, and the record of it."""

    table: Table
    schema: Schema
    cells: Bools
    record: dict[str, Any]

    def take(self) -> None:
        """Make the holes in the table."""
        for name, cells in zip(self.schema.modelled, self.cells.T, strict=True):
            self.table.forget(name, cells)

    def mask(self) -> dict[str, list[int]]:
        """Of every column but an index 1 where a cell of the table is there, 0 where it is missing."""
        names = [name for name in self.table.names if name not in self.table.index]
        return {name: (~self.table.missing(name)).astype(int).tolist() for name in names}

    def say(self, reporter: Reporter) -> None:
        """Of the table with its holes, what is missing now."""
        for line in _lines(self.record, self.table, self.schema):
            reporter.say(line)


def hide_cells(request: HideRequest, reporter: Reporter) -> list[Path]:
    """Write the table with its new holes, the mask and the truth; return their paths (trial.json lies beside them).

    Raises UsageError and InputError before anything is written.
    """
    reporter.plan([READING, WRITING])
    made = _made(request, reporter)
    table, schema = made.table, made.schema
    delimiter = table.csv.delimiter if isinstance(table, CsvTable) else None
    suffix = {None: "parquet", "\t": "tsv"}.get(delimiter, "csv")
    if request.safe_cells:
        refuse_safe(table.origin.format)
    paths = [request.place / f"{name}.{suffix}" for name in ("table", "mask", "truth")]
    trial = request.place / "trial.json"
    refuse_sources([*paths, trial], request.said("data") or [], "the table that is read")
    with reporter.stage(WRITING):
        truth = b"".join(blanked(table, schema))
        made.take()
        mask = columns_bytes(made.mask(), table.origin.format, delimiter or ",")
        tables = [b"".join(blanked(table, schema)), mask, truth]
        if request.safe_cells:
            tables = [safe_cells(text, delimiter or ",") for text in tables]
        write_whole([*paths, trial], [[data] for data in (*tables, json_bytes(made.record))], force=request.force)
    made.say(reporter)
    return paths


def hide_frames(request: HideRequest, reporter: Reporter, arrow: bool) -> Trial:
    """The same in memory: pandas DataFrames, or Arrow tables. Raises as `hide_cells` does."""
    reporter.plan([READING])
    made = _made(request, reporter)
    truth = blank_frame(made.table, made.schema, arrow)
    made.take()
    table, mask = blank_frame(made.table, made.schema, arrow), columns_frame(made.mask(), arrow)
    made.say(reporter)
    return Trial(table, mask if arrow else mask.set_index(table.index), truth, made.record)


def _made(request: HideRequest, reporter: Reporter) -> _Made:
    """Read the table and choose the cells."""
    recipe = to_recipe(request.settings)
    with reporter.stage(READING) as stage:
        table = read(recipe.data, recipe.mask, recipe.table) if request.table is None else request.table
        stage(0.5)
        schema = quiet_schema(table, recipe)
        chosen = _chosen(request, table, schema)
        hidden = _hidden(request, recipe, table, schema, torch.tensor([name in chosen for name in schema.modelled]))
    record = _record(request, recipe, table)
    record["columns"] = _counts(table, schema, chosen, hidden)
    return _Made(table, schema, hidden.cells.numpy(), record)


def _chosen(request: HideRequest, table: Table, schema: Schema) -> list[str]:
    """The columns that lose cells. InputError where there are none to choose from, UsageError for names that are not
    modelled."""
    if not schema.modelled:
        raise InputError(f"{table.label}: no column varies, so that nothing could fill a hole", "name another table")
    for name in request.only:
        if name not in table.names:
            raise UsageError(f"--columns {name}: {table.label} has no such column", nearest(name, table.names))
        if name not in schema.modelled:
            raise UsageError(
                f"--columns {name}: the column is not modelled, so that nothing could fill its holes",
                f"the others are {', '.join(schema.modelled[:12])}{', …' * (len(schema.modelled) > 12)}",
            )
    return [name for name in schema.modelled if not request.only or name in request.only]


def _hidden(request: HideRequest, recipe: Recipe, table: Table, schema: Schema, chosen: Tensor) -> Hidden:
    """What the mechanism hides. UsageError where it cannot hide as many cells."""
    codes = np.stack([column.codes(table.column(column.name)) for column in schema.encoded], 1)
    keys = RowKeys(schema).of(table)
    noise = KeyedNoise(recipe.seed, schema.modelled, keys, torch.tensor([0]), f"hide/{request.mechanism}")
    try:
        return hide(torch.from_numpy(codes), chosen, request.mechanism, request.rate, noise)
    except Unreachable as error:
        if len(schema.modelled) == 1:
            raise UsageError(
                "--mechanism mar needs a column that stays observed, and the table has one column",
                "use --mechanism mcar or mnar",
            ) from None
        raise UsageError(
            f"--rate {request.rate:g}: by --mechanism mar at most {error.most:.2g} of these cells can be hidden, as "
            "what decides must stay observed",
            "ask for less, or leave a column out of --columns",
        ) from None


def _record(request: HideRequest, recipe: Recipe, table: Table) -> dict[str, Any]:
    """How the cells were hidden, for trial.json."""
    return {
        "format": 1,
        "data": list(recipe.data),
        "sha256": table.sha256,
        "mechanism": request.mechanism,
        "rate": request.rate,
        "seed": recipe.seed,
        "rows": table.N,
    }


def _counts(table: Table, schema: Schema, chosen: list[str], hidden: Hidden) -> dict[str, dict[str, int]]:
    """Of each column that loses cells how many were observed, and how many of these are hidden."""
    lost = dict(zip(schema.modelled, hidden.cells.sum(0).tolist(), strict=True))
    return {name: {"observed": int((~table.missing(name)).sum()), "hidden": lost[name]} for name in chosen}


def _lines(record: dict[str, Any], table: Table, schema: Schema) -> Iterator[str]:
    """The share hidden, of all cells and by column, and the rows that are left without an observed cell."""
    columns = {name: own for name, own in record["columns"].items() if own["observed"]}
    for name, own in list(columns.items())[:SHOWN]:
        share = own["hidden"] / own["observed"]
        yield f"column '{name}': {share:.1%} hidden ({own['hidden']:,} of {own['observed']:,} observed cells)"
    if len(columns) > SHOWN:
        yield f"and {len(columns) - SHOWN} more columns: see trial.json"
    observed, hidden = (sum(own[what] for own in columns.values()) for what in ("observed", "hidden"))
    share = hidden / max(observed, 1)
    yield f"hidden by {record['mechanism']}: {hidden:,} of {observed:,} observed cells ({share:.1%})"
    empty = int(table.absent(schema.modelled).all(1).sum())
    if empty:
        yield f"{empty:,} row{'s' * (empty > 1)} of {table.N:,} {'have' if empty > 1 else 'has'} no cell now"
