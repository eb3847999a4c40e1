"""What the cells of rounded columns stand for: a whole number for all that rounds to it, a spike for its room."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from vgi_cli.columns.base import ModelledColumn
from vgi_cli.columns.schema import Schema

WIDE = 0.25
"""Mean width of the cells of a column, in its standard deviations, from which on they count: noise that is spread
evenly over cells of this width adds half a hundredth to the variance of a column."""
QUANTILES = 64
"""Of a normal column, at which the width of its cells is looked at."""
SLACK = 4e-6
"""What float32 arithmetic may add to an encoded value of size 1."""


@dataclass(frozen=True)
class RoundedCells:
    """The columns whose cells are wide, each with its dimensions, of which the last one holds its numbers."""

    columns: tuple[tuple[slice, ModelledColumn], ...]

    @property
    def dims(self) -> Sequence[int]:
        """The dimensions that hold their numbers, ascending."""
        return [dims.stop - 1 for dims, _ in self.columns]

    def ends(self, x: Tensor, /) -> tuple[Tensor, Tensor]:
        """The least and the greatest value [R, n] that is read back as each cell of rows x [R, D]."""
        z = x.detach().to("cpu", torch.float64).numpy()
        low, high = (np.empty((len(z), len(self.columns))) for _ in range(2))
        for place, (dims, column) in enumerate(self.columns):
            least, most = column.cell_ends(z[:, dims])
            low[:, place], high[:, place] = least[:, -1], most[:, -1]
            own = z[:, dims.stop - 1]
            slack = SLACK * (1 + np.abs(own))
            outside = (own < low[:, place] - slack) | (own > high[:, place] + slack)
            low[outside, place] = high[outside, place] = own[outside]
        return torch.from_numpy(low), torch.from_numpy(high)


def rounding_in(schema: Schema) -> RoundedCells | None:
    """What the cells of the columns of a schema stand for; None where no column has wide cells."""
    return rounding_of(zip(schema.layout.slices, schema.encoded, strict=True))


def rounding_of(columns: Iterable[tuple[slice, ModelledColumn]]) -> RoundedCells | None:
    """What the cells of columns (with their dimensions) stand for; None where no column has wide cells."""
    z = torch.special.ndtri((torch.arange(QUANTILES, dtype=torch.float64) + 0.5) / QUANTILES).numpy()
    found = []
    for dims, column in columns:
        if not column.noisy or sum(not levels for levels in column.level_counts) != 1:
            continue
        low, high = column.box()[:, -1]
        grid = np.zeros((QUANTILES, column.width))
        grid[:, -1] = np.clip(z, low, high)
        least, most = column.cell_ends(grid)
        if (most - least)[:, -1].mean() >= WIDE:
            found.append((dims, column))
    return RoundedCells(tuple(found)) if found else None
