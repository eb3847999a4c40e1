"""What the cells of a relation say of another one: computed, as its column holds it and within its limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

import numpy as np

from vgi_cli.columns.base import ModelledColumn
from vgi_cli.columns.calendar import HOUR, NOTHING, SECONDS
from vgi_cli.columns.datetime import Moment
from vgi_cli.columns.levelled import Levelled
from vgi_cli.columns.numerals import Bools, Floats, Ints, at_digits
from vgi_cli.columns.places import by_chance
from vgi_cli.columns.relations import HalfWay, Relation
from vgi_cli.encoding.dates import Wanted, counted, moved
from vgi_cli.encoding.redundant import as_number, half_digit
from vgi_cli.encoding.rounding_law import quantiles
from vgi_cli.encoding.spreads import TermSpread
from vgi_cli.encoding.sums import FLOAT, NEARLY, noise_of
from vgi_cli.encoding.unpaired import Unpaired

WITHIN = 1e-6
"""Share of a column's resolution by which what is computed may be off a value of it."""

RARELY = 1e-6
"""How often distances between two columns are drawn that were seen too rarely to be listed, when others are as well."""

MOST_AT_ONCE = 1_000_000
"""Keys that are compared with cells at once, of one draw."""


@dataclass(eq=False)
class RelationCells:
    """The columns of a relation in the rows of a table.

    columns  by their place in the relation
    places   of each among the columns that are modelled
    half     what the first one may be off
    digit    half of its last digit
    tried    [N] rows in which it was asked what its only unknown cell is
    uniform  gives random numbers from 0 to 1 [m, N], where several columns are rounded, or several levels belong to
             one; None: there are none
    single   by place the rows in which the cell there is the only unknown one, and it was not asked; None: not known
    spreads  of its terms, by place; none where they are not known
    unpaired  which of its cells go with none of another column; None: all have a partner
    beside   the places, among those that are modelled, of the columns that say how far a cell lies beyond the value at
             which another one is cut off
    """

    relation: Relation
    columns: Sequence[ModelledColumn]
    places: Ints
    half: float
    digit: float
    tried: Bools = field(repr=False)
    uniform: Callable[[], Floats] | None = None
    single: list[Ints] | None = None
    spreads: Sequence[TermSpread] = ()
    unpaired: Unpaired | None = None
    beside: Mapping[str, int] = field(default_factory=dict)

    def chance(self, rows: Ints) -> Floats | None:
        """Random numbers of some rows [m, rows]."""
        return None if self.uniform is None else self.uniform()[:, rows]


def width_of(cell: tuple[RelationCells, int]) -> float:
    """How far apart the values are that a relation leaves to the cell at a place, in standard deviations."""
    cells, place = cell
    if (cells.relation.loose or cells.relation.extreme) and place:
        return np.inf
    if cells.relation.how == "completed" and place:
        low, high = cells.relation.window(np.zeros(3), place, np.zeros(()))
        return float(high - low) / 2 / cells.columns[place].deviation
    if not cells.half:
        return 0.0
    if place and cells.relation.how == "sum":
        return cells.half / abs(cells.relation.weights[place]) / cells.columns[place].deviation
    return cells.half / cells.columns[0].deviation


def leaves_room(relation: Relation, place: int) -> bool:
    """Whether the other cells of a relation leave the one at a place several values, of which the drawn one decides."""
    several = relation.loose or relation.rounded or relation.extreme or relation.how == "completed"
    return bool(relation.slack) or (place > 0 and several)


class Room(NamedTuple):
    """From where to where cells [m, n] may lie; without end where nothing is said."""

    low: Floats
    high: Floats

    def holds(self, values: Floats) -> Bools:
        """Whether values [m, n] lie there."""
        return np.asarray((values >= self.low) & (values <= self.high))

    def both(self, other: Room) -> Room:
        """Where cells lie in this one and in another one."""
        return Room(np.maximum(self.low, other.low), np.minimum(self.high, other.high))

    def only(self, rows: Bools) -> Room:
        """The same in some rows [n] alone."""
        return Room(np.where(rows, self.low, -np.inf), np.where(rows, self.high, np.inf))

    @property
    def says_something(self) -> bool:
        """Whether some cell has an end."""
        return bool(np.isfinite(self.low).any() or np.isfinite(self.high).any())

    def of_values(self, column: ModelledColumn) -> Room:
        """The same, from the first to the last value of a rounded column that lies there."""
        return Room(held_within(column, self.low, 1), held_within(column, self.high, -1))


def room_beside(cells: RelationCells, place: int, other: int, values: Floats, *, guessed: bool) -> Room:
    """Where the cell at a place of values [m, n, columns] may lie so that what it says of the one at `other`, the only
    other unknown one, is within the limits of its column. `guessed`: those too that the observed values suggest."""
    relation, number = cells.relation, as_number(cells.columns[other])
    nothing = Room(np.full(values.shape[:2], -np.inf), np.full(values.shape[:2], np.inf))
    if number is None or relation.extreme or (relation.how == "completed" and (other or not place)):
        return nothing
    ends = number.ends if guessed else number.given_ends
    beside = [values.copy(), values.copy()]
    for own, end in zip(beside, ends, strict=True):
        own[..., other] = end
    if relation.how == "completed":
        least, most = (relation.window(own, place, own[..., 0]) for own in beside)
        low, high = (least[0], most[1]) if place > 1 else (most[0], least[1])  # NaN of limits that are infinite
        return Room(np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high - NOTHING))
    if relation.how == "product" and any((relation.factors(own)[..., other] < 0).any() for own in beside):
        return nothing
    found = np.stack([relation.solved(own, place, own[..., 0]) for own in beside])
    known = ~np.isnan(found).any(0)
    return Room(np.where(known, found.min(0), -np.inf), np.where(known, found.max(0), np.inf))


def held_within(column: ModelledColumn, ends: Floats, side: int) -> Floats:
    """Ends [..] moved up (`side` 1) or down (-1) to values of a rounded column; infinite ones stay."""
    digit, finite = 2 * half_digit(column), np.isfinite(ends)
    if not digit or not finite.any():
        return ends
    held = column.snap(np.where(finite, ends, 0.0))
    return np.where(finite, held + side * digit * (side * held < side * ends - WITHIN * digit), ends)


def solve(
    cells: RelationCells,
    place: int,
    values: Floats,
    *,
    guessed: bool = True,
    chance: Floats | None = None,
    rooms: Sequence[Room] = (),
) -> tuple[Floats, Bools]:
    """What the other cells of values [m, n, columns] say of the one at `place` [m, n], and whether its column admits
    it. Of a cell whose rounded sum is known, or of any where all columns are rounded, the value that it has, moved to
    where it has to lie. `guessed`: whether limits count that are guesses from the values which were observed; `chance`:
    random numbers from 0 to 1 [m, n] by which it is moved where all columns are rounded; `rooms`: where a cell whose
    rounded sum or product is known lies as far as it can, the widest one first."""
    relation, column, first = cells.relation, cells.columns[place], values[..., 0]
    if relation.coded and place == 0:
        code = relation.said_in(values)
        return code, ~np.isnan(code)
    if relation.loose:
        groups = [Levels(cells, first, np.array(True))]
        return within_levels(column, values[..., 1], groups, guessed=guessed, chance=chance)
    if relation.how == "levels":
        away = np.abs(first[..., None] - relation.coding)
        level = np.nanargmin(away, -1)
        return level.astype(np.float64), np.nanmin(away, -1) <= WITHIN * cells.columns[0].deviation
    if relation.how == "completed" and place:
        window = Levels.of_dates(cells, place, values, np.array(True))
        return within_levels(column, values[..., place], [window], guessed=guessed)
    computed = relation.solved(values, place, first)
    if relation.capped and place:
        return _beyond_cap(cells, values, rooms, guessed=guessed)
    if relation.extreme:
        others = relation.compared(values)
        side, beyond = (1 if relation.how == "greatest" else -1) * (place > 0), others - first[..., None]
        own = np.arange(1, others.shape[-1] + 1) == place
        able = ~((side * beyond > 0) & ~own).any(-1)  # of the others
        exact = (computed == first) | (place == 0)
        low, high = (np.where(exact, computed, end) for end in (-np.inf, np.inf))
        value, within = _within(column, computed, _Between(low, high, np.zeros_like(computed)), guessed=guessed)
        return value, able & within
    if relation.how == "completed":
        return _within(column, computed, _Between(computed, computed, np.zeros_like(computed)), guessed=guessed)
    size = relation.size(values) / abs(relation.weights[place]) if relation.how == "sum" else np.abs(computed)
    noise = noise_of(10 * size, 2 * half_digit(column))
    if place == 0 or not relation.rounded:
        half = relation.open_by(computed, cells.digit) if place == 0 else 0.0
        between = _Between(computed - half, computed + half, noise)
        digits = relation.significant if place == 0 else None
        said = computed if digits is None else at_digits(computed, digits)
        if relation.half_way is not None:
            said = _off_half_way(said, 2 * relation.open_by(computed, cells.digit), relation.half_way)
        value, able = _within(column, said, between, guessed=guessed)
        if not (place == 0 and relation.slack):
            return value, able
        near, as_well = _within(column, _as_rounded(cells, 0, first, computed, chance), between, guessed=guessed)
        return np.where(as_well, near, value), able | as_well
    low, high = left_by_rounding(relation, place, values, cells.digit)
    between = _Between(low, high, noise)
    value, able = _within(column, computed, between, guessed=guessed)
    if relation.slack and chance is not None:
        moved = _as_rounded(cells, place, values[..., place], computed, chance)
    else:
        moved = brought(values[..., place], *_within_limits(column, *_within_rooms(low, high, rooms)))
    nearest, as_well = _within(column, moved, between, guessed=guessed)
    return np.where(as_well, nearest, value), able | as_well


def _beyond_cap(cells: RelationCells, values: Floats, rooms: Sequence[Room], *, guessed: bool) -> tuple[Floats, Bools]:
    """The cells [m, n] of which another one is that, cut off at a value, and which of them their column admits. Beside
    one that is this value they are as they were drawn, but beyond it, and within `rooms` as far as they can. values
    [m, n, columns]; the other arguments as of `solve`."""
    relation, column, first = cells.relation, cells.columns[1], values[..., 0]
    cap = np.full(first.shape, relation.constant)
    noise = noise_of(10 * np.abs(cap), 2 * cells.digit)
    at_cap = np.abs(first - cap) <= noise
    ends = (relation.constant, np.inf) if relation.how == "least" else (-np.inf, relation.constant)
    low, high = (
        np.where(at_cap, held_within(column, np.full(first.shape, end), way), first)
        for end, way in zip(ends, (1, -1), strict=True)
    )
    value = np.clip(values[..., 1], *_within_rooms(low, high, rooms))
    value, able = _within(column, np.where(at_cap, value, first), _Between(low, high, noise), guessed=guessed)
    return value, able & (relation.past(first) <= noise)


def left_by_rounding(relation: Relation, place: int, values: Floats, half: float) -> tuple[Floats, Floats]:
    """From where to where [..] the cell at a place (from 1 on) of a sum or a product lies whose first cell is rounded
    to twice `half`, by the other ones of values [.., columns]."""
    first = values[..., 0]
    around = [first + side * relation.open_by(first, half, side) for side in (-1, 1)]
    if relation.how == "product":  # on its side of zero
        around = [np.where(np.sign(end) == -np.sign(first), 0.0, end) for end in around]
    ends = [relation.solved(values, place, end) for end in around]
    return np.minimum(*ends), np.maximum(*ends)


def _off_half_way(values: Floats, digit: Floats, to: HalfWay) -> Floats:
    """Values of which those half way between two numbers with a last `digit` are moved a little towards the one to
    which they are rounded."""
    with np.errstate(invalid="ignore"):  # of infinite ones
        below = np.floor(values / digit)
        tied = np.abs(values / digit - below - 0.5) <= NEARLY
        up = values > 0 if to == "away" else np.mod(below, 2) == 1
    return np.where(tied, values + np.where(up, NEARLY, -NEARLY) * digit, values)


def _as_rounded(cells: RelationCells, place: int, drawn: Floats, said: Floats, chance: Floats | None) -> Floats:
    """Cells [m, n] at a place of a sum of which all columns are rounded: as they were drawn where rounding explains how
    far they are from what the others say; else as far as it brings the others by `chance`, but within the limits of the
    column where it may. Of two columns that differ by a few values alone, as far as was seen."""
    relation, weights = cells.relation, np.abs(np.array(cells.relation.weights))
    half = cells.half / weights[place]
    near = np.abs(drawn - said) <= (1 - NEARLY) * half
    if relation.apart and chance is None:
        return np.where(near, drawn, brought(drawn, said - half, said + half))
    if relation.apart and chance is not None:
        seen = np.array(relation.apart)[by_chance(chance, len(relation.apart))]
        return np.where(near, drawn, said + (1 if place == 0 else -1) * (seen - relation.constant))
    halves = weights * np.array([half_digit(column) for column in cells.columns]) / weights[place]
    moved = said if chance is None else said + quantiles(chance, np.delete(halves, place))
    return np.clip(np.where(near, drawn, moved), *_within_limits(cells.columns[place], said - half, said + half))


def as_far_as_agrees(
    cells: RelationCells,
    place: int,
    cell: tuple[Floats, Floats],
    levels: Sequence[Levels],
    chance: Floats | None,
    ends: tuple[Floats, Floats] | None = None,
) -> tuple[Floats, Bools]:
    """What was `found` [m, n] for the cell at `place` of two columns that differ by a few values alone, and where it is
    another one: of the distances that were seen the one is taken with which the cell, a moment, has the parts that
    `levels` say of it and lies between some `ends` [n], drawn by `chance` [m, n] as often as they were seen, or the
    nearest to what was drawn. As it was where none does, or nothing is known. `cell`: values [m, n, columns], and what
    was found."""
    relation, column, (values, found) = cells.relation, cells.columns[place], cell
    low, high = (np.full(found.shape[1], side * np.inf) for side in (-1, 1)) if ends is None else ends
    parted = np.logical_or.reduce([one.rows for one in levels if one.parts], initial=False)
    rows = np.flatnonzero(parted | np.isfinite(low) | np.isfinite(high))
    if not len(rows):
        return found, np.zeros(found.shape, bool)
    own, room = [one.of(rows) for one in levels], Room(low[rows], high[rows]).of_values(column)
    said = relation.solved(values[:, rows], place, values[:, rows, 0])
    distances, often = _distances(cells)
    others = said + ((1 if place == 0 else -1) * (distances - relation.constant))[:, None, None]
    others, able = _within(column, others, _Between(others, others, np.zeros_like(others)), guessed=False)
    agrees = able & np.logical_and.reduce([room.holds(others), *(one.holds(others) for one in own)])
    drawn, before = values[:, rows, place], found[:, rows]
    stays = np.logical_and.reduce([room.holds(before), *(one.holds(before) for one in own)])
    if chance is None:
        which = np.where(agrees, np.abs(others - drawn), np.inf).argmin(0)
    else:
        stays &= np.abs(drawn - said) <= (1 - NEARLY) * cells.half
        total = np.cumsum(agrees * often[:, None, None], 0)
        which = (total > chance[:, rows] * total[-1]).argmax(0)
    taken, changed = found.copy(), np.zeros(found.shape, bool)
    changed[:, rows] = ~stays & agrees.any(0)
    taken[:, rows] = np.where(changed[:, rows], np.take_along_axis(others, which[None], 0)[0], before)
    return taken, changed


def _distances(cells: RelationCells) -> tuple[Floats, Floats]:
    """The values [k] by which two columns differ, and how often each: those between that are too rare to be among the
    ones that are listed, hardly ever."""
    relation, step = cells.relation, 2 * cells.digit
    least = relation.constant - relation.slack
    count = round(2 * relation.slack / step) + 1
    listed = np.rint((np.array(relation.apart) - least) / step).astype(int)
    often = np.bincount(listed, minlength=count).astype(np.float64)
    return np.asarray(least + step * np.arange(float(count))), often + RARELY


def with_other_parts(
    column: ModelledColumn,
    values: Floats,
    levels: Sequence[Levels],
    others: Sequence[OtherDate],
) -> tuple[Floats, Bools]:
    """Moments [m, n] with the parts that `levels` say, so that those dates which are a few known distances apart from
    them, and missing too, can have the parts that are known of these: the nearest ones."""
    found, done = within_levels(column, values, levels, guessed=False)
    for other in others:
        for rows, shifts in other.shifts():
            some = [one.of(rows) for one in levels]
            best, away = found[:, rows].copy(), np.full((len(values), len(rows)), np.inf)
            for shift in shifts:
                along = [one.later(shift, rows) for one in other.levels]
                moment, able = within_levels(column, values[:, rows], [*some, *along], guessed=False)
                nearer = able & (np.abs(moment - values[:, rows]) < away)
                best = np.where(nearer, moment, best)
                away = np.where(nearer, np.abs(moment - values[:, rows]), away)
            found[:, rows] = best
            done[:, rows] |= np.isfinite(away)
    return found, done


class OtherDate(NamedTuple):
    """A date a few known distances apart from moments that are missing too.

    cells   of their relation: two columns that differ by a few values, or the time between two datetimes
    place   of the moments in it
    levels  the parts that are known of the other date, in some rows
    first   [m, n] what the first column is
    """

    cells: RelationCells
    place: int
    levels: Sequence[Levels]
    first: Floats

    def shifts(self) -> Iterator[tuple[Ints, Floats]]:
        """Rows, and by how much their other dates may be later, in the units of the moments."""
        rows, relation = np.flatnonzero(np.logical_or.reduce([one.rows for one in self.levels])), self.cells.relation
        if relation.apart and len(rows):
            distances = _distances(self.cells)[0]
            yield rows, distances if self.place == 1 else -distances
        elif len(rows):
            begins = [begin for _, begin in relation.dates]
            side = 1 if self.place == 1 else -1
            for number in np.unique(self.first[0, rows]):
                days = relation.days_between(number)
                alike = rows[(self.first[:, rows] == number).all(0)]
                yield alike, side * (SECONDS * days + begins[0] - begins[1])


def within_levels(
    column: ModelledColumn, values: Floats, levels: Sequence[Levels], *, guessed: bool, chance: Floats | None = None
) -> tuple[Floats, Bools]:
    """Cells [m, n] of the second column of groups, or of bands and parts, as all of some levels leave them, and where
    they do; `chance`: random numbers from 0 to 1 [m, n] by which levels of groups are drawn."""
    if levels[0].cells.relation.how == "groups":
        return within_groups(column, values, levels, chance=chance)
    if isinstance(column, Moment) and any(one.parts for one in levels):
        found, able = _with_parts(column, values, levels, guessed=guessed)
        bands = [one for one in levels if not one.parts]
        none = ~np.logical_or.reduce([one.rows for one in levels if one.parts])
        if bands and none.any():
            value, as_well = _in_bands(column, values, bands, guessed=guessed)
            found, able = np.where(none, value, found), np.where(none, as_well, able)
        return found, able
    return _in_bands(column, values, levels, guessed=guessed)


def within_groups(
    column: ModelledColumn,
    values: Floats,
    groups: Sequence[Levels],
    pairs: Sequence[PairLevels] = (),
    chance: Floats | None = None,
    late: Sequence[Levels] = (),
) -> tuple[Floats, Bools]:
    """Cells [m, n] of a column from which others follow, by itself (`groups`) or with another one (`pairs`), as these
    leave them, and where they do; as the groups leave them where not all do. `chance`: random numbers from 0 to 1
    [m, n] by which levels are drawn; `late`: bands, parts and lengths of time that a number keeps to as well."""
    if isinstance(column, Levelled):
        found, able = _in_groups(values, column.level_counts[0], groups, pairs, chance)
    else:
        found, able = _at_keys(values, groups, pairs, late)
    if groups and pairs and not able.all():
        others, as_well = within_groups(column, values, groups, chance=chance, late=late)
        found, able = np.where(able, found, others), able | as_well
    return found, able


def _in_groups(
    levels: Floats, count: int, groups: Sequence[Levels], pairs: Sequence[PairLevels], chance: Floats | None
) -> tuple[Floats, Bools]:
    """Levels [m, n], of so many, that belong to those of some groups and pairs, or have some numbers, and where there
    are such. One that does stays; of those that do another one takes the place of each that does not, drawn by `chance`
    [m, n] as often as it occurs (None: by the level that it replaces). Where none has the numbers, one may of which it
    is not known."""
    may = np.ones((*levels.shape, count), bool)
    might = may.copy()
    for group in groups:
        coding, elsewhere = group.cells.relation.coding, ~group.rows[..., None]
        own = np.abs(coding - group.level[..., None]) <= FLOAT * np.abs(group.level[..., None])
        numbers = as_number(group.cells.columns[0]) is not None
        may &= own | elsewhere
        might &= own | elsewhere | (numbers & np.isnan(coding))
    for pair in pairs:
        own, open_ = pair.holds(np.arange(float(count)))
        may &= own
        might &= own | open_
    may |= might & ~may.any(-1, keepdims=True)
    drawn, counts = levels.astype(int), groups[0].cells.relation.frequencies if groups else np.ones(count)
    often = may * counts
    often += may * ~often.any(-1, keepdims=True)  # all levels alike where none of them occurs
    if chance is None:  # the same level goes to the same one, different ones to different ones
        chance = ((np.cumsum(counts) - 0.5 * counts) / counts.sum())[drawn]
    total = np.cumsum(often, -1)
    other = (total > chance[..., None] * total[..., -1:]).argmax(-1)
    stays = np.take_along_axis(may, drawn[..., None], -1)[..., 0]
    return np.where(stays, drawn, other).astype(np.float64), np.asarray(may.any(-1))


def _at_keys(
    values: Floats, groups: Sequence[Levels], pairs: Sequence[PairLevels], late: Sequence[Levels]
) -> tuple[Floats, Bools]:
    """Numbers [m, n] moved to the nearest keys, or numbers of pairs, that have what is known of other columns (`late`:
    that they keep to as well), and where there are such, or it is not known of the number itself what it has."""
    numbers = [np.array(group.cells.relation.keys) for group in groups]
    keys = np.unique(np.concatenate([*numbers, *(pair.relation.seen(pair.place) for pair in pairs)]))
    said = [group.cells.relation.said(keys) for group in groups]
    known = np.logical_or.reduce([*(group.rows for group in groups), *(pair.rows for pair in pairs)])
    rows = np.flatnonzero(np.broadcast_to(known, values.shape[1:]))
    found, able = values.copy(), np.ones(values.shape, bool)
    for draw in range(len(values)):
        for some in np.array_split(rows, len(rows) * len(keys) // MOST_AT_ONCE + 1):
            may = np.ones((len(some), len(keys)), bool)
            might, stays = may.copy(), np.ones(len(some), bool)
            for group, own in zip(groups, said, strict=True):
                level = group.level[draw, some][:, None]
                elsewhere = ~np.broadcast_to(group.rows, values.shape[1:])[some]
                holds = (np.abs(own - level) <= FLOAT * np.abs(level)) | elsewhere[:, None]
                may &= holds
                might &= holds | np.isnan(own)
                stays &= np.isnan(group.cells.relation.said(values[draw, some])) | elsewhere
            for pair in (one.at(draw, some) for one in pairs):
                holds, open_ = pair.holds(keys)
                may &= holds
                might &= holds | open_
                stays &= pair.unsaid(values[draw, some])
            for one in (each.at(draw, some) for each in late):
                holds = one.holds(keys)
                may &= holds
                might &= holds
            may = np.where(may.any(1, keepdims=True), may, might)
            away = np.where(may, np.abs(keys - values[draw, some][:, None]), np.inf)
            there = np.isfinite(away.min(1))
            found[draw, some] = np.where(there, keys[away.argmin(1)], values[draw, some])
            able[draw, some] = there | stays
    return found, able


class Levels(NamedTuple):
    """Levels [m, n] of a relation that say in which bands numbers lie, or in which groups levels, in some rows [n].

    window  of a date that completed years and another date leave a year: from where on, and before what [m, n]
    """

    cells: RelationCells
    level: Floats
    rows: Bools
    window: tuple[Floats, Floats] | None = None

    @classmethod
    def of_dates(cls, cells: RelationCells, place: int, values: Floats, rows: Bools) -> Self:
        """Where a date at a place lies by the completed years and the other date in values [m, n, columns]."""
        low, high = cells.relation.window(values, place, values[..., 0])
        window = np.where(rows, low, -np.inf), np.where(rows, high, np.inf)
        return cls(cells, values[..., 0], rows, window)

    @property
    def parts(self) -> bool:
        """Whether they are parts of a date."""
        return self.window is None and self.cells.relation.how == "part"

    def of(self, rows: Ints) -> Levels:
        """The same of some rows."""
        window = None if self.window is None else (self.window[0][:, rows], self.window[1][:, rows])
        return Levels(self.cells, self.level[:, rows], self.rows[rows], window)

    def at(self, draw: int, rows: Ints) -> Levels:
        """The same of some rows of one draw [rows, 1], to compare each with several numbers."""
        window = None
        if self.window is not None:
            window = self.window[0][draw, rows, None], self.window[1][draw, rows, None]
        known = np.broadcast_to(self.rows, self.level.shape[1:])[rows]
        return Levels(self.cells, self.level[draw, rows, None], known[:, None], window)

    def later(self, shift: float, rows: Ints) -> Levels:
        """What parts say, in some rows, of a date that is so much earlier than the one of which they are."""
        relation = replace(self.cells.relation, begin=self.cells.relation.begin + shift)
        return Levels(replace(self.cells, relation=relation), self.level[:, rows], self.rows[rows])

    def ends(self, *, seen: bool = True) -> tuple[Floats, Floats, Bools]:
        """Where the numbers have to lie, [m, n] from low to high: the outermost bands are as wide as what was `seen`,
        else without end; and whether the levels are some of the relation."""
        if self.window is not None:
            return *self.window, ~np.isnan(self.window[0]) | ~self.rows
        relation, number = self.cells.relation, as_number(self.cells.columns[1])
        assert number is not None, "bands are of numbers"
        outer = (min(number.low, relation.cuts[0]), max(number.high, relation.cuts[-1])) if seen else (-np.inf, np.inf)
        cuts = np.array([outer[0], *relation.cuts, outer[1]])
        order = np.argsort(relation.coding)
        codes = relation.coding[order]
        near = np.minimum(np.searchsorted(codes, self.level), len(codes) - 1)
        low, high = (np.where(self.rows, cuts[order[near] + side], far) for side, far in ((0, -np.inf), (1, np.inf)))
        return low, high, (codes[near] == self.level) | ~self.rows

    def holds(self, values: Floats) -> Bools:
        """Whether numbers [m, n] lie in the bands; those of other rows do."""
        if self.window is not None:
            return (values >= self.window[0]) & (values < self.window[1])
        return np.asarray((self.cells.relation.said(values) == self.level) | ~self.rows)


def between_ends(cells: RelationCells, room: Room) -> Levels:
    """A room of the second column of bands or parts, or of a date, as what is known of it."""
    digit = max(2 * half_digit(cells.columns[1]), WITHIN)
    everywhere = np.ones(room.low.shape[1:], bool)
    return Levels(cells, np.zeros(room.low.shape), everywhere, (room.low, room.high + digit))


class PairLevels(NamedTuple):
    """What is known of the cells at a place (1 or 2) of a relation of pairs, in rows [n].

    first  [.., n] codes of the first column, and in which `rows` [n] they are known
    other  [.., n] codes at the other place, and in which rows these are `known` [n]
    """

    relation: Relation
    place: int
    first: Floats
    rows: Bools
    other: Floats
    known: Bools

    def at(self, draw: int, rows: Ints) -> PairLevels:
        """The same of some rows of one draw."""
        first, other = self.first[draw, rows], self.other[draw, rows]
        return self._replace(first=first, rows=self.rows[rows], other=other, known=self.known[rows])

    def holds(self, codes: Floats) -> tuple[Bools, Bools]:
        """[.., n, codes] with which codes at the place the first column is what is known, and with which it is not
        known what it is; of other rows with all, and none."""
        said = self._said(codes[:, None], self.relation.seen(3 - self.place))
        beside, alone = self._said(codes, self.other[..., None]), ~self.known[:, None]
        may, might = self._agrees(beside), np.isnan(beside)
        if alone.any():
            first = np.unique(self.relation.coding)
            some = np.stack([(said == code).any(1) for code in first])
            near = np.abs(first - self.first[..., None]).argmin(-1)
            able = self._agrees(first[near][..., None]) & some[near]
            may, might = np.where(alone, able, may), np.where(alone, np.isnan(said).any(1), might)
        elsewhere = ~self.rows[:, None]
        return may | elsewhere, might & ~elsewhere

    def unsaid(self, values: Floats) -> Bools:
        """[.., n] whether it is not known what the first column is with values [.., n] at the place."""
        return np.asarray(np.isnan(self._said(values, self.other)) | ~self.rows | ~self.known)

    def _said(self, own: Floats, other: Floats) -> Floats:
        """[..] the codes of the first column by those at the place and at the other one [..]."""
        return self.relation.said_by_pair(*((own, other) if self.place == 1 else (other, own)))

    def _agrees(self, said: Floats) -> Bools:
        """[.., n, k] whether codes [.., n, k] are those of the first column."""
        first = self.first[..., None]
        return np.asarray(np.abs(said - first) <= FLOAT * np.abs(first))


def _in_bands(
    column: ModelledColumn, values: Floats, bands: Sequence[Levels], *, guessed: bool
) -> tuple[Floats, Bools]:
    """Numbers [m, n] moved to where they lie in all of some bands, and which of them the column admits there."""
    lows, highs, known = (
        np.array(np.broadcast_arrays(*part)) for part in zip(*(band.ends() for band in bands), strict=True)
    )
    low, high = lows.max(0), highs.min(0)
    if any(band.window is not None for band in bands):
        low, high = _held_to(column, low, high)
    inside = np.logical_and.reduce([band.holds(values) for band in bands])
    moved = np.where(inside, values, _by_widths(values, low, high))
    for window in [band.window for band in bands if band.window is not None]:  # at its time of the day, if it can be
        near = _by_widths(values, *window)
        holds = np.logical_and.reduce([(near >= low) & (near < high), *(band.holds(near) for band in bands)])
        moved = np.where(inside | ~holds, moved, near)
    between = _Between(np.where(inside, -np.inf, low), np.where(inside, np.inf, high), np.zeros_like(low))
    digit = 2 * half_digit(column)
    found, done = values, np.zeros(values.shape, bool)
    for other in (moved, moved + digit, moved - digit) if digit else (moved,):  # a cut between two values of the column
        held, able = _within(column, other, between, guessed=guessed)
        able &= np.logical_and.reduce([band.holds(held) for band in bands])
        found, done = np.where(done, found, held), done | able
    return found, done & known.all(0)


def _held_to(column: ModelledColumn, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """From where on, and before what [m, n] a date has to lie, within the limits of its column too where there is such;
    those are left out that are guesses from the observed values where there is none within them."""
    number, digit = as_number(column), max(2 * half_digit(column), WITHIN)
    assert number is not None, "dates are numbers"
    for least, most in (number.given_ends, number.ends):
        first, last = np.maximum(low, least), np.minimum(high, most + digit)
        low, high = np.where(first < last, first, low), np.where(first < last, last, high)
    return low, high


def _with_parts(column: Moment, values: Floats, levels: Sequence[Levels], *, guessed: bool) -> tuple[Floats, Bools]:
    """Moments [m, n] moved to where some parts of them are what is known, within bands that are known too, and which
    of them the column admits there."""
    bands = [one for one in levels if not one.parts]
    wanted = [Wanted(one.cells.relation, one.level, one.rows) for one in levels if one.parts]
    low, high, known = np.full(values.shape, -np.inf), np.full(values.shape, np.inf), np.ones(values.shape, bool)
    for one in bands:
        least, most, told = one.ends()
        low, high, known = (
            np.maximum(low, least),
            np.minimum(high, most - WITHIN),
            known & told,
        )  # where the next begins

    holding: list[Callable[[Floats], Bools]] = [*(one.holds for one in wanted), *(one.holds for one in bands)]

    def placed(start: Floats) -> Iterator[tuple[Floats, Bools]]:
        """Moments [m, n] near others, and which of them are what they have to be."""
        near = moved(column, start, wanted, (low, high), guessed=guessed)
        for other in (near, _at_another_time(column, near, wanted, (low, high))):
            held = column.held(other)
            held, able = _within(column, held, _Between(held, held, np.zeros_like(held)), guessed=guessed)
            yield held, able & known & np.logical_and.reduce([holds(held) for holds in holding])

    tries = (one for start in _starts(column, values, (low, high)) for one in placed(start))
    found, done = next(tries)
    while not done.all() and (other := next(tries, None)) is not None:
        found, done = np.where(done | ~other[1], found, other[0]), done | other[1]
    return found, done


def _starts(column: Moment, values: Floats, ends: tuple[Floats, Floats]) -> Iterator[Floats]:
    """Moments [m, n] from which those with some parts are looked for: as they are; and of datetimes, at their time of
    the day, on a day between ends [m, n], on the first and on the last of these."""
    yield values
    of = counted(column)
    low, high = ends
    if of is None or of[0] != "s" or not np.isfinite(low).any():
        return
    near = _by_widths(values, low, high)
    yield np.where(np.isfinite(near), near, values)
    for end in (low, high - NOTHING):
        with np.errstate(invalid="ignore"):
            other = values + SECONDS * (np.floor((end + of[1]) / SECONDS) - np.floor((values + of[1]) / SECONDS))
        yield np.where(np.isfinite(other), other, values)


def _at_another_time(column: Moment, values: Floats, wanted: Sequence[Wanted], ends: tuple[Floats, Floats]) -> Floats:
    """Datetimes [m, n] that are beyond ends [m, n], moved to between them on the same day, or in the same hour where
    that is wanted; as they were where there is no such time, and dates."""
    of = counted(column)
    if of is None or of[0] != "s":
        return values
    hours = np.logical_or.reduce([one.rows & (one.relation.part == "hour") for one in wanted])
    size = np.where(hours, HOUR, SECONDS)
    first = np.floor((values + of[1]) / size) * size - of[1]
    low, high = np.maximum(ends[0], first), np.minimum(ends[1], first + size)
    near = _by_widths(values, low, high)
    inside = (values >= ends[0]) & (values < ends[1])
    return np.where(inside | ~(low < high), values, near)


def brought(values: Floats, low: Floats, high: Floats) -> Floats:
    """Values from low to high: those beyond are moved by whole widths, so that they lie there as the others do (a
    moment of another day keeps its time), and not at the ends."""
    moved = _by_widths(values, low, high)
    inside = (values >= low) & (values <= high)
    return np.where(inside | ~np.isfinite(moved), np.clip(values, low, high), moved)


def _by_widths(values: Floats, low: Floats, high: Floats) -> Floats:
    """Values moved by multiples of high - low to where low <= value < high; NaN where there is no such width."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(low + np.mod(values - low, high - low))


class _Between(NamedTuple):
    """Where cells have to lie: from low to high, up to the `noise` of arithmetic."""

    low: Floats
    high: Floats
    noise: Floats


def _within(column: ModelledColumn, values: Floats, between: _Between, *, guessed: bool) -> tuple[Floats, Bools]:
    """Values as their column holds them, and which of them lie where they have to and within its limits; `guessed`:
    those that the observed values suggest as well."""
    number = as_number(column)
    if number is None:
        return values, np.isfinite(values)
    (low, high, noise), finite = between, np.isfinite(values)
    least, most = number.ends if guessed else number.given_ends
    noise = np.where(finite, np.maximum(noise, WITHIN * (number.resolution or 0.0)), 0.0)
    held = column.held(np.where(finite, values, number.low))
    able = finite & (held >= low - noise) & (held <= high + noise) & (held >= least - noise) & (held <= most + noise)
    return np.clip(held, least, most), able


def _within_rooms(low: Floats, high: Floats, rooms: Sequence[Room]) -> tuple[Floats, Floats]:
    """From where to where a value may lie, within all of some rooms too that leave some of that, one after another."""
    for room in rooms:
        some = (low <= room.high) & (high >= room.low)
        low, high = np.where(some, np.maximum(low, room.low), low), np.where(some, np.minimum(high, room.high), high)
    return low, high


def _within_limits(column: ModelledColumn, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """From where to where a value may lie, within all limits of its column where these leave some of that."""
    number = as_number(column)
    if number is None:
        return low, high
    least, most = number.ends
    some = (low <= most) & (high >= least)
    return np.where(some, np.maximum(low, least), low), np.where(some, np.minimum(high, most), high)


def clipped(column: ModelledColumn, values: Floats) -> Floats:
    """Values as their column holds them, and within its limits; anything where they are not finite."""
    number = as_number(column)
    if number is None:
        return values
    return column.held(np.clip(np.where(np.isfinite(values), values, number.low), *number.ends))
