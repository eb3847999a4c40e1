"""The conditionals that VGI trains: any family × any layout × either kernel, of single columns or of blocks.

The missing columns of a block are redrawn together, from a joint family. Where a row misses only some of them, those
are drawn given the others: so one set of parameters serves every pattern of holes, also in new rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from vgi_cli.conditionals.base import Conditionals, Sweep
from vgi_cli.conditionals.families.base import AnyFamily, BlockFamily, Family
from vgi_cli.conditionals.families.levels import LevelHeads, MixedLaw
from vgi_cli.conditionals.families.location import BlockLevels
from vgi_cli.conditionals.networks.trunk import BlockNetwork
from vgi_cli.layout import Blocks
from vgi_cli.maths.indicators import Indicators
from vgi_cli.maths.laws import Law

LEAST = 1e-2
"""Variance of a principal component of indicators below which it is not stretched to 1: those of a column sum to 1, but
not where it is hidden."""


class Levels(NamedTuple):
    """Of a table with discrete dimensions: how many levels each dimension has (0: continuous), and what parameters say
    of them, of single dimensions or of blocks."""

    counts: Sequence[int]
    laws: LevelHeads | BlockLevels


class AmortisedConditionals(Conditionals):
    """One conditional per block, all read off one BlockNetwork.

    family     of every conditional: of single columns where the partition is into such, else of blocks as wide as the
               widest. Of a table with discrete dimensions: of the continuous ones
    network    gives its parameters; of a table with discrete dimensions from rows whose levels are spread into
               indicators, hidden ones all 0
    extended   whether the kernel shows a block its own previous values (paper, appendix E)
    partition  None: each column on its own
    levels     what parameters say of levels; None: there are none
    """

    indicators: Indicators
    levels: LevelHeads | BlockLevels
    _block_of: Tensor

    def __init__(
        self,
        family: Family | BlockFamily,
        network: BlockNetwork,
        *,
        extended: bool,
        partition: Blocks | None = None,
        levels: Levels | None = None,
    ) -> None:
        partition = Blocks.columns(network.S) if partition is None else partition
        counts = () if levels is None else levels.counts
        super().__init__(partition, joint=isinstance(family, BlockFamily), levels=counts)
        self.family = family
        self.network = network
        self.extended = extended
        widths: AnyFamily | BlockLevels = family
        if levels is not None:
            self.indicators, self.levels = Indicators(counts), levels.laws
            own = self.indicators.spread(self.block_of)
            self.register_buffer("_block_of", own, persistent=False)
            if isinstance(levels.laws, BlockLevels):
                widths = levels.laws
        self.fresh_width, self.noise_width = widths.fresh_width, widths.noise_width

    def initialise(self, generator: torch.Generator) -> None:
        """Every q starts as N(0, I)."""
        self.network.initialise(generator)

    def align(self, x: Tensor) -> None:
        if self.mixed:
            self.network.trunk.align_(self.indicators(x), LEAST)
        else:
            self.network.trunk.align_(x)

    def law(
        self, x: Tensor, missing: Tensor, block: Tensor, *, hidden: bool = False, first: Tensor | None = None
    ) -> Law:
        """As in Conditionals; `first`: what `network.trunk.first` gives for x, where it is known."""
        j = block[:, None] if block.ndim == 1 else block
        params = self._params(x, j, self.extended and not hidden, first)
        return self._law(params[:, 0] if block.ndim == 1 else params, x, missing, block)

    def laws(self, x: Tensor, missing: Tensor, blocks: Tensor, first: Tensor | None = None) -> list[Law]:
        """From one pass of the network."""
        params = self._params(x, blocks, self.extended, first)
        return [self._law(params[:, m], x, missing, block) for m, block in enumerate(blocks.unbind(1))]

    def sweep(self, x: Tensor, missing: Tensor) -> Sweep:
        """A joint family costs more than the first layer of the trunk: only that of single columns is kept, and only
        where each is one number of the network's input."""
        return KeptSweep(self, x, missing) if self.flat and not self.mixed else Sweep(self, x, missing)

    def _params(self, x: Tensor, j: Tensor, visible: bool, first: Tensor | None) -> Tensor:
        """[R, M, width] of blocks j [R, M]."""
        params: Tensor
        block_of = self.block_of
        if self.mixed:
            x, block_of = self.indicators(x), self._block_of
        if visible or (self.flat and not self.mixed):
            params = self.network(x, j, visible, first)
            return params
        rows = torch.where(block_of == j[..., None], 0.0, x[:, None]).flatten(0, 1)
        params = self.network(rows, j.reshape(-1, 1), True)
        return params.view(*j.shape, -1)

    def _law(self, params: Tensor, x: Tensor, missing: Tensor, block: Tensor) -> Law:
        if isinstance(self.family, Family):
            if not self.mixed:
                return self.family.law(params)
            assert isinstance(self.levels, LevelHeads)
            numbers = self.family.law(params[..., : self.family.width])
            return MixedLaw(self.discrete[block], self.levels(params, block), numbers)
        real = self.real[block]
        own, wanted = self.at(x, block), self.at(missing, block) & real
        if self.mixed:
            assert isinstance(self.levels, BlockLevels)
            return self.levels.law(params, own, wanted, real, block)
        return self.family.law(params, own, wanted, real)


class KeptSweep(Sweep):
    """Rows in a sweep with what the first layer of the trunk makes of them: kept up to date along changes of single
    columns, made anew after one of several."""

    q: AmortisedConditionals

    def __init__(self, q: AmortisedConditionals, x: Tensor, missing: Tensor) -> None:
        super().__init__(q, x, missing)
        self._first: Tensor | None = None
        self._before: tuple[Tensor, Tensor] | None = None

    @property
    def first(self) -> Tensor:
        """[R, H] the first layer of the trunk at x."""
        if self._first is None:
            self._first = self.q.network.trunk.first(self.x)
        return self._first

    def law(self, j: Tensor) -> Law:
        return self.q.law(self.x, self.missing, j, first=self.first)

    def laws(self, j: Tensor) -> list[Law]:
        return self.q.laws(self.x, self.missing, j, self.first)

    def set_(self, j: Tensor, value: Tensor) -> None:
        if j.ndim == 1:
            self.q.network.trunk.change_(self.first, j, value - self.at(j))
        else:
            self._first = None
        super().set_(j, value)

    def propose_(self, j: Tensor, value: Tensor, old: Tensor) -> None:
        if j.ndim == 1:
            super().propose_(j, value, old)
        else:
            self._before = self.x, self.first
            self.x, self._first = self.x.scatter(1, j, value), None

    def settle_(self, accepted: Tensor) -> None:
        if self._before is None:
            super().settle_(accepted)
            return
        (x, first), self._before = self._before, None
        self.x = torch.where(accepted[:, None], self.x, x)
        self._first = torch.where(accepted[:, None], self.first, first)
