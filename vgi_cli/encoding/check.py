"""Check a new table against a fitted schema, and count the holes that no fill reaches: those of columns that are
carried (text, truth values, ids, …) or empty."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, Self

import numpy as np

from vgi_cli.columns.base import Cells, Finding
from vgi_cli.columns.numerals import Bools
from vgi_cli.columns.schema import Schema
from vgi_cli.columns.wording import SHOWN, Alarm, are, capped, first_cell, hole_notes, named, others, shortened
from vgi_cli.encoding.comparisons import breaks
from vgi_cli.encoding.keys import answering_keys, unlike_keys
from vgi_cli.encoding.orders import crossings
from vgi_cli.encoding.redundant import every_kept, rows_against, shown_zeros
from vgi_cli.encoding.relations import departures
from vgi_cli.encoding.skips import contradictions
from vgi_cli.encoding.structural_zeros import meetings
from vgi_cli.errors import InputError, closest
from vgi_cli.table.base import Table
from vgi_cli.table.fills import absent, forget_unseen

Unseen = Literal["error", "missing", "carry"]
FEW = 10
"""Fewer cells than this say nothing of a column as a whole."""
IMPUTED = "imputed from the model"
"""What becomes of rows without a cell where holes are filled."""
UNSEEN: dict[str, str] = {"missing": "count as missing and are filled", "carry": "stay, and say nothing to the model"}
"""What becomes of levels that the fit has not seen."""


def check(table: Table, schema: Schema, fate: str = IMPUTED, unseen: Unseen = "error") -> list[str]:
    """Whether a new table can be encoded with a fitted schema: notes, one line each.

    Raises InputError when it lacks a fitted column or holds text, infinities or values out of all proportion in one.
    Columns are matched by name. `fate`: what becomes of rows without a cell of a modelled column, for the note;
    `unseen`: of levels that the fit has not seen. Where these count as missing, they do in the table from now on.
    """
    checking = Check(schema, table.names, table.label, fate, unseen)
    checking.add(table)
    return checking.notes()


class _Found:
    """A finding of one column in the rows so far: how many cells, the first of them, and what to say of them; of levels
    that the fit has not seen, how many cells hold each."""

    def __init__(self, first: Finding) -> None:
        self.count, self._first = 0, ""
        self.finding = first
        self._levels: Counter[str] = Counter()
        self._near: dict[str, str] = {}

    def add(self, cells: Cells, finding: Finding) -> None:
        if finding.which.any():
            if self.count == 0:
                self.finding, self._first = finding, first_cell(cells, finding.which)
            self.count += int(finding.which.sum())
            self._levels.update(finding.unseen or {})
            self._near.update(finding.near)

    def holds(self, observed: int) -> bool:
        """Whether it is to be said of a column with so many observed cells."""
        least, _ = self.finding.warned
        return self.count > 0 and (least == 0 or self.count >= max(least * observed, FEW))

    def urgent(self, observed: int) -> bool:
        """Whether it is a warning there."""
        return self.holds(observed) and self.count >= self.finding.warned[1] * observed

    def __str__(self) -> str:
        if len(self._levels) > 1:
            return self.finding.words(f"{self.levels()}; {self.count} cells, first {self._first}", len(self._levels))
        return self.finding.words(self._first + others(self.count), 1 if self._levels else self.count)

    def levels(self, near: bool = False) -> str:
        """`'x' (7 cells), 'y' (1 cell) and 2 more levels (2 cells)`: the levels, those that most cells hold first;
        `near`: with the levels of the fit that are the same but for capitals."""
        often = sorted(self._levels.items(), key=lambda level: -level[1])
        rest = often[SHOWN:]
        more = f" and {len(rest)} more level{'s' * (len(rest) > 1)} ({_cells(sum(n for _, n in rest))})" if rest else ""
        fits = {level: f"; the fit has '{shortened(known)}'" for level, known in self._near.items()} if near else {}
        shown = [f"'{shortened(level)}' ({_cells(count)}{fits.get(level, '')})" for level, count in often[:SHOWN]]
        return ", ".join(shown) + more


def _said(found: Sequence[_Found], observed: int) -> list[_Found]:
    """What is to be said of a column with so many observed cells: of what is only said from a share of them on, nothing
    beside another warning (many cells far outside the range of the fit, and many more that are outside it)."""
    holding = [one for one in found if one.holds(observed)]
    return [
        one
        for one in holding
        if not one.finding.warned[0] or not any(other is not one and other.urgent(observed) for other in holding)
    ]


def _cells(count: int) -> str:
    return f"{count} cell{'s' * (count != 1)}"


class Check:
    """Whether the rows of a new table, which may come in blocks, can be encoded with a fitted schema (see `check`).

    rows, incomplete  number of rows so far, and of those with a hole in a modelled column
    """

    def __init__(self, schema: Schema, names: Sequence[str], label: str, fate: str, unseen: Unseen = "error") -> None:
        """InputError when the table lacks a fitted column."""
        self._unseen = unseen
        self._schema, self._names, self._label, self._fate = schema, names, label, fate
        self.rows = self.incomplete = 0
        self._bare = BareRows()
        self._found: dict[str, list[_Found]] = {name: [] for name in schema.modelled}
        self._observed = dict.fromkeys(schema.modelled, 0)
        self._told = replace(schema, structural_zeros=tuple(shown_zeros(schema)))
        self._departures = [0] * len(every_kept(schema))
        lacking = [name for name in schema.modelled if name not in names]
        if lacking:
            hint = "the fit needs every modelled column; a column may be empty"
            known = {column.name for column in schema.columns}
            others = [name for name in names if name not in known]
            has = f", and has {named('column', others)} which the fit has not" if others else ""
            close = closest(lacking[0], others)
            if close is not None:
                hint = f"rename '{close}' to '{lacking[0]}'?"
            elif others:
                hint = f"{hint}; rename one that is called otherwise here"
            raise InputError(f"{label}: lacks the fitted {named('column', lacking)}{has}", hint)

    def add(self, table: Table) -> None:
        """Look at the next rows. Levels that the fit has not seen are missing there from now on, if asked."""
        self.rows += table.N
        for column in self._schema.encoded:
            cells = table.column(column.name)
            findings = column.findings(cells)
            found = self._found[column.name]
            found += map(_Found, findings[len(found) :])
            for one, finding in zip(found, findings, strict=True):
                one.add(cells, finding)
            self._observed[column.name] += int((~cells.missing).sum())
        if self._unseen == "missing":
            forget_unseen(table, self._schema)
        schema = self._told
        departing = [*departures(table, schema), *unlike_keys(table, schema), *crossings(table, schema)]
        departing += [*contradictions(table, schema), *meetings(table, schema), *breaks(table, schema)]
        self._departures = [a + b for a, b in zip(self._departures, departing, strict=True)]
        if self._schema.modelled:
            holes = absent(table, self._schema)
            self.incomplete += int(holes.any(1).sum())
            bare = np.asarray(holes.all(1))
            self._bare.add(bare, answering_keys(table, self._schema, bare) if self._fate == IMPUTED else ())

    def notes(self) -> list[str]:
        """After the last rows: what the user should know. InputError where the table cannot be encoded."""
        schema, label = self._schema, self._label
        found = [one for name, of in self._found.items() for one in _said(of, self._observed[name])]
        urgent = [one for name, of in self._found.items() for one in of if one.urgent(self._observed[name])]
        strange = {
            name: one for name, of in self._found.items() for one in of if one.finding.unseen is not None and one.count
        }
        if self._unseen != "error":
            found = [one for one in found if one.finding.unseen is None]
        for one in found:
            if one.finding.refused is not None:
                raise InputError(f"{label}: {one}", one.finding.refused)
        notes = []
        if strange and self._unseen != "error":
            where = [f"{_cells(one.count)} of '{name}': {one.levels(near=True)}" for name, one in strange.items()]
            more = f" and {len(where) - SHOWN} more columns" if len(where) > SHOWN else ""
            notes = [f"levels that the fit has not seen {UNSEEN[self._unseen]}: {'; '.join(where[:SHOWN])}{more}"]
        told = [one for one in found if one not in urgent]
        notes += map(Alarm, capped([str(one) for one in found if one in urgent]))
        notes += [str(one) for one in told if not one.finding.several]
        notes += capped([str(one) for one in told if one.finding.several])
        for words, count, before in zip(every_kept(schema), self._departures, rows_against(schema), strict=True):
            if count and count != before:  # else these are the rows of the fit
                rows = f"{count:,} row{'s' * (count > 1)} of {label} depart{'s' * (count == 1)} from it"
                notes.append(f"{words} in every row of the fit; {rows}, and fills keep to it all the same")
        if [n for n in self._names if n in schema.modelled] != list(schema.modelled):
            notes.append("columns are in another order than in the fit: matched by name")
        lost = [name for name in schema.ids if name not in self._names]
        if lost:
            notes.append(
                f"{named('id column', lost)} {are(lost)} not in {label}: "
                f"draws are keyed without {'them' if len(lost) > 1 else 'it'}"
            )
        empty = [name for name, count in self._observed.items() if count == 0]
        if empty and self.rows > 1:
            notes.append(f"{named('column', empty)} {are(empty)} empty in {label}: imputed from the model")
        return notes + hole_notes(label, bool(schema.modelled), self.incomplete, self._bare.notes(self._fate))


class BareRows:
    """The rows of a table, which may come in blocks, that have no cell of a modelled column."""

    def __init__(self) -> None:
        self._rows = self._count = self._last = 0  # rows so far, bare ones, and how many of these stand last
        self._first: list[int] = []
        self._keys: dict[str, None] = {}

    def add(self, bare: Bools, keys: Sequence[str] = ()) -> Self:
        """Look at the next rows: which of them are bare; `keys`: the carried columns that say something of these."""
        self._keys |= dict.fromkeys(keys)
        where = np.flatnonzero(bare)
        self._first += (self._rows + 1 + where[: SHOWN - len(self._first)]).tolist()
        others = np.flatnonzero(~bare)
        self._last = len(bare) - 1 - int(others[-1]) if len(others) else self._last + len(bare)
        self._count += len(where)
        self._rows += len(bare)
        return self

    def notes(self, fate: str) -> list[str]:
        """One line where there are such rows, which they are and their `fate`."""
        if not self._count:
            return []
        several = self._count > 1
        more = f" and {self._count - len(self._first):,} more" if self._count > len(self._first) else ""
        rows = f"row{'s' * several} {', '.join(map(str, self._first))}{more}"
        if several and self._count == self._last < self._rows:
            between = "and" if self._count == 2 else "to"
            rows = f"the last {self._count:,} rows ({self._first[0]} {between} {self._rows})"
        hint = "; delete what is no row of the table" if 0 < self._last < self._rows else ""
        told = f", but for what follows from {named('column', list(self._keys))}" if self._keys else ""
        return [f"{rows} {'have' if several else 'has'} no cell of a modelled column: {fate}{told}{hint}"]


class Holes:
    """The holes of a table, whose rows may come in blocks, by what becomes of them.

    filled   number of those in modelled and constant columns, cells that a mask hides included
    staying  their number in each other column that has any: those of the table itself, since what a mask hides there is
             written as it is
    """

    def __init__(self, schema: Schema) -> None:
        self._known = {column.name for column in (*schema.encoded, *schema.constants)}
        self.filled = 0
        self.staying: dict[str, int] = {}

    def add(self, table: Table, rows: slice = slice(None)) -> Self:
        """Count the next rows, or some of them."""
        for name in table.names:
            if name in self._known:
                self.filled += int(table.missing(name)[rows].sum())
            elif count := int(table.blank(name)[rows].sum()):
                self.staying[name] = self.staying.get(name, 0) + count
        return self

    @property
    def left(self) -> int:
        """Number of holes that stay."""
        return sum(self.staying.values())

    @property
    def total(self) -> int:
        """Number of holes."""
        return self.filled + self.left

    def where(self) -> str:
        """`'note' (12), 'sex' (11)`: the columns whose holes stay, in their order, with their counts."""
        shown = list(self.staying.items())[:SHOWN]
        rest = len(self.staying) - len(shown)
        more = f" and {rest} more column{'s' if rest > 1 else ''} ({self.left - sum(n for _, n in shown)})"
        return ", ".join(f"'{name}' ({count})" for name, count in shown) + (more if rest else "")

    def notes(self) -> list[str]:
        """One line where holes stay."""
        if not self.staying:
            return []
        many = self.left > 1
        return [
            f"{self.left} hole{'s' * many} will stay, in {'columns' if len(self.staying) > 1 else 'a column'} "
            f"that {'are' if len(self.staying) > 1 else 'is'} not modelled: {self.where()}"
        ]
