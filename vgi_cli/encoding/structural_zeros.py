"""Cells of two columns that go together in no row, though many would by chance (a man who is pregnant, a month of
winter in summer): found in a table that is fitted, and kept apart by fills.

A model gives what it never saw a small probability, and where both cells are missing, or other cells speak for it, some
fills have it.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Literal, NamedTuple, cast

import numpy as np

from vgi_cli.columns.base import ModelledColumn
from vgi_cli.columns.datetime import Moment
from vgi_cli.columns.levelled import Levelled
from vgi_cli.columns.number import Number
from vgi_cli.columns.numerals import Bools, Floats, Ints
from vgi_cli.columns.places import evenly
from vgi_cli.columns.schema import Schema
from vgi_cli.columns.structural_zeros import Part, StructuralZeros
from vgi_cli.encoding.apart import Apart
from vgi_cli.encoding.comparisons import broken
from vgi_cli.encoding.groups import shared_ids
from vgi_cli.encoding.independence import GroupedRows
from vgi_cli.encoding.redundant import as_number, codes_of, half_digit
from vgi_cli.table.base import Table

FEWEST = 6
"""Rows that each of two cells is in at least."""
MOST_LEVELS, MOST_VALUES = 50, 30
"""Levels of a column, and different values of one of numbers, each of which may be kept apart from others."""
MOST_PARTS = 1_000
"""Levels and values of all columns that are looked at, the most frequent ones."""
ENOUGH = 5.0
"""How many rows at least would have both cells by chance, beyond the logarithm of how many times the pairs that are
kept apart all pairs are: one in 150 of these is by chance, and where both do occur, it is in hardly any row."""
FEW = 3.0
"""Cells of two columns that would be in so many rows at most, were they expected in as many as one that is in none, are
rare, and speak for it that this one is rare too, ..."""
ALIKE, LONE, MOST_RARE = 2.0, 6.0, 0.1
"""... those of all columns as much as so many cells of the two columns themselves, divided by how many more of these no
row has than few rows have: of several rare cells some would be in few rows. One without others to compare it with is
taken for rare by as much as the second number, divided by how many rows would have it by chance (40 of these at least
speak for a pair that stands alone). No more than the third one, as a share of those in no row, may be rare."""
SURELY = 20.0
"""Nats by which rows must speak for a limit of a level's numbers, beyond what the choice of level and column
explains."""
FEWEST_EQUAL = 3
"""Levels that two columns share at least where they may never be equal (who plays at home, and away)."""
EDGE, DENSE = 0.05, 12
"""A level's numbers are dense up to their end where so many of its rows lie no farther from it than that share of the
middle nine tenths of their range: of a normal law it is one or two, however many rows there are."""
APART = 0.15
"""A distance of two neighbouring numbers of a level that is this share of the middle nine tenths of their range: what
lies beyond is another heap, and says nothing of how dense this one is."""
MARGIN = 20
"""The limit lies as far beyond the last number as that one is from the 20th before it: were the law as dense beyond,
one limit in a million would be too near, and where it grows thin as an exponential tail does, one next number in 20
times as many as there are."""
FAR = 2.0
"""So many times the range of a level's numbers lie between them and the next number of other rows where they are far
apart: then the limit lies as far beyond the last one as the first one is on the other side."""
SHARE = 0.999
"""Of the rows where a level is dense, those that have it, at most, where it is asked how many below would by chance."""
SEEN = 200
"""Pairs of cells that are kept to draw from."""
NEAREST = 20
"""Of the pairs that are kept so many, those with the nearest numbers, are drawn from in place of a level."""
CODES = 1 << 12
"""Codes for which it is kept what is seen beside them."""
BLOCK = 1 << 14
"""Rows that are counted at once."""


def structural_zeros_among(table: Table, schema: Schema, bare: Table) -> tuple[StructuralZeros, ...]:
    """What pairs of columns never hold together: levels, zeros that pile up and what is no such zero with each other;
    levels with one of few values, or with numbers beyond a limit. Columns of one relation, and those in order, are left
    to that, but for two from which another one follows. `bare`: the table without the cells that say nothing; they must
    not be together either."""
    columns = {column.name: column for column in schema.encoded if not column.pooled}
    whole = {name: codes_of(table, column) for name, column in columns.items()}
    rows = _one_of_each(table, schema)
    codes = {name: codes_of(bare, column)[rows] for name, column in columns.items()}
    states = [found for name, column in columns.items() if (found := _states(column, codes[name])) is not None]
    settled = {
        frozenset(pair)
        for one in schema.relations
        for pair in itertools.combinations(one.names, 2)
        if one.how != "pairs" or one.names[0] in pair
    }
    settled |= {frozenset((one.low, one.high)) for one in schema.orders}
    following = {frozenset(one.names) for one in schema.relations if len(one.names) == 2}
    pairs: dict[tuple[str, str], list[tuple[Part, Part]]] = {}
    independent = GroupedRows(table, schema, rows, codes)
    never = _never(states, independent, settled)
    unequal = _never_equal([one for one in states if one.how == "levels"], columns, independent, settled)
    beyond = _beyond(states, columns, independent, settled, following)
    for (a, part), (b, other) in itertools.chain(never, unequal, beyond):
        first, second = sorted(((a, part), (b, other)), key=lambda one: schema.modelled.index(one[0]))
        met = (part.holds(whole[a]) & other.holds(whole[b])).any()  # in rows, or cells, that were left out
        if not met:
            pairs.setdefault((first[0], second[0]), []).append((first[1], second[1]))
    return tuple(
        StructuralZeros(names, tuple(dict.fromkeys(found)), _seen(*(codes_of(bare, columns[name]) for name in names)))
        for names, found in sorted(pairs.items(), key=lambda one: [schema.modelled.index(name) for name in one[0]])
    )


def _one_of_each(table: Table, schema: Schema) -> Ints:
    """The first row of each patient, firm or the like where rows share the ids of these: what rows of one have in
    common is no more likely by chance for their number. Else all rows."""
    shared = shared_ids(table, schema.ids, schema.lookups)
    if shared is None:
        return np.arange(table.N)
    places = np.stack([table.column(name).distinct[1] for name in shared[0]], 1)
    return np.sort(np.unique(places, axis=0, return_index=True)[1])


class _States(NamedTuple):
    """Which of some parts the cells of a column are: its number [N], -1 for none. `how`: levels; zero and what is not;
    or values in an order, of which neighbours are alike, so that it is a matter of degree which others they meet."""

    name: str
    parts: tuple[Part, ...]
    state: Ints
    how: Literal["levels", "zero", "values"]


def _states(column: ModelledColumn, codes: Floats) -> _States | None:
    """The levels of a column; where zeros pile up at an end these, and what lies beyond; its values where they are
    few."""
    known = ~np.isnan(codes)
    if isinstance(column, Levelled):
        levels = len(list(column.levels))
        if not 2 <= levels <= MOST_LEVELS:
            return None
        how: Literal["values", "levels"] = "values" if column.ordered else "levels"
        return _States(column.name, _at(range(levels)), np.where(known, codes, -1).astype(int), how)
    values = np.unique(codes[known])
    if as_number(column) is None or len(values) < 2:
        return None
    if isinstance(column, Number) and 0.0 in (values[0], values[-1]) and 0.0 in column.piles:
        zero, rest = Part("at", 0.0), Part("above" if values[0] == 0 else "below", 0.0)
        return _States(column.name, (zero, rest), np.where(known, rest.holds(codes), -1).astype(int), "zero")
    if len(values) > MOST_VALUES or 2 * len(values) > known.sum():
        return None
    state = np.where(known, np.searchsorted(values, codes), -1)
    return _States(column.name, _at(values.tolist()), state, "values")


def _at(codes: Sequence[float] | range) -> tuple[Part, ...]:
    return tuple(Part("at", float(code)) for code in codes)


Cell = tuple[str, Part]


def _never(
    states: Sequence[_States], rows: GroupedRows, settled: Collection[frozenset[str]]
) -> Iterator[tuple[Cell, Cell]]:
    """Pairs of parts that no row has, though several would by chance, and that are not merely rare, as others are;
    `settled`: pairs of columns that are left to relations."""
    counts = [np.bincount(one.state[one.state >= 0], minlength=len(one.parts)) for one in states]
    frequent = sorted(
        ((-int(n), i, k) for i, own in enumerate(counts) for k, n in enumerate(own.tolist()) if n >= FEWEST)
    )[:MOST_PARTS]
    if len(frequent) < 2:
        return
    owner = np.array([i for _, i, _ in frequent])
    number = np.array([k for _, _, k in frequent])
    used = np.unique(owner)
    state = np.stack([states[i].state for i in used], 1)
    place = np.searchsorted(used, owner)
    together = np.zeros((len(owner), len(owner)), np.float32)
    beside = np.zeros((len(owner), len(used)), np.float32)
    both = np.zeros((len(used), len(used)), np.float32)
    for start in range(0, len(state), BLOCK):
        some = state[start : start + BLOCK]
        parts, seen = (some[:, place] == number).astype(np.float32), (some >= 0).astype(np.float32)
        together += parts.T @ parts
        beside += parts.T @ seen
        both += seen.T @ seen
    known = both[np.ix_(place, place)]
    expected = beside[:, place] * beside[:, place].T / np.maximum(known, 1)
    levels, zero = (np.array([one.how == how for one in states])[owner] for how in ("levels", "zero"))
    able = (owner[:, None] < owner) & (levels[:, None] | levels | (zero[:, None] & zero))
    number_of = {states[i].name: i for i in used.tolist()}
    for one, other in (pair for pair in map(tuple, settled) if set(pair) <= set(number_of)):
        first, second = sorted((number_of[one], number_of[other]))
        able[np.ix_(owner == first, owner == second)] = False
    enough = _enough(expected[able], together[able])
    groups: dict[tuple[int, int], list[tuple[Ints, ...]]] = {}
    found = []
    for a, b in np.argwhere(able & (together == 0) & (expected >= enough)).tolist():
        one, other = states[owner[a]], states[owner[b]]
        if (owner[a], owner[b]) not in groups:
            groups[owner[a], owner[b]] = rows.by_groups((one.name, one.state), (other.name, other.state))
        of_groups = groups[owner[a], owner[b]]
        least = min((_expected(first, second, number[a], number[b]) for first, second in of_groups), default=math.inf)
        if least >= enough:
            found.append((a, b))
    none = np.array(found, np.int64).reshape(-1, 2)
    thinned = np.where(together > 0, expected * np.minimum(FEW / np.maximum(together, 1), 1), expected)
    few = np.argwhere(able & (together > 0) & (thinned >= enough))
    rare = _rare(*((owner[some] @ [len(states), 1], thinned[tuple(some.T)]) for some in (none, few)))
    for a, b in none[rare <= MOST_RARE].tolist():
        one, other = states[owner[a]], states[owner[b]]
        yield (one.name, one.parts[number[a]]), (other.name, other.parts[number[b]])


def _never_equal(
    states: Sequence[_States],
    columns: dict[str, ModelledColumn],
    rows: GroupedRows,
    settled: Collection[frozenset[str]],
) -> Iterator[tuple[Cell, Cell]]:
    """The levels that two columns share, each with itself, where no row has the same level in both, though several
    would by chance: too few for each level by itself, but not for all."""
    texts = {one.name: cast(Levelled, columns[one.name]).places for one in states}
    pairs = [
        (one, other, shared)
        for one, other in itertools.combinations(states, 2)
        if frozenset((one.name, other.name)) not in settled
        and len(shared := sorted(texts[one.name].keys() & texts[other.name].keys())) >= FEWEST_EQUAL
    ]
    enough = ENOUGH + math.log(max(len(pairs), 1))
    for one, other, shared in pairs:
        first, second = (np.array([texts[own.name][text] for text in shared]) for own in (one, other))
        known = (one.state >= 0) & (other.state >= 0)
        seen = one.state[known], other.state[known]
        own = np.full(len(one.parts), -1)
        own[first] = second
        if (own[seen[0]] == seen[1]).any():
            continue
        groups = [seen, *rows.by_groups((one.name, one.state), (other.name, other.state))]
        expected = min(
            sum(_expected(a, b, i, j) for i, j in zip(first.tolist(), second.tolist(), strict=True)) for a, b in groups
        )
        if expected < enough:
            continue
        for i, j in zip(first.tolist(), second.tolist(), strict=True):
            yield (one.name, one.parts[i]), (other.name, other.parts[j])


def _rare(none: tuple[Ints, Floats], few: tuple[Ints, Floats]) -> Floats:
    """[n] the share of the cells of two columns that are in no row which is likely to be rare and no more, for each of
    them: as many as there are that few rows have, among those that as many rows or more would have by chance (Good
    1953). `none` [n], `few` [k]: the number of the two columns of each cell, and how many rows would have it; of those
    that some rows have, how many rows would have one of FEW that is as rare."""

    def count(cells: tuple[Ints, Floats], pair: int | None, least: Floats) -> Floats:
        own = np.sort(cells[1] if pair is None else cells[1][cells[0] == pair])
        return np.asarray(len(own) - np.searchsorted(own, least), np.float64)

    pairs, expected = none
    everywhere = np.minimum((count(few, None, expected) + LONE / expected) / count(none, None, expected), 1.0)
    out = np.empty(len(pairs))
    for pair in np.unique(pairs).tolist():
        own = pairs == pair
        least = expected[own]
        absent, seen = count(none, pair, least), count(few, pair, least)
        others = ALIKE * everywhere[own] / np.maximum(absent - seen, 1)
        share = (seen + others) / (absent + ALIKE)
        # A cell that more rows would have by chance is no likelier to be rare than one that fewer would.
        order = least.argsort(kind="stable")
        out[np.flatnonzero(own)[order]] = np.minimum.accumulate(share[order])
    return out


def _expected(first: Ints, second: Ints, a: int, b: int) -> float:
    """How many groups, of which these are the states in two columns [G], would be at a in one and b in the other by
    chance."""
    return int((first == a).sum()) * int((second == b).sum()) / max(len(first), 1)


def _enough(expected: Floats, together: Floats) -> float:
    """How many rows with both cells a pair has to have by chance to be kept apart, if it has none (`together`): none
    has them with a probability of exp(-expected) at most, and of the pairs that are kept apart a share of exp(-ENOUGH)
    at most would be by chance (Benjamini and Hochberg 1995)."""
    order = -np.sort(-expected[together == 0])
    needed = ENOUGH + math.log(max(len(expected), 1)) - np.log(np.arange(1, len(order) + 1))
    return float(needed[np.flatnonzero(order >= needed).max(initial=0)]) if len(order) else math.inf


def _beyond(
    states: Sequence[_States],
    columns: dict[str, ModelledColumn],
    rows: GroupedRows,
    settled: Collection[frozenset[str]],
    following: Collection[frozenset[str]],
) -> Iterator[tuple[Cell, Cell]]:
    """Levels, each with the numbers beyond a limit a little beyond the last that is seen beside it, where it is dense
    up to there; and levels and values with the numbers that are far from all that are seen beside them, of two columns
    too of which one follows from the other."""
    told = {one.name for one in states}
    numbers = [name for name, column in columns.items() if as_number(column) is not None and name not in told]
    own = [one for one in states if one.how != "zero"]
    choice = SURELY + math.log(2 * max(sum(len(one.parts) for one in own) * len(numbers), 1))
    for one, name in itertools.product(own, numbers):
        values = rows.codes[name]
        pair = frozenset((one.name, name))
        if pair in settled and pair not in following:
            continue
        kind = _limit if one.how == "levels" and pair not in settled else _far
        found = _limits(one, values, (one.state >= 0) & ~np.isnan(values), choice, kind)
        if not found:
            continue
        found = _limits(one, values, rows.one_of_each(one.name, one.state, name), choice, kind)
        for (number, sign), limit in found.items():
            code = _read(columns[name], limit, sign)
            part = Part("below" if sign > 0 else "above", code)
            if part.holds(values).any() or (limit.far and not _never_filled(columns[name], part)):
                yield (one.name, one.parts[number]), (name, part)


def _never_filled(column: ModelledColumn, part: Part) -> bool:
    """Whether the limits of a column of numbers leave none beyond a limit."""
    number = as_number(column)
    assert number is not None, "limits are of numbers"
    low, high = number.ends
    return low >= part.code if part.where == "below" else high <= part.code


class _Limit(NamedTuple):
    """The least number beside a level, how far beyond it the limit lies, how unlikely it is by chance that none of the
    rows below has the level, and whether the next number is far away."""

    code: float
    margin: float
    nats: float
    far: bool = False


def _limits(
    one: _States,
    values: Floats,
    counted: Bools,
    choice: float,
    kind: Callable[[Floats, Floats], _Limit | None],
) -> dict[tuple[int, int], _Limit]:
    """By the number of a level, and the sign 1 for its least and -1 for its greatest number, where it begins among the
    rows that are counted [R] by the numbers of all rows [R], as `kind` has it; of negative ones where the sign is."""
    found: dict[tuple[int, int], _Limit] = {}
    state, beside = one.state[counted], values[counted]
    if len(beside) < DENSE:
        return found
    able = _beginning(state, beside, len(one.parts), choice)
    if not able:
        return found
    ordered = np.sort(beside)
    for number, sign in able:
        own = np.sort(beside[state == number], kind="stable")
        limit = kind(own, ordered) if sign > 0 else kind(-own[::-1], -ordered[::-1])
        if limit is not None and limit.nats >= choice:
            found[number, sign] = limit
            if limit.far:  # and so it is where no others lie
                other = -float(own[-1] if sign > 0 else own[0]) * sign
                found.setdefault((number, -sign), limit._replace(code=other))
    return found


def _beginning(state: Ints, beside: Floats, levels: int, choice: float) -> list[tuple[int, int]]:
    """The levels, and signs, of rows [n] that begin so far among the numbers of all these (beside [n], at least DENSE)
    that the rows below may speak for a limit by so many nats: hardly a level does."""
    dense, found = np.bincount(state, minlength=levels) >= DENSE, []
    rows = min(math.ceil(choice / -math.log1p(-SHARE)), len(beside))
    for sign in (1, -1):
        least, numbers = np.full(levels, np.inf), sign * beside
        np.minimum.at(least, state, numbers)
        later = least > np.partition(numbers, rows - 1)[rows - 1]
        found += [(number, sign) for number in np.flatnonzero(dense & later).tolist()]
    return sorted(found, key=lambda one: (one[0], -one[1]))


def _limit(own: Floats, values: Floats) -> _Limit | None:
    """Where a level begins, by the numbers in its rows [n] and in all rows [N], both in order; None where it is neither
    dense up to there nor far from all others."""
    if len(own) < DENSE or own[0] == values[0]:
        return None
    low, high = _middle(_heap(own))
    near = own[0] + EDGE * (high - low)
    hits = int(np.searchsorted(own, near, side="right"))
    if near <= own[0] or hits < DENSE:
        return _far(own, values)
    beyond = int(np.searchsorted(values, own[0]))
    share = (hits - 1) / (int(np.searchsorted(values, near, side="right")) - beyond)
    surely = int(np.searchsorted(own, own[0], side="right")) >= DENSE
    margin = 0.0 if surely else float(own[min(MARGIN, len(own) - 1)] - own[0])
    return _Limit(float(own[0]), margin, -beyond * math.log1p(-min(share, SHARE)))


def _far(own: Floats, values: Floats) -> _Limit | None:
    """The same of a level whose numbers all are far from those that lie before them; else None."""
    beyond = int(np.searchsorted(values, own[0]))
    if not beyond:
        return None
    width = float(own[-1] - own[0])
    if not 0 < FAR * width <= own[0] - values[beyond - 1]:
        return None
    share = len(own) / len(values)
    return _Limit(float(own[0]), width, -beyond * math.log1p(-min(share, SHARE)), far=True)


def _heap(own: Floats) -> Floats:
    """Of numbers [n] in order the first ones, up to where the next one is far away."""
    while True:
        low, high = _middle(own)
        far = np.flatnonzero(np.diff(own) > APART * (high - low)) + 1
        far = far[(far >= DENSE) & (far < len(own))]
        if not len(far):
            return own
        own = own[: far[0]]


def _middle(own: Floats) -> tuple[float, float]:
    """Where the middle nine tenths of numbers [n] in order begin and end: what np.quantile says, which orders them
    again."""

    def quantile(share: float) -> float:
        place = (len(own) - 1) * share
        first = int(place)
        t, a, b = place - first, float(own[first]), float(own[min(first + 1, len(own) - 1)])
        return a + (b - a) * t if t < 0.5 else b - (b - a) * (1 - t)

    return quantile(0.05), quantile(0.95)


def _read(column: ModelledColumn, limit: _Limit, sign: int) -> float:
    """The code of a limit (of negative numbers where the sign is -1), moved a little farther away to where its column
    can write it in few digits."""
    number, digit = as_number(column), 2 * half_digit(column)
    rounded = number is not None and not number.whole and not isinstance(column, Moment)
    margin = max(limit.margin, digit) if rounded else limit.margin  # of the last digit a part alone may be within
    if not margin or number is None:
        return sign * limit.code
    end, unit = limit.code - margin, 10.0 ** math.floor(math.log10(margin))
    if number.lattice is not None and digit and (isinstance(column, Moment) or digit >= unit):
        held = float(number.lattice.snap(np.array([sign * end]))[0])
        return held if sign * held <= end else float(number.lattice.snap(np.array([held - sign * digit]))[0])
    decimals = 15 - math.ceil(math.log10(abs(limit.code) + margin))
    return sign * round(math.floor(end / unit) * unit, decimals)


def _seen(first: Floats, second: Floats) -> tuple[tuple[float, float], ...]:
    """Codes that are in rows together, evenly spread."""
    both = ~(np.isnan(first) | np.isnan(second))
    a, b = first[both], second[both]
    order = np.lexsort((b, a))
    some = order[evenly(len(order), SEEN)]
    return tuple(zip(a[some].tolist(), b[some].tolist(), strict=True))


def meetings(table: Table, schema: Schema) -> list[int]:
    """Of each of the structural zeros of a schema, how many rows of a table have such a pair."""
    columns = {column.name: column for column in schema.encoded}
    return [
        int(one.excludes(*(codes_of(table, columns[name]) for name in one.names)).sum())
        for one in schema.structural_zeros
    ]


def possible(x: Floats, missing: Bools, schema: Schema, idle: Bools | None = None) -> Bools:
    """[n, R] whether completed encoded rows x [n, R, D] have no structural zero but among observed cells, keep to
    comparisons, and filled pairs of levels say the observed cell of the column that follows from them, if some do;
    missing [R, D]. Cells that are idle [n, R, D] hold nothing (None: there are none): they are in no structural zero,
    and in no comparison."""
    at = dict(zip(schema.modelled, schema.layout.slices, strict=True))
    names = {name for one in schema.structural_zeros for name in one.names}
    names |= {name for one in schema.pairs for name in one.names}
    names |= {name for one in schema.comparisons for name in one.names}
    codes = {column.name: column.decode(x[..., at[column.name]]) for column in schema.encoded if column.name in names}
    out = np.ones(x.shape[:2], bool)
    for one in schema.structural_zeros:
        first, second = one.names
        open_ = missing[:, at[first].start] | missing[:, at[second].start]
        wrong = one.excludes(codes[first], codes[second]) & open_
        out &= ~(wrong if idle is None else wrong & ~(idle[..., at[first].start] | idle[..., at[second].start]))
    for compared in schema.comparisons:
        starts = [at[name].start for name in compared.names]
        wrong = broken(compared, [codes[name] for name in compared.names], list(missing[:, starts].T))
        out &= ~(wrong if idle is None else wrong & ~idle[..., starts].any(-1))
    for relation in schema.pairs:
        first, *others = relation.names
        holes = missing[:, at[others[0]].start] | missing[:, at[others[1]].start]
        open_ = ~missing[:, at[first].start] & holes & np.isin(codes[first], relation.coding)
        out &= ~((codes[first] != relation.said_by_pair(*(codes[name] for name in others))) & open_)
    return out


def keep_structural_zeros(
    draws: Floats,
    missing: Bools,
    schema: Schema,
    uniform: Callable[[str], Floats],
    settled: Collection[str] = (),
) -> Apart:
    """Draw another cell in place of one that goes with another one of its row in no row, where a sampler that knows of
    it (`possible`) was not asked, or had no other draw: a number beyond a limit comes as far within it, another one is
    the nearest that is seen beside that one, and a level is drawn from those. In place; where there is none.

    draws    [m, N, columns] codes of completed rows
    missing  [N, columns]
    uniform  by the name of a column random numbers from 0 to 1 [m, N]
    settled  columns whose fills stay
    """
    moving = missing & np.array([name not in settled for name in schema.modelled], bool)
    own = [(one, [schema.modelled.index(name) for name in one.names]) for one in schema.structural_zeros]
    for one, places in own:
        rows = np.flatnonzero(moving[:, places].any(1))
        wrong = one.excludes(*(draws[:, rows, place] for place in places))
        if not wrong.any():
            continue
        numbers = [uniform(name) for name in one.names]
        beside = functools.lru_cache(CODES)(functools.partial(_beside, one, np.array(one.seen)))
        for draw, i in np.argwhere(wrong).tolist():
            row = rows[i]
            moved = int(moving[row, places[1]])
            cells, u = draws[draw, row, places], float(numbers[moved][draw, row])
            cells[moved] = _instead(one, beside, moved, cells, u, schema.encoded[places[moved]])
            draws[draw, row, places[moved]] = cells[moved]
    apart = Apart(draws.shape[:2])
    for one, places in own:
        both = [draws[..., place] for place in places]
        if (one.excludes(*both) & missing[:, places].any(1)).any():
            for pair in one.single():
                apart.add(places, pair.excludes(*both) & missing[:, places].any(1), pair)
    return apart


def _instead(
    one: StructuralZeros,
    beside_of: Callable[[int, float], Floats],
    moved: int,
    cells: Floats,
    u: float,
    column: ModelledColumn,
) -> float:
    """The code to take in place of the one at a place (`moved`) of two cells [2] that do not go together; `beside_of`:
    other cells that are seen beside a code at a place (`_beside`), `u`: a random number from 0 to 1."""
    beside, drawn = beside_of(1 - moved, float(cells[1 - moved])), float(cells[moved])
    if not len(beside):
        return drawn
    number = as_number(column)
    if number is not None and drawn not in number.piles:
        for pair in one.pairs:
            limit = pair[moved]
            if limit.where != "at" and limit.holds(cells[moved]) and pair[1 - moved].holds(cells[1 - moved]):
                far = float(beside.min() if limit.where == "above" else beside.max())
                within = _within(one, moved, cells, (far, limit.code), number)
                if within is not None:
                    return within
        return float(beside[np.abs(beside - drawn).argmin()])
    return float(beside[min(int(u * len(beside)), len(beside) - 1)])


def _within(one: StructuralZeros, moved: int, cells: Floats, ends: tuple[float, float], number: Number) -> float | None:
    """A number beyond a limit as far within it, else at it; None where neither may go with the other cell, or all that
    is within is a value that piles up. `ends`: the farthest number within that was seen, and the limit."""
    (far, limit), digit = ends, 2 * half_digit(number)
    beyond = limit - float(cells[moved])
    if limit in number.piles:
        return None
    reach = beyond if abs(beyond) <= abs(limit - far) else 0.0
    codes = number.held(np.array([limit + reach, limit, limit + math.copysign(digit, beyond)]))
    for code in codes.tolist():
        both = cells.copy()
        both[moved] = code
        if not one.excludes(*both):
            return float(code)
    return None


def _beside(one: StructuralZeros, seen: Floats, place: int, code: float) -> Floats:
    """Of pairs of cells that are seen [n, 2] the other cells of those whose cell at a place has this code; where there
    are few of these, of those that may go with it and are nearest to it: of a level all."""
    same = seen[:, place] == code
    if same.sum() >= NEAREST:
        return np.asarray(seen[same, 1 - place])
    cells = [seen[:, 0], seen[:, 1]]
    cells[place] = np.full(len(seen), code)
    able = seen[~one.excludes(*cells)]
    if one.limits(place):
        able = able[np.argsort(np.abs(able[:, place] - code), kind="stable")[:NEAREST]]
    elif same.any():
        able = seen[same]
    return np.asarray(able[:, 1 - place])
