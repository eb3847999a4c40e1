"""Scales: levels that have an order, because somebody listed them, because they are numbers, or because the file says
so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY
from typing import final

import numpy as np
from pydantic.dataclasses import dataclass

from vgi_cli.columns.base import STRICT, Cells, Column, Finding, Point, Request
from vgi_cli.columns.categorical import ConstantLevel
from vgi_cli.columns.levelled import MOST, Levelled, as_list, key_of, levels_of, listed_levels, named_levels, number_of
from vgi_cli.columns.numerals import Floats
from vgi_cli.columns.word_scales import in_order
from vgi_cli.columns.wording import kind_flag
from vgi_cli.errors import InputError

SHOWN = 8
"""Levels that a message suggests to list."""


@final
@dataclass(frozen=True, config=STRICT)
class Ordinal(Levelled):
    """A column of levels in their order. One that was listed need not occur.

    of_file  whether the order is that of the dictionary of the fitted file, which another table must not contradict
    """

    _: KW_ONLY
    of_file: bool = False

    words = ("ordinal",)

    @property
    def ordered(self) -> bool:
        return True

    @property
    def request(self) -> str | None:
        return f"ordinal:{as_list(self.levels)}"

    @classmethod
    def infer(cls, cells: Cells, asked: Request) -> Column | None:
        if not cells.levelled:
            return None
        if asked.detail is not None:
            return cls(cells.name, "ordinal", levels=listed_levels(cells, asked))
        scale = cells.scale
        if scale is not None and len(scale) > 1:
            return cls(
                cells.name, "ordinal", levels=tuple({key_of(level): level for level in scale}.values()), of_file=True
            )
        if asked.kind is None:
            return None
        found = levels_of(cells)
        if any(number_of(key) is None for key in found):
            cls._refuse_texts(cells, [level.text for level in found.values()])
        if len(found) > MOST:
            raise InputError(
                f"{cells.label}: --column {cells.name}=ordinal, but the column has {len(found)} different numbers: "
                f"at most {MOST} are levels",
                f"`{kind_flag(cells.name, 'integer')}` or `numeric` models numbers",
            )
        if len(found) == 1:
            return ConstantLevel.of(cells)
        return cls(cells.name, "ordinal", levels=tuple(level.text for level in found.values()))

    @staticmethod
    def _refuse_texts(cells: Cells, levels: list[str]) -> None:
        order = in_order(levels)
        shown = as_list(order or levels) if order or len(levels) <= SHOWN else as_list(levels[:SHOWN]) + ",…"
        flag = kind_flag(cells.name, f"ordinal:{shown}")
        raise InputError(
            f"{cells.label}: --column {cells.name}=ordinal: the order of texts is not known",
            f"list the levels from the lowest to the highest: `{flag}` {'if that is' if order else 'in'} their order",
        )

    def findings(self, cells: Cells) -> Sequence[Finding]:
        scale = cells.scale if self.of_file else None
        shared = [key for key in map(key_of, scale or ()) if key in self.places]
        here = [self.levels[self.places[key]] for key in shared]
        fitted = sorted(here, key=self.levels.index)
        order = Finding(
            ~cells.missing if here != fitted else np.zeros_like(cells.missing),
            lambda _what, _count: (
                f"column '{self.name}' has its levels in another order, {named_levels(here, ' < ')}, than in the fit, "
                f"{named_levels(fitted, ' < ')}"
            ),
            f"order the categories as in the fit, or fit with `{kind_flag(self.name, f'ordinal:{as_list(fitted)}')}`",
        )
        return [*super().findings(cells), order]

    def point(self, draws: Floats, how: Point) -> Floats:
        """The level drawn most often; the median: the lower one where two share it."""
        if how == "median":
            return np.asarray(np.quantile(draws, 0.5, axis=0, method="inverted_cdf"), np.float64)
        return super().point(draws, how)
