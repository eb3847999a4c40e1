"""Truth values as parts of sums: a symptom that is there (1) or not (0) adds to a score as any number does."""

from __future__ import annotations

from vgi_cli.columns.base import ModelledColumn
from vgi_cli.columns.boolean import Boolean
from vgi_cli.columns.bounds import Bound
from vgi_cli.columns.lattice import Lattice
from vgi_cli.columns.levelled import number_of
from vgi_cli.columns.number import Number
from vgi_cli.columns.scale import Scale

TYPED = ["false", "true"]
"""Levels of truth values that a file has as such, in small letters."""


def adds_up(column: ModelledColumn) -> bool:
    """Whether a column is of truth values that may be parts of a sum; their codes are 0 and 1."""
    if not isinstance(column, Boolean):
        return False
    levels = [level.strip() for level in column.levels]
    return list(map(number_of, levels)) == [0.0, 1.0] or [level.casefold() for level in levels] == TYPED


def as_summand(column: ModelledColumn) -> ModelledColumn:
    """A column as a part of a sum: whole numbers from 0 to 1 of truth values, any other one as it is."""
    if not adds_up(column):
        return column
    return Number(
        column.name,
        "integer",
        low=0.0,
        high=1.0,
        lower=Bound(0.0, "type"),
        upper=Bound(1.0, "type"),
        lattice=Lattice(0, 1, 0),
        scale=Scale(0.5, 0.5),
    )
