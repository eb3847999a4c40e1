"""Categories: levels without an order, which are texts or numbers; and columns of one text."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import final

from pydantic.dataclasses import dataclass

from vgi_cli.columns.base import STRICT, Cells, Column, ConstantColumn, Request
from vgi_cli.columns.lattice import find_lattice, find_levels, mostly_gaps
from vgi_cli.columns.levelled import Levelled, few, levels_of, listed_levels, numeric, unnamed_levels
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
        if asked.kind is None:
            return cls._unnamed(cells, asked)
        if not cells.levelled:
            return None
        if asked.detail is not None:
            return cls(cells.name, "categorical", levels=listed_levels(cells, asked))
        found = levels_of(cells)
        if len(found) == 1:
            return ConstantLevel.of(cells)
        return cls(cells.name, "categorical", levels=tuple(level.text for level in found.values()))

    @classmethod
    def _unnamed(cls, cells: Cells, asked: Request) -> Column | None:
        """Texts of few levels; numbers of two values, or whole ones with wide gaps between them."""
        found = unnamed_levels(cells, asked)
        observed = int((~cells.missing).sum())
        if found is None or len(found) < 2:
            return None
        if numeric(cells) and len(found) > 2:
            known = is_code(cells.numbers.values[~cells.missing])
        else:
            known = few(len(found), observed)
        return (
            None if not known else cls(cells.name, "categorical", levels=tuple(level.text for level in found.values()))
        )


def is_code(values: Floats) -> bool:
    """Whether the only values of a column are a few whole numbers with more gaps than numbers between them."""
    lattice = find_lattice(values, values, 0, search=False, single=False)
    levels = () if lattice is None else find_levels(values, lattice.resolution)
    return bool(levels) and lattice is not None and mostly_gaps(levels, lattice.resolution)


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
        """Where the text occurs in several cells; one number is a constant of its own kind."""
        found = unnamed_levels(cells, asked)
        observed = int((~cells.missing).sum())
        one = found is not None and len(found) == 1 and few(1, observed) and not numeric(cells)
        return cls.of(cells) if one else None

    @property
    def code(self) -> float:
        return 0.0

    def spell(self, codes: Floats, fewest: int | None) -> list[str]:
        return [self.level] * len(codes)

    def numbers(self, codes: Floats) -> Floats | None:
        return None
