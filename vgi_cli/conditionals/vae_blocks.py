"""The two conditionals of variational block-Gibbs inference on a model with latents (paper, section 6.3): of all
latents given the cells, q(z | x), which is the model's encoder, and of all missing cells given the latents and what is
observed.

Rows are augmented: the d data columns, then the L latents. Block 0 is the data, block 1 the latents.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

import torch
from torch import Tensor
from torch.nn import functional as F

from vgi_cli.conditionals.amortised import WIDE_SCALE, WIDE_SHARE, log_normal
from vgi_cli.conditionals.base import Conditionals, Draw, Proposal, Rows
from vgi_cli.conditionals.gaussian import MAX_LOG_STD
from vgi_cli.data import Blocks
from vgi_cli.maths.diagonal import DiagonalNormal
from vgi_cli.maths.nets import MLP

Law: TypeAlias = Callable[[], Tensor]
HALF_LOG_2PIE = 0.5 * math.log(2.0 * math.pi * math.e)


class Autoencoder(Protocol):
    """What is needed of the model (see models/base.py, Latent)."""

    def encode(self, x: Tensor) -> DiagonalNormal: ...
    def decode(self, z: Tensor) -> DiagonalNormal: ...


class LatentBlocks(Conditionals):
    """q(x_mis | z, x_obs) and q(z | x), diagonal normals.

    d, L    data columns and latents
    hidden  widths of the hidden layers of the network that gives q(x_mis | z, x_obs) from z and the row with its
            missing cells set to 0; none: q(x_mis | z, x_obs) is the decoder's p(x_mis | z)
    """

    extended = False

    def __init__(self, d: int, L: int, hidden: Sequence[int] | None) -> None:
        super().__init__(Blocks((tuple(range(d)), tuple(range(d, d + L)))))
        self.d, self.L = d, L
        self.noise_width = self.W + 1
        self.fresh_width = self.W
        self.network = None if hidden is None else MLP(d + L, hidden, 2 * d)
        self._model: tuple[Autoencoder, ...] = ()  # not a submodule: its parameters are the model's

    def bind(self, model: Autoencoder) -> None:
        """Take encoder and decoder from this model from now on."""
        self._model = (model,)

    def initialise(self, generator: torch.Generator) -> None:
        """See Conditionals: q(x_mis | z, x_obs) starts as N(0, I)."""
        if self.network is not None:
            self.network.initialise(generator, 0.0)

    def blocks(self, missing: Tensor) -> Tensor:
        """See Conditionals."""
        return torch.stack([missing[:, : self.d].any(1), missing[:, self.d :].any(1)], 1)

    def draw(self, x: Tensor, missing: Tensor, j: Tensor, noise: Tensor) -> Draw:
        """See Conditionals. log_q is minus the entropy, and for the latents it takes the prior's part along:
        log p(z) - log_q is -KL(q ‖ p(z)) in closed form, which is exact where z has the prior N(0, I)."""
        params = self._params(x, missing, j)
        mean, log_scale, wanted = self._parts(params)
        value = mean + log_scale.exp() * noise[..., : self.W] * wanted
        log_q = -((log_scale + HALF_LOG_2PIE) * wanted).sum(-1)
        prior = 0.5 * ((mean.square() + (2 * log_scale).exp() - value.square()) * wanted).sum(-1)
        return Draw(self._put(x[:, None], j, value), log_q + torch.where(j == 1, prior, 0.0))

    def propose(self, x: Tensor, missing: Tensor, j: Tensor, noise: Tensor) -> Proposal:
        """See Conditionals."""
        params = self._params(x, missing, j[:, None])[:, 0]
        value, log_forward = self.proposed(params, noise)
        return Proposal(self._put(x, j, value), log_forward, self.log_proposal(params, x.gather(1, self.members[j])))

    def redraw(self, x: Tensor, missing: Tensor, j: Tensor, noise: Tensor) -> Tensor:
        """See Conditionals."""
        return self._put(x, j, self.fresh(self._params(x, missing, j[:, None])[:, 0], noise))

    def see(self, x: Tensor, missing: Tensor) -> Rows:
        """See Conditionals. Nothing is kept."""
        return Rows(x, missing, x.new_empty(len(x), 0))

    def params(self, rows: Rows, j: Tensor) -> Tensor:
        """See Conditionals."""
        return self._params(rows.x, rows.missing, j)

    def set_(self, rows: Rows, j: Tensor, value: Tensor) -> None:
        """See Conditionals."""
        rows.x.scatter_(1, self.members[j], torch.where(self.real[j], value, value[:, :1]))

    def fresh(self, params: Tensor, noise: Tensor) -> Tensor:
        """See Conditionals."""
        mean, log_scale, wanted = self._parts(params)
        return mean + log_scale.exp() * noise[..., : self.W] * wanted

    def proposed(self, params: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """See Conditionals. The latents are widened at times, all of them; the last number chooses."""
        mean, log_scale, wanted = self._parts(params)
        wide = (torch.special.ndtr(noise[..., self.W]) < WIDE_SHARE) & self._latent(params)
        u = noise[..., : self.W] * torch.where(wide, WIDE_SCALE, 1.0)[..., None]
        value = mean + log_scale.exp() * u * wanted
        return value, self.log_proposal(params, value)

    def log_proposal(self, params: Tensor, value: Tensor) -> Tensor:
        """See Conditionals."""
        mean, log_scale, wanted = self._parts(params)
        u = (value - mean) * (-log_scale).exp()
        narrow = (log_normal(u) * wanted).sum(-1)
        wide = ((log_normal(u / WIDE_SCALE) - math.log(WIDE_SCALE)) * wanted).sum(-1)
        mixed = torch.logaddexp(narrow + math.log1p(-WIDE_SHARE), wide + math.log(WIDE_SHARE))
        return torch.where(self._latent(params), mixed, narrow) - (log_scale * wanted).sum(-1)

    def log_prob(self, x: Tensor, wanted: Tensor, j: Tensor) -> Tensor:
        """See Conditionals."""
        mean, log_scale, mask = self._parts(self._params(x, wanted, j))
        value = x[:, None].expand(-1, j.shape[1], -1).gather(2, self.members[j])
        return ((log_normal((value - mean) * (-log_scale).exp()) - log_scale) * mask).sum(-1)

    def _params(self, x: Tensor, wanted: Tensor, j: Tensor) -> Tensor:
        """[R, M, 3 W + 1]: mean (the value itself at cells that are given), log standard deviation, wanted, and whether
        the block is the latents'."""
        laws = [self._cells(x, wanted), self._latents(x)]
        if j.device.type == "cpu":  # elsewhere reading j would wait; here often all rows redraw the same block
            only = int(j.reshape(-1)[0]) if j.numel() else 0
            if bool((j == only).all()):
                return laws[only]()[:, None].expand(-1, j.shape[1], -1)
        both = torch.stack([law() for law in laws], 1)
        return both.gather(1, j[..., None].expand(-1, -1, both.shape[2]))

    def _cells(self, x: Tensor, wanted: Tensor) -> Law:
        """Parameters of q(x_mis | z, x_obs)."""

        def law() -> Tensor:
            (model,) = self._model
            row, z, missing = x[:, : self.d], x[:, self.d :], wanted[:, : self.d]
            if self.network is None:
                mean, log_scale = model.decode(z)
            else:
                mean, raw = self.network(torch.cat([z, row.masked_fill(missing, 0.0)], 1)).chunk(2, -1)
                log_scale = MAX_LOG_STD * torch.tanh(raw / MAX_LOG_STD)
            return self._packed(torch.where(missing, mean, row), log_scale.expand_as(row), missing, 0.0)

        return law

    def _latents(self, x: Tensor) -> Law:
        """Parameters of q(z | x)."""

        def law() -> Tensor:
            (model,) = self._model
            mean, log_scale = model.encode(x[:, : self.d])
            return self._packed(mean, log_scale, torch.ones_like(mean, dtype=torch.bool), 1.0)

        return law

    def _packed(self, mean: Tensor, log_scale: Tensor, wanted: Tensor, latent: float) -> Tensor:
        parts = [F.pad(part, (0, self.W - part.shape[1])) for part in (mean, log_scale, wanted.to(mean.dtype))]
        return torch.cat([*parts, mean.new_full((len(mean), 1), latent)], 1)

    def _parts(self, params: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean, log_scale, wanted = params[..., : 3 * self.W].split(self.W, -1)
        return mean, log_scale, wanted

    def _latent(self, params: Tensor) -> Tensor:
        return params[..., -1] > 0

    def _put(self, x: Tensor, j: Tensor, value: Tensor) -> Tensor:
        """x [.., D] with block j [..] set to value [.., W]; fillings repeat the first column's value, without its
        gradient."""
        value = torch.where(self.real[j], value, value[..., :1].detach())
        return x.expand(*j.shape, x.shape[-1]).scatter(-1, self.members[j], value)
