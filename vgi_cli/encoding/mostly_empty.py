"""Columns of which most cells are missing, unlike the others: the day on which people left, notes, answers to a
question that few were asked. An empty cell may say something there, and its fill would be an invention."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vgi_cli.columns.blanks import unanswered_in
from vgi_cli.columns.numerals import Bools
from vgi_cli.columns.schema import Schema
from vgi_cli.columns.wording import Alarm, named, typed
from vgi_cli.encoding.skips import Skipped, alike
from vgi_cli.table.base import Table

FEWEST_ROWS = 20
"""Fewest rows, and ..."""
FEWEST = 10
"""... fewest observed cells of a column: of fewer another line says so."""
HALF, TIMES, NEARLY_ALL = 0.5, 2.0, 0.9
"""A column is mostly empty where so large a share of its cells is missing, and so many times what nearly all columns of
fewer holes have at most: where holes are many everywhere, none is."""


def mostly_empty_among(table: Table, schema: Schema, found: Sequence[Skipped]) -> tuple[tuple[str, ...], ...]:
    """The modelled columns that are mostly empty, those together that are missing in the same rows; but for those of
    which skips that were `found`, and what the schema says, tell where they are."""
    names = schema.modelled
    if table.N < FEWEST_ROWS or len(names) < 2:
        return ()
    observed = {name: ~table.missing(name) for name in names}
    share = np.array([1 - float(own.mean()) for own in observed.values()])
    others = share[share < HALF]
    if not len(others):
        return ()
    besides = {name for rule in (*unanswered_in(schema), *alike(found)) for name in rule.others}
    least = max(HALF, TIMES * float(np.quantile(others, NEARLY_ALL)))
    empty = [name for name, own in zip(names, share, strict=True) if own >= least and name not in besides]
    groups: list[tuple[str, ...]] = []
    for name in (name for name in empty if observed[name].sum() >= FEWEST):
        alike_ = next((own for own in groups if _together(observed[own[0]], observed[name])), ())
        groups = [(*own, name) if own is alike_ else own for own in groups] + ([] if alike_ else [(name,)])
    return tuple(groups)


def _together(first: Bools, second: Bools) -> bool:
    """Whether two columns, observed in some rows [N], are missing in the same ones, but for single holes: most cells of
    either one have the other one beside them, and clearly more than chance has it."""
    both = float((first & second).sum())
    return all(both / own.sum() >= (1 + other.mean()) / 2 for own, other in ((first, second), (second, first)))


def mostly_empty_names(schema: Schema) -> list[str]:
    """The columns that are mostly empty, in the order of the table."""
    return [name for name in schema.modelled if any(name in own for own in schema.mostly_empty)]


def mostly_empty(table: Table, schema: Schema) -> list[str]:
    """One line on the columns of a schema that are mostly empty."""
    empty = mostly_empty_names(schema)
    if not empty:
        return []
    counts = [int(table.missing(name).sum()) for name in empty]
    one = len(empty) == 1
    where = f"{counts[0]:,} of {table.N:,} rows" if one else f"{min(counts):,} of {table.N:,} rows or more"
    is_missing, it = ("is", "it has") if one else ("are", "something has")
    apply = "does not apply" if one else "they do not apply"
    first = max(schema.mostly_empty, key=len)
    leaves = "leaves it as it is" if one else "leaves one so"
    if len(first) > 1:
        leaves = f"leaves {'them' if len(first) == len(empty) else 'those'} so, which are missing in the same rows"
    line = (
        f"{named('column', empty)} {is_missing} missing in {where}, the other columns far less often: empty may mean "
        f"that {it} not happened, or {apply}: `{' '.join(typed('--exclude', name) for name in first)}` {leaves}, else "
        "the holes are filled"
    )
    return [Alarm(line)]
