"""The two conditionals of variational block-Gibbs inference on a model with latents (paper, section 6.3): of all
latents given the cells, q(z | x), which is the model's encoder, and of all missing cells given the latents and what is
observed.

Rows are augmented: the d data columns, then the L latents. Block 0 is the data, block 1 the latents.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from vgi_cli.conditionals.amortised import log_normal
from vgi_cli.conditionals.base import Conditionals, Proposal, Rows
from vgi_cli.conditionals.families.gaussian import MAX_LOG_STD
from vgi_cli.layout import Blocks
from vgi_cli.maths.diagonal import DiagonalNormal
from vgi_cli.maths.laws import LatentLaw
from vgi_cli.maths.nets import MLP

HALF_LOG_2PIE = 0.5 * math.log(2.0 * math.pi * math.e)


class Autoencoder(Protocol):
    """What is needed of the model (see models/base.py, Latent)."""

    @property
    def prior(self) -> LatentLaw: ...
    def encode(self, x: Tensor) -> LatentLaw: ...
    def decode(self, z: Tensor) -> DiagonalNormal: ...


class LatentBlocks(Conditionals):
    """q(x_mis | z, x_obs), a diagonal normal, and q(z | x), the encoder's law.

    d, L    data columns and latents
    hidden  widths of the hidden layers of the network that gives q(x_mis | z, x_obs) from z and the row with its
            missing cells set to 0; none: q(x_mis | z, x_obs) is the decoder's p(x_mis | z)
    """

    extended = False

    def __init__(self, d: int, L: int, hidden: Sequence[int] | None) -> None:
        super().__init__(Blocks((tuple(range(d)), tuple(range(d, d + L)))))
        self.d, self.L, self.flat = d, L, False
        self.noise_width = self.fresh_width = self.W
        self.network = None if hidden is None else MLP(d + L, hidden, 2 * d)
        self._model: tuple[Autoencoder, ...] = ()  # not a submodule: its parameters are the model's

    def bind(self, model: Autoencoder) -> None:
        """Take encoder and decoder from this model from now on."""
        self._model = (model,)

    def initialise(self, generator: torch.Generator) -> None:
        """See Conditionals: q(x_mis | z, x_obs) starts as N(0, I)."""
        if self.network is not None:
            self.network.initialise(generator, 0.0)

    def align(self, x: Tensor) -> None:
        """See Conditionals: nothing is linear."""

    def blocks(self, missing: Tensor) -> Tensor:
        """See Conditionals."""
        return torch.stack([missing[:, : self.d].any(1), missing[:, self.d :].any(1)], 1)

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
        value = mean + log_scale.exp() * noise[..., : self.W] * wanted
        latent = params[..., -1:] > 0
        if self._some_latents(latent):
            z = self._model[0].encode(mean[..., : self.d]).draw(noise[..., : self.L])
            value = torch.where(latent, F.pad(z, (0, self.W - self.L)), value)
        return value

    def proposed(self, params: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """See Conditionals: draws of q itself, nothing is widened."""
        value = self.fresh(params, noise)
        return value, self.log_proposal(params, value)

    def log_proposal(self, params: Tensor, value: Tensor) -> Tensor:
        """See Conditionals."""
        mean, log_scale, wanted = self._parts(params)
        log_q = ((log_normal((value - mean) * (-log_scale).exp()) - log_scale) * wanted).sum(-1)
        latent = params[..., -1] > 0
        if self._some_latents(latent):
            law = self._model[0].encode(mean[..., : self.d])
            log_q = torch.where(latent, law.log_prob(value[..., : self.L]), log_q)
        return log_q

    def _params(self, x: Tensor, wanted: Tensor, j: Tensor) -> Tensor:
        """[R, M, 3 W + 1]: for the cells mean (the value itself where it is given), log standard deviation and wanted;
        for the latents the completed row, from which the encoder makes their law; last, 1 for the latents."""
        row, z, missing = x[:, : self.d], x[:, self.d :], wanted[:, : self.d]
        of_latents = F.pad(row, (0, 3 * self.W - self.d)), x.new_ones(len(x), 1)
        latents = torch.cat(of_latents, 1)[:, None].expand(-1, j.shape[1], -1)
        if j.device.type == "cpu" and bool((j == 1).all()):  # elsewhere reading j would wait
            return latents
        mean, log_scale = self.cells(row, z, missing)
        parts = torch.where(missing, mean, row), log_scale.expand_as(row), missing.to(x.dtype), x.new_zeros(len(x), 1)
        widths = (self.W, self.W, self.W, 1)
        padded = [F.pad(part, (0, W - part.shape[1])) for part, W in zip(parts, widths, strict=True)]
        cells = torch.cat(padded, 1)[:, None].expand(-1, j.shape[1], -1)
        return torch.where((j == 1)[..., None], latents, cells)

    def cells(self, row: Tensor, z: Tensor, missing: Tensor) -> DiagonalNormal:
        """q(x_mis | z, x_obs) of rows [R, d] with holes missing [R, d] given their latents z [R, L]; what it says of
        observed cells means nothing."""
        if self.network is None:
            return self._model[0].decode(z)
        mean, raw = self.network(torch.cat([z, row * (~missing).to(row.dtype)], 1)).chunk(2, -1)
        return DiagonalNormal(mean, MAX_LOG_STD * torch.tanh(raw / MAX_LOG_STD))

    def _parts(self, params: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean, log_scale, wanted = params[..., : 3 * self.W].split(self.W, -1)
        return mean, log_scale, wanted

    def _some_latents(self, latent: Tensor) -> bool:
        """Whether the encoder is needed; where reading it would wait, it is."""
        return latent.device.type != "cpu" or bool((latent > 0).any())

    def _put(self, x: Tensor, j: Tensor, value: Tensor) -> Tensor:
        """x [.., D] with block j [..] set to value [.., W]; fillings repeat the first column's value, without its
        gradient."""
        value = torch.where(self.real[j], value, value[..., :1].detach())
        return x.expand(*j.shape, x.shape[-1]).scatter(-1, self.members[j], value)
