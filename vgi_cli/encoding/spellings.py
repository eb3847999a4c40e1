"""What the texts of levels say beside which level a cell is: that there is no value, the same in several spellings, or
a place on a scale of words or bands."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from vgi_cli.columns.base import Column
from vgi_cli.columns.boolean import truth_key
from vgi_cli.columns.categorical import Categorical
from vgi_cli.columns.lattice import mostly_gaps
from vgi_cli.columns.levelled import Levelled, key_of, number_of, numeric
from vgi_cli.columns.word_scales import in_order
from vgi_cli.columns.wording import (
    COMMA,
    MOST_TOKENS,
    REPLACED,
    SHOWN,
    columns_said,
    folded,
    kind_flag,
    made_missing,
    named,
    token_flags,
)
from vgi_cli.encoding.texts import UNKNOWN, as_levels
from vgi_cli.table.base import Table

NINES = re.compile(r"-?9{2,}")
NINE, NINE_AWAY = "9", 2
"""The same of codes with one digit, and how far from the others it is at least, if farther than these reach."""
NINES_AWAY = 0.5
"""How far from the other values 99, -999 and the like have to be, in units of the range of these."""
MOST_CODES = 3
"""Such codes of one column at most, and distinct values at either end of it that may be far from the others."""
NEGATIVE = re.compile(r"-(?:[1-9]|77+|88+|99+|9[678])")
"""Codes of surveys for cells without an answer: -1, -9, -77, -88, -99, -97."""
UNANSWERED = (7.0, 8.0, 9.0)
"""Codes of surveys beside answers of one digit: not applicable, don't know, refused."""
TRUTHS = frozenset({"true", "false", "yes", "no", "0", "1"})
"""Truth values in small letters, those of one letter aside, which may be other levels."""


def missing_levels(table: Table, columns: Sequence[Column]) -> list[str]:
    """Columns with levels that may stand for missing cells."""
    every: dict[tuple[str, ...], dict[str, dict[str, int]]] = {}
    for column in columns:
        found: dict[str, int] = {}
        if isinstance(column, Levelled):
            levels = list(column.levels)
            scale = (in_order(levels) or ()) if column.kind == "ordinal" else ()  # none, mild, moderate, severe
            for level in like_missing(levels):
                if level in scale:
                    continue
                count = int((column.codes(table.column(column.name)) == levels.index(level)).sum())
                found |= {level: count} if count else {}
        if found:
            every.setdefault(tuple(found), {})[column.name] = found
    return [_unanswered(table, found) for found in every.values()]


def like_missing(levels: Sequence[str]) -> list[str]:
    """Those of the levels of a column that may stand for missing cells."""
    negative = [level for level in levels if level.startswith("-")]
    others = [level for level in levels if level not in negative]
    beside = _beside_nines(levels)
    coded = len(others) > 1 and all(map(COMMA.fullmatch, others)) and all(map(NEGATIVE.fullmatch, negative))
    numbers = sorted(number for level in levels if (number := number_of(level)) is not None)
    codes = codes_above(numbers) if len(numbers) == len(levels) else ()
    above = codes if codes and codes_alone(codes, numbers[-len(codes) - 1]) else ()
    return [
        level
        for level in levels
        if level.casefold() in UNKNOWN
        or NINES.fullmatch(level)
        or level in beside
        or (coded and level in negative)
        or (level == NINE and _far_nine(levels))
        or number_of(level) in above
    ]


def codes_above(values: Sequence[float]) -> tuple[float, ...]:
    """Those of the different values of a column, smallest first, that may be codes for cells without an answer: 7, 8 or
    9 beyond a gap above whole numbers from 0 or 1 on without one."""
    steps = next((i for i, value in enumerate(values) if value != values[0] + i), len(values))
    codes = tuple(values[steps:])
    return codes if steps > 1 and values[0] in (0, 1) and set(codes) <= set(UNANSWERED) else ()


def codes_alone(codes: Sequence[float], highest: float) -> bool:
    """Whether such codes of one column are no chance: 8 and 9 (and 7), and two numbers at least between them and the
    highest value of the scale."""
    return len(codes) > 1 and codes[-2:] == UNANSWERED[1:] and codes[0] - highest > NINE_AWAY


def _far_nine(levels: Sequence[str]) -> bool:
    """Whether 9 is far from the other levels, all of them small whole numbers (sex: 1, 2, and 9 for unknown)."""
    others = [number_of(level) for level in levels if level != NINE and not level.startswith("-")]
    small = [number for number in others if number is not None and 0 <= number < 9 and number == int(number)]
    return 1 < len(small) == len(others) and 9 - max(small) > max(max(small) - min(small), NINE_AWAY)


def _beside_nines(levels: Sequence[str]) -> list[str]:
    """Of levels that are numbers those beside one of nines, where all of these are far from the others."""
    numbers = {level: number for level in levels if (number := number_of(level)) is not None}
    found: list[str] = []
    for nines in [number for level, number in numbers.items() if NINES.fullmatch(level)]:
        for run in codes_beside(nines, set(numbers.values())):
            rest = [number for number in numbers.values() if number not in run]
            gap = min((abs(run[-1] - number) for number in rest), default=0.0)
            if len(rest) > 1 and gap > NINES_AWAY * (max(rest) - min(rest)):
                found += [level for level, number in numbers.items() if number in run[1:]]
    return found


def codes_beside(nines: float, known: Collection[float]) -> list[list[float]]:
    """Of known numbers those that stand with one of nines as codes of surveys do: 99, 98 and 97, or 99, 88 and 77; none
    where they go on beyond MOST_CODES of them."""
    found = []
    for step in (float(np.sign(nines)), nines / 9):
        run = [nines]
        while len(run) <= MOST_CODES and run[-1] - step in known:
            run.append(run[-1] - step)
        if 1 < len(run) <= MOST_CODES:
            found.append(run)
    return found


def numbers_as_codes(table: Table, columns: Sequence[Column]) -> list[str]:
    """Columns of more than two plain numbers that were taken for codes, since there are wide gaps between them, also
    without those that may stand for missing cells."""
    lines = []
    for column in columns:
        cells = table.column(column.name)
        if not isinstance(column, Categorical) or cells.dictionary or not numeric(cells):
            continue
        unlike = like_missing(column.levels)
        levels = [level for level in column.levels if level not in unlike]
        numbers = sorted(number for level in levels if (number := number_of(level)) is not None)
        if len(numbers) > 2 and mostly_gaps(tuple(numbers), float(np.gcd.reduce(np.diff(numbers).astype(np.int64)))):
            why = as_levels(cells, len(column.levels), "integer")
            lines.append((column.name, f"column '{column.name}' is taken for categories: {why}"))
    return folded(lines)


def _unanswered(table: Table, found: Mapping[str, Mapping[str, int]]) -> str:
    """A line on columns with the same levels that may stand for missing cells, by column how many cells hold each."""
    names, first = list(found), next(iter(found.values()))
    counts = {level: sum(own[level] for own in found.values()) for level in first}
    said = [f"'{level}' ({count:,} cell{'s' * (count != 1)})" for level, count in counts.items()]
    more = f" and {len(said) - MOST_TOKENS} more" if len(said) > MOST_TOKENS else ""
    are, means = ("is a level", "it means") if len(said) == 1 else ("are levels", "they mean")
    where = f"{', '.join(said[:MOST_TOKENS])}{more} {are} of {named('column', names)}"
    return f"{where}: {means_nothing(table, names, list(first))} if {means} missing"


def means_nothing(table: Table, names: Sequence[str], levels: Sequence[str]) -> str:
    """How levels of some columns are made to mean missing in all of these."""
    if len(names) == 1 and len(levels) == 1:
        return made_missing(table.column(names[0]), levels[0])
    if table.in_memory:
        return REPLACED
    said = columns_said(names, table.names)
    others = ", and so in the others," * (said is None)
    return f"`{token_flags(said or names[0], levels)}`{others}"


def spelled_alike(columns: Sequence[Column]) -> list[str]:
    """Columns some of whose levels differ in capitals, blanks, points and the form of accents alone, or are truth
    values in several spellings."""
    lines = []
    for column in columns:
        if not isinstance(column, Levelled):
            continue
        truths = all(key_of(level).casefold() in TRUTHS for level in column.levels)
        groups: dict[str, list[str]] = {}
        for level in column.levels:
            groups.setdefault(truth_key(level) if truths else _bare(level), []).append(level)
        alike = [levels for key, levels in groups.items() if len(levels) > 1 and (truths or not key.isdigit()) and key]
        if alike:
            shown = "; ".join(_spellings(levels) for levels in alike[:SHOWN])
            more = f"; and {len(alike) - SHOWN} more" if len(alike) > SHOWN else ""
            what = f"column '{column.name}' has levels that look like one in several spellings: {shown}{more}"
            lines.append((column.name, f"{what}; each is a level of its own until the table spells them alike"))
    return folded(lines)


def _bare(level: str) -> str:
    """What is left of a level without the differences that are none to a person."""
    text = unicodedata.normalize("NFC", level.casefold())
    return re.sub(r"(?<=\w)[\s_.]+$|[\s._-]+(?=[^\s._-])", "", text)


def _spellings(levels: Sequence[str]) -> str:
    """Levels for a person; what looks the same is told apart by the characters of which it is made."""
    shown = ", ".join(f"'{level}'" for level in levels)
    forms = len({unicodedata.normalize("NFC", level) for level in levels}) < len(levels)
    return f"{shown} (an accented letter is one character or two: NFC, NFD)" if forms else shown


def scales_of_words(columns: Sequence[Column]) -> list[str]:
    """Columns whose levels have an order that their texts say, and are modelled without one."""
    lines = []
    for column in columns:
        if isinstance(column, Levelled) and not column.ordered and column.kind == "categorical":
            order = in_order(column.levels)
            if order is not None:
                flag = kind_flag(column.name, f"ordinal:{','.join(map(_listed, order))}")
                lines.append(
                    (column.name, f"the levels of column '{column.name}' look like a scale: `{flag}` if it is")
                )
    return folded(lines)


def _listed(level: str) -> str:
    """A level in a list with commas between them."""
    return f'"{level}"' if "," in level else level
