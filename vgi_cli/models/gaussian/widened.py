"""Gaussians with broad ones beside them for rows that are unlike all others: a defensive mixture.

A fit to a few hundred rows is surest where it has seen least: a row a little outside of what was seen costs hundreds of
nats, and one such row outweighs all others in a mean. So a mixture has two components of fixed shape and learnt weight
beside those that are learnt. Such components are known from the contaminated normal (Tukey 1960), from importance
sampling (Hesterberg 1995) and from clustering (Banfield and Raftery 1993). Their mean and covariance are those of all
rows, the correlations shrunk towards none, so that columns which nearly determine each other in the rows that were seen
need not do so in others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor

from vgi_cli.models.gaussian.full import FullGaussians
from vgi_cli.models.gaussian.gaussians import (
    Footprint,
    Gaussians,
    Moments,
    Observed,
    Penalty,
    Scale,
    ShiftSystem,
    inverse_of,
)
from vgi_cli.models.gaussian.incomplete import Incomplete

SCALES = (1.5, 5.0)
"""Standard deviations of the broad components, in those of all rows."""
MIXED_SCALES = SCALES[-1:]
"""Those in mixed rows: the narrower one takes rows for the sake of their numbers and is vague about their levels, which
costs more in imputed levels than it gains (docs/research/defaults.md)."""
SHRINKAGE = 0.1
"""Weight of the diagonal in their covariance."""
HELD = 10.0
"""In fills the narrower broad component is at most so many times as wide as what the learnt ones leave: far more than
that in most columns, and next to nothing in those that nearly determine each other."""
UNLIKE = 1e-6
"""Share of the rows that the widest one has in fills, in which it is as wide as all rows: at most so many rows like
those of the learnt ones fall to it."""
ROWS = 1.0
"""Pseudo-rows that each broad component holds beside those that it explains: its weight cannot fall to 0."""
MIXED_ROWS = 0.1
"""The same in mixed rows, where tables may be as small as 25 rows: a whole pseudo-row of five times the spread in 25 is
more than what such a table loses without."""


class Widened(Gaussians):
    """`learnt` components, then broad ones of the same kind, one for each scale."""

    def __init__(self, learnt: Gaussians, broad: Gaussians, scales: Sequence[float] = SCALES) -> None:
        super().__init__()
        self.learnt, self.broad, self.scales = learnt, broad.requires_grad_(False), tuple(scales)
        self.K, self.L, self.diagonal, self.floor = learnt.K, learnt.L, learnt.diagonal, learnt.floor

    @property
    def computable(self) -> bool:
        return self.learnt.computable

    def means(self) -> Tensor:
        return torch.cat([self.learnt.means(), self.broad.means()])

    def log_prob(self, x: Tensor) -> Tensor:
        return torch.cat([self.learnt.log_prob(x), self.broad.log_prob(x)], -1)

    def observe(self, rows: Incomplete, *, fixed: bool = False) -> Observed:
        """What the broad components make of rows is the same at every step of a climb."""
        broad = rows.until_changed("broad", list(self.broad.parameters()), lambda: self.broad.observe(rows, fixed=True))
        return _Both(self.learnt.observe(rows, fixed=fixed), broad, self.K)

    def work(self, missing: Tensor | None = None) -> float:
        return self.learnt.work() + self.broad.work()

    def footprint(self) -> Footprint:
        learnt, broad = self.learnt.footprint(), self.broad.footprint()
        return Footprint(learnt.pattern + broad.pattern, learnt.row + broad.row)

    def log_penalty(self, scale: Scale, penalty: Penalty) -> Tensor:
        return self.learnt.log_penalty(scale, penalty)

    def maximise(self, statistics: tuple[Tensor, ...], scale: Scale, penalty: Penalty) -> None:
        self.learnt.maximise(statistics, scale, penalty)

    def shift_system(self, statistics: Tensor) -> ShiftSystem:
        return self.learnt.shift_system(statistics[: self.K]).plus(self.broad.shift_system(statistics[self.K :]))

    def set_moments(self, mean: Tensor, covariance: Tensor) -> None:
        self.learnt.set_moments(mean, covariance)

    def set_broad(self, mean: Tensor, covariance: Tensor) -> None:
        """Place the broad components around rows of this mean [D] and covariance [D, D], in place."""
        shrunk = (1 - SHRINKAGE) * covariance + SHRINKAGE * torch.diag(covariance.diagonal())
        squares = torch.tensor(self.scales, dtype=covariance.dtype, device=covariance.device).square()
        self.broad.set_moments(mean.expand(len(self.scales), -1), squares[:, None, None] * shrunk)

    def place_for_fills(self, weights: Tensor) -> None:
        """Move the broad components, in place, to where fills may be drawn from them.

        The widest becomes as wide as all rows. It is for rows that contradict what the learnt ones have found to be all
        but sure (two meters that differ for once): under those the other cells of such a row would be worlds away.

        A narrower one is kept narrow where the learnt ones, of these weights [K], leave next to nothing: its density
        times that of a Gaussian HELD times as wide as the learnt ones are within. Between what hardly differs it would
        else draw as if it had little to do with each other."""
        mean, broad, _ = self.broad.moments()
        placed = broad.double().clone()
        placed[-1] /= self.scales[-1] ** 2
        if len(placed) > 1 and isinstance(self.broad, FullGaussians):
            within = (weights[:, None, None] * self.learnt.moments().covariance.double()).sum(0)
            placed[:-1] = inverse_of(inverse_of(placed[:-1]) + inverse_of(within) / HELD**2)
        self.broad.set_moments(mean, placed)

    def stretch(self, times: Tensor) -> None:
        self.learnt.stretch(times)

    def separate(self, pairs: Tensor) -> None:
        self.learnt.separate(pairs)

    def shrink_to(self, other: Self, share: float) -> None:
        self.learnt.shrink_to(other.learnt, share)
        self.broad.shrink_to(other.broad, share)

    def moments(self) -> Moments:
        learnt, broad = self.learnt.moments(), self.broad.moments()
        loadings = None
        if learnt.loadings is not None and broad.loadings is not None:
            loadings = tuple(torch.cat(pair) for pair in zip(learnt.loadings, broad.loadings, strict=True))
        mean, covariance = torch.cat([learnt.mean, broad.mean]), torch.cat([learnt.covariance, broad.covariance])
        return Moments(mean, covariance, None if loadings is None else (loadings[0], loadings[1]))

    def precision(self) -> tuple[Tensor, Tensor]:
        (learnt, logdets), (broad, broad_logdets) = self.learnt.precision(), self.broad.precision()
        return torch.cat([learnt, broad]), torch.cat([logdets, broad_logdets])

    def sample(self, component: Tensor, generator: torch.Generator | None) -> Tensor:
        learnt = self.learnt.sample(component.clamp(max=self.K - 1), generator)
        broad = self.broad.sample((component - self.K).clamp(min=0), generator)
        return torch.where((component < self.K)[:, None], learnt, broad)

    def free_parameters(self) -> int:
        return self.learnt.free_parameters()


class _Both(Observed):
    """Rows seen by both kinds; statistics are those of the K learnt components."""

    def __init__(self, learnt: Observed, broad: Observed, K: int) -> None:
        self.learnt, self.broad, self.K = learnt, broad, K
        self.log_prob = torch.cat([learnt.log_prob, broad.log_prob], -1)

    def mean(self, k: int) -> Tensor:
        return self.learnt.mean(k) if k < self.K else self.broad.mean(k - self.K)

    def draw(self, k: int, columns: Tensor, factors: Tensor) -> Tensor:
        if k < self.K:
            return self.learnt.draw(k, columns, factors)
        return self.broad.draw(k - self.K, columns, factors)

    def draw_each(self, component: Tensor, columns: Tensor, factors: Tensor, rows: Tensor | None = None) -> Tensor:
        learnt = self.learnt.draw_each(component.clamp(max=self.K - 1), columns, factors, rows)
        if not bool((component >= self.K).any()):
            return learnt
        broad = self.broad.draw_each((component - self.K).clamp(min=0), columns, factors, rows)
        return torch.where((component < self.K)[:, None], learnt, broad)

    def statistics(self, responsibility: Tensor) -> tuple[Tensor, ...]:
        return self.learnt.statistics(responsibility[:, : self.K])

    def shift_statistics(self, responsibility: Tensor, place: Tensor, J: int) -> Tensor:
        """Those of all components: a shift moves the broad ones too."""
        learnt = self.learnt.shift_statistics(responsibility[:, : self.K], place, J)
        return torch.cat([learnt, self.broad.shift_statistics(responsibility[:, self.K :], place, J)])
