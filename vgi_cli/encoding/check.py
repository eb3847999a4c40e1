"""Check a new table against a fitted schema."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vgi_cli.columns.base import Column, Schema
from vgi_cli.columns.numerals import Floats, plain
from vgi_cli.encoding.magnitudes import too_far
from vgi_cli.errors import InputError, closest
from vgi_cli.table.base import Bools, Table
from vgi_cli.table.wording import are, capped, first_cell, hole_notes, named, others, token_hint


def check(table: Table, schema: Schema, fate: str = "imputed from the model") -> list[str]:
    """Whether a new table can be encoded with a fitted schema: notes, one line each.

    Raises InputError when it lacks a fitted column or holds text, infinities or values out of all proportion in one.
    Columns are matched by name. `fate`: what becomes of fully missing rows, for the note.
    """
    checking = Check(schema, table.names, table.label, fate)
    checking.add(table)
    return checking.notes()


class _Cells:
    """Cells of a column that are not what they should be: how many, and the first of them."""

    def __init__(self) -> None:
        self.count = 0
        self._first = ""

    def add(self, table: Table, name: str, which: Bools) -> None:
        if which.any():
            if self.count == 0:
                self._first = first_cell(table, name, which)
            self.count += int(which.sum())

    def __str__(self) -> str:
        return self._first + others(self.count)


class Check:
    """Whether the rows of a new table, which may come in blocks, can be encoded with a fitted schema (see `check`).

    rows, incomplete  number of rows so far, and of those with a hole in a modelled column
    """

    def __init__(self, schema: Schema, names: Sequence[str], label: str, fate: str) -> None:
        """InputError when the table lacks a fitted column."""
        self._schema, self._names, self._label, self._fate = schema, names, label, fate
        self.rows = self.incomplete = self._absent = 0
        kinds = ({name: _Cells() for name in schema.modelled} for _ in range(5))
        self._wrong, self._infinite, self._broken, self._outside, self._lost = kinds
        self._hints: dict[str, str] = {}
        self._observed = dict.fromkeys(schema.modelled, False)
        lacking = [name for name in schema.modelled if name not in names]
        if lacking:
            hint = "the fit needs every modelled column; a column may be empty"
            close = closest(lacking[0], [name for name in names if name not in schema.modelled])
            if close is not None:
                hint = f"rename '{close}' to '{lacking[0]}'?"
            raise InputError(f"{label}: lacks the fitted {named('column', lacking)}", hint)

    def add(self, table: Table) -> None:
        """Look at the next rows."""
        self.rows += table.N
        for column in self._schema.encoded:
            name, numbers, missing = column.name, table.numbers(column.name), table.missing(column.name)
            self._wrong[name].add(table, name, ~missing & ~numbers.number)
            infinite = np.isinf(numbers.values)
            if infinite.any() and not self._infinite[name].count:
                self._hints[name] = token_hint(table, name, infinite, fitted=True)
            self._infinite[name].add(table, name, infinite)
            lost = too_far(numbers.values, column)
            if lost.any() and not self._lost[name].count:
                self._hints[name] = token_hint(table, name, lost, fitted=True)
            self._lost[name].add(table, name, lost)
            self._outside[name].add(table, name, _far_outside(numbers.values, column))
            self._observed[name] |= not missing.all()
            if column.kind == "integer":
                broken = np.isfinite(numbers.values) & (numbers.values != np.rint(numbers.values))
                self._broken[name].add(table, name, broken)
        if self._schema.modelled:
            holes = np.stack([table.missing(name) for name in self._schema.modelled], 1)
            self.incomplete += int(holes.any(1).sum())
            self._absent += int(holes.all(1).sum())

    def notes(self) -> list[str]:
        """After the last rows: what the user should know. InputError where the table cannot be encoded."""
        schema, label = self._schema, self._label
        notes = []
        for name in schema.modelled:
            if self._wrong[name].count:
                raise InputError(
                    f"{label}: column '{name}' is numeric in the fit but holds {self._wrong[name]}",
                    f"`--na-values TOKEN` if that means missing; a fit with `--column {name}=carry` would carry it",
                )
            if self._infinite[name].count:
                message = f"{label}: column '{name}' holds an infinity: {self._infinite[name]}"
                raise InputError(message, self._hints[name])
            if self._lost[name].count:
                message = (
                    f"{label}: column '{name}' holds {self._lost[name]}: too far from the fitted values to compute"
                )
                raise InputError(f"{message} with", self._hints[name])
            if self._broken[name].count:
                notes.append(f"column '{name}' was whole in the fit but holds {self._broken[name]}")
        notes += capped([self._outside_note(c) for c in schema.encoded if self._outside[c.name].count])
        if [n for n in self._names if n in schema.modelled] != list(schema.modelled):
            notes.append("columns are in another order than in the fit: matched by name")
        lost = [name for name in schema.ids if name not in self._names]
        if lost:
            notes.append(
                f"{named('id column', lost)} {are(lost)} not in {label}: "
                f"draws are keyed without {'them' if len(lost) > 1 else 'it'}"
            )
        empty = [name for name, seen in self._observed.items() if not seen]
        if empty and self.rows > 1:
            notes.append(f"{named('column', empty)} {are(empty)} empty in {label}: imputed from the model")
        return notes + hole_notes(label, bool(schema.modelled), self.incomplete, self._absent, self._fate)

    def _outside_note(self, column: Column) -> str:
        cells = self._outside[column.name]
        assert column.low is not None and column.high is not None
        return (
            f"column '{column.name}': {cells} {'is' if cells.count == 1 else 'are'} far outside the range of the fit, "
            f"{plain(column.low)} to {plain(column.high)}: other units, or a code for missing?"
        )


def _far_outside(values: Floats, column: Column) -> Bools:
    """[N] whether each value lies farther from the range that was fitted than that is wide."""
    assert column.low is not None and column.high is not None
    width = column.high - column.low
    with np.errstate(over="ignore", invalid="ignore"):
        return np.isfinite(values) & ((values < column.low - width) | (values > column.high + width))
