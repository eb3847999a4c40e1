"""An imputer that sees rows in coordinates of its own: for a model that was fitted to columns bent otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

import torch
from torch import Tensor

from vgi_cli.maths.noise import KeyedNoise
from vgi_cli.samplers.base import Box, Imputer


@final
class Recoded(Imputer):
    """Draws of an imputer of a model of other coordinates: observed cells go there, draws come back. The maps increase
    in every dimension, so that a box stays a box, and leave dimensions of levels as they are."""

    def __init__(self, imputer: Imputer, there: Callable[[Tensor], Tensor], back: Callable[[Tensor], Tensor]) -> None:
        """there, back: of rows [.., D], to the coordinates of the imputer and from them."""
        self._imputer, self._there, self._back = imputer, there, back
        self.parallel = imputer.parallel

    def prepare(self, missing: Tensor, noise: KeyedNoise, box: Box) -> None:
        self._imputer.prepare(missing, noise, self._own(box))

    def apart(self, draws: Tensor) -> list[Tensor]:
        return self._imputer.apart(draws)

    def rows_at_once(self, draws: int, x: Tensor) -> int:
        return self._imputer.rows_at_once(draws, x)

    def sample(self, x: Tensor, missing: Tensor, noise: KeyedNoise, box: Box) -> Tensor:
        self._imputer.watch = self.watch
        rows = torch.where(missing, x, self._there(x))
        drawn = self._back(self._imputer.sample(rows, missing, noise, self._own(box)))
        return torch.where(missing, drawn.clamp(box.low, box.high), x)

    def _own(self, box: Box) -> Box:
        """A box in the coordinates of the imputer."""
        return Box(self._there(box.low), self._there(box.high))

    def level_probabilities(self, x: Tensor, j: int, draw: int) -> Tensor | None:
        return self._imputer.level_probabilities(self._there(x), j, draw)

    def counts(self) -> list[Tensor]:
        return self._imputer.counts()

    def peaks(self) -> list[Tensor]:
        return self._imputer.peaks()

    def diagnostics(self) -> dict[str, object]:
        """Those of the imputer."""
        return self._imputer.diagnostics()
