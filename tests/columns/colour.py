"""A kind of column as a plugin may have one: colours `#rrggbb`, texts with three encoded dimensions."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import final

import numpy as np
from pydantic.dataclasses import dataclass

from vgi_cli.columns.base import STRICT, Cells, Column, EnsembleScores, Finding, ModelledColumn, Point, Request, Scores
from vgi_cli.columns.numerals import Bools, Floats

COLOUR = re.compile("#[0-9a-f]{6}")
SD, WIDTH = 74.0, 1 - 1e-4
PLACES = np.array([65536.0, 256.0, 1.0])


@final
@dataclass(frozen=True, config=STRICT)
class Colour(ModelledColumn):
    """The code of a colour is its hexadecimal number; each of its channels is spread over a cell of width 1."""

    words = ("colour",)
    width = 3
    noisy = True
    unit = 0.0
    deviation = 1.0

    @classmethod
    def infer(cls, cells: Cells, asked: Request) -> Column | None:
        seen = cells.texts()[~cells.missing].tolist()
        return cls(cells.name, "colour") if all(map(COLOUR.fullmatch, seen)) else None

    def codes(self, cells: Cells) -> Floats:
        texts = zip(cells.texts().tolist(), cells.missing.tolist(), strict=True)
        return np.array([int(t[1:], 16) if not gone and COLOUR.fullmatch(t) else np.nan for t, gone in texts])

    def channels(self, codes: Floats) -> Floats:
        return codes[..., None] // PLACES % 256

    def encode(self, codes: Floats, u: Floats | None) -> Floats:
        assert u is not None
        return (self.channels(np.nan_to_num(codes)) + (u - 0.5) * WIDTH - 127.5) / SD

    def decode(self, z: Floats) -> Floats:
        return np.asarray(np.clip(np.rint(z * SD + 127.5), 0, 255) @ PLACES)

    def log_volume(self, z: Floats) -> Floats:
        return np.full(len(z), -3 * np.log(SD))

    def box(self) -> Floats:
        return np.outer([-128.0, 128.0], np.ones(3)) / SD

    def snap(self, codes: Floats) -> Floats:
        return np.asarray(np.clip(np.rint(codes), 0, 0xFFFFFF))

    def point(self, draws: Floats, how: Point) -> Floats:
        middle = np.mean if how == "mean" else np.median
        return np.asarray(np.rint(middle(self.channels(draws), 0)) @ PLACES)

    def spell(self, codes: Floats, fewest: int | None) -> list[str]:
        return [f"#{int(code):06x}" for code in codes.tolist()]

    def beside(self, codes: Floats, refused: Callable[[Floats], Bools]) -> Floats:
        while (wrong := refused(codes)).any():
            codes = np.where(wrong, (codes + 1) % 0x1000000, codes)
        return codes

    def scores(self, draws: Floats, truth: Floats, ensemble: EnsembleScores) -> Scores:
        distance = np.abs(self.channels(draws) - self.channels(truth)).sum(-1)
        return {"distance": float(distance.mean())}

    def findings(self, cells: Cells) -> Sequence[Finding]:
        wrong = ~cells.missing & np.isnan(self.codes(cells))
        return [Finding(wrong, lambda what, _: f"column '{self.name}' holds colours in the fit but {what}", "mend it")]
