"""Columns that have no cell in all rows of a level of another one, or below or above a number of it, and cells in most
others: questions that are asked of some rows alone. Found in a table that is fitted, and kept by fills of the others.

A model learns nothing of what such columns hold there, and takes it to be as likely beside any value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import Literal, NamedTuple

import numpy as np

from vgi_cli.columns.datetime import Moment
from vgi_cli.columns.levelled import Levelled
from vgi_cli.columns.number import Number
from vgi_cli.columns.numerals import Bools, Floats, Ints
from vgi_cli.columns.schema import Schema
from vgi_cli.columns.skips import Skip, Threshold
from vgi_cli.encoding.redundant import codes_of
from vgi_cli.table.base import Table

FEWEST, ASKED = 10, 0.5
"""Rows of a level, all without a cell of another column, and the share of the other rows that have one, from which on
that column may be one that does not apply there."""
COVERED = 0.9
"""Share of the rows without a cell that another column explains, from which on a column does not."""
MOST_LEVELS = 20
"""Levels of a column that may tell where another one applies."""
ENOUGH = 20.0
"""Nats by which rows must speak for a skip that fills keep to, beyond what the choice of level and column explains."""
NEAR = 30
"""Rows next to a limit, fewest and looked at, most of which must have a cell of a column that has none beyond it: where
cells grow rarer step by step there is no limit."""
VALUES = 100
"""Values of a column that are kept to draw from."""

Side = Literal["below", "above"]


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
        levels = len(list(column.levels)) if isinstance(column, Levelled) else 0
        if not 2 <= levels <= MOST_LEVELS:
            continue
        codes = codes_of(table, column)
        known = ~np.isnan(codes)
        rows = _counts(codes[known], levels)
        cells = np.stack([observed[codes == level].sum(0) for level in range(levels)])
        for level in range(levels):
            elsewhere = rows.sum() - rows[level]
            if rows[level] < FEWEST or not elsewhere:
                continue
            share = (cells.sum(0) - cells[level]) / elsewhere
            own = holes & (cells[level] == 0) & (share >= ASKED)
            own[place] = False
            if own.any():
                asked = observed[:, own].any(1)
                others = tuple(columns[j].name for j in np.flatnonzero(own).tolist())
                skip = Skip(column.name, level, others, _shares(codes[asked & known], levels))
                nats = -rows[level] * np.log1p(-np.minimum(share[own], 0.999))
                found.append(Skipped(skip, int(rows[level]), int((asked & ~known).sum()), tuple(nats.tolist())))
    return found


def skips_among(table: Table, schema: Schema) -> tuple[Skip, ...]:
    """Those that fills keep to: of columns whose levels are drawn one by one, and not by chance."""
    columns = {column.name: column for column in schema.encoded}
    pooled = {column.name for column in schema.encoded if column.pooled}
    choice = np.log(max(sum(map(max, (c.level_counts for c in schema.encoded))) * len(schema.encoded), 1))
    kept = []
    for skip, _, _, nats in skipped(table, schema):
        sure = tuple(name for name, own in zip(skip.others, nats, strict=True) if own >= ENOUGH + choice)
        if sure and skip.name not in pooled:
            codes, asked = codes_of(table, columns[skip.name]), _asked(table, sure)
            known, levels = ~np.isnan(codes), len(skip.shares)
            rows, without = (_counts(codes[some], levels) for some in (known, known & ~asked))
            blank = (without + 0.5) / (rows + 1)
            blank[skip.level] = 1.0
            kept.append(Skip(skip.name, skip.level, sure, _shares(codes[known & asked], levels), tuple(blank.tolist())))
    return tuple(kept)


class _Beyond(NamedTuple):
    """The rows [N] of a column on one side of all its numbers beside a cell of another column, `limit` the next of
    these."""

    name: str
    side: Side
    limit: float
    other: str
    rows: Bools


def thresholds_among(table: Table, schema: Schema, skips: Sequence[Skip]) -> tuple[Threshold, ...]:
    """The numbers below or above which another column has no cell, and not by chance. Where several columns say so of
    the same rows, as those do that go with the one that decides, the one of the most rows; none where a level does."""
    every = {column.name: column for column in schema.encoded}
    codes = {name: codes_of(table, one) for name, one in every.items() if isinstance(one, Number | Moment)}
    if not codes:
        return ()
    names = list(every)
    observed = np.stack([~table.missing(name) for name in names], 1)
    explained: dict[str, list[Bools]] = {name: [] for name in names}
    for skip in skips:
        own = codes_of(table, every[skip.name])
        for other in skip.others:
            explained[other].append(np.isnan(own) | (own == skip.level))
    found = [one for name, own in codes.items() for one in _beyond(name, own, observed, names)]
    kept: list[_Beyond] = []
    for one in sorted(found, key=lambda one: -int(one.rows.sum())):
        if not any(rows[one.rows].mean() >= COVERED for rows in explained[one.other]):
            kept.append(one)
            explained[one.other].append(np.isnan(codes[one.name]) | one.rows)
    groups: dict[tuple[str, Side, float], list[str]] = {}
    for one in sorted(kept, key=lambda one: (names.index(one.name), one.side, names.index(one.other))):
        groups.setdefault((one.name, one.side, one.limit), []).append(one.other)
    thresholds = []
    for (name, side, limit), others in groups.items():
        own = codes[name]
        beside = np.sort(own[_asked(table, others) & ~np.isnan(own)])
        within = int((own >= limit).sum() if side == "below" else (own <= limit).sum())
        blank = (within - len(beside) + 0.5) / (within + 1)
        ranks = np.linspace(0, len(beside) - 1, min(VALUES, len(beside))).round().astype(int)
        thresholds.append(Threshold(name, side, limit, tuple(others), tuple(beside[ranks].tolist()), blank))
    return tuple(thresholds)


def _beyond(name: str, codes: Floats, observed: Bools, names: Sequence[str]) -> list[_Beyond]:
    """Of codes [N] of one column: which others (`observed` [N, columns]) have no cell on one side of them."""
    known = np.flatnonzero(~np.isnan(codes))
    choice = ENOUGH + math.log(2 * max(len(codes), 1) * len(names) ** 2)
    sides: tuple[tuple[Side, float], ...] = (("below", 1.0), ("above", -1.0))
    found = []
    for side, sign in sides:
        order = known[np.argsort(sign * codes[known], kind="stable")]
        sorted_codes, cells = sign * codes[order], observed[order]
        for at in np.flatnonzero(cells.any(0) & ~cells.all(0)).tolist():
            beyond = int(np.searchsorted(sorted_codes, sorted_codes[cells[:, at].argmax()]))
            if names[at] == name or beyond < FEWEST or len(order) - beyond < NEAR:
                continue
            share = min(cells[beyond:, at].mean(), cells[beyond : beyond + NEAR, at].mean())
            if share >= ASKED and -beyond * math.log1p(-min(share, 0.999)) >= choice:
                limit = float(sign * sorted_codes[beyond])
                rows = (codes < limit) if side == "below" else (codes > limit)
                found.append(_Beyond(name, side, limit, names[at], rows))
    return found


def _asked(table: Table, names: Sequence[str]) -> Bools:
    """[N] where a cell of some columns is observed."""
    return np.asarray(np.logical_or.reduce([~table.missing(name) for name in names]))


def _shares(codes: Floats, levels: int) -> tuple[float, ...]:
    """How often each of so many levels occurs in codes [n]."""
    return tuple((_counts(codes, levels) / len(codes)).tolist())


def _counts(codes: Floats, levels: int) -> Ints:
    return np.bincount(codes.astype(int), minlength=levels)


def contradictions(table: Table, schema: Schema) -> list[int]:
    """Of each skip of a schema, then of each threshold, in how many rows of a table both the level (the number) and a
    cell that it goes without are."""
    columns = {column.name: column for column in schema.encoded}
    levels = [(codes_of(table, columns[one.name]) == one.level) & _asked(table, one.others) for one in schema.skips]
    numbers = [one.beyond(codes_of(table, columns[one.name])) & _asked(table, one.others) for one in schema.thresholds]
    return [int(rows.sum()) for rows in (*levels, *numbers)]


def keep_thresholds(
    draws: Floats, missing: Bools, schema: Schema, uniform: Callable[[str], Floats], but: Collection[str] = ()
) -> Bools:
    """Draw another number in place of each that goes with no cell of a column which is observed, from those that are
    seen beside such cells. In place; [m, N] where two thresholds leave none. Arguments as of `keep_skips`."""
    own = []
    for one in schema.thresholds:
        if one.name not in but:
            at, others = schema.modelled.index(one.name), [schema.modelled.index(other) for other in one.others]
            own.append((one, at, np.flatnonzero(missing[:, at] & ~missing[:, others].all(1))))
    for one, at, rows in own:
        values, fills = np.array(one.values), draws[:, rows, at]
        drawn = values[np.minimum((uniform(one.name)[:, rows] * len(values)).astype(int), len(values) - 1)]
        draws[:, rows, at] = np.where(one.beyond(fills), drawn, fills)
    apart = np.zeros(draws.shape[:2], bool)
    for one, at, rows in own:
        apart[:, rows] |= one.beyond(draws[:, rows, at])
    return apart


def keep_skips(
    draws: Floats,
    missing: Bools,
    schema: Schema,
    uniform: Callable[[str], Floats],
    but: Collection[str] = (),
) -> Bools:
    """Draw another level in place of each that goes with no cell of a column which is observed, where a sampler that
    knows of skips (`mask_probability`) was not asked, or had no other draw. In place; [m, N] where no level is left.

    draws    [m, N, columns] codes of completed rows
    missing  [N, columns]
    uniform  by the name of a column random numbers from 0 to 1 [m, N]
    but      columns whose levels stay
    """
    apart = np.zeros(draws.shape[:2], bool)
    for name in dict.fromkeys(one.name for one in schema.skips if one.name not in but):
        at, own = schema.modelled.index(name), [one for one in schema.skips if one.name == name]
        weights = np.zeros((len(missing), len(own[0].shares)))
        free = np.ones(weights.shape, bool)
        for one in own:
            others = [schema.modelled.index(other) for other in one.others]
            asked = missing[:, at] & ~missing[:, others].all(1)
            weights[asked] += one.shares
            free[asked, one.level] = False
        rows = np.flatnonzero(~free.all(1))
        drawn = draws[:, rows, at].astype(int)
        wrong = ~np.take_along_axis(np.broadcast_to(free[rows], (*drawn.shape, free.shape[1])), drawn[..., None], -1)
        shares = np.where(free[rows], weights[rows], 0.0).cumsum(-1)
        some = shares[:, -1] > 0
        level = (uniform(name)[:, rows, None] * shares[:, -1:] >= shares).sum(-1)
        last = (shares < shares[:, -1:]).sum(-1)  # rounding may leave a little beyond it
        draws[:, rows, at] = np.where(wrong[..., 0] & some, np.minimum(level, last), drawn)
        apart[:, rows] |= wrong[..., 0] & ~some
    return apart


def mask_probability(x: Floats, missing: Bools, schema: Schema, but: Collection[str] = ()) -> Floats:
    """[n, R] how likely it is that just these cells of the columns of skips and thresholds are missing, given the
    completed encoded rows x [n, R, D]; missing [R, D]. In units of the likeliest level (side of a threshold), 1 in rows
    of which the column that says where another one is asked is observed.

    What the model took for missing at random is not: by Bayes' rule draws given the mask are in proportion to this.

    but  columns of which nothing is said
    """
    first = {name: dims.start for name, dims in zip(schema.modelled, schema.layout.slices, strict=True)}
    out = np.ones(x.shape[:2])
    counted: set[tuple[str, str]] = set()
    every: list[Skip | Threshold] = [*schema.skips, *schema.thresholds]
    for one in every:
        rows = np.flatnonzero(missing[:, first[one.name]])
        if one.name in but or not len(rows):
            continue
        blank, least = _blank_shares(one, x[:, rows], schema)
        asked = ~missing[rows][:, [first[other] for other in one.others]].all(1)
        about = {(one.name, other) for other in one.others}
        if least is not None and counted.isdisjoint(about):
            out[:, rows] *= np.where(asked, (1 - blank) / (1 - least), blank)
            counted |= about
        else:  # what the blanks say was counted, or is not known
            out[:, rows] *= ~asked | (blank < 1)
    return out


def _blank_shares(one: Skip | Threshold, x: Floats, schema: Schema) -> tuple[Floats, float | None]:
    """[n, R] the share of rows without a cell of the others among those like completed encoded rows x [n, R, D] in the
    column, 1 where it is not asked; and the least that it can be, None where it is not known elsewhere."""
    place = schema.modelled.index(one.name)
    own = x[..., schema.layout.slices[place]]
    if isinstance(one, Threshold):
        column = schema.encoded[place]
        return np.where(one.beyond(column.decode(own)), 1.0, one.blank), one.blank
    shares = np.array(one.blank) if one.blank else (np.arange(len(one.shares)) == one.level).astype(np.float64)
    return shares[own[..., 0].astype(np.int64)], float(shares.min()) if one.blank else None
