"""Infer what the columns of a table are (check.py checks a new table against a fitted schema)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import get_args

import numpy as np

from vgi_cli.columns.base import Bound, Column, Kind, Lattice, Role, Scale, Schema, Spike, Transform
from vgi_cli.columns.bounds import bounds_of
from vgi_cli.columns.levels import find_levels, mostly_gaps, numbers_of
from vgi_cli.columns.limits import Asked, asked_for
from vgi_cli.columns.numerals import Floats, plain
from vgi_cli.columns.rounding import find_lattice, has_repeats, stand_in
from vgi_cli.columns.scaling import fit_scale
from vgi_cli.columns.spikes import find_spikes
from vgi_cli.encoding.leftover import count_holes
from vgi_cli.encoding.magnitudes import refuse_magnitudes
from vgi_cli.encoding.suspects import looks_written, suspects
from vgi_cli.errors import InputError, UsageError, nearest
from vgi_cli.table.base import Bools, Table
from vgi_cli.table.csv.text import looks_like_data
from vgi_cli.table.wording import SHOWN, are, capped, example, hole_notes, missing_hint, named, token_hint

__all__ = ["Column", "Lattice", "Scale", "Schema", "infer_schema"]

NUMERIC_SHARE = 0.9
"""From this share of numbers on, a column that is not all numbers is an error rather than text."""
COARSE = 1e-3
"""A resolution above this share of the standard deviation is dequantised."""
DUST = 6
"""Decimals that a few values have beyond all others where they are results of arithmetic, no resolution."""
PILE = 0.2
"""Share of a column's cells from which on a value that is given room is named to the user."""
OVERRIDES = ("carry", "integer", "numeric")


def infer_schema(
    table: Table,
    *,
    ids: Sequence[str] = (),
    exclude: Sequence[str] = (),
    kinds: Mapping[str, str] | None = None,
    unbounded: Sequence[str] = (),
    bounds: Mapping[str, str] | None = None,
    transform: Transform = "linear",
    rows: Bools | None = None,
) -> tuple[Schema, list[str]]:
    """The schema of a table to fit, and what the user should know about it, one line each.

    ids, exclude  columns to carry (ids also key the randomness)
    kinds         `integer`, `numeric` or `carry` for columns that are not what they look like
    bounds        limits of the fills by column (`all`: of every one, unless one is called that): see ranges.py
    unbounded     columns (or `all`) without any limit: the same as `none` there
    transform     `linear` standardises; `normal` also bends each column towards a normal distribution
    rows          [N] which rows the statistics come from (range, scale, knots, spikes, repeats); none: all

    What a column is comes from all rows: its kind, its levels and bounds, and how its numbers are written (whole,
    decimals, the spacing of a rounded column). These are properties of the record, not of the law of the values, and
    every row must fit them: a spacing of 5 found among `rows` would give a 3 elsewhere a probability that belongs to
    other values. A column without a value among `rows` counts as empty, one without two as constant.

    A column is dequantised when it is whole, when its resolution exceeds COARSE standard deviations, or when values
    repeat (`has_repeats`); then values that hold far more cells than their neighbours get room (spikes.py). Raises
    UsageError for names and kinds that cannot be meant, InputError for columns that cannot be used.
    """
    kinds = dict(kinds or {})
    if transform not in get_args(Transform):
        raise UsageError(f"unknown transform '{transform}'", nearest(transform, get_args(Transform)))
    asked = asked_for(table.names, bounds or {}, unbounded)
    flags = {name: "--unbounded" if name in unbounded else "--bounds" for name, one in asked.items() if one.named}
    _check_flags(table, ids, exclude, kinds, flags)
    columns = []
    for name in table.names:
        role: Role = "data"
        if name in table.index and name not in kinds and name not in ids:
            role = "index"
        if name in exclude:
            role = "exclude"
        if name in ids:
            role = "id"
        columns.append(_column(table, name, role, kinds.get(name), asked.get(name), transform, rows))
    schema = Schema(tuple(columns), transform)
    for name, flag in flags.items():
        varies = rows is None or schema.columns[table.place(name)].kind not in ("constant", "empty")
        if name not in schema.modelled and varies:
            message = f"{flag} {name}: the column is not modelled"
            raise UsageError(message, nearest(name, schema.modelled) if schema.modelled else None)
    if not schema.modelled and not schema.constants:
        _refuse_no_numbers(table, schema)
    return schema, _notes(table, schema, rows is not None) + suspects(table, schema, kinds)


def _check_flags(
    table: Table, ids: Sequence[str], exclude: Sequence[str], kinds: Mapping[str, str], bounds: Mapping[str, str]
) -> None:
    """UsageError for names that the table does not have, and for what disagrees. `bounds`: column -> flag."""
    named = [("--id", name) for name in ids] + [("--exclude", name) for name in exclude]
    for flag, name in [
        *named,
        *(("--column", name) for name in kinds),
        *((flag, name) for name, flag in bounds.items()),
    ]:
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


def _column(
    table: Table,
    name: str,
    role: Role,
    override: str | None,
    asked: Asked | None,
    transform: Transform,
    rows: Bools | None,
) -> Column:
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
        what = f"{table.label}: column '{name}' holds numbers, but also {example(table, name, wrong)}"
        if override is not None:
            what = f"{table.label}: --column {name}={override}, but the column holds {example(table, name, wrong)}"
        raise InputError(what, token_hint(table, name, wrong))
    _refuse_infinite(table, name, numbers.values)
    seen = ~missing if rows is None else ~missing & rows
    if not seen.any():
        return Column(name, "empty")
    return _numeric(table, name, numbers.values[~missing], numbers.values[seen], override, asked, transform)


def _numeric(
    table: Table,
    name: str,
    every: Floats,
    values: Floats,
    override: str | None,
    asked: Asked | None,
    transform: Transform,
) -> Column:
    """A column of numbers; `every` observed one, and the `values` among them that statistics come from."""
    whole = bool((every == np.rint(every)).all())
    if override == "integer" and not whole:
        broken = table.numeric(name)
        what = example(table, name, np.isfinite(broken) & (broken != np.rint(broken)))
        raise InputError(
            f"{table.label}: --column {name}=integer, but the column holds {what}", f"`--column {name}=numeric`?"
        )
    kind: Kind = "integer" if whole and override != "numeric" else "numeric"
    spelled = table.spelling(name)
    fewest, digits = (0, 17) if spelled is None else (spelled.fewest, spelled.significant)
    lattice = None
    if not (whole and override == "numeric"):
        decimals = 0 if whole else None if spelled is None else spelled.most
        lattice = find_lattice(every, values, decimals, search=spelled is None and not whole, single=table.single(name))
        if lattice is not None and spelled is not None and lattice.decimals > spelled.usual + DUST:
            lattice = None
    low, high = float(values.min()), float(values.max())
    if low == high:
        return Column(name, "constant", low=low, high=high, lattice=lattice, decimals=fewest, digits=digits)
    refuse_magnitudes(table, name, values, transform)
    if asked is not None:
        _refuse_outside(table, name, asked)
    linear = fit_scale(values, "linear", None)
    dequantise = lattice is not None and (
        kind == "integer" or lattice.resolution > COARSE * linear.sd or has_repeats(values)
    )
    if lattice is None and kind == "numeric" and has_repeats(values):
        lattice, dequantise = stand_in(linear.sd), True
    resolution = lattice.resolution if lattice is not None and dequantise else None
    spikes: tuple[Spike, ...] = ()
    levels: tuple[float, ...] = ()
    if resolution is not None and transform != "none":
        if kind == "integer" and override is None and (asked is None or asked.rule == "observed" or not asked.named):
            levels = find_levels(every, resolution)
        spikes = () if levels else find_spikes(values, resolution)
    lower, upper = bounds_of(every, kind, lattice, asked, table.limits(name))
    scale = fit_scale(values, transform, resolution, spikes)
    if levels:
        lower, upper = Bound(levels[0], "levels"), Bound(levels[-1], "levels")
        scale = fit_scale(numbers_of(values, levels), transform, 1.0)
    return Column(
        name,
        kind,
        low=low,
        high=high,
        lower=lower,
        upper=upper,
        lattice=lattice,
        dequantise=dequantise,
        spikes=spikes,
        levels=levels,
        scale=scale,
        sd=linear.sd if spikes or levels else None,
        decimals=fewest,
        digits=max(digits, 6),
    )


def _piles(table: Table, column: Column) -> list[tuple[float, float]]:
    """The spikes of a column that are worth a word, and the share of the observed cells that each holds."""
    values = table.numeric(column.name)[~table.missing(column.name)] if column.spikes else np.empty(0)
    shares = [(spike.value, float(spike.holds(values, column.resolution or 0.0).mean())) for spike in column.spikes]
    return [(value, share) for value, share in shares if share >= PILE]


def _level_note(column: Column) -> str:
    """What becomes of a column of which few values with gaps between them occur."""
    what = f"column '{column.name}' holds only {', '.join(map(plain, column.levels))}"
    if mostly_gaps(column.levels, column.resolution or 1.0):
        return f"{what}: probably a code, filled with these values; `--column {column.name}=carry` to leave it alone"
    return f"{what}: filled with these values; `--column {column.name}=integer` to allow those between"


def _refuse_outside(table: Table, name: str, asked: Asked) -> None:
    """InputError where an observed value lies outside the limits that were asked for."""
    values = table.numeric(name)
    outside = np.zeros(table.N, bool)
    for limit, side in ((asked.low, -1), (asked.high, 1)):
        if limit is not None:
            outside |= side * values > side * limit
    if outside.any():
        held = f"but column '{name}' holds {example(table, name, outside)}"
        hint = f"{missing_hint(table, name, outside)}, or give wider limits"
        raise InputError(f"{table.label}: --bounds {asked.said}, {held}", hint)


def _refuse_infinite(table: Table, name: str, values: Floats) -> None:
    infinite = np.isinf(values)
    if infinite.any():
        raise InputError(
            f"{table.label}: column '{name}' holds an infinity: {example(table, name, infinite)}",
            token_hint(table, name, infinite),
        )


def _refuse_no_numbers(table: Table, schema: Schema) -> None:
    words = {"carried": "text", "empty": "empty"}
    found = [f"'{c.name}' ({words[c.kind] if c.role == 'data' else c.role})" for c in schema.columns[:5]]
    more = len(schema.columns) - 5
    hint = "found " + ", ".join(found) + (f" and {more} more" if more > 0 else "")
    for column in schema.columns:
        if column.kind == "carried" and column.role == "data" and looks_written(table, column.name):
            hint = f"column '{column.name}' has no plain numbers: write 1234.5, without commas, blanks or units"
    raise InputError(f"{table.label}: no numeric column to model", hint)


def _notes(table: Table, schema: Schema, some: bool) -> list[str]:
    """`some`: whether statistics come from some of the rows only."""
    notes = []
    fitted = " in the rows that are fitted" if some else ""
    D = len(schema.modelled)
    constants = schema.constants
    empty = [c.name for c in schema.columns if c.kind == "empty"]
    if looks_like_data(table.names):
        notes.append(f"the column names of {table.label} are numbers: is the header line missing?")
    unmet = table.unmet_tokens()
    if unmet:
        notes.append(f"no cell of {table.label} is {' or '.join(repr(t) for t in unmet)} (--na-values)")
    if table.N == 1:
        notes.append(f"{table.label} has one row")
    if D == 1:
        notes.append(f"one column to model: '{schema.modelled[0]}'")
    if D + len(constants) > table.N > 1:
        notes.append(f"more numeric columns ({D + len(constants)}) than rows ({table.N})")
    if constants:
        names = named("column", [c.name for c in constants])
        notes.append(f"{names} {are(constants)} constant{fitted}: holes get the constant")
    piles = [f"{value:g} of '{c.name}' ({share:.0%})" for c in schema.encoded for value, share in _piles(table, c)]
    if piles:
        more = f" and {len(piles) - SHOWN} more" if len(piles) > SHOWN else ""
        notes.append(f"values that pile up, drawn as often as they occur: {', '.join(piles[:SHOWN])}{more}")
    notes += capped([_level_note(column) for column in schema.encoded if column.levels])
    if empty:
        notes.append(f"{named('column', empty)} {are(empty)} empty{fitted}: carried, nothing to learn from")
    notes += count_holes(table, schema).notes()
    holes = np.stack([table.missing(name) for name in schema.modelled], 1) if D else np.zeros((table.N, 0), bool)
    incomplete, absent = int(holes.any(1).sum()), int(holes.all(1).sum())
    return notes + hole_notes(table.label, D > 0, incomplete, absent, "not used by the fit, imputed from the model")
