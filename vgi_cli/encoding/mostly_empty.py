"""Columns of which most cells are missing, unlike the others: the day on which people left, notes, answers to a
question that few were asked. An empty cell may say something there, and its fill would be an invention."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from vgi_cli.columns.schema import Schema
from vgi_cli.columns.wording import Alarm, named, typed
from vgi_cli.table.base import Table

FEWEST_ROWS = 20
"""Fewest rows, and ..."""
FEWEST = 10
"""... fewest observed cells of a column: of fewer another line says so."""
HALF, TIMES, NEARLY_ALL = 0.5, 2.0, 0.9
"""A column is mostly empty where so large a share of its cells is missing, and so many times what nearly all columns of
fewer holes have at most: where holes are many everywhere, none is."""


def mostly_empty(table: Table, schema: Schema, besides: Collection[str]) -> list[str]:
    """One line on the modelled columns that are mostly empty; `besides`: those of which is said where they are."""
    names = schema.modelled
    if table.N < FEWEST_ROWS or len(names) < 2:
        return []
    share = np.array([float(table.missing(name).mean()) for name in names])
    others = share[share < HALF]
    if not len(others):
        return []
    least = max(HALF, TIMES * float(np.quantile(others, NEARLY_ALL)))
    empty = [name for name, own in zip(names, share, strict=True) if own >= least and name not in besides]
    empty = [name for name in empty if (~table.missing(name)).sum() >= FEWEST]
    if not empty:
        return []
    counts = [int(table.missing(name).sum()) for name in empty]
    one = len(empty) == 1
    where = f"{counts[0]:,} of {table.N:,} rows" if one else f"{min(counts):,} of {table.N:,} rows or more"
    is_missing, it, leaves = (
        ("is", "it has", "leaves it as it is") if one else ("are", "something has", "leaves one so")
    )
    apply = "does not apply" if one else "they do not apply"
    line = (
        f"{named('column', empty)} {is_missing} missing in {where}, the other columns far less often: empty may mean "
        f"that {it} not happened, or {apply}: `{typed('--exclude', empty[0])}` {leaves}, else the holes are filled"
    )
    return [Alarm(line)]
