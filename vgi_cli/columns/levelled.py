"""What columns of levels have in common: categories, truth values, scales. Their code is the number of the level."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY
from functools import cached_property

import numpy as np
from pydantic.dataclasses import dataclass

from vgi_cli.columns.base import STRICT, Cells, EnsembleScores, Finding, ModelledColumn, Point, Scores
from vgi_cli.columns.numerals import Bools, Floats


@dataclass(frozen=True, config=STRICT)
class Levelled(ModelledColumn):
    """A column of a few levels, as one discrete dimension.

    levels  texts of the levels; the code of a cell is the place of its level
    """

    _: KW_ONLY
    levels: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.levels) < 2 or len(set(self.levels)) < len(self.levels):
            raise ValueError("expected at least two levels, each once")

    @cached_property
    def places(self) -> dict[str, int]:
        """The code of each level."""
        return {level: code for code, level in enumerate(self.levels)}

    @property
    def level_counts(self) -> tuple[int, ...]:
        return (len(self.levels),)

    @property
    def noisy(self) -> bool:
        return False

    @property
    def unit(self) -> float:
        """A probability has no unit."""
        return 0.0

    @property
    def deviation(self) -> float:
        return 1.0

    def codes(self, cells: Cells) -> Floats:
        """NaN also where a cell is none of the levels."""
        texts = zip(cells.texts().tolist(), cells.missing.tolist(), strict=True)
        places = self.places
        return np.array([np.nan if gone else places.get(text.strip(), np.nan) for text, gone in texts], np.float64)

    def encode(self, codes: Floats, u: Floats | None) -> Floats:
        return np.nan_to_num(codes)[:, None]

    def decode(self, z: Floats) -> Floats:
        return self.snap(z[..., 0])

    def log_volume(self, z: Floats) -> Floats:
        """0: what a model gives a level is its probability."""
        return np.zeros(len(z))

    def box(self) -> Floats:
        return np.array([[0.0], [len(self.levels) - 1.0]])

    def snap(self, codes: Floats) -> Floats:
        return np.asarray(np.clip(np.rint(codes), 0, len(self.levels) - 1))

    def point(self, draws: Floats, how: Point) -> Floats:
        """The level that was drawn most often, the first of such."""
        counts = np.stack([(draws == code).sum(0) for code in range(len(self.levels))])
        return np.asarray(counts.argmax(0), np.float64)

    def spell(self, codes: Floats, fewest: int | None) -> list[str]:
        return [self.levels[int(code)] for code in codes.tolist()]

    def beside(self, codes: Floats, refused: Callable[[Floats], Bools]) -> Floats:
        every = np.arange(len(self.levels), dtype=np.float64)
        free = every[~refused(every)]
        return free[np.abs(free - codes[:, None]).argmin(1)] if len(free) else codes

    def scores(self, draws: Floats, truth: Floats, ensemble: EnsembleScores) -> Scores:
        """The share of cells of which the level drawn most often is not the true one."""
        return {"error": float((self.point(draws, "mode") != truth).mean())}

    def findings(self, cells: Cells) -> Sequence[Finding]:
        unseen = ~cells.missing & np.isnan(self.codes(cells))
        return [
            Finding(
                unseen,
                lambda what, _: f"column '{self.name}' has levels that the fit has not seen: {what}",
                "spell them as in the fit, or fit again",
            )
        ]
