"""The encoded table that methods see: values, what is missing, and the layout of its columns."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from vgi_cli.layout import Layout
from vgi_cli.scratch import Scratch

FEW_BYTES = 1 << 26
"""Rows of a table in files that take no more than this are held in memory."""


class Rounding(Protocol):
    """What the cells of rounded columns stand for: all values that are read back as the same cell."""

    @property
    def dims(self) -> Sequence[int]:
        """The dimensions of which cells are wide beside the spread of their column, ascending."""

    def ends(self, x: Tensor, /) -> tuple[Tensor, Tensor]:
        """Of rows x [R, D] the least and the greatest value [R, n] of each cell of `dims`, float64 on the CPU; the cell
        itself where it is none that can be read back."""


class TensorTable(NamedTuple):
    """An incomplete table in encoded space.

    x        [N, D] float; absent cells hold 0
    missing  [N, D] bool; True where the cell is absent
    layout   which of the D dimensions belong to which column and block
    weight   [N] what each row counts in the likelihood, up to a factor, none negative; None: all the same
    scratch  where x and missing lie in files, and so do the tables that are made from this one; None: in memory
    rounding  what cells of rounded columns stand for; None: nowhere more than a number, or it is not known
    """

    x: Tensor
    missing: Tensor
    layout: Layout
    weight: Tensor | None = None
    scratch: Scratch | None = None
    rounding: Rounding | None = None

    @property
    def N(self) -> int:
        """Number of rows."""
        return int(self.x.shape[0])

    @property
    def D(self) -> int:
        """Number of dimensions."""
        return int(self.x.shape[1])

    @property
    def used(self) -> Tensor:
        """[n] numbers of the rows that a fit uses: with an observed cell, and with a weight that is not 0."""
        used = ~self.missing.all(1)
        return (used if self.weight is None else used & (self.weight > 0)).nonzero()[:, 0]

    @property
    def relative_weight(self) -> Tensor | None:
        """[N] the weights, with mean 1 over the rows that are used; None: all rows count the same, which those of a
        part of a table do whose rows above 0 lack a column that others have."""
        if self.weight is None or bool((self.uncounted & ~self.missing.all(0)).any()):
            return None
        weight = self.weight / self.weight.max()
        return weight / weight[self.used].mean()

    @property
    def uncounted(self) -> Tensor:
        """[D] bool: where no row that counts (all do without weights, else those above 0) has an observed cell."""
        return (self.missing if self.weight is None else self.missing[self.weight > 0]).all(0)

    def rows(self, index: Tensor) -> TensorTable:
        """The rows that `index` (int64 or bool, [n]) names."""
        if self.scratch is not None:
            return self._few_or_in_files(index, self.scratch)
        weight = None if self.weight is None else self.weight[index]
        return TensorTable(self.x[index], self.missing[index], self.layout, weight, rounding=self.rounding)

    def to(self, *, dtype: torch.dtype | None = None, device: torch.device | str | None = None) -> TensorTable:
        """The same table in another precision or on another device."""
        if self.scratch is not None and dtype not in (None, self.x.dtype):
            x = self.scratch.converted(self.x, dtype or self.x.dtype)
            return self._replace(x=x, weight=None if self.weight is None else self.weight.to(dtype=dtype))
        if self.scratch is not None:
            return self
        weight = None if self.weight is None else self.weight.to(dtype=dtype, device=device)
        x, missing = self.x.to(dtype=dtype, device=device), self.missing.to(device=device)
        return TensorTable(x, missing, self.layout, weight, rounding=self.rounding)

    def _few_or_in_files(self, index: Tensor, scratch: Scratch) -> TensorTable:
        """Some rows of a table in files: in memory where they are few, the table itself where they are all of it."""
        if index.dtype == torch.bool:
            index = index.nonzero()[:, 0]
        if len(index) == self.N and torch.equal(index.cpu(), torch.arange(self.N)):
            return self
        weight = None if self.weight is None else self.weight[index]
        if len(index) * self.D * (self.x.element_size() + 1) <= FEW_BYTES:
            return TensorTable(self.x[index], self.missing[index], self.layout, weight, rounding=self.rounding)
        x, missing = scratch.rows(self.x, index), scratch.rows(self.missing, index)
        return TensorTable(x, missing, self.layout, weight, scratch, self.rounding)


def make_table(x: Tensor, missing: Tensor, layout: Layout | None = None) -> TensorTable:
    """A TensorTable from values and mask ([N, D] each); absent cells are set to 0.

    layout  None: D unnamed columns of one dimension each

    Raises ValueError when shapes differ, the mask is not boolean or an observed cell is not finite.
    """
    if x.shape != missing.shape or x.ndim != 2:
        raise ValueError(f"x and missing must both be [N, D], got {tuple(x.shape)} and {tuple(missing.shape)}")
    if missing.dtype != torch.bool:
        raise ValueError(f"missing must be boolean, got {missing.dtype}")
    layout = Layout.plain(x.shape[1]) if layout is None else layout
    if x.shape[1] != layout.D:
        raise ValueError(f"x has {x.shape[1]} dimensions and its layout {layout.D}")
    x = torch.where(missing, torch.zeros_like(x), x)
    if not bool(torch.isfinite(x).all()):
        raise ValueError("an observed cell is not finite")
    return TensorTable(x, missing, layout)


def missing_together(table: TensorTable) -> list[tuple[int, ...]]:
    """Groups of at least two columns that have holes, in the same rows."""
    groups: dict[bytes, list[int]] = {}
    for column, absent in enumerate(table.layout.of_columns(table.missing).cpu().T):
        if bool(absent.any()):
            key = hashlib.blake2b(absent.contiguous().numpy().tobytes()).digest()
            groups.setdefault(key, []).append(column)
    return [tuple(group) for group in groups.values() if len(group) > 1]


def spread_rows(N: int, most: int) -> Tensor:
    """At most `most` of N row indices (sorted, int64), evenly spread."""
    n = min(N, most)
    return torch.arange(n) * N // max(n, 1)


def split_rows(N: int, fraction: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Row indices (sorted, int64) of a random split: (kept, held out), with round(fraction * N) rows held out."""
    order = torch.randperm(N, generator=generator)
    held = round(fraction * N)
    return order[held:].sort().values, order[:held].sort().values
