"""Words that usually mean missing in CSV, and may be levels of a column."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from vgi_cli.columns.base import Column
from vgi_cli.columns.categorical import Categorical, ConstantLevel
from vgi_cli.columns.datetime import Moment
from vgi_cli.columns.levelled import Levelled, numeric
from vgi_cli.columns.number import Number
from vgi_cli.columns.schema import Schema
from vgi_cli.columns.wording import Alarm, are, different, folded, token_flag
from vgi_cli.table.base import Table
from vgi_cli.table.texts import DUMPED, WORDS

NONE = "None"
"""The word that is kept as a level of a column whose missing cells are written otherwise."""
BY_PROGRAMS = frozenset({*WORDS, DUMPED}) - {NONE, "N/A", "n/a"}
"""Words that programs write for a missing cell; by the others a person may mean an answer."""


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
    for name, words in found.items():
        if left := {word: count for word, count in words.items() if word not in marks}:
            lines[empty or not set(left) <= BY_PROGRAMS].append((name, _line(name, left)))
    return [*map(Alarm, folded(lines[True])), *folded(lines[False])]


def _words(table: Table, column: Column) -> dict[str, int]:
    """The words for missing cells of a column of texts that has no empty cell, and how many cells hold each, but for
    those that the user named."""
    if not isinstance(column, Levelled | ConstantLevel) or numeric(table.column(column.name)):
        return {}
    rows = np.flatnonzero(table.blank(column.name))
    held = Counter(str(text).strip() for text in table.some_text(column.name, rows))
    if "" in held:
        return {}
    tokens = table.tokens(column.name)
    return {word: held[word] for word in WORDS if word in held and not any(word in texts for texts in tokens)}


def _measured(table: Table, column: Column) -> bool:
    """Whether a column holds numbers or dates, numbers taken for levels among them."""
    if isinstance(column, Levelled):
        return numeric(table.column(column.name))
    return isinstance(column, Number | Moment)


def _line(name: str, words: dict[str, int]) -> str:
    said = " and ".join(f"'{word}' ({count:,} cell{'s' * (count != 1)})" for word, count in words.items())
    levels = "it is a level" if len(words) == 1 else "they are levels"
    return (
        f"{said} {are(list(words))} taken for missing in column '{name}', which has no empty cell: "
        f"`{token_flag(name, '')}` if {levels}"
    )
