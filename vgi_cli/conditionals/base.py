"""Abstract variational conditionals q_phi(x_j | rest): one law per block, amortised over every pattern of holes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from vgi_cli.layout import Blocks
from vgi_cli.maths.laws import Law


class Conditionals(nn.Module, ABC):
    """The S conditionals, one for each block of a partition of the D columns (paper, section 3.4).

    Redrawing a block changes those of its columns that are missing in the row, together. The extended kernel shows a
    block its own previous value (paper, appendix E). W is the width of the widest block. Where every block is one
    column, and block j is column j, the conditionals are `flat`: values of a block are [R]; else [R, W], filled up
    where a block is narrower. Of flat conditionals several may be redrawn at once, apart: blocks and values [R, M].

    fresh_width    numbers of standard normal noise that a draw of one law needs
    noise_width    numbers that a draw of a widened law needs
    extended       which kernel
    members, real  [S, W] as Blocks.members gives them
    block_of       [D] the block of each column
    discrete       [D] which dimensions hold levels; `mixed`: whether any does
    two_levels     [D] which hold one of two, and are a block of their own; `flips`: whether any does
    """

    fresh_width: int
    noise_width: int
    extended: bool
    members: Tensor
    real: Tensor
    block_of: Tensor
    discrete: Tensor
    two_levels: Tensor
    _belongs: Tensor

    def __init__(self, partition: Blocks, *, joint: bool = False, levels: Sequence[int] = ()) -> None:
        """`joint`: they are not flat whatever the partition is. `levels`: of each dimension (`Layout.level_counts`);
        empty: all are continuous."""
        super().__init__()
        self.mixed = any(levels)
        self.S, self.W = partition.S, partition.W
        self.flat = partition.W == 1 and not joint
        self.flips = self.flat and 2 in levels
        members, real = map(torch.tensor, partition.members())
        block_of = torch.empty(partition.D, dtype=torch.int64)
        block_of[members] = torch.arange(self.S)[:, None].expand_as(members)
        belongs = torch.nn.functional.one_hot(block_of, self.S).float() if not self.flat else torch.empty(0)
        counts = torch.tensor(levels or (0,) * partition.D)
        buffers = {"members": members, "real": real, "block_of": block_of, "_belongs": belongs}
        buffers |= {"discrete": counts > 0, "two_levels": (counts == 2) & self.flat}
        for name, value in buffers.items():
            self.register_buffer(name, value, persistent=False)  # the table tells it, so no checkpoint holds it

    @abstractmethod
    def law(self, x: Tensor, missing: Tensor, block: Tensor, *, hidden: bool = False) -> Law:
        """The laws of the missing cells of blocks [R], or [R, M] each on its own, given the rest of rows x [R, D].

        hidden  the block is hidden from its own input in the extended kernel too (paper, Algorithm 2)
        """

    def laws(self, x: Tensor, missing: Tensor, blocks: Tensor) -> list[Law]:
        """`law` of each column of blocks [R, M]."""
        return [self.law(x, missing, block) for block in blocks.unbind(1)]

    def initialise(self, generator: torch.Generator) -> None:
        """Set initial parameters (in place); all randomness comes from `generator`, on the CPU."""

    def align(self, x: Tensor) -> None:
        """Fit what is linear in the initial parameters to the directions in which completed rows x [R, D] vary."""

    def sweep(self, x: Tensor, missing: Tensor) -> Sweep:
        """Rows x [R, D] at the start of a sweep, which changes them in place. Without gradients."""
        return Sweep(self, x, missing)

    def blocks(self, missing: Tensor) -> Tensor:
        """[R, S] which blocks may be redrawn in each row: those of which a column is missing."""
        return missing if self.flat else (missing.to(self._belongs.dtype) @ self._belongs) > 0

    def at(self, x: Tensor, j: Tensor) -> Tensor:
        """The values of blocks j [R] or [R, M] of x [R, D]."""
        if self.flat:
            return x.gather(1, j[:, None])[:, 0] if j.ndim == 1 else x.gather(1, j)
        if j.ndim == 1:
            return x.gather(1, self.members[j])
        return x[:, None].expand(-1, j.shape[1], -1).gather(2, self.members[j])

    def put(self, x: Tensor, j: Tensor, value: Tensor) -> Tensor:
        """x [.., D] with block j [..] set to value [.., (W)], broadcasting. Fillings repeat the first column's value,
        without its gradient."""
        rows = x.expand(*j.shape, x.shape[-1])
        if self.flat:
            return rows.scatter(-1, j[..., None], value[..., None])
        return rows.scatter(-1, self.members[j], torch.where(self.real[j], value, value[..., :1].detach()))

    def inside(self, value: Tensor, missing: Tensor, j: Tensor, box: Tensor) -> Tensor:
        """Whether new values of the missing columns of blocks j lie in the box [2, D]; [R], or [R, M] as j."""
        columns = j if self.flat else self.members[j]
        fits = (value >= box[0, columns]) & (value <= box[1, columns])
        return fits if self.flat else (fits | ~(self.at(missing, j) & self.real[j])).all(-1)

    @property
    def cell_width(self) -> int:
        """Numbers of noise a cell from which `noise_of` makes those of a widened draw."""
        return self.noise_width - self.W + 1

    def noise_of(self, cells: Tensor) -> Tensor:
        """[R, noise_width] noise of a block in each row from noise that is keyed by cell, [R, W, cell_width] of the W
        members of that block: the first number of each, then the others of the first."""
        return torch.cat([cells[..., 0], cells[:, 0, 1:]], 1)


class Sweep:
    """Rows in a sweep: x [R, D], changed in place, with missing [R, D], and their laws.

    j is [R] everywhere, or [R, B] where the conditionals are flat and B columns move together.
    """

    def __init__(self, q: Conditionals, x: Tensor, missing: Tensor) -> None:
        self.q, self.x, self.missing = q, x, missing
        self._tried: tuple[Tensor, Tensor, Tensor] | None = None

    def law(self, j: Tensor) -> Law:
        """The laws of blocks j as the rows stand."""
        return self.q.law(self.x, self.missing, j)

    def laws(self, j: Tensor) -> list[Law]:
        """The laws of each column of blocks j [R, M]."""
        return self.q.laws(self.x, self.missing, j)

    def at(self, j: Tensor) -> Tensor:
        """The values of blocks j."""
        return self.q.at(self.x, j)

    def set_(self, j: Tensor, value: Tensor) -> None:
        """Set blocks j to `value`."""
        if not self.q.flat:
            self.x.scatter_(1, self.q.members[j], torch.where(self.q.real[j], value, value[:, :1]))
        elif j.ndim == 1:
            self.x.scatter_(1, j[:, None], value[:, None])
        else:
            self.x.scatter_(1, j, value)

    def propose_(self, j: Tensor, value: Tensor, old: Tensor) -> None:
        """Set blocks j to `value` where they are `old`, until `settle_` says where that is to stay."""
        self._tried = j, value, old
        self.set_(j, value)

    def settle_(self, accepted: Tensor) -> None:
        """Keep what was proposed in the rows that are accepted [R], and go back in the others."""
        assert self._tried is not None
        j, value, old = self._tried
        self.set_(j, torch.where(accepted if value.ndim == 1 else accepted[:, None], value, old))
