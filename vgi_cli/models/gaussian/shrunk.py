"""K Gaussians whose covariances are shrunk to one matrix that is made of the rows: for tables of few rows and many
columns.

The M-step takes S_k = (scatter of component k + nu T) / (its rows + nu), up to the other terms of `methods/em/em.py`:
an inverse Wishart prior of nu pseudo-rows around the target T. T stays as it is while EM climbs, and is made anew after
some iterations (`aim`) of the covariance within components that the last step found.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import torch
from torch import Tensor

from vgi_cli.maths.shrinkage import factored
from vgi_cli.models.gaussian.full import FullGaussians
from vgi_cli.models.gaussian.gaussians import Penalty, Scale

ShrinkTo: TypeAlias = Literal["diagonal", "factors", "pairs"]
"""What a target is made of: the variances; the factors that several columns share; these, and the pairs of columns that
go together beyond them."""

ROW = 0.1
"""Pseudo-rows of the columns' variances in the covariance within components, which broad components may leave without
rows."""


class ShrunkGaussians(FullGaussians):
    """As FullGaussians; within, target [D, D]: the covariance
    within components, and what is made of it."""

    within: Tensor
    target: Tensor

    def __init__(self, K: int, D: int, shrink_to: ShrinkTo) -> None:
        super().__init__(K, D)
        self.aim_at = shrink_to
        for name in ("within", "target"):
            self.register_buffer(name, torch.eye(D))

    def common(self, precision: Tensor, scale: Scale, penalty: Penalty) -> Tensor:
        return self.target

    def log_prior(self, common: Tensor, scale: Scale, penalty: Penalty) -> Tensor:
        return common.new_zeros(())

    def maximise(self, statistics: tuple[Tensor, ...], scale: Scale, penalty: Penalty) -> None:
        count, first, second = statistics
        away = first[:, :, None] * first[:, None, :] / count.clamp(min=1e-300)[:, None, None]
        self.within.copy_(((second - away).sum(0) + ROW * torch.diag(scale.variance)) / (count.sum() + ROW))
        super().maximise(statistics, scale, penalty)

    @torch.no_grad()
    def aim(self, rows: Tensor, within: Tensor | None = None) -> None:
        """Make the target anew. rows [D, D]: in how many rows two columns were seen together; within [D, D]: the
        covariance within components (None: as the last step found it)."""
        if within is not None:
            self.within.copy_(within)
        if self.aim_at == "diagonal":
            self.target.copy_(torch.diag(self.within.diagonal()))
        else:
            self.target.copy_(factored(self.within, rows, pairs=self.aim_at == "pairs"))

    def _in_loops(self, scale: Scale) -> bool:
        return False
