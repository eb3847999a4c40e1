"""Which encoded dimensions belong to which column, which columns form a block, and how many latents follow them.

A column takes one dimension or several (a number takes one). A dimension is continuous, or discrete: then it holds the
number of one of its levels, 0 to levels - 1, as a float. What is missing is missing by column, so that the
dimensions of a column are missing together, but for `tails` that have no value, and a block holds whole columns.
Everything that pairs names with dimensions asks the layout. Nothing here needs torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Blocks:
    """A partition of D dimensions into S blocks, each redrawn as one (paper, section 3.4).

    `of[s]` lists the dimensions of block s. Every dimension is in exactly one block.
    """

    of: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        dimensions = sorted(i for block in self.of for i in block)
        if dimensions != list(range(len(dimensions))):
            raise ValueError(f"blocks must partition the dimensions 0..D-1, got {self.of}")

    @classmethod
    def columns(cls, D: int) -> Blocks:
        """One block of width 1 for each of D dimensions."""
        return cls(tuple((i,) for i in range(D)))

    @classmethod
    def grouped(cls, D: int, groups: Iterable[Sequence[int]]) -> Blocks:
        """The groups as blocks, every other of D dimensions on its own; in the order of their first dimensions."""
        joined = {i for group in groups for i in group}
        alone = [(i,) for i in range(D) if i not in joined]
        return cls(tuple(sorted([*map(tuple, groups), *alone])))

    @property
    def S(self) -> int:
        """Number of blocks."""
        return len(self.of)

    @property
    def D(self) -> int:
        """Number of dimensions."""
        return sum(len(block) for block in self.of)

    @property
    def W(self) -> int:
        """Number of dimensions of the widest block."""
        return max(len(block) for block in self.of)

    def members(self) -> tuple[list[list[int]], list[list[bool]]]:
        """The dimensions of each block [S, W], filled up with its first one, and which of these are no filling."""
        dimensions = [[*block, *[block[0]] * (self.W - len(block))] for block in self.of]
        return dimensions, [[i < len(block) for i in range(self.W)] for block in self.of]


@dataclass(frozen=True)
class Layout:
    """The modelled columns of a table, their encoded dimensions and their blocks, and the latents after them.

    columns  names of the columns, in encoded order
    widths   encoded dimensions of each
    blocks   a partition of the columns, by their indices: the missing cells of a block are redrawn together
    L        latent dimensions, which come after those of the data and are one more block
    levels   of each of the d dimensions its number of levels, 0 where it is continuous; empty: all are continuous
    ordered  the discrete dimensions whose levels have an order
    """

    columns: tuple[str, ...]
    widths: tuple[int, ...]
    blocks: tuple[tuple[int, ...], ...]
    L: int = 0
    levels: tuple[int, ...] = ()
    ordered: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        if len(self.widths) != len(self.columns) or any(width < 1 for width in self.widths):
            raise ValueError(f"expected a width of at least 1 for each of {len(self.columns)} columns")
        if len(self.columns) != Blocks(self.blocks).D:
            raise ValueError(f"blocks must partition the {len(self.columns)} columns, got {self.blocks}")
        if self.levels and (len(self.levels) != self.d or any(n < 0 or n == 1 for n in self.levels)):
            raise ValueError(f"expected 0 or at least 2 levels for each of {self.d} dimensions, got {self.levels}")
        if not self.ordered <= set(self.discrete):
            raise ValueError("only discrete dimensions have ordered levels")

    @classmethod
    def of(
        cls,
        columns: Iterable[str],
        widths: Iterable[int] | None = None,
        levels: Iterable[int] = (),
        ordered: Iterable[int] = (),
    ) -> Self:
        """Columns with their widths (None: 1 each), each a block of its own; levels as of the fields."""
        names = tuple(columns)
        each = (1,) * len(names) if widths is None else tuple(widths)
        count = tuple(levels)
        count = count if any(count) else ()
        return cls(names, each, Blocks.columns(len(names)).of, levels=count, ordered=frozenset(ordered))

    @classmethod
    def plain(cls, D: int) -> Self:
        """D columns of one dimension each, named by their numbers."""
        return cls.of(map(str, range(D)))

    def grouped(self, groups: Iterable[Iterable[str]]) -> Self:
        """The same columns with each group of names as a block, and every other column on its own."""
        indices = [sorted(self.columns.index(name) for name in group) for group in groups]
        return replace(self, blocks=Blocks.grouped(len(self.columns), indices).of)

    def with_latents(self, L: int) -> Self:
        """The layout of rows that are augmented by L latents."""
        return replace(self, L=L)

    @cached_property
    def d(self) -> int:
        """Encoded dimensions of the data."""
        return sum(self.widths)

    @property
    def D(self) -> int:
        """Dimensions of a row: those of the data and the latents."""
        return self.d + self.L

    @cached_property
    def level_counts(self) -> tuple[int, ...]:
        """Of each of the D dimensions its number of levels, 0 where it is continuous."""
        return (*(self.levels or (0,) * self.d), *(0,) * self.L)

    @cached_property
    def discrete(self) -> tuple[int, ...]:
        """The dimensions that hold levels."""
        return tuple(i for i, n in enumerate(self.levels) if n)

    @cached_property
    def continuous(self) -> tuple[int, ...]:
        """The other ones of the d dimensions."""
        held = set(self.discrete)
        return tuple(i for i in range(self.d) if i not in held)

    @cached_property
    def slices(self) -> tuple[slice, ...]:
        """The dimensions of each column."""
        ends = accumulate(self.widths)
        return tuple(slice(end - width, end) for end, width in zip(ends, self.widths, strict=True))

    @cached_property
    def tails(self) -> tuple[tuple[int, int], ...]:
        """The continuous dimensions of columns that begin with a discrete one, which have a value only where that is 0:
        pairs of both, (continuous, discrete)."""
        return tuple(
            (i, dims.start)
            for dims in self.slices
            if self.level_counts[dims.start]
            for i in range(dims.start + 1, dims.stop)
            if not self.level_counts[i]
        )

    @cached_property
    def whole(self) -> tuple[int, ...]:
        """The discrete dimensions that are all there is of their column, without a tail."""
        before = {level for _, level in self.tails}
        return tuple(i for i in self.discrete if i not in before)

    @cached_property
    def units(self) -> tuple[slice, ...]:
        """What is missing, and may start, as a whole: the dimensions of each column, then each latent."""
        return (*self.slices, *(slice(i, i + 1) for i in range(self.d, self.D)))

    @cached_property
    def column_of(self) -> tuple[int, ...]:
        """The column of each of the d dimensions."""
        return tuple(c for c, width in enumerate(self.widths) for _ in range(width))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """A name for each of the D dimensions, which keys its randomness: that of a column that has one dimension, else
        one that no column has."""
        data = (
            (name,) if width == 1 else tuple(f"{name}\0{i}" for i in range(width))
            for name, width in zip(self.columns, self.widths, strict=True)
        )
        return (*(name for names in data for name in names), *(f"\0z{i}" for i in range(self.L)))

    def label(self, dimension: int) -> str:
        """What messages call a dimension: its column's name, or `latent i`."""
        if dimension < self.d:
            return self.columns[self.column_of[dimension]]
        return f"latent {dimension - self.d}"

    @cached_property
    def partition(self) -> Blocks:
        """The blocks as blocks of the D dimensions; the latents are the last one."""
        data = tuple(tuple(i for c in block for i in range(self.D)[self.slices[c]]) for block in self.blocks)
        return Blocks((*data, tuple(range(self.d, self.D))) if self.L else data)

    def data(self, x: Tensor) -> Tensor:
        """[.., d] the dimensions of the data of x [.., D]."""
        return x[..., : self.d] if self.L else x

    def split(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """x [.., D] as data [.., d] and latents [.., L]."""
        return x[..., : self.d], x[..., self.d :]

    def of_dimensions(self, of_columns: Tensor) -> Tensor:
        """[.., d]: what holds for each column [.., columns] (a mask, say) for each of its dimensions."""
        return of_columns if self.d == len(self.columns) else of_columns[..., list(self.column_of)]

    def of_columns(self, of_dimensions: Tensor) -> Tensor:
        """[.., columns]: what holds for each column, from a value for each dimension [.., d] or [.., D], as a mask is:
        that of the first one, which is missing where the column is."""
        if len(self.columns) == self.D:
            return of_dimensions
        return of_dimensions[..., [dimensions.start for dimensions in self.slices]]
