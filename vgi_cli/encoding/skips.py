"""Columns that have no cell in all rows of a level of another one, or below or above a number of it, and cells in most
others: questions that are asked of some rows alone. Found in a table that is fitted, and kept by fills of the others.

A model learns nothing of what such columns hold there, and takes it to be as likely beside any value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple, cast

import numpy as np

from vgi_cli.columns.base import ModelledColumn
from vgi_cli.columns.blanks import level_conditions, undefined_at, undefined_in
from vgi_cli.columns.datetime import Moment
from vgi_cli.columns.levelled import Levelled, number_of
from vgi_cli.columns.number import Number
from vgi_cli.columns.numerals import Bools, Floats, Ints
from vgi_cli.columns.places import evenly
from vgi_cli.columns.relations import Relation
from vgi_cli.columns.schema import Schema
from vgi_cli.columns.skips import Skip, Threshold, Unanswered, Unasked, Undefined, alike_skips, levels_without
from vgi_cli.encoding.absent import words_as_levels
from vgi_cli.encoding.apart import Apart
from vgi_cli.encoding.redundant import as_number, codes_of, half_digit
from vgi_cli.encoding.spellings import like_missing
from vgi_cli.maths.choices import log_choices
from vgi_cli.table.base import Table

FEWEST, ASKED = 10, 0.5
"""Rows of a level, all without a cell of another column, and the share of the other rows that have one, from which on
that column may be one that does not apply there."""
LEAST = -FEWEST * math.log1p(-ASKED)
"""Nats of the fewest such rows: less is nothing to speak of where other levels have no cell either."""
REACH = 2.0
"""A fill beyond the limit of a threshold becomes a number seen within it, so many times as far from the nearest one at
most."""
COVERED = 0.9
"""Share of the rows without a cell that another column explains, from which on a column does not."""
MOST_LEVELS = 20
"""Levels of a column that may tell where another one applies."""
ENOUGH = 20.0
"""Nats by which rows must speak for a skip that fills keep to, beyond what the choice of level and column explains."""
NEAR = 30
"""Rows next to a limit, fewest and looked at, most of which must have a cell of a column that has none beyond it: where
cells grow rarer step by step there is no limit."""
DIGITS = 12
"""Of a limit that is one step beyond a number, which arithmetic may leave some more."""
VALUES = 100
"""Values of a column that are kept to draw from."""

SEEN_BESIDE = 0.02
"""Share of the rows of a level that may have a cell which the others lack, most."""

Side = Literal["below", "above"]


class Skipped(NamedTuple):
    """What was found.

    nats  by column of the others, how unlikely it is that none of the rows has a cell if they are like other rows
    """

    skip: Skip
    nats: tuple[float, ...]


def skipped(table: Table, schema: Schema) -> list[Skipped]:
    """Of the columns of a few levels, for each level the columns without a cell in its rows; but for columns whose
    holes are most likely a level (`words_as_levels`), and for levels that may be codes for cells without an answer."""
    columns = schema.encoded
    found: list[Skipped] = []
    if not columns:
        return found
    observed = np.stack([~table.missing(column.name) for column in columns], 1)
    holes = ~observed.all(0) & observed.any(0)
    if holes.any():
        doubtful = words_as_levels(table, schema)
        holes &= np.array([column.name not in doubtful for column in columns])
    for place, column in enumerate(columns):
        levels = len(list(column.levels)) if isinstance(column, Levelled) else 0
        if not 2 <= levels <= MOST_LEVELS:
            continue
        codes = codes_of(table, column)
        known = ~np.isnan(codes)
        rows = _counts(codes[known], levels)
        cells = np.stack([observed[codes == level].sum(0) for level in range(levels)])
        empty = holes & (cells == 0) & (rows >= FEWEST)[:, None]
        empty[:, place] = False
        unknown = _codes_among(column) if empty.any() else []
        for level in (level for level in np.flatnonzero(empty.any(1)).tolist() if level not in unknown):
            elsewhere = rows.sum() - rows[level]
            if not elsewhere:
                continue
            share = (cells.sum(0) - cells[level]) / elsewhere
            nats = -rows[level] * np.log1p(-np.minimum(share, 0.999))
            own = empty[level] & (share >= ASKED)
            together = np.flatnonzero(empty[level] & ~own)
            if len(together):
                share, nats[together] = _beside_others(rows, cells[:, together], empty[:, together], level)
                own[together] = (share >= ASKED) & (nats[together] >= LEAST)
            if own.any():
                asked = observed[:, own].any(1)
                others = tuple(columns[j].name for j in np.flatnonzero(own).tolist())
                skip = Skip(column.name, level, others, _shares(codes[asked & known], levels))
                found.append(Skipped(skip, tuple(nats[own].tolist())))
    return found


def most_beside_skips(rows: int) -> int:
    """Of so many rows of a level how many may have a cell of another column, which the others lack, for one of both
    cells to be wrong there."""
    return max(1, int(SEEN_BESIDE * rows))


def skip_exceptions(table: Table, schema: Schema) -> Iterator[tuple[str, str, Bools]]:
    """Columns of a few levels and others of which there are cells in so few rows of a level that one of these [N] may
    be wrong: all other rows of the level have none, and most of other levels have one."""
    choice = np.log(max(sum(map(max, (c.level_counts for c in schema.encoded))) * len(schema.encoded), 1))
    for column in schema.encoded:
        levels = len(list(column.levels)) if isinstance(column, Levelled) else 0
        if not 2 <= levels <= MOST_LEVELS:
            continue
        codes, unknown = codes_of(table, column), _codes_among(column)
        rows = _counts(codes[~np.isnan(codes)], levels)
        most = np.array([most_beside_skips(count) for count in rows.tolist()])
        for other in schema.encoded:
            observed = ~table.missing(other.name)
            if other is column or observed.all():
                continue
            cells = _counts(codes[observed & ~np.isnan(codes)], levels)
            asked = cells > most
            share = cells[asked].sum() / max(int(rows[asked].sum()), 1)
            for level in np.flatnonzero((cells > 0) & ~asked & (rows >= FEWEST)).tolist():
                nats = -rows[level] * np.log1p(-min(share, 0.999)) - log_choices(int(rows[level]), int(cells[level]))
                if share >= ASKED and nats >= ENOUGH + choice and level not in unknown:
                    yield column.name, other.name, (codes == level) & observed


def rows_beside_skips(table: Table, schema: Schema) -> Iterator[Bools]:
    """Of each skip of a schema the rows [N] of a table that contradict it."""
    columns = {column.name: column for column in schema.encoded}
    for one in schema.skips:
        yield one.excludes(codes_of(table, columns[one.name])) & _asked(table, one.others)


def _codes_among(column: ModelledColumn) -> list[int]:
    """The levels of a column that are numbers and may be codes for cells without an answer, which say nothing of other
    columns."""
    if not isinstance(column, Levelled):
        return []
    levels = list(column.levels)
    return [levels.index(level) for level in like_missing(levels) if number_of(level) is not None]


def _beside_others(rows: Ints, cells: Ints, empty: Bools, level: int) -> tuple[Floats, Floats]:
    """Of columns without a cell in the rows of several levels, one of which is looked at: the share [columns] of the
    rows of the levels that are not `empty` [levels, columns] which have one, and how unlikely it is that the rows of
    the level have none if they are like these, less what the choice of the others explains (0 where few rows are left).
    rows [levels]; cells [levels, columns]."""
    asked = np.where(empty, 0, rows[:, None]).sum(0)
    share = cells.sum(0) / np.maximum(asked, 1)
    nats = np.zeros(len(asked))
    for place, (n, c) in enumerate(zip(asked.tolist(), cells.sum(0).tolist(), strict=True)):
        if n >= FEWEST:
            by_share = -rows[level] * math.log1p(-min(c / n, 0.999))
            by_place = log_choices(n + int(rows[level]), c) - log_choices(n, c)  # c cells in any of all these rows
            choice = log_choices(len(rows) - 1, int(empty[:, place].sum()) - 1)
            nats[place] = max(min(by_share, by_place) - choice, 0.0)
    return np.where(asked >= FEWEST, share, 0.0), nats


def skips_among(table: Table, schema: Schema, found: Sequence[Skipped]) -> tuple[Skip, ...]:
    """Those of the skips that were `found` that fills keep to: of columns whose levels are drawn one by one, and not by
    chance."""
    columns = {column.name: column for column in schema.encoded}
    pooled = {column.name for column in schema.encoded if column.pooled}
    choice = np.log(max(sum(map(max, (c.level_counts for c in schema.encoded))) * len(schema.encoded), 1))
    kept = []
    for skip, nats in found:
        sure = tuple(name for name, own in zip(skip.others, nats, strict=True) if own >= ENOUGH + choice)
        if sure and skip.name not in pooled:
            codes = codes_of(table, columns[skip.name])
            asked = _asked(table, sure) & ~np.isnan(codes)
            kept.append(Skip(skip.name, skip.level, sure, _shares(codes[asked], len(skip.shares))))
    return tuple(kept)


def alike(found: Sequence[Skipped]) -> list[Unanswered]:
    """The skips that were `found`, those together that say the same of several levels and columns."""
    groups: dict[tuple[str, tuple[int, ...]], list[str]] = {}
    for (name, other), own in levels_without(one.skip for one in found).items():
        groups.setdefault((name, tuple(own)), []).append(other)
    return [Unanswered(name, levels, tuple(others)) for (name, levels), others in groups.items()]


def needed(rules: Sequence[Unanswered], table: Table, schema: Schema) -> list[Unanswered]:
    """Without rules that others make needless: all of their rows have, where it is observed, such a level of another
    column too, beside which there is no cell of the same columns (each electric model has electric fuel). Those of most
    levels, then of fewest rows, go first."""
    every = {column.name: column for column in schema.encoded}
    codes = {one.name: codes_of(table, every[one.name]) for one in rules}
    closed = [one.excludes(codes[one.name]) for one in rules]

    def covers(other: int, own: int) -> bool:
        known = closed[own] & ~np.isnan(codes[rules[other].name])
        same = set(rules[own].others) <= set(rules[other].others)
        return other != own and same and int(known.sum()) >= FEWEST and bool(closed[other][known].all())

    def size(place: int) -> tuple[int, int]:
        own = rules[place]
        return -len(level_conditions(cast(Levelled, every[own.name]), own.levels)), int(closed[place].sum())

    left = set(range(len(rules)))
    for place in sorted(left, key=size):
        if any(covers(other, place) for other in left):
            left.remove(place)
    return [rules[place] for place in sorted(left)]


def unanswered_among(
    table: Table, schema: Schema, found: Sequence[Skipped], kept: Sequence[Skip]
) -> tuple[Unanswered, ...]:
    """Of the skips that were `found` those that hold, at one of their levels and for one of their columns at least, not
    by chance (`kept`), and that are `needed`."""
    sure = {(one.name, one.level, other) for one in kept for other in one.others}
    holding = [
        one
        for one in alike(found)
        if any((one.name, level, other) in sure for level in one.levels for other in one.others)
    ]
    return tuple(needed(holding, table, schema))


class _Beyond(NamedTuple):
    """The rows [N] of a column on one side of all its numbers beside a cell of another column, `limit` the next of
    these."""

    name: str
    side: Side
    limit: float
    other: str
    rows: Bools


class _Closed(NamedTuple):
    """The rows [N] in which a column is known, and those in which it says that another one has no cell."""

    known: Bools
    rows: Bools

    def explains(self, without: Bools) -> bool:
        """Whether it says so of most rows without a cell [N]: of those in which it is known, where these are several;
        else of one in which it is not known it may."""
        several = int((without & self.known).sum()) >= FEWEST
        asked = without & self.known if several else without
        return bool((self.rows if several else self.rows | ~self.known)[asked].mean() >= COVERED)


def thresholds_among(table: Table, schema: Schema, skips: Sequence[Skip], bare: Table) -> tuple[Threshold, ...]:
    """The numbers below or above which another column has no cell, and not by chance. Where several columns say so of
    the same rows, as those do that go with the one that decides, the one of the most rows; none where a level does, or
    arithmetic (a relation of the schema: the logarithm of zero).
    `bare`: the table without the cells that say nothing of other columns; beside them there is no such cell either."""
    every = {column.name: column for column in schema.encoded}
    codes = {name: codes_of(bare, one) for name, one in every.items() if isinstance(one, Number | Moment)}
    if not codes:
        return ()
    names = list(every)
    observed = np.stack([~table.missing(name) for name in names], 1)
    explained: dict[str, list[_Closed]] = {name: [] for name in names}
    for rule in undefined_in(schema.relations):
        explained[rule.others[0]].append(_Closed(~np.isnan(codes[rule.name]), rule.excludes(codes[rule.name])))
    able = np.ones(observed.shape, bool)
    for (name, other), skipped_at in levels_without(skips).items():
        own = codes_of(table, every[name])
        explained[other].append(_Closed(~np.isnan(own), np.isin(own, skipped_at)))
        able[:, names.index(other)] &= ~np.isin(own, skipped_at)
    found = [one for name, own in codes.items() for one in _beyond(every[name], own, observed, able, names)]
    kept: list[_Beyond] = []
    for one in sorted(found, key=lambda one: -int(one.rows.sum())):
        if not any(closed.explains(one.rows) for closed in explained[one.other]):
            kept.append(one)
            explained[one.other].append(_Closed(~np.isnan(codes[one.name]), one.rows))
    groups: dict[tuple[str, Side, float], list[str]] = {}
    for one in sorted(kept, key=lambda one: (names.index(one.name), one.side, names.index(one.other))):
        groups.setdefault((one.name, one.side, one.limit), []).append(one.other)
    thresholds = []
    for (name, side, limit), others in groups.items():
        beside = np.sort(codes[name][_asked(table, others) & ~np.isnan(codes[name])])
        ranks = evenly(len(beside), VALUES)
        thresholds.append(Threshold(name, side, limit, tuple(others), tuple(beside[ranks].tolist())))
    against = contradictions(table, replace(schema, skips=(), thresholds=tuple(thresholds)))
    return tuple(one for one, rows in zip(thresholds, against, strict=True) if not rows)


def _beyond(column: ModelledColumn, codes: Floats, observed: Bools, able: Bools, names: Sequence[str]) -> list[_Beyond]:
    """Of codes [N] of a column: which others (`observed` [N, columns]) have no cell on one side of them, though they
    are not ruled out by a level (`able` [N, columns])."""
    known = np.flatnonzero(~np.isnan(codes))
    choice = ENOUGH + math.log(2 * max(len(codes), 1) * len(names) ** 2)
    sides: tuple[tuple[Side, float], ...] = (("below", 1.0), ("above", -1.0))
    found: list[_Beyond] = []
    if len(known) < FEWEST:
        return found
    varied = observed[known].any(0) & ~observed[known].all(0)
    always = able[known].all(0)
    for side, sign in sides:
        size = sign * codes[known]
        first = observed[known[size <= np.partition(size, FEWEST - 1)[FEWEST - 1]]].any(0)  # a cell among the first
        places = np.flatnonzero(varied & ~(always & first))
        if not len(places):
            continue
        order = known[np.argsort(size, kind="stable")]
        for at in places.tolist():
            some = order if able[order, at].all() else order[able[order, at]]
            sorted_codes, cells = sign * codes[some], observed[some, at]
            beyond = int(np.searchsorted(sorted_codes, sorted_codes[cells.argmax()]))
            if names[at] == column.name or beyond < FEWEST or len(some) - beyond < NEAR:
                continue
            share = min(cells[beyond:].mean(), cells[beyond : beyond + NEAR].mean())
            if share >= ASKED and -beyond * math.log1p(-min(share, 0.999)) >= choice:
                limit = float(sign * sorted_codes[beyond])
                if (digit := 2 * half_digit(column)) and sorted_codes[0] == sorted_codes[beyond - 1]:
                    limit = float(f"{sign * (sorted_codes[0] + digit):.{DIGITS}g}")
                rows = (codes < limit) if side == "below" else (codes > limit)
                found.append(_Beyond(column.name, side, limit, names[at], rows))
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
    """Of the skips of a schema, those together that say the same of several levels of a column, then of each threshold,
    in how many rows of a table both such a level (number) and a cell that it goes without are."""
    columns = {column.name: column for column in schema.encoded}

    def against(rules: Sequence[Skip | Threshold]) -> int:
        one = rules[0]
        return int((_closed(rules, codes_of(table, columns[one.name])) & _asked(table, one.others)).sum())

    return [*(against(same) for same in alike_skips(schema.skips)), *(against([one]) for one in schema.thresholds)]


def keep_thresholds(
    draws: Floats, missing: Bools, schema: Schema, uniform: Callable[[str], Floats], blank: Bools
) -> None:
    """Draw another number in place of each that goes with no cell of a column which is observed, from those that are
    seen beside such cells and lie within REACH of how far it was beyond the limit, in place: what the other cells of a
    row say of it does not get lost. Arguments as of `keep_skips`."""
    for one in schema.thresholds:
        at = schema.modelled.index(one.name)
        rows = np.flatnonzero(missing[:, at] & _answered(one, schema, blank))
        fills, sign = draws[:, rows, at], 1 if one.side == "below" else -1
        values = np.array(one.values)[::sign]  # the nearest to the limit first
        near = np.searchsorted(sign * values, sign * values[0] + REACH * np.abs(fills - values[0]), side="right")
        drawn = values[(uniform(one.name)[:, rows] * near).astype(int).clip(max=near - 1)]
        draws[:, rows, at] = np.where(one.excludes(fills), drawn, fills)


def rooms_of_thresholds(missing: Bools, schema: Schema) -> dict[str, tuple[Floats, Floats]]:
    """By the columns of thresholds from where to where [N] their fills lie, by the cells that are observed."""
    rooms: dict[str, tuple[Floats, Floats]] = {}
    for one in schema.thresholds:
        low, high = rooms.get(one.name, (np.full(len(missing), -np.inf), np.full(len(missing), np.inf)))
        asked = _answered(one, schema, missing)
        if one.side == "below":
            low = np.where(asked, np.maximum(low, one.limit), low)
        else:
            high = np.where(asked, np.minimum(high, one.limit), high)
        rooms[one.name] = low, high
    return rooms


def unkept_skips(draws: Floats, missing: Bools, schema: Schema, blank: Bools) -> Apart:
    """Where fills go with no cell of a column which is observed: none else was left, or another relation of the column
    says so. Arguments as of `keep_skips`."""
    apart = Apart(draws.shape[:2])
    for one in schema.rules:
        at = schema.modelled.index(one.name)
        apart.add([at], one.excludes(draws[..., at]) & missing[:, at] & _answered(one, schema, blank), one)
    return apart


def against_answers(told: Floats, missing: Bools, schema: Schema) -> Bools:
    """[N, columns] where codes (told [N, columns]; NaN: none) go with no cell of columns of which one is observed in
    the same row."""
    out = np.zeros(told.shape, bool)
    for one in schema.rules:
        at = schema.modelled.index(one.name)
        out[:, at] |= one.excludes(told[:, at]) & _answered(one, schema, missing)
    return out


def _answered(rule: Skip | Threshold, schema: Schema, blank: Bools) -> Bools:
    """[N] rows in which one of the columns that a rule decides about is not blank [N, columns]."""
    return np.asarray(~blank[:, [schema.modelled.index(other) for other in rule.others]].all(1))


def keep_skips(draws: Floats, missing: Bools, schema: Schema, uniform: Callable[[str], Floats], blank: Bools) -> None:
    """Draw another level in place of each that goes with no cell of a column which is observed, where a sampler that
    knows of skips (`mask_probability`) was not asked, or had no other draw. In place; where no level is left a fill
    stays (`unkept_skips`).

    draws    [m, N, columns] codes of completed rows
    missing  [N, columns]
    uniform  by the name of a column random numbers from 0 to 1 [m, N]
    blank    [N, columns] where nothing is observed: what a key says there is no answer
    """
    for name in dict.fromkeys(one.name for one in schema.skips):
        at, own = schema.modelled.index(name), [one for one in schema.skips if one.name == name]
        weights = np.zeros((len(missing), len(own[0].shares)))
        free = np.ones(weights.shape, bool)
        for one in own:
            asked = missing[:, at] & _answered(one, schema, blank)
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


def keep_what_says(
    draws: Floats, missing: Bools, schema: Schema, uniform: Callable[[str], Floats], blank: Bools
) -> None:
    """Where a column that decides follows from another one, draw another cell of this in place of each that says what
    goes with no cell of a column which is observed, both being holes: the nearest number, or a level as often as it
    occurs. In place; where there is none a fill stays. Arguments as of `keep_skips`."""
    for relation in schema.relations:
        rules = [one for one in schema.rules if one.name == relation.names[0]]
        if relation.how not in ("levels", "groups", "bands") or relation.until is not None or not rules:
            continue
        first, second = (schema.modelled.index(name) for name in relation.names)
        said = relation.coding
        rows = np.flatnonzero(missing[:, first] & missing[:, second])
        asked = np.stack([_answered(one, schema, blank)[rows] for one in rules])
        against = np.stack([one.excludes(said) for one in rules])
        free = ~np.isnan(said) & ~(asked[..., None] & against[:, None]).any(0)
        told = relation.said(draws[:, rows, second])
        wrong = np.logical_or.reduce([one.excludes(told) & own for one, own in zip(rules, asked, strict=True)])
        for draw, i in np.argwhere(wrong & free.any(1)).tolist():
            row, able = rows[i], np.flatnonzero(free[i])
            if relation.keys or relation.how == "bands":
                drawn = draws[draw, row, second]
                codes = _nearest(relation, drawn, schema.encoded[second])
                place = int(able[np.abs(codes[able] - drawn).argmin()])
                code = float(codes[place])
            else:
                often = relation.frequencies[able].cumsum()
                u = uniform(relation.names[1])[draw, row] * often[-1]
                place = int(able[np.searchsorted(often, u, side="right")])
                code = float(place)
            draws[draw, row, [first, second]] = said[place], code


def _nearest(relation: Relation, drawn: float, column: ModelledColumn) -> Floats:
    """[codes] the numbers of a column nearest to one that was drawn of which a relation says each of its codes."""
    if relation.keys:
        return np.array(relation.keys)
    low, high = np.array([-np.inf, *relation.cuts]), np.array([*relation.cuts, np.inf])
    near, digit = np.clip(drawn, low, np.nextafter(high, -np.inf)), 2 * half_digit(column)
    number = as_number(column)
    held = near if number is None else number.held(near)
    return np.asarray(held + digit * ((held < low) * 1.0 - (held >= high)), np.float64)


def unasked_among(table: Table, schema: Schema) -> tuple[Unasked, ...]:
    """How often the columns of the skips and thresholds of a schema are all blank though they are asked for, where a
    column that decides is missing.

    Where these are observed, b of the rows that are asked are blank, and p have a level (a number) that is not asked.
    Of the rows in which one is missing q are blank, q0 = p + (1 - p) b if it is missing by itself. More, where rows
    lack both (somebody left): then the blank of a row says less, and of those that are asked b + t (1 - b) are blank,
    with t = (q - q0) / (1 - q0); t is 0 where q is no standard error above q0.
    """
    every = {column.name: column for column in schema.encoded}
    groups: dict[tuple[int, ...], list[str]] = {}
    for other in dict.fromkeys(name for rule in schema.rules for name in rule.others):
        key = tuple(i for i, rule in enumerate(schema.rules) if other in rule.others)
        groups.setdefault(key, []).append(other)
    found = []
    for key, others in groups.items():
        own = [schema.rules[i] for i in key]
        names = list(dict.fromkeys(rule.name for rule in own))
        codes = {name: codes_of(table, every[name]) for name in names}
        known = np.stack([~np.isnan(codes[name]) for name in names], 1)
        closed = np.stack([_closed([r for r in own if r.name == name], codes[name]) for name in names], 1)
        blank, able = ~_asked(table, others), ~closed.any(1)
        asked, unknown = able & known.all(1), able & ~known.all(1)
        if not asked.any() or unknown.sum() < FEWEST:
            continue
        b = (blank[asked].sum() + 0.5) / (asked.sum() + 1)
        expected = 0.0
        for seen in np.unique(known[unknown], axis=0):
            rows = unknown & (known == seen).all(1)
            like = known.all(1) & ~closed[:, seen].any(1)
            p = closed[like][:, ~seen].any(1).mean()
            expected += rows.sum() / unknown.sum() * (p + (1 - p) * b)
        q, expected = blank[unknown].mean(), min(expected, 1.0)
        error = math.sqrt(expected * (1 - expected) / unknown.sum())
        t = (q - expected) / (1 - expected) if q > expected + error else 0.0
        shares = np.array([b])
        if len(names) == 1 and isinstance(own[0], Skip):
            levels, level = len(own[0].shares), codes[names[0]]
            rows, without = (_counts(level[some], levels) for some in (known[:, 0], known[:, 0] & blank))
            shares = (without + 0.5) / (rows + 1)
            shares[[rule.level for rule in own if isinstance(rule, Skip)]] = 1.0
        found.append(Unasked(tuple(others), tuple((shares + t * (1 - shares)).tolist())))
    return tuple(found)


def _closed(rules: Sequence[Skip | Threshold], codes: Floats) -> Bools:
    """[..] whether one of some skips and thresholds of a column says of its codes [..] that others are not asked."""
    return np.asarray(np.logical_or.reduce([rule.excludes(codes) for rule in rules]), bool)


def beside_blanks(missing: Bools, schema: Schema) -> Bools:
    """[R] rows in which a column that decides is missing and the columns that it decides about are all blank; missing
    [R, D]."""
    at = dict(zip(schema.modelled, schema.layout.slices, strict=True))
    out = np.zeros(len(missing), bool)
    for one in schema.unasked:
        deciders = [at[rule.name].start for rule in schema.deciding(one.others)]
        out |= missing[:, deciders].any(1) & missing[:, [at[other].start for other in one.others]].all(1)
    return out


def mask_probability(x: Floats, missing: Bools, schema: Schema, *, blanks: bool) -> Floats:
    """[n, R] how likely it is that just these cells of the columns of skips and thresholds are missing, given the
    completed encoded rows x [n, R, D]; missing [R, D]. Up to a factor of the row, 1 at most: where a cell is observed
    that a row is not asked for, by what decides or by what others say of that in its place, or that has no value then
    (a ratio to zero), 0; and with `blanks`, by
    Bayes' rule, where all are missing: 1 if it is not asked for them, else how often they are blank all the same
    (`unasked_among`). 1 where observed cells say all of that.
    """
    at = dict(zip(schema.modelled, schema.layout.slices, strict=True))
    every = {column.name: column for column in schema.encoded}
    out = np.ones(x.shape[:2])

    def codes(rule: Skip | Threshold | Undefined, rows: Ints) -> Floats:
        own = x[:, rows, at[rule.name]]
        return own[..., 0] if isinstance(rule, Skip) else every[rule.name].decode(own)

    for rule in (*schema.rules, *undefined_at(schema)):
        blank = missing[:, [at[other].start for other in rule.others]].all(1)
        rows = np.flatnonzero(missing[:, at[rule.name].start] & ~blank)
        out[:, rows] *= ~rule.excludes(codes(rule, rows))
        for relation in schema.relations:
            if relation.coded and relation.until is None and relation.names[0] == rule.name:
                others = [at[other].start for other in relation.names[1:]]
                some = rows[missing[rows][:, others].any(1)]
                cells = [every[other].decode(x[:, some, at[other]]) for other in relation.names[1:]]
                out[:, some] *= ~rule.excludes(relation.said_in(np.stack([cells[0], *cells], -1)))
    for one in schema.unasked if blanks else ():
        own = schema.deciding(one.others)
        deciders = np.stack([missing[:, at[rule.name].start] for rule in own], 1)
        blank = np.asarray(missing[:, [at[other].start for other in one.others]].all(1))
        rows = np.flatnonzero(deciders.any(1))
        closed: Bools = np.stack([rule.excludes(codes(rule, rows)) for rule in own], -1)
        said = np.asarray((closed & ~deciders[rows]).any(-1))  # by a cell that is observed
        share = np.full(closed.shape[:2], one.blank[0])
        if len(one.blank) > 1:
            share = np.array(one.blank)[codes(own[0], rows).astype(np.int64)]
        asked = (1 - share) / max(1 - min(one.blank), 1e-9)
        unasked = np.asarray(closed.any(-1))
        chance = np.where(blank[rows], np.where(unasked, 1.0, share), np.where(unasked, 0.0, asked))
        out[:, rows] *= np.where(said, 1.0, chance)
    return out
