"""Relations between columns: found in a table that is fitted, and asked for in a new one (keeping.py: fills keep to
them)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

import numpy as np

from vgi_cli.columns.base import ModelledColumn
from vgi_cli.columns.bounds import FEW, OFTEN
from vgi_cli.columns.calendar import WORDS, part_of
from vgi_cli.columns.clock import DAY, periods_in, to_unit
from vgi_cli.columns.datetime import Moment
from vgi_cli.columns.levelled import Levelled
from vgi_cli.columns.number import Number
from vgi_cli.columns.numerals import Bools, Floats, Ints
from vgi_cli.columns.periods import IN_A_YEAR
from vgi_cli.columns.relations import PARTS_OF_ONE, Relation, factors_of
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.ages import AGES, RULES, ages_among, ages_to_a_day
from vgi_cli.encoding.caps import caps_among
from vgi_cli.encoding.dates import part_between
from vgi_cli.encoding.extremes import extremes_among
from vgi_cli.encoding.logs import FORMS, log_candidates
from vgi_cli.encoding.percentages import percentages_among
from vgi_cli.encoding.ratios import ratio_candidates
from vgi_cli.encoding.redundant import (
    COARSE,
    FEWEST_OF_SHARE,
    NEAR,
    SUMS,
    Redundant,
    codes_of,
    half_digit,
    looked_for,
    share_candidates,
    shares_among,
    shift_between,
    turned,
)
from vgi_cli.encoding.rounding_law import by_rounding
from vgi_cli.encoding.sums import (
    FEWEST_VALUES,
    FLOAT,
    MOST_DIGITS,
    NEARLY,
    OPEN,
    SHORT,
    TICK,
    TIE,
    WAYS,
    CodedRows,
    Digits,
    Way,
    digits_in,
    explained_ties,
    half_way,
    half_way_to,
    is_short,
    noise_of,
    product_of,
    shortest,
    some_rows,
    sum_of,
)
from vgi_cli.encoding.unshown_parts import with_unshown_parts
from vgi_cli.table.base import Table

ENOUGH = 20.0
"""Nats by which rows must speak for a relation, beyond what the choice of its columns explains: that it holds by chance
has a probability of less than exp(-ENOUGH), or one in 500 million."""
MOST_PARTS = 20
"""Parts of a sum, or factors, at most."""
FEWEST_TO_CHOOSE, MOST_CHOSEN, WIDTH = 3, 4, 10
"""Columns among which those are chosen that leave the least of a rounded one, fewest; so many are chosen, most; and the
best choices of so many that get one more."""
SINGULAR = 1e-12
"""Variance that is added to standardised columns, of which some may be copies."""
ADJOINING = 10.0
"""Times the mean distance of neighbouring values that adjoining bands lie apart at most."""
FEWEST_OF_BAND, FEWEST_OF_NUMBERS, FEW_OF_BAND = 20, 50, 5
"""Rows of each of some bands with gaps between them, of moments and of numbers, and different values, fewest."""
OUTER, OUTER_ROWS = 0.1, 0.05
"""Of the range of a band of numbers, and share of its rows that lie there at least, next to a gap."""
BEYOND, MOST_PERIODS = 30, 10_000
"""Years beyond those that were seen for which it is said in which months, quarters or weeks they lie, of so many."""
SLOW = 1e-2
"""By this share a day of moments may be longer than a day of dates, where it is taken for the same."""
FEWEST_SHOWN, SLIGHTLY = 10, 0.05
"""Rows in which a discount or the like shows, fewest, and by how much farther from the median it would be another one,
where a constant of more than SHORT digits stands before it."""
EACH_ALONE: tuple[Way, ...] = ("exact", "rounded")
"""How a product with a share holds, and ..."""
PASSES = 3
"""... how often such are looked for."""
FEWEST_OFF, SHARE_OFF = 3, 0.01
"""So many rows, and this share of them, are off by more than the first column's digits where all are rounded."""
FEWEST_ROUNDED = 100
"""Where what a column is rounded to is a large part of it, in so many rows it must hold: what holds in nine of ten rows
does in fewer ones here and there, ..."""
PLAIN_PARTS = 4
"""... and its weights are quarters or simpler, or all of one size, or the one of a line through zero has few digits."""
FOLLOWING = ("part", "numbers")
"""Candidates that are kept beside other relations of their column."""
CLOSELY = ("line", "sum")
"""Candidates of which so little is left that all of it may be rounding."""
ALMOST = 0.05
"""Share of the rows that depart from what half of the rows have shown, up to which all are asked again."""
FEWEST_APART, DISTANCES = 30, 60
"""Rows in which two columns are observed, that are asked at least whether they differ by a few values alone; and
distances that are kept."""


def relations_among(
    table: Table, schema: Schema, found: Sequence[Redundant], *, computed: bool = True
) -> tuple[Relation, ...]:
    """The relations among candidates for redundant columns that hold in every row in which they can be checked, by more
    rows than chance explains; of each column the first that is exact, else the first that is rounded, else the first
    sum in which all are, else one column from which it differs by a few values alone; and the date or
    the levels from which it follows, or the column that it is, cut off, beside that. What follows from the levels of
    one column may follow from a date too, which limits that date. Of completed years it is said from which date to
    which other one they are, in place of a rounded sum of dates. `computed`: whether shares, logarithms, ratios,
    extremes and percentages are looked for, which are no candidates."""
    relations: dict[str, Relation] = {}
    every = CodedRows.of(table, schema)
    for way, one in itertools.product(WAYS, found):
        if one.how in FOLLOWING or _of_marks(every, one) or (one.backwards and way != "rounded"):
            continue
        said_of = relation_of(every, one, way) if one.name not in relations else None
        if said_of is not None and (not one.backwards or _is_rounded_by(said_of, every)):
            relations[one.name] = said_of
    for first in list(relations.values()):  # where another column of it is the one that is rounded
        plain = first.how == "sum" and first.rounded and not first.slack and not _is_rounded_by(first, every)
        for one in turned(Redundant(first.names[0], first.names[1:], "sum")) if plain else ():
            said_of = relation_of(every, one, "rounded") if one.name not in relations else None
            if said_of is not None and _is_rounded_by(said_of, every):
                relations[one.name] = said_of
    whole = {name: with_unshown_parts(one, every) for name, one in _once(relations, every).items()}
    relations = {name: one for name, one in whole.items() if one is not None}
    if computed and looked_for(table, schema):
        settled = [name for name, one in relations.items() if not one.coded]
        _take(share_relations(every, settled), relations, every)
        _take(logs_among(every, relations), relations, every)
        _take(ratio_relations(every, relations), relations, every)
        _take(extremes_among(every, relations, enough), relations, every)
        for total in percentages_among(every, list(relations.values()), enough):
            relations[total.names[0]] = total
    lines = [one for one in found if one.how == "line"]
    for one in [*lines, *(_near_each_other(table, schema) if looked_for(table, schema) else ())]:
        if one.name not in relations and (apart := _few_apart(table, schema, one)) is not None:
            relations[one.name] = apart
    following: dict[str, Relation] = {}
    for one in found:
        own = relations.get(one.name)
        coded = own is not None and own.coded and (one.how == "numbers" or own.names == (one.name, *one.by))
        if one.how in FOLLOWING and one.name not in following and not coded:
            what = _part(table, schema, one) if one.how == "part" else _numbers(table, schema, one)
            if what is not None:
                following[one.name] = what
        of_moments = one.how == "bands" and isinstance(every.columns[one.by[0]], Moment)
        if of_moments and own is not None and own.how == "groups" and one.name not in following:
            limiting = relation_of(every, one, "exact")  # the years, say, in which the dates lie
            if limiting is not None:
                following[one.name] = limiting
    ages = _ages(table, schema, relations) if looked_for(table, schema) else {}
    to_a_day = _to_a_day(table, schema, {*ages, *following}) if looked_for(table, schema) else {}
    every_age = {*ages, *to_a_day}
    for one in found:
        said = {*relations, *following, *every_age}
        if _of_marks(every, one) and one.name not in said and (marks := relation_of(every, one, "exact")) is not None:
            relations[one.name] = marks
    completed = {name: one for name, one in ages.items() if one is not None} | to_a_day
    for name in {*_said_by_ages(schema, relations, every_age, completed), *_of_one_date(relations, following)}:
        del relations[name]
    relations = {name: one for name, one in relations.items() if name not in to_a_day or one.how != "bands"}
    said = {*(name for name, one in relations.items() if len(one.names) == 2), *following, *completed}
    cut_off = caps_among(every, said, enough) if looked_for(table, schema) else ()
    caps = {one.names[0]: one for one in cut_off}
    every_one = itertools.product(schema.modelled, (relations, following, completed, caps))
    return tuple(own[name] for name, own in every_one if name in own)


def _take(found: Iterable[Relation], relations: dict[str, Relation], every: CodedRows) -> None:
    """Add to some `relations`, by their first columns, others that they do not say already."""
    for one in found:
        if one.names[0] not in relations and not implied(one, list(relations.values()), every.columns):
            relations[one.names[0]] = one


def _is_rounded_by(relation: Relation, every: CodedRows) -> bool:
    """Whether what a rounded relation leaves of its first column varies as much as rounding does, and not clearly less:
    another column of it would be the one that is rounded then."""
    whole, half = _whole(relation, every)
    left = (whole[:, 0] - relation.solved(whole, 0, whole[:, 0])) / half
    return float(left.std()) >= COARSE


def _has_open_ties(relation: Relation, every: CodedRows) -> bool:
    """Whether rows in which a rounded relation says what is half way between two values are not rounded in one way."""
    whole, half = _whole(relation, every)
    return not relation.shift and not explained_ties(relation, whole[half_way(relation, whole, half)])


def _whole(relation: Relation, every: CodedRows) -> tuple[Floats, Floats]:
    """The rows [n, columns] that have all cells of a rounded relation, and how far each may be off [n]."""
    codes = every.codes(relation.names)
    whole = _complete(codes)
    whole = whole[~relation.undefined(whole)]
    return whole, relation.open_by(whole[:, 0], half_digit(every.columns[relation.names[0]]))


def _once(relations: Mapping[str, Relation], every: CodedRows) -> dict[str, Relation]:
    """Some relations but for rounded sums and products that others say already: the one is kept whose first column is
    rounded most coarsely by it, since the others hold for that."""

    def order(one: Relation) -> tuple[bool, bool, bool, bool, float]:
        fine = half_digit(every.columns[one.names[0]]) / every.columns[one.names[0]].deviation
        if not one.rounded or one.slack:
            return one.rounded, one.slack > 0, False, False, fine
        return True, False, not _is_rounded_by(one, every), _has_open_ties(one, every), fine

    kept: list[Relation] = []
    for one in sorted(relations.values(), key=order) if len(relations) > 1 else relations.values():
        if not one.rounded or not implied(one, kept, every.columns):
            kept.append(one)
    return {name: one for name, one in relations.items() if any(one is other for other in kept)}


def implied(relation: Relation, others: Sequence[Relation], columns: Mapping[str, ModelledColumn]) -> bool:
    """Whether a sum is one of some others, each times a number, added up, but for what is small; or a product so, by
    its powers."""
    if relation.apart or relation.how not in ("sum", "product"):
        return False
    own, sums = _weights(relation, columns), [_weights(one, columns) for one in others if not one.apart]
    sums = [one for one in sums if one and {how for _, how in one} == {how for _, how in own}]
    names = sorted({name for one in (own, *sums) for name in one})
    x = np.array([[one.get(name, 0.0) for one in (own, *sums)] for name in names])
    x /= np.abs(x).max(0)  # squares may overflow
    x /= np.linalg.norm(x, axis=0)
    left = x[:, 0] - x[:, 1:] @ np.linalg.lstsq(x[:, 1:], x[:, 0], rcond=None)[0]
    return bool(sums) and float(np.linalg.norm(left)) <= NEAR


def _weights(relation: Relation, columns: Mapping[str, ModelledColumn]) -> dict[tuple[str, str], float]:
    """The weights of a sum, of columns in standard deviations, by their names and what they are: a product of one
    column is a sum too, and others have powers, of factors, which may be one and a share; none of other relations."""
    if relation.how not in ("sum", "product"):
        return {}
    terms = zip(relation.names, relation.weights, relation.percent or (0.0,) * len(relation.names), strict=True)
    if relation.how == "product" and relation.weights != (1.0, -1.0):
        return {(f"{name} {whole}" if whole else name, "power"): weight for name, weight, whole in terms}
    factor = relation.constant if relation.how == "product" else 1.0
    weights = (1.0, *(factor * weight for weight in relation.weights[1:]))
    return {
        (name, "weight"): weight * columns[name].deviation for name, weight in zip(relation.names, weights, strict=True)
    }


def _of_marks(every: CodedRows, one: Redundant) -> bool:
    """Whether a candidate is one of marks or classes, written as numbers, that may be intervals of another number:
    whatever else is found of them says more."""
    return one.how == "bands" and isinstance(every.columns[one.name], Number)


def _ages(table: Table, schema: Schema, relations: Mapping[str, Relation]) -> dict[str, Relation | None]:
    """The columns of completed years or months, and between which dates these are; None where several dates say the
    same in all rows, or too few rows are near a birthday, so that rows do not tell which it is. And the columns that
    are lengths of time between two dates, but for those that are sums of dates."""
    moments = {column.name for column in schema.encoded if isinstance(column, Moment)}
    sums = [set(one.names) for one in relations.values() if one.how == "sum" and not one.rounded]
    exact = [names - moments for names in sums if len(names - moments) == 1]
    choice = np.log(max(len((*AGES, *RULES)) * len(moments) ** 2, 1))
    every = [one for one in ages_among(table, schema) if enough(one.cells, 1, choice)]
    lengths = [one for one in every if one.relation.span not in AGES]
    without = [one for one in lengths if not one.alone or {one.relation.names[0]} in exact]
    own = [one for one in every if all(one is not other for other in without)]
    return {one.relation.names[0]: one.relation if one.alone else None for one in own}


def _to_a_day(table: Table, schema: Schema, said: Collection[str]) -> dict[str, Relation]:
    """The columns of years or months that are completed from a date to one day, the same of all rows, but for those of
    which other dates of the row say enough (`said`)."""
    dates = sum(isinstance(column, Moment) for column in schema.encoded)
    choice = np.log(max(len(AGES) * dates * len(schema.encoded), 1))
    every = [one for one in ages_to_a_day(table, schema) if one.relation.names[0] not in said]
    return {one.relation.names[0]: one.relation for one in every if enough(one.cells, 1, choice)}


def _said_by_ages(
    schema: Schema, relations: Mapping[str, Relation], ages: Collection[str], completed: Collection[str]
) -> list[str]:
    """The columns that are rounded sums of ages and dates, of ages that are all rounded, or of ages that are known to
    be `completed` from some dates on: from which dates on these count says that better."""
    moments = {column.name for column in schema.encoded if isinstance(column, Moment)}
    return [
        name
        for name, one in relations.items()
        if one.rounded and not set(ages).isdisjoint(one.names)
        if not moments.isdisjoint(one.names)
        or ((one.slack or set(one.names) <= set(completed)) and set(one.names) <= set(ages))
    ]


def share_relations(every: CodedRows, settled: Collection[str]) -> list[Relation]:
    """The products in which one factor is 1 and a share more or less that hold in every row, of columns that are not
    `settled` by other relations."""
    numbers = {name: every.codes([name])[:, 0] for name, column in every.columns.items() if isinstance(column, Number)}
    computed, found = set(settled), list[Relation]()
    shares = [share for share in shares_among(numbers) if share not in computed]
    names, before = numbers, set[str]()
    for _ in range(PASSES):  # what is computed from others is a price too, and may hide which of these say another one
        some = [share for share in shares if share in names]
        for one in share_candidates(some, names) if some and len(names) >= FEWEST_OF_SHARE else ():
            for way in EACH_ALONE if one.name not in computed else ():
                if (relation := relation_of(every, one, way)) is not None and relation.percent:
                    found.append(relation)
                    computed.add(one.name)
                    break
        if computed == before:
            break
        before, names = set(computed), {name: cells for name, cells in numbers.items() if name not in computed}
    return found


def ratio_relations(every: CodedRows, settled: Collection[str]) -> Iterator[Relation]:
    """The ratios of two columns, and by how much such are off one, that hold in every row, of columns that are not
    `settled` by other relations; of the three columns the one is computed that is rounded by what the others say."""
    numbers = [name for name, column in every.columns.items() if isinstance(column, Number)]
    found = set[str]()
    for one in ratio_candidates(every, numbers, settled):
        for relation in _ratios_of(every, one) if one.name not in found else ():
            if relation.names[0] not in settled and len(relation.names) == 1 + len(one.by):
                found.add(one.name)
                yield relation
                break


def _ratios_of(every: CodedRows, one: Redundant) -> Iterator[Relation]:
    """What a candidate for a ratio says of each of its columns: what is exact, then what rounding to the digits of the
    column explains; then the plain ratio, of small counts, say, of which many need no rounding."""
    ways = [one, *(other._replace(percent=one.percent) for other in turned(one))]
    exact = (relation_of(every, way, "exact") for way in ways)
    yield from (relation for relation in exact if relation is not None)
    rounded = [relation for way in ways if (relation := relation_of(every, way, "rounded")) is not None]
    yield from (relation for relation in rounded if _is_rounded_by(relation, every))
    for relation in rounded:
        if relation.names[0] == one.name and not relation.shift and digits_in(relation.constant) == 1:
            yield relation


def logs_among(every: CodedRows, settled: Collection[str]) -> list[Relation]:
    """The logarithms of other columns, in every row, among the columns of numbers that are not `settled` by other
    relations; of each column one."""
    numbers = [name for name, column in every.columns.items() if isinstance(column, Number)]
    choice = np.log(max(len(FORMS) * len(numbers) ** 2, 1))
    found: dict[str, Relation] = {}
    for candidate, rows, half in log_candidates(every, numbers, settled):
        first, none = candidate.names[0], candidate.undefined(rows)
        relation, whole = with_otherwise(candidate, rows[none, 0]), rows[~none]
        if relation is None or first in found or not enough(whole[:, 0], 1, choice):
            continue
        if departing(relation, whole, half).any():
            continue
        if not relation.rounded:
            found[first] = relation
        elif _is_rounded_by(relation, every):
            way = half_way_to(relation, whole, relation.open_by(whole[:, 0], half))
            found[first] = replace(relation, half_way=way)
    return list(found.values())


def departures(table: Table, schema: Schema) -> list[int]:
    """Of each relation of a schema, in how many rows of a table all its cells are observed and do not keep to it."""
    return [int(off.sum()) for off in departing_rows(table, schema)]


def departing_rows(table: Table, schema: Schema) -> Iterator[Bools]:
    """Of each relation of a schema these rows [N]."""
    columns = {column.name: column for column in schema.encoded}
    for relation in schema.relations:
        own = [columns[name] for name in relation.names]
        codes = np.stack([codes_of(table, column) for column in own], 1)
        off, whole = np.zeros(table.N, bool), np.flatnonzero(~np.isnan(codes).any(1))
        off[whole] = departing(relation, codes[whole], half_digit(own[0]))
        yield off


def departing(relation: Relation, values: Floats, half: float) -> Bools:
    """[..] where values [.., columns] depart from a relation, whose first column is rounded to twice `half` (0: to
    nothing)."""
    first = values[..., 0]
    if relation.how == "completed":
        return np.asarray(first != relation.completed(values))
    if relation.coded:
        said = relation.said_in(values)
        apart = np.abs(first - said) > FLOAT * np.abs(said)  # no level of the fit: nothing is said
        if relation.until is not None and apart.any():
            low, high = relation.might_say(values[..., 1])
            apart &= ~((first == low) | (first == high))
        others = relation.how in ("bands", "part")
        elsewhere = np.isnan(said) & np.isin(first, relation.coding) if others else False
        return np.asarray(apart | elsewhere)  # but that it lies in no other one
    left = relation.solved(values, 0, first) - first
    if relation.rounded:
        most = relation.open_by(first, half, np.sign(left)) * (1 + NEARLY)
    else:
        most = noise_of(10 * relation.size(values), 2 * half)
    return ~(np.abs(left) <= most)  # e.g. divided by 0


def relation_of(every: CodedRows, one: Redundant, way: Way) -> Relation | None:
    """The relation of a candidate that holds in some way in every row, with the fewest of its columns for which
    there is one; None where there is none."""
    columns, names = every.columns, (one.name, *one.by)
    own = [columns[name] for name in names]
    if any(column.pooled for column in own):
        return None
    truths = one.how in SUMS and any(isinstance(column, Levelled) for column in own)
    levels = not truths and isinstance(own[-1], Levelled)
    if truths and (way == "all rounded" or isinstance(own[0], Levelled)):
        return None  # truth values are not rounded
    if one.how not in ("bands", "groups") and not levels:
        return _relation_of_numbers(every, one, way)
    if way != "exact":
        return None  # what levels say is exact, or nothing
    codes = every.codes(names)
    whole = _complete(codes)
    if one.how == "bands":
        if isinstance(own[1], Moment) and (whens := _periods(own[0], own[1], whole, len(columns))) is not None:
            return whens
        return None if isinstance(own[0], Moment) else _bands(names, whole, len(columns), *own)
    if not enough(whole[:, 0], len(np.unique(whole[:, 1])), np.log(len(columns))):
        return None
    return _pairs(names, _often(codes[:, 1], own[1]), whole, one.how == "groups")


def _relation_of_numbers(every: CodedRows, one: Redundant, way: Way) -> Relation | None:
    """The same of a candidate of which all columns are of numbers, or truth values among them."""
    digits = every.digits((one.name, *one.by))
    if way == "rounded" and not digits.rounded:
        return None
    if way == "all rounded" and (one.how not in CLOSELY or not digits.largest.any() or _is_order(every, one)):
        return None
    candidate = _Candidate(every, one, way, digits, every.codes((one.name, *one.by)))
    looked_at, percent = candidate.looked_at, candidate.percent
    standardised = _comparable(factors_of(looked_at, percent) if one.percent else looked_at, one.how == "product")
    subsets = _best_subsets(standardised) if way == "rounded" and not candidate.rough else ()
    for places in itertools.chain(_by_weight(standardised), subsets):
        relation = candidate.relation(places)
        if relation is not None:
            return _fewer(relation, places, candidate.relation)
    return None


def _is_order(every: CodedRows, one: Redundant) -> bool:
    """Whether a column is that of a candidate or the next value above in every row, or that or the next one below: an
    order (orders.py), of which it says how often cells are equal. Rounding would explain it, at any shares."""
    first = every.columns[one.name]
    for name in one.by:
        shift, step = shift_between(first, every.columns[name]), 2 * half_digit(first)
        if shift is None or not step or half_digit(every.columns[name]) != half_digit(first):
            continue
        codes = _complete(every.codes((one.name, name)))
        steps = np.unique(np.rint((codes[:, 0] - codes[:, 1] - shift) / step))
        if len(steps) == 2 and {*steps.tolist()} in ({0.0, 1.0}, {-1.0, 0.0}):
            return True
    return False


@dataclass(frozen=True)
class _Candidate:
    """Columns of numbers one of which may be a sum, or the product, of some others.

    way     in which that is to hold in every row
    digits  how the columns are rounded
    codes   [N, columns] theirs, the one that is computed first
    """

    every: CodedRows
    one: Redundant
    way: Way
    digits: Digits
    codes: Floats

    @property
    def rough(self) -> bool:
        """Whether there are many such."""
        return self.one.how == "rounded"

    @cached_property
    def looked_at(self) -> Floats:
        """[n, columns] the codes of the rows by which it is found."""
        return some_rows(self.codes) if self.rough else self.codes

    @property
    def percent(self) -> tuple[float, ...]:
        """By column what is a percentage there, 0 where nothing is."""
        one = self.one
        return tuple(one.percent[1] if one.percent and one.percent[0] == name else 0.0 for name in (one.name, *one.by))

    @property
    def digit(self) -> float:
        """Half of what the last digit of the column that is computed counts."""
        return float(self.digits.halves[0])

    def relation(self, places: Sequence[int]) -> Relation | None:
        """The relation to the columns at some places, or to fewer of them; None where rows speak against it, or too few
        for it."""
        one, exact, columns = self.one, self.way == "exact", len(self.every.columns)
        whole = _complete(self.looked_at[:, [0, *places]])
        choice = len(places) * np.log(columns) + ENOUGH * (self.rough or one.percent is not None)
        if not places or not enough(whole[:, 0], len(places) + 1, choice):
            return None
        names = (one.name, *(one.by[place - 1] for place in places))
        learnt = whole[::2] if not exact and len(places) > 1 else whole  # many weights fit rounded rows by chance
        with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
            relation = self._by_rows(names, learnt, [0, *places])
            if relation is None:
                return None
            left = [0, *(1 + one.by.index(name) for name in relation.names[1:])]
            every = _complete(self.codes[:, left])  # in more rows, where it does without some
            its = every[~(none := relation.undefined(every))]
            if not self._is_sound(relation, its, left, len(places) + 1):
                return None
            kept = self._in_all(relation, its)
            if kept is None and len(learnt) < len(whole) and _nearly(relation, its, self.digit):
                again = self._by_rows(relation.names, its, left)
                if again is not None and again.names == relation.names and not again.slack:
                    kept = self._in_all(again, its)
            kept = kept and with_otherwise(kept, every[none, 0])
            if kept is None or exact or kept.slack or kept.shift:
                return kept
            return replace(kept, half_way=half_way_to(kept, its, kept.open_by(its[:, 0], self.digit)))

    def _by_rows(self, names: tuple[str, ...], rows: Floats, places: Sequence[int]) -> Relation | None:
        """What rows [n, columns] say of columns at some places."""
        if self.one.how == "product":
            percent = tuple(self.percent[place] for place in places) if self.one.percent else ()
            return product_of(names, rows, self.digits, self.way == "exact", percent)
        plain = self.rough and not _is_fine(rows, self.digit)
        relation = sum_of(names, rows, self.digits.at(places), self.way, plain=plain)
        kept = relation is not None and (plain is not self.rough or _is_plain(relation, self.one, self.digit))
        return relation if kept else None

    def _is_sound(self, relation: Relation, rows: Floats, places: Sequence[int], used: int) -> bool:
        """Whether a relation that was found among so many columns says something of rows [n, places], and these enough
        of it."""
        columns = self.every.columns
        if relation.slack and all(_on_calendar(columns[name]) for name in relation.names):
            return False
        if self.rough and len(rows) < FEWEST_ROUNDED:
            return False
        if any(relation.percent) and not _matters(relation, rows, self.digit):
            return False
        halves = np.abs(relation.weights) * self.digits.largest[places]
        return _tells(relation, rows, halves, used, len(columns))

    def _in_all(self, relation: Relation, rows: Floats) -> Relation | None:
        """A relation from which no row departs, where there is one."""
        ways = [_of_its_day(relation, self.every.columns), relation]
        return next((one for one in ways if not departing(one, rows, self.digit).any()), None)


def with_otherwise(relation: Relation, written: Floats) -> Relation | None:
    """A relation, with what its first column is in rows whose other cells leave it no value, of those [n] that are
    observed there; None where that is not one number."""
    written = np.unique(written)
    return None if len(written) > 1 else replace(relation, otherwise=float(written[0])) if len(written) else relation


def _complete(codes: Floats) -> Floats:
    """The rows of codes [N, columns] without a hole."""
    return codes[~np.isnan(codes).any(1)]


def _of_one_date(relations: Mapping[str, Relation], following: Mapping[str, Relation]) -> list[str]:
    """The columns that are rounded sums of parts of one date, and of this: what their parts say says that better."""
    dates: dict[str, set[str]] = {}
    for name, one in following.items():
        if one.part is not None:
            dates.setdefault(one.names[1], {one.names[1]}).add(name)
    return [name for name, one in relations.items() if one.rounded and any(set(one.names) <= d for d in dates.values())]


def _numbers(table: Table, schema: Schema, one: Redundant) -> Relation | None:
    """Which number goes with each level that has one in several rows; None where that may be chance."""
    columns = {column.name: column for column in schema.encoded}
    codes = np.stack([codes_of(table, columns[name]) for name in (one.name, *one.by)], 1)
    first, level = _complete(codes).T
    rows = np.bincount(level.astype(int), minlength=columns[one.by[0]].level_counts[0])
    number = np.full(len(rows), np.nan)
    number[level.astype(int)] = first
    told = rows > 1
    if len(np.unique(number[told])) < 2 or _surprise(number[told], rows[told], first) < ENOUGH + np.log(len(columns)):
        return None
    said = [float(value) if seen else None for value, seen in zip(number, told, strict=True)]
    often = _often(codes[:, 1], columns[one.by[0]])
    return Relation(names=(one.name, *one.by), how="groups", codes=tuple(said), often=often)


def _part(table: Table, schema: Schema, one: Redundant) -> Relation | None:
    """The part of a date that a column is, or from which its levels follow; None where that may be chance. Of levels
    each date is asked once."""
    columns = {column.name: column for column in schema.encoded}
    own = [columns[name] for name in (one.name, *one.by)]
    codes = np.stack([codes_of(table, column) for column in own], 1)
    whole = _complete(codes)
    relation = part_between(own[0], own[1], whole[:, 0], whole[:, 1])
    choice = np.log(len(columns) * len(WORDS))
    if relation is None or not isinstance(own[0], Levelled):
        return relation if relation is not None and enough(whole[:, 0], 0, choice) else None
    assert relation.part is not None and relation.count is not None, "a part of moments"
    moments, levels = np.unique(whole[:, ::-1], axis=0).T
    parts, rows = np.unique(part_of(moments + relation.begin, relation.count, relation.part), return_counts=True)
    said = relation.coding[parts.astype(int)]
    told = ~np.isnan(said)
    return relation if _surprise(said[told], rows[told], levels) >= ENOUGH + choice else None


def _surprise(values: Floats, rows: Ints, every: Floats) -> float:
    """Nats by which it would be chance that groups with so many rows [groups] have one value [groups] in all of them,
    were these drawn from all values [n]."""
    distinct, counts = np.unique(every, return_counts=True)
    share = counts[np.searchsorted(distinct, values)] / len(every)
    return float(-((rows - 1) * np.log(share)).sum())


def _on_calendar(column: ModelledColumn) -> bool:
    """Whether a column is of moments: what lies a fixed time after one on a calendar does so in every row, and days
    that differ are no rounding."""
    return isinstance(column, Moment) and column.clock.what != "duration"


def _near_each_other(table: Table, schema: Schema) -> Iterator[Redundant]:
    """Each column with each earlier one from which it differs by a few digits, always up or always down, in the first
    rows with both: of columns that go together closely the difference is about 0, and has few values by chance."""
    columns = [column for column in schema.encoded if half_digit(column)]
    codes = [codes_of(table, column) for column in columns]
    for (i, earlier), (j, later) in itertools.combinations(enumerate(columns), 2):
        if (shift := shift_between(later, earlier)) is None:
            continue
        apart = codes[j] - codes[i] - shift
        first = apart[~np.isnan(apart)][:FEWEST_APART]
        few = len(first) == FEWEST_APART and np.ptp(first) < FEW * 2 * half_digit(later)
        if few and (first.min() > 0 or first.max() < 0):
            yield Redundant(later.name, (earlier.name,), "line", exact=False)


def _few_apart(table: Table, schema: Schema, one: Redundant) -> Relation | None:
    """That two columns with digits of one size differ by a few values alone (deliveries 1 to 3 days after orders); None
    where they do not, or where the least or the greatest of these is no difference: that is an order (orders.py)."""
    columns = {column.name: column for column in schema.encoded}
    first, other = (columns[name] for name in (one.name, *one.by))
    step, shift = 2 * half_digit(first), shift_between(first, other)
    if shift is None or not step or abs(2 * half_digit(other) / step - 1) > TIE:
        return None
    codes = np.stack([codes_of(table, first), codes_of(table, other)], 1)
    whole = _complete(codes)
    steps = np.rint((whole[:, 0] - whole[:, 1] - shift) / step)
    if len(whole) < FEWEST_APART or (np.abs(whole[:, 0] - whole[:, 1] - shift - step * steps) > TICK * step).any():
        return None
    least, most = steps.min(), steps.max()
    if not 1 <= most - least < FEW or 0 in (least, most) or not _end_there((steps - least).astype(int)):
        return None
    room = step * (most - least + 1)
    if not enough(np.floor(whole[:, 0] / room), 2, np.log(len(columns))):
        return None
    levels = (np.arange(DISTANCES) + 0.5) / DISTANCES
    seen = shift + step * np.quantile(steps, levels, method="nearest")
    return Relation(
        names=(one.name, *one.by),
        weights=(1.0, -1.0),
        constant=float(shift + step * 0.5 * (least + most)),
        rounded=True,
        slack=float(step * 0.5 * (most - least)),
        apart=tuple(seen.tolist()),
    )


def _end_there(steps: Ints) -> bool:
    """Whether whole numbers [n] from 0 on, of which all up to the greatest occur, end at the least and at the greatest
    one: the next one would be seen OFTEN, if the counts went on as they do there."""
    counts = np.bincount(steps).astype(float)
    ends = [(counts[0], counts[1]), (counts[-1], counts[-2])]
    return bool(counts.all()) and all(last * min(last / before, 1.0) >= OFTEN for last, before in ends)


def _of_its_day(relation: Relation, columns: Mapping[str, ModelledColumn]) -> Relation:
    """The same, where a date follows from a datetime: as if its day began at midnight. The moments of some rows leave
    open when it does, by hours where all are of the daytime."""
    own = [columns[name] for name in relation.names]
    if len(own) != 2 or not relation.rounded or not all(isinstance(column, Moment) for column in own):
        return relation
    day, moment = (cast(Moment, column).clock for column in own)
    local = moment.zone in (None, "UTC") and "%z" not in moment.format
    if (day.what, day.unit, moment.what) != ("date", "D", "datetime") or not local or day.step > 1:
        return relation
    if abs(relation.weights[1] * DAY + 1) > SLOW:
        return relation
    began = moment.origin / moment.per / DAY - day.origin  # days from the first date to the first moment
    half_step = 0.5 * moment.step / moment.per / DAY  # no moment is nearer to the next midnight
    constant = began - 0.5 + half_step
    return replace(relation, weights=(1.0, -1 / DAY), constant=constant)


def _fewer(relation: Relation, places: Sequence[int], found: Callable[[Sequence[int]], Relation | None]) -> Relation:
    """A relation without the columns that it can do without: of columns that nearly say the same any might be in it."""
    for place in places:
        rest = [other for other in places if other != place]
        if (shorter := found(rest)) is not None:
            return _fewer(shorter, rest, found)
    return relation


def enough(first: Floats, used: int, choice: float) -> bool:
    """Whether so many rows [n] speak for what holds in all of them, where so many of them were used to find it, and the
    choice of its columns among all of them took so many nats."""
    return bool((len(first) - used) * _entropy(first) >= ENOUGH + choice)


def _matters(relation: Relation, values: Floats, digit: float) -> bool:
    """Whether a share in percent that is a factor of a product shows in enough rows [n, columns]: without it the first
    column would be another one by more than its rounding, which is little beside how it varies. Where a constant of
    many digits stands before it, which might make up for another factor, so would be a share that is a little farther
    from its median."""
    other, share = values.copy(), np.array(relation.percent) != 0
    if digits_in(relation.constant) <= SHORT:
        other[:, share] = 0.0
    else:
        other[:, share] += SLIGHTLY * (other[:, share] - np.median(other[:, share], 0))
    shown = int(departing(relation, other, max(digit, 0.0)).sum())
    return shown >= FEWEST_SHOWN and digit <= OPEN * float(values[:, 0].std())


def _nearly(relation: Relation, values: Floats, digit: float) -> bool:
    """Whether hardly a row [n, columns] departs from a relation that half of them have shown, where its first column
    alone is rounded: its weights may have too few digits for the others."""
    return not relation.slack and float(departing(relation, values, digit).mean()) <= ALMOST


def _is_plain(relation: Relation, one: Redundant, digit: float) -> bool:
    """Whether the weights of a sum are simple enough for it not to be chance: those of a mean or the like, with a
    constant that has the column's digits, where half a digit leaves much open; parts of one, where several columns
    are rounded."""
    if one.how != "rounded":
        return not relation.slack or len(relation.names) == 2 or _in_parts(relation, PARTS_OF_ONE)
    if is_short(relation):
        return True
    constant, even = relation.constant / (2 * digit), np.ptp(np.abs(relation.weights[1:])) < TIE
    return _in_parts(relation, PARTS_OF_ONE if even else PLAIN_PARTS) and bool(abs(constant - np.rint(constant)) < TIE)


def _is_fine(rows: Floats, digit: float) -> bool:
    """Whether two columns [n, 2], the first of which is rounded to twice a `digit`, are fine enough for a line through
    all rows to be no chance (the same laboratory value in percent and in mmol/mol)."""
    values = [len(np.unique(column)) for column in rows.T]
    return len(values) == 2 and min(values) >= FEWEST_VALUES and digit <= OPEN * float(rows[:, 0].std())


def _in_parts(relation: Relation, most: int) -> bool:
    """Whether the weights of a sum are whole halves, thirds, … up to so many parts of one."""
    weights = np.array(relation.weights)
    return any(np.abs(count * weights - np.rint(count * weights)).max() < TIE for count in range(1, most + 1))


def _tells(relation: Relation, values: Floats, halves: Floats, used: int, columns: int) -> bool:
    """The same of rows [n, columns], where a relation leaves the first column open by more than half its last digit;
    and whether that is what they need: a few that are off by more than their rounding are errors, and what varies more
    than it is no rounding. `halves` [columns]: half of what last digits count, times their weights."""
    if not relation.slack:
        return True
    digit = float(halves[0])
    off = departing(replace(relation, slack=0.0), values, digit).sum()
    needed = off >= max(FEWEST_OFF, SHARE_OFF * len(values)) and digit + relation.slack <= OPEN * values[:, 0].std()
    first = np.floor(values[:, 0] / (2 * (digit + relation.slack)))
    if not needed or not enough(first, used, (used - 1) * np.log(columns)):
        return False
    return by_rounding(values[:, 0] - relation.solved(values, 0, values[:, 0]), halves)


def _entropy(values: Floats) -> float:
    """Of the empirical law of values [n], nats; 0 of none."""
    share = np.unique(values, return_counts=True)[1] / max(len(values), 1)
    return float(-(share * np.log(share)).sum())


def _comparable(codes: Floats, product: bool) -> Floats:
    """[n, columns] the codes [N, columns] (their logarithms, of a product) of some rows that have all, standardised;
    none where so few have them that they could be anything."""
    with np.errstate(divide="ignore", invalid="ignore"):
        x = np.log(np.abs(codes)) if product else codes / np.nanmax(np.abs(codes), 0)
    whole = some_rows(x[np.isfinite(x).all(1)])
    if len(whole) <= x.shape[1]:
        return whole[:0]
    sd = whole.std(0)
    return np.asarray((whole - whole.mean(0)) / np.where(sd > 0, sd, 1.0))


def _by_weight(z: Floats) -> list[list[int]]:
    """The columns but the first of standardised ones z [n, columns], those with the greatest weights in a sum: one,
    two, and so on; none of no rows."""
    if not len(z):
        return []
    weights = np.abs(np.linalg.lstsq(z[:, 1:], z[:, 0], rcond=None)[0])
    order = (1 + np.argsort(-weights, kind="stable")).tolist()
    return [sorted(order[:count]) for count in range(1, min(len(order), MOST_PARTS) + 1)]


def _best_subsets(z: Floats) -> Iterator[list[int]]:
    """Of the columns but the first of standardised ones z [n, columns] the one, two, and so on that leave the least of
    the first one, if that is as little as rounding may leave.

    Where columns nearly say the same (voters, and valid votes), rounding decides which of them has a greater weight
    beside all others; alone with what else is in a relation, each leaves more of it than the right one. All pairs are
    looked at, and of larger subsets those with one more column than the best smaller ones.
    """
    columns = z.shape[1] - 1
    if not len(z) or columns < FEWEST_TO_CHOOSE:
        return
    products = z.T @ z / len(z) + SINGULAR * np.eye(columns + 1)
    best = np.arange(1, columns + 1)[:, None]
    for size in range(1, min(columns - 1, MOST_CHOSEN) + 1):
        within = products[best[:, :, None], best[:, None, :]]
        said = products[best, 0]
        left = products[0, 0] - (said * np.linalg.solve(within, said[..., None])[..., 0]).sum(1)
        order = np.argsort(left, kind="stable")
        if left[order[0]] <= NEAR**2:
            yield best[order[0]].tolist()
        start = best if size == 1 else best[order[:WIDTH]]
        more = np.stack(np.broadcast_arrays(*start.T[:, :, None], np.arange(1, columns + 1)), -1).reshape(-1, size + 1)
        best = np.unique(np.sort(more, 1), axis=0)
        best = best[(np.diff(best, axis=1) > 0).all(1)]


def _pairs(names: tuple[str, ...], often: tuple[int, ...], codes: Floats, groups: bool) -> Relation:
    """What goes one to one (or in groups) in codes [n, 2] with the levels of the second column, each of which so many
    cells hold."""
    first = dict(zip(codes[:, 1].astype(int).tolist(), codes[:, 0].tolist(), strict=True))
    said = tuple(first.get(level) for level in range(len(often)))
    return (
        Relation(names=names, how="groups", codes=said, often=often)
        if groups
        else Relation(names=names, how="levels", codes=said)
    )


def _often(codes: Floats, column: ModelledColumn) -> tuple[int, ...]:
    """How many cells, with codes [N], hold each level of a column."""
    counts = np.bincount(codes[~np.isnan(codes)].astype(int), minlength=column.level_counts[0])
    return tuple(counts.tolist())


def _bands(
    names: tuple[str, ...], codes: Floats, columns: int, own: ModelledColumn, number: ModelledColumn
) -> Relation | None:
    """The levels, or the marks, of the first column in codes [n, 2] as intervals of the second one; None where they
    are none, or so few rows say so that this may be chance. A band ends before the next one, at a number of few digits,
    or where a year, a month or a day begins."""
    order = np.argsort(codes[:, 1], kind="stable")
    level, value = codes[order].T
    new = np.flatnonzero(level[1:] != level[:-1])
    runs = level[np.concatenate([[0], new + 1])]
    if isinstance(own, Number) and abs(np.sign(np.diff(runs)).sum()) < len(runs) - 1:
        return None  # marks go up or down with the number
    apart = len(np.unique(runs)) == len(runs) > 1 and (value[new + 1] > value[new]).all()
    if not apart or not enough(level, len(runs), np.log(columns)):
        return None
    if not _adjoin(value, new) and not _with_gaps(value, new, moments=isinstance(number, Moment)):
        return None
    cuts = []
    for last, first in zip(value[new].tolist(), value[new + 1].tolist(), strict=True):
        cut = _begins(number, last, first) if isinstance(number, Moment) else _roundest(last, first)
        cuts.append(0.5 * (last + first) if cut is None or not last < cut <= first else cut)
    if not all(last < cut <= first for last, cut, first in zip(value[new], cuts, value[new + 1], strict=True)):
        return None  # too close together
    return Relation(names=names, how="bands", codes=tuple(runs.tolist()), cuts=tuple(cuts))


def _roundest(low: float, high: float) -> float | None:
    """A number of few digits above `low`, up to `high`, near their middle: of several digits one that ends in 5, or
    would be shorter, where there is such (of 84 to 88 it is 85)."""
    number = shortest(low, high)
    if not number or digits_in(number) == 1:
        return number
    last = 10.0 ** (np.floor(np.log10(abs(number))) - digits_in(number) + 1)
    five = float(f"{5 * last * np.rint(number / (5 * last)):.{MOST_DIGITS}g}")
    return five if low < five <= high else number


def _periods(column: ModelledColumn, other: Moment, codes: Floats, columns: int) -> Relation | None:
    """The months, quarters or weeks of a column, or those that its levels are, as intervals of the moments of another
    one, by codes [n, 2]; None where they are none, or some moment lies in another one, or so few rows say so that this
    may be chance, or there are too many. Beyond BEYOND years of what was seen nothing is said, nor of a period of
    which there is no level."""
    if not enough(codes[:, 0], 2 if isinstance(column, Moment) else len(np.unique(codes[:, 0])), np.log(columns)):
        return None
    if isinstance(column, Moment):
        unit, seen = column.clock.unit, np.array([other.number.low, other.number.high])
        own = column.clock.ticks(np.array([column.number.low, column.number.high]))
        ends = np.concatenate([own, other.clock.ticks_in(seen, unit)])
        more = BEYOND * IN_A_YEAR[unit]
    elif isinstance(column, Levelled) and (found := periods_in(column.texts)) is not None:
        unit, ends, more = found.unit, found.ticks, 0
    else:
        return None
    least, most = (int(to_unit(end, "D", unit)) for end in np.array(other.clock.days_held))
    periods = np.arange(max(ends.min() - more, least + 1), min(ends.max() + more, most - 1) + 1)
    if not 1 < len(periods) <= MOST_PERIODS:
        return None
    if isinstance(column, Moment):
        said: list[float | None] = list(column.clock.values(periods).tolist())
    else:
        place = {int(tick): float(level) for level, tick in enumerate(ends)}
        said = [place.get(period) for period in periods.tolist()]
    begin = other.clock.midnights(to_unit(np.append(periods, periods[-1] + 1), unit, "D"))
    if (np.diff(begin) <= 0).any():
        return None
    cuts = tuple(other.clock.values(begin).tolist())
    relation = Relation(names=(column.name, other.name), how="bands", codes=(None, *said, None), cuts=cuts)
    return None if departing(relation, codes, 0.0).any() else relation


def _with_gaps(value: Floats, new: Ints, *, moments: bool) -> bool:
    """Whether bands of sorted values [n], which end at the places `new`, are intervals with gaps between them (seasons
    with breaks): each has enough rows and different values; and but for `moments` these are about as dense at ends next
    to other bands as elsewhere, since groups of measurements that lie far apart have thin tails there."""
    bands = np.split(value, new + 1)
    fewest = FEWEST_OF_BAND if moments else FEWEST_OF_NUMBERS
    if min(len(band) for band in bands) < fewest or min(len(np.unique(band)) for band in bands) < FEW_OF_BAND:
        return False
    sides = [(band, side) for i, band in enumerate(bands) for side in (-1, 1) if 0 <= i + side < len(bands)]
    return moments or all(_dense_end(band, side) for band, side in sides)


def _dense_end(band: Floats, side: int) -> bool:
    """Whether sorted values [n] have as many as OUTER_ROWS of them within OUTER of their range at their end, the last
    one (`side` 1) or the first one (-1), but for the outermost one."""
    end = band[-1] if side > 0 else band[0]
    near = np.abs(band - end) <= OUTER * (band[-1] - band[0])
    return int(near.sum()) - 1 >= OUTER_ROWS * len(band)


def _adjoin(value: Floats, new: Ints) -> bool:
    """Whether what lies between two bands of sorted values [n], which end at the places `new`, is as wide as what lies
    between the values of one: of groups that lie farther apart more is asked, though they do not overlap."""
    spacing = []
    for band in np.split(value, new + 1):
        distinct = len(np.unique(band))
        spacing.append((band[-1] - band[0]) / (distinct - 1) if distinct > 1 else 0.0)
    wide = np.maximum(spacing[:-1], spacing[1:])
    return bool(((value[new + 1] - value[new] <= ADJOINING * wide) | (wide == 0)).all())


def _begins(column: Moment, last: float, first: float) -> float | None:
    """When a year, a month or a day begins after one moment and not after another one; None where none does."""
    clock = column.clock
    if clock.what not in ("date", "datetime") or clock.zone not in (None, "UTC"):
        return None
    moment = clock.ticks_in(np.array([first]), "s").astype("datetime64[s]")
    for unit in ("Y", "M", "D"):
        begins = moment.astype(f"datetime64[{unit}]").astype("datetime64[s]").astype(np.int64)
        cut = float(clock.values(to_unit(begins, "s", clock.unit))[0])
        if last < cut <= first:
            return cut
    return None
