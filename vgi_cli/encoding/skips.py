"""Columns that have no cell in all rows of a level of another one, and cells in most others: questions that are asked
of some rows alone. Found in a table that is fitted, and kept by fills of the levels.

A model learns nothing of what such columns hold at that level, and takes it to be as likely beside any value.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from vgi_cli.columns.levelled import Levelled
from vgi_cli.columns.numerals import Bools, Floats
from vgi_cli.columns.schema import Schema
from vgi_cli.columns.skips import Skip
from vgi_cli.encoding.redundant import codes_of
from vgi_cli.table.base import Table

FEWEST, ASKED = 10, 0.5
"""Rows of a level, all without a cell of another column, and the share of the other rows that have one, from which on
that column may be one that does not apply there."""
MOST_LEVELS = 20
"""Levels of a column that may tell where another one applies."""
ENOUGH = 20.0
"""Nats by which rows must speak for a skip that fills keep to, beyond what the choice of level and column explains."""


class Skipped(NamedTuple):
    """What was found.

    rows     with the level
    unknown  where its column is missing and one of the others observed
    nats     by column of the others, how unlikely it is that none of the rows has a cell if they are like other rows
    """

    skip: Skip
    rows: int
    unknown: int
    nats: tuple[float, ...]


def skipped(table: Table, schema: Schema) -> list[Skipped]:
    """Of the columns of a few levels, for each level the columns without a cell in its rows."""
    columns = schema.encoded
    found: list[Skipped] = []
    if not columns:
        return found
    observed = np.stack([~table.missing(column.name) for column in columns], 1)
    holes = ~observed.all(0) & observed.any(0)
    for place, column in enumerate(columns):
        if not isinstance(column, Levelled) or not 2 <= column.level_counts[0] <= MOST_LEVELS:
            continue
        codes = codes_of(table, column)
        known = ~np.isnan(codes)
        for level in range(column.level_counts[0]):
            there = codes == level
            elsewhere = ~there & known
            if there.sum() < FEWEST or not elsewhere.any():
                continue
            share = observed[elsewhere].mean(0)
            own = holes & ~observed[there].any(0) & (share >= ASKED)
            own[place] = False
            if own.any():
                asked = observed[:, own].any(1)
                counts = np.bincount(codes[asked & known].astype(int), minlength=column.level_counts[0])
                others = tuple(columns[j].name for j in np.flatnonzero(own).tolist())
                skip = Skip(column.name, level, others, tuple((counts / counts.sum()).tolist()))
                nats = -there.sum() * np.log1p(-np.minimum(share[own], 0.999))
                found.append(Skipped(skip, int(there.sum()), int((asked & ~known).sum()), tuple(nats.tolist())))
    return found


def skips_among(table: Table, schema: Schema) -> tuple[Skip, ...]:
    """Those that fills keep to: of columns whose levels are drawn one by one, and not by chance."""
    pooled = {column.name for column in schema.encoded if column.pooled}
    choice = np.log(max(sum(map(max, (c.level_counts for c in schema.encoded))) * len(schema.encoded), 1))
    kept = []
    for skip, _, _, nats in skipped(table, schema):
        sure = tuple(name for name, own in zip(skip.others, nats, strict=True) if own >= ENOUGH + choice)
        if sure and skip.name not in pooled:
            kept.append(replace(skip, others=sure))
    return tuple(kept)


def contradictions(table: Table, schema: Schema) -> list[int]:
    """Of each skip of a schema, in how many rows of a table both the level and a cell that it goes without are."""
    columns = {column.name: column for column in schema.encoded}
    counts = []
    for one in schema.skips:
        asked = np.logical_or.reduce([~table.missing(name) for name in one.others])
        counts.append(int(((codes_of(table, columns[one.name]) == one.level) & asked).sum()))
    return counts


def keep_skips(
    draws: Floats, missing: Bools, schema: Schema, uniform: Callable[[str], Floats], but: Collection[str] = ()
) -> None:
    """Draw another level in place of each that goes with no cell of a column which is observed, in place.

    draws    [m, N, columns] codes of completed rows
    missing  [N, columns]
    uniform  by the name of a column random numbers from 0 to 1 [m, N]
    but      columns whose levels stay
    """
    for one in schema.skips:
        at = schema.modelled.index(one.name)
        others = [schema.modelled.index(name) for name in one.others]
        rows = np.flatnonzero(missing[:, at] & ~missing[:, others].all(1))
        if one.name in but or not len(rows):
            continue
        drawn = draws[:, rows]
        wrong = drawn[..., at] == one.level
        levels = np.searchsorted(np.cumsum(one.shares), uniform(one.name)[:, rows], side="right")
        last = np.flatnonzero(one.shares)[-1]  # rounding may leave a little beyond it
        draws[:, rows, at] = np.where(wrong, np.minimum(levels, last), drawn[..., at])
