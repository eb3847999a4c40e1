"""Categories: texts of few levels without an order."""

from __future__ import annotations

from typing import final

from pydantic.dataclasses import dataclass

from vgi_cli.columns.base import STRICT, Cells, Column, Request
from vgi_cli.columns.levelled import Levelled


@final
@dataclass(frozen=True, config=STRICT)
class Categorical(Levelled):
    """A column of categories; the levels are sorted as texts."""

    words = ("categorical",)

    @classmethod
    def infer(cls, cells: Cells, asked: Request) -> Column | None:
        if asked.kind not in cls.words:
            return None
        seen = cells.texts()[~cells.missing].tolist()
        levels = sorted({text.strip() for text in seen})
        return cls(cells.name, "categorical", levels=tuple(levels)) if len(levels) > 1 else None
