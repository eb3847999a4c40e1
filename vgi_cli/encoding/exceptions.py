"""Relations between numbers that hold in all rows but a few, in which some cell may be wrong: these rows are named, so
that it can be mended."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from vgi_cli.columns.base import ModelledColumn
from vgi_cli.columns.datetime import Moment
from vgi_cli.columns.numerals import Bools, Floats, Ints, plain
from vgi_cli.columns.relations import Relation
from vgi_cli.columns.schema import Schema
from vgi_cli.columns.wording import SHOWN
from vgi_cli.encoding.ages import ages_among
from vgi_cli.encoding.redundant import Redundant, as_number, half_digit, looked_for, numeric_candidates, relation_words
from vgi_cli.encoding.relations import departing, enough, implied, relation_of
from vgi_cli.encoding.sums import WAYS, CodedRows, Way
from vgi_cli.maths.choices import log_choices
from vgi_cli.table.base import Table

SHARE, ALWAYS = 0.01, 2
"""Rows in which a relation may not hold at most: this share of those that have all its cells, or so many in any
case."""
MOST, PART, SMALL_PART, LARGE_PARTS = 5, 300, 100, 4
"""Exceptions up to which some part of the rows surely has none, rows of a part, most, and of many rows so many parts of
that size and of a smaller one."""
OTHERS = 10
"""Times as many rows as these have another value than the one that is most frequent, and it holds there."""
FEWEST = 30
"""Rows that have all cells, at least."""
A_DIGIT = 2.0
"""Times half a last digit that what is rounded may be off beyond that, and be right: a step between was rounded too."""
HALF = 0.5
"""Rows without exception, as a share, in which a third column that explains them is what one of two is, most."""


class Excepted(NamedTuple):
    """A relation that holds in all rows of a table but a few.

    relation  what holds
    rows      those in which it does not
    of        how many rows have all its cells
    near      by how much farther than its rounding others of these are off: one in the last digit of the first column,
              as it is where a step between was rounded too; 0: none is
    """

    relation: Relation
    rows: tuple[int, ...]
    of: int
    near: float = 0.0


def excepted_among(table: Table, schema: Schema) -> list[Excepted]:
    """Sums and products of numbers, and completed years between dates, that hold in all rows but a few, of columns for
    which fills keep to no other; of each one at most, in the order of the table.

    The rows are dealt to more parts than there may be exceptions: one part has none of them, and what holds is found
    there.
    """
    if not looked_for(table, schema):
        return []
    every = CodedRows.of(table, schema)
    settled = {relation.names[0] for relation in schema.relations}
    found: dict[str, Excepted] = {}
    for rows in parts_of(table.N):
        part = every.some(rows)
        names = [name for name, column in every.columns.items() if as_number(column) is not None]
        codes = {name: part.codes([name])[:, 0] for name in names}
        varying = [name for name in names if len(np.unique(codes[name][np.isfinite(codes[name])])) > 1]
        columns = [every.columns[name] for name in varying]
        for way, one in itertools.product(WAYS, numeric_candidates(columns, codes)):
            if one.how == "rounded" or one.name in settled or one.name in found:
                continue
            excepted = _excepted(every, part, one, way)
            if excepted is None or implied(excepted.relation, schema.relations, every.columns):
                continue
            if any({*excepted.relation.names} == {*other.relation.names} for other in found.values()):
                continue  # each of two is the other one
            if not _by_the_calendar(excepted.relation, every) and not _either_of_two(excepted, every):
                found[one.name] = excepted
    for age in ages_among(table, schema, most_of):
        name = age.relation.names[0]
        if name not in settled and name not in found and age.alone and age.off.any():
            choice = speak_for(age.cells, age.off, 2 * float(np.log(len(every.columns))))
            if choice is not None and enough(age.cells[~age.off], 0, choice):
                found[name] = Excepted(age.relation, tuple(age.rows[age.off].tolist()), len(age.rows))
    return [found[name] for name in schema.modelled if name in found]


def _by_the_calendar(relation: Relation, rows: CodedRows) -> bool:
    """Whether a relation counts completed years or months from dates: these have no fixed number of days, so that rows
    which depart from it by one may be right."""
    first, *others = (isinstance(rows.columns[name], Moment) for name in relation.names)
    return relation.rounded and any(others) and not first


def _either_of_two(excepted: Excepted, every: CodedRows) -> bool:
    """Whether two columns that are equal in all rows but a few differ there since one of them is a third one, which it
    is in few other rows: a final mark is the better one of two."""
    relation = excepted.relation
    if relation.weights != (1.0, -1.0) or (relation.how, relation.constant) not in (("sum", 0.0), ("product", 1.0)):
        return False
    off = np.zeros(len(every.codes(relation.names)), bool)
    off[list(excepted.rows)] = True
    for name, other in itertools.product(relation.names, every.columns):
        if other in relation.names or as_number(every.columns[other]) is None:
            continue
        one, third = every.codes([name, other]).T
        known = ~np.isnan(every.codes([*relation.names, other])).any(1)
        same = (one == third) & known
        if (off & known).any() and same[off & known].all() and same[known & ~off].mean() <= HALF:
            return True
    return False


def without_excepted(found: Sequence[Redundant], excepted: Sequence[Excepted]) -> list[Redundant]:
    """Redundant columns but for those of which it is said exactly what they are in all rows but a few."""
    names = {one.relation.names[0] for one in excepted}
    return [one for one in found if one.exact or one.name not in names]


def excepted_words(found: Sequence[Excepted], table: Table, schema: Schema) -> list[str]:
    """A line on each of these relations, with its rows."""
    return [_words(one, table, schema) for one in found]


def _words(one: Excepted, table: Table, schema: Schema) -> str:
    """`'age' = 'education' + 'experience' + 6, in 533 of the 534 rows that have all of these, but not in row 444 ('age'
    is 18, not 22): ...`."""
    column = schema.encoded[schema.modelled.index(one.relation.names[0])]
    codes = CodedRows.of(table, schema).codes(one.relation.names)[list(one.rows)]
    said = one.relation.solved(codes, 0, codes[:, 0])
    where = [
        f"row {row + 1:,} ('{column.name}' is {_observed(column, own)}, not {spelled(column, other)})"
        for row, own, other in zip(one.rows, codes[:, 0].tolist(), said.tolist(), strict=True)
    ]
    within = f", to within {plain(one.near)}" if one.near else ""
    return mended_words(f"{relation_words(one.relation, schema)}{within}", "all of these", where, one.of)


def mended_words(what: str, cells: str, where: Sequence[str], of: int, *, kept: bool = False) -> str:
    """A line on what holds in all rows but some, by the words for these, of so many that have the cells; `kept`: and
    that fills keep to."""
    shown = [*where[:SHOWN], *([f"{len(where) - SHOWN:,} more"] if len(where) > SHOWN else [])]
    rows = " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)
    mend = "where a cell there is wrong, mend it or make it missing"
    then = f"fills keep to this; {mend}" if kept else f"{mend}, and fills keep to this; they do not now"
    return f"{what}, in {of - len(where):,} of the {of:,} rows that have {cells}, but not in {rows}: {then}"


def spelled(column: ModelledColumn, value: float) -> str:
    """A value as a column writes it."""
    if not np.isfinite(value):
        return "a number"
    return column.spell(column.snap(np.array([value])), None)[0]


def _observed(column: ModelledColumn, value: float) -> str:
    """A value that a cell of a rounded column has, with the decimals that it has beyond the others'."""
    return column.spell(np.array([value]), None)[0] if half_digit(column) else spelled(column, value)


def parts_of(n: int) -> list[Ints]:
    """The places of n rows at random, in one part more than there may be exceptions where these are few, so that one
    part has none of them; of more rows some in parts of so many that one has hardly any, and some in smaller ones. Of
    few rows all but those of each part too."""
    if n < FEWEST:
        return []
    dealt, count = np.random.default_rng(0).permutation(n), min(MOST, most_of(n)) + 1
    if n < count * (PART + SMALL_PART):
        parts = [dealt[start::count] for start in range(count)]
        parts += [np.setdiff1d(dealt, part) for part in parts] if n < SMALL_PART else []
        return [np.sort(rows[:PART]) for rows in parts]
    ends = np.cumsum([0, *[PART] * LARGE_PARTS, *[SMALL_PART] * LARGE_PARTS])
    return [np.sort(dealt[start:end]) for start, end in itertools.pairwise(ends)]


def most_of(n: int) -> int:
    """Exceptions among so many rows at most."""
    return max(ALWAYS, int(SHARE * n))


def _excepted(every: CodedRows, part: CodedRows, one: Redundant, way: Way) -> Excepted | None:
    """What a candidate says of a part of the rows, where it holds in all but a few of all rows."""
    relation = relation_of(part, one, way)
    if relation is None or relation.apart or len(relation.names) < 2:
        return None
    codes, half = every.codes(relation.names), half_digit(every.columns[relation.names[0]])
    whole = np.flatnonzero(~np.isnan(codes).any(1))
    if len(whole) < FEWEST:
        return None
    for wide in (2 * half, half) if relation.rounded else (half,):  # rows off by a digit: weights may have too few
        off = departing(relation, codes[whole], wide)
        if 0 < off.sum() <= 2 * most_of(len(whole)):  # up to twice as many: of few rows weights are found by few
            found = _all_but(every, whole[~off], Redundant(relation.names[0], relation.names[1:], one.how), way)
            if found is not None:
                return found
    return None


def _all_but(every: CodedRows, clean: Ints, one: Redundant, way: Way) -> Excepted | None:
    """What a candidate says of `clean` rows, where it holds in all but a few of all rows, and these speak for it."""
    relation = relation_of(every.some(clean), one, way)
    if relation is None:
        return None
    codes, half = every.codes(relation.names), half_digit(every.columns[relation.names[0]])
    whole = np.flatnonzero(~np.isnan(codes).any(1))
    off = departing(relation, codes[whole], half)
    kept = 0 < off.sum() <= most_of(len(whole)) and _speak(codes[whole, 0], off, len(every.columns), relation)
    far = departing(relation, codes[whole], half + A_DIGIT * half) if relation.rounded else off
    near = 2 * half if far.sum() < off.sum() else 0.0
    return Excepted(relation, tuple(whole[far].tolist()), len(whole), near) if kept and far.any() else None


def _speak(first: Floats, off: Bools, columns: int, relation: Relation) -> bool:
    """Whether so many rows [n] speak for what holds in all of them but those that are `off` [n], which might be any."""
    choice = speak_for(first, off, len(relation.names) * float(np.log(columns)))
    return choice is not None and enough(first[~off], len(relation.names), choice)


def speak_for(first: Floats | Ints, off: Bools, choice: float) -> float | None:
    """By how many nats it would be chance that something holds in all of some rows [n] but those that are `off` [n],
    beyond a choice of so many: which might be any. None where hardly any other row has another value (first [n]) than
    the one that is most frequent."""
    count, n = int(off.sum()), len(first)
    values, often = np.unique(first[~off], return_counts=True)
    others = n - count - int(often.max())
    if len(values) < 2 or others < OTHERS * (count + 1):
        return None
    return choice + log_choices(n, count)
