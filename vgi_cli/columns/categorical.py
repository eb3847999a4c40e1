"""Categories: levels without an order, which are texts or numbers; and columns of one text."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import final

from pydantic.dataclasses import dataclass

from vgi_cli.columns.base import STRICT, Cells, Column, ConstantColumn, Request
from vgi_cli.columns.levelled import Levelled, levels_of, listed_levels
from vgi_cli.columns.numerals import Floats


@final
@dataclass(frozen=True, config=STRICT)
class Categorical(Levelled):
    """A column of categories. Its levels are sorted, numbers by size before texts by letters, unless they were listed
    (`--column sex=categorical:male,female`)."""

    words = ("categorical",)

    @property
    def ordered(self) -> bool:
        return False

    @classmethod
    def infer(cls, cells: Cells, asked: Request) -> Column | None:
        if asked.kind not in cls.words or not cells.levelled:
            return None
        if asked.detail is not None:
            return cls(cells.name, "categorical", levels=listed_levels(cells, asked))
        found = levels_of(cells)
        if len(found) == 1:
            return ConstantLevel.of(cells)
        return cls(cells.name, "categorical", levels=tuple(level.text for level in found.values()))


@final
@dataclass(frozen=True, config=STRICT)
class ConstantLevel(ConstantColumn):
    """A column of which one text (or truth value) was observed, in several cells: its holes get that."""

    _: KW_ONLY
    level: str

    @classmethod
    def of(cls, cells: Cells) -> ConstantLevel:
        """A column of one level."""
        return cls(cells.name, "constant-level", level=next(iter(levels_of(cells).values())).text)

    @classmethod
    def infer(cls, cells: Cells, asked: Request) -> Column | None:
        return None

    @property
    def code(self) -> float:
        return 0.0

    def spell(self, codes: Floats, fewest: int | None) -> list[str]:
        return [self.level] * len(codes)

    def numbers(self, codes: Floats) -> Floats | None:
        return None
