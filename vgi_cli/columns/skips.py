"""Questions that are asked of some rows alone: which level of a column goes with no cell of others."""

from __future__ import annotations

from typing import Annotated, final

from pydantic import Field, NonNegativeFloat, NonNegativeInt
from pydantic.dataclasses import dataclass

from vgi_cli.columns.base import STRICT
from vgi_cli.columns.wording import named

NEAR_ONE = 1e-6
"""By how much shares may be off 1 together."""


@final
@dataclass(frozen=True, config=STRICT)
class Skip:
    """What holds in every row: where a cell of some columns is observed, a column of levels is not at one of them
    (who says how many cigarettes a day does not smoke `no`).

    name    of the column of levels
    level   the code of the level
    others  the columns
    shares  how often each level occurs where one of them is observed
    blank   how often none of them is observed, by level; empty: not known
    """

    name: str
    level: NonNegativeInt
    others: tuple[str, ...]
    shares: tuple[NonNegativeFloat, ...]
    blank: tuple[Annotated[float, Field(ge=0, le=1)], ...] = ()

    def __post_init__(self) -> None:
        sound = 0 < len(set(self.others)) == len(self.others) and self.name not in self.others
        sound = sound and self.level < len(self.shares) and not self.shares[self.level]
        sound = sound and len(self.blank) in (0, len(self.shares))
        if not sound or abs(sum(self.shares) - 1) > NEAR_ONE:
            raise ValueError("the skipped columns do not fit together")

    def words(self, level: str) -> str:
        """`'smoke' is not 'no' where 'cigarettes' is observed`."""
        some = f"'{self.others[0]}'" if len(self.others) == 1 else f"one of {named('column', self.others)}"
        return f"'{self.name}' is not '{level}' where {some} is observed"
