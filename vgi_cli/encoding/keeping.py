"""Fills keep to the relations between columns.

A model knows a total and its parts as numbers that go together closely, and draws them so: nearly. Where the cells that
are observed say exactly what a missing one is, or drawn cells of a row are to go together exactly, this computes it.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

import numpy as np

from vgi_cli.columns.base import ModelledColumn
from vgi_cli.columns.blanks import unasked_holes, without_value_in
from vgi_cli.columns.calendar import HOUR, SECONDS, days_in
from vgi_cli.columns.numerals import Bools, Floats, Ints
from vgi_cli.columns.relations import Relation
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.apart import Apart
from vgi_cli.encoding.comparing import keep_comparisons, redraw_compared
from vgi_cli.encoding.computing import (
    WITHIN,
    Levels,
    OtherDate,
    PairLevels,
    RelationCells,
    Room,
    as_far_as_agrees,
    between_ends,
    clipped,
    held_within,
    leaves_room,
    left_by_rounding,
    room_beside,
    solve,
    width_of,
    with_other_parts,
    within_groups,
)
from vgi_cli.encoding.dates import Parted, Wanted, room_of
from vgi_cli.encoding.joint import Two, solved_together, two_unknowns
from vgi_cli.encoding.orders import keep_orders, orders_without, out_of_order, rooms_in_order
from vgi_cli.encoding.other_keys import settled_orders, take_others
from vgi_cli.encoding.redrawing import DrawnRows, redraw
from vgi_cli.encoding.redundant import as_number, half_digit
from vgi_cli.encoding.relations import departing
from vgi_cli.encoding.retrying import retry
from vgi_cli.encoding.skips import (
    against_answers,
    keep_skips,
    keep_thresholds,
    keep_what_says,
    rooms_of_thresholds,
    unkept_skips,
)
from vgi_cli.encoding.spreads import term_spreads
from vgi_cli.encoding.structural_zeros import keep_structural_zeros
from vgi_cli.encoding.summands import as_summand
from vgi_cli.encoding.unpaired import Unpaired, departing_fills

LATE = ("bands", "part")
"""Relations of which the second column is a number that the first one leaves some room, or a date."""
MOST = 200
"""Relations, those included that follow from two others."""
CLEARLY = 2.0
"""A cell is known clearly less than another one where its term lies so many times as far apart in rows that are alike.
"""
TIMES = (0.0, *(side * HOUR * half / 2 for half in range(1, 25) for side in (-1, 1)))
"""Seconds by which a drawn date is moved at most, where no other one is as far from it as all lengths say."""
GONE = 1e-9
"""A difference of two weights that is this share of them is none: the column has dropped out."""


def keep_relations(
    draws: Floats,
    observed: Floats,
    missing: Bools,
    schema: Schema,
    uniform: Callable[[str], Floats] | None = None,
    ties: Callable[[str, str], Floats] | None = None,
    told: Floats | None = None,
) -> Apart:
    """Let the fills keep to the skips and thresholds of their columns (`skips.py`), to their relations, to their orders
    (`orders.py`), and to comparisons (`comparisons.py`), in place. In which rows of all draws some fill could not.

    draws     [m, N, columns] codes of completed rows
    observed  [N, columns] codes of the same rows, exact where a cell is observed
    missing   [N, columns]
    uniform   by the name of a column random numbers from 0 to 1 [m, N]; None: fills beside skipped columns stay, and
              what is farther from a sum of rounded columns than rounding goes is moved to the sum itself, and of two
              columns that differ by a few values to any of these
    ties      by the names of a column and of the other one of its order, or of the one whose levels its own belong to,
              random numbers from 0 to 1 [m, N]; None: fills of columns in order are equal as often as they are drawn
              so, and which level takes the place of another one depends on that one
    told      [N, columns] codes that holes get before all others, as columns that are carried say what they are
              (`keys.py`); NaN: nothing is said. None: of no cell. Answers of the row itself are heard before them, and
              what they say is no answer: a blank cell stays one to skips and thresholds

    A hole that the other cells of its relation determine gets what they say; so does one that two sums determine
    together. Where several cells of a relation are missing, all but one stay as they were drawn and the last one is
    computed: the one of which the observed cells of the row say clearly less than of the others (`spreads.py`); else
    the rounded one, else the first of those that can take what is left, by the size of their share in a sum.
    Where all columns of a sum are rounded, a draw that is no farther from it than they are stays; another one is drawn
    anew, as rounding goes.
    Where none can, the next ones move to the end of their limits as well; a factor is as near to what it should be as
    its digits go. Exact relations come before rounded ones, and of these the finer ones first. A row whose cells cannot
    go together within the limits of the columns stays as it was drawn. Where cells of relations are such as never go
    together then, another value of one of them is tried, and the others follow from that (`redrawing.py`).
    """
    apart = Apart(draws.shape[:2])
    blank = missing
    if told is not None:
        known = missing & ~np.isnan(told) & ~against_answers(told, missing, schema)
        draws[:, known] = told[known]
        observed, missing = np.where(known, told, observed), missing & ~known
    if uniform is not None:
        keep_skips(draws, missing, schema, uniform, blank)
        keep_thresholds(draws, missing, schema, uniform, blank)
        keep_what_says(draws, missing, schema, uniform, blank)
        keep_structural_zeros(draws, missing, schema, uniform)
        keep_comparisons(draws, observed, missing, schema)
    for j, column in enumerate(schema.encoded):
        number = as_number(column)
        if number is not None and number.significant is not None:  # rounded before others are computed from them
            draws[:, missing[:, j], j] = number.written(draws[:, missing[:, j], j])
    rows, keep = DrawnRows(draws, observed, missing, uniform, ties), functools.partial(_in_line, schema=schema)
    settled = settled_orders(schema)
    model = draws.copy() if settled else draws
    found = keep(rows)
    if settled:
        take_others(rows, model, schema, settled, found, keep)
    if uniform is not None:
        redraw(rows, schema, found, keep)
        redraw_compared(rows, schema, found, keep)
        apart.update(unkept_skips(draws, missing, schema, blank))
    apart.update(found)
    return apart


def keep_but_for_blanks(
    rows: DrawnRows, blank: Callable[[Floats], Bools] | None, schema: Schema, told: Floats | None
) -> Apart:
    """As `keep_relations`, of rows of which some holes hold nothing: those that stay blank, and those in which nothing
    belongs (`without_value_in`): of questions that a row is not asked, say. What is filled in there decides no other
    cell of its row, which is as it was drawn, or follows from others; what they are filled with follows from these.

    Which these are say the draws, before they keep to anything; where others would be then, the fills that keep to
    relations all the same.

    blank  which cells of draws [m, N, columns] stay blank, as what decides may be a fill; where other ones would be
           then, relations are kept to all the same. None: none stays
    """
    rules, linked = without_value_in(schema), _linked(schema)
    names = {name for own in linked for name in own}
    if blank is None and not any(names & {*one.others} for one in rules):
        return keep_relations(*rows[:3], schema, *rows[3:], told)
    spoken = rows.missing if told is None else rows.missing & np.isnan(told)

    def found_in(draws: Floats) -> tuple[Bools, Bools]:
        staying = np.zeros(draws.shape, bool) if blank is None else blank(draws)
        return staying, spoken & ~staying & unasked_holes(rules, draws, rows.observed, rows.missing, schema)

    model = rows.draws.copy()
    apart = keep_relations(*rows[:3], schema, *rows[3:], told)
    drawn, kept = found_in(model), found_in(rows.draws)
    moved = np.any([one != other for one, other in zip(drawn, kept, strict=True)], axis=(0, -1))
    taken = np.zeros(moved.shape, bool)
    for (staying, unasked), open_ in ((drawn, np.ones(moved.shape, bool)), (kept, moved)):
        deciding = np.zeros(staying.shape, bool)
        for together in linked:
            places = [schema.modelled.index(name) for name in together]
            nothing = staying[..., places] | unasked[..., places]
            deciding[..., places] |= nothing & (rows.missing[:, places] & ~nothing).any(-1, keepdims=True)
        draw, row = np.nonzero(deciding.any(-1) & open_ & ~taken)
        if not len(row):
            continue
        again, found = model.copy(), list[tuple[Ints, Ints, Apart]]()
        kinds = np.stack([staying[draw, row], unasked[draw, row]], 1) & deciding[draw, row][:, None]
        patterns, which = np.unique(kinds, axis=0, return_inverse=True)
        for kind, pattern in enumerate(patterns):
            at = np.flatnonzero(which.reshape(-1) == kind)
            some = rows._replace(draws=again).at(draw[at], row[at])
            gone, beside = ({*itertools.compress(schema.modelled, own)} for own in (pattern[0], pattern.any(0)))
            said = None if told is None else told[row[at]]
            own = keep_relations(*some[:3], _without_columns(schema, beside), *some[3:], said)
            last = some._replace(observed=_exact(some), missing=unasked[draw[at], row[at]])
            own.update(keep_relations(*last[:3], _without_columns(schema, gone), *last[3:]))
            again[draw[at], row[at]] = some.draws[0]
            found.append((draw[at], row[at], own))
        same = [(one == other).all(-1) for one, other in zip(found_in(again), (staying, unasked), strict=True)]
        whole = np.zeros(moved.shape, bool)
        whole[draw, row] = (same[0] & same[1])[draw, row]
        rows.draws[whole] = again[whole]
        apart.mend(whole)
        for at_draw, at_row, own in found:
            apart.update_at(at_draw, at_row, own, whole)
        taken |= whole
    return apart


def _linked(schema: Schema) -> list[tuple[str, ...]]:
    """The columns of each rule of a schema by which cells of a row decide others of it."""
    orders = [(one.low, one.high) for one in schema.orders]
    told = [*(one.names for one in schema.structural_zeros), *(one.names for one in schema.comparisons)]
    return [*(one.names for one in schema.relations), *told, *orders]


def _without_columns(schema: Schema, names: Collection[str]) -> Schema:
    """A schema without those of its relations, orders, structural zeros and comparisons that are of some columns; what
    is the greatest of these and others is that of the others."""
    return replace(
        schema,
        relations=tuple(left for one in schema.relations if (left := one.without(names)) is not None),
        structural_zeros=tuple(one for one in schema.structural_zeros if not set(one.names) & set(names)),
        comparisons=tuple(one for one in schema.comparisons if not set(one.names) & set(names)),
        orders=orders_without(schema, names),
    )


def _in_line(filled: DrawnRows, schema: Schema) -> Apart:
    """Let the fills keep to their relations and orders, and those of other columns to structural zeros
    and comparisons, in place."""
    draws, observed, missing, uniform, ties = filled
    _dates_in_order(filled, schema)
    apart = _kept(filled, schema)
    if schema.orders:
        told = [schema.modelled.index(name) for name in {name for one in schema.relations for name in one.names}]
        before = draws[..., told]
        rooms = _movable_rooms(observed, missing, schema)
        orders = keep_orders(draws, observed, missing, schema, rooms, ties, _parted(observed, missing, schema))
        for one in [one for one in schema.relations if one.how in LATE]:
            # a number that was moved takes a level along that is a fill too
            first, second = (schema.modelled.index(name) for name in one.names)
            rows = np.flatnonzero(missing[:, first] & missing[:, second])
            own, unpaired = draws[:, rows][..., [first, second]], Unpaired.of(one, schema)
            said = one.said(own[..., 1])
            if unpaired is not None:
                said[unpaired.staying(own, np.ones(own.shape[1:], bool))[..., 0]] = np.nan
            draws[:, rows, first] = np.where(np.isnan(said), own[..., 0], said)
        _follow(filled, schema, (draws[..., told] != before).any(-1), apart, orders)
        apart.update(orders)
    if uniform is not None:  # again: cells that were computed or moved since may be of another kind
        settled = {name for relation in schema.relations for name in relation.names}
        apart.update(keep_structural_zeros(draws, missing, schema, uniform, settled | _in_orders(schema)))
        apart.update(keep_comparisons(draws, observed, missing, schema, settled))
    return apart


def _follow(filled: DrawnRows, schema: Schema, moved: Bools, apart: Apart, orders: Apart) -> None:
    """Let what follows from cells that were `moved` [m, N] for an order, and from the levels that they took along,
    follow from them again, in place: a fiscal year from the year of a date. What was moved, and what follows from it at
    once, stays. `apart`, `orders`: where fills departed from relations before that, and from orders; where they do now,
    afterwards."""
    draw, row = np.nonzero(moved)
    if not len(row):
        return
    own = filled.at(draw, row)
    broken = _departs(own, schema)
    again = np.flatnonzero(np.any(list(broken.values()), axis=0) & ~apart.rows()[draw, row])
    mended = np.zeros(moved.shape, bool)
    for stays, last in ((_movable(schema), False), (_in_orders(schema), True)):
        if not len(again):
            break
        some = own.at(np.zeros(len(again), int), again)
        along = {one.names[0] for one in schema.relations if one.how in LATE and one.names[1] in stays}
        known = ~some.missing | np.isin(schema.modelled, sorted(stays | along))
        _kept(some._replace(observed=_exact(some), missing=~known), schema)
        departs, ordered = _departs(some, schema), ~out_of_order(_exact(some), schema)
        whole = ordered & ~np.any(list(departs.values()), axis=0)
        taken = whole | last  # a column of an order that follows from others: where it is in order then
        filled.draws[draw[again[taken]], row[again[taken]]] = some.draws[0, taken]
        for one, where in departs.items():
            broken[one][again[taken]] = where[taken]
        mended[draw[again[whole]], row[again[whole]]] = True
        again = again[~taken]
    orders.mend(mended)
    apart.mend(moved)  # those that are still apart come again
    for one, where in broken.items():
        found = np.zeros(moved.shape, bool)
        found[draw, row] = where
        apart.add([schema.modelled.index(name) for name in one.names], found, one)


def _in_orders(schema: Schema) -> set[str]:
    """The columns that are in order with others."""
    return {name for order in schema.orders for name in (order.low, order.high)}


def _free(schema: Schema) -> list[Relation]:
    """The relations that leave their second column some room, which no other one settles."""
    return [one for one in schema.relations if _leaves_second(one) and one.names[1] not in _settled(schema)]


def _leaves_second(relation: Relation) -> bool:
    """Whether a relation of two columns leaves the second one some room: levels of bands, parts, and what is rounded
    (the day of a time)."""
    rounded = relation.how in ("sum", "product") and len(relation.names) == 2 and relation.rounded
    return relation.how in LATE or (rounded and not relation.slack)


def _settled(schema: Schema) -> set[str]:
    """The columns of relations that leave them no room, and levels, parts and rounded numbers that follow from
    others."""
    exact = [one for one in schema.relations if not _leaves_second(one) and one.how != "completed"]
    named = {name for one in exact for name in one.names}
    return named | {one.names[0] for one in schema.relations if _leaves_second(one)}


def _aged(schema: Schema) -> Iterator[tuple[Relation, int]]:
    """Completed years or months, and the places of their dates that no other relation settles."""
    settled = _settled(schema)
    for one in schema.relations:
        yield from ((one, place) for place in (1, 2) if one.how == "completed" and one.names[place] not in settled)


def _movable(schema: Schema) -> set[str]:
    """The columns that may be moved for an order."""
    settled = {name for one in schema.relations for name in one.names} - {one.names[1] for one in _free(schema)}
    return _in_orders(schema) - (settled - {one.names[place] for one, place in _aged(schema)})


def _exact(filled: DrawnRows) -> Floats:
    """[n, columns] codes of rows of a single draw, observed ones as they are."""
    return np.where(filled.missing, filled.draws[0], filled.observed)


def _departs(filled: DrawnRows, schema: Schema) -> dict[Relation, Bools]:
    """By relations in which rows [n] of a single draw a fill departs from them."""
    exact, found = _exact(filled), {}
    for one in schema.relations:
        places = [schema.modelled.index(name) for name in one.names]
        holes, half = filled.missing[:, places], half_digit(schema.encoded[places[0]])
        departs = departing_fills(one, Unpaired.of(one, schema), exact[:, places], holes, half)
        found[one] = departs & holes.any(1)
    return found


def _rooms(
    observed: Floats, missing: Bools, schema: Schema, bands: Sequence[Relation], *, seen: bool = True
) -> dict[str, tuple[Floats, Floats]]:
    """By columns of numbers in bands, or of which a rounded one follows, from where to where [N] the observed levels
    and rounded numbers leave it to them, and dates with observed parts. `seen`: the outermost bands are as wide as what
    was seen, else without end."""
    rooms: dict[str, tuple[Floats, Floats]] = {}
    parts: dict[str, list[Wanted]] = {}
    for one in bands:
        first, second = (schema.modelled.index(name) for name in one.names)
        if one.part is not None:
            parts.setdefault(one.names[1], []).append(Wanted(one, observed[:, first], ~missing[:, first]))
            continue
        columns = schema.encoded[first], schema.encoded[second]
        if one.how in LATE:
            cells = RelationCells(one, columns, np.array([first, second]), 0.0, 0.0, np.zeros(len(missing), bool))
            low, high, known = Levels(cells, observed[:, first], ~missing[:, first]).ends(seen=seen)
            below = max(2 * half_digit(columns[1]), WITHIN * columns[1].deviation)  # the next band begins at its end
            high = high - below
        else:
            known = ~missing[:, first]
            low, high = left_by_rounding(one, 1, observed[:, [first, second]], half_digit(columns[0]))
        if not seen or one.rounded:  # what is moved to an end is a value of the column
            low, high = held_within(columns[1], low, 1), held_within(columns[1], high, -1)
        before = rooms.get(one.names[1], (np.full(len(missing), -np.inf), np.full(len(missing), np.inf)))
        ends = np.where(known, low, -np.inf), np.where(known, high, np.inf)
        rooms[one.names[1]] = np.maximum(before[0], ends[0]), np.minimum(before[1], ends[1])
    for name, wanted in parts.items():
        own = room_of(schema.encoded[schema.modelled.index(name)], wanted)
        other = rooms.get(name, own)
        rooms[name] = np.maximum(other[0], own[0]), np.minimum(other[1], own[1])
    return rooms


def _movable_rooms(observed: Floats, missing: Bools, schema: Schema) -> dict[str, tuple[Floats, Floats]]:
    """By columns that relations leave some room, from where to where [N] they may be moved for an order: a date of
    completed years within the year that these and the other date leave it, anywhere where the years follow from it, and
    nowhere where the other date does; and columns of no relation within their thresholds."""
    rooms = _rooms(observed, missing, schema, _free(schema))
    counts = Counter(name for one in schema.relations for name in one.names)
    bands = Counter(one.names[1] for one in schema.relations if one.how in LATE)
    for one, place in _aged(schema):
        places = np.array([schema.modelled.index(name) for name in one.names])
        column, first = schema.encoded[places[place]], one.names[0]
        low, high = one.window(observed[:, places], place, observed[:, places[0]])
        follows = missing[:, places[0]] & (counts[first] == 1 + bands[first])
        held = missing[:, np.delete(places, place)].any(1)
        low = np.where(follows, -np.inf, np.where(held, np.inf, low))
        high = np.where(follows, np.inf, np.where(held, -np.inf, high - max(2 * half_digit(column), WITHIN)))
        other = rooms.get(column.name, (low, high))
        rooms[column.name] = np.maximum(other[0], low), np.minimum(other[1], high)
    for name, (low, high) in rooms_of_thresholds(missing, schema).items():
        other = rooms.get(name, (low, high))
        if name in rooms or not any(name in one.names for one in schema.relations):
            rooms[name] = np.maximum(other[0], low), np.minimum(other[1], high)
    return rooms


def _dates_in_order(filled: DrawnRows, schema: Schema) -> None:
    """Bring dates into order, in place, where both of completed years that are known are missing: one is moved then to
    where the other one leaves it, and not for an order any more."""
    draws, observed, missing = filled.draws, filled.observed, filled.missing
    for one in {one: None for one, _ in _aged(schema)} if schema.orders else ():
        age, *dates = (schema.modelled.index(name) for name in one.names)
        rows = np.flatnonzero(~missing[:, age] & missing[:, dates].all(1))
        if len(rows):
            moved = draws[:, rows]
            keep_orders(moved, observed[rows], missing[rows], replace(schema, relations=()))
            draws[:, rows[:, None], dates] = moved[..., dates]


def _parted(observed: Floats, missing: Bools, schema: Schema) -> dict[str, Parted]:
    """By columns of dates that may be moved for an order what the observed cells of the rows say of their parts."""
    free, wanted = _free(schema), dict[str, list[Wanted]]()
    for one in (one for one in free if one.how == "part"):
        place = schema.modelled.index(one.names[0])
        if not missing[:, place].all():
            wanted.setdefault(one.names[1], []).append(Wanted(one, observed[:, place], ~missing[:, place]))
    bands = [one for one in free if one.how == "bands" and one.names[1] in wanted]
    rooms, anywhere = _rooms(observed, missing, schema, bands), np.full(len(missing), np.inf)
    return {name: Parted(own, rooms.get(name, (-anywhere, anywhere))) for name, own in wanted.items()}


def _kept(filled: DrawnRows, schema: Schema, *, guessed: bool = True) -> Apart:
    """Let the fills keep to relations, in place; where some fill could not. `guessed`: what follows from a cell that
    was drawn stays within limits that are guesses from the values which were observed, unless only others are found."""
    draws, observed, missing = filled.draws, filled.observed, filled.missing
    if not schema.relations or not missing.any():
        return Apart(draws.shape[:2])
    before = draws.copy() if guessed else draws
    keeping = _Keeping(filled, schema, guessed)
    while changed := keeping.step():
        for one in keeping.every:
            if changed & set(one.places.tolist()):
                one.single = None
    retry(draws, observed, missing, keeping.told, keeping.every)
    apart = _apart(draws, observed, missing, keeping.told)
    _beyond_limits(filled, before, schema, keeping.beyond, apart)
    return apart


class _Keeping:
    """Fills that are brought to keep to relations, one relation after the other.

    told    the relations, as they come, and ...
    every   ... those that follow from two of them too
    beyond  [m, N] where some cell could have been computed only beyond limits that are guesses
    """

    def __init__(self, filled: DrawnRows, schema: Schema, guessed: bool) -> None:
        """guessed: as of `_kept`."""
        own, missing = schema.relations, filled.missing
        told = _cells_of(own, filled, schema)
        sums = tuple(one for one in own if one.how == "sum" and not one.rounded)
        self.every = [*told, *_cells_of(_following(sums), filled, schema)]
        cells = ((one, place) for one in self.every for place in range(len(one.places)))
        self._tightest_first = sorted(cells, key=width_of)
        computed = {name for one in own if not one.coded for name in one.names}
        late = [one for one in told if one.relation.how in LATE and one.relation.names[1] in computed]
        self.told = sorted(told, key=late.__contains__)
        self._banded = [one for one in late if one.relation.how == "bands"]
        rooms = _rooms(filled.observed, missing, schema, [one.relation for one in self._banded], seen=False)
        self._rooms = {schema.modelled.index(name): room for name, room in rooms.items()}
        self._said = _Cells(filled.draws, filled.observed, missing, ~missing, ~missing)
        near = {name for one in own if one.near for name in one.names}
        self._ordered = rooms_in_order(filled.observed, missing, schema, near)
        self._guessed = guessed
        self.beyond = np.zeros(filled.draws.shape[:2], bool)
        self._together: dict[object, Bools] = {}

    def step(self) -> set[int]:
        """Compute the cells that are the only unknown ones of a relation, the tightest one first; where there are none,
        those that two sums determine together; else let all cells of a relation go together. Which columns are known in
        more rows then; none where nothing is left."""
        known = self._said.known
        tightest = next(((one, place) for one, place in self._tightest_first if len(_single(one, known)[place])), None)
        if tightest is not None:
            return self._compute(*tightest)
        if (two := two_unknowns(self.told, known, self._together)) is not None:
            return self._compute_together(two)
        if (left := _unsettled(self.told, known, self._rooms)) is not None:
            return self._settle(*left)
        return set()

    def _compute(self, one: RelationCells, place: int) -> set[int]:
        """Compute the cells at a place of a relation where they are its only unknown ones."""
        known, given = self._said.known, self._said.given
        rows, column = _single(one, known)[place], int(one.places[place])
        sure = given[np.ix_(rows, np.delete(one.places, place))].all(1) | (not self._guessed)
        for some, limited in ((rows[sure], False), (rows[~sure], True)):
            if len(some):
                room = self._ordered.get(column)
                ends = None if room is None else (room[0][some], room[1][some])
                able = _determine(self._said, some, one, place, self.told, guessed=limited, ordered=ends)
                self.beyond[:, some] |= ~able & limited
                # what only has to lie in a band may follow from what is settled
                known[some, column] = able.all(0) & (not (place and one in self._banded))
                given[some, column] |= able.all(0) & (not limited) & (not leaves_room(one.relation, place))
        one.tried[rows] = ~known[rows, column] | known[np.ix_(rows, one.places)].all(1)
        return {column}

    def _compute_together(self, two: Two) -> set[int]:
        """Compute one of the two cells that two sums determine together: the other one follows from it."""
        said, (j, other) = self._said, two.columns
        value, able = solved_together(
            two, (said.values(two.rows, two.first.places), said.values(two.rows, two.other.places))
        )
        self._together[two.key][two.rows] = True
        some = two.rows[able.all(0)]
        said.draws[:, some, j] = value[:, able.all(0)]
        rest = sorted({*two.first.places.tolist(), *two.other.places.tolist()} - {j, other})
        said.given[some, j] = said.given[np.ix_(some, rest)].all(1)
        said.known[np.ix_(some, np.array([j, *rest]))] = True  # what was drawn of a third cell stays
        return {j, *rest}

    def _settle(self, one: RelationCells, rows: Ints) -> set[int]:
        """Let the cells of a relation go together in rows in which several are unknown."""
        both = _of_several_lengths(one, rows, self._said.known, self.told)
        if len(rows[~both]):
            _settle(self._said, one, rows[~both], self._rooms)
        if len(rows[both]):
            able = _settle_dates(self._said, rows[both], one, self.told, guessed=self._guessed)
            self.beyond[:, rows[both]] |= ~able & self._guessed
        return set(one.places.tolist())


def _cells_of(relations: Sequence[Relation], filled: DrawnRows, schema: Schema) -> list[RelationCells]:
    """Relations with their columns, in the order in which they are asked (`_fineness`)."""
    made = []
    for one in relations:
        places = np.array([schema.modelled.index(name) for name in one.names])
        columns = [schema.encoded[place] for place in places]
        columns = list(map(as_summand, columns)) if one.how == "sum" else columns
        digit = half_digit(columns[0])
        chance = None
        if filled.uniform is not None and one.slack:
            chance = functools.partial(filled.uniform, one.names[0])
        if filled.ties is not None and (one.of_levels or one.capped):
            chance = functools.partial(filled.ties, one.names[1], one.names[0])
        made.append(
            RelationCells(
                one,
                columns,
                places,
                float(one.open_by(np.array(columns[0].deviation), digit)),
                digit,
                np.zeros(len(filled.missing), bool),
                chance,
                spreads=term_spreads(one, schema),
                unpaired=Unpaired.of(one, schema),
                beside={name: schema.modelled.index(name) for name in (one.beyond.names if one.beyond else ())},
            )
        )
    return sorted(made, key=_fineness)


def _fineness(cells: RelationCells) -> tuple[bool, float, float]:
    """By which relations are sorted: pairs come first, since what they say may say one of the two again; then by what
    they leave open of the first column, and months come before years, hours before days."""
    span, open_by = cells.relation.span, cells.half / cells.columns[0].deviation
    return cells.relation.how != "pairs", open_by, 0.0 if span is None else days_in(span)


def _beyond_limits(filled: DrawnRows, before: Floats, schema: Schema, beyond: Bools, apart: Apart) -> None:
    """Let rows that do not keep to relations (`apart`) for limits that are guesses (`beyond` [m, N]) keep to them
    beyond these, in place, as from `before` [m, N, columns]; those that do then are no longer apart."""
    draw, row = np.nonzero(beyond & apart.rows())
    if not len(row):
        return
    some = filled.at(draw, row)
    some.draws[0] = before[draw, row]
    done = ~_kept(some, schema, guessed=False).rows()[0]
    filled.draws[draw[done], row[done]] = some.draws[0, done]
    mended = np.zeros(beyond.shape, bool)
    mended[draw[done], row[done]] = True
    apart.mend(mended)


@functools.lru_cache(maxsize=8)
def _following(sums: tuple[Relation, ...]) -> tuple[Relation, ...]:
    """The sums that follow from two others which have several columns in common, one of which drops out."""
    found = {_key(one): one for one in sums}
    for _ in range(2):
        for a, b in itertools.permutations(list(found.values()), 2):
            common = set(a.names) & set(b.names)
            for name in sorted(common) if len(common) > 1 and len(found) < MOST else ():
                if (one := _without(a, b, name)) is not None:
                    found.setdefault(_key(one), one)
    return tuple(found.values())[len(sums) :]


def _key(one: Relation) -> tuple[tuple[str, float], ...]:
    """What a sum says, whichever its first column."""
    weights = sorted(zip(one.names, one.weights, strict=True))
    return tuple((name, round(weight / weights[0][1], 9)) for name, weight in weights)


def _without(a: Relation, b: Relation, name: str) -> Relation | None:
    """The difference of two sums in which a column drops out; None where fewer than two are left."""
    first, second = (dict(zip(one.names, one.weights, strict=True)) for one in (a, b))
    share = first[name] / second[name]
    weights = {}
    for each in {**first, **second}:
        own, other = first.get(each, 0.0), share * second.get(each, 0.0)
        if each != name and abs(own - other) > GONE * (abs(own) + abs(other)):
            weights[each] = own - other
    if len(weights) < 2:
        return None
    lead = next(iter(weights.values()))
    constant = (a.constant - share * b.constant) / lead
    return Relation(names=tuple(weights), weights=tuple(w / lead for w in weights.values()), constant=constant)


def _values(draws: Floats, observed: Floats, missing: Bools, rows: Ints, places: Ints) -> Floats:
    """[m, rows, places] codes, observed ones as they are."""
    some = np.ix_(rows, places)
    return np.where(missing[some], draws[:, some[0], some[1]], observed[some])


def _single(cells: RelationCells, known: Bools) -> list[Ints]:
    """By place the rows in which the cell there is the only unknown one of a relation, and it was not asked for it. Of
    pairs the second cell comes first where the third one is unknown too."""
    if cells.single is None:
        unknown = ~known[:, cells.places]
        if cells.relation.how == "pairs":
            unknown[:, 2] &= unknown[:, 0] | ~unknown[:, 1]
        one = (unknown.sum(1) == 1) & ~cells.tried
        cells.single = [np.flatnonzero(one & unknown[:, place]) for place in range(len(cells.places))]
    return cells.single


class _Cells(NamedTuple):
    """Rows whose fills are being computed: all as in `keep_relations`; `known` [N, columns] are those that are observed
    or computed, `given` [N, columns] those that are observed or follow from such."""

    draws: Floats
    observed: Floats
    missing: Bools
    known: Bools
    given: Bools

    def values(self, rows: Ints, places: Ints) -> Floats:
        """[m, rows, places] codes, observed ones as they are."""
        return _values(self.draws, self.observed, self.missing, rows, places)


def _determine(
    said: _Cells,
    rows: Ints,
    cells: RelationCells,
    place: int,
    told: Sequence[RelationCells],
    *,
    guessed: bool,
    ordered: tuple[Floats, Floats] | None = None,
) -> Bools:
    """Compute the cells at a place of a relation in `rows` in which they are its only unknown ones; which [m, rows]
    could be. A number lies in all the bands, and a date has all the parts, of which levels
    are known, and a level lies in all the groups; a date that is a few days from another one is so far from it that it
    has these parts. `guessed`: whether limits count that are guesses from the values which were observed, as they do
    where some other cell was drawn, and could be drawn otherwise; `ordered`: from where to where [rows] a cell lies by
    the orders of its column, which differs by a few values from another one."""
    j, values = cells.places[place], said.values(rows, cells.places)
    of_column = _Told(said, rows, int(j), told)
    rooms = of_column.rooms(cells, place, values) if leaves_room(cells.relation, place) else []
    if place and (cells.relation.loose or cells.relation.how == "completed"):
        own = [*of_column.levels(j, LATE), *of_column.windows()]
        parted = cells.relation.how in ("part", "groups", "pairs")
        value, able = values[..., place], np.ones(values.shape[:2], bool)
        if own:
            others = list(of_column.other_dates()) if parted else []
            value, able = with_other_parts(cells.columns[place], value, own, others)
            for room in rooms:  # the narrowest one last
                some = [*own, between_ends(cells, room)]
                nearer, as_well = with_other_parts(cells.columns[place], values[..., place], some, others)
                value, able = np.where(as_well, nearer, value), able | as_well
        groups, both = of_column.levels(j, ("groups",)), of_column.pairs()
        if groups or both:
            value = np.where(able, value, values[..., place])
            value, agrees = within_groups(cells.columns[place], value, groups, both, cells.chance(rows), own)
            able = agrees & (able | (value != values[..., place]))
    else:
        chance = cells.chance(rows)
        if place and cells.relation.capped and chance is not None:
            values[..., place] = of_column.beyond(cells, values[..., place], chance, rooms)
        value, able = solve(cells, place, values, guessed=guessed, chance=chance, rooms=rooms)
        if cells.relation.apart:
            levels = of_column.levels(j, LATE)
            value, agrees = as_far_as_agrees(cells, place, (values, value), levels, chance, ordered)
            able |= agrees
    if cells.unpaired is not None:  # a partner that was filled does not decide what has none
        stays = cells.unpaired.staying(values, ~said.given[np.ix_(rows, cells.places)])[..., place]
        value, able = np.where(stays, values[..., place], value), able | stays
    said.draws[:, rows, j] = np.where(able, value, values[..., place])
    return able


class _Told(NamedTuple):
    """What the relations `told` say of a column in some rows."""

    said: _Cells
    rows: Ints
    column: int
    told: Sequence[RelationCells]

    def levels(self, column: int, kinds: Sequence[str]) -> list[Levels]:
        """What is known of any column, by relations of some kinds."""
        rows, known = self.rows, self.said.known
        return [
            Levels(one, self.said.values(rows, one.places)[..., 0], known[rows, one.places[0]])
            for one in self.told
            if one.relation.how in kinds and one.places[1] == column
        ]

    def beyond(self, cells: RelationCells, drawn: Floats, chance: Floats, rooms: Sequence[Room]) -> Floats:
        """[m, rows] the column as far beyond the value at which another one is cut off as `chance` says; as it was
        `drawn` where that lies there and in the narrowest of some rooms, and the other one does not."""
        relation = cells.relation
        assert relation.beyond is not None, "a column that is cut off"

        def codes(name: str) -> Floats:
            return self.said.values(self.rows, np.array([cells.beside[name]]))[..., 0]

        far = relation.constant + (1 if relation.how == "least" else -1) * relation.beyond.drawn(codes, chance)
        if not rooms:
            return far
        narrowest = rooms[-1]
        return np.where(narrowest.holds(drawn) & ~narrowest.holds(far) & (relation.past(drawn) >= 0), drawn, far)

    def windows(self) -> list[Levels]:
        """Where the column lies, a date, by completed years and their other date."""
        rows, j, made = self.rows, self.column, []
        for one in self.told:
            at = one.places.tolist().index(j) if one.relation.how == "completed" and j in one.places else 0
            if at:
                where = np.asarray(self.said.known[np.ix_(rows, np.delete(one.places, at))].all(1))
                made.append(Levels.of_dates(one, at, self.said.values(rows, one.places), where))
        return made

    def other_dates(self) -> Iterator[OtherDate]:
        """Dates that are missing too, a few known distances apart from the column, and what is known of their parts."""
        rows, j, known = self.rows, self.column, self.said.known
        distances = [one for one in self.told if one.relation.apart or _is_length(one.relation)]
        for one in (one for one in distances if j in one.places[-2:]):
            first, *others = ([0] if one.relation.apart else []) + one.places.tolist()
            other = next(place for place in others if place != j)
            unknown = ~known[rows, other] & (bool(one.relation.apart) | known[rows, first])
            parts = [each._replace(rows=each.rows & unknown) for each in self.levels(other, ("part",))]
            if one.relation.dates:
                parts = [each for each in parts if each.cells.relation.part != "hour"]
            if parts:
                values = self.said.values(rows, one.places)
                yield OtherDate(one, one.places.tolist().index(j), parts, values[..., 0])

    def rooms(self, cells: RelationCells, place: int, values: Floats) -> list[Room]:
        """Where limits of the only other unknown cell of other relations than that of some cells leave the column, at a
        place of it, the widest room first: by limits that are sure, then by those too that are guesses; none where
        nothing is said. In values [m, rows, places] draws that lie elsewhere become, in place, what they are beside the
        other cell as it was drawn, if that lies there."""
        rows, j, known = self.rows, self.column, self.said.known
        anywhere = Room(np.full(values.shape[:2], -np.inf), np.full(values.shape[:2], np.inf))
        sure, likely, others = anywhere, anywhere, list[tuple[Floats, Bools]]()
        for one in self.told:
            if one is cells or one.relation.coded or one.unpaired is not None or j not in one.places:
                continue
            at, unknown = one.places.tolist().index(j), ~known[np.ix_(rows, one.places)]
            unknown[:, at] = False
            unknown &= unknown.sum(1, keepdims=True) == 1
            for other in np.flatnonzero(unknown.any(0)).tolist():
                where, own = unknown[:, other], self.said.values(rows, one.places)
                sure = sure.both(room_beside(one, at, other, own, guessed=False).only(where))
                likely = likely.both(room_beside(one, at, other, own, guessed=True).only(where))
                said, able = solve(one, at, own)
                others.append((said, able & where))
        found = [room.of_values(cells.columns[place]) for room in (sure, sure.both(likely)) if room.says_something]
        for said, able in others if found else ():
            trial = values.copy()
            trial[..., place] = said
            stays, taken = (
                found[-1].holds(own[..., place]) & ~departing(cells.relation, own, cells.digit)
                for own in (values, trial)
            )
            values[..., place] = np.where(~stays & taken & able, said, values[..., place])
        return found

    def pairs(self) -> list[PairLevels]:
        """What is known of the column by pairs of which it is one."""
        rows, j, made = self.rows, self.column, []
        for one in (one for one in self.told if one.relation.how == "pairs" and j in one.places[1:]):
            at, own = one.places.tolist().index(j), self.said.values(rows, one.places)
            rest, where = 3 - at, self.said.known[np.ix_(rows, one.places)]
            made.append(PairLevels(one.relation, at, own[..., 0], where[:, 0], own[..., rest], where[:, rest]))
        return made


def _is_length(relation: Relation) -> bool:
    """Whether a relation is of the time between two datetimes in what is as long everywhere in the calendar."""
    return relation.span not in ("year", "month", None) and all(count == "s" for count, _ in relation.dates)


_Pending: TypeAlias = tuple[RelationCells, Bools]
"""A relation, and the rows [N] in which several of its cells are unknown."""


def _unsettled(
    told: Sequence[RelationCells], known: Bools, rooms: Mapping[int, tuple[Floats, Floats]]
) -> tuple[RelationCells, Ints] | None:
    """The first relation of which several cells are unknown in some rows, and these; None where there is none. Of
    completed years and the like those first that are known, also before what may follow from such a number, then those
    that lie in a band."""
    left = ((one, np.asarray((~known[:, one.places]).any(1))) for one in told)
    some = [(one, rows) for one, rows in left if rows.any()]
    if some and some[0][0].relation.how in ("completed", "groups"):
        ages = [(one, rows) for one, rows in some if one.relation.how == "completed"]
        first = [(one, rows & known[:, one.places[0]]) for one, rows in ages]
        others = [*(own for own in ages if int(own[0].places[0]) in rooms), *ages]
        some = [*first, *(others if some[0][0].relation.how == "completed" else some)]
    some = [*_with_prices(some, known), *some]
    return next(((one, np.flatnonzero(rows)) for one, rows in some if rows.any()), None)


def _with_prices(some: Sequence[_Pending], known: Bools) -> list[_Pending]:
    """Of relations and the rows in which several of their cells are unknown those that come first: a sum or a product
    whose first column is unknown, and a part or factor that is in no gap between values which occur again and again
    (a list price), which stays as it was drawn then; before it what levels say in these rows. One of which a part is
    computed itself waits for that."""
    found: list[_Pending] = []
    for one, rows in some:
        listed = [int(one.places[place]) for place in _listed(one)]
        own = rows & ~known[:, one.places[0]] & (~known[:, listed]).any(1)
        if one.relation.coded or not own.any():
            continue
        levels = [(other, has & own) for other, has in some if other.relation.coded and other.relation.how not in LATE]
        for other, has in some:
            if not other.relation.coded and other.places[0] in one.places[1:]:
                own = own & ~(has & ~known[:, other.places[0]])
        found += [*levels, (one, own)]
    return found


def _listed(cells: RelationCells) -> list[int]:
    """The places of the parts or factors of a relation that lie in no gap between values which occur often."""
    numbers = [as_number(column) for column in cells.columns]
    return [place for place, number in enumerate(numbers) if place and number is not None and number.gaps]


def _settle(filled: _Cells, cells: RelationCells, rows: Ints, rooms: Mapping[int, tuple[Floats, Floats]]) -> None:
    """Let the cells of a relation go together in rows in which several are unknown; they are known then. `rooms`: by
    columns of numbers, from where to where [N] observed levels leave it to them."""
    draws, observed, missing, known, _ = filled
    free = ~known[np.ix_(rows, cells.places)]
    before = _values(draws, observed, missing, rows, cells.places)
    values, done, order = before.copy(), np.zeros(before.shape[:2], bool), _order(cells, by_range=True)
    own = {
        place: (rooms[j][0][rows], rooms[j][1][rows])
        for place, j in enumerate(cells.places.tolist())
        if j in rooms and not cells.relation.coded
    }
    chance = cells.chance(rows)
    if cells.relation.extreme and not cells.relation.capped:
        _no_farther(values, free, cells)
    if cells.spreads:
        _least_known(_Open(values, free, done, chance, own), cells, missing[rows], order)
    stays = np.zeros(before.shape, bool)
    if cells.unpaired is not None:
        stays = cells.unpaired.staying(before, missing[np.ix_(rows, cells.places)])
        alone = stays.any(-1)
        values[alone], done = before[alone], done & ~alone
    for place in order:
        value, able = solve(cells, place, values, chance=chance)
        moved = free[:, place] & ~done & ~stays[..., place] & able & _in_room(value, own.get(place))
        values[..., place] = np.where(moved, value, values[..., place])
        done |= moved
    if not cells.relation.coded:
        done |= stays.any(-1)
        _approach(values, free, done, cells, own)
    after = np.where(done[..., None], values, before)
    for place, j in enumerate(cells.places):
        some = free[:, place]
        draws[:, rows[some], j] = after[:, some, place]
    known[np.ix_(rows, cells.places)] = True


def _no_farther(values: Floats, free: Bools, cells: RelationCells) -> None:
    """Bring cells of which another one is the greatest (least) no farther than to that where it is known, in place, and
    the one that was drawn farthest to it, where none of the known ones is equal to it. values [m, n, columns]; `free`
    [n, columns]: which are not known."""
    side = 1 if cells.relation.how == "greatest" else -1
    first, others, able = side * values[..., :1], side * values[..., 1:], free[:, 1:] & ~free[:, :1]
    near = np.where(able, np.minimum(others, first), others)
    farthest = np.where(able, others, -np.inf).argmax(-1)[..., None] == np.arange(able.shape[1])
    needed = ~(~able & (others == first)).any(-1, keepdims=True)
    values[..., 1:] = side * np.where(able & farthest & needed, first, near)


def _of_several_lengths(cells: RelationCells, rows: Ints, known: Bools, told: Sequence[RelationCells]) -> Bools:
    """In which of some `rows` both dates of completed years or the like are unknown, and several of these known."""
    if cells.relation.how != "completed":
        return np.zeros(len(rows), bool)
    dates = cells.places[1:]
    alike = [one for one in told if one.relation.how == "completed" and set(one.places[1:]) == set(dates)]
    count = known[np.ix_(rows, [one.places[0] for one in alike])].sum(1)
    return np.asarray((count > 1) & ~known[np.ix_(rows, dates)].any(1))


def _settle_dates(
    filled: _Cells, rows: Ints, cells: RelationCells, told: Sequence[RelationCells], *, guessed: bool
) -> Bools:
    """Move one of two dates to where all that is known of the time between them leaves it, in rows in which both are
    unknown, and the other one to the nearest time of day with which there is such; which [m, rows] could be."""
    able = np.zeros((len(filled.draws), len(rows)), bool)
    drawn = filled.draws[:, rows]
    for moves, stays in itertools.permutations(_order(cells)[1:]):
        column, other = cells.columns[stays], cells.places[stays]
        filled.known[rows, other] = True
        size = 1.0 if cells.relation.dates[stays - 1][0] == "s" else 1 / SECONDS
        for shift in TIMES:
            left = np.flatnonzero(~able.all(0))
            if not len(left):
                break
            own, nearby = rows[left], drawn[:, left, other]
            nearby = clipped(column, nearby + size * shift) if shift else nearby
            filled.draws[:, own, other] = np.where(able[:, left], filled.draws[:, own, other], nearby)
            able[:, left] = _determine(filled, own, cells, moves, told, guessed=guessed)
        filled.known[rows, other] = False
        filled.draws[:, rows] = np.where(able[..., None], filled.draws[:, rows], drawn)
    filled.known[np.ix_(rows, cells.places)] = True
    return able


class _Open(NamedTuple):
    """Rows in which several cells of a relation are unknown.

    values  [m, n, places] the cells, and ...
    free    [n, places] ... which of them may change
    done    [m, n] where they go together
    chance  [m, n] random numbers from 0 to 1; None: there are none
    rooms   by place from where to where [n] the cells may be
    """

    values: Floats
    free: Bools
    done: Bools
    chance: Floats | None
    rooms: Mapping[int, tuple[Floats, Floats]]

    def solved(self, cells: RelationCells, place: int, values: Floats, rows: Ints) -> tuple[Floats, Bools]:
        """What other cells of values [m, rows, places] of some rows say of one at a place, and where it may be that."""
        value, able = solve(cells, place, values, chance=None if self.chance is None else self.chance[:, rows])
        return value, able & self.inside(place, value, rows)

    def inside(self, place: int, values: Floats, rows: Ints) -> Bools:
        """Which cells [m, rows] at a place lie where they may."""
        room = self.rooms.get(place)
        return _in_room(values, None if room is None else (room[0][rows], room[1][rows]))


def _least_known(some: _Open, cells: RelationCells, missing: Bools, order: Sequence[int]) -> None:
    """Compute the cells of a relation of which the rest of the row says least, in place, where it is clearly less than
    of those that would be computed by their `order`; where digits do not let that be met, it is moved as near as they
    go, and the latter take what is left. `missing` [n, columns]: of all columns."""
    free, places = some.free, np.array(order)
    spread = np.stack([one.of(missing) for one in cells.spreads], 1)
    for place in _listed(cells):  # a list price stays, and what it is a part of is computed
        spread[free[:, 0], place] = -1.0
    least, first = np.where(free, spread, -1.0).argmax(1), places[free[:, places].argmax(1)]
    rows = np.arange(len(free))
    less = free.any(1) & (spread[rows, least] > CLEARLY * spread[rows, first])
    for place, other in sorted(set(zip(least[less].tolist(), first[less].tolist(), strict=True))):
        at = np.flatnonzero(less & (least == place) & (first == other))
        values = some.values[:, at]
        value, able = some.solved(cells, place, values, at)
        values[..., place] = np.where(able, value, values[..., place])
        said = cells.relation.solved(values, place, values[..., 0])
        near = clipped(cells.columns[place], said)
        digit = half_digit(cells.columns[place]) * (1 + WITHIN)
        nearly = ~able & np.isfinite(said) & (np.abs(near - said) <= digit) & some.inside(place, near, at)
        moved = values.copy()
        moved[..., place] = np.where(nearly, near, values[..., place])
        rest, as_well = some.solved(cells, other, moved, at)
        moved[..., other] = rest
        taken = nearly & as_well
        some.values[:, at] = np.where(taken[..., None], moved, values)
        some.done[:, at] |= able | taken


def _in_room(values: Floats, room: tuple[Floats, Floats] | None) -> Bools:
    """Which values [m, n] lie where levels leave it to them [n]."""
    return np.ones(values.shape, bool) if room is None else (values >= room[0]) & (values <= room[1])


def _approach(
    values: Floats, free: Bools, done: Bools, cells: RelationCells, rooms: Mapping[int, tuple[Floats, Floats]]
) -> None:
    """Where cells do not go together yet (not `done` [m, rows]), move those that are `free` [rows, columns] to the ends
    of their limits, or a factor as near to what it should be as its digits go; values [m, rows, columns] and `done` are
    changed in place. `rooms`: limits [rows] of the cells at some places."""
    order, product = _order(cells), cells.relation.how == "product"
    lead = np.array(order)[free[:, order].argmax(1)]
    again = order if product else []  # since another factor may have left 0
    first = order[1:] if product and order[0] in rooms else []  # what lies in a band stays where it can
    for place in (*first, *order, *again):
        column, computed = cells.columns[place], cells.relation.solved(values, place, values[..., 0])
        nearest = clipped(column, computed if place not in rooms else np.clip(computed, *rooms[place]))
        moved = free[:, place] & ~done & np.isfinite(computed)
        values[..., place] = np.where(moved, nearest, values[..., place])
        near = np.abs(nearest - computed) <= max(half_digit(column) * (1 + WITHIN), WITHIN * column.deviation)
        done |= moved & near & ((lead == place) | (not product))


def _apart(draws: Floats, observed: Floats, missing: Bools, told: Sequence[RelationCells]) -> Apart:
    """Where a fill departs from a relation."""
    apart = Apart(draws.shape[:2])
    for one in told:
        rows = np.flatnonzero(missing[:, one.places].any(1))
        values = _values(draws, observed, missing, rows, one.places)
        where = np.zeros(draws.shape[:2], bool)
        holes = missing[np.ix_(rows, one.places)]
        where[:, rows] = departing_fills(one.relation, one.unpaired, values, holes, one.digit)
        apart.add(one.places.tolist(), where, one.relation)
    return apart


def _order(cells: RelationCells, *, by_range: bool = False) -> list[int]:
    """The places of a relation in the order in which their cells are asked to take what is left: what is rounded, or
    a product, or completed years, before all others; of a sum (and of dates) those that vary most, of a product those
    with the finest digits, or `by_range` those whose greatest value is most times the least: another one would be far
    from all of its own."""
    places, columns = range(len(cells.places)), cells.columns
    if cells.relation.how == "pairs":
        return [0]
    if cells.relation.coded:
        return list(places)
    if cells.relation.how == "completed":
        return [0, *sorted((1, 2), key=lambda place: width_of((cells, place)))]
    if cells.relation.how == "log" or cells.relation.extreme:
        return list(places)
    if cells.relation.how == "product" and by_range:
        return sorted(places, key=lambda place: (place > 0, -_times(columns[place], cells.relation.weights[place])))
    if cells.relation.how == "product":
        return sorted(places, key=lambda place: (place > 0, half_digit(columns[place]) / columns[place].deviation))
    shares = [abs(weight) * column.deviation for weight, column in zip(cells.relation.weights, columns, strict=True)]
    return sorted(places, key=lambda place: (cells.relation.rounded and place > 0, -shares[place], place))


def _times(column: ModelledColumn, power: float) -> float:
    """How many times its least value the greatest one of a column is, to some power: the logarithm of that."""
    number = as_number(column)
    if number is None or number.low <= 0:
        return 0.0
    return abs(power) * float(np.log(number.high / number.low))
