"""Infer what the columns of a table are, and check a new table against a fitted schema."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import get_args

import numpy as np

from vgi_cli.errors import InputError, UsageError, nearest
from vgi_cli.table.base import Bools, Table
from vgi_cli.table.columns import Column, Kind, Lattice, Role, Scale, Schema, Transform
from vgi_cli.table.csv_text import looks_like_data
from vgi_cli.table.numerals import Floats
from vgi_cli.table.rounding import find_lattice, has_spikes, stand_in
from vgi_cli.table.scaling import fit_scale

__all__ = ["Column", "Lattice", "Scale", "Schema", "check", "infer_schema"]

NUMERIC_SHARE = 0.9
"""From this share of numbers on, a column that is not all numbers is an error rather than text."""
COARSE = 1e-3
"""A resolution above this share of the standard deviation is dequantised."""
OVERRIDES = ("carry", "integer", "numeric")


def infer_schema(
    table: Table,
    *,
    ids: Sequence[str] = (),
    exclude: Sequence[str] = (),
    kinds: Mapping[str, str] | None = None,
    unbounded: Sequence[str] = (),
    transform: Transform = "linear",
) -> tuple[Schema, list[str]]:
    """The schema of a table to fit, and what the user should know about it, one line each.

    ids, exclude  columns to carry (ids also key the randomness)
    kinds         `integer`, `numeric` or `carry` for columns that are not what they look like
    unbounded     columns whose fills may leave the observed range
    transform     `linear` standardises; `normal` also bends each column towards a normal distribution

    A column is dequantised when it is whole, when its resolution exceeds COARSE standard deviations, or when values
    repeat (`has_spikes`). Raises UsageError for names and kinds that cannot be meant, InputError for columns that
    cannot be used.
    """
    kinds = dict(kinds or {})
    if transform not in get_args(Transform):
        raise UsageError(f"unknown transform '{transform}'", nearest(transform, get_args(Transform)))
    _check_flags(table, ids, exclude, kinds, unbounded)
    columns = []
    for name in table.names:
        role: Role = "data"
        if name in table.index and name not in kinds and name not in ids:
            role = "index"
        if name in exclude:
            role = "exclude"
        if name in ids:
            role = "id"
        columns.append(_column(table, name, role, kinds.get(name), name not in unbounded, transform))
    schema = Schema(tuple(columns), transform)
    for name in unbounded:
        if name not in schema.modelled:
            message = f"--unbounded {name}: the column is not modelled"
            raise UsageError(message, nearest(name, schema.modelled) if schema.modelled else None)
    if not schema.modelled and not schema.constants:
        _refuse_no_numbers(table, schema)
    return schema, _notes(table, schema)


def check(table: Table, schema: Schema, fate: str = "imputed from the model") -> list[str]:
    """Whether a new table can be encoded with a fitted schema: notes, one line each.

    Raises InputError when it lacks a fitted column or holds text or infinities in one. Columns are matched by name.
    `fate`: what becomes of fully missing rows, for the note.
    """
    checking = Check(schema, table.names, table.label, fate)
    checking.add(table)
    return checking.notes()


class _Cells:
    """Cells of a column that are not what they should be: how many, and the first of them."""

    def __init__(self) -> None:
        self.count = 0
        self._first = self.hint = ""

    def add(self, table: Table, name: str, which: Bools) -> None:
        if which.any():
            if self.count == 0:
                self._first, self.hint = _first_cell(table, name, which), _token_hint(table, name, which)
            self.count += int(which.sum())

    def __str__(self) -> str:
        return self._first + _others(self.count)


class Check:
    """Whether the rows of a new table, which may come in blocks, can be encoded with a fitted schema (see `check`).

    rows, incomplete  number of rows so far, and of those with a hole in a modelled column
    """

    def __init__(self, schema: Schema, names: Sequence[str], label: str, fate: str) -> None:
        """InputError when the table lacks a fitted column."""
        self._schema, self._names, self._label, self._fate = schema, names, label, fate
        self.rows = self.incomplete = self._absent = 0
        self._wrong, self._infinite, self._broken = ({name: _Cells() for name in schema.modelled} for _ in range(3))
        self._observed = dict.fromkeys(schema.modelled, False)
        lacking = [name for name in schema.modelled if name not in names]
        if lacking:
            hint = "the fit needs every modelled column; a column may be empty"
            close = difflib.get_close_matches(lacking[0], [n for n in names if n not in schema.modelled], n=1)
            if close:
                hint = f"rename '{close[0]}' to '{lacking[0]}'?"
            raise InputError(f"{label}: lacks the fitted {_named('column', lacking)}", hint)

    def add(self, table: Table) -> None:
        """Look at the next rows."""
        self.rows += table.N
        for column in self._schema.encoded:
            name, numbers, missing = column.name, table.numbers(column.name), table.missing(column.name)
            self._wrong[name].add(table, name, ~missing & ~numbers.number)
            self._infinite[name].add(table, name, np.isinf(numbers.values))
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
                raise InputError(message, self._infinite[name].hint)
            if self._broken[name].count:
                notes.append(f"column '{name}' was whole in the fit but holds {self._broken[name]}")
        if [n for n in self._names if n in schema.modelled] != list(schema.modelled):
            notes.append("columns are in another order than in the fit: matched by name")
        lost = [name for name in schema.ids if name not in self._names]
        if lost:
            notes.append(f"{_named('id column', lost)} {_are(lost)} not in {label}: draws are keyed by row number")
        empty = [name for name, seen in self._observed.items() if not seen]
        if empty and self.rows > 1:
            notes.append(f"{_named('column', empty)} {_are(empty)} empty in {label}: imputed from the model")
        return notes + _hole_notes(label, bool(schema.modelled), self.incomplete, self._absent, self._fate)


def _check_flags(
    table: Table, ids: Sequence[str], exclude: Sequence[str], kinds: Mapping[str, str], unbounded: Sequence[str]
) -> None:
    for flag, names in (("--id", ids), ("--exclude", exclude), ("--column", kinds), ("--unbounded", unbounded)):
        for name in names:
            if name not in table.names:
                raise UsageError(f"{flag} {name}: {table.label} has no such column", nearest(name, table.names))
    for name, kind in kinds.items():
        if kind not in OVERRIDES:
            raise UsageError(f"--column {name}={kind}: unknown kind", nearest(kind, OVERRIDES))
        if kind != "carry" and (name in ids or name in exclude):
            flag = "--id" if name in ids else "--exclude"
            raise UsageError(f"--column {name}={kind} disagrees with {flag} {name}", "drop one of them")
    for name in ids:
        if name in exclude:
            raise UsageError(f"--id {name} disagrees with --exclude {name}", "an id is carried already: drop --exclude")


def _column(table: Table, name: str, role: Role, override: str | None, bounded: bool, transform: Transform) -> Column:
    if role != "data" or override == "carry":
        return Column(name, "carried", role)
    missing = table.missing(name)
    if missing.all():
        return Column(name, "empty")
    if table.typed(name) and override is None:
        return Column(name, "carried")
    numbers = table.numbers(name)
    wrong = ~missing & ~numbers.number
    if wrong.any():
        share = 1 - wrong.sum() / (~missing).sum()
        if override is None and share < NUMERIC_SHARE:
            return Column(name, "carried")
        what = f"{table.label}: column '{name}' holds numbers, but also {_example(table, name, wrong)}"
        if override is not None:
            what = f"{table.label}: --column {name}={override}, but the column holds {_example(table, name, wrong)}"
        raise InputError(what, _token_hint(table, name, wrong))
    _refuse_infinite(table, name, numbers.values)
    return _numeric(table, name, numbers.values[~missing], override, bounded, transform)


def _numeric(
    table: Table, name: str, values: Floats, override: str | None, bounded: bool, transform: Transform
) -> Column:
    """A column of numbers; `values` are the observed ones."""
    whole = bool((values == np.rint(values)).all())
    if override == "integer" and not whole:
        broken = table.numeric(name)
        what = _example(table, name, np.isfinite(broken) & (broken != np.rint(broken)))
        raise InputError(
            f"{table.label}: --column {name}=integer, but the column holds {what}", f"`--column {name}=numeric`?"
        )
    kind: Kind = "integer" if whole and override != "numeric" else "numeric"
    spelled = table.spelling(name)
    fewest, digits = (0, 17) if spelled is None else (spelled.fewest, spelled.significant)
    lattice = None
    if not (whole and override == "numeric"):
        decimals = 0 if whole else None if spelled is None else spelled.most
        lattice = find_lattice(values, decimals, search=spelled is None and not whole, single=table.single(name))
    low, high = float(values.min()), float(values.max())
    if low == high:
        return Column(name, "constant", low=low, high=high, lattice=lattice, decimals=fewest, digits=digits)
    linear = fit_scale(values, "linear", None)
    dequantise = lattice is not None and (
        kind == "integer" or lattice.resolution > COARSE * linear.sd or has_spikes(values)
    )
    if lattice is None and kind == "numeric" and has_spikes(values):
        lattice, dequantise = stand_in(linear.sd), True
    scale = fit_scale(values, transform, lattice.resolution if lattice is not None and dequantise else None)
    return Column(
        name,
        kind,
        low=low,
        high=high,
        bounded=bounded,
        lattice=lattice,
        dequantise=dequantise,
        scale=scale,
        decimals=fewest,
        digits=max(digits, 6),
    )


def _refuse_infinite(table: Table, name: str, values: Floats) -> None:
    infinite = np.isinf(values)
    if infinite.any():
        raise InputError(
            f"{table.label}: column '{name}' holds an infinity: {_example(table, name, infinite)}",
            _token_hint(table, name, infinite),
        )


def _refuse_no_numbers(table: Table, schema: Schema) -> None:
    words = {"carried": "text", "empty": "empty"}
    found = [f"'{c.name}' ({words[c.kind] if c.role == 'data' else c.role})" for c in schema.columns[:5]]
    more = len(schema.columns) - 5
    hint = "found " + ", ".join(found) + (f" and {more} more" if more > 0 else "")
    for column in schema.columns:
        if column.kind == "carried" and column.role == "data" and _decimal_commas(table, column.name):
            hint = f"column '{column.name}' has decimal commas: write them as points"
    raise InputError(f"{table.label}: no numeric column to model", hint)


def _decimal_commas(table: Table, name: str) -> bool:
    cells = [c for c in table.text(name)[:100] if c is not None]
    return bool(cells) and all(c.strip().lstrip("+-").replace(",", "", 1).isdigit() for c in cells)


def _example(table: Table, name: str, which: Bools) -> str:
    """`'?' in row 3 (line 4) and 2 more cells`."""
    return _first_cell(table, name, which) + _others(int(which.sum()))


def _first_cell(table: Table, name: str, which: Bools) -> str:
    row = int(np.flatnonzero(which)[0])
    return f"'{table.raw_text(name)[row]}' in {table.where(row)}"


def _others(count: int) -> str:
    return f" and {count - 1} more cell{'s' if count > 2 else ''}" if count > 1 else ""


def _token_hint(table: Table, name: str, which: Bools) -> str:
    row = int(np.flatnonzero(which)[0])
    carry = f"`--column {name}=carry` to carry the column as it is"
    if table.numbers(name).padded[row]:
        return f"a leading zero makes a code, not a number: {carry}"
    token = str(table.raw_text(name)[row]).strip()
    return f"`--na-values '{token}'` if that means missing, or {carry}"


def _named(what: str, names: Sequence[str]) -> str:
    """`column 'a' is`-style list: `column 'a'`, `columns 'a', 'b' and 3 more`."""
    shown = ", ".join(f"'{n}'" for n in names[:5])
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"{what}{'s' if len(names) > 1 else ''} {shown}{more}"


def _notes(table: Table, schema: Schema) -> list[str]:
    notes = []
    D = len(schema.modelled)
    constants = schema.constants
    empty = [c.name for c in schema.columns if c.kind == "empty"]
    if looks_like_data(table.names):
        notes.append(f"the column names of {table.label} are numbers: is the header line missing?")
    if table.N == 1:
        notes.append(f"{table.label} has one row")
    if D == 1:
        notes.append(f"one column to model: '{schema.modelled[0]}'")
    if D + len(constants) > table.N > 1:
        notes.append(f"more numeric columns ({D + len(constants)}) than rows ({table.N})")
    if constants:
        named = _named("column", [c.name for c in constants])
        notes.append(f"{named} {_are(constants)} constant: holes get the constant")
    if empty:
        notes.append(f"{_named('column', empty)} {_are(empty)} empty: carried, nothing to learn from")
    holes = np.stack([table.missing(name) for name in schema.modelled], 1) if D else np.zeros((table.N, 0), bool)
    incomplete, absent = int(holes.any(1).sum()), int(holes.all(1).sum())
    return notes + _hole_notes(table.label, D > 0, incomplete, absent, "not used by the fit, imputed from the model")


def _are(items: Sequence[object]) -> str:
    return "is" if len(items) == 1 else "are"


def _hole_notes(label: str, modelled: bool, incomplete: int, absent: int, fate: str) -> list[str]:
    if not modelled:
        return ["no column varies: there is nothing to model"]
    if not incomplete:
        return [f"{label} has no hole in a modelled column"]
    if absent:
        rows = "1 row is" if absent == 1 else f"{absent} rows are"
        return [f"{rows} fully missing: {fate}"]
    return []
