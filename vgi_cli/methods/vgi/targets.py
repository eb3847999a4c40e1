"""What Algorithm 1 needs to know of a model: the columns of its rows, the conditionals, what a chain is accepted by and
what is climbed. `vgi`, `vbgi` and `vbgi-m` are one loop (methods/vgi/vgi.py) with another target.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, cast, final

import torch
from torch import Tensor

from vgi_cli.chains.store.packed import Chains
from vgi_cli.chains.sweeps import SweepNoise
from vgi_cli.conditionals.base import Conditionals, OfColumns
from vgi_cli.data import TensorTable
from vgi_cli.layout import Layout
from vgi_cli.methods.vgi.conditionals import build_conditionals
from vgi_cli.methods.vgi.config import VgiConfig
from vgi_cli.methods.vgi.objective import (
    DrawNoise,
    Sweep,
    draw_noise,
    sweep_noise,
    update_imputations,
    vgi_objective,
)
from vgi_cli.models.base import Latent, Model

if TYPE_CHECKING:
    from vgi_cli.methods.vgi.state import VgiState


class Target(ABC):
    """See the head of this file. A target holds no parameters and no state.

    together  whether phi climbs in Algorithm 4 too
    """

    together: bool = False

    @abstractmethod
    def latents(self, model: Model) -> int:
        """Latent columns that the rows of the chains have after the data."""

    @abstractmethod
    def conditionals(self, model: Model, config: VgiConfig, layout: Layout) -> Conditionals:
        """The conditionals of a table's columns; parameters not yet initialised."""

    @abstractmethod
    def bind(self, q: Conditionals, model: Model) -> None:
        """Have conditionals that share networks with a model take them from this one."""

    @abstractmethod
    def sweep_noise(self, state: VgiState, n: int, G: int, g: torch.Generator) -> SweepNoise:
        """Randomness of one sweep of G steps over n incomplete rows."""

    @abstractmethod
    def draw_noise(self, state: VgiState, n: int, R: int, g: torch.Generator) -> DrawNoise:
        """Randomness of one estimate of the objective on R rows, the first n of which are incomplete."""

    @abstractmethod
    def update(
        self, state: VgiState, x: Tensor, missing: Tensor, noise: SweepNoise, scan: str, inside: Tensor | None = None
    ) -> Sweep:
        """Algorithm 5 on incomplete rows x [n, D]; `inside` [2, data columns] as in `update_imputations`."""

    @abstractmethod
    def objective(self, state: VgiState, x: Tensor, missing: Tensor, weight: Tensor, noise: DrawNoise) -> Tensor:
        """Algorithm 3 on rows x [R, D]: scalar, nats."""

    @abstractmethod
    def likelihood(self, state: VgiState, x: Tensor, missing: Tensor, weight: Tensor) -> Tensor:
        """Weighted log p of completed rows: what theta climbs where `gradient` is `accepted`."""

    def augmented(self, table: TensorTable, model: Model) -> TensorTable:
        """The table with its latent columns, which are missing where a row is incomplete; a complete row keeps no
        latents, and the zeros that it holds there are never read."""
        L = self.latents(model)
        if L == 0:
            return table
        absent = table.missing.any(1, keepdim=True).expand(-1, L)
        x = torch.cat([table.x, table.x.new_zeros(table.N, L)], 1)
        return TensorTable(x, torch.cat([table.missing, absent], 1), table.layout.with_latents(L))

    def start_latents(self, chains: Chains, model: Model, generator: torch.Generator) -> None:
        """Set the latents of all chains to draws of the prior, which is their f0. `generator` is on the CPU."""
        L, d = chains.layout.L, chains.layout.d
        if L == 0:
            return
        values = chains.values
        lines = (chains.missing.nonzero()[:, 1] >= d).nonzero()[:, 0].to(values.device)  # row by row, L of each
        noise = torch.randn(len(lines) // L, chains.K, L, generator=generator, dtype=chains.x.dtype)
        with torch.no_grad():
            z = cast(Latent, model).prior.draw(noise.to(chains.x.device))
        values[lines] = z.permute(0, 2, 1).reshape(-1, chains.K).to(values.device)


@final
class Columns(Target):
    """Rows of data columns, and the model's log density of them."""

    def latents(self, model: Model) -> int:
        """None."""
        return 0

    def conditionals(self, model: Model, config: VgiConfig, layout: Layout) -> Conditionals:
        """See Target."""
        return build_conditionals(config, layout)

    def bind(self, q: Conditionals, model: Model) -> None:
        """Nothing is shared."""

    def sweep_noise(self, state: VgiState, n: int, G: int, g: torch.Generator) -> SweepNoise:
        """See Target."""
        return sweep_noise(state.q, n, G, state.config.accept, state.chains.x, g, state.moved)

    def draw_noise(self, state: VgiState, n: int, R: int, g: torch.Generator) -> DrawNoise:
        """See Target."""
        return draw_noise(state.q, n, state.config.blocks_per_row, state.chains.x, g, state.columns)

    def update(
        self, state: VgiState, x: Tensor, missing: Tensor, noise: SweepNoise, scan: str, inside: Tensor | None = None
    ) -> Sweep:
        """See Target."""
        return update_imputations(
            state.log_p,
            state.q,
            x,
            missing,
            state.chains.K,
            noise,
            accept=state.config.accept,
            scan=scan,
            inside=inside,
        )

    def objective(self, state: VgiState, x: Tensor, missing: Tensor, weight: Tensor, noise: DrawNoise) -> Tensor:
        """See Target."""
        return vgi_objective(state.log_p, cast(OfColumns, state.q), x, missing, weight, state.chains.K, noise)

    def likelihood(self, state: VgiState, x: Tensor, missing: Tensor, weight: Tensor) -> Tensor:
        """See Target."""
        return (weight * state.log_p(x, missing)).sum()
