"""The encoded table that methods see: values, what is missing, and the partition of the columns into blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor


@dataclass(frozen=True)
class Blocks:
    """A partition of the D columns into S blocks that are missing together (paper, section 3.4).

    `of[s]` lists the columns of block s. Every column is in exactly one block.
    """

    of: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        columns = sorted(c for block in self.of for c in block)
        if columns != list(range(len(columns))):
            raise ValueError(f"blocks must partition the columns 0..D-1, got {self.of}")

    @classmethod
    def columns(cls, D: int) -> Blocks:
        """One block of width 1 for each of D columns."""
        return cls(tuple((c,) for c in range(D)))

    @property
    def S(self) -> int:
        """Number of blocks."""
        return len(self.of)

    @property
    def D(self) -> int:
        """Number of columns."""
        return sum(len(block) for block in self.of)


class TensorTable(NamedTuple):
    """An incomplete table in encoded space.

    x        [N, D] float; absent cells hold 0
    missing  [N, D] bool; True where the cell is absent
    blocks   partition of the D columns
    """

    x: Tensor
    missing: Tensor
    blocks: Blocks

    @property
    def N(self) -> int:
        """Number of rows."""
        return int(self.x.shape[0])

    @property
    def D(self) -> int:
        """Number of columns."""
        return int(self.x.shape[1])

    def rows(self, index: Tensor) -> TensorTable:
        """The rows that `index` (int64 or bool, [n]) names."""
        return TensorTable(self.x[index], self.missing[index], self.blocks)

    def to(self, *, dtype: torch.dtype | None = None, device: torch.device | str | None = None) -> TensorTable:
        """The same table in another precision or on another device."""
        return TensorTable(self.x.to(dtype=dtype, device=device), self.missing.to(device=device), self.blocks)


def make_table(x: Tensor, missing: Tensor, blocks: Blocks | None = None) -> TensorTable:
    """A TensorTable from values and mask ([N, D] each); absent cells are set to 0.

    Raises ValueError when shapes differ, the mask is not boolean or an observed cell is not finite.
    """
    if x.shape != missing.shape or x.ndim != 2:
        raise ValueError(f"x and missing must both be [N, D], got {tuple(x.shape)} and {tuple(missing.shape)}")
    if missing.dtype != torch.bool:
        raise ValueError(f"missing must be boolean, got {missing.dtype}")
    x = torch.where(missing, torch.zeros_like(x), x)
    if not bool(torch.isfinite(x).all()):
        raise ValueError("an observed cell is not finite")
    return TensorTable(x, missing, Blocks.columns(x.shape[1]) if blocks is None else blocks)


def spread_rows(N: int, most: int) -> Tensor:
    """At most `most` of N row indices (sorted, int64), evenly spread."""
    n = min(N, most)
    return torch.arange(n) * N // max(n, 1)


def split_rows(N: int, fraction: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Row indices (sorted, int64) of a random split: (kept, held out), with round(fraction * N) rows held out."""
    order = torch.randperm(N, generator=generator)
    held = round(fraction * N)
    return order[held:].sort().values, order[:held].sort().values
