"""Columns and levels that a flag names."""

from __future__ import annotations

import csv
import math
from collections.abc import Collection, Sequence
from typing import TypeVar

from vgi_cli.columns.categorical import Categorical
from vgi_cli.columns.levelled import Levelled, key_of
from vgi_cli.columns.schema import Schema
from vgi_cli.errors import UsageError, nearest

Said = TypeVar("Said")


def place_of(flag: str, cuts: Sequence[tuple[str, Said]], schema: Schema) -> tuple[int, Said]:
    """The place of the modelled column that a flag names, and what it says of it, of the ways to cut its text (a name
    may hold a `=`) the first that names one. UsageError where none does."""
    name, said = next(((name, said) for name, said in cuts if name in schema.modelled), cuts[-1])
    if name not in schema.modelled:
        known = name in (column.name for column in schema.columns)
        what = "is not modelled, so nothing fills it" if known else "is none of the run"
        raise UsageError(f"{flag}: column '{name}' {what}", nearest(name, schema.modelled))
    return schema.modelled.index(name), said


def names_in(text: str, known: Collection[str]) -> list[str]:
    """The columns that a part of a flag names: one (where it is called so it is `known`), or several with commas
    between them, as in CSV."""
    if text in known:
        return [text]
    try:
        return [name.strip() for name in next(csv.reader([text], skipinitialspace=True), [text])]
    except csv.Error:
        return [text]


def level_of(flag: str, text: str, column: Levelled) -> int:
    """The code of a level that a flag names. UsageError where the column has none, or draws it together with others."""
    level = column.place(text)
    if math.isnan(level):
        raise UsageError(f"{flag}: '{column.name}' has no level '{text}'", nearest(text, column.texts))
    if isinstance(column, Categorical) and key_of(text) in map(key_of, column.rare):
        raise UsageError(
            f"{flag}: '{text}' is one of {len(column.rare):,} rare levels that are drawn as one",
            "name a more frequent one",
        )
    return int(level)
