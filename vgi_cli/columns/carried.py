"""Columns that no model sees: what is carried from the input to the output as it is, and what holds nothing."""

from __future__ import annotations

from typing import final

from pydantic.dataclasses import dataclass

from vgi_cli.columns.base import STRICT, Cells, Column, Request


@final
@dataclass(frozen=True, config=STRICT)
class Carried(Column):
    """Texts, dates, ids and whatever else is written as it was read."""

    words = ("carry",)

    @classmethod
    def infer(cls, cells: Cells, asked: Request) -> Column | None:
        """Whatever no other kind takes."""
        return cls(cells.name, "carried")


@final
@dataclass(frozen=True, config=STRICT)
class Empty(Column):
    """A column of which nothing was observed."""

    @classmethod
    def infer(cls, cells: Cells, asked: Request) -> Column | None:
        return cls(cells.name, "empty") if cells.missing.all() else None
