"""Columns that say what others say already: copies, other names for the same levels, and sums of others.

A model of the joint density has to give such columns a law of their own: a covariance without an inverse, a copy that
counts twice. They are named to the user, and relations that hold exactly are kept by fills (relations.py).
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, Self

import numpy as np

from vgi_cli.columns.base import ModelledColumn
from vgi_cli.columns.clock import DAY
from vgi_cli.columns.comparisons import Comparison
from vgi_cli.columns.datetime import Moment
from vgi_cli.columns.levelled import Levelled
from vgi_cli.columns.number import Number
from vgi_cli.columns.numerals import Bools, Floats, Ints
from vgi_cli.columns.orders import Order
from vgi_cli.columns.periods import PERIODS
from vgi_cli.columns.places import evenly
from vgi_cli.columns.relations import Relation
from vgi_cli.columns.schema import Schema
from vgi_cli.columns.skips import Skip, Threshold, alike_skips
from vgi_cli.columns.structural_zeros import Part, StructuralZeros
from vgi_cli.columns.wording import SHOWN, capped, named, some_of, typed
from vgi_cli.encoding.apart import Rule
from vgi_cli.encoding.dates import dated, part_between
from vgi_cli.encoding.summands import adds_up
from vgi_cli.table.base import Table

UNLESS_KEPT = "`--set table.relations=ignore` if that is chance"
"""What to do where fills should not keep to what holds in every row."""
FEWEST = 10
"""Rows in which two columns, or all of a sum, are observed: with fewer nothing is said."""
EXACT = 1e-9
"""A number is a sum of others where what is left of it is at most this share of its standard deviation."""
NEAR = 0.02
"""Nearly a sum: what is left is at most this share (a total of rounded parts; R2 above 0.9996)."""
SPANNED = 1e-5
"""What of the logarithms of a product is left by rounding to six digits or more: as a column of its own it would be
scaled up where weights of later ones are found."""
WEIGHT = 1e-3
"""Coefficients of standardised columns below this are no part of a sum, at first sight; ..."""
SLIGHT = 1e-6
"""... a fee may be a small part of a total, and be one."""
CONSTANT = 1e-12
"""A deviation of this share of the largest value is rounding: the column does not vary."""
FINEST = 1e-14
"""Of its largest value, a last digit of a column counts more than this share, or is the rounding of arithmetic."""
MOST = 1_000
"""Columns of numbers up to which sums are looked for, and columns of levels up to which pairs are compared."""
FIRST_LOOK = 200
"""Rows by which most pairs of columns are found not to go one to one."""
MOST_MARKS = 12
"""Values of a column of numbers up to which they may be marks, classes or fees, and intervals of another number."""
MOST_VALUES = 100
"""Values of a column of numbers up to which it may be a code of levels."""
MOST_PARTS = 8
"""Parts of a sum that are found where hardly a row has all columns, ..."""
FEW_ROWS = 2_000
"""... by so many rows at most, evenly spread, ..."""
GAIN = 0.97
"""... as long as the next part leaves at most this share of what the others do."""
RIDGE = 0.02
"""Variance that is added to standardised columns before the weights of one in the others are guessed."""
LIKELY = 5.0
"""Times that what the others leave of a column at most that they may determine, of those that are looked at again."""
PART, MOST_OF_MEAN = 0.05, 12
"""Coefficients of what is no part of a mean that is rounded coarsely are below this, and it has so many parts at
most."""
ROUNDING, ROUGH = 0.7, 0.4
"""Half of a last digit leaves so much of itself where a sum is rounded to that (1 / sqrt(3), and a little); more than
the latter share of a standard deviation is not looked at."""
COARSE, SCREENED = 0.5, 0.9
"""Where less of half a last digit is left than this share, the column is not the one that is rounded by a rule; least
squares leave a little less, and so is looked at this share of that."""
FEWEST_OF_SHARE, FEW_OF_SHARE, MOST_OF_SHARE, MOST_SHARES = 3, 50, 1_001, 12
"""Columns of a price with a share on or off, fewest; different values of a share, few and most (percents with a
decimal), and shares that are tried, most: those with few values first."""
ONE_OF, UP_TO_SHARES = "one and ", 0.15
"""What names of shares begin with among those of columns, and how much of the logarithm of a price is left at most when
they stand for logarithms themselves."""
ROWS = 5_000
"""Rows by which sums of several columns are found, evenly spread."""
MOST_NOTED, MOST_NOTED_CELLS = 100, 4_000_000
"""Columns, and their cells, among which redundant ones are looked for before every fit."""


SUMS = ("sum", "rounded")
"""Candidates that are sums of several columns, of which some may be truth values."""


class Redundant(NamedTuple):
    """A column that others determine.

    name   of the column
    by     the columns that determine it
    how    copy: the same cells; levels: the same levels by other names, or by numbers; line: a linear function of one
           column; sum: of several; rounded: one of these two, as far as its digits go; product: of powers of one or
           several; groups: of the levels of one; bands: intervals of a number; numbers: each level of one has one;
           part: the year of a date, say, or what follows from it
    exact  whether nothing is left, beyond the rounding of arithmetic
    mostly  whether what is left is little in most rows, too: little beside few far values it may be in all
    percent  of a product which of `by` is a share, and what it is divided by before it is added to 1 (see Relation)
    backwards  whether later columns are in `by`: of interest where the column is rounded by what these say, since what
               they determine otherwise is said of the last one of them
    """

    name: str
    by: tuple[str, ...]
    how: str
    exact: bool = True
    mostly: bool = True
    percent: tuple[str, float] | None = None
    backwards: bool = False


def redundant_words(one: Redundant) -> str:
    """A redundant column in a line."""
    flag = f"`{typed('--exclude', one.name)}` leaves it as it is"
    if one.how == "copy":
        return f"column '{one.name}' is a copy of '{one.by[0]}': {flag}"
    if one.how == "levels":
        return f"column '{one.name}' goes one to one with the levels of '{one.by[0]}': {flag}"
    nearly = "" if one.exact else "nearly "
    return (
        f"column '{one.name}' is {nearly}a linear function of {named('column', one.by)}, and fills need not be: where "
        f"they have to, compute '{one.name}' anew from the filled others"
    )


def relation_words(relation: Relation, schema: Schema, *, whole: bool = False) -> str:
    """`'cnt' = 'casual' + 'registered'`, of columns of a schema; `whole`: with all terms of a sum."""
    moments = {column.name for column in schema.encoded if isinstance(column, Moment)}
    return relation.words(counted=not moments & set(relation.names), whole=whole)


def looked_for(table: Table, schema: Schema) -> bool:
    """Whether a table is small enough to look for its redundant columns before every fit."""
    columns = len(schema.encoded)
    return columns <= MOST_NOTED and columns * table.N <= MOST_NOTED_CELLS


def kept_words(schema: Schema) -> list[str]:
    """A line on what fills keep to, the first of `kept_to_tell`; none where there is none."""
    words = kept_to_tell(schema)
    if not words:
        return []
    what = some_of(words, rest=", which -v lists")
    return [f"fills keep to what holds in every row: {what} ({UNLESS_KEPT})"]


def rest_of_kept(schema: Schema) -> list[str]:
    """A line on each that `kept_words` leaves out, or of which it does not say all terms."""
    short, whole = kept_to_tell(schema), kept_to_tell(schema, whole=True)
    rest = [words for i, words in enumerate(whole) if i >= SHOWN or words != short[i]]
    return [f"in every row, and in fills: {words}" for words in rest]


def kept_to_tell(schema: Schema, *, whole: bool = False) -> list[str]:
    """What `every_kept` says, with how often columns in order are equal, but for structural zeros of two columns of
    which one follows from the other by way of a third one."""
    told = [one for one in schema.structural_zeros if not _follows(schema.relations, *one.names)]
    return every_kept(replace(schema, structural_zeros=tuple(told)), ties=True, whole=whole)


def _follows(relations: Sequence[Relation], first: str, second: str) -> bool:
    """Whether one of two columns follows from the other, in one step or several."""
    above: dict[str, set[str]] = {}
    for one in relations:
        if len(one.names) == 2:
            above.setdefault(one.names[1], set()).add(one.names[0])
            if one.how == "levels":
                above.setdefault(one.names[0], set()).add(one.names[1])
    return any(end in _reached(above, start) for start, end in ((first, second), (second, first)))


def _reached(above: Mapping[str, Collection[str]], start: str) -> set[str]:
    found, left = {start}, [start]
    while left:
        new = set(above.get(left.pop(), ())) - found
        found |= new
        left += new
    return found


def every_kept(
    schema: Schema, moved: Collection[str] | None = None, *, ties: bool = False, whole: bool = False
) -> list[str]:
    """The relations, orders, skips, thresholds, structural zeros and comparisons of a schema in words; `moved`: those
    that are left alone if these columns are; `ties`: with how often columns in order are equal; `whole`: with all terms
    of sums."""

    def counts(names: Iterable[str]) -> bool:
        return moved is None or not set(moved).isdisjoint(names)

    def order(one: Order) -> str:
        return one.words_of_ties() if ties else one.words()

    return [
        *(but_for(one.but, relation_words(one, schema, whole=whole)) for one in schema.relations if counts(one.names)),
        *(but_for(one.but, one.words()) for one in schema.lookups if counts((one.name,))),
        *(but_for(one.but, order(one)) for one in schema.orders if counts((one.low, one.high))),
        *(
            but_for(sum(one.but for one in same), _skip_words(same, schema))
            for same in alike_skips(schema.skips)
            if counts((same[0].name,))
        ),
        *(_threshold_words(one, schema) for one in schema.thresholds if counts((one.name,))),
        *(_zeros_words(one, schema) for one in shown_zeros(schema) if counts(one.names)),
        *(but_for(one.but, _comparison_words(one, schema)) for one in schema.comparisons if counts(one.names)),
    ]


def rows_against(schema: Schema) -> list[int]:
    """How many rows of the fit contradict each of these."""
    skips = [sum(one.but for one in same) for same in alike_skips(schema.skips)]
    rules = len(schema.thresholds) + len([*shown_zeros(schema)])
    relations, lookups = [one.but for one in schema.relations], [one.but for one in schema.lookups]
    orders, comparisons = [one.but for one in schema.orders], [one.but for one in schema.comparisons]
    return [*relations, *lookups, *orders, *skips, *[0] * rules, *comparisons]


def but_for(rows: int, words: str) -> str:
    """Words for what so many rows of the fit contradict."""
    return f"{words} (but for {rows:,} row{'s' * (rows > 1)})" if rows else words


def _skip_words(same: Sequence[Skip], schema: Schema) -> str:
    """`'smoke' is not 'no' where 'cigarettes' is observed`."""
    column = schema.encoded[schema.modelled.index(same[0].name)]
    return same[0].words(*column.spell(np.array([float(one.level) for one in same]), None))


def _threshold_words(one: Threshold, schema: Schema) -> str:
    """The words of a threshold of a schema."""
    column = schema.encoded[schema.modelled.index(one.name)]
    return one.words(column.spell(np.array([one.limit]), None)[0])


def shown_zeros(schema: Schema) -> Iterator[StructuralZeros]:
    """The structural zeros of a schema but for numbers beyond all that were observed: these go with nothing."""
    columns = dict(zip(schema.modelled, schema.encoded, strict=True))
    for one in schema.structural_zeros:
        ends = [as_number(columns[name]) for name in one.names]
        shown = tuple(pair for pair in one.pairs if not any(map(_beyond_all, pair, ends)))
        if shown:
            yield replace(one, pairs=shown)


def _beyond_all(part: Part, number: Number | None) -> bool:
    """Whether a part of a column is the numbers below its least observed one, or above its greatest one."""
    if number is None or part.where == "at":
        return False
    return part.code <= number.low if part.where == "below" else part.code >= number.high


def _zeros_words(one: StructuralZeros, schema: Schema) -> str:
    """The words of structural zeros of a schema."""
    columns = [schema.encoded[schema.modelled.index(name)] for name in one.names]
    first, second = (
        column.spell(np.array([pair[place].code for pair in one.pairs]), None) for place, column in enumerate(columns)
    )
    return one.words(list(zip(first, second, strict=True)))


def _comparison_words(one: Comparison, schema: Schema) -> str:
    """The words of a comparison of a schema."""
    column = schema.encoded[schema.modelled.index(one.flag)]
    return one.words([None if code is None else column.spell(np.array([code]), None)[0] for code in one.codes])


def rule_words(rule: Rule, schema: Schema) -> str:
    """One of the rules of a schema in words."""
    match rule:
        case Relation():
            return relation_words(rule, schema)
        case Order():
            return rule.words()
        case Skip():
            return _skip_words([rule], schema)
        case Threshold():
            return _threshold_words(rule, schema)
        case StructuralZeros():
            return _zeros_words(rule, schema)
        case Comparison():
            return _comparison_words(rule, schema)


def not_kept(found: Sequence[Redundant], schema: Schema) -> list[str]:
    """A line on each redundant column whose fills the model alone draws."""
    kept = {relation.names[0] for relation in schema.relations}
    said = [set(relation.names) for relation in schema.relations if not relation.coded]
    pairs = {frozenset((order.low, order.high)) for order in schema.orders}
    moments = {column.name for column in schema.encoded if isinstance(column, Moment)}

    parts = {(relation.names[1], relation.names[0]) for relation in schema.relations if relation.how == "part"}

    def apart(one: Redundant) -> bool:  # what is nearly a line between two dates, or two ends, is what they differ by
        if not one.exact and any((one.name, name) in parts for name in one.by):
            return True  # a date that is nearly a line in its parts follows from them
        near = {name for name in one.by if frozenset((one.name, name)) in pairs or {one.name, name} <= moments}
        return not one.exact and bool(near)

    def repeats(one: Redundant) -> bool:  # it is a part of what is kept
        return any(one.name in names and names <= {one.name, *one.by} for names in said)

    some = [one for one in found if one.name not in kept and one.mostly and not repeats(one)]
    return [redundant_words(one) for one in some if not apart(one)]


def redundant_notes(found: Sequence[Redundant], schema: Schema) -> list[str]:
    """Lines on the redundant columns of a schema, as a fit says them."""
    return [*kept_words(schema), *capped(not_kept(found, schema))]


def as_number(column: ModelledColumn) -> Number | None:
    """What the cells of a column are as numbers; None of levels, and of a plugin's kind."""
    return column.number if isinstance(column, Moment) else column if isinstance(column, Number) else None


def half_digit(column: ModelledColumn) -> float:
    """Half of what the last digit of a column of numbers counts, data units; 0 where it is not rounded, or by no more
    than arithmetic is off."""
    number = as_number(column)
    lattice = None if number is None else number.lattice
    if number is None or lattice is None or lattice.stand_in:
        return 0.0
    return 0.5 * lattice.resolution if lattice.resolution > FINEST * max(-number.low, number.high) else 0.0


def shift_between(first: ModelledColumn, other: ModelledColumn) -> float | None:
    """What the codes of two columns differ by where their cells are the same; None where they count other things."""
    if not isinstance(first, Moment) and not isinstance(other, Moment):
        return 0.0
    if not isinstance(first, Moment) or not isinstance(other, Moment):
        return None
    a, b = first.clock, other.clock
    if (a.what, a.measure) != (b.what, b.measure) or (a.zone is None) != (b.zone is None):
        return None
    return b.origin / b.per - a.origin / a.per


def days_and_times(first: ModelledColumn, other: ModelledColumn) -> tuple[tuple[float, float], float] | None:
    """How many seconds the codes of two columns count, one of days and one of times, and what these seconds differ by
    at the begin of the same day; None of others, and of time zones."""
    if not isinstance(first, Moment) or not isinstance(other, Moment):
        return None
    clocks, begin, per = (first.clock, other.clock), [], []
    if {clock.what for clock in clocks} != {"date", "datetime"}:
        return None
    for clock in clocks:
        days = clock.what == "date"
        if (days and clock.measure != "day") or clock.zone not in (None, "UTC") or clock.offset or "%z" in clock.format:
            return None
        per.append(float(DAY) if days else 1.0)
        begin.append(clock.origin / clock.per * per[-1])
    return (per[0], per[1]), begin[1] - begin[0]


def unlooked(schema: Schema) -> list[str]:
    """A line for what is not looked for, as there are too many columns."""
    numbers = sum(as_number(column) is not None for column in schema.encoded)
    levelled = sum(isinstance(column, Levelled) for column in schema.encoded)
    lines = []
    if numbers > MOST:
        lines.append(f"columns that are functions of others are not looked for among {numbers:,} columns of numbers")
    if levelled > MOST:
        lines.append(f"levels by other names are looked for among {MOST:,} of {levelled:,} columns of levels")
    return lines


def candidates(table: Table, schema: Schema) -> list[Redundant]:
    """What may be redundant among the modelled columns, and by what; a column may come several times, with what says
    more of it first."""
    columns, codes = schema.encoded, {column.name: codes_of(table, column) for column in schema.encoded}
    return [
        *_copies(columns, codes),
        *_levels(columns, codes),
        *_groups(columns, codes),
        *_bands(columns, codes),
        *_sums(columns, codes),
        *_sums_with_truths(columns, codes),
        *_products(columns, codes),
        *_parts_of_dates(columns, codes),
        *_numbers(columns, codes),
    ]


def coded_candidates(table: Table, schema: Schema) -> list[Redundant]:
    """The same, but for copies and for numbers that are computed from others."""
    columns, codes = schema.encoded, {column.name: codes_of(table, column) for column in schema.encoded}
    coded = (_levels, _groups, _bands, _parts_of_dates, _numbers)
    return [one for search in coded for one in search(columns, codes)]


def numeric_candidates(columns: Sequence[ModelledColumn], codes: dict[str, Floats]) -> list[Redundant]:
    """Of columns of numbers with codes [N] those that may be sums and products of earlier ones."""
    return [*_sums(columns, codes, backwards=False), *_products(columns, codes, backwards=False)]


def redundant(found: Sequence[Redundant], schema: Schema) -> list[Redundant]:
    """Of candidates the redundant columns, in the order of the table: those that fills keep to, and others once; that a
    column is nearly a product says little."""
    kept: dict[str, list[set[str]]] = {}
    for relation in schema.relations:
        kept.setdefault(relation.names[0], []).append(set(relation.names[1:]))
    moments = {column.name for column in schema.encoded if isinstance(column, Moment)}
    chosen: dict[str, Redundant] = {}
    for one in found:
        if not one.exact and one.name not in kept and {one.name, *one.by} <= moments:
            continue  # two dates of one stay: what lies between them is what they are there for
        if one.name in kept and not any(names <= set(one.by) for names in kept[one.name]):
            continue
        hidden = one.backwards or one.how in ("rounded", "product", "groups", "bands", "numbers", "part")
        if not hidden or one.name in kept:
            chosen.setdefault(one.name, one)
    return [chosen[name] for name in schema.modelled if name in chosen]


def codes_of(table: Table, column: ModelledColumn) -> Floats:
    """[N] the codes of a column of a table, NaN where a cell is missing. Those of a small table are kept, since every
    search for relations asks for them."""
    cells = table.column(column.name)
    small = table.N * len(table.names) <= MOST_NOTED_CELLS
    return cells.coded(column) if small else np.where(cells.missing, np.nan, column.codes(cells))


def _copies(columns: Sequence[ModelledColumn], codes: dict[str, Floats]) -> list[Redundant]:
    """Columns with the same cells as an earlier one, holes included."""
    first: dict[tuple[bytes, object], str] = {}
    copies = []
    for column in columns:
        texts = tuple(column.texts) if isinstance(column, Levelled) else None
        key = (codes[column.name] + 0.0).tobytes(), texts
        other = first.setdefault(key, column.name)
        if other != column.name:
            copies.append(Redundant(column.name, (other,), "copy"))
    return copies


def _levels(columns: Sequence[ModelledColumn], codes: dict[str, Floats]) -> list[Redundant]:
    """Columns that go one to one with the levels of another one, wherever both are observed: of two columns of levels
    the later one; a column of numbers of which few values occur."""
    levelled = [column.name for column in columns if isinstance(column, Levelled)][:MOST]
    numbers = [column.name for column in columns if as_number(column) is not None][:MOST]
    places: dict[str, Ints] = {}
    counts: dict[str, int] = {}
    for name in (*levelled, *numbers):
        observed = ~np.isnan(codes[name])
        values, inverse = np.unique(codes[name][observed], return_inverse=True)
        if name in numbers and len(values) > MOST_VALUES:
            continue
        places[name], counts[name] = np.full(len(observed), -1), len(values)
        places[name][observed] = inverse
    found = []
    pairs = [(name, levelled[:later]) for later, name in enumerate(levelled)]
    for name, others in [*pairs, *((name, levelled) for name in numbers if name in places)]:
        for other in others:
            a, b = places[name], places[other]
            both = (a >= 0) & (b >= 0)
            if both.sum() < FEWEST:
                continue
            a, b = a[both], b[both]
            some = slice(0, FIRST_LOOK)
            if (
                _one_to_one(a[some], b[some], counts[other])
                and _one_to_one(a, b, counts[other])
                and len(np.unique(a)) > 1
            ):
                found.append(Redundant(name, (other,), "levels"))
                break
    return found


def _groups(columns: Sequence[ModelledColumn], codes: dict[str, Floats]) -> list[Redundant]:
    """Columns of levels to each of which several levels of another one belong, and none to two; of such others the one
    with the fewest levels."""
    if len(columns) > MOST_NOTED:
        return []
    levelled = [column for column in columns if isinstance(column, Levelled) and not column.pooled]
    levelled.sort(key=lambda column: column.level_counts[0])
    found = []
    for i, column in enumerate(levelled):
        for other in levelled[i + 1 :]:
            both = ~np.isnan(codes[column.name]) & ~np.isnan(codes[other.name])
            a, b = (codes[one.name][both].astype(np.int64) for one in (column, other))
            function = len(a) >= FEWEST and _is_function(a[:FIRST_LOOK], b[:FIRST_LOOK]) and _is_function(a, b)
            if function and 1 < len(np.unique(a)) < len(np.unique(b)):
                found.append(Redundant(column.name, (other.name,), "groups"))
                break
    return found


def _numbers(columns: Sequence[ModelledColumn], codes: dict[str, Floats]) -> list[Redundant]:
    """Columns of numbers that have one number in all rows of a level of another column, and the same in those of
    several levels; of such others the one with the fewest levels."""
    if len(columns) > MOST_NOTED:
        return []
    levelled = [column for column in columns if isinstance(column, Levelled) and not column.pooled]
    levelled.sort(key=lambda column: column.level_counts[0])
    found = []
    for column in columns if levelled else ():
        if as_number(column) is None:
            continue
        own = codes[column.name]
        for other in levelled:
            both = np.flatnonzero(~np.isnan(own) & ~np.isnan(codes[other.name]))
            some = both[:FIRST_LOOK]
            if len(both) < FEWEST or not _one_each(own[some], codes[other.name][some]):
                continue
            if _one_each(own[both], codes[other.name][both]) and len(np.unique(own[both])) > 1:
                found.append(Redundant(column.name, (other.name,), "numbers"))
                break
    return found


def _parts_of_dates(columns: Sequence[ModelledColumn], codes: dict[str, Floats]) -> list[Redundant]:
    """Columns that are a part of a date or a datetime, or follow from one: of the first one of which they are."""
    found: dict[str, Redundant] = {}
    for column, other in dated(columns) if len(columns) <= MOST_NOTED else ():
        both = ~np.isnan(codes[column.name]) & ~np.isnan(codes[other.name])
        if column.name in found or both.sum() < FEWEST:
            continue
        if part_between(column, other, codes[column.name][both], codes[other.name][both]) is not None:
            found[column.name] = Redundant(column.name, (other.name,), "part")
    return list(found.values())


def _one_each(numbers: Floats, levels: Floats) -> bool:
    """Whether all numbers [n] beside a level [n] are the same."""
    of = np.zeros(int(levels.max()) + 1)
    of[levels.astype(np.int64)] = numbers
    return bool((of[levels.astype(np.int64)] == numbers).all())


def _is_function(a: Ints, b: Ints) -> bool:
    """Whether levels b [n] say what levels a [n] are."""
    return len(np.unique(a + (a.max() + 1) * b)) == len(np.unique(b))


def _bands(columns: Sequence[ModelledColumn], codes: dict[str, Floats]) -> list[Redundant]:
    """Columns whose levels, or marks, may be intervals of a number or a moment: none has values on both sides of
    another's; and months, quarters and weeks of moments."""
    if len(columns) > MOST_NOTED:
        return []
    found = []
    for column in columns:
        if isinstance(column, Moment):
            whole = [other.name for other in columns if is_period_of(column, other)]
            found += [Redundant(column.name, (name,), "bands") for name in whole]
            continue
        if (isinstance(column, Levelled) and column.pooled) or not isinstance(column, Levelled | Number):
            continue
        if isinstance(column, Number) and not _are_marks(codes[column.name]):
            continue
        for other in columns:
            if as_number(other) is None or other is column:
                continue
            both = ~np.isnan(codes[column.name]) & ~np.isnan(codes[other.name])
            level, value = codes[column.name][both], codes[other.name][both]
            if len(level) < FEWEST or len(np.unique(level)) in (1, len(np.unique(value))):  # or a number for each
                continue
            if _apart(level[:FIRST_LOOK], value[:FIRST_LOOK]) and _apart(level, value):
                found.append(Redundant(column.name, (other.name,), "bands"))
                break
    return found


def _are_marks(values: Floats) -> bool:
    """Whether numbers [N] are few that occur again and again: marks, classes, groups by their numbers."""
    known = values[~np.isnan(values)]
    if not 1 < len(np.unique(known[:FIRST_LOOK])) <= MOST_MARKS:
        return False
    return len(np.unique(known)) <= min(MOST_MARKS, len(known) // FEWEST)


def is_period_of(column: ModelledColumn, other: ModelledColumn) -> bool:
    """Whether a column counts months, quarters or weeks, and another one is of moments that lie in such."""
    if not isinstance(column, Moment) or not isinstance(other, Moment) or column.clock.unit not in PERIODS:
        return False
    a, b = column.clock, other.clock
    return b.what in ("date", "datetime") and (b.unit not in PERIODS or (a.unit, b.unit) == ("Q", "M"))


def _apart(level: Floats, value: Floats) -> bool:
    """Whether each level [n] has values [n] that lie between those of no other."""
    order = np.lexsort((level, value))
    changes = int((np.diff(level[order]) != 0).sum())
    return changes == len(np.unique(level)) - 1


def _one_to_one(a: Ints, b: Ints, count: int) -> bool:
    """Whether places a [n] and b [n], of which there are `count`, go one to one."""
    return len(np.unique(a * count + b)) == len(np.unique(a)) == len(np.unique(b))


def _sums(columns: Sequence[ModelledColumn], codes: dict[str, Floats], *, backwards: bool = True) -> list[Redundant]:
    """Numbers that are linear functions of one earlier column, by the rows that have both, or of several, by the rows
    that have all; `backwards`: of later ones too, where they are rounded and no dates."""
    digits = {column.name: half_digit(column) for column in columns if as_number(column) is not None}
    numbers = {column.name for column in columns if isinstance(column, Number)} if backwards else set()
    return [one for one in _linear(digits, codes) if not one.backwards or {one.name, *one.by} <= numbers]


def _sums_with_truths(columns: Sequence[ModelledColumn], codes: dict[str, Floats]) -> list[Redundant]:
    """Numbers that are sums of others and of truth values of 0 and 1, wherever these stand."""
    truths = {column.name: 0.0 for column in columns if adds_up(column)} if len(columns) <= MOST_NOTED else {}
    digits = {column.name: half_digit(column) for column in columns if isinstance(column, Number)}
    found = _linear({**truths, **digits}, codes) if truths else []
    sums = [one for one in found if one.how in SUMS and one.name in digits and not truths.keys().isdisjoint(one.by)]
    return [one._replace(by=tuple(name for name in codes if name in one.by)) for one in sums]


def _products(
    columns: Sequence[ModelledColumn], codes: dict[str, Floats], *, backwards: bool = True
) -> list[Redundant]:
    """Numbers whose logarithms (of their sizes) are sums of those of earlier ones; `backwards`: and then each of these
    by the others."""
    few = columns if len(columns) <= MOST_NOTED else ()
    logs = _logs({column.name: codes[column.name] for column in few if isinstance(column, Number)})
    found = [one._replace(how="product") for one in _linear(dict.fromkeys(logs, 0.0), logs, SPANNED)]
    return found + [other for one in found for other in (turned(one) if backwards else ())]


def turned(one: Redundant) -> Iterator[Redundant]:
    """The columns that determine another one of several, each as determined by the rest and this one."""
    for name in one.by if 1 < len(one.by) <= MOST_PARTS else ():
        others = tuple(other for other in one.by if other != name)
        yield Redundant(name, (*others, one.name), one.how, False, backwards=True)


def _logs(numbers: Mapping[str, Floats]) -> dict[str, Floats]:
    """The logarithms of the sizes of columns of numbers [N], those that have some."""
    logs: dict[str, Floats] = {}
    for name, cells in numbers.items():
        with np.errstate(divide="ignore"):
            log = np.log(np.abs(cells))
        if np.isfinite(log).any():
            logs[name] = np.where(np.isfinite(log), log, np.nan)
    return logs


def share_candidates(shares: Sequence[str], numbers: Mapping[str, Floats]) -> Iterator[Redundant]:
    """Of columns of numbers [N] those that may be products in which one factor is 1 and a share more or less, in
    percent or not: prices with a discount or a tax.

    All shares are looked at together first, which tells of what a column is a product up to some share, and whether one
    of many different values is part of that.
    """
    many = {share for share in shares if _values_of_share(numbers[share]) > FEW_OF_SHARE}
    logs = _logs({name: cells for name, cells in numbers.items() if name not in shares or np.nanmin(cells) > 0})
    both = {f"{ONE_OF}{share}": numbers[share] for share in shares} | logs
    for one in _linear(dict.fromkeys(both, 0.0), both, SPANNED, UP_TO_SHARES) if len(logs) > 1 else []:
        factors = [name for name in one.by if name in logs]
        for share in shares if one.name in logs else ():
            if share in many and {share, f"{ONE_OF}{share}"}.isdisjoint(one.by):
                continue
            by = [name for name in factors if name != share]
            for whole, log in _one_and(numbers[share]) if by and share != one.name else ():
                x = np.stack([log, *(logs[name] for name in by), logs[one.name]], 1)
                x = x[np.isfinite(x).all(1)]
                z = _standardised(x[evenly(len(x), FEW_ROWS)])
                if len(z) >= FEWEST and z.any(0).all() and np.sqrt(np.mean(_left(z[:, :-1], z[:, -1]) ** 2)) <= NEAR:
                    yield Redundant(one.name, (share, *by), "product", percent=(share, whole))


def _one_and(cells: Floats) -> Iterator[tuple[float, Floats]]:
    """By what a share [N] is divided, in percent and not, and the logarithm of 1 less that, and more."""
    for size in (100.0, 1.0):
        for whole in (-size, size) if np.nanmax(cells) <= size else ():
            with np.errstate(divide="ignore"):
                yield whole, np.log(1 + cells / whole)


def shares_among(numbers: Mapping[str, Floats]) -> list[str]:
    """The columns of numbers [N] that may be shares, in percent or not: those with few different values first,
    MOST_SHARES of them."""
    counts = {name: _values_of_share(cells) for name, cells in numbers.items()}
    some = [name for name, count in counts.items() if 1 < count <= MOST_OF_SHARE]
    return sorted(some, key=lambda name: counts[name] > FEW_OF_SHARE)[:MOST_SHARES]


def _values_of_share(cells: Floats) -> int:
    """How many different values cells [N] have, if they may be shares, in percent or not, from 0 to 100; else 0."""
    seen = np.unique(cells[np.isfinite(cells)])
    return len(seen) if len(seen) and seen[0] >= 0 and seen[-1] <= 100 else 0


def _linear(
    digits: Mapping[str, float], codes: dict[str, Floats], spanned: float = EXACT, least: float = NEAR
) -> list[Redundant]:
    """Those of some columns, with half of what their last digits count, that are linear functions of earlier ones up to
    at least the share `least` of their standard deviations; one of which these leave no more than the share `spanned`
    of its standard deviation says nothing of later ones. And those that all others leave as much of as half a last
    digit does."""
    if not 1 < len(digits) <= MOST:
        return []
    names, x = list(digits), np.stack([codes[name] for name in digits], 1)
    scale = np.maximum(np.nanmax(np.abs(x), 0), np.finfo(float).tiny)  # squares of the greatest numbers overflow
    x = x / scale
    seen = ~np.isnan(x)
    sd = np.maximum(np.nanstd(x, 0), np.finfo(float).tiny)
    halves = np.array(list(digits.values())) / scale / sd
    near = np.clip(ROUNDING * halves, least, ROUGH)
    lines = _lines(names, x, seen, _Left(near, halves))
    taken = {line.name for line in lines if line.exact}
    kept = [i for i, name in enumerate(names) if name not in taken]
    whole = np.flatnonzero(seen[:, kept].all(1))
    if len(whole) < max(FEWEST, 2 * len(kept)):
        if len(kept) > MOST_NOTED:
            return lines
        some = evenly(len(x), FEW_ROWS)
        return lines + _pursued([names[i] for i in kept], x[some][:, kept], _Left(near[kept], halves[kept]))
    some = whole[evenly(len(whole), ROWS)]
    most = _Left(near[kept], halves[kept])
    return lines + _of_several([names[i] for i in kept], _standardised(x[some][:, kept]), most, spanned)


class _Left(NamedTuple):
    """What others may leave of columns, as shares of their standard deviations.

    near    [columns] at most
    halves  [columns] half of what their last digits count
    """

    near: Floats
    halves: Floats

    def by_rounding(self, sizes: Floats) -> Bools:
        """Whether it is as much, by these standard deviations [columns], as rounding to the last digit leaves."""
        return np.asarray(
            (sizes >= SCREENED * COARSE * self.halves) & (sizes <= np.minimum(self.near, ROUNDING * self.halves))
        )


def _lines(names: Sequence[str], x: Floats, seen: Bools, most: _Left) -> list[Redundant]:
    """Of x [N, columns], observed where `seen`: those that are linear in one earlier column, where this leaves at most
    `most` of them, and those that are so in any other one, the one that leaves least, which leaves what rounding
    does."""
    n, r = pairwise_r(x)
    r2, near = np.square(r), most.near
    found = []
    for later in range(len(names)):
        for least in sorted({NEAR, float(near[later])}):
            close = [i for i in range(later) if n[later, i] >= FEWEST and r2[later, i] > 1 - least**2]
            for earlier in close[:1]:
                both = _standardised(x[seen[:, later] & seen[:, earlier]][:, [earlier, later]])
                left = _left(both[:, :1], both[:, 1])
                size = float(np.sqrt(np.mean(np.square(left))))
                mostly = _mostly(left, both[:, 1])
                found.append(Redundant(names[later], (names[earlier],), _how("line", least), size <= EXACT, mostly))
            if close:
                break
    sizes = np.sqrt(1 - np.where((n >= FEWEST) & np.isfinite(r2) & ~np.eye(len(r2), dtype=bool), r2.clip(0, 1), 0.0))
    best = sizes.argmin(1)
    said = {(one.name, one.by) for one in found}
    for i in np.flatnonzero(most.by_rounding(sizes.min(1))).tolist():
        by = (names[best[i]],)
        if (names[i], by) not in said:
            found.append(Redundant(names[i], by, _how("line", float(sizes[i].min())), False, backwards=True))
    return found


def _how(how: str, left: float) -> str:
    """What a line or a sum is called that leaves such a share of a standard deviation."""
    return how if left <= NEAR else "rounded"


def pairwise_r(x: Floats) -> tuple[Floats, Floats]:
    """Of each two columns of x [N, columns], NaN where a cell is missing: in how many rows both are observed, and their
    correlation there; NaN or infinite where one does not vary. Squares must not overflow."""
    seen = ~np.isnan(x)
    o, x = seen.astype(float), np.where(seen, x, 0.0)
    n = o.T @ o
    with np.errstate(divide="ignore", invalid="ignore"):
        centred = np.where(seen, x - x.sum(0) / seen.sum(0), 0.0)
        sd = np.sqrt(np.square(centred).sum(0) / seen.sum(0))
        z = centred / np.maximum(sd, np.finfo(float).tiny)
        mean = (z.T @ o) / n  # [a, b]: of a in the rows that have b too
        square = (np.square(z).T @ o) / n - mean**2
        return n, ((z.T @ z) / n - mean * mean.T) / np.sqrt(square * square.T)


def _of_several(names: Sequence[str], z: Floats, most: _Left, spanned: float = EXACT) -> list[Redundant]:
    """Of standardised columns z [N, columns]: those that are linear in earlier ones, where these leave at most `most`
    of them, or in all others, where these leave what rounding does, and in which; see `_linear`."""
    near = most.near
    found: list[Redundant] = []
    kept: list[int] = []
    basis = np.empty(z.shape)  # of what the kept columns span: its first len(kept) columns, orthonormal
    for later, name in enumerate(names):
        left = z[:, later]
        if not left.any():
            continue  # constant in these rows: nothing can be said of it
        for _ in range(2):  # twice, since once leaves a share of the rounding error in what is nearly spanned
            left = left - basis[:, : len(kept)] @ (basis[:, : len(kept)].T @ left)
        size = float(np.sqrt(np.mean(np.square(left))))
        if len(kept) > 1 and size <= near[later]:
            weights = np.abs(np.linalg.lstsq(z[:, kept], z[:, later], rcond=None)[0])
            for least in (WEIGHT, SLIGHT) if size <= NEAR else (PART,):
                parts = tuple(names[i] for i, weight in zip(kept, weights, strict=True) if weight > least)
                if size > NEAR and not 1 < len(parts) <= MOST_OF_MEAN:
                    continue
                if not found or found[-1].name != name or found[-1].by != parts:
                    exact, mostly = size <= EXACT, _mostly(left, z[:, later])
                    found.append(Redundant(name, parts, _how("sum", size), exact, mostly))
        if size > (spanned if len(kept) > 1 else 0):
            basis[:, len(kept)] = left / np.linalg.norm(left)
            kept.append(later)
    inverse = np.linalg.inv(np.triu(basis[:, : len(kept)].T @ z[:, kept]))  # z[:, kept] = basis @ a triangular matrix
    some, precision = _Left(near[kept], most.halves[kept]), len(z) * inverse @ inverse.T
    for i in np.flatnonzero(some.by_rounding(1 / np.sqrt(np.diag(precision)))).tolist():
        for others, size in _needed(precision, i, some):
            parts = tuple(names[kept[j]] for j in others)
            if 1 < len(parts) <= (MOST_OF_MEAN if size > NEAR else len(kept)):
                found.append(Redundant(names[kept[i]], parts, _how("sum", size), False, backwards=True))
    return found


def _needed(precision: Floats, i: int, most: _Left) -> Iterator[tuple[list[int], float]]:
    """Of columns with such a precision matrix those that are needed for the others to leave of one of them, at place i,
    as much as rounding does, and how much they leave: without those, one at a time, without which they leave the least;
    and then all. What goes together with the column as closely as they do together hides that."""
    rest, size, left = list(range(len(precision))), 1 / np.sqrt(precision[i, i]), precision
    while len(rest) > 2:
        own = rest.index(i)
        without = left[own, own] - np.square(left[own]) / np.diag(left)
        without[own] = -np.inf
        drop, after = int(without.argmax()), 1 / np.sqrt(max(float(without.max()), np.finfo(float).tiny))
        if not most.by_rounding(np.full(len(precision), after))[i]:
            break
        left = np.delete(np.delete(left - np.outer(left[drop], left[drop]) / left[drop, drop], drop, 0), drop, 1)
        del rest[drop]
        size = after
    if len(rest) < len(precision):
        yield [j for j in rest if j != i], float(size)
    yield [j for j in range(len(precision)) if j != i], float(1 / np.sqrt(precision[i, i]))


def _pursued(names: Sequence[str], x: Floats, most: _Left) -> list[Redundant]:
    """As `_of_several`, of columns x [N, columns] of which hardly a row has all; a column may come several times, with
    more parts each time."""
    near = most.near
    found: list[Redundant] = []
    kept: list[int] = []
    r = likely_r(x)
    for later, name in enumerate(names):
        weights = np.abs(np.linalg.solve(r[np.ix_(kept, kept)], r[kept, later]))
        ways = _parts(x[:, later], x[:, kept]), _parts(x[:, later], x[:, kept], np.argsort(-weights, kind="stable"))
        own: list[Redundant] = []
        for parts, size in itertools.chain(*ways):
            if len(parts) > 1 and size <= near[later]:
                by = tuple(names[kept[part]] for part in sorted(parts))
                own.append(Redundant(name, by, _how("sum", size), size <= EXACT))
        found += own
        if not any(one.exact for one in own):
            kept.append(later)
    spread = 1 / np.diag(np.linalg.inv(r[np.ix_(kept, kept)]))
    for column in np.array(kept, int)[spread <= LIKELY * RIDGE].tolist():
        others = [other for other in kept if other != column]
        closest = others[int(np.abs(r[column, others]).argmax())]
        for some in (others, [other for other in others if other != closest]):
            weights = np.abs(np.linalg.solve(r[np.ix_(some, some)], r[some, column]))
            order = np.argsort(-weights, kind="stable")
            ways = _parts(x[:, column], x[:, some]), _parts(x[:, column], x[:, some], order)
            for parts, size in itertools.chain(*ways):
                if len(parts) > 1 and most.by_rounding(np.full(len(near), size))[column]:
                    by = tuple(names[some[part]] for part in sorted(parts))
                    found.append(Redundant(names[column], by, _how("sum", size), False, backwards=True))
    return found


def likely_r(x: Floats) -> Floats:
    """[columns, columns] correlations of x [N, columns] by the rows that have both, with variances added that make them
    those of some law."""
    n, r = pairwise_r(x)
    r = np.where((n >= FEWEST) & np.isfinite(r), np.clip(r, -1.0, 1.0), 0.0)
    np.fill_diagonal(r, 1.0)
    values, vectors = np.linalg.eigh(r)
    return np.asarray(vectors * (np.maximum(values, 0.0) + RIDGE) @ vectors.T)


def _parts(y: Floats, x: Floats, order: Ints | None = None) -> Iterator[tuple[list[int], float]]:
    """Columns of x [N, columns] of which y [N] is nearly a sum, one more at a time, and the standard deviation that
    they leave of a standardised y, by the rows that have them: in some order, else the next one goes best with what the
    others leave (matching pursuit; Mallat and Zhang 1993)."""
    parts: list[int] = []
    left, before, known = y, 1.0, ~np.isnan(y)
    pairs = ByPairs.of(x) if order is None else None
    while len(parts) < min(MOST_PARTS, x.shape[1]):
        if pairs is not None:
            fit = pairs.correlations(ByPairs.of(left[:, None]))[0]
            fit[parts] = -1.0
            if fit.max() < 0:
                return  # hardly a row has another one
            parts = [*parts, int(fit.argmax())]
        elif order is not None:
            parts = order[: len(parts) + 1].tolist()
        some = x[:, parts]
        rows = ~np.isnan(some).any(1) & known
        if rows.sum() < max(FEWEST, 2 * (len(parts) + 1)):
            return
        z = _standardised(np.column_stack([some[rows], y[rows]]))
        if not z.any(0).all():
            return  # a column is constant in these rows: nothing can be said of it
        left = np.full(len(y), np.nan)
        left[rows] = z[:, -1] - z[:, :-1] @ np.linalg.lstsq(z[:, :-1], z[:, -1], rcond=None)[0]
        size = float(np.sqrt(np.mean(np.square(left[rows]))))
        yield parts, size
        if size <= EXACT or (order is None and size > GAIN * before):
            return
        before = size


class ByPairs(NamedTuple):
    """Columns [N, columns] less their means and in units of their standard deviations, 0 where a cell is missing, their
    squares, and where they have a cell (1)."""

    x: Floats
    squares: Floats
    seen: Floats

    @classmethod
    def of(cls, x: Floats) -> Self:
        seen = (~np.isnan(x)).astype(np.float64)
        n = np.maximum(seen.sum(0), 1)
        centred = np.where(seen > 0, x, 0.0)
        centred = centred / np.maximum(np.abs(centred).max(0, initial=0.0), np.finfo(float).tiny)
        centred = (centred - centred.sum(0) / n) * seen
        sd = np.sqrt(np.square(centred).sum(0) / n)
        centred /= np.where(sd > 0, sd, 1.0)
        return cls(centred, np.square(centred), seen)

    def correlations(self, others: ByPairs) -> Floats:
        """[others, columns] the size of the correlation of each of some other columns, of the same rows, with each of
        these, by the rows that have both; -1 of fewer than FEWEST."""
        both = others.seen.T @ self.seen
        n = np.maximum(both, 1)
        sum_x, sum_y = others.seen.T @ self.x, others.x.T @ self.seen
        of_x, of_y = others.seen.T @ self.squares, others.squares.T @ self.seen
        var_x, var_y = of_x - np.square(sum_x) / n, of_y - np.square(sum_y) / n
        varies = (var_x > CONSTANT * of_x) & (var_y > CONSTANT * of_y)
        spread = np.sqrt(np.where(varies, var_x * var_y, np.inf))
        return np.where(both < FEWEST, -1.0, np.abs(others.x.T @ self.x - sum_x * sum_y / n) / spread)


def _left(by: Floats, y: Floats) -> Floats:
    """[N] what linear regression of y [N] on by [N, n], all standardised, leaves; infinite where rows are too few."""
    if len(y) <= by.shape[1] + 1:
        return np.full(len(y), np.inf)
    weights = np.linalg.lstsq(by, y, rcond=None)[0]
    return np.asarray(y - by @ weights)


def _mostly(left: Floats, y: Floats) -> bool:
    """Whether what is left [N] of numbers y [N] is little in most rows, beside how far these are from their median."""
    away = np.abs(y - np.median(y))
    away = away[away > 0]
    return not len(away) or bool(np.median(np.abs(left)) <= NEAR * np.median(away))


def _standardised(x: Floats) -> Floats:
    sd = x.std(0)
    sd[sd <= CONSTANT * np.abs(x).max(0, initial=0.0)] = 0.0
    centred: Floats = (x - x.mean(0)) / np.where(sd > 0, sd, np.inf)
    return centred
