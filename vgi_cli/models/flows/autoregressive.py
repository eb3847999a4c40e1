"""The autoregressive rational-quadratic neural spline flow, RQ-NSF(AR) (Durkan et al. 2019; Simkus et al. 2023, section
6.4): the columns before a column set its spline. The density takes one pass, draws take a pass column by column.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from vgi_cli.layout import Layout
from vgi_cli.maths.masked import MaskedResidualNet
from vgi_cli.maths.splines import packed_rational_quadratic
from vgi_cli.models.flows.base import FlowConfig, SplineFlow, SplineLayer


class AutoregressiveFlow(SplineFlow):
    """Linear maps and autoregressive layers. D = 1 is a chain of unconditional splines."""

    def __init__(self, config: FlowConfig, layout: Layout) -> None:
        super().__init__(config, layout)
        # The random permutation in front of each layer draws the order of its columns.
        steps = range(config.steps if self.numbers else 0)
        self.layers = nn.ModuleList(AutoregressiveLayer(config, self.numbers, self.context) for _ in steps)

    @property
    def steps(self) -> list[SplineLayer]:
        return cast(list[SplineLayer], list(self.layers))


class AutoregressiveLayer(SplineLayer):
    """Every column passes through a spline that the columns before it set, the first through a free one; a context
    sets them all."""

    def __init__(self, config: FlowConfig, D: int, context: int = 0) -> None:
        super().__init__()
        self.bound = config.tail_bound
        each = 3 * config.bins - 1
        net = MaskedResidualNet(D, config.hidden, each, config.blocks, dropout=config.dropout, context=context)
        self.net = net

    def initialise(self, generator: torch.Generator) -> None:
        """Draw the network's weights; its output starts near 0, and so the layer near the identity."""
        self.net.initialise(generator, outlet_scale=0.1)

    def forward(self, X: Tensor, context: Tensor | None = None) -> tuple[Tensor, Tensor]:
        Y, log_slopes = packed_rational_quadratic(X, self.net(X, context), bound=self.bound)
        return Y, log_slopes.sum(0)

    def inverse(self, Y: Tensor, context: Tensor | None = None) -> Tensor:
        def column(i: int, splines: Tensor) -> Tensor:
            return packed_rational_quadratic(Y[i], splines, bound=self.bound, inverse=True)[0]

        return self.net.solve(column, context)
