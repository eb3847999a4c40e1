"""The encoded table that methods see: values, what is missing, and the partition of the columns into blocks."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
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

    @classmethod
    def grouped(cls, D: int, groups: Iterable[Sequence[int]]) -> Blocks:
        """The groups as blocks, every other of D columns on its own; in the order of their first columns."""
        joined = {c for group in groups for c in group}
        alone = [(c,) for c in range(D) if c not in joined]
        return cls(tuple(sorted([*map(tuple, groups), *alone])))

    @property
    def S(self) -> int:
        """Number of blocks."""
        return len(self.of)

    @property
    def D(self) -> int:
        """Number of columns."""
        return sum(len(block) for block in self.of)

    @property
    def W(self) -> int:
        """Number of columns of the widest block."""
        return max(len(block) for block in self.of)

    def members(self) -> tuple[Tensor, Tensor]:
        """The columns of each block [S, W], filled up with its first one, and which of these are no filling [S, W]."""
        columns = torch.tensor([[*block, *[block[0]] * (self.W - len(block))] for block in self.of])
        real = torch.tensor([[i < len(block) for i in range(self.W)] for block in self.of])
        return columns, real


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


def missing_together(missing: Tensor) -> list[tuple[int, ...]]:
    """Groups of at least two columns that have holes, in the same rows: missing [N, D]."""
    groups: dict[bytes, list[int]] = {}
    for column, absent in enumerate(missing.cpu().T):
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
