"""From what a user names to what a method sees: table, schema, encoded rows, and the lines to say on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from vgi_cli.columns.base import Column, ModelledColumn
from vgi_cli.columns.limits import bound_lines
from vgi_cli.columns.number import Number
from vgi_cli.columns.numerals import Bools
from vgi_cli.columns.schema import Schema
from vgi_cli.columns.wording import Alarm, are, named
from vgi_cli.data import TensorTable, split_rows
from vgi_cli.encoding.check import IMPUTED, Check, Holes, Unseen, check
from vgi_cli.encoding.encoder import Respread, RowKeys, encode, encode_in_files, log_share, log_volume
from vgi_cli.encoding.kinds import column_lines, kind_lines, kinds_of
from vgi_cli.encoding.redundant import rest_of_kept
from vgi_cli.encoding.rounding import rounding_in
from vgi_cli.errors import HolesLeft, InputError, UsageError
from vgi_cli.fitting.plan import stream
from vgi_cli.fitting.tables import inferred, inferred_alone, inferred_columns, row_weights
from vgi_cli.fitting.tables import open_blocks as open_blocks  # what reads a table needs no torch
from vgi_cli.fitting.tables import read as read
from vgi_cli.layout import Layout
from vgi_cli.methods.base import Parts
from vgi_cli.registry.names import takes_levels, who_takes_levels
from vgi_cli.reporting import Reporter
from vgi_cli.runs.folder import RunFolder
from vgi_cli.runs.store import ENCODED, RunStore
from vgi_cli.scratch import Scratch
from vgi_cli.settings.recipe import Recipe, TableSettings
from vgi_cli.table.addresses import is_address
from vgi_cli.table.base import Table
from vgi_cli.table.columns import TableInFiles
from vgi_cli.table.fills import Style, absent, find_styles
from vgi_cli.table.inputs import Origin
from vgi_cli.table.source import Source


class EncodedTable(NamedTuple):
    """A table and the schema by which its rows were encoded."""

    table: Table
    schema: Schema


class Rows(NamedTuple):
    """Encoded rows: what is fitted.

    table   their values, what is missing, and their layout
    keys    [N] int64: what keys the randomness of each
    places  [N] where they stand in `source`
    source  the table that they were encoded from; None: they come as they are
    """

    table: TensorTable
    keys: Tensor
    places: Tensor
    source: EncodedTable | None = None

    @classmethod
    def of(cls, table: TensorTable) -> Rows:
        """Rows that come encoded, keyed by their numbers."""
        numbers = torch.arange(table.N)
        return cls(table, numbers, numbers)

    @property
    def schema(self) -> Schema:
        """The columns of the table that they were encoded from; there is one."""
        assert self.source is not None
        return self.source.schema

    def at(self, index: Tensor) -> Rows:
        """Some of the rows."""
        return Rows(self.table.rows(index), self.keys[index], self.places[index], self.source)

    def with_layout(self, layout: Layout) -> Rows:
        """The same rows in other blocks."""
        return self._replace(table=self.table._replace(layout=layout))

    def weighted(self, weight: Tensor | None) -> Rows:
        """The same rows with weights [N] (None: they count alike)."""
        return self._replace(table=self.table._replace(weight=weight))

    def anew(self, recipe: Recipe, some: Tensor) -> Rows:
        """The same rows, encoded by the statistics of some of them [n]; those that come encoded stay as they are."""
        if self.source is None:
            return self
        schema = refitted(self.source.schema, self.source.table, recipe, self.places[some])
        every = rows_of(self.source.table, schema, recipe.seed)
        return every.at(self.places).with_layout(self.table.layout).weighted(self.table.weight)

    def respread(self, seed: int) -> Respread | None:
        """What spreads the observed cells of rounded columns by other noise; None where there are no such columns, or
        the rows come encoded."""
        if self.source is None or not any(column.noisy for column in self.source.schema.encoded):
            return None
        return Respread(self.source.table, self.source.schema, seed=seed, keys=self.keys, places=self.places)

    def log_volume(self, but: Sequence[int] = ()) -> Tensor:
        """[N] what turns log p(encoded observed cells) of a row into a log density in data units (add it); `but`:
        dimensions that are left out."""
        if self.source is None:
            return torch.zeros(self.table.N, dtype=torch.float64)
        table, schema = self.source
        return log_volume(self.table.missing, self.table.x, schema, but) + log_share(table, schema)[self.places]


def new_schema(table: Table, recipe: Recipe, reporter: Reporter) -> Schema:
    """The schema of a table that is about to be fitted, with a line for what is unusual. Its statistics come from all
    rows that the recipe does not hold out: of these it must know nothing."""
    settings, some = recipe.table, _fitted_rows(table, recipe)
    schema, notes = inferred(table, settings, rows=some)
    if settings.carry_others:
        others = _left_out(table, schema, recipe)
        if others:
            schema, notes = inferred(table, settings, _carrying(others, recipe), some)
            who = recipe.method.name if takes_levels(recipe.model.name, None) else recipe.model.name
            reporter.say(f"{named('column', others)} {are(others)} carried: {who} takes numbers only")
        else:
            reporter.say("--carry-others changes nothing: the model takes every column that can be modelled")
    taken_for = kinds_of(table, schema, settings.columns, settings.weight)
    for line in kind_lines(taken_for):
        reporter.say(line)
    for line in column_lines(taken_for):
        reporter.detail(line)
    bounded, each = bound_lines(schema.columns)
    tell(list(filter(None, [*notes, bounded])), reporter)
    for line in [*each, *rest_of_kept(schema)]:
        reporter.detail(line)
    return schema


def quiet_schema(table: Table, recipe: Recipe) -> Schema:
    """The schema of `new_schema`, of which nothing is said: that takes less time."""
    some = _fitted_rows(table, recipe)
    schema = inferred_alone(table, recipe.table, rows=some)
    if recipe.table.carry_others and (others := _left_out(table, schema, recipe)):
        return inferred_alone(table, recipe.table, _carrying(others, recipe), some)
    return schema


def _fitted_rows(table: Table, recipe: Recipe) -> Bools | None:
    """[N] the rows that statistics come from: those that the recipe does not hold out; None: all."""
    apart = held_out(recipe, table.N)
    return None if apart is None else np.isin(np.arange(table.N), apart[0].numpy())


def _not_taken(schema: Schema, recipe: Recipe) -> list[str]:
    """The columns of levels that the model does not take, and whose kind nobody named."""
    taken = takes_levels(recipe.model.name, recipe.method.name)
    others = [] if taken else [c.name for c in schema.encoded if all(c.level_counts)]
    return [name for name in others if name not in recipe.table.columns]


def _left_out(table: Table, schema: Schema, recipe: Recipe) -> list[str]:
    """The columns that --carry-others carries. InputError where that leaves none to model."""
    others = _not_taken(schema, recipe)
    if others and len(others) == len(schema.modelled) and not schema.constants:
        raise InputError(
            f"{table.label}: no column left to model: --carry-others carries {named('column', others)} of levels",
            who_takes_levels(recipe.model.name),
        )
    return others


def _carrying(others: Sequence[str], recipe: Recipe) -> dict[str, str]:
    """The kinds of columns that were named, and of others, which are carried."""
    return {**recipe.table.columns, **dict.fromkeys(others, "carry")}


def refitted(schema: Schema, table: Table, recipe: Recipe, rows: Tensor) -> Schema:
    """The same columns with the statistics of some rows [n] of the table alone; a column that does not vary among them
    keeps those that it has, and so does one that would have other dimensions."""
    which = np.isin(np.arange(table.N), rows.numpy())
    numbers = [column.name for column in schema.columns if isinstance(column, Number)]
    some = inferred_columns(table, recipe.table, rows=which, numbers=numbers)
    if recipe.table.carry_others and (others := _not_taken(some, recipe)):
        some = inferred_columns(table, recipe.table, _carrying(others, recipe), which, numbers)

    def refitted(old: Column, new: Column) -> Column:
        if not isinstance(old, ModelledColumn) or not isinstance(new, ModelledColumn):
            return old
        return new if new.level_counts == old.level_counts else old

    return replace(schema, columns=tuple(map(refitted, schema.columns, some.columns)))


def match(
    table: Table,
    schema: Schema,
    reporter: Reporter,
    fate: str = IMPUTED,
    unseen: Unseen = "error",
) -> None:
    """Check a table against a fitted schema, with a line for what is unusual. Levels that the fit has not seen are
    missing in the table from now on, where they count so."""
    tell(check(table, schema, fate, unseen), reporter)


def tell(notes: Sequence[str], reporter: Reporter) -> None:
    """Say the notes on a table; those that a user must read as warnings."""
    for note in notes:
        (reporter.warn if isinstance(note, Alarm) else reporter.say)(note)


def weighted(rows: Rows, table: Table, settings: TableSettings) -> Rows:
    """Rows of a table with the weights that its column has, where one is named as such. InputError where a cell of it
    is no weight."""
    if settings.weight is None:
        return rows
    return rows.weighted(torch.from_numpy(row_weights(table, settings.weight))[rows.places])


class Survey(NamedTuple):
    """What a look at all rows of a table finds: how its columns are written; and of the rows that are to be filled, how
    many have a hole, and how many holes there are."""

    styles: dict[str, Style]
    incomplete: int
    holes: Holes


class Part(NamedTuple):
    """The rows of a table that are to be filled, a shard of it; `keys` is told of those before them."""

    rows: range
    keys: RowKeys


def survey(
    source: Source,
    schema: Schema,
    reporter: Reporter,
    strict: bool = False,
    unseen: Unseen = "error",
    part: Part | None = None,
) -> Survey:
    """As `match`, block by block. With `strict`, HolesLeft where holes would stay.

    part  the rows that are to be filled; None: all of them
    """
    every, holes = Holes(schema), Holes(schema)
    checking = Check(schema, source.origin.names, source.origin.label, IMPUTED, unseen)
    incomplete = 0

    def tables() -> Iterator[Table]:
        nonlocal incomplete
        for first, table in source.blocks():
            checking.add(table)
            every.add(table)
            if part is not None:
                begin, end = (min(max(row - first, 0), table.N) for row in (part.rows.start, part.rows.stop))
                if begin:
                    part.keys.skip(table, begin)
                if begin < end:
                    holes.add(table, slice(begin, end))
                    incomplete += int(absent(table, schema)[begin:end].any(1).sum())
            yield table

    styles = find_styles(tables(), schema)
    notes = checking.notes()
    if strict and every.left:
        one = every.left == 1
        raise HolesLeft(
            f"{source.origin.label}: {every.left} hole{'s' * (not one)} would stay, in columns that are not modelled: "
            f"{every.where()}",
            "nothing was written; leave out --strict (strict=True in Python) to fill the others, or drop these columns",
        )
    tell(notes + every.notes(), reporter)
    return Survey(styles, checking.incomplete, every) if part is None else Survey(styles, incomplete, holes)


def rows_of(
    table: Table,
    schema: Schema,
    seed: int,
    draw: int = 0,
    keys: Tensor | None = None,
    progress: Callable[[float], None] | None = None,
) -> Rows:
    """The encoded rows of a table; `keys`: those of the rows, where they are part of a larger table; `progress` is told
    the share of the columns that are done."""
    if isinstance(table, TableInFiles) and draw == 0 and keys is None:
        encoded = encode_in_files(table, schema, seed=seed, progress=progress)
    else:
        encoded = encode(table, schema, seed=seed, draw=draw, keys=keys, progress=progress)
    return Rows(encoded.table, encoded.keys, torch.arange(table.N), EncodedTable(table, schema))


def kept_rows(run: RunFolder, table: TableInFiles, schema: Schema) -> Rows:
    """The encoded rows of the table that a run keeps, as `rows_of` gave them. RunError where it cannot."""
    found = run.encoded(Scratch(table.folder))
    scratch = Scratch(table.folder)
    encoded = TensorTable(found["x"], found["missing"], schema.layout, scratch=scratch, rounding=rounding_in(schema))
    return Rows(encoded, found["keys"], torch.arange(table.N), EncodedTable(table, schema))


def to_keep(rows: Rows) -> Parts:
    """What a run keeps of encoded rows."""
    return {ENCODED: {"x": rows.table.x, "missing": rows.table.missing, "keys": rows.keys}}


def training_rows(
    rows: Rows, keep_empty: bool, hint: str = "check --na-values, --mask and the kinds of the columns"
) -> Rows:
    """The rows that a fit uses; `keep_empty`: and all others beside them. InputError, with a hint, when no row has an
    observed cell."""
    if bool(rows.table.missing.all()):
        where = "" if rows.source is None else f"{rows.source.table.label}: "
        raise InputError(f"{where}no modelled cell is observed", hint)
    used = rows.table.used
    return rows if keep_empty or len(used) == rows.table.N else rows.at(used)


def split(N: int, fraction: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """(training, held out): which of N rows. UsageError when either would be empty."""
    kept, held = split_rows(N, fraction, generator)
    if len(held) == 0 or len(kept) == 0:
        raise UsageError(
            f"--val {fraction:g}: of {N} rows {len(held)} would be held out and {len(kept)} fitted",
            "give another fraction, or a file",
        )
    return kept, held


def held_out(recipe: Recipe, N: int) -> tuple[Tensor, Tensor] | None:
    """Which of N rows are fitted and which are held out; None where `val` is no fraction."""
    return split(N, recipe.val, stream(recipe.seed, "split")) if isinstance(recipe.val, float) else None


def require_fitted_files(run: RunStore, hint: str) -> None:
    """InputError, with a hint, for a file that the run was fitted on and that is not where it was."""
    data = run.record.data
    for path in (*(data.paths or ()), *([data.mask] if data.mask else [])):
        if path != "-" and not is_address(path) and not Path(path).exists():
            raise InputError(f"{path}: no such file, and {run.name} was fitted on it", hint)


def check_same_data(run: RunStore, table: Table | Origin, otherwise: str | None = None) -> None:
    """InputError when the table is not the one that the run was fitted on. `otherwise`: what the hint names beside
    restoring it."""
    if table.sha256 != run.record.data.sha256:
        raise InputError(
            f"{table.label} has changed since {run.name} was fitted (SHA-256 {table.sha256[:12]}…, "
            f"the run has {run.record.data.sha256[:12]}…)",
            "restore the file" if otherwise is None else f"restore the file, or {otherwise}",
        )


def check_same_held(run: RunStore, sha256: str | None) -> None:
    """InputError when the table of held-out rows (--val FILE) is not the one that scored the run so far."""
    before = run.record.data.val_sha256 or sha256  # runs of older versions did not note it
    if sha256 != before:
        raise InputError(
            f"the table of --val has changed since {run.name} was fitted: the scores so far are of other rows",
            "restore the file, or start another run",
        )
