"""What Algorithm 1 needs to know of a model: the columns of its rows, the conditionals, what a chain is accepted by and
what is climbed. `vgi`, `vbgi` and `vbgi-m` are one loop (methods/vgi/vgi.py) with another target.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple, cast

import torch
from torch import Tensor

from vgi_cli.chains.moves import Moves, OfRows, SweepNoise, Swept, sweep, sweep_noise
from vgi_cli.chains.store.packed import Chains
from vgi_cli.conditionals.base import Conditionals
from vgi_cli.data import TensorTable
from vgi_cli.layout import Layout
from vgi_cli.methods.start import in_pieces
from vgi_cli.methods.vgi.build import build_conditionals
from vgi_cli.methods.vgi.config import VgiConfig
from vgi_cli.methods.vgi.objective import DrawNoise, Estimate, draw_noise, vgi_objective
from vgi_cli.models.base import Latent, Model
from vgi_cli.notation import LogDensity
from vgi_cli.scratch import pieces


class Inference(NamedTuple):
    """What a step computes with.

    p, q      the model and the conditionals
    log_p     p's log density of rows of data columns, or its bound
    K         chains of a row
    layout    of the rows of the chains, latents included
    moves     how they move
    estimate  what one estimate of the objective redraws
    """

    p: Model
    q: Conditionals
    log_p: LogDensity
    K: int
    layout: Layout
    moves: Moves
    estimate: Estimate


class Target(ABC):
    """A target holds no parameters and no state. Rows x [R, D] have latent columns after those of the data.

    together  whether phi climbs in Algorithm 4 too
    """

    together: bool = False

    @abstractmethod
    def latents(self, model: Model) -> int:
        """Latent columns that the rows of the chains have after the data."""

    @abstractmethod
    def conditionals(self, model: Model, config: VgiConfig, layout: Layout) -> Conditionals:
        """The conditionals of a table's columns; parameters not yet initialised."""

    def bind(self, q: Conditionals, model: Model) -> None:  # noqa: B027 (by default nothing is shared)
        """Have conditionals that share networks with a model take them from this one."""

    @abstractmethod
    def sweep_noise(self, of: Inference, n: int, like: Tensor, g: torch.Generator) -> SweepNoise:
        """Randomness of one sweep over n incomplete rows, in the precision and on the device of `like`."""

    @abstractmethod
    def draw_noise(self, of: Inference, n: int, R: int, like: Tensor, g: torch.Generator) -> DrawNoise:
        """Randomness of one estimate of the objective on R rows, of which the first n are incomplete."""

    @abstractmethod
    def update(self, of: Inference, x: Tensor, missing: Tensor, noise: SweepNoise, box: Tensor | None = None) -> Swept:
        """Algorithm 5 on incomplete rows x [n, D]; box [2, data columns]: updates that leave it are rejected."""

    @abstractmethod
    def objective(self, of: Inference, x: Tensor, missing: Tensor, weight: Tensor, noise: DrawNoise) -> Tensor:
        """Algorithm 3 on rows x [R, D]: scalar, nats."""

    @abstractmethod
    def likelihood(self, of: Inference, x: Tensor, missing: Tensor, weight: Tensor) -> Tensor:
        """Weighted log p of completed rows: what theta climbs where `gradient` is `accepted`."""

    def augmented(self, table: TensorTable, model: Model) -> TensorTable:
        """The table with its latent columns, one more block, which is missing where a row is incomplete; a complete row
        keeps no latents, and the zeros that it holds there are never read."""
        L = self.latents(model)
        if L == 0:
            return table
        layout, scratch = table.layout.with_latents(L), table.scratch
        if scratch is None:
            absent = table.missing.any(1, keepdim=True).expand(-1, L)
            x = torch.cat([table.x, table.x.new_zeros(table.N, L)], 1)
            return TensorTable(x, torch.cat([table.missing, absent], 1), layout)
        x = scratch.zeros(table.N, layout.D, dtype=table.x.dtype)
        missing = scratch.zeros(table.N, layout.D, dtype=torch.bool)
        for rows in pieces(table.N, 8 * layout.D):
            layout.data(x)[rows], layout.data(missing)[rows] = table.x[rows], table.missing[rows]
            missing[rows, layout.d :] = table.missing[rows].any(1, keepdim=True)
        return TensorTable(x, missing, layout, scratch=scratch)

    def start_latents(self, chains: Chains, model: Model, generator: torch.Generator) -> None:
        """Set the latents of all chains to draws of the prior, which is their f0. `generator` is on the CPU."""
        L, d = chains.layout.L, chains.layout.d
        if L == 0:
            return
        for start, end in in_pieces(len(chains.incomplete)):
            rows = chains.incomplete[start:end]
            noise = torch.randn(len(rows), chains.K, L, generator=generator, dtype=chains.x.dtype)
            with torch.no_grad():
                drawn = cast(Latent, model).prior.draw(noise.to(chains.x.device))
            x = chains.load(rows)[0]
            x[:, d:] = drawn.reshape(-1, L)
            chains.store(rows, x)


class Columns(Target):
    """Rows of data columns, and the model's log density of them."""

    def latents(self, model: Model) -> int:
        return 0

    def conditionals(self, model: Model, config: VgiConfig, layout: Layout) -> Conditionals:
        return build_conditionals(config, layout)

    def sweep_noise(self, of: Inference, n: int, like: Tensor, g: torch.Generator) -> SweepNoise:
        return sweep_noise(of.q, n, of.moves, like, g)

    def draw_noise(self, of: Inference, n: int, R: int, like: Tensor, g: torch.Generator) -> DrawNoise:
        return draw_noise(of.q, n, of.estimate, like, g)

    def update(self, of: Inference, x: Tensor, missing: Tensor, noise: SweepNoise, box: Tensor | None = None) -> Swept:
        return sweep(noise, of.q, x, missing, OfRows(of.log_p), of.moves, of.K, box)

    def objective(self, of: Inference, x: Tensor, missing: Tensor, weight: Tensor, noise: DrawNoise) -> Tensor:
        return vgi_objective(of.log_p, of.q, x, missing, weight, of.K, noise, of.estimate)

    def likelihood(self, of: Inference, x: Tensor, missing: Tensor, weight: Tensor) -> Tensor:
        return (weight * of.log_p(x, missing)).sum()
