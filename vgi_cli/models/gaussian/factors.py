"""K Gaussians with factor-analytic covariances F F' + diag(psi): L x L systems only (Woodbury)."""

from __future__ import annotations

from typing import NamedTuple, Self

import torch
from torch import Tensor, nn

from vgi_cli.maths import lanes
from vgi_cli.maths.gaussian import factor_posterior, factor_precision, greatest
from vgi_cli.models.gaussian.gaussians import (
    Footprint,
    Gaussians,
    Moments,
    Observed,
    Penalty,
    Scale,
    ShiftSystem,
    by_component,
    inverse_of,
    normal_log_prob,
)
from vgi_cli.models.gaussian.incomplete import Incomplete

WORTH = 2048
"""Rows times components from which steps of EM are computed by compiled loops, where there are any: an `fa` of fewer
rows is fitted before they are loaded."""
COMPILED = 2048
"""Numbers that the sums over rows are, of one component, up to which compiled loops make them: then they lie in a
processor's second cache."""


def factor_counts(N: int, D: int) -> list[int]:
    """Numbers of factors to compare for N rows of D columns: up to the Ledermann bound (beyond it a covariance has more
    than one solution) and N / 5.

    One factor is always among them where there are two columns: which loadings it has is then open, but not the
    covariance, and without a factor the columns would be independent.
    """
    bound = min(max(int(D + 0.5 - (2 * D + 0.25) ** 0.5), int(D > 1)), N // 5)
    return [L for L in (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64) if bound >= L or L == 0]


class Factorised(NamedTuple):
    """What the best factorised posterior of the missing cells makes of R rows under one factor model.

    statistics  those of `FactorObserved.statistics`, of one component, with every column taken for observed
    bound       [R] nats: log p(x_obs) less the divergence of the factorised posterior from p(x_mis | x_obs)
    """

    statistics: tuple[Tensor, ...]
    bound: Tensor


class FactorGaussians(Gaussians):
    """F [K, D, L]; mean [K, D]; log_psi [K, D]. `ridge` (rho) keeps small components from overfitting."""

    floor = 1e-3

    def __init__(self, K: int, D: int, L: int, ridge: float) -> None:
        super().__init__()
        self.K, self.L, self.ridge = K, L, ridge
        self.diagonal = L == 0
        self.F = nn.Parameter(torch.zeros(K, D, L))
        self.mean = nn.Parameter(torch.zeros(K, D))
        self.log_psi = nn.Parameter(torch.zeros(K, D))

    def means(self) -> Tensor:
        return self.mean

    def log_prob(self, x: Tensor) -> Tensor:
        inverse = torch.exp(-self.log_psi)
        scaled = self.F * inverse[:, :, None]
        delta = x - self.mean[:, None, :]
        eye = torch.eye(self.L, dtype=x.dtype, device=x.device)
        precision = eye + scaled.mT @ self.F
        cholesky, _ = torch.linalg.cholesky_ex(precision)  # positive definite by construction: no check, no waiting
        m = delta @ torch.cholesky_solve(scaled.mT, cholesky).mT  # posterior mean of the factors [K, R, L]
        residual = delta - m @ self.F.mT
        square = (residual.square() * inverse[:, None, :]).sum(-1) + m.square().sum(-1)
        logdet = self.log_psi.sum(-1) + 2 * cholesky.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        return normal_log_prob(square, logdet[:, None], x.shape[-1]).mT

    def observe(self, rows: Incomplete, *, fixed: bool = False) -> Observed:
        R, D = rows.x.shape
        small = 0 < D * (self.L + 1) * (self.L + 2) // 2 <= COMPILED
        if rows.summed and small and lanes.suit(R, self.K, rows.x, self.mean, least=WORTH):
            return SummedFactors(self.F, self.mean, self.log_psi, rows)
        return FactorObserved(self.F, self.mean, self.log_psi, rows)

    def footprint(self) -> Footprint:
        K, D, L = self.F.shape
        filled = lanes.filled(K)
        pattern, row = filled * L * (L + 1) // 2, filled * (L + 1)
        return Footprint(max(K * max(L * L, D), pattern), max(K * max(L * L, D), row) + (L + 1) ** 2)

    def work(self, missing: Tensor | None = None) -> float:
        """The L x L system, and what each column adds to it; without factors there is no system."""
        K, D, L = self.F.shape
        return float(K * (L**3 + D * max(L, 1) ** 2))

    def log_penalty(self, scale: Scale, penalty: Penalty) -> Tensor:
        inverse = torch.exp(-self.log_psi)
        common = self.common(scale, penalty)
        floor = (penalty.floor * scale.variance * inverse).sum()
        pull = penalty.pooling * (self.log_psi + common * inverse).sum()
        K = self.mean.shape[0]
        prior = ((K * penalty.pooling + penalty.common) * common.log() - penalty.common * common / scale.variance).sum()
        ridge = self.ridge * (self.F.square().sum(-1) * inverse).sum()
        mean = penalty.mean * ((self.mean - scale.mean).square() / scale.variance).sum()
        return 0.5 * (prior - pull - floor - ridge - mean)

    def common(self, scale: Scale, penalty: Penalty) -> Tensor:
        """[D] noise variances that the components have in common: a weighted harmonic mean (unused without pooling)."""
        K = self.mean.shape[0]
        if penalty.pooling == 0:
            return scale.variance
        total = penalty.pooling * torch.exp(-self.log_psi).sum(0) + penalty.common / scale.variance
        return (K * penalty.pooling + penalty.common) / total

    def maximise(self, statistics: tuple[Tensor, ...], scale: Scale, penalty: Penalty) -> None:
        """One weighted regression a column on the factors and a constant, over the rows where it is observed.

        With no ridge the factors' own law is fitted as well and absorbed into F and the mean (parameter expansion, Liu,
        Rubin and Wu 1998): the likelihood cannot fall, and the convergence is much faster.
        """
        A, b, c, n, factors = statistics  # [K, D, P, P], [K, D, P], [K, D], [K, D], [K, P, P] with P = L + 1
        L = self.L
        common = self.common(scale, penalty)
        pull = penalty.mean * torch.exp(self.log_psi) / scale.variance
        prior = torch.diag_embed(torch.cat([A.new_full((*pull.shape, L), self.ridge), pull[..., None]], -1))
        # a column without weight in a component keeps its place through the tiny diagonal
        system = A + prior + 1e-12 * torch.eye(L + 1, dtype=A.dtype, device=A.device)
        anchored = b.clone()
        anchored[..., L] += pull * scale.mean
        coefficient = torch.cholesky_solve(anchored[..., None], torch.linalg.cholesky(system))[..., 0]
        F, mean = coefficient[..., :L], coefficient[..., L]
        fitted = torch.einsum("kdp,kdpq,kdq->kd", coefficient, A, coefficient)
        square = c - 2 * (coefficient * b).sum(-1) + fitted
        square = square + self.ridge * F.square().sum(-1)
        square = square.clamp(min=0) + penalty.pooling * common + penalty.floor * scale.variance
        psi = square / (n + penalty.pooling)
        if self.ridge == 0 and penalty.mean == 0:
            weight = factors[:, L, L].clamp(min=1e-300)
            centre = factors[:, :L, L] / weight[:, None]
            spread = factors[:, :L, :L] / weight[:, None, None] - centre[:, :, None] * centre[:, None, :]
            mean = mean + (F @ centre[:, :, None])[..., 0]
            F = F @ torch.linalg.cholesky(spread)
        self._take(mean, F, psi)

    def shift_system(self, statistics: Tensor) -> ShiftSystem:
        """Given the factors the columns are independent."""
        count, total, factors = statistics[..., 0], statistics[..., 1], statistics[..., 2:]
        inverse = torch.exp(-self.log_psi)[:, None, :]
        away = total - count * self.mean[:, None, :] - torch.einsum("kdl,kjdl->kjd", self.F, factors)
        return ShiftSystem((count * inverse).sum(0), (away * inverse).sum(0))

    def set_moments(self, mean: Tensor, covariance: Tensor) -> None:
        """Iterated principal factors: eigenvectors of the covariance in units of the noise.

        The noise starts at the variance of each column given the others (Joreskog 1967), so that the factors of columns
        that all but determine each other come first: from equal shares of the variances few factors may settle on
        columns that are many and loosely related, and EM does not leave that optimum.
        """
        diagonal = covariance.diagonal(dim1=-2, dim2=-1)
        if self.L == 0:
            self._take(mean, self.F, diagonal)
            return
        alone = inverse_of(covariance).diagonal(dim1=-2, dim2=-1)
        psi = torch.maximum(1 / alone, 0.01 * diagonal)
        for _ in range(20):
            root = psi.sqrt()
            value, vector = greatest(covariance / (root[:, :, None] * root[:, None, :]), self.L)
            F = root[:, :, None] * vector * (value - 1).clamp(min=1e-3).sqrt()[:, None, :]
            psi = torch.maximum(diagonal - F.square().sum(-1), 0.01 * diagonal)
        self._take(mean, F, psi)

    @torch.no_grad()
    def _take(self, mean: Tensor, F: Tensor, psi: Tensor) -> None:
        self.F.copy_(F)
        self.mean.copy_(mean)
        self.log_psi.copy_(psi.log())

    def stretch(self, times: Tensor) -> None:
        self._take(self.mean, self.F * times[:, None], self.log_psi.exp() * times.square())

    def shrink_to(self, other: Self, share: float) -> None:
        """Of the rotations of the loadings, which are one model, the nearest to the other's is taken."""
        left, _, right = torch.linalg.svd(self.F.mT @ other.F)
        self.F.copy_(self.F @ (left @ right))
        super().shrink_to(other, share)

    def moments(self) -> Moments:
        psi = self.log_psi.exp()
        return Moments(self.mean, self.F @ self.F.mT + torch.diag_embed(psi), (self.F, psi))

    def precision(self) -> tuple[Tensor, Tensor]:
        return factor_precision(self.F, self.log_psi)

    def sample(self, component: Tensor, generator: torch.Generator | None) -> Tensor:
        n, D = component.shape[0], self.mean.shape[1]
        z = torch.randn((n, self.L + D), dtype=self.mean.dtype, device=self.mean.device, generator=generator)
        centre = self.mean[component] + torch.exp(0.5 * self.log_psi[component]) * z[:, self.L :]
        return centre + by_component(self.F, z[:, : self.L], component)

    def free_parameters(self) -> int:
        K, D, L = self.F.shape
        return K * (2 * D + D * L - L * (L - 1) // 2)


class SummedFactors(Observed):
    """Rows of which densities and sums alone are asked, by compiled loops (`maths/lanes.py`)."""

    def __init__(self, F: Tensor, mean: Tensor, log_psi: Tensor, rows: Incomplete) -> None:
        self._parameters, self._incomplete = (F, mean, log_psi), rows
        logs = lanes.in_lanes(-log_psi)
        laws = lanes.FactorLaws(lanes.in_lanes(mean), lanes.in_lanes(F), logs.exp(), logs)
        holes = rows.of_holes("in lanes", lambda: lanes.holes_of(rows.patterns.missing))
        self._rows = lanes.FactorRows(rows.x, rows.patterns.of_row, laws, holes)
        self.log_prob = self._rows.log_prob[:, : len(mean)]

    def _whole(self) -> FactorObserved:
        return FactorObserved(*self._parameters, self._incomplete)

    def mean(self, k: int) -> Tensor:
        return self._whole().mean(k)

    def draw(self, k: int, columns: Tensor, factors: Tensor) -> Tensor:
        return self._whole().draw(k, columns, factors)

    def statistics(self, responsibility: Tensor) -> tuple[Tensor, ...]:
        """As those of FactorObserved."""
        K, L = responsibility.shape[1], self._rows.z.shape[1]
        found = self._rows.moments(lanes.weighted_lanes(responsibility))
        A, b, c, every = (part.movedim(-1, 0)[:K].contiguous() for part in found)
        return A, b, c, A[:, :, L, L].clone(), every

    def shift_statistics(self, responsibility: Tensor, place: Tensor, J: int) -> Tensor:
        sums = self._rows.sums(lanes.weighted_lanes(responsibility), place, J)
        return sums.movedim(-1, 0)[: responsibility.shape[1]].contiguous()


class FactorObserved(Observed):
    """Rows seen through their holes by factor models: what the factors are given the observed cells."""

    def __init__(self, F: Tensor, mean: Tensor, log_psi: Tensor, rows: Incomplete) -> None:
        self.F, self.means, self.log_psi, self.x, self.patterns = F, mean, log_psi, rows.x, rows.patterns
        self.missing = rows.of_holes("missing", lambda: rows.patterns.missing[rows.patterns.of_row])
        delta = torch.where(self.missing, 0.0, self.x - mean[:, None, :])
        self.posterior = factor_posterior(F, log_psi, delta, self.patterns)
        self.log_prob = self.posterior.log_prob.mT

    def mean(self, k: int) -> Tensor:
        return torch.where(self.missing, self.means[k] + self.posterior.mean[k] @ self.F[k].mT, self.x)

    def draw(self, k: int, columns: Tensor, factors: Tensor) -> Tensor:
        cholesky = self.posterior.cholesky[k][self.patterns.of_row]
        z = self.posterior.mean[k] + torch.linalg.solve_triangular(cholesky.mT, factors[:, :, None], upper=True)[..., 0]
        filled = self.means[k] + z @ self.F[k].mT + torch.exp(0.5 * self.log_psi[k]) * columns
        return torch.where(self.missing, filled, self.x)

    def draw_each(self, component: Tensor, columns: Tensor, factors: Tensor, rows: Tensor | None = None) -> Tensor:
        """As of `Observed`, but for rounding, without draws under all the other components."""
        rows = torch.arange(len(self.x), device=component.device) if rows is None else rows
        cholesky = self.posterior.cholesky[component, self.patterns.of_row[rows]]
        moved = torch.linalg.solve_triangular(cholesky.mT, factors[:, :, None], upper=True)
        z = self.posterior.mean[component, rows][:, :, None] + moved
        noise = torch.exp(0.5 * self.log_psi)[component] * columns
        filled = self.means[component] + (self.F[component] @ z)[:, :, 0] + noise
        return torch.where(self.missing[rows], filled, self.x[rows])

    def statistics(self, responsibility: Tensor) -> tuple[Tensor, ...]:
        """For each component and column, over the rows where it is observed: the moments E[(z,1)(z,1)'], E[(z,1)] x,
        x^2 and the weight; and E[(z,1)(z,1)'] over all rows."""
        o = (~self.missing).to(self.x.dtype)
        x = torch.where(self.missing, 0.0, self.x)
        covariance = torch.cholesky_inverse(self.posterior.cholesky)[:, self.patterns.of_row]
        A, b, c, n, factors = [], [], [], [], []
        for k, weight in enumerate(responsibility.unbind(-1)):
            z = torch.cat([self.posterior.mean[k], torch.ones_like(weight)[:, None]], -1)
            P = z.shape[-1]
            outer = z[:, :, None] * z[:, None, :] + torch.nn.functional.pad(covariance[k], (0, 1, 0, 1))
            weighted = o * weight[:, None]
            A.append((weighted.mT @ outer.flatten(1)).unflatten(1, (P, P)))
            b.append((weighted * x).mT @ z)
            c.append((weighted * x.square()).sum(0))
            n.append(weighted.sum(0))
            factors.append((weight @ outer.flatten(1)).unflatten(0, (P, P)))
        return torch.stack(A), torch.stack(b), torch.stack(c), torch.stack(n), torch.stack(factors)

    def shift_statistics(self, responsibility: Tensor, place: Tensor, J: int) -> Tensor:
        """[K, J, D, 2 + L] weights, sums of the cells and of the factors' means, over the rows where a column is
        observed."""
        o = (~self.missing).to(self.x.dtype)
        x = torch.where(self.missing, 0.0, self.x)
        sums = []
        for k, weight in enumerate(responsibility.unbind(-1)):
            weighted = o * weight[:, None]
            parts = [weighted, weighted * x, *(weighted * z[:, None] for z in self.posterior.mean[k].unbind(-1))]
            added = [part.new_zeros(J, part.shape[1]).index_add_(0, place, part) for part in parts]
            sums.append(torch.stack(added, -1))
        return torch.stack(sums)

    def factorised(self, weight: Tensor) -> Factorised:
        """One factor model with q(x_mis | x_obs) = prod_j q_j(x_j | x_obs) in place of p(x_mis | x_obs); `weight` [R].

        Of all such q the one nearest to p, in KL(q || p), has its means and the variances 1 / Q_jj, Q the precision of
        a whole row: with L = Q_mm, that of x_mis given x_obs, the divergence is 1/2 (sum_m log Q_jj - log|Q_mm|)
        (Bishop 2006, section 10.1.2). Given the completed row the factors have their exact law, so that

            E z = B (x - mean),   Cov z = I - B F + B V B',   Cov(z, x) = B V,   B = F' Q,   V = diag(1 / Q_jj) at holes

        are the moments of a row; no cell tells more of another than through its mean.
        """
        F, log_psi, mean = self.F[0], self.log_psi[0], self.means[0]
        L = F.shape[1]
        holes = self.missing.to(F.dtype)
        scaled = F * torch.exp(-log_psi)[:, None]
        cholesky = torch.linalg.cholesky(torch.eye(L, dtype=F.dtype, device=F.device) + scaled.mT @ F)
        B = torch.cholesky_solve(scaled.mT, cholesky)
        alone = torch.exp(-log_psi) * (1 - (F * B.mT).sum(1))  # [D] the diagonal of Q
        pattern = self.patterns.missing.to(F.dtype)
        logdet = 2 * self.posterior.cholesky[0].diagonal(dim1=-2, dim2=-1).log().sum(-1) - pattern @ log_psi
        logdet = logdet - 2 * cholesky.diagonal().log().sum()  # [U] of Q_mm
        divergence = 0.5 * (pattern @ alone.log() - logdet)

        x = self.mean(0)
        z = torch.cat([(x - mean) @ B.mT, torch.ones_like(weight)[:, None]], 1)
        spread = (weight @ holes) / alone  # [D] sums of V
        total = weight.sum()
        second = (z * weight[:, None]).mT @ z
        second[:L, :L] += total * (torch.eye(L, dtype=F.dtype, device=F.device) - B @ F) + (B * spread) @ B.mT
        first = (x * weight[:, None]).mT @ z
        first[:, :L] += (B * spread).mT
        square = weight @ x.square() + spread
        D = len(mean)
        statistics = (second.expand(1, D, L + 1, L + 1), first[None], square[None], total.expand(1, D), second[None])
        return Factorised(statistics, self.log_prob[:, 0] - divergence[self.patterns.of_row])
