"""Words that usually mean missing in CSV, and may be levels of a column."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from vgi_cli.columns.base import Column
from vgi_cli.columns.categorical import Categorical, ConstantLevel
from vgi_cli.columns.datetime import Moment
from vgi_cli.columns.levelled import Levelled, numeric
from vgi_cli.columns.number import Number
from vgi_cli.columns.numerals import Bools
from vgi_cli.columns.schema import Schema
from vgi_cli.columns.wording import Alarm, are, different, folded, token_flag
from vgi_cli.encoding.redundant import codes_of
from vgi_cli.table.base import Table
from vgi_cli.table.texts import DUMPED, WORDS

NONE = "None"
"""The word that is kept as a level of a column whose missing cells are written otherwise."""
BY_PROGRAMS = frozenset({*WORDS, DUMPED}) - {NONE, "N/A", "n/a"}
"""Words that programs write for a missing cell; by the others a person may mean an answer."""

FEWEST, NEARLY_ALL = 5, 0.95
"""Cells of such a word, and the share of them (and of the cells of each level) beside one level of another column, from
which on the word goes with that level as the levels of its column go with others."""
FEWEST_LEVELS, FEWEST_CODES = 3, 10
"""Fewest levels that go with others one to one not by chance, and fewest codes by which a word like them is one too."""
CODES = re.compile(r"[A-Z]{2}")
"""Codes as short as `NA`, of countries say."""


def levels_beside_holes(table: Table, columns: Sequence[Column]) -> list[str]:
    """Columns of categories in which `None` is most likely a level: cells that are missing are written otherwise there
    or, where none is, in other columns of the table, empty or as programs write them (`NA`). In data sets of R
    packages it is one in all of ten columns, three of which stand beside others with `NA`.

    Not where levels of the column are listed, where the user named the word, where the other levels are truth values
    (a program may have written `True`, `False` and `None`), where programs wrote in several ways what is missing there
    (`NA` and `null`: then `None` is one more), nor where a column of numbers or dates holds the word.
    """
    if table.origin.format != "csv":
        return []
    names = [
        column.name
        for column in columns
        if isinstance(column, Categorical | ConstantLevel)
        and column.name not in table.levels
        and not numeric(table.column(column.name))
        and NONE in _marks(table, column.name)
        and not any(NONE in texts for texts in table.tokens(column.name))
    ]
    marks = {column.name: _marks(table, column.name) for column in columns} if names else {}
    if any(NONE in marks[column.name] and _measured(table, column) for column in columns if names):
        return []
    everywhere = set().union(*marks.values()) - {NONE}
    return [name for name in names if _one_way(marks[name] - {NONE} or everywhere)]


def _marks(table: Table, name: str) -> set[str]:
    """What stands in the missing cells of a column."""
    return set(different(table.column(name), table.blank(name)))


def _one_way(marks: set[str]) -> bool:
    """Whether cells that are missing are empty, or hold one of the words that programs write, or either."""
    return not marks.isdisjoint({"", *BY_PROGRAMS}) and len(marks & BY_PROGRAMS) <= 1


def words_for_missing(table: Table, schema: Schema) -> list[str]:
    """Columns of texts whose holes are words that may be levels, none of them an empty cell.

    Not where a column of numbers or dates holds the same word, nor where it is one that programs write, in several
    columns of a table without an empty cell: then it is the table's mark of a missing cell.
    """
    if table.origin.format != "csv":
        return []
    found = {column.name: words for column in schema.columns if (words := _words(table, column))}
    marks: set[str] = set()
    empty = False
    for column in schema.columns if found else ():
        if column.name not in found:
            held = set(different(table.column(column.name), table.blank(column.name)))
            empty |= "" in held
            marks |= held if _measured(table, column) else set()
    if not empty:
        marks |= {word for word in BY_PROGRAMS if sum(word in words for words in found.values()) > 1}
    lines: dict[bool, list[tuple[str, str]]] = {True: [], False: []}
    for name, one in words_as_levels(table, schema).items():
        lines[True] += [] if name in found else [(name, _line_beside(name, one))]
    for name, words in found.items():
        if left := {word: count for word, count in words.items() if word not in marks}:
            lines[empty or not set(left) <= BY_PROGRAMS].append((name, _line(name, left)))
    return [*map(Alarm, folded(lines[True])), *folded(lines[False])]


class WordAsLevel(NamedTuple):
    """A word in missing cells that is most likely a level of their column.

    cells  how many hold it
    why    what speaks for it
    """

    word: str
    cells: int
    why: str


def words_as_levels(table: Table, schema: Schema) -> dict[str, WordAsLevel]:
    """By name those columns of categories in whose missing cells a word that usually means missing is most likely a
    level: it stands beside one level of another column alone, as each other level does, or all levels are codes like
    it. Such holes tell nothing of other columns.

    Not where another column has the word in missing cells too, for which nothing speaks so: it is the table's mark.
    """
    if table.origin.format != "csv":
        return {}
    levelled = [column for column in schema.encoded if isinstance(column, Levelled)]
    found: dict[str, WordAsLevel] = {}
    for column in levelled:
        words = {} if _marks(table, column.name).isdisjoint(WORDS) else _held_words(table, column)
        for word, cells in words.items():
            if word and cells >= FEWEST and (why := _speaks(table, column, word, levelled)):
                found[column.name] = WordAsLevel(word, cells, why)
    if not found:
        return {}
    marks = {word for column in schema.columns if column.name not in found for word in _marks(table, column.name)}
    return {name: one for name, one in found.items() if one.word not in marks}


def _speaks(table: Table, column: Levelled, word: str, levelled: Sequence[Levelled]) -> str | None:
    """What speaks for a word in missing cells of a column as one of its levels; None: nothing does."""
    holes = np.flatnonzero(table.blank(column.name))
    texts = np.array([str(text).strip() for text in table.some_text(column.name, holes)], object)
    held = np.zeros(table.N, bool)
    held[holes[texts == word]] = True
    for other in levelled:
        if other.name != column.name and (level := _goes_with(table, column, other, held)) is not None:
            return f"it stands beside '{level}' of column '{other.name}' alone, as each level stands beside one"
    levels = column.spell(np.arange(len(list(column.levels)), dtype=np.float64), None)
    if len(levels) >= FEWEST_CODES and all(CODES.fullmatch(text) for text in (word, *levels)):
        return "all levels are codes of two capital letters"
    return None


def _goes_with(table: Table, column: Levelled, other: Levelled, held: Bools) -> str | None:
    """The level of another column that a word, held [N] by missing cells of a column, goes with as the levels of that
    column go with others, one to one; None: there is none."""
    own, codes = codes_of(table, column), codes_of(table, other)
    known = ~np.isnan(codes)
    if (held & known).sum() < FEWEST:
        return None
    pairs = np.zeros((len(list(column.levels)) + 1, len(list(other.levels))), np.int64)
    both = known & ~np.isnan(own)
    np.add.at(pairs, (own[both].astype(int), codes[both].astype(int)), 1)
    np.add.at(pairs[-1], codes[held & known].astype(int), 1)
    seen = pairs[pairs.any(1)]
    beside = seen.argmax(1)
    most, rows, columns = seen.max(1), seen.sum(1), seen.sum(0)[beside]
    if len(seen) <= FEWEST_LEVELS or (most < NEARLY_ALL * np.maximum(rows, columns)).any():
        return None
    others = codes[table.missing(column.name) & ~held & known] == beside[-1]
    if 2 * others.sum() > len(others):  # all holes are there, however written: the column does not apply
        return None
    return str(other.spell(beside[-1:].astype(float), None)[0])


def _held_words(table: Table, column: Column) -> dict[str, int]:
    """The texts in missing cells of a column of texts, and how many cells hold each, those words and the empty text
    alone, but for words that the user named."""
    if not isinstance(column, Levelled | ConstantLevel) or numeric(table.column(column.name)):
        return {}
    rows = np.flatnonzero(table.blank(column.name))
    held = Counter(str(text).strip() for text in table.some_text(column.name, rows))
    tokens = table.tokens(column.name)
    return {word: held[word] for word in ("", *WORDS) if word in held and not any(word in texts for texts in tokens)}


def _words(table: Table, column: Column) -> dict[str, int]:
    """The words for missing cells of a column of texts that has no empty cell, and how many cells hold each, but for
    those that the user named."""
    held = _held_words(table, column)
    return {} if "" in held else held


def _measured(table: Table, column: Column) -> bool:
    """Whether a column holds numbers or dates, numbers taken for levels among them."""
    if isinstance(column, Levelled):
        return numeric(table.column(column.name))
    return isinstance(column, Number | Moment)


def _line_beside(name: str, one: WordAsLevel) -> str:
    cells = f"{one.cells:,} cell{'s' * (one.cells != 1)}"
    return (
        f"'{one.word}' ({cells}) is taken for missing in column '{name}', as its other holes are: "
        f"`{token_flag(name, '')}` if it is a level ({one.why})"
    )


def _line(name: str, words: dict[str, int]) -> str:
    said = " and ".join(f"'{word}' ({count:,} cell{'s' * (count != 1)})" for word, count in words.items())
    levels = "it is a level" if len(words) == 1 else "they are levels"
    return (
        f"{said} {are(list(words))} taken for missing in column '{name}', which has no empty cell: "
        f"`{token_flag(name, '')}` if {levels}"
    )
