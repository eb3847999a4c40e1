"""Rows whose discrete dimensions are spread out: a number for each level, 1 at the level that a row holds, else 0.

What a network reads of a row: the number of a level says nothing by its size.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor, nn


class Indicators(nn.Module):
    """[.., D] -> [.., F]: continuous dimensions as they are, a discrete one as its levels' indicators.

    F    numbers of a row after it
    levels    of all discrete dimensions together
    of   [F] the dimension that each number tells of
    discrete  [F] whether it tells of a level
    """

    of: Tensor
    discrete: Tensor
    _level: Tensor

    def __init__(self, levels: Sequence[int]) -> None:
        """levels: of each of the D dimensions, 0 where it is continuous (`Layout.level_counts`)."""
        super().__init__()
        self.plain = not any(levels)
        of = [i for i, n in enumerate(levels) for _ in range(max(n, 1))]
        level = [float(place) if n else -1.0 for n in levels for place in range(max(n, 1))]
        self.F = len(of)
        levelled = [i for i, n in enumerate(levels) if n]
        self._levelled = torch.tensor(levelled, dtype=torch.int64)
        self._continuous = torch.tensor([i for i, n in enumerate(levels) if not n], dtype=torch.int64)
        ends = list(accumulate((n for n in levels if n), initial=0))
        self._place = {i: slice(a, b) for i, a, b in zip(levelled, ends, ends[1:], strict=False)}
        self._starts, self.levels = torch.tensor(ends[:-1], dtype=torch.int64), ends[-1]
        self.register_buffer("of", torch.tensor(of, dtype=torch.int64), persistent=False)
        self.register_buffer("discrete", torch.tensor(level) >= 0, persistent=False)
        self.register_buffer("_level", torch.tensor(level), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """The numbers of rows x [.., D]."""
        if self.plain:
            return x
        spread = x[..., self.of]
        return torch.where(~self.discrete, spread, (spread == self._level).to(x.dtype))

    def places(self, x: Tensor) -> Tensor:
        """[.., n] int64: of each of the n discrete dimensions where the level of rows x [.., D] stands among those of
        all of them, one dimension after the other."""
        return x.index_select(-1, self._levelled.to(x.device)).long() + self._starts.to(x.device)

    def numbers(self, x: Tensor) -> Tensor:
        """[.., n] the n continuous dimensions of rows x [.., D]."""
        return x.index_select(-1, self._continuous.to(x.device))

    def place(self, j: int) -> slice:
        """Where the levels of a discrete dimension stand among those of all of them."""
        return self._place[j]

    def spread(self, cells: Tensor) -> Tensor:
        """[.., F]: what holds for each dimension [.., D] (a mask, say) for each of its numbers."""
        return cells if self.plain else cells[..., self.of]
