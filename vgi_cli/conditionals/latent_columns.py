"""The conditionals of variational block-Gibbs inference on a model with latents in which every column is redrawn on its
own (paper, section 3.4, eq. "vbgi-latent-objective"): q(x_j | the other cells, z), one law a column, and q(z | x), the
model's encoder.

Rows are augmented: the d data columns, then the L latents. Block j < d is column j, block d the latents.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from vgi_cli.conditionals.amortised import AmortisedConditionals, Levels
from vgi_cli.conditionals.base import Conditionals
from vgi_cli.conditionals.families.base import Family
from vgi_cli.conditionals.latent_blocks import Autoencoder, Either, LatentsOf
from vgi_cli.conditionals.networks.trunk import BlockNetwork
from vgi_cli.layout import Blocks
from vgi_cli.maths.laws import WIDE_SHARE, LatentLaw, Law


@dataclass(frozen=True)
class OneCell(Law):
    """The law of one number as that of a block W wide, whose other places are filling. Of the noise it takes the first
    number and those after the first W (`Conditionals.noise_of`)."""

    law: Law
    W: int

    def draw(self, noise: Tensor) -> Tensor:
        own = torch.cat([noise[..., :1], noise[..., self.W :]], -1)
        return F.pad(self.law.draw(own)[..., None], (0, self.W - 1))

    def log_prob(self, value: Tensor) -> Tensor:
        return self.law.log_prob(value[..., 0])

    def widened(self, share: float = WIDE_SHARE) -> Law:
        return OneCell(self.law.widened(share), self.W)


class ColumnsGivenLatents(AmortisedConditionals):
    """Conditionals of the single data columns of augmented rows, as many as the network has blocks. The latents after
    them are inputs alone: none is a block, and none is ever chosen."""

    def __init__(
        self, family: Family, network: BlockNetwork, *, extended: bool, partition: Blocks, levels: Levels | None = None
    ) -> None:
        super().__init__(family, network, extended=extended, partition=partition, levels=levels)
        self.S = network.S

    def blocks(self, missing: Tensor) -> Tensor:
        return super().blocks(missing)[:, : self.S]


class LatentColumns(Conditionals):
    """q(x_j | rest, z), one for each data column, and the encoder's law of z. The draws of z are not widened.

    columns  conditionals of the single columns
    L        latents
    """

    def __init__(self, columns: ColumnsGivenLatents, L: int) -> None:
        d = columns.S
        super().__init__(Blocks((*((j,) for j in range(d)), tuple(range(d, d + L)))), joint=True)
        self.columns, self.d, self.L = columns, d, L
        self.extended = columns.extended
        self.fresh_width = self.W + columns.fresh_width - 1
        self.noise_width = self.W + columns.noise_width - 1

    def bind(self, model: Autoencoder) -> None:
        """Take the encoder from this model from now on. Its parameters are the model's, not this module's."""
        self._encode: Callable[[Tensor], LatentLaw] = model.encode

    def initialise(self, generator: torch.Generator) -> None:
        """Every q(x_j | rest, z) starts as N(0, 1), levels alike."""
        self.columns.initialise(generator)

    def align(self, x: Tensor) -> None:
        """By completed rows beside latents that know nothing of them, as those of f0 are."""
        z = torch.randn(len(x), self.L, dtype=x.dtype, generator=torch.Generator().manual_seed(0))
        self.columns.align(torch.cat([x, z], 1))

    def law(self, x: Tensor, missing: Tensor, block: Tensor, *, hidden: bool = False) -> Law:
        latents = block == self.d
        rows = x[..., : self.d] if block.ndim == 1 else x[:, None, : self.d]
        if latents.device.type == "cpu" and bool(latents.all()):  # elsewhere reading that would wait
            return LatentsOf(self._encode(rows), self.L, self.W)
        cell = self.columns.law(x, missing, block.clamp(max=self.d - 1), hidden=hidden)
        return Either(latents, LatentsOf(self._encode(rows), self.L, self.W), OneCell(cell, self.W))
