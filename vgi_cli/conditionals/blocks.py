"""Conditionals for blocks of several columns: variational block-Gibbs inference (paper, section 3.4).

The missing columns of a block are redrawn together, from a joint family (joint.py). Where a row misses only some of
them, those are drawn given the others: so one set of parameters serves every pattern of holes, also in new rows.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from vgi_cli.conditionals.amortised import WIDE_SCALE, WIDE_SHARE, log_normal
from vgi_cli.conditionals.base import BlockNetwork, Draw, OfColumns, Proposal, Rows
from vgi_cli.conditionals.families.joint import JointFamily
from vgi_cli.layout import Blocks


class BlockConditionals(OfColumns):
    """One joint conditional for each block, all read off one BlockNetwork.

    partition  of the D columns
    family     joint family of every conditional, as wide as the widest block
    network    gives its parameters
    extended   whether the kernel shows a block its own previous values (paper, appendix E)
    """

    def __init__(self, partition: Blocks, family: JointFamily, network: BlockNetwork, *, extended: bool) -> None:
        super().__init__(partition)
        self.family = family
        self.network = network
        self.extended = extended
        self.noise_width = self.W + 1
        self.fresh_width = self.W
        belongs = torch.zeros(partition.D, self.S)
        belongs[torch.arange(partition.D), self.block_of] = 1.0
        self.register_buffer("_belongs", belongs, persistent=False)

    _belongs: Tensor

    def initialise(self, generator: torch.Generator) -> None:
        """See Conditionals: every q starts as N(0, I)."""
        self.network.initialise(generator)

    def align(self, x: Tensor) -> None:
        """See Conditionals."""
        self.network.trunk.align_(x)

    def blocks(self, missing: Tensor) -> Tensor:
        """A block may be redrawn where one of its columns is missing."""
        return (missing.to(self._belongs.dtype) @ self._belongs) > 0

    def draw(self, x: Tensor, missing: Tensor, j: Tensor, noise: Tensor) -> Draw:
        """See Conditionals. Gaussian: log_q is minus the entropy (paper, section 4.3)."""
        params = self._params(x, missing, j, self.extended)
        u = noise[..., : self.W]
        value, log_det = self.family.to_value(params, u)
        entropy = self.family.entropy(params)
        log_q = self._log_base(params, u) - log_det if entropy is None else -entropy
        return Draw(self._put(x[:, None], j, value), log_q)

    def propose(self, x: Tensor, missing: Tensor, j: Tensor, noise: Tensor) -> Proposal:
        """See Conditionals. In the standard kernel the reverse density reuses the forward parameters."""
        params = self._params(x, missing, j[:, None], self.extended)[:, 0]
        value, log_forward = self.proposed(params, noise)
        new = self._put(x, j, value)
        if self.extended:
            params = self._params(new, missing, j[:, None], True)[:, 0]
        return Proposal(new, log_forward, self.log_proposal(params, x.gather(1, self.members[j])))

    def redraw(self, x: Tensor, missing: Tensor, j: Tensor, noise: Tensor) -> Tensor:
        """See Conditionals."""
        params = self._params(x, missing, j[:, None], self.extended)[:, 0]
        return self._put(x, j, self.fresh(params, noise))

    def see(self, x: Tensor, missing: Tensor) -> Rows:
        """See Conditionals. Nothing is kept: a joint family costs more than the first layer of the trunk."""
        return Rows(x, missing, x.new_empty(len(x), 0))

    def params(self, rows: Rows, j: Tensor) -> Tensor:
        """See Conditionals."""
        return self._params(rows.x, rows.missing, j, self.extended)

    def set_(self, rows: Rows, j: Tensor, value: Tensor) -> None:
        """See Conditionals."""
        columns = self.members[j]
        rows.x.scatter_(1, columns, torch.where(self.real[j], value, value[:, :1]))

    def fresh(self, params: Tensor, noise: Tensor) -> Tensor:
        """See Conditionals."""
        return self.family.to_value(params, noise[..., : self.W])[0]

    def proposed(self, params: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """See Conditionals. All cells of a proposal are widened, or none: the last number chooses."""
        wide = torch.special.ndtr(noise[..., self.W]) < WIDE_SHARE
        u = noise[..., : self.W] * torch.where(wide, WIDE_SCALE, 1.0)[..., None]
        value, log_det = self.family.to_value(params, u)
        return value, self._log_widened(params, u) - log_det

    def log_proposal(self, params: Tensor, value: Tensor) -> Tensor:
        """See Conditionals."""
        u, log_det = self.family.to_base(params, value)
        return self._log_widened(params, u) + log_det

    def log_prob(self, x: Tensor, wanted: Tensor, j: Tensor) -> Tensor:
        """See Conditionals."""
        params = self._params(x, wanted, j, False)
        u, log_det = self.family.to_base(params, self._values(x, j))
        return self._log_base(params, u) + log_det

    def _params(self, x: Tensor, wanted: Tensor, j: Tensor, visible: bool) -> Tensor:
        """[R, M, *] resolved parameters of blocks j [R, M]."""
        if visible:
            params = self.network(x, j, True)
        else:
            own = self.block_of == j[..., None]  # [R, M, D]
            rows = torch.where(own, 0.0, x[:, None]).flatten(0, 1)
            params = self.network(rows, j.reshape(-1, 1), True).view(*j.shape, -1)
        real = self.real[j]
        missing = self._values(wanted, j) & real
        return self.family.resolve(params, self._values(x, j), missing, real)

    def _values(self, x: Tensor, j: Tensor) -> Tensor:
        """[R, M, W] the cells of blocks j [R, M]."""
        return x[:, None].expand(-1, j.shape[1], -1).gather(2, self.members[j])

    def _put(self, x: Tensor, j: Tensor, value: Tensor) -> Tensor:
        """x [.., D] with block j [..] set to value [.., W] (broadcasting); fillings repeat the first column's value,
        without its gradient."""
        value = torch.where(self.real[j], value, value[..., :1].detach())
        return x.expand(*j.shape, x.shape[-1]).scatter(-1, self.members[j], value)

    def _log_base(self, params: Tensor, u: Tensor) -> Tensor:
        """[..] log N(u; 0, I) over the wanted cells."""
        return (log_normal(u) * self.family.wanted(params)).sum(-1)

    def _log_widened(self, params: Tensor, u: Tensor) -> Tensor:
        """[..] log of (1 - w) N(u; 0, I) + w N(u; 0, s^2 I) over the wanted cells: the base density of proposals."""
        wanted = self.family.wanted(params)
        wide = ((log_normal(u / WIDE_SCALE) - math.log(WIDE_SCALE)) * wanted).sum(-1)
        narrow = (log_normal(u) * wanted).sum(-1)
        return torch.logaddexp(narrow + math.log1p(-WIDE_SHARE), wide + math.log(WIDE_SHARE))
