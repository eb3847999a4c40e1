"""Packed persistent chains: only the missing cells are stored, C x K values."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from vgi_cli.chains.store.lines import DeviceLines, Lines, StagedLines
from vgi_cli.chains.store.placement import Mapped, MemoryBudget, Place, Setting, ample, no_file, place_of
from vgi_cli.data import TensorTable

PIECE = 4096
"""Rows that `completed` fills at a time."""


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

    x, missing, layout    those of the table: absent cells of x [N, D] hold 0
    first                 [N + 1] line of each row's first missing cell, and C
    incomplete, complete  indices of the rows with and without holes
    """

    def __init__(self, table: TensorTable, K: int, place: Place = "device", mapped: Mapped = no_file) -> None:
        """All values start at 0. `mapped`: as in MemoryBudget, for `disk`."""
        self.x, self.missing, self.layout = x, missing, _ = table
        self.K = K
        counts = x.new_zeros(len(x), dtype=torch.int32)
        for column in missing.T:  # the sum of a mask would make a copy of it in integers
            counts += column
        self.C = int(counts.sum())
        """Number of missing cells."""
        self.first = torch.zeros(len(x) + 1, dtype=index_type(self.C), device=x.device)
        torch.cumsum(counts, 0, dtype=self.first.dtype, out=self.first[1:])
        self.lines = _make_lines(x, self.first, self.C + 1, K, place, mapped)
        holes = counts > 0
        rows = torch.arange(len(x), dtype=index_type(len(x)), device=x.device)
        self.incomplete = rows[holes]
        self.complete = rows[~holes]

    @property
    def values(self) -> Tensor:
        """[C + 1, K]: the K imputations of each missing cell, row by row; the last line belongs to no cell."""
        return self.lines.values

    @property
    def place(self) -> Place:
        """Where the values live."""
        return self.lines.place

    @property
    def size(self) -> int:
        """Bytes of the values."""
        return self.C * self.K * self.x.element_size()

    def load(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Completed rows [B * K, D] (chains of a row next to each other) and their mask."""
        here = rows.to(self.x.device, non_blocking=True)
        missing = self.missing[here]
        filled = self.lines.load(rows, missing).permute(0, 2, 1).contiguous()  # [B, K, D]
        x = torch.where(missing[:, None], filled, self.x[here][:, None], out=filled)
        missing = missing[:, None].expand(-1, self.K, -1)
        return x.reshape(-1, x.shape[2]), missing.reshape(-1, x.shape[2])

    def store(self, rows: Tensor, x: Tensor) -> None:
        """Keep the missing cells of completed rows x [B * K, D] of `rows` [B], which must differ."""
        missing = self.missing[rows.to(self.x.device, non_blocking=True)]
        self.lines.store(rows, missing, x.view(len(rows), self.K, self.x.shape[1]).permute(0, 2, 1))

    def prefetch(self, rows: Tensor) -> None:
        """Announce the incomplete rows of the next batch: chains that live elsewhere begin to fetch them."""
        self.lines.prefetch(rows)

    def batch(self, incomplete: Tensor, complete: Tensor) -> Batch:
        """The batch of these rows (indices into the table; where `lines.rows_on` says they cost no waiting)."""
        x, missing = self.load(incomplete)
        complete = complete.to(self.x.device, non_blocking=True)
        n = len(incomplete) + len(complete)
        weight = x.new_full((len(x),), 1.0 / (self.K * n))
        if len(complete):
            weight = torch.cat([weight, x.new_full((len(complete),), 1.0 / n)])
            x, missing = torch.cat([x, self.x[complete]]), torch.cat([missing, self.missing[complete]])
        return Batch(x, missing, weight, incomplete)

    def completed(self, chain: int, rows: Tensor | None = None) -> Tensor:
        """The whole table [N, D], or some rows of it, filled with the values of one chain."""
        out = self.x.clone() if rows is None else self.x[rows]
        rows = torch.arange(len(out), device=self.x.device) if rows is None else rows
        for piece, filled in zip(rows.split(PIECE), out.split(PIECE), strict=True):
            missing = self.missing[piece]
            filled.copy_(torch.where(missing, self.lines.load(piece, missing)[..., chain], filled))
        return out


def make_chains(table: TensorTable, K: int, setting: Setting, room: MemoryBudget | None = None) -> Chains:
    """Chains where the setting says, or where they fit. `room` None: there is room for everything."""
    room = ample(table.x.device) if room is None else room
    size = int(torch.count_nonzero(table.missing)) * K * table.x.element_size()
    return Chains(table, K, place_of(setting, size, room), room.mapped)


def index_type(n: int) -> torch.dtype:
    """The smaller integer type that counts to n: of many rows with few holes these are a good part of the memory."""
    return torch.int32 if n < 2**31 else torch.int64


def _make_lines(x: Tensor, first: Tensor, lines: int, K: int, place: Place, mapped: Mapped) -> Lines:
    if place == "device":
        return DeviceLines(x.new_zeros(lines, K), first)
    values = torch.zeros(lines, K, dtype=x.dtype) if place == "host" else mapped(lines, K, x.dtype)
    return StagedLines(values, first.cpu(), x.device, place)
