"""What Algorithm 1 needs to know of a model: the columns of its rows, the conditionals, what a chain is accepted by and
what is climbed. `vgi`, `vbgi` and `vbgi-m` are one loop (methods/vgi.py) with another target.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, final

import torch
from torch import Tensor

from vgi_cli.chains.sweeps import SweepNoise
from vgi_cli.conditionals.base import Conditionals
from vgi_cli.data import Blocks, TensorTable
from vgi_cli.methods.conditionals import build_conditionals
from vgi_cli.methods.objective import (
    DrawNoise,
    Sweep,
    draw_noise,
    sweep_noise,
    update_imputations,
    vgi_objective,
)
from vgi_cli.methods.vgi_config import VgiConfig
from vgi_cli.models.base import Model

if TYPE_CHECKING:
    from vgi_cli.methods.vgi_state import VgiState


class Target(ABC):
    """See the head of this file. It holds no parameters and no state.

    together  whether phi climbs in Algorithm 4 too
    """

    together: bool = False

    @abstractmethod
    def latents(self, model: Model) -> int:
        """Latent columns that the rows of the chains have after the data."""

    @abstractmethod
    def conditionals(self, model: Model, config: VgiConfig, D: int, partition: Blocks | None) -> Conditionals:
        """The conditionals for D data columns; parameters not yet initialised."""

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

    def augmented(self, table: TensorTable, model: Model, generator: torch.Generator) -> TensorTable:
        """The table with its latent columns, which are missing where a row is incomplete.

        A complete row keeps no latents: what it holds there, a draw of N(0, I), is never read but by f0, for which it
        is an observed value of the column.
        """
        L = self.latents(model)
        if L == 0:
            return table
        z = torch.randn(table.N, L, generator=generator, dtype=table.x.dtype).to(table.x.device)
        absent = table.missing.any(1, keepdim=True).expand(-1, L)
        x = torch.cat([table.x, z.masked_fill(absent, 0.0)], 1)
        return TensorTable(x, torch.cat([table.missing, absent], 1), Blocks.columns(x.shape[1]))


@final
class Columns(Target):
    """Rows of data columns, and the model's log density of them."""

    def latents(self, model: Model) -> int:
        """None."""
        return 0

    def conditionals(self, model: Model, config: VgiConfig, D: int, partition: Blocks | None) -> Conditionals:
        """See Target."""
        return build_conditionals(config, D, partition)

    def bind(self, q: Conditionals, model: Model) -> None:
        """Nothing is shared."""

    def sweep_noise(self, state: VgiState, n: int, G: int, g: torch.Generator) -> SweepNoise:
        """See Target."""
        return sweep_noise(state.q, n, G, state.config.accept, state.chains.x, g)

    def draw_noise(self, state: VgiState, n: int, R: int, g: torch.Generator) -> DrawNoise:
        """See Target."""
        return draw_noise(state.q, n, state.config.blocks_per_row, state.chains.x, g)

    def update(
        self, state: VgiState, x: Tensor, missing: Tensor, noise: SweepNoise, scan: str, inside: Tensor | None = None
    ) -> Sweep:
        """See Target."""
        K, accept = state.chains.K, state.config.accept
        return update_imputations(state.log_p, state.q, x, missing, K, noise, accept=accept, scan=scan, inside=inside)

    def objective(self, state: VgiState, x: Tensor, missing: Tensor, weight: Tensor, noise: DrawNoise) -> Tensor:
        """See Target."""
        return vgi_objective(state.log_p, state.q, x, missing, weight, state.chains.K, noise)

    def likelihood(self, state: VgiState, x: Tensor, missing: Tensor, weight: Tensor) -> Tensor:
        """See Target."""
        return (weight * state.log_p(x, missing)).sum()
