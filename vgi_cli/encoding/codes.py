"""Values of a column of numbers that may be codes for cells without an answer, or slips of a pen: far from all others,
or held by many cells where no other value is."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeGuard

import numpy as np
import numpy.typing as npt

from vgi_cli.columns.base import Column, ModelledColumn
from vgi_cli.columns.datetime import Moment
from vgi_cli.columns.lattice import SURELY
from vgi_cli.columns.number import Number
from vgi_cli.columns.numerals import EXACT, Bools, Floats, Ints, plain
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.redundant import codes_of
from vgi_cli.encoding.scale_codes import scales_with_codes
from vgi_cli.encoding.spellings import MOST_CODES, NEGATIVE, NINES, NINES_AWAY, codes_beside
from vgi_cli.encoding.tails import beyond_tails, lies_beyond
from vgi_cli.encoding.zeros import zero_beside, zero_far_below
from vgi_cli.table.base import Table

FEWEST = 10
"""Fewest other values beside which one can be far away, and the greatest ones that say how others would go on."""
CODE_AWAY, ONE_AWAY = 3.0, 100.0
"""How far from the other values, in units of their range, is far: for values that occur more than once, others than 99,
-999 and the like (NINES_AWAY); for a value that occurs once."""
PAIR_AWAY = 0.3
"""The same for 98 and 99, and the like, side by side, each in FEWEST_CODED cells."""
FEWEST_CODED, SO_OFTEN, SO_LARGE = 3, 3.0, 4.0
"""A negative value may be such a code where so many cells hold it, and it is far away as 99 is, or so many times the
cells of a usual value hold it and the largest value is so many times its size."""
MANY = 0.02
"""Of the times of a column, the share of cells from which on one is a usual time, where another one is as far away: not
the end of a day."""
ENDS_OF_DAY = (0, 86_340, 86_399)
"""Seconds: 00:00, 23:59 and 23:59:59, which stand for a time that nobody wrote down."""
CODED = re.compile(r"77+|88+|99+|9+[678]")
"""Codes of surveys for cells without an answer that have two digits or more."""
FEWEST_STEP, SO_SMALL = 10, 0.5
"""Of the other values of a column with such codes the greatest common divisor at least, and what share of the least of
them the codes are at most."""
FEWEST_PILED = 5
"""Cells that hold such a code at least where it is told by their number, beyond a gap above the other values ..."""
PLACES, GAPS = 4.0, 1.5
"""... so many times as wide as the least distance of these, and as the greatest one in the upper half of them."""
PILE_AWAY, FEWEST_BESIDE, MOST_PILED = 1.5, 10, 0.1
"""How far from the other values, in units of their range, is far for a pile (85 degrees of a sensor that was just
switched on): a value beyond the tail of its side that FEWEST_PILED cells hold or more, and SO_OFTEN times as many as
hold the next one. Different other values at least, and the share of cells at most that hold it: what more hold is
usual."""
FEWEST_POSITIVE, FEW_NEGATIVE, AWAY, SO_WIDE = 20, 0.02, 0.25, 4.0
"""A sign may have slipped where so many numbers are positive and this share is negative at most, the least positive one
is this share of their median at least, and the gap to the negative ones is so many times the widest between those below
the median."""
FAR, BELOW = "far from all other values", "negative, unlike all other values"
ZERO = "far below all other values, none of which is near zero,"
PILED = "a pile beyond a gap, above all other values,"
DECADES = 100.0
"""Values that span so many times the least of them may go on by factors."""


class Far(NamedTuple):
    """A value unlike all others of its column, and how many cells hold it."""

    value: float
    cells: int


Unlike: TypeAlias = tuple[Number | Moment, Far, str]
"""A column, a value that is unlike all others of it, and in what way, in words."""


def unlike_others_among(table: Table, schema: Schema) -> list[Unlike]:
    """The values of the columns of a schema that are unlike all others, without what its relations explain. A negative
    value that one column has so few of that it might be one is a code beside those of another column."""
    told, parts = _told(schema), _parts(schema)
    found: list[Unlike] = []
    for column in schema.encoded:
        if isinstance(column, Number | Moment) and column.name not in told:
            for far, what in unlike_others(column, _finite(table, column)).items():
                if far.cells == 1 or column.name not in parts:  # nothing that stands for missing adds up
                    found.append((column, far, what))
    below = {far.value for column, far, what in found if what == BELOW and _plainly(column)}
    known = {(column.name, far.value) for column, far, _ in found}
    for column in schema.encoded if below else ():
        if _plainly(column):
            values = _finite(table, column)
            negative, cells = np.unique(values[values < 0], return_counts=True)
            also = [Far(float(v), int(n)) for v, n in zip(negative, cells, strict=True)]
            if below.issuperset(negative.tolist()):
                found += [(column, far, BELOW) for far in also if (column.name, far.value) not in known]
    return found + _zeros_beside(table, schema, found, told | parts)


def _zeros_beside(table: Table, schema: Schema, found: Sequence[Unlike], settled: Collection[str]) -> list[Unlike]:
    """The zeros that stand beside all those of a column that were `found` to lie far below its other values: the first
    such column says which. `settled`: columns whose values relations explain."""
    zeros = {column.name: codes_of(table, column) == 0 for column, _, what in found if what == ZERO}
    beside: list[Unlike] = []
    for column in schema.encoded if zeros else ():
        if isinstance(column, Number) and column.name not in zeros and column.name not in settled:
            values = codes_of(table, column)
            first = next((name for name, zero in zeros.items() if zero_beside(zero, values)), None)
            if first is not None:
                what = f"beside every 0 of '{first}' the value"
                beside.append((column, Far(0.0, int((values == 0).sum())), what))
    return beside


def _plainly(column: Column) -> TypeGuard[Number]:
    """Whether it is a column of numbers that are written plainly."""
    return isinstance(column, Number) and column.notation is None


def _finite(table: Table, column: ModelledColumn) -> Floats:
    """The codes of the observed cells of a column."""
    values = codes_of(table, column)
    return values[np.isfinite(values)]


def suspected_codes(table: Table, schema: Schema) -> dict[str, set[float]]:
    """By the names of the columns the values that may be codes for cells without an answer, of those of numbers and
    moments."""
    found: dict[str, set[float]] = {column.name: set() for column in schema.encoded}
    for column, far, _ in unlike_others_among(table, schema):
        if far.cells > 1:
            found[column.name].add(far.value)
    for one in itertools.chain(*scales_with_codes(table, schema.encoded)):
        found[one.name].update(one.codes)
    return found


def without_codes(table: Table, schema: Schema) -> Table:
    """The same table with the cells missing that may be codes for cells without an answer: what others say of columns
    is to be looked for there. The table itself where there are none."""
    coded = suspected_codes(table, schema)
    cells = {c.name: np.isin(codes_of(table, c), [*coded[c.name]]) for c in schema.encoded if coded[c.name]}
    return table.without(cells) if cells else table


def as_written(table: Table, column: Number | Moment, value: float) -> str:
    """A value of a column as its table writes such."""
    if _plainly(column):
        return plain(value).replace(".", table.decimal)
    return str(column.spell(np.array([value]), None)[0])


def explained_by_relations(schema: Schema) -> set[str]:
    """Columns whose values relations explain: what a level or a key has, and what adds up or multiplies."""
    return _told(schema) | _parts(schema)


def _told(schema: Schema) -> set[str]:
    return {one.names[0] for one in schema.relations if one.how in ("levels", "groups", "pairs")}


def _parts(schema: Schema) -> set[str]:
    found = [one.names for one in schema.relations if one.how in ("sum", "product") and len(one.names) > 2]
    return {name for names in found for name in names}


def unlike_others(column: Number | Moment, values: Floats) -> dict[Far, str]:
    """Which of some finite values of a column are unlike all others of it, and in what way, in words."""
    far = far_values(values, piles=not isinstance(column, Moment))
    away = dict.fromkeys([*far, *_held(values, beyond_tails(values))])
    found = dict.fromkeys(_unusual(column, list(away), len(values)), FAR)
    if isinstance(column, Moment):
        return found
    found |= dict.fromkeys((one for one in _held(values, slipped_signs(values)) if one.cells == 1), FAR)
    piled = dict.fromkeys(piled_codes(values), PILED)
    zeros = dict.fromkeys(_held(values, np.zeros(int(zero_far_below(values)))), ZERO)
    return {**piled, **dict.fromkeys(negative_codes(values), BELOW), **_small_codes(values), **zeros, **found}


def slipped_signs(values: Floats) -> Floats:
    """[k] the negative ones of some finite values, where each may be one of the positive ones whose sign slipped (a
    weight of -98.4 kg): these keep away from zero, and the negative ones are of their size."""
    below, above = np.unique(values[values < 0]), np.sort(values[values > 0])
    few = 0 < int((values < 0).sum()) <= max(1.0, FEW_NEGATIVE * len(values)) and not (values == 0).any()
    if not few or len(above) < FEWEST_POSITIVE:
        return below[:0]
    least, middle = float(above[0]), float(np.median(above))
    widest = float(np.diff(above[above <= middle]).max(initial=0.0))
    like_them = bool((-below >= least).all() and (-below <= above[-1]).all())
    apart = least >= AWAY * middle and least - float(below[-1]) >= SO_WIDE * widest
    return below if like_them and apart else below[:0]


def _held(values: Floats, some: Floats) -> list[Far]:
    """How many cells hold each of some values."""
    return [Far(value, int((values == value).sum())) for value in some.tolist()]


def _unusual(column: Number | Moment, found: list[Far], cells: int) -> list[Far]:
    """What is far from the other values of a column of so many cells without the usual times of a day among them
    (matches at noon and at three, where most are in the evening): several that each hold many cells."""
    if not isinstance(column, Moment) or column.clock.what != "time":
        return found
    often = max(FEWEST_CODED, MANY * cells)
    seconds = column.clock.ticks_in(np.array([one.value for one in found]), "s") % 86_400
    ends = np.isin(seconds, ENDS_OF_DAY).tolist()
    usual = [one for one, end in zip(found, ends, strict=True) if one.cells >= often and not end]
    return [one for one in found if one not in usual] if len(usual) > 1 else found


def far_values(values: Floats, *, piles: bool = False) -> list[Far]:
    """Of some finite values the few least and greatest that are far from all between them; of `piles`, which many more
    cells hold than hold the values next to them, those too that are less far, and none of a second group of values.

    Of all ways to set aside up to MOST_CODES distinct values at either end such that each is far from the rest, in
    units of the range of the rest (and of their logarithms, where these span decades), that which sets aside most.
    """
    distinct, cells = np.unique(values, return_counts=True)
    u = distinct / 2  # halves: the range of float64 numbers may be infinite
    if len(u) > 2 * MOST_CODES and not _gap(u):
        return []
    beside = _beside_nines(_ends(distinct), _ends(cells))
    away = np.array([beside.get(v, _away(v, n)) for v, n in zip(_ends(distinct), _ends(cells), strict=True)])
    best: tuple[int, int] = (0, 0)
    for low, high in itertools.product(range(MOST_CODES + 1), repeat=2):
        rest = slice(low, len(u) - high)
        if len(u[rest]) < 2 or cells[rest].sum() < FEWEST or low + high <= sum(best):
            continue
        needed = np.concatenate([away[:low], away[len(away) - high :]])
        if piles and 2 * int((needed == CODE_AWAY).sum()) > len(u[rest]):
            continue  # as many as the others: another group of them (doses of 0.05 to 0.15, and of 1 to 2)
        decades = distinct[0] > 0 and distinct[rest][-1] >= DECADES * distinct[rest][0]
        scales = (u, *([np.log(distinct)] if decades else []))
        less = np.minimum(needed, PILE_AWAY)
        if piles and all(_set_apart(scale, low, high, less) for scale in scales):
            needed = np.where(_piled(distinct, cells, low, high), less, needed)
        if all(_set_apart(scale, low, high, needed) for scale in scales):
            best = low, high
    low, high = best
    chosen = [*range(low), *range(len(u) - high, len(u))]
    return [Far(float(distinct[i]), int(cells[i])) for i in chosen]


def _gap(u: Floats) -> bool:
    """Whether a distance of neighbours among the few least and greatest of sorted values is large beside the range of
    all others: without one, hardly worth a look at each, no value is far away."""
    least, greatest = np.diff(u[: MOST_CODES + 1]), np.diff(u[-MOST_CODES - 1 :])
    return bool(max(least.max(), greatest.max()) > PAIR_AWAY * (u[-MOST_CODES - 1] - u[MOST_CODES]))


def _piled(distinct: Floats, cells: Ints, low: int, high: int) -> Bools:
    """[low + high] which of the least and greatest of different values, smallest first, each in so many `cells`, are
    piles beyond the tails of the others."""
    rest = slice(low, len(distinct) - high)
    if len(distinct[rest]) < FEWEST_BESIDE:
        return np.zeros(low + high, bool)
    next_ones = np.repeat(cells[rest][[0, -1]], [low, high])
    values, held = (np.concatenate([own[:low], own[len(own) - high :]]) for own in (distinct, cells))
    often = held >= np.maximum(FEWEST_PILED, SO_OFTEN * next_ones)
    piled = np.asarray(often & (held <= MOST_PILED * cells.sum()))
    if piled.any():
        others = np.repeat(distinct[rest], cells[rest])
        piled &= [lies_beyond(others, value) for value in values.tolist()]
    return piled


def _set_apart(u: Floats, low: int, high: int, needed: Floats) -> bool:
    """Whether the few least and greatest of sorted values are so far from the others, in units of their range."""
    first, last = u[low], u[len(u) - high - 1]
    gaps = np.concatenate([first - u[:low], u[len(u) - high :] - last])
    with np.errstate(over="ignore"):
        return bool((gaps > needed * (last - first)).all())


def _small_codes(values: Floats) -> dict[Far, str]:
    """Of some finite values the least ones, at most MOST_CODES, that look like codes of a survey (98 and 99 of incomes
    from 450 on), with what sets them apart: the others are all far larger, and multiples of a step that they are not
    of."""
    if not len(values) or not CODED.fullmatch(plain(float(values.min()))):
        return {}
    distinct, cells = np.unique(values, return_counts=True)
    if distinct[0] <= 0 or distinct[-1] >= EXACT or (distinct != np.rint(distinct)).any():
        return {}
    for count in range(min(MOST_CODES, len(distinct) - FEWEST), 0, -1):
        codes, rest = distinct[:count], distinct[count:]
        if codes[-1] > SO_SMALL * rest[0] or not all(CODED.fullmatch(plain(code)) for code in codes.tolist()):
            continue
        step = int(np.gcd.reduce(rest.astype(np.int64)))
        if step >= FEWEST_STEP and cells[:count].min() >= FEWEST_CODED and (codes % step > 0).all():
            what = f"far below all other values, multiples of {step:,},"
            return {Far(float(v), int(n)): what for v, n in zip(codes, cells[:count], strict=True)}
    return {}


def piled_codes(values: Floats) -> list[Far]:
    """Of some finite values the greatest ones, at most MOST_CODES, that look like codes of a survey (99 of ages from 16
    to 85): beyond a gap many more cells hold each than the greatest values below it lead one to expect, or each of
    these follows the other, in some cells, and none is beyond."""
    if not len(values) or not CODED.fullmatch(plain(float(values.max()))):
        return []
    distinct, cells = np.unique(values, return_counts=True)
    for count in range(min(MOST_CODES, len(distinct) - FEWEST), 0, -1):
        codes, rest = distinct[-count:], distinct[:-count]
        steps, gap, fewest = np.diff(rest), float(codes[0] - rest[-1]), int(cells[-count:].min())
        wide = gap >= PLACES * steps.min() and gap >= GAPS * steps[len(steps) // 2 :].max()
        if not wide or fewest < FEWEST_PILED or not all(CODED.fullmatch(plain(code)) for code in codes.tolist()):
            continue
        near, places = cells[:-count][-FEWEST:], float(rest[-1] - rest[-FEWEST]) / steps.min() + 1
        many = fewest >= SO_OFTEN * near.max() and _nats_above(fewest, float(near.sum()) / places) >= SURELY
        dense = round(places) == FEWEST and near.min() >= FEWEST_PILED and fewest >= near.mean()
        if many or dense:
            return [Far(float(v), int(n)) for v, n in zip(codes, cells[-count:], strict=True)]
    return []


def _nats_above(count: int, expected: float) -> float:
    """How unlikely so many cells are at least where fewer are expected, by Chernoff's bound of a Poisson law."""
    return count * math.log(count / expected) - count + expected if count > expected else 0.0


def negative_codes(values: Floats) -> list[Far]:
    """Of some finite values the negative ones, at most MOST_CODES, that look like codes of a survey in a column that is
    else not negative."""
    if not (values < 0).any():
        return []
    distinct, cells = np.unique(values, return_counts=True)
    below = distinct < 0
    usual, counts = distinct[~below], cells[~below]
    codes = distinct[below]
    if not 0 < len(codes) <= MOST_CODES or len(usual) < 2 or counts.sum() < FEWEST:
        return []
    if cells[below].min() < FEWEST_CODED or not all(NEGATIVE.fullmatch(plain(code)) for code in codes.tolist()):
        return []
    if usual.tolist() == [0.0, 1.0] and codes.tolist() == [-1.0] and 2 * cells[below][0] >= counts.min():
        return []  # down, level, up
    away = usual[0] / 2 - codes[-1] / 2 > NINES_AWAY * (usual[-1] / 2 - usual[0] / 2)
    often = cells[below].min() >= SO_OFTEN * float(np.median(counts)) and usual[-1] >= -SO_LARGE * codes[0]
    found = [Far(float(v), int(n)) for v, n in zip(codes, cells[below], strict=True)]
    return found if away or often else []


def _ends(items: npt.NDArray[Any]) -> list[Any]:
    """The first and the last few of some items (all where these meet)."""
    if len(items) <= 2 * MOST_CODES:
        return [*items.tolist()]
    return [*items[:MOST_CODES].tolist(), *items[-MOST_CODES:].tolist()]


def _beside_nines(values: Sequence[float], cells: Sequence[int]) -> dict[float, float]:
    """How far away 98 and 99 (97 too; 998 and 999; -98 and -99), or 88 and 99, have to be among the least and greatest
    values of a column, each in so many cells, where they repeat side by side, as codes of don't know and refused do."""
    counts = {float(value): count for value, count in zip(values, cells, strict=True) if count > 1}
    found: dict[float, float] = {}
    for nines in [value for value in counts if NINES.fullmatch(plain(value))]:
        for run in codes_beside(nines, counts):
            away = PAIR_AWAY if min(counts[value] for value in run) >= FEWEST_CODED else NINES_AWAY
            found |= dict.fromkeys(run, away)
    return found


def _away(value: float, cells: int) -> float:
    if cells == 1:
        return ONE_AWAY
    return NINES_AWAY if NINES.fullmatch(plain(value)) else CODE_AWAY
