"""The conditionals that VGI trains: any family × any layout × either kernel."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from vgi_cli.conditionals.base import BlockNetwork, Draw, Proposal, Rows, Univariate
from vgi_cli.conditionals.families.base import Family

WIDE_SHARE = 0.05  # share of proposals from a widened q: light tails would make a chain stick
WIDE_SCALE = 3.0  # their standard deviation in base space


def log_normal(u: Tensor) -> Tensor:
    """log N(u; 0, 1)."""
    return -0.5 * u.square() - 0.5 * math.log(2.0 * math.pi)


def log_widened(u: Tensor, share: float = WIDE_SHARE) -> Tensor:
    """log of (1 - w) N(u; 0, 1) + w N(u; 0, s^2), the base density of proposals; w is the share."""
    wide = log_normal(u / WIDE_SCALE) + math.log(share / WIDE_SCALE)
    return torch.logaddexp(log_normal(u) + math.log1p(-share), wide)


def widened(noise: Tensor, share: float = WIDE_SHARE) -> Tensor:
    """A draw of that base density from two standard normals [.., 2]: the second chooses the component."""
    wide = torch.special.ndtr(noise[..., 1]) < share
    return noise[..., 0] * torch.where(wide, WIDE_SCALE, 1.0)


class AmortisedConditionals(Univariate):
    """One univariate conditional per column, all read off one BlockNetwork.

    family    univariate family of every conditional
    network   gives its parameters
    extended  whether the kernel shows a column its own previous value (paper, appendix E)
    """

    noise_width = 2
    fresh_width = 1

    def __init__(self, family: Family, network: BlockNetwork, *, extended: bool) -> None:
        super().__init__(network.S)
        self.family = family
        self.network = network
        self.extended = extended

    def initialise(self, generator: torch.Generator) -> None:
        """See Conditionals: every q starts as N(0, 1)."""
        self.network.initialise(generator)

    def align(self, x: Tensor) -> None:
        """See Conditionals."""
        self.network.trunk.align_(x)

    def blocks(self, missing: Tensor) -> Tensor:
        """Every missing column may be redrawn on its own."""
        return missing

    def draw(self, x: Tensor, missing: Tensor, j: Tensor, noise: Tensor) -> Draw:
        """See Conditionals. Gaussian: log_q is minus the entropy (paper, section 4.3)."""
        params = self.network(x, j, self.extended)
        u = noise[..., 0]
        value, log_det = self.family.to_value(params, u)
        entropy = self.family.entropy(params)
        return Draw(put(x[:, None], j, value), log_normal(u) - log_det if entropy is None else -entropy)

    def draw_together(self, x: Tensor, j: Tensor, active: Tensor, noise: Tensor) -> Draw:
        """See Univariate. Gaussian: minus the entropies."""
        params = self.network(x, j, self.extended)
        u = noise[..., 0]
        value, log_det = self.family.to_value(params, u)
        entropy = self.family.entropy(params)
        log_q = log_normal(u) - log_det if entropy is None else -entropy
        new = x.scatter(1, j, torch.where(active, value, x.gather(1, j)))
        return Draw(new, torch.where(active, log_q, 0.0).sum(1))

    def propose(self, x: Tensor, missing: Tensor, j: Tensor, noise: Tensor) -> Proposal:
        """See Conditionals. In the standard kernel the reverse density reuses the forward parameters."""
        index = j[:, None]
        params = self.network(x, index, self.extended)[:, 0]
        value, log_forward = self.proposed(params, noise)
        new = put(x, j, value)
        if self.extended:
            params = self.network(new, index, True)[:, 0]
        return Proposal(new, log_forward, self.log_proposal(params, x.gather(1, index)[:, 0]))

    def redraw(self, x: Tensor, missing: Tensor, j: Tensor, noise: Tensor) -> Tensor:
        """[R, D]: rows with block j [R] redrawn from q itself, the paper's pseudo-Gibbs step (Algorithm 5, line 5)."""
        return put(x, j, self.fresh(self.network(x, j[:, None], self.extended)[:, 0], noise))

    def see(self, x: Tensor, missing: Tensor) -> Rows:
        """See Conditionals."""
        return Rows(x, missing, self.network.trunk.first(x))

    def params(self, rows: Rows, j: Tensor) -> Tensor:
        """See Conditionals."""
        parameters: Tensor = self.network(rows.x, j, self.extended, rows.kept)
        return parameters

    def set_(self, rows: Rows, j: Tensor, value: Tensor) -> None:
        """See Conditionals."""
        index = j[:, None]
        self.network.trunk.change_(rows.kept, j, value - rows.x.gather(1, index)[:, 0])
        rows.x.scatter_(1, index, value[:, None])

    def fresh(self, params: Tensor, noise: Tensor) -> Tensor:
        """See Conditionals."""
        return self.family.to_value(params, noise[..., 0])[0]

    def proposed(self, params: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """See Conditionals."""
        return self.proposed_apart(params, noise, WIDE_SHARE)

    def log_proposal(self, params: Tensor, value: Tensor) -> Tensor:
        """See Conditionals."""
        return self.log_proposal_apart(params, value, WIDE_SHARE)

    def proposed_apart(self, params: Tensor, noise: Tensor, wide: float) -> tuple[Tensor, Tensor]:
        """See Univariate."""
        u = widened(noise, wide)
        value, log_det = self.family.to_value(params, u)
        return value, log_widened(u, wide) - log_det

    def log_proposal_apart(self, params: Tensor, value: Tensor, wide: float) -> Tensor:
        """See Univariate."""
        u, log_det = self.family.to_base(params, value)
        return log_widened(u, wide) + log_det

    def log_prob(self, x: Tensor, wanted: Tensor, j: Tensor) -> Tensor:
        """See Conditionals."""
        u, log_det = self.family.to_base(self.network(x, j, False), x.gather(1, j))
        return log_normal(u) + log_det


def put(x: Tensor, j: Tensor, value: Tensor) -> Tensor:
    """x [.., D] with column j [..] set to value [..] (broadcasting)."""
    index = j[..., None]
    return x.expand(*j.shape, x.shape[-1]).scatter(-1, index, value[..., None])
