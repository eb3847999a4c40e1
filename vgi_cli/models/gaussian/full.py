"""K Gaussians with full covariances, held as Cholesky factors with the logarithm of the diagonal."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from vgi_cli.maths import compiled, lanes
from vgi_cli.maths.gaussian import Patterns, apply_by_pattern, hole_blocks, hole_covariance
from vgi_cli.maths.selection import independent_given_others
from vgi_cli.models.gaussian.gaussians import (
    Footprint,
    Gaussians,
    Moments,
    Observed,
    Penalty,
    Scale,
    ShiftSystem,
    allowed,
    by_component,
    inverse_of,
    normal_log_prob,
)
from vgi_cli.models.gaussian.incomplete import Incomplete, Kept

SMALL = 20_000
"""Components times columns to the third up to which steps are taken by compiled loops."""
TOGETHER = 1 << 18
"""Numbers of rows under several components that are looked at together."""
MOST_EXPLAINED = 1e12
"""Times what the other columns leave of a column's variance that this may be: beyond, a quadratic form is rounding
errors."""
FLOOR, LEAST, ENOUGH = 1e-7, 2e-9, 1e-3
"""The variance floor, low enough for columns that differ by a ten-thousandth of their spread (when something began and
ended, two meters of one thing); the least one for each row, beyond which sums over rows of what others say of a missing
cell are off by more than EM gains in a step; and what is enough of that."""
FEWEST, FEW = 3, 10
"""Rows a column up to which covariances are held near the columns' variances, firmly and a little:
docs/research/defaults.md."""


class FullGaussians(Gaussians):
    """mean [K, D]; tril [K, D, D]: strict lower triangle as it is, diagonal in logarithms, the rest unused (0)."""

    L = 0
    diagonal = False
    floor = FLOOR

    def __init__(self, K: int, D: int) -> None:
        super().__init__()
        self.K = K
        self.mean = nn.Parameter(torch.zeros(K, D))
        self.tril = nn.Parameter(torch.zeros(K, D, D))
        self._kept = Kept()

    def means(self) -> Tensor:
        return self.mean

    def cholesky(self) -> Tensor:
        """[K, D, D] lower factors of the covariances."""
        diagonal = self.tril.diagonal(dim1=-2, dim2=-1)
        return self.tril.tril(-1) + torch.diag_embed(diagonal.exp())

    def covariance(self) -> Tensor:
        """[K, D, D]."""
        factor = self.cholesky()
        return factor @ factor.mT

    def log_prob(self, x: Tensor) -> Tensor:
        whiten = self._kept.until_changed("whiten", (self.tril,), self._whiten)  # the rows then cost one product
        u = torch.einsum("rd,kud->kru", x, whiten) - (whiten @ self.mean[:, :, None]).mT
        logdet = 2 * self.tril.diagonal(dim1=-2, dim2=-1).sum(-1)
        return normal_log_prob(u.square().sum(-1), logdet[:, None], x.shape[-1]).mT

    def _whiten(self) -> Tensor:
        """[K, D, D] the inverses of the factors."""
        factor = self.cholesky()
        eye = torch.eye(factor.shape[-1], dtype=factor.dtype, device=factor.device).expand_as(factor)
        inverse: Tensor = torch.linalg.solve_triangular(factor, eye, upper=False)
        return inverse

    @property
    def computable(self) -> bool:
        factor = self.cholesky().detach().double()
        eye = torch.eye(factor.shape[-1], dtype=factor.dtype, device=factor.device).expand_as(factor)
        left = torch.linalg.solve_triangular(factor, eye, upper=False).square().sum(-2)  # 1 / what the others leave
        return bool((factor.square().sum(-1) * left <= MOST_EXPLAINED).all())

    def observe(self, rows: Incomplete, *, fixed: bool = False) -> Observed:
        if rows.summed and rows.x.shape[1] > 0 and lanes.suit(len(rows.x), self.K, rows.x, self.mean):
            return SummedObserved(self, rows, fixed)
        return FullObserved(self.mean, self.cholesky(), rows, fixed)

    def work(self, missing: Tensor | None = None) -> float:
        K, D = self.mean.shape
        return float(K * (D**3 + D))

    def footprint(self) -> Footprint:
        K, D = self.mean.shape
        filled = lanes.filled(K)
        return Footprint(max(K * D * D, filled * D * (D + 1) // 2), filled * D)

    def log_penalty(self, scale: Scale, penalty: Penalty) -> Tensor:
        """With the common covariance W at its best value (`common`) for the current covariances."""
        if self._in_loops(scale):
            value = compiled.kernel("penalty")(*self._arrays(scale, penalty))
            if math.isnan(value):
                raise torch.linalg.LinAlgError("a matrix is not positive definite")
            return self.mean.new_tensor(value)
        precision, logdet = self.precision()
        W = self.common(precision, scale, penalty)
        square = ((self.mean - scale.mean).square() / scale.variance).sum()
        trace = (precision * W).sum()
        floor = (precision.diagonal(dim1=-2, dim2=-1) * scale.variance).sum()
        pull = penalty.pooling * (logdet.sum() + trace)
        return 0.5 * (
            self.log_prior(W, scale, penalty) - pull - self._floor(scale, penalty) * floor - penalty.mean * square
        )

    def log_prior(self, common: Tensor, scale: Scale, penalty: Penalty) -> Tensor:
        """Twice what the penalty says of the common covariance alone."""
        tau = self.anchor(scale, penalty)
        total = self.mean.shape[0] * penalty.pooling + tau
        return total * torch.logdet(common) - tau * (common.diagonal() / scale.variance).sum()

    def common(self, precision: Tensor, scale: Scale, penalty: Penalty) -> Tensor:
        """W [D, D], a weighted harmonic mean of the covariances and the columns' variances (unused without pooling)."""
        K = self.mean.shape[0]
        if penalty.pooling == 0:
            return torch.diag(scale.variance)
        tau = self.anchor(scale, penalty)
        total = penalty.pooling * precision.sum(0) + tau * torch.diag(1 / scale.variance)
        return inverse_of(total / (K * penalty.pooling + tau))

    def anchor(self, scale: Scale, penalty: Penalty) -> float:
        """tau where the rows tell it: the penalty's, and more where rows are few. They then leave directions in which
        next to nothing varies, W follows the covariances there, and their variances fall to the floor: fills that are
        far too sure, by an EM that crawls. Columns' worth of pseudo-rows slow that down, more than the rows end it."""
        D = self.mean.shape[1]
        few = 2.0 * scale.rows if scale.rows <= FEWEST * D else float(D) if scale.rows <= FEW * D else 0.0
        return max(penalty.common, few) if penalty.common else 0.0

    def maximise(self, statistics: tuple[Tensor, ...], scale: Scale, penalty: Penalty) -> None:
        if self._in_loops(scale):
            parts = (part.detach().contiguous().numpy() for part in statistics)
            if not compiled.kernel("maximise")(*self._arrays(scale, penalty), *parts):
                raise torch.linalg.LinAlgError("a matrix is not positive definite")
            return
        count, first, second = statistics
        precision, _ = self.precision()
        W = self.common(precision, scale, penalty)
        pull = penalty.mean / scale.variance
        offset = scale.mean - self.mean  # statistics are about the old means
        right = (precision @ first[:, :, None])[..., 0] + pull * offset
        system = count[:, None, None] * precision + torch.diag(pull)
        shift = torch.cholesky_solve(right[:, :, None], torch.linalg.cholesky(system))[..., 0]
        cross = first[:, :, None] * shift[:, None, :]
        scatter = second - cross - cross.mT + count[:, None, None] * shift[:, :, None] * shift[:, None, :]
        scatter = scatter + penalty.pooling * W + self._floor(scale, penalty) * torch.diag(scale.variance)
        self.set_moments(self.mean + shift, scatter / (count + penalty.pooling)[:, None, None])

    @staticmethod
    def _floor(scale: Scale, penalty: Penalty) -> float:
        return max(penalty.floor, min(LEAST * scale.rows, ENOUGH)) if penalty.floor else 0.0

    def _in_loops(self, scale: Scale) -> bool:
        """Whether compiled loops compute with the parameters: where these are few, tensors are mostly overhead."""
        K, D = self.mean.shape
        return D > 0 and K * D**3 <= SMALL and lanes.suit(scale.rows, K, self.mean, self.tril)

    def _arrays(self, scale: Scale, penalty: Penalty) -> tuple[np.ndarray[Any, Any], ...]:
        """The parameters and what they are pulled to, as loops read them."""
        weights = np.array([penalty.pooling, self.anchor(scale, penalty), penalty.mean, self._floor(scale, penalty)])
        given = (self.mean.detach(), self.tril.detach(), scale.mean.contiguous(), scale.variance.contiguous())
        return (*(part.numpy() for part in given), weights)

    def shift_system(self, statistics: Tensor) -> ShiftSystem:
        count, total = statistics[..., 0], statistics[..., 1:]
        precision, _ = self.precision()
        away = total - count[:, :, None] * self.mean[:, None, :]
        curve = count.mT @ precision.flatten(1)
        return ShiftSystem(curve.view(-1, *precision.shape[1:]), (away @ precision).sum(0))

    def set_moments(self, mean: Tensor, covariance: Tensor) -> None:
        factor = torch.linalg.cholesky(0.5 * (covariance + covariance.mT))
        diagonal = factor.diagonal(dim1=-2, dim2=-1)
        with torch.no_grad():
            self.mean.copy_(mean)
            self.tril.copy_(factor.tril(-1) + torch.diag_embed(diagonal.log()))

    def stretch(self, times: Tensor) -> None:
        rows = self.tril.tril(-1) * times[:, None]
        self.tril.copy_(rows + torch.diag_embed(self.tril.diagonal(dim1=-2, dim2=-1) + times.log()))

    def separate(self, pairs: Tensor) -> None:
        self.set_moments(self.mean, independent_given_others(self.covariance().detach(), pairs))

    def moments(self) -> Moments:
        return Moments(self.mean, self.covariance(), None)

    def precision(self) -> tuple[Tensor, Tensor]:
        return self._kept.until_changed("precision", (self.tril,), self._precision)

    def _precision(self) -> tuple[Tensor, Tensor]:
        return torch.cholesky_inverse(self.cholesky()), 2 * self.tril.diagonal(dim1=-2, dim2=-1).sum(-1)

    def sample(self, component: Tensor, generator: torch.Generator | None) -> Tensor:
        shape = (component.shape[0], self.mean.shape[1])
        z = torch.randn(shape, dtype=self.mean.dtype, device=self.mean.device, generator=generator)
        return self.mean[component] + by_component(self.cholesky(), z, component)

    def free_parameters(self) -> int:
        K, D = self.mean.shape
        return K * (D + D * (D + 1) // 2)


class FullObserved(Observed):
    """Rows seen through their holes, in float64 inside whatever they come in: the quadratic form is a difference."""

    def __init__(self, mean: Tensor, factor: Tensor, rows: Incomplete, fixed: bool) -> None:
        patterns = rows.patterns
        self.x, self.patterns, self.means, self.factor = rows.x.double(), patterns, mean.double(), factor.double()
        self.missing, self._observed, self.of_row = rows.of_holes("full", lambda: _by_row(patterns))
        self.precision = torch.cholesky_inverse(self.factor)
        blocks = rows.of_holes("blocks", lambda: hole_blocks(patterns.missing))
        if fixed:
            self.holes = rows.of_holes_until_changed(
                "covariance", (self.precision,), lambda: hole_covariance(self.precision, patterns.missing, blocks)
            )
        else:
            self.holes = hole_covariance(self.precision, patterns.missing, blocks)
        logdet = 2 * self.factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        together = self._together()
        if len(together) == 1:
            self.delta, log_prob = self._look(together[0], logdet)
        else:
            self.delta = self.x.new_empty(len(mean), *self.x.shape)  # [K, R, D] conditional means less the means
            every = []
            for k in together:
                self.delta[k], own = self._look(k, logdet)
                every.append(own)
            log_prob = torch.cat(every)
        self.log_prob = log_prob.mT.to(rows.x.dtype)

    def _look(self, k: slice, logdet: Tensor) -> tuple[Tensor, Tensor]:
        """Of some components the conditional means less the means [k, R, D], and log p(x_obs) [k, R]; logdet [K] of the
        covariances."""
        delta = torch.where(self.missing, 0.0, self.x - self.means[k, None, :])
        pull = delta @ self.precision[k]
        delta = delta - apply_by_pattern(self.holes.padded[k], self.of_row, pull)
        log_det = (logdet[k, None] + self.holes.logdet[k])[:, self.patterns.of_row]
        return delta, normal_log_prob((pull * delta).sum(-1), log_det, self._observed)

    def _together(self) -> list[slice]:
        """Components that are looked at together: so many that what is made of them stays small."""
        K, step = len(self.means), max(1, TOGETHER // max(self.x.numel(), 1))
        return [slice(k, min(k + step, K)) for k in range(0, K, step)]

    def mean(self, k: int) -> Tensor:
        return torch.where(self.missing, self.means[k] + self.delta[k], self.x)

    def draw(self, k: int, columns: Tensor, factors: Tensor) -> Tensor:
        free = columns.double() @ self.factor[k].mT  # Matheron's rule: a free draw, moved by its observed cells
        pull = torch.where(self.missing, 0.0, free) @ self.precision[k]
        moved = apply_by_pattern(self.holes.padded[k, None], self.of_row, pull[None])[0]
        return torch.where(self.missing, self.means[k] + self.delta[k] + free + moved, self.x)

    def draw_each(self, component: Tensor, columns: Tensor, factors: Tensor, rows: Tensor | None = None) -> Tensor:
        """As of `Observed`, but for rounding, without draws under all the other components."""
        rows = torch.arange(len(self.x), device=component.device) if rows is None else rows
        drawn = [columns.new_empty(0, self.x.shape[1]).double()]
        together = max(1, allowed() // max(1, self.precision[0].numel()))  # rows whose matrices are gathered
        for k, r, noise in zip(*(part.split(together) for part in (component, rows, columns.double())), strict=True):
            missing, of_row = self.missing[r], self.patterns.of_row[r]
            free = (self.factor[k] @ noise[:, :, None])[:, :, 0]
            pull = self.precision[k] @ torch.where(missing, 0.0, free)[:, :, None]
            moved = (self.holes.padded[k, of_row] @ pull)[:, :, 0]
            drawn.append(torch.where(missing, self.means[k] + self.delta[k, r] + free + moved, self.x[r]))
        return torch.cat(drawn)

    def statistics(self, responsibility: Tensor) -> tuple[Tensor, ...]:
        """Weights [K], first [K, D] and second [K, D, D] moments about the current means."""
        U, weight = self.patterns.missing.shape[0], responsibility.mT
        by_pattern = weight.new_zeros(len(weight), U).index_add_(1, self.patterns.of_row, weight)
        second = (by_pattern[:, None] @ self.holes.padded.flatten(2)).view_as(self.precision)
        first = []
        for k in self._together():
            weighted = self.delta[k] * weight[k, :, None]
            first.append(weighted.sum(1))
            second[k] += weighted.mT @ self.delta[k]
        return responsibility.sum(0), torch.cat(first), second

    def shift_statistics(self, responsibility: Tensor, place: Tensor, J: int) -> Tensor:
        """[K, J, 1 + D] weights and sums of the rows, their missing cells at their conditional means."""
        sums = []
        for k, weight in enumerate(responsibility.unbind(-1)):
            parts = torch.cat([weight[:, None], self.mean(k) * weight[:, None]], 1)
            sums.append(parts.new_zeros(J, parts.shape[1]).index_add_(0, place, parts))
        return torch.stack(sums)


class SummedObserved(Observed):
    """Rows of which densities and sums alone are asked, by compiled loops (`maths/lanes.py`); each row is looked at by
    all components at once."""

    def __init__(self, gaussians: FullGaussians, rows: Incomplete, fixed: bool) -> None:
        self.rows, self.of_row, patterns = rows, rows.patterns.of_row, rows.patterns
        self.means, tril = gaussians.mean.detach(), gaussians.tril.detach()
        self._gaussians, K = gaussians, len(self.means)
        laws = lanes.laws_of(self.means, tril)
        self.holes = rows.of_holes("in lanes", lambda: lanes.holes_of(patterns.missing))

        def triangles() -> lanes.HoleTriangles:
            return lanes.hole_triangles(laws, self.holes)

        kept = rows.of_holes_until_changed("triangles", (tril,), triangles) if fixed else triangles()
        self.triangles = kept
        self.delta, log_prob = lanes.seen(rows.x, self.of_row, laws, self.holes, kept)
        self.log_prob = log_prob[:, :K]

    def mean(self, k: int) -> Tensor:
        missing = self.rows.patterns.missing[self.of_row]
        return torch.where(missing, self.means[k] + self.delta[:, :, k], self.rows.x)

    def draw(self, k: int, columns: Tensor, factors: Tensor) -> Tensor:
        whole = FullObserved(self.means, self._gaussians.cholesky(), self.rows, False)
        return whole.draw(k, columns, factors)

    def statistics(self, responsibility: Tensor) -> tuple[Tensor, ...]:
        """As those of FullObserved."""
        K, weights = len(self.means), lanes.weighted_lanes(responsibility)
        first, second = lanes.moments(self.delta, weights, self.of_row, self.holes, self.triangles)
        lower = second[:, :, :K].permute(2, 0, 1)
        return responsibility.sum(0), first[:, :K].mT, lower + lower.tril(-1).mT

    def shift_statistics(self, responsibility: Tensor, place: Tensor, J: int) -> Tensor:
        K, weights = len(self.means), lanes.weighted_lanes(responsibility)
        away = lanes.sums(self.delta, weights, place, J)[:, :, :K].permute(2, 0, 1)
        count = away[:, :, :1]
        return torch.cat([count, away[:, :, 1:] + count * self.means[:, None, :]], 2)


def _by_row(patterns: Patterns) -> tuple[Tensor, Tensor, Tensor | None]:
    """Which cells are missing [R, D], how many are observed [R], and the pattern of each row (None: its own)."""
    missing, R = patterns.missing[patterns.of_row], len(patterns.of_row)
    own = len(patterns.missing) == R and torch.equal(patterns.of_row, torch.arange(R, device=missing.device))
    return missing, (~missing).to(torch.float64).sum(-1), None if own else patterns.of_row
