"""The rational-quadratic neural spline flow with coupling layers, RQ-NSF(C) (Durkan et al. 2019; Simkus et al. 2023,
section 6.4): one half of the columns sets the splines of the other half, so that density and draws cost the same.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from vgi_cli.layout import Layout
from vgi_cli.maths.nets import ResidualTrunk, initialise_linear, zero_linear
from vgi_cli.maths.splines import packed_rational_quadratic
from vgi_cli.models.flows.base import FlowConfig, SplineFlow, SplineLayer


class Flow(SplineFlow):
    """Linear maps and coupling layers. D = 1 is a chain of unconditional splines."""

    def __init__(self, config: FlowConfig, layout: Layout) -> None:
        super().__init__(config, layout)
        # With random permutations in front, halves that swap roles are the alternating masks of the paper.
        steps = range(config.steps if self.numbers else 0)
        couplings = (Coupling(config, self.numbers, self.context, swap=bool(step % 2)) for step in steps)
        self.couplings = nn.ModuleList(couplings)

    @property
    def steps(self) -> list[SplineLayer]:
        return cast(list[SplineLayer], list(self.couplings))


class Coupling(SplineLayer):
    """A coupling layer: a network of the one half of the columns sets the splines of the other half; the one half then
    passes through splines of its own, with free parameters. With one column, only the latter.

    With a context, the network reads it beside the one half, and it alone sets the spline of a single column.
    """

    def __init__(self, config: FlowConfig, D: int, context: int = 0, *, swap: bool) -> None:
        super().__init__()
        small = D // 2
        self.swap = bool(context) if D == 1 else swap and D > 1
        self.kept, self.moved = (small, D - small) if self.swap else (D - small, small)
        self.parameters_each = 3 * config.bins - 1
        self.bound = config.tail_bound
        self.free = nn.Parameter(torch.zeros(self.parameters_each, self.kept, 1))
        self.trunk: ResidualTrunk | None = None
        if self.moved:
            self.trunk = ResidualTrunk(self.kept + context, config.hidden, config.blocks, dropout=config.dropout)
            self.outlet = zero_linear(config.hidden, self.parameters_each * self.moved)

    def initialise(self, generator: torch.Generator) -> None:
        """Draw the network's weights; its output starts near 0, and so the layer near the identity."""
        self.free.zero_()
        if self.trunk is not None:
            self.trunk.initialise(generator)
            initialise_linear(self.outlet, generator, scale=0.1)

    def forward(self, X: Tensor, context: Tensor | None = None) -> tuple[Tensor, Tensor]:
        kept, moved = self._halves(X)
        new_kept, log_det = packed_rational_quadratic(kept, self.free, bound=self.bound)
        log_det = log_det.sum(0)
        if self.trunk is None:
            return new_kept, log_det
        splines = self._splines(self.trunk, kept, context)
        new_moved, log_slopes = packed_rational_quadratic(moved, splines, bound=self.bound)
        return self._join(new_kept, new_moved), log_det + log_slopes.sum(0)

    def inverse(self, Y: Tensor, context: Tensor | None = None) -> Tensor:
        kept, moved = self._halves(Y)
        kept, _ = packed_rational_quadratic(kept, self.free, bound=self.bound, inverse=True)
        if self.trunk is None:
            return kept
        splines = self._splines(self.trunk, kept, context)
        moved, _ = packed_rational_quadratic(moved, splines, bound=self.bound, inverse=True)
        return self._join(kept, moved)

    def _splines(self, trunk: ResidualTrunk, kept: Tensor, context: Tensor | None) -> Tensor:
        """Spline parameters [3 bins - 1, moved, R] from the kept half [kept, R] and the context [E, R]."""
        flat = trunk.outputs(kept if context is None else torch.cat([kept, context]), self.outlet)
        return flat.view(self.parameters_each, self.moved, -1)

    def _halves(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """The kept and the moved columns of X [D, R]."""
        if self.swap:
            moved, kept = X.split([self.moved, self.kept])
        else:
            kept, moved = X.split([self.kept, self.moved])
        return kept, moved

    def _join(self, kept: Tensor, moved: Tensor) -> Tensor:
        """The inverse of `_halves`."""
        return torch.cat([moved, kept] if self.swap else [kept, moved])
