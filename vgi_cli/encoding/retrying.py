"""Cells that several relations are to keep to together.

Where relations are looked at one after another, a later one may find that its cells are settled already: net, tax and
gross that add up, and a tax that is not the rounded share of the net. Such rows are tried again as a whole: one cell is
kept as it is, the others follow from it, and it moves until all relations hold.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from vgi_cli.columns.base import ModelledColumn
from vgi_cli.columns.lattice import off_gaps
from vgi_cli.columns.numerals import Bools, Floats, Ints
from vgi_cli.encoding.computing import RelationCells, solve, width_of
from vgi_cli.encoding.redundant import as_number, half_digit
from vgi_cli.encoding.unpaired import departing_fills

DIGITS = (0, -1, 1, -2, 2, -3, 3)
"""How many of its last digits the cell that is kept may move, from where it is or should be by the other relations."""
STEP, STEPS = 0.1, 20.0
"""By this share of its standard deviation, or so many digits if they are more, it moves to find out how far what the
others say moves with it."""
APPROACHES = 4
"""Times that it moves to where they should agree: products are no straight lines."""
MOST_LEVELS = 64
"""So many levels (or keys) are tried of a column from which numbers follow, those first whose number was drawn most
nearly; and all values of a column that has no more."""
MOST_VALUES, AT_ONCE = 2_000, 50_000
"""Where nothing else is found, all values of a column are tried in the range that was seen where they are no more than
this (of two missing factors of a known product few pairs have the digits that meet it), so many rows at once."""


Cell = TypeVar("Cell", np.float64, np.bool_)
"""What is said of a cell: its code, or whether it is missing."""


class _One(NamedTuple):
    """A relation, and where its columns are among those of its group."""

    cells: RelationCells
    at: Ints

    def of(self, values: NDArray[Cell]) -> NDArray[Cell]:
        """Its cells [n, own columns] of values [n, columns]."""
        return np.asarray(values[:, self.at])

    def departing(self, values: Floats, missing: Bools) -> Bools:
        """Which of values [n, columns], some of which are `missing` [n or 1, columns], depart from it."""
        cells = self.cells
        return departing_fills(cells.relation, cells.unpaired, self.of(values), self.of(missing), cells.digit)

    def left(self, values: Floats) -> Floats:
        """By how much values [n, columns] depart from it."""
        own = self.of(values)
        return self.cells.relation.solved(own, 0, own[:, 0]) - own[:, 0]


class _Group(NamedTuple):
    """Relations that have columns in common, directly or through others.

    places   of these columns among those that are modelled
    columns  these
    told     the relations that were found, the finer ones first
    steps    all relations, those included that follow from them, each with the place of a cell that it says; those
             first that say most of theirs
    """

    places: Ints
    columns: Sequence[ModelledColumn]
    told: Sequence[_One]
    steps: Sequence[tuple[_One, int]]


class _Plan(NamedTuple):
    """In which order missing cells are computed: those that are kept, by their places in the group; the others, each by
    a relation; and the relations that have to hold then, of which some are left to be met (`open`)."""

    kept: tuple[int, ...]
    steps: Sequence[tuple[_One, int]]
    holds: Sequence[_One]
    open: Sequence[_One]


def retry(
    draws: Floats, observed: Floats, missing: Bools, told: Sequence[RelationCells], every: Sequence[RelationCells]
) -> None:
    """Let rows of draws [m, N, columns] in which a relation is not kept to, and some cell of its group is missing, keep
    to all relations of the group, in place; other rows, and those for which nothing is found, stay as they are. So with
    rows in which a number was computed that lies in a gap between values which occur again and again.

    observed  [N, columns] codes, exact where a cell is observed
    missing   [N, columns]
    told      the relations that were found, the finer ones first
    every     these, and those that follow from them
    """
    for group in _groups(told, every):
        holes = missing[:, group.places]
        rows = np.flatnonzero(holes.any(1))
        bad = np.zeros((len(draws), len(rows)), bool)
        for one in group.told:
            filled = np.flatnonzero(holes[np.ix_(rows, one.at)].any(1))
            for number, drawn in enumerate(draws):
                values = _values(drawn, observed, missing, rows[filled], group.places)
                bad[number, filled] |= one.departing(values, holes[rows[filled]])
        patterns, which = np.unique(holes[rows], axis=0, return_inverse=True)
        for kind, pattern in enumerate(patterns):
            own, unknown = group.places[pattern], np.flatnonzero(pattern).tolist()
            alike = which.reshape(-1) == kind
            for tried in (_tried, _listed):
                where = bad & alike
                if tried is _listed:
                    where[:, alike] = _unlisted(draws[:, rows[alike]][..., group.places], group, unknown)
                draw, row = np.nonzero(where)
                if len(draw):
                    at = draw[:, None], rows[row][:, None]
                    before = np.where(pattern, draws[*at, group.places], observed[at[1], group.places])
                    draws[*at, own] = tried(before, group, unknown)[:, pattern]


def _values(draw: Floats, observed: Floats, missing: Bools, rows: Ints, places: Ints) -> Floats:
    """[rows, places] codes of one draw [N, columns], observed ones as they are."""
    some = np.ix_(rows, places)
    return np.where(missing[some], draw[some], observed[some])


def _groups(told: Sequence[RelationCells], every: Sequence[RelationCells]) -> Iterator[_Group]:
    """The groups of relations in which numbers are computed."""
    left = list(told)
    while left:
        names, size = set(left[0].places.tolist()), 0
        while len(names) > size:
            size = len(names)
            for one in left:
                own = set(one.places.tolist())
                names |= own if own & names else set()
        own_told = [one for one in left if set(one.places.tolist()) & names]
        left = [one for one in left if one not in own_told]
        if all(one.relation.coded for one in own_told):
            continue
        places = np.array(sorted(names))
        made = [_One(one, np.searchsorted(places, one.places)) for one in every if set(one.places.tolist()) <= names]
        steps = [(one, place) for one in made for place in range(len(one.at)) if _says(one.cells, place)]
        steps.sort(key=lambda step: width_of((step[0].cells, step[1])))
        by_place = {at: column for one in made for at, column in zip(one.at.tolist(), one.cells.columns, strict=True)}
        columns = [by_place[at] for at in range(len(places))]
        yield _Group(places, columns, [one for one in made if one.cells in own_told], steps)


def _says(cells: RelationCells, place: int) -> bool:
    """Whether a relation says which value a cell at a place has."""
    return place == 0 or not (cells.relation.loose or cells.relation.extreme)


def _plans(group: _Group, unknown: Sequence[int], *, pairs: bool = False, determined: bool = False) -> Iterator[_Plan]:
    """The ways to compute the unknown cells of a group: each of them in turn is kept, those first that no relation is
    there to say; and more of them where that does not determine the others. `pairs`: each two of them instead, but for
    those plans. `determined`: each of them is kept though the observed cells say what it is, as they may leave it a few
    values (a gross of which the rounded tax is known)."""
    said = {int(one.at[0]) for one in group.told}
    order = sorted(unknown, key=lambda place: (place in said, place))
    holds = [one for one in group.told if set(one.at.tolist()) & set(unknown)]
    seen: set[tuple[int, ...]] = {plan.kept for plan in _plans(group, unknown)} if pairs else set()
    for start in itertools.permutations(order, 2 if pairs else 1):
        kept: tuple[int, ...] = start if determined else ()
        steps: list[tuple[_One, int]] = []
        left, others = set(unknown) - set(kept), [*start, *(place for place in order if place not in start)]
        while left:
            step = next((s for s in group.steps if left & set(s[0].at.tolist()) == {int(s[0].at[s[1]])}), None)
            if step is None:
                kept += (next(place for place in others if place in left),)
                left.remove(kept[-1])
            else:
                steps.append(step)
                left.remove(int(step[0].at[step[1]]))
        if kept not in seen:
            seen.add(kept)
            used = [one for one, _ in steps]
            met = [one for one in holds if not one.cells.relation.coded and one.cells.relation.how != "completed"]
            open_ones = [one for one in met if one not in used]
            yield _Plan(kept, steps, holds, open_ones)


def _tried(before: Floats, group: _Group, unknown: Sequence[int]) -> Floats:
    """Values [n, columns] of a group, the unknown ones by the first try in which all relations hold; as they were where
    none does."""
    found, left = before.copy(), np.arange(len(before))
    for plan in _plans(group, unknown):
        left = _by_digits(plan, group, found, left)
    for plan in _plans(group, unknown):
        left = _by_levels(plan, group, found, left)
        left = _by_pairs(plan, group, found, left)
    for plan in _plans(group, unknown, pairs=True) if len(left) else ():
        left = _by_digits(plan, group, found, left)
        left = _by_pairs(plan, group, found, left)
    for plan in _plans(group, unknown, determined=True) if len(left) else ():
        left = _by_digits(plan, group, found, left)
    for plan in _by_count(_plans(group, unknown), group) if len(left) else ():
        left = _by_values(plan, group, found, left)
    return found


def _listed(before: Floats, group: _Group, unknown: Sequence[int]) -> Floats:
    """Values [n, columns] of a group, the unknown ones by the first try of other levels or values of a column that has
    few in which all relations hold and no unknown number is `_unlisted`; as they were where none does."""
    found, left = before.copy(), np.arange(len(before))
    for plan in _plans(group, unknown):
        left = _by_levels(plan, group, found, left, unknown)
    return found


def _unlisted(values: Floats, group: _Group, places: Sequence[int]) -> Bools:
    """[..] whether a number at one of some places of values [.., columns] lies in a gap between values of its column
    that occur again and again, or beyond its least or greatest one where all of them lie between such gaps."""
    off = np.zeros(values.shape[:-1], bool)
    for place in places:
        number, own = as_number(group.columns[place]), values[..., place]
        if number is None or not number.gaps:
            continue
        off |= off_gaps(own, number.gaps) != own
        ends = [number.low, *(end for gap in number.gaps for end in gap), number.high]
        if ends[::2] == ends[1::2]:  # each gap begins where another one ends
            off |= (own < number.low) | (own > number.high)
    return off


def _by_digits(plan: _Plan, group: _Group, found: Floats, left: Ints) -> Ints:
    """Let rows `left` of values [n, columns] of a group keep to all relations by a plan, in place, its first cell where
    it is or a few digits from there; the rows in which none does."""
    determined = bool(plan.open) and len(plan.kept) <= 1
    for guessed in (True, False) if determined else (True,):  # what is determined may lie beyond limits of guesses
        for met in (False, True) if plan.open and plan.kept else (False,):
            if not len(left):
                return left
            some = found[left]
            start = _met(plan, group, some, guessed=guessed) if met else _kept(plan, some)
            done = np.zeros(len(left), bool)
            for digits in _digits(plan, group, met=met):
                values, able = _held(plan, group, some, _beside(plan, group, start, digits), guessed=guessed)
                new = able & ~done
                found[left[new]] = values[new]
                done |= able
                if done.all():
                    break
            left = left[~done]
    return left


def _by_levels(plan: _Plan, group: _Group, found: Floats, left: Ints, listed: Sequence[int] = ()) -> Ints:
    """Let rows `left` of values [n, columns] of a group keep to all relations by another level or key of the cell that
    a plan keeps first, in place; the rows in which none does. No number at some places is `_unlisted`."""
    levels = _levels(plan, group, found[left])
    for number in range(levels.shape[1]):
        values, able = _held(plan, group, found[left], levels[:, number], guessed=True)
        able &= ~_unlisted(values, group, listed)
        found[left[able]] = values[able]
        left, levels = left[~able], levels[~able]
    return left


def _by_pairs(plan: _Plan, group: _Group, found: Floats, left: Ints) -> Ints:
    """Let rows `left` of values [n, columns] of a group keep to all relations by another pair of levels, from which
    numbers follow, in the first two cells that a plan keeps, in place; the rows in which none does."""
    own = [one for one in group.told if one.cells.relation.how == "pairs" and plan.kept[:2] == (*one.at[1:],)]
    for one in own:
        away = np.abs(one.cells.relation.coding - found[left][:, one.at[:1]])
        tried = np.array(one.cells.relation.pairs)[away.argsort(1, kind="stable")[:, :MOST_LEVELS]]
        for number in range(tried.shape[1]):
            values, able = _held(plan, group, found[left], tried[:, number], guessed=True)
            found[left[able]] = values[able]
            left, tried = left[~able], tried[~able]
    return left


def _by_count(plans: Iterator[_Plan], group: _Group) -> list[_Plan]:
    """The plans whose kept cell is of a column with not too many values, those first in which these are the fewest."""
    counts = [(len(_seen(group.columns[plan.kept[0]])), plan) for plan in plans if plan.kept]
    return [plan for count, plan in sorted(counts, key=lambda own: own[0]) if count]


def _by_values(plan: _Plan, group: _Group, found: Floats, left: Ints) -> Ints:
    """Let rows `left` of values [n, columns] of a group keep to all relations by the value of the cell that a plan
    keeps which is nearest to what it is, of all those of its column, in place; the rows in which none does."""
    every = _seen(group.columns[plan.kept[0]])
    tried = np.abs(every - _kept(plan, found[left])[:, None]).argsort(1, kind="stable")
    start = 0
    while len(left) and start < len(every):
        some = every[tried[:, start : start + max(AT_ONCE // len(left), 1)]]
        start += some.shape[1]
        values, able = _held(plan, group, np.repeat(found[left], some.shape[1], 0), some.ravel(), guessed=True)
        able = able.reshape(some.shape)
        done, first = able.any(1), able.argmax(1) + some.shape[1] * np.arange(len(left))
        found[left[done]] = values[first[done]]
        left, tried = left[~done], tried[~done]
    return left


def _levels(plan: _Plan, group: _Group, values: Floats) -> Floats:
    """[n, levels] the levels or keys that the cell which a plan keeps first may have beside values [n, columns], from
    which numbers follow, those first with numbers most like these; or its values, where it has few, the nearest first.
    """
    listed = [one for one in group.told if as_number(one.cells.columns[0]) is not None]
    own = [one for one in listed if one.cells.relation.how in ("levels", "groups")]
    own = [one for one in own if plan.kept[:1] == (one.at[1],)]
    pairs = [one for one in listed if one.cells.relation.how == "pairs" and {*plan.kept[:1]} & {*one.at[1:].tolist()}]
    if not own and not pairs:
        few = _few(group.columns[plan.kept[0]]) if plan.kept else np.empty(0)
        away = np.abs(few - _kept(plan, values)[:, None])
        return np.asarray(few[away.argsort(1, kind="stable")])
    if own:
        first = own[0].cells.relation
        known = ~np.isnan(first.coding)
        tried = (np.array(first.keys) if first.keys else np.arange(len(known), dtype=np.float64))[known]
    else:
        tried = pairs[0].cells.relation.seen(pairs[0].at.tolist().index(plan.kept[0]))
    away = np.zeros((len(values), len(tried)))
    for one in own:
        said = one.cells.relation.said(tried)
        away += np.nan_to_num(np.abs(said - values[:, one.at[:1]]) / one.cells.columns[0].deviation)
    for one in pairs:
        beside = [tried if at == plan.kept[0] else values[:, at, None] for at in one.at[1:].tolist()]
        said = one.cells.relation.said_by_pair(*np.broadcast_arrays(*beside))
        away += np.nan_to_num(np.abs(said - values[:, one.at[:1]]) / one.cells.columns[0].deviation)
    return np.asarray(tried[away.argsort(1, kind="stable")[:, :MOST_LEVELS]])


def _few(column: ModelledColumn) -> Floats:
    """The values [n] of a column that has few within its limits; else none."""
    number = as_number(column)
    return np.empty(0) if number is None else _between(column, *number.ends, MOST_LEVELS)


def _seen(column: ModelledColumn) -> Floats:
    """The values [n] of a column from the least to the greatest one that was seen, within its limits, where these are
    not too many; else none."""
    number = as_number(column)
    if number is None:
        return np.empty(0)
    return _between(column, max(number.low, number.ends[0]), min(number.high, number.ends[1]), MOST_VALUES)


def _between(column: ModelledColumn, low: float, high: float, most: int) -> Floats:
    """The values [n] of a rounded column from low to high where these are fewer than `most`; else none."""
    digit = 2 * half_digit(column)
    if not digit or not (high - low) / digit < most:
        return np.empty(0)
    return np.unique(column.held(np.arange(low, high + digit / 2, digit)))


def _digits(plan: _Plan, group: _Group, *, met: bool) -> Sequence[int]:
    """By how many digits the cell that is kept moves in turn: where it is where relations should be `met`, or there are
    none to be."""
    rounded = bool(plan.kept) and half_digit(group.columns[plan.kept[0]]) > 0
    return DIGITS if rounded and (met or not plan.open) else (0,)


def _kept(plan: _Plan, values: Floats) -> Floats:
    """The cells [n] of values [n, columns] that a plan keeps first; zeros where it keeps none."""
    return values[:, plan.kept[0]] if plan.kept else np.zeros(len(values))


def _beside(plan: _Plan, group: _Group, start: Floats, digits: int) -> Floats:
    """Numbers [n] moved by so many digits of the column that a plan keeps first, as it holds them."""
    number = as_number(group.columns[plan.kept[0]]) if digits else None
    return start if number is None else number.held(start + 2 * digits * half_digit(group.columns[plan.kept[0]]))


def _held(plan: _Plan, group: _Group, values: Floats, kept: Floats, *, guessed: bool) -> tuple[Floats, Bools]:
    """As `_computed`, and which of them keep to all relations, too."""
    values, able = _computed(plan, group, values, kept, guessed=guessed)
    missing = _unknown(plan, values)
    for one in plan.holds:
        able &= ~one.departing(values, missing)
    return values, able


def _unknown(plan: _Plan, values: Floats) -> Bools:
    """[1, columns] which cells of values [n, columns] a plan keeps or computes."""
    unknown = np.zeros((1, values.shape[1]), bool)
    unknown[0, [*plan.kept, *(int(one.at[place]) for one, place in plan.steps)]] = True
    return unknown


def _computed(plan: _Plan, group: _Group, values: Floats, kept: Floats, *, guessed: bool) -> tuple[Floats, Bools]:
    """Values [n, columns] of a group with `kept` [n] in place of the cell that a plan keeps first, or those [n, k] of
    the first k cells, and the others computed from them, and which of them their columns admit; `guessed`: by limits
    too that are guesses from what was observed."""
    values, able, unknown = values.copy(), np.ones(len(values), bool), _unknown(plan, values)
    for place, own in zip(plan.kept, np.atleast_2d(kept.T), strict=False):
        values[:, place] = own
        number = as_number(group.columns[place])
        if number is not None:
            least, most = number.ends if guessed else number.given_ends
            able &= (own >= least) & (own <= most)
    for one, place in plan.steps:
        own = one.of(values)
        value, admitted = (part[0] for part in solve(one.cells, place, own[None], guessed=guessed))
        if one.cells.relation.coded:  # of which no level may be said
            value, admitted = np.where(admitted, value, own[:, place]), np.ones(len(own), bool)
        if one.cells.unpaired is not None:
            stays = one.cells.unpaired.staying(own, one.of(unknown))[:, place]
            value, admitted = np.where(stays, own[:, place], value), admitted | stays
        values[:, one.at[place]] = value
        able &= admitted
    return values, able


def _met(plan: _Plan, group: _Group, values: Floats, *, guessed: bool) -> Floats:
    """Where [n] the cell that a plan keeps first should be so that the first relation which is left open is met, by
    how far that is off here and a little farther on."""
    start, column = _kept(plan, values), group.columns[plan.kept[0]]
    number = as_number(column)
    if number is None:
        return start

    def left(kept: Floats) -> Floats:
        return plan.open[0].left(_computed(plan, group, values, kept, guessed=guessed)[0])

    step = max(STEP * column.deviation, 2 * STEPS * half_digit(column))
    with np.errstate(all="ignore"):
        for _ in range(APPROACHES):
            here = left(start)
            moved = start - here * step / (left(start + step) - here)
            start = np.where(np.isfinite(moved), moved, start)
    return np.asarray(number.held(start))
