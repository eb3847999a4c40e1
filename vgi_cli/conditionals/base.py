"""Abstract variational conditionals q_phi(x_j | rest): one per block, amortised over every pattern of holes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor, nn

from vgi_cli.conditionals.trunk import Trunk


class Rows(NamedTuple):
    """Rows in a sweep, and what the conditionals keep of them.

    x     [R, D], changed in place by `Conditionals.set_`
    kept  [R, W] partial results of the conditionals for x
    """

    x: Tensor
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


class Move(NamedTuple):
    """How a column moves within its conditional, in the base space where q is N(0, 1).

    relax  alpha in (-1, 1): u' = alpha u + sqrt(1 - alpha^2) e. 0: a fresh draw; below 0: over-relaxed, the draw falls
           on the other side of the middle (Adler 1981). It leaves q invariant whatever alpha is
    wide   share of moves that are fresh draws from a widened q instead: a light-tailed q would make a chain stick
    """

    relax: float = 0.0
    wide: float = 0.0


class Conditionals(nn.Module, ABC):
    """The S conditionals. The extended kernel shows a block its own previous value (paper, appendix E)."""

    noise_width: int  # numbers of standard normal noise that one proposal of one block needs
    fresh_width: int  # numbers that one draw from q itself needs: the first of them
    extended: bool
    S: int

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
    def draw(self, x: Tensor, j: Tensor, noise: Tensor) -> Draw:
        """Redraw block j [R, M] of x [R, D], each m on its own; noise [R, M, noise_width] standard normal."""

    @abstractmethod
    def draw_together(self, x: Tensor, j: Tensor, active: Tensor, noise: Tensor) -> Draw:
        """Redraw the active ones of columns j [R, B] of x [R, D] together, each from its conditional at x: rows [R, D]
        and the sum of their log q [R]; noise [R, B, fresh_width]."""

    @abstractmethod
    def propose(self, x: Tensor, j: Tensor, noise: Tensor) -> Proposal:
        """Redraw block j [R] of x [R, D] with the densities that a Metropolis step needs; noise [R, noise_width].

        The proposal may be a widened q: light tails would make a chain stick where p/q is large.
        """

    @abstractmethod
    def redraw(self, x: Tensor, j: Tensor, noise: Tensor) -> Tensor:
        """[R, D]: block j [R] of x redrawn from q itself (paper, Algorithm 5, line 5); noise [R, noise_width]."""

    @abstractmethod
    def see(self, x: Tensor) -> Rows:
        """Begin a sweep over rows x [R, D], which it may change in place. For sweeps only: without gradients."""

    @abstractmethod
    def params(self, rows: Rows, j: Tensor) -> Tensor:
        """[R, M, width] parameters of q(x_j | rest) for blocks j [R, M]."""

    @abstractmethod
    def set_(self, rows: Rows, j: Tensor, value: Tensor) -> None:
        """Set block j [R] of the rows to value [R], in place."""

    @abstractmethod
    def fresh(self, params: Tensor, noise: Tensor) -> Tensor:
        """[R] draws from q itself; params [R, width], noise [R, fresh_width]."""

    @abstractmethod
    def proposed(self, params: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """[R] draws from the (widened) proposal and their log densities [R]; noise [R, noise_width]."""

    @abstractmethod
    def log_proposal(self, params: Tensor, value: Tensor) -> Tensor:
        """[R] log density of the (widened) proposal at value [R]."""

    @abstractmethod
    def moved(self, params: Tensor, old: Tensor, noise: Tensor, move: Move) -> tuple[Tensor, Tensor]:
        """New values [..] of columns that stand at `old` [..], and their log densities given `old`.

        params [.., width]; noise [.., noise_width], or [.., fresh_width] where no share is widened.
        """

    @abstractmethod
    def log_moved(self, params: Tensor, old: Tensor, new: Tensor, move: Move) -> Tensor:
        """[..] log density of going from old to new."""

    @abstractmethod
    def log_prob(self, x: Tensor, j: Tensor) -> Tensor:
        """log q(x_j | rest) [R, M] with block j [R, M] hidden from its own input, also in the extended kernel."""


class BlockNetwork(nn.Module, ABC):
    """A network that maps a completed row and a block to the parameters of q(x_j | rest) (paper, appendix G).

    S      blocks (of one column each: block j is column j)
    trunk  what is computed of a row before a block is named; empty where nothing is
    """

    S: int
    trunk: Trunk

    @abstractmethod
    def initialise(self, generator: torch.Generator) -> None:
        """Set initial parameters (in place), so that q = N(0, 1) everywhere."""

    @abstractmethod
    def forward(self, x: Tensor, j: Tensor, visible: bool, first: Tensor | None = None) -> Tensor:
        """Parameters [R, M, width] for blocks j [R, M] of rows x [R, D]; `visible`: block j sees its own value;
        `first`: what `trunk.first` gives for x, where it is known."""
