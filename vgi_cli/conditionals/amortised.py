"""The conditionals that VGI trains: any family × any layout × either kernel, of single columns or of blocks.

The missing columns of a block are redrawn together, from a joint family. Where a row misses only some of them, those
are drawn given the others: so one set of parameters serves every pattern of holes, also in new rows.
"""

from __future__ import annotations

import torch
from torch import Tensor

from vgi_cli.conditionals.base import Conditionals, Sweep
from vgi_cli.conditionals.families.base import BlockFamily, Family
from vgi_cli.conditionals.networks.trunk import BlockNetwork
from vgi_cli.layout import Blocks
from vgi_cli.maths.laws import Law


class AmortisedConditionals(Conditionals):
    """One conditional per block, all read off one BlockNetwork.

    family     of every conditional: of single columns where the partition is into such, else of blocks as wide as the
               widest
    network    gives its parameters
    extended   whether the kernel shows a block its own previous values (paper, appendix E)
    partition  None: each column on its own
    """

    def __init__(
        self,
        family: Family | BlockFamily,
        network: BlockNetwork,
        *,
        extended: bool,
        partition: Blocks | None = None,
    ) -> None:
        columns = Blocks.columns(network.S)
        super().__init__(columns if partition is None else partition, joint=isinstance(family, BlockFamily))
        self.family = family
        self.network = network
        self.extended = extended
        self.fresh_width, self.noise_width = family.fresh_width, family.noise_width

    def initialise(self, generator: torch.Generator) -> None:
        """Every q starts as N(0, I)."""
        self.network.initialise(generator)

    def align(self, x: Tensor) -> None:
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
        """A joint family costs more than the first layer of the trunk: only that of single columns is kept."""
        return KeptSweep(self, x, missing) if self.flat else Sweep(self, x, missing)

    def _params(self, x: Tensor, j: Tensor, visible: bool, first: Tensor | None) -> Tensor:
        """[R, M, width] of blocks j [R, M]."""
        params: Tensor
        if visible or self.flat:
            params = self.network(x, j, visible, first)
            return params
        rows = torch.where(self.block_of == j[..., None], 0.0, x[:, None]).flatten(0, 1)
        params = self.network(rows, j.reshape(-1, 1), True)
        return params.view(*j.shape, -1)

    def _law(self, params: Tensor, x: Tensor, missing: Tensor, block: Tensor) -> Law:
        if isinstance(self.family, Family):
            return self.family.law(params)
        real = self.real[block]
        return self.family.law(params, self.at(x, block), self.at(missing, block) & real, real)


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
