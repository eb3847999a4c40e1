"""Categories: levels without an order, which are texts or numbers; and columns of one text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY
from functools import cached_property
from typing import final

import numpy as np
from pydantic.dataclasses import dataclass

from vgi_cli.columns.base import STRICT, Cells, Column, ConstantColumn, Request
from vgi_cli.columns.lattice import find_levels, mostly_gaps
from vgi_cli.columns.levelled import (
    MOST,
    MOST_NAMED,
    PER_NAMED,
    Level,
    Levelled,
    few,
    levels_of,
    listed_levels,
    numeric,
    sentences,
    unnamed_levels,
)
from vgi_cli.columns.numerals import Floats


@final
@dataclass(frozen=True, config=STRICT)
class Categorical(Levelled):
    """A column of categories. Its levels are sorted, numbers by size before texts by letters, unless they were listed
    (`--column sex=categorical:male,female`).

    rare   levels beyond those that are kept (`_of_many`): a model sees them as one, the last
    cells  how many cells of the fitted table hold each of them: what a draw of the pool is spelled as, in proportion
    """

    rare: tuple[str, ...] = ()
    cells: tuple[int, ...] = ()

    words = ("categorical",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.cells) != len(self.rare) or any(count < 1 for count in self.cells):
            raise ValueError("expected the number of cells of each rare level")

    @property
    def ordered(self) -> bool:
        return False

    @property
    def texts(self) -> tuple[str, ...]:
        return (*self.levels, *self.rare)

    @property
    def summary(self) -> str:
        return super().summary + (f", and {len(self.rare):,} rare ones pooled" if self.rare else "")

    @property
    def level_counts(self) -> tuple[int, ...]:
        return (len(self.levels) + self.pooled,)

    @property
    def pooled(self) -> bool:
        return bool(self.rare)

    @cached_property
    def shares(self) -> Floats:
        """[rare] the shares of the rare levels in their pool."""
        return np.array(self.cells, np.float64) / sum(self.cells)

    def encode(self, codes: Floats, u: Floats | None) -> Floats:
        return super().encode(np.minimum(codes, self.level_counts[0] - 1), u)

    def unpool(self, codes: Floats, u: Floats) -> Floats:
        if not self.rare:
            return codes
        place = np.minimum(np.searchsorted(np.cumsum(self.shares), u, side="right"), len(self.rare) - 1)
        return np.where(codes >= len(self.levels), len(self.levels) + place, codes)

    def log_share(self, codes: Floats) -> Floats:
        known = np.concatenate([np.zeros(len(self.levels)), np.log(self.shares)])
        return np.where(np.isnan(codes), 0.0, known[np.nan_to_num(codes).astype(np.int64)])

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
        if len(found) > MOST:
            return cls._of_many(cells.name, found)
        return cls(cells.name, "categorical", levels=tuple(level.text for level in found.values()))

    @classmethod
    def _of_many(cls, name: str, found: Mapping[str, Level]) -> Column:
        """The levels that most cells hold, and a pool of the others: MOST - 1, and more that PER_NAMED cells hold each,
        up to MOST_NAMED - 1; all of MOST_NAMED."""
        often = sorted(found, key=lambda key: -found[key].cells)
        several = sum(found[key].cells >= PER_NAMED for key in often)
        if several == len(often) <= MOST_NAMED:
            return cls(name, "categorical", levels=tuple(level.text for level in found.values()))
        kept = dict.fromkeys(often[: max(MOST - 1, min(several, MOST_NAMED - 1))])
        levels = tuple(level.text for key, level in found.items() if key in kept)
        rare = [level for key, level in found.items() if key not in kept]
        return cls(
            name,
            "categorical",
            levels=levels,
            rare=tuple(level.text for level in rare),
            cells=tuple(level.cells for level in rare),
        )

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
            known = few(len(found), observed) and not sentences(level.text for level in found.values())
        return (
            None if not known else cls(cells.name, "categorical", levels=tuple(level.text for level in found.values()))
        )


def is_code(values: Floats) -> bool:
    """Whether the only values of a column are a few whole numbers with more gaps than numbers between them, the gaps
    counted in their common spacing: 500, 1000, 1500 have none."""
    if not (values == np.rint(values)).all():
        return False
    step = float(np.gcd.reduce(np.diff(np.unique(values)).astype(np.int64)))
    levels = find_levels(values, step)
    return bool(levels) and mostly_gaps(levels, step)


@final
@dataclass(frozen=True, config=STRICT)
class ConstantLevel(ConstantColumn):
    """A column of which one text (or truth value) was observed, in several cells: its holes get that."""

    _: KW_ONLY
    level: str

    @property
    def summary(self) -> str:
        return f"always {self.level}"

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
