"""The two conditionals of variational block-Gibbs inference on a model with latents (paper, section 6.3): of all
latents given the cells, q(z | x), which is the model's encoder, and of all missing cells given the latents and what is
observed.

Rows are augmented: the d data columns, then the L latents. Block 0 is the data, block 1 the latents.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from vgi_cli.conditionals.base import Conditionals
from vgi_cli.conditionals.families.base import MAX_LOG_STD
from vgi_cli.layout import Blocks, Layout
from vgi_cli.maths.cells import CellKinds
from vgi_cli.maths.diagonal import DiagonalNormal
from vgi_cli.maths.indicators import Indicators
from vgi_cli.maths.laws import WIDE_SHARE, CellsLaw, LatentLaw, Law
from vgi_cli.maths.nets import MLP


class Autoencoder(Protocol):
    """What conditionals and chains need of a model with latents (`Latent` in models/base.py)."""

    def encode(self, x: Tensor, /) -> LatentLaw: ...
    def decode(self, z: Tensor, /) -> CellsLaw: ...
    def joint_log_prob(self, xz: Tensor, /) -> Tensor: ...


@dataclass(frozen=True)
class LatentsOf(Law):
    """The law of latents as that of a block W wide."""

    law: LatentLaw
    L: int
    W: int

    def draw(self, noise: Tensor) -> Tensor:
        return F.pad(self.law.draw(noise[..., : self.L]), (0, self.W - self.L))

    def log_prob(self, value: Tensor) -> Tensor:
        return self.law.log_prob(value[..., : self.L])


@dataclass(frozen=True)
class MissingCells(Law):
    """The law of those of the cells x [.., d] that are `missing`, as that of a block W wide: a draw has x elsewhere."""

    law: CellsLaw
    x: Tensor
    missing: Tensor
    W: int

    def draw(self, noise: Tensor) -> Tensor:
        d = self.x.shape[-1]
        return F.pad(torch.where(self.missing, self.law.draw(noise[..., :d]), self.x), (0, self.W - d))

    def log_prob(self, value: Tensor) -> Tensor:
        d = self.x.shape[-1]
        return (self.law.log_cells(value[..., :d]) * self.missing).sum(-1)


@dataclass(frozen=True)
class Either(Law):
    """One law where condition [..] holds, the other elsewhere; values are [.., W]."""

    condition: Tensor
    first: Law
    second: Law

    def draw(self, noise: Tensor) -> Tensor:
        return torch.where(self.condition[..., None], self.first.draw(noise), self.second.draw(noise))

    def log_prob(self, value: Tensor) -> Tensor:
        return torch.where(self.condition, self.first.log_prob(value), self.second.log_prob(value))

    def widened(self, share: float = WIDE_SHARE) -> Law:
        return Either(self.condition, self.first.widened(share), self.second.widened(share))


class LatentBlocks(Conditionals):
    """q(x_mis | z, x_obs), cells that are independent: normals, and for levels a softmax, or where they have an order
    cumulative logits; and q(z | x), the encoder's law. Their draws are not widened.

    d, L    data columns and latents
    hidden  widths of the hidden layers of the network that gives q(x_mis | z, x_obs) from z and the row with its
            missing cells set to 0; None: q(x_mis | z, x_obs) is the decoder's p(x_mis | z)
    extended  whether that network also sees the previous values of the missing cells (paper, appendix E). The encoder
            sees no previous z in either kernel: it is the model's own q(z | x), which bounds and fills new rows
    """

    def __init__(self, layout: Layout, L: int, hidden: Sequence[int] | None, *, extended: bool = False) -> None:
        d = layout.d
        super().__init__(Blocks((tuple(range(d)), tuple(range(d, d + L)))), joint=True)
        self.d, self.L = d, L
        self.noise_width = self.fresh_width = self.W
        levels = layout.level_counts[:d]
        self.indicators, self.kinds = Indicators(levels), CellKinds(levels, layout.ordered)
        outputs = 2 * self.kinds.c + self.kinds.numbers
        self.extended = extended
        inputs = self.indicators.F * (2 if extended else 1) + L
        self.network = None if hidden is None else MLP(inputs, hidden, outputs)

    def bind(self, model: Autoencoder) -> None:
        """Take encoder and decoder from this model from now on. They are no part of this module: their parameters are
        the model's."""
        self._encode: Callable[[Tensor], LatentLaw] = model.encode
        self._decode: Callable[[Tensor], CellsLaw] = model.decode

    def initialise(self, generator: torch.Generator) -> None:
        """q(x_mis | z, x_obs) starts as N(0, I), all levels alike."""
        if self.network is not None:
            self.network.initialise(generator, 0.0)

    @torch.no_grad()
    def align(self, x: Tensor) -> None:
        """Levels start with their frequencies."""
        if self.network is not None and not self.kinds.plain:
            bias = self.network.outlet.bias
            bias[2 * self.kinds.c :] = self.kinds.at_frequencies(x)[0].to(bias)

    def law(self, x: Tensor, missing: Tensor, block: Tensor, *, hidden: bool = False) -> Law:
        if block.ndim == 2:
            x, missing = x[:, None], missing[:, None]
        latents = block == 1
        if latents.device.type == "cpu":  # mostly one block in all rows; elsewhere reading that would wait
            if bool(latents.all()):
                return self._latents(x)
            if not bool(latents.any()):
                return self._cells(x, missing, hidden)
        return Either(latents, self._latents(x), self._cells(x, missing, hidden))

    def cells(self, row: Tensor, z: Tensor, missing: Tensor, *, hidden: bool = False) -> CellsLaw:
        """q(x_mis | z, x_obs) of rows [.., d] with holes missing [.., d] given their latents z [.., L], and in the
        extended kernel the values in the holes, unless they are `hidden`; what it says of observed cells means
        nothing."""
        if self.network is None:
            return self._decode(z)
        cells, known = self.indicators(row), self.indicators.spread(~missing).to(row.dtype)
        inputs = [z, cells * known]
        if self.extended:
            inputs.append(torch.zeros_like(cells) if hidden else cells * (1 - known))
        out, levels = self.kinds.split(self.network(torch.cat(inputs, -1)))
        mean, raw = out.chunk(2, -1)
        normal = DiagonalNormal(mean, MAX_LOG_STD * torch.tanh(raw / MAX_LOG_STD))
        return self.kinds.law(normal, levels)

    def _latents(self, x: Tensor) -> Law:
        return LatentsOf(self._encode(x[..., : self.d]), self.L, self.W)

    def _cells(self, x: Tensor, missing: Tensor, hidden: bool) -> Law:
        row, holes = x[..., : self.d], missing[..., : self.d]
        return MissingCells(self.cells(row, x[..., self.d :], holes, hidden=hidden), row, holes, self.W)
