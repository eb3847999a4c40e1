"""What each column was taken for, in lines for a person and as the part of a recipe that fixes it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from vgi_cli.columns.base import Carried, Column, ConstantColumn, Empty
from vgi_cli.columns.number import Constant, Number
from vgi_cli.columns.schema import Schema
from vgi_cli.columns.wording import SHOWN, brief
from vgi_cli.table.base import Table

WHY_CARRIED = {"id": "--id: names the rows", "exclude": "--exclude", "index": "numbers the rows"}
"""Why a column of that role is carried."""
WHY_WEIGHT = "--weight: how much a row counts"
WIDEST, NUMBER = 60, 8
"""Letters of a cell of the table."""


class Taken(NamedTuple):
    """What one column was taken for.

    name     of the column
    kind     in the words of the user
    why      what its cells are, or who said so
    missing  share of its cells that are missing
    """

    name: str
    kind: str
    why: str
    missing: float


def kinds_of(table: Table, schema: Schema, said: Mapping[str, str], weight: str | None = None) -> list[Taken]:
    """A line for each column; `said`: what the user said of some (`--column`), `weight`: the column by which rows
    count."""

    def why(column: Column) -> str:
        return WHY_WEIGHT if column.name == weight else _why(table, column, said)

    return [
        Taken(column.name, _kind(column), why(column), float(table.blank(column.name).mean()))
        for column in schema.columns
    ]


def kind_lines(columns: list[Taken]) -> list[str]:
    """One line for each kind with the names of its columns, the first few of them."""
    names: dict[str, list[str]] = {}
    for column in columns:
        names.setdefault(column.kind, []).append(column.name)
    lines = []
    for kind, held in names.items():
        shown = ", ".join(f"'{name}'" for name in held[:SHOWN])
        more = f" and {len(held) - SHOWN} more" if len(held) > SHOWN else ""
        lines.append(f"{kind} ({len(held)} column{'s' * (len(held) != 1)}): {shown}{more}")
    return lines


def column_lines(columns: list[Taken]) -> list[str]:
    """A table: name, kind, what its cells are, share that is missing."""
    names = [brief(column.name, WIDEST) for column in columns]
    for i, name in enumerate(names):
        if names.count(name) > 1:  # long names that differ in the middle
            names[i] = f"{brief(columns[i].name, WIDEST - NUMBER)} #{i + 1}"
    named = zip(names, columns, strict=True)
    rows = [("column", "kind", "missing", "cells"), *((n, c.kind, f"{c.missing:.1%}", c.why) for n, c in named)]
    cells = [[_cut(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]


def fixing(schema: Schema, said: Mapping[str, str], **others: Any) -> dict[str, Any]:
    """The settings `table.*` of a recipe that takes the columns for the same kinds, whatever their cells; `said`: what
    the user said of some, whose levels and formats stay as they were listed; `others`: settings by which the cells are
    read (`na_values`, `decimal`, `delimiter`), rows count (`weight`) and fills are limited (`bounds`, `unbounded`), of
    which those that were said stand there too."""
    weight = others.get("weight")  # carried by what it is: it needs no `exclude`
    roles = {
        role: [c.name for c in schema.columns if c.role == role and c.name != weight] for role in ("id", "exclude")
    }
    kinds = {c.name: c.request for c in schema.columns if c.request is not None}
    kinds |= {name: text for name, text in said.items() if ":" in text}
    lists = {key: list(value) if isinstance(value, tuple) else value for key, value in others.items() if value}
    return {**lists, **{role: names for role, names in roles.items() if names}, "columns": kinds}


def flags(settings: Mapping[str, Any]) -> str:
    """The same on one line of a command, for bash or zsh where a word holds a line break."""
    said = [word for token in settings.get("na_values", ()) for word in ("--na-values", token)]
    said += [word for key in ("decimal", "delimiter") if key in settings for word in (f"--{key}", settings[key])]
    said += [word for role in ("id", "exclude") for name in settings.get(role, ()) for word in (f"--{role}", name)]
    said += ["--weight", settings["weight"]] if "weight" in settings else []
    said += [word for name, kind in settings["columns"].items() for word in ("--column", f"{name}={kind}")]
    said += [word for name, text in settings.get("bounds", {}).items() for word in ("--bounds", f"{name}={text}")]
    said += [word for name in settings.get("unbounded", ()) for word in ("--unbounded", name)]
    return " ".join(map(_quoted, said))


def _quoted(word: str) -> str:
    """A word as a shell takes it, on one line."""
    if word.isprintable():
        return shlex.quote(word)
    escaped = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    letters = (escaped.get(c, c if c.isprintable() else f"\\U{ord(c):08x}") for c in word)
    return f"$'{''.join(letters)}'"


def _kind(column: Column) -> str:
    return "constant" if isinstance(column, ConstantColumn) else column.kind


def _why(table: Table, column: Column, said: Mapping[str, str]) -> str:
    if column.role != "data":
        return WHY_CARRIED[column.role]
    if isinstance(column, Empty):
        return "no cell is observed"
    what = column.summary
    if isinstance(column, Number | Constant) and column.notation is None:
        what = what.replace(".", table.decimal)
    if isinstance(column, Carried):
        cells = table.column(column.name)
        places = cells.distinct.places if cells.levelled else np.empty(0, np.int64)
        count = len(np.unique(places[places >= 0]))
        what = f"{count:,} different {'texts' if cells.textual else 'values'}" if count else "no kind that is modelled"
    return f"{what} (--column)" if column.name in said else what


def _cut(cell: str) -> str:
    line = " ".join(cell.split())
    return line if len(line) <= WIDEST else line[: WIDEST - 1] + "…"
