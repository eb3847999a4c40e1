"""Factor analysis: x = F z + mean + noise, z ~ N(0, I), noise ~ N(0, diag(psi)) (paper, section on FA models)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor

from vgi_cli.layout import Layout
from vgi_cli.models.base import ModelConfig
from vgi_cli.models.gaussian.factors import FactorGaussians, FactorObserved, factor_counts
from vgi_cli.models.gaussian.family import EmTable, EmValue, GaussianFamily
from vgi_cli.models.gaussian.gaussians import FITTED_TWICE, MOST_LOST, Penalty
from vgi_cli.ranges import Factors


class FaConfig(ModelConfig):
    """factors: number L of latent factors; none: chosen by the method (see methods/sizing)."""

    factors: Factors | None = None


class FactorAnalysis(GaussianFamily):
    """One Gaussian with covariance F F' + diag(exp(log_psi))."""

    Config = FaConfig
    tolerance = 1e-6
    undescribed = 0.01

    def __init__(self, D: int, factors: int) -> None:
        super().__init__()
        self.gaussians = FactorGaussians(1, D, factors, ridge=0.0)
        self._factors = self.gaussians

    @classmethod
    def build(cls, config: FaConfig, layout: Layout) -> Self:
        D = layout.D
        return cls(D, min(2, D - 1) if config.factors is None else min(config.factors, D))

    @classmethod
    def sizes(cls, config: FaConfig, N: int, D: int) -> Sequence[Sequence[FaConfig]]:
        if config.factors is not None:
            return [[config]]
        return [[FaConfig(factors=L) for L in factor_counts(N, D)]]

    @property
    def F(self) -> Tensor:
        """Loadings [D, L]."""
        return self._factors.F[0]

    @property
    def mean(self) -> Tensor:
        """[D]."""
        return self._factors.mean[0]

    @property
    def log_psi(self) -> Tensor:
        """Logarithms of the noise variances [D]."""
        return self._factors.log_psi[0]

    @torch.no_grad()
    def initialise(self, x: Tensor, generator: torch.Generator) -> None:
        """Principal factors of the covariance of completed rows; nothing here is random."""
        dtype = self.gaussians.means().dtype
        x = x.to(torch.float64)
        mean = x.mean(0)
        covariance = (x - mean).mT @ (x - mean) / x.shape[0]
        covariance = covariance + 1e-6 * torch.diag(covariance.diagonal().clamp(min=1e-6))
        self.double().gaussians.set_moments(mean[None], covariance[None])
        self.to(dtype)

    def log_weights(self) -> Tensor:
        return self.gaussians.means().new_zeros(1)

    def set_weights(self, weights: Tensor) -> None:
        """One component: its weight is 1."""

    def penalty(self, pooling: float | None, floor: float | None) -> Penalty:
        """Only the variance floor, against Heywood cases: the rest has no use for one Gaussian."""
        return Penalty(
            floor=self.gaussians.floor if floor is None else floor, pooling=0.0, common=0.0, mean=0.0, weight=0.0
        )

    def free_parameters(self) -> int:
        return self.gaussians.free_parameters()

    @torch.no_grad()
    def restore_noise(self, missing: Tensor) -> None:
        """Each column is a regression on the factors: the mean square of what it leaves is that of n less as many
        degrees of freedom as it has coefficients, L + 1, in the fit and in the refit."""
        cells = (~missing).sum(0).to(self._factors.log_psi).clamp(min=1)
        lost = FITTED_TWICE * (self._factors.L + 1) / cells
        self._factors.log_psi.sub_(torch.log1p(-lost.clamp(max=MOST_LOST)))

    @torch.no_grad()
    def factorised_step(self, table: EmTable, penalty: Penalty) -> EmValue:
        """One step of EM in place whose E step takes the missing cells of a row for independent given its observed ones
        (`FactorObserved.factorised`; paper, section 2.2). The objective is the penalised bound of the log-likelihood at
        the parameters before the step, which never lowers it; `loglik` is the log-likelihood itself."""
        objective, loglik = table.x.new_zeros(()), table.x.new_zeros(())
        totals: tuple[Tensor, ...] = ()
        for rows, some in table.pieces(self.gaussians.footprint(), summed=False):
            weight = table.weights[rows]
            observed = self._factors.observe(some)
            assert isinstance(observed, FactorObserved)
            statistics, bound = observed.factorised(weight)
            objective = objective + (bound * weight).sum()
            loglik = loglik + (observed.log_prob[:, 0] * weight).sum()
            totals = tuple(map(torch.add, totals, statistics)) if totals else statistics
        objective = objective + self.gaussians.log_penalty(table.scale, penalty)
        self.gaussians.maximise(totals, table.scale, penalty)
        return EmValue(objective, loglik)
