"""Columns that may not be what they look like: numbers read as text, codes for missing read as numbers, slips of a pen;
rows that may be none.

Nothing here changes how a table is read: these are lines for the user, with the flag that would change it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from vgi_cli.columns.base import Column, ModelledColumn
from vgi_cli.columns.blanks import flags_of, undefined_in, undefined_where
from vgi_cli.columns.levelled import Levelled, number_of
from vgi_cli.columns.number import THREE, Number, mostly_threes
from vgi_cli.columns.numerals import EXACT, Bools, Floats, plain
from vgi_cli.columns.schema import Schema
from vgi_cli.columns.skips import Threshold
from vgi_cli.columns.wording import (
    Alarm,
    are,
    capped,
    code_line,
    columns_said,
    either,
    first_cell,
    folded,
    kind_flag,
    made_missing,
    named,
    token_flag,
    typed,
)
from vgi_cli.encoding.absent import words_for_missing
from vgi_cli.encoding.answers import several_answers
from vgi_cli.encoding.circular import angles
from vgi_cli.encoding.codes import as_written, unlike_others_among, without_codes
from vgi_cli.encoding.doubled import doubled
from vgi_cli.encoding.dummies import dummies
from vgi_cli.encoding.groups import NAME, Ranked, repeated
from vgi_cli.encoding.limits import limits_as_missing
from vgi_cli.encoding.mostly_empty import mostly_empty
from vgi_cli.encoding.ranks import ranks
from vgi_cli.encoding.redundant import codes_of, looked_for
from vgi_cli.encoding.scale_codes import scale_codes
from vgi_cli.encoding.seasons import seasons
from vgi_cli.encoding.series import series
from vgi_cli.encoding.shuffled import shuffled_keys
from vgi_cli.encoding.skips import Skipped, alike, needed, skipped, thresholds_among
from vgi_cli.encoding.spellings import (
    means_nothing,
    missing_levels,
    numbers_as_codes,
    scales_of_words,
    spelled_alike,
)
from vgi_cli.encoding.texts import text_doubts, thousands
from vgi_cli.encoding.totals import totals, units
from vgi_cli.encoding.two_units import two_units
from vgi_cli.table.base import Table

FEWEST = 10
"""Fewest values from which a column is learnt."""
FEWEST_ROWS = 20
"""Fewest rows that a column can be said to number."""
KEY = re.compile(r"(?:(?:^|[\W_])(?i:id|key|code|nr|no|number)|[a-z](?:ID|Id|Key|Code|Nr|No|Number))$")
"""What the name of a key ends with: `id`, `patient_id`, `PatientID`, but not `humid`."""
CODE = re.compile(
    r"(?i)(?:^|[\W_])(?:zip|zip_?code|post_?code|postal_?code|plz|phone|telephone|tel|mobile|fax|ssn|iban|isbn|ean|upc|sku"
    r"|imei|(?:cust|customer|account|card|phone|telephone|passport)_?(?:no|num|number))\d*(?:$|[\W_])"
)
"""Names of codes that are written with digits."""
LONG_CODE = 10
"""Digits that all numbers of a column have, from which on they may be telephone numbers or numbers of cards."""
HARDLY_TWICE = 0.9
"""Share of different ones among such numbers, at least."""
LONG_ID, OFTEN = 12, 0.5
"""Digits from which on they may be ids whatever that share is (of a subscriber, of an article); and the share at most
where ids that go up come from rows in their order."""
EPOCHS = (6.3e8, 2.2e9)
"""Seconds since 1970 in 1990 and in 2039: such numbers, and their thousandth and millionth parts, are times."""
FEWEST_DATES = 10
"""Fewest different numbers that are all dates not by chance."""
SCALE, COUNTS = (3, 10), 5
"""Fewest and most whole numbers of a scale; and fewest from 0 on that may be counts of something rare."""
YEAR, YEARS = "year", (1000, 2100)
"""What the name of a column of years holds, and the first and the last of these."""
ALL_AT_ONCE = "all at once in the recipe of `--dry-run` (another kind in place of `integer`, then `--recipe FILE`)"
FEWEST_TICKS, TICKS = 10, 0.3
"""Rows, and share of them without a cell, from which on a column of one value may be of boxes to tick."""


def suspects(
    table: Table, schema: Schema, said: Collection[str] = (), skips: Sequence[Skipped] | None = None
) -> list[str]:
    """One line for each doubt. `said`: columns whose kind the user named; `skips`: what `skipped` found in the table,
    where that was asked."""
    unnamed = [column for column in schema.columns if column.role == "data" and column.name not in said]
    doubts = (
        units(table, unnamed)
        + thousands(table, unnamed)
        + text_doubts(table, unnamed)
        + several_answers(table, unnamed)
    )
    doubts += numbers_as_codes(table, unnamed)
    doubts += limits_as_missing(table, schema) + words_for_missing(table, schema)
    doubts += missing_levels(table, schema.encoded) + scale_codes(table, unnamed) + spelled_alike(schema.encoded)
    ranked = Ranked(table, schema, said)
    names = {*ranked.coded, *ranked.numbered}
    scales = _scales(table, [column for column in unnamed if column.name not in names])
    doubts += scales + scales_of_words(unnamed) + _unordered(table, unnamed)
    keys = (
        _counters(table, schema, said) + _keys(table, schema, said) + _codes(table, schema, {*said, *ranked.numbered})
    )
    keys += _dates(table, schema, said) + _inexact(schema)
    found = skipped(table, schema) if skips is None else skips
    return (
        doubts
        + totals(table, schema)
        + keys
        + doubled(table, schema, _names_rows)
        + repeated(ranked)
        + series(table, schema)
        + seasons(table, schema)
        + angles(table, unnamed)
        + ranks(table, schema)
        + _ticked(table, schema)
        + dummies(table, schema)
        + _scarce(table, schema)
        + mostly_empty(table, schema)
        + _skipped(table, schema, found)
        + _undefined(table, schema)
        + _far_away(table, schema)
        + two_units(table, schema)
    )


def _scales(table: Table, columns: Sequence[Column]) -> list[str]:
    """Whole numbers that look like a scale, and are modelled as quantities."""
    names, threes = [], []
    for column in columns:
        if isinstance(column, Number) and column.steps is not None:
            codes = column.codes(table.column(column.name))[~table.missing(column.name)]
            held, counts = np.unique(codes, return_counts=True)
            if SCALE[0] <= len(held) <= SCALE[1] and not _rare(held, counts) and not _years(column.name, held):
                names.append(column.name)
                threes += [column.name] if column.steps == THREE else []
    lines: list[str] = []
    if mostly_threes(len(threes), sum(isinstance(column, ModelledColumn) for column in columns)):
        names = [name for name in names if name not in threes]
        what = f"{named('column', threes)} hold three whole numbers each, and are modelled as quantities"
        levels = f"`{kind_flag(threes[0], 'ordinal')}` or `{kind_flag(threes[0], 'categorical')}`"
        better = "genotypes (0, 1, 2) and codes are filled better as levels"
        lines.append(Alarm(f"{what}: {better}: {levels}; {ALL_AT_ONCE}"))
    if not names:
        return lines
    one = len(names) == 1
    quantities = "a quantity, as suits a scale" if one else "quantities, as suits scales"
    what = f"{named('column', names)} of few whole numbers {are(names)} modelled as {quantities} of even steps"
    uneven = f"`{kind_flag(names[0], 'ordinal')}` if the steps are uneven"
    levels = f"`{kind_flag(names[0], 'categorical')}` if {'it holds' if one else 'they hold'} codes"
    return [*lines, f"{what}: {uneven}, {levels}"]


def _years(name: str, values: Floats) -> bool:
    """Whether whole numbers of a column are years, by its name and their size."""
    return YEAR in name.casefold() and bool(((values >= YEARS[0]) & (values <= YEARS[1])).all())


def _rare(values: Floats, counts: npt.NDArray[np.int64]) -> bool:
    """Whether different whole numbers, each in so many cells, are counts of something rare, not the steps of a scale:
    from 0 on, most of them 0, and the larger the fewer, but for chance."""
    if len(values) < COUNTS or values[0] != 0 or 2 * counts[0] < counts.sum():
        return False
    return bool((np.diff(counts) <= 2 * np.sqrt(counts[1:])).all())


def _unordered(table: Table, columns: Sequence[Column]) -> list[str]:
    """Categories that are numbers, and have an order that the file does not keep."""
    names = [c.name for c in columns if isinstance(c, Levelled) and not c.ordered and table.scale(c.name) == ()]
    if not names:
        return []
    what = "an order that the file does not keep: taken for categories without one"
    return [
        f"{named('column', names)} {'has' if len(names) == 1 else 'have'} {what}; "
        f"`{kind_flag(names[0], 'ordinal')}` orders the numbers by size"
    ]


def _counters(table: Table, schema: Schema, said: Collection[str]) -> list[str]:
    """Columns that number the rows, in their order or in none: keys that would be modelled as quantities."""
    names, others = [], {*said}
    for column in schema.encoded:
        if isinstance(column, Number) and column.whole and column.name not in said:
            values = column.codes(table.column(column.name))
            if _counts(values):
                names.append(column.name)
            elif KEY.search(column.name) or CODE.search(column.name) or _years(column.name, values[~np.isnan(values)]):
                others.add(column.name)  # a line of its own says so, or it is none
    shuffled = shuffled_keys(table, schema, {*others, *names})
    if not names:
        return shuffled
    its, flags = ("its", "it is a key") if len(names) == 1 else ("their", "they are keys")
    rule = f"`{typed('--id', names[0])}` or `{typed('--exclude', names[0])}` if {flags}"
    return [f"{named('column', names)} {are(names)} modelled, but {its} values number the rows: {rule}", *shuffled]


def _keys(table: Table, schema: Schema, said: Collection[str]) -> list[str]:
    """Columns of whole numbers that are called a key, and hold no value twice (those that number the rows aside)."""
    lines = []
    for column in schema.encoded:
        called = KEY.search(column.name) and not CODE.search(column.name)
        if isinstance(column, Number) and column.whole and column.name not in said and called:
            values = column.codes(table.column(column.name))
            observed = values[~np.isnan(values)]
            if len(observed) >= FEWEST_ROWS and len(np.unique(observed)) == len(observed) and not _counts(values):
                rule = f"`{typed('--id', column.name)}` or `{typed('--exclude', column.name)}` if it is one"
                what = "is modelled, but it has the name of a key, and no value twice"
                lines.append(f"column '{column.name}' {what}: {rule}")
    return capped(lines)


def _names_rows(name: str) -> bool:
    """Whether a column has the name of a key, or of what rows may share."""
    return bool(KEY.search(name) or NAME.fullmatch(name)) and not CODE.search(name)


def _counts(values: Floats) -> bool:
    return len(values) >= FEWEST_ROWS and bool((np.diff(values) == 1).all())


def _ticked(table: Table, schema: Schema) -> list[str]:
    """Columns of one value, or nothing, which may mean no."""
    lines = []
    for column in schema.constants:
        missing, cell = table.missing(column.name), column.spell(np.array([column.code]), None)[0]
        if len(missing) >= FEWEST_TICKS and missing.mean() >= TICKS:
            line = (
                f"column '{column.name}' holds '{cell}' or nothing ({missing.sum():,} of {len(missing):,} cells), and "
                f"its holes get '{cell}': where nothing means no (a box without a tick), "
                f"`{typed('--exclude', column.name)}` leaves it as it is, and writing 'no' there models it"
            )
            lines.append((column.name, line))
    return [Alarm(line) for line in folded(lines)]


def _scarce(table: Table, schema: Schema) -> list[str]:
    """Columns of which next to nothing is known."""
    counts = {column.name: int((~table.missing(column.name)).sum()) for column in schema.encoded}
    names = [name for name, count in counts.items() if count < FEWEST and 2 * count < table.N]
    if not names:
        return []
    have = "has" if len(names) == 1 else "have"
    return [f"{named('column', names)} {have} fewer than {FEWEST} values: the fills rest on very little"]


def _codes(table: Table, schema: Schema, said: Collection[str]) -> list[str]:
    """Columns of whole numbers that have the name of a code (postcodes, telephone numbers), or as many digits as codes
    have."""
    lines = []
    for column in schema.encoded:
        if not isinstance(column, Number) or not column.whole or column.name in said:
            continue
        values = column.codes(table.column(column.name))
        values = values[np.isfinite(values)]
        if len(np.unique(values)) < FEWEST_ROWS:
            continue
        what = "has the name of a code, and is modelled as a quantity"
        rule = f"`{kind_flag(column.name, 'carry')}` or `{typed('--exclude', column.name)}` if it is one"
        if CODE.search(column.name) is None:
            if KEY.search(column.name) or not _long_codes(values):
                continue
            digits = len(plain(float(values[0])))
            why = ", and hardly any occurs twice" if _hardly_twice(values) else ", as ids have"
            what = f"is modelled as a quantity, but all its numbers have {digits} digits{why}"
            rule = f"{rule.removesuffix('it is one')}they are codes"
        lines.append((column.name, f"column '{column.name}' {what}: {rule}"))
    return folded(lines)


def _long_codes(values: Floats) -> bool:
    """Whether whole numbers, all with as many digits, may be numbers of telephones or cards, or ids: quantities of so
    many digits have other numbers of them or are round, and times lie close together; a meter only goes up."""
    least, most = float(values.min()), float(values.max())
    digits = len(plain(least))
    if least < 10.0 ** (LONG_CODE - 1) or most >= min(10.0**digits, EXACT):
        return False
    steps, different = np.diff(values), np.unique(values)
    if not _hardly_twice(values) and (digits < LONG_ID or (different % 10 == 0).all()):
        return False
    if ((steps >= 0).all() or (steps <= 0).all()) and len(different) > OFTEN * len(values):
        return False
    times = any(EPOCHS[0] * per <= least and most <= EPOCHS[1] * per for per in (1.0, 1e3, 1e6))
    return not times and _calendar(np.unique(different // 10.0 ** (digits - 8))) != "dates"


def _hardly_twice(values: Floats) -> bool:
    """Whether nearly all of some values are different."""
    return len(np.unique(values)) >= HARDLY_TWICE * len(values)


def _dates(table: Table, schema: Schema, said: Collection[str]) -> list[str]:
    """Columns of whole numbers that are all dates or months, and are modelled as quantities."""
    lines = []
    for column in schema.encoded:
        if not isinstance(column, Number) or not column.whole or column.name in said or column.notation is not None:
            continue
        values = column.codes(table.column(column.name))
        values = np.unique(values[np.isfinite(values)])
        what = _calendar(values) if len(values) >= FEWEST_DATES else None
        if what is not None:
            cells = f"all cells of column '{column.name}' are {what} like {plain(float(values[0]))}"
            flag = f"`{kind_flag(column.name, 'date:%Y%m%d')}`"
            if what == "months":
                flag = f"`{kind_flag(column.name, 'carry')}`, or write them as dates,"
            lines.append((column.name, f"{cells}, modelled as quantities: fills may be none. {flag} if they are"))
    return [Alarm(line) for line in folded(lines)]


def _calendar(values: Floats) -> str | None:
    """Whether different whole numbers are all dates (20190131) or months (201901); None where they are not."""
    if (values >= 1_900_01_01).all() and (values <= 2_100_12_31).all():
        month, day = values // 100 % 100, values % 100
        return "dates" if ((month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)).all() else None
    if (values >= 1_900_01).all() and (values <= 2_100_12).all():
        month = values % 100
        several = len(np.unique(values // 100)) > 1
        return "months" if several and ((month >= 1) & (month <= 12)).all() else None
    return None


def _inexact(schema: Schema) -> list[str]:
    """Columns of whole numbers too large for float64."""
    lines = []
    for column in schema.encoded:
        if isinstance(column, Number) and column.whole and max(abs(column.low), abs(column.high)) >= EXACT:
            what = "holds whole numbers beyond 2^53 (9,007,199,254,740,992), which are read to some 16 digits"
            flag = typed("--exclude", column.name)
            lines.append((column.name, f"column '{column.name}' {what}: `{flag}` if they are ids"))
    return folded(lines)


def _far_away(table: Table, schema: Schema) -> list[str]:
    codes: dict[tuple[str, str], dict[str, int]] = {}
    slips: dict[str, dict[str, str]] = {}
    for column, far, what in unlike_others_among(table, schema):
        text = as_written(table, column, far.value)
        if far.cells > 1:
            codes.setdefault((text, what), {})[column.name] = far.cells
        elif not _called_key(column):
            cells = table.column(column.name)
            where = first_cell(cells, column.codes(cells) == far.value)
            slips.setdefault(column.name, {})[text] = where
    lines = []
    for (text, what), held in codes.items():
        names = [*held]
        line = f"{text} ({sum(held.values())} cells) is {what} of {named('column', names)}"
        shares = [(count, int((~table.missing(name)).sum())) for name, count in held.items()]
        lines.append(code_line(f"{line}: {_flags(table, schema, names, text)}", shares))
    return lines + capped([_slips(table, name, found) for name, found in slips.items()])


def _called_key(column: Column) -> bool:
    """Whether whole numbers have the name of a key or a code, which may lie anywhere."""
    called = KEY.search(column.name) or CODE.search(column.name)
    return isinstance(column, Number) and column.whole and called is not None


def _slips(table: Table, name: str, found: Mapping[str, str]) -> str:
    """A line on values of a column that are far from all others, each in one cell, which is named."""
    several = len(found) > 1
    what = f"{len(found)} values" if several else "a value"
    flags = means_nothing(table, [name], list(found))
    slips = "they are slips" if several else "it is a slip"
    return f"column '{name}' has {what} far from all others: {', '.join(found.values())}; {flags} if {slips}"


def _flags(table: Table, schema: Schema, names: list[str], text: str) -> str:
    """How a value is made to mean missing, in the one column that has it or in all; in these alone where it is a value
    of another one."""
    one = made_missing(table.column(names[0]), text)
    if len(names) == 1 or table.in_memory:
        return f"{one} if it means missing"
    others = [name for name in table.names if name not in names]
    value = number_of(text.replace(table.decimal, "."))
    held = value is not None and any((table.numeric(name) == value).any() for name in others)
    said = columns_said(names, table.names) if held else None
    every = typed("--na-values", text) if said is None else token_flag(said, text)
    return f"`{every}` if that means missing, {one} in '{names[0]}' alone"


def _skipped(table: Table, schema: Schema, found: Sequence[Skipped]) -> list[str]:
    """Columns without a cell in all rows of a level of another column (`found`), or beyond a number of it, and with
    cells in most other rows; and what to do where that column is no cause of the holes, once for all of them."""
    lines: list[tuple[str, str, str]] = []
    columns = {column.name: column for column in schema.encoded}
    kept = {(skip.name, skip.level) for skip in schema.skips}
    for one in needed(alike(found), table, schema):
        name, places, others = one.name, one.levels, one.others
        column, codes = columns[name], codes_of(table, columns[name])
        levels = column.spell(np.array(places, np.float64), None)
        quoted, against = [f"'{level}'" for level in levels], ""
        unknown = int((np.isnan(codes) & ~np.logical_and.reduce([table.missing(other) for other in others])).sum())
        free = [level for place, level in zip(places, quoted, strict=True) if (name, place) not in kept]
        if unknown and free:
            against = (
                f"; in {unknown:,} row{'s' * (unknown > 1)} with {'it' if len(others) == 1 else 'one of them'} "
                f"'{name}' is missing, and may be filled {either(free)} all the same"
            )
        where = f"'{name}' is {either(quoted)}"
        rows = _rows_without(one.excludes(codes), others, table)
        lines.append((name, _unasked(others, f"{rows} where {where}", flags_of(one, schema)), against))
    for rule in _thresholds(table, schema, found):
        limit = columns[rule.name].spell(np.array([rule.limit]), None)[0]
        rows = _rows_without(rule.excludes(codes_of(table, columns[rule.name])), rule.others, table)
        where = f"{rows} where '{rule.name}' is {rule.side} {limit}"
        what = _unasked(rule.others, where, flags_of(rule, schema))
        lines.append((rule.name, f"{what}; else they are extrapolated", ""))
    names = list(dict.fromkeys(name for name, _, _ in lines))
    if len(lines) == 1:
        return [f"{line}; {_restated(names)}{against}" for _, line, against in lines]
    return [*capped([line + against for _, line, against in lines]), *([_restated(names)] if lines else [])]


def _undefined(table: Table, schema: Schema) -> list[str]:
    """Cells that are missing since arithmetic leaves them no value."""
    columns, lines = {column.name: column for column in schema.encoded}, list[str]()
    for rule in undefined_in(schema.relations):
        rows = rule.excludes(codes_of(table, columns[rule.name])) & table.missing(rule.others[0])
        if count := int(rows.sum()):
            _, where = undefined_where(rule, schema)
            which = f"the {count:,} rows" if count > 1 else "a row"
            lines.append(
                f"column '{rule.others[0]}' has no value in {which} where {where}: fills there mean nothing "
                f"(`vgi impute {flags_of(rule, schema)}` leaves them blank)"
            )
    return capped(lines)


def _thresholds(table: Table, schema: Schema, found: Sequence[Skipped]) -> tuple[Threshold, ...]:
    """Those that no skip which was `found` explains, where the table is small enough to look for them."""
    if not looked_for(table, schema):
        return ()
    return thresholds_among(table, schema, [one.skip for one in found], without_codes(table, schema))


def _restated(names: Sequence[str]) -> str:
    """What to do where one of some columns is no cause of the holes."""
    which = either([f"'{name}'" for name in names])
    return (
        f"if {which} was derived from which cells are missing (the last visit of somebody who left, say), it tells "
        f"nothing else: `{typed('--exclude', names[0])}` leaves it out of the fit"
    )


def _rows_without(rows: Bools, others: Sequence[str], table: Table) -> str:
    """`the 263 rows`, `262 of the 263 rows`: how many of some rows [N] have no cell of some columns, which few have."""
    without = int((rows & np.logical_and.reduce([table.missing(other) for other in others])).sum())
    every = f"the {int(rows.sum()):,} rows"
    return every if without == rows.sum() else f"{without:,} of {every}"


def _unasked(others: Sequence[str], where: str, flags: str) -> str:
    """A line on columns that have no cell in some rows; `flags` leave them blank."""
    one = len(others) == 1
    has, apply = ("has", "it does") if one else ("have", "they do")
    return (
        f"{named('column', others)} {has} no cell in {where}, and cells in most others: if "
        f"{apply} not apply there, the fills of these rows mean nothing (`vgi impute {flags}` leaves them "
        "blank)"
    )
