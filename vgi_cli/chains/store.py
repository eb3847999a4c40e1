"""Packed persistent chains: only the missing cells are stored, C x K values."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Batch(NamedTuple):
    """A batch of rows, flattened: an incomplete row K times (chains of a row next to each other), a complete row once.

    x        [R, D] completed rows: incomplete ones first
    missing  [R, D]
    weight   [R] 1/K or 1, divided by the number of rows of the batch: objectives are sums of weight * term
    rows     [B'] table indices of the incomplete rows of the batch
    """

    x: Tensor
    missing: Tensor
    weight: Tensor
    rows: Tensor


class Chains:
    """K chains of an incomplete table.

    values  [C + 1, K]: the K imputations of each missing cell, row by row; the last line belongs to no cell
    """

    def __init__(self, x: Tensor, missing: Tensor, K: int) -> None:
        """x [N, D] (absent cells 0), missing [N, D]; all values start at 0."""
        self.x = x
        self.missing = missing
        self.K = K
        counts = missing.sum(1)
        self.first = counts.cumsum(0) - counts  # packed index of each row's first missing cell
        self.values = x.new_zeros(int(counts.sum()) + 1, K)
        holes = counts > 0
        self.incomplete = torch.arange(x.shape[0], device=x.device)[holes]
        self.complete = torch.arange(x.shape[0], device=x.device)[~holes]

    @property
    def C(self) -> int:
        """Number of missing cells."""
        return self.values.shape[0] - 1

    def _cells(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Masks [B, D] and packed indices [B, D] of rows; observed cells point to the spare line."""
        missing = self.missing[rows]
        index = self.first[rows][:, None] + missing.cumsum(1) - 1
        return missing, torch.where(missing, index, self.C)

    def load(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Completed rows [B * K, D] (chains of a row next to each other) and their mask."""
        missing, index = self._cells(rows)
        filled = self.values[index].permute(0, 2, 1)  # [B, K, D]
        x = torch.where(missing[:, None], filled, self.x[rows][:, None])
        missing = missing[:, None].expand(-1, self.K, -1)
        return x.reshape(-1, x.shape[2]), missing.reshape(-1, x.shape[2])

    def store(self, rows: Tensor, x: Tensor) -> None:
        """Keep the missing cells of completed rows x [B * K, D] of `rows` [B]."""
        _, index = self._cells(rows)
        values = x.view(len(rows), self.K, self.x.shape[1]).permute(0, 2, 1)
        self.values.index_put_((index,), values)

    def batch(self, incomplete: Tensor, complete: Tensor) -> Batch:
        """The batch of these rows (indices into the table)."""
        x, missing = self.load(incomplete)
        n = len(incomplete) + len(complete)
        weight = torch.cat([x.new_full((x.shape[0],), 1.0 / self.K), x.new_ones(len(complete))]) / n
        return Batch(torch.cat([x, self.x[complete]]), torch.cat([missing, self.missing[complete]]), weight, incomplete)

    def completed(self, chain: int) -> Tensor:
        """The whole table [N, D] filled with the values of one chain."""
        index = torch.where(self.missing, self.first[:, None] + self.missing.cumsum(1) - 1, self.C)
        return torch.where(self.missing, self.values[index, chain], self.x)
