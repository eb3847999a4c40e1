"""Abstract variational conditionals q_phi(x_j | rest): one per block, amortised over every pattern of holes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor, nn

from vgi_cli.conditionals.networks.trunk import Trunk
from vgi_cli.layout import Blocks


class Rows(NamedTuple):
    """Rows in a sweep, and what the conditionals keep of them.

    x        [R, D], changed in place by `Conditionals.set_`
    missing  [R, D]
    kept     [R, H] partial results of the conditionals for x
    """

    x: Tensor
    missing: Tensor
    kept: Tensor


class Draw(NamedTuple):
    """Fresh, reparameterised draws of single blocks.

    x      [R, M, D] rows with block j redrawn
    log_q  [R, M] log q of the new values (or minus the entropy where the family has it in closed form)
    """

    x: Tensor
    log_q: Tensor


class Proposal(NamedTuple):
    """One Metropolis proposal for each row.

    x            [R, D] rows with block j redrawn
    log_forward  [R] log of the proposal density of x'_j given x
    log_reverse  [R] log of the proposal density of x_j given x'
    """

    x: Tensor
    log_forward: Tensor
    log_reverse: Tensor


class Conditionals(nn.Module, ABC):
    """The S conditionals, one for each block of a partition of the D columns (paper, section 3.4).

    Redrawing a block changes those of its columns that are missing in the row, together. The extended kernel shows a
    block its own previous value (paper, appendix E). W is the width of the widest block; what is [R, (W)] below is [R]
    where every block is one column, and block j is column j (`flat`); else [R, W], filled up where a block is narrower.

    members, real  [S, W] see Blocks.members
    block_of       [D] the block of each column
    """

    noise_width: int  # numbers of standard normal noise that one proposal of one block needs
    fresh_width: int  # numbers that one draw from q itself needs: the first of them
    extended: bool
    members: Tensor
    real: Tensor
    block_of: Tensor

    def __init__(self, partition: Blocks) -> None:
        super().__init__()
        self.S, self.W = partition.S, partition.W
        self.flat = partition.W == 1
        members, real = map(torch.tensor, partition.members())
        block_of = torch.empty(partition.D, dtype=torch.int64)
        block_of[members] = torch.arange(self.S)[:, None].expand_as(members)
        for name, value in {"members": members, "real": real, "block_of": block_of}.items():
            self.register_buffer(name, value, persistent=False)  # the table tells it, so no checkpoint holds it

    @property
    def cell_width(self) -> int:
        """Numbers of noise a cell from which `noise_of` makes those of a proposal."""
        return self.noise_width - self.W + 1

    def noise_of(self, cells: Tensor, j: Tensor) -> Tensor:
        """[R, noise_width] noise of block j [R] from noise that is keyed by cell, [R, D, cell_width]: the first number
        of each of its columns, then the others of its first column."""
        columns = self.members[j]
        first = cells[..., 0].gather(1, columns)
        row = torch.arange(len(j), device=j.device)
        return torch.cat([first, cells[row, columns[:, 0], 1:]], 1)

    def at(self, rows: Rows, j: Tensor) -> Tensor:
        """[R, (W)] the values of block j [R]."""
        if self.flat:
            return rows.x.gather(1, j[:, None])[:, 0]
        return rows.x.gather(1, self.members[j])

    def inside(self, rows: Rows, j: Tensor, value: Tensor, box: Tensor) -> Tensor:
        """[R] whether new values [R, (W)] of the missing columns of block j [R] lie in the box [2, D]."""
        if self.flat:
            return (value >= box[0, j]) & (value <= box[1, j])
        columns = self.members[j]
        fits = (value >= box[0, columns]) & (value <= box[1, columns])
        return (fits | ~(rows.missing.gather(1, columns) & self.real[j])).all(1)

    @abstractmethod
    def initialise(self, generator: torch.Generator) -> None:
        """Set initial parameters (in place); all randomness comes from `generator`, on the CPU."""

    @abstractmethod
    def align(self, x: Tensor) -> None:
        """Fit what is linear in the initial parameters to the directions in which completed rows x [R, D] vary."""

    @abstractmethod
    def blocks(self, missing: Tensor) -> Tensor:
        """[R, S] bool: which blocks may be redrawn in each row; missing [R, D]."""

    @abstractmethod
    def propose(self, x: Tensor, missing: Tensor, j: Tensor, noise: Tensor) -> Proposal:
        """Redraw block j [R] of x [R, D] with the densities that a Metropolis step needs; noise [R, noise_width].

        The proposal may be a widened q: light tails would make a chain stick where p/q is large.
        """

    @abstractmethod
    def redraw(self, x: Tensor, missing: Tensor, j: Tensor, noise: Tensor) -> Tensor:
        """[R, D]: block j [R] of x redrawn from q itself (paper, Algorithm 5, line 5); noise [R, fresh_width], or
        longer."""

    @abstractmethod
    def see(self, x: Tensor, missing: Tensor) -> Rows:
        """Begin a sweep over rows x [R, D], which it may change in place. For sweeps only: without gradients."""

    @abstractmethod
    def params(self, rows: Rows, j: Tensor) -> Tensor:
        """[R, M, width] parameters of q(x_j | rest) for blocks j [R, M]: all that the four methods below need."""

    @abstractmethod
    def set_(self, rows: Rows, j: Tensor, value: Tensor) -> None:
        """Set block j [R] of the rows to value [R, (W)], in place."""

    @abstractmethod
    def fresh(self, params: Tensor, noise: Tensor) -> Tensor:
        """[R, (W)] draws from q itself; params [R, width], noise [R, fresh_width]."""

    @abstractmethod
    def proposed(self, params: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """[R, (W)] draws from the (widened) proposal and their log densities [R]; noise [R, noise_width]."""

    @abstractmethod
    def log_proposal(self, params: Tensor, value: Tensor) -> Tensor:
        """[R] log density of the (widened) proposal at value [R, (W)]."""


class OfColumns(Conditionals):
    """Conditionals of data columns alone: what Algorithm 3 redraws with gradients and Algorithm 2 scores."""

    @abstractmethod
    def draw(self, x: Tensor, missing: Tensor, j: Tensor, noise: Tensor) -> Draw:
        """Redraw block j [R, M] of x [R, D], each m on its own; noise [R, M, fresh_width] standard normal."""

    @abstractmethod
    def log_prob(self, x: Tensor, wanted: Tensor, j: Tensor) -> Tensor:
        """log q [R, M] of the cells of block j [R, M] that are `wanted` [R, D], given all others; the block is hidden
        from its own input, also in the extended kernel."""


class Univariate(OfColumns):
    """Conditionals of single columns, of which several may move together, each from its own at the row as it stands."""

    def __init__(self, D: int) -> None:
        super().__init__(Blocks.columns(D))

    @abstractmethod
    def draw_together(self, x: Tensor, j: Tensor, active: Tensor, noise: Tensor) -> Draw:
        """Redraw the active ones of columns j [R, B] of x [R, D] together, each from its conditional at x: rows [R, D]
        and the sum of their log q [R]; noise [R, B, fresh_width]."""

    @abstractmethod
    def proposed_apart(self, params: Tensor, noise: Tensor, wide: float) -> tuple[Tensor, Tensor]:
        """[..] draws, each from its own proposal, of which the share `wide` comes from a widened q, and their log
        densities [..]; params [.., width], noise [.., noise_width]."""

    @abstractmethod
    def log_proposal_apart(self, params: Tensor, value: Tensor, wide: float) -> Tensor:
        """[..] log density of that proposal at value [..]."""


class BlockNetwork(nn.Module, ABC):
    """A network that maps a completed row and a block to the parameters of q(x_j | rest) (paper, appendix G).

    S      blocks
    trunk  what is computed of a row before a block is named; empty where nothing is
    """

    S: int
    trunk: Trunk

    @abstractmethod
    def initialise(self, generator: torch.Generator) -> None:
        """Set initial parameters (in place), so that q = N(0, 1) everywhere."""

    @abstractmethod
    def forward(self, x: Tensor, j: Tensor, visible: bool, first: Tensor | None = None) -> Tensor:
        """Parameters [R, M, width] for blocks j [R, M] of rows x [R, D]; `visible`: block j sees its own value (else
        block j must be column j, which is hidden);
        `first`: what `trunk.first` gives for x, where it is known."""
