"""What the chains of a run hold, looked up by row key."""

from __future__ import annotations

import torch
from torch import Tensor


class HeldChains:
    """K imputations of each missing cell of the table that a run holds.

    keys     [N] int64 row keys, as in KeyedNoise.rows; they must differ
    missing  [N, D] True where the fitted table has a hole
    packed   [C, K] values of the missing cells, row by row
    d        data columns, where latents come after them; these are left out of `missing` and `values`; none: D
    """

    def __init__(self, keys: Tensor, missing: Tensor, packed: Tensor, d: int | None = None) -> None:
        counts = missing.sum(1)
        if len(keys) != len(missing) or packed.shape[0] < int(counts.sum()):
            raise ValueError(
                f"expected one key a row and one line a missing cell, got {len(keys)} keys for {len(missing)} rows "
                f"and {packed.shape[0]} lines for {int(counts.sum())} cells"
            )
        self._sorted, self._order = keys.sort()
        if bool((self._sorted[1:] == self._sorted[:-1]).any()):
            raise ValueError("row keys must differ")
        self._first = counts.cumsum(0) - counts
        self._packed = packed
        self.missing = missing[:, :d]

    @property
    def K(self) -> int:
        """Number of chains."""
        return int(self._packed.shape[1])

    def find(self, keys: Tensor) -> Tensor:
        """[R] table rows with these keys; -1 where the run holds no such row."""
        if len(self._sorted) == 0:
            return torch.full_like(keys, -1)
        place = torch.searchsorted(self._sorted, keys).clamp(max=len(self._sorted) - 1)
        return torch.where(self._sorted[place] == keys, self._order[place], -1)

    def values(self, rows: Tensor, chains: Tensor) -> Tensor:
        """[n, R, D] values of chains [n] at table rows [R]; 0 at cells that the run did not impute."""
        missing = self.missing[rows]
        if self._packed.shape[0] == 0:
            return self._packed.new_zeros(len(chains), *missing.shape)
        # the lines of a row's data come before those of its latents
        index = torch.where(missing, self._first[rows][:, None] + missing.cumsum(1) - 1, 0)
        return torch.where(missing, self._packed[index][..., chains].permute(2, 0, 1), 0.0)
