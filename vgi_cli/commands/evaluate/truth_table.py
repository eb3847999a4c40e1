"""Whether the complete table of `--truth` is the table that is scored, row by row."""

from __future__ import annotations

import numpy as np

from vgi_cli.columns.base import ModelledColumn
from vgi_cli.columns.numerals import Bools
from vgi_cli.columns.schema import Schema
from vgi_cli.errors import InputError
from vgi_cli.table.base import Table

NEAR = 1e-9
"""Relative difference up to which two numbers are the same, written in two ways."""
FEWEST = 10
"""Rows from which on cells that differ say that the rows are others."""
OTHERS = 0.5
"""Of what two tables in another order differ by, the share from which on a column has other cells; the rows are taken
for others where most columns have."""
SAME = "the truth is the same table with its holes filled, row by row"


def require_same_rows(table: Table, truth: Table, schema: Schema) -> str | None:
    """A line on the observed cells of a table that differ in the truth; None where none does. InputError where the
    truth has other rows: another number of them, other ids, or other cells in most of them."""
    if truth.N != table.N:
        raise InputError(f"--truth: {truth.label} has {truth.N} rows, {table.label} has {table.N}", SAME)
    for name in schema.ids:
        if name in table.names and name in truth.names:
            one, other = table.raw_text(name), truth.raw_text(name)
            wrong = np.flatnonzero(one != other)
            if len(wrong):
                row = int(wrong[0])
                raise InputError(
                    f"--truth: '{name}' is '{one[row]}' in {table.where(row)} of {table.label}, but '{other[row]}' "
                    f"there in {truth.label}",
                    f"{SAME}: sort both by '{name}'",
                )
    columns = [column for column in schema.encoded if column.name in table.names]
    differ, seen, first = np.zeros(table.N, bool), np.zeros(table.N, bool), None
    cells, others = 0, 0
    for column in columns:
        both, wrong_cells, by_chance = _compared(table, truth, column)
        seen |= both
        differ |= wrong_cells
        cells += int(wrong_cells.sum())
        others += wrong_cells.sum() > OTHERS * both.sum() * by_chance
        if first is None and wrong_cells.any():
            row = int(np.flatnonzero(wrong_cells)[0])
            ours, theirs = (str(each.some_text(column.name, np.array([row]))[0]).strip() for each in (table, truth))
            first = f"column '{column.name}', {table.where(row)}: '{ours}' in {table.label}, '{theirs}' in the truth"
    if first is None:
        return None
    rows = f"{int(differ.sum()):,} of {int(seen.sum()):,} rows"
    if seen.sum() >= FEWEST and others > 0.5 * len(columns):
        raise InputError(f"--truth: {truth.label} has other observed cells in {rows}, first {first}", SAME)
    return (
        f"{cells:,} observed cell{'s' * (cells > 1)} differ{'s' * (cells == 1)} in the truth, in {rows}, first {first}"
    )


def _compared(table: Table, truth: Table, column: ModelledColumn) -> tuple[Bools, Bools, float]:
    """[N] which cells of a column both tables have, which of these differ, and the share of them that would differ from
    those of another row, drawn at random."""
    ours, theirs = column.codes(table.column(column.name)), column.true_codes(truth.column(column.name))
    both = np.isfinite(ours) & np.isfinite(theirs) & ~table.missing(column.name) & ~truth.missing(column.name)
    with np.errstate(invalid="ignore"):
        apart = np.abs(ours - theirs) > NEAR * np.maximum(np.abs(ours), np.abs(theirs))
    share = np.unique(ours[both], return_counts=True)[1] / max(int(both.sum()), 1)
    return both, both & apart, float(1 - np.square(share).sum())
