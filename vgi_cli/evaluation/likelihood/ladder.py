"""How much work the estimate of each row needs: a pilot climbs a ladder until its weights are even enough.

A particle of the estimate is the end of a path of T steps, or the mean weight of B such (T = 1: a draw of g without a
path). On every rung, T = 1, FIRST, then STEP times as many, particles are made that serve for nothing else: they say
the relative variance of a weight, r = var w / (mean w)², and with it the B that brings that of a particle down to
`Budget.spread`. Where B would be more than `Budget.bundle` (STEP, of paths, which cost what one path of the next rung
does) the row goes on to the next rung; the last one, T = `Budget.moves`, is the limit.

The weights of the pilot are thrown away: were they used, rows would stop where a large weight has not been met yet, and
the estimate would be too low on average. So E[weight] = p(x_obs) still.

Where a row is known in S dequantisation draws, it is their mean that counts: their pilots are judged together, by the
mean of the variances within draws.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

STEP = 4
"""A rung costs so many times the one below, ..."""
FIRST = 16
"""... but for the first path, which has so many steps."""
PILOT, FEWEST, OF_EACH = 8, 16, 4
"""The pilot of a path has so many times fewer particles than that of draws without one, but so many at least, and so
many of each dequantisation draw."""
CELLS_ON_GPU, MORE_ON_GPU = 2**23, 8
"""A GPU evaluates more in one call, where a few take as long as many: so many cells, up to so many times as much."""

Pilot: TypeAlias = Callable[[Tensor, int, int], Tensor]
"""Log weights [n, S, k] of n particles, in each of S dequantisation draws, of the rows index [k] after T steps, with
the log volumes of the draws: (index, T, n)."""


class Budget(NamedTuple):
    """What an annealed estimate may spend.

    particles   weighted particles a row
    pilot       further draws a row that only find out how much work it needs; their weights are not used
    bundle      most draws in a particle without a path
    spread      relative variance of the weight of a particle at which the work is enough
    moves       longest path
    samples     samples of the model to which the joint mixture is fitted
    simulated   rows simulated from the model for the bracket; 0: no bracket
    batch       density evaluations in one call, on a CPU
    latents     draws of the latents a row, for a model that has them
    """

    particles: int = 128
    pilot: int = 512
    bundle: int = 32
    spread: float = 1.0
    moves: int = 256
    samples: int = 10_000
    simulated: int = 100
    batch: int = 16_384
    latents: int = 3000

    def on(self, x: Tensor) -> Budget:
        """The same with what is evaluated in one call on the device of rows x [.., D]."""
        if x.device.type == "cpu":
            return self
        return self._replace(batch=self.batch * max(1, min(MORE_ON_GPU, CELLS_ON_GPU // (self.batch * x.shape[-1]))))

    @property
    def rungs(self) -> list[int]:
        """Lengths T of the paths that a pilot tries."""
        out = [1]
        while (length := max(FIRST, STEP * out[-1])) < self.moves:
            out.append(length)
        return out


class Effort(NamedTuple):
    """What is spent on each of R rows: steps T of a path, paths B in a particle, and whether that is the limit and the
    pilots asked for more; all [R]."""

    T: Tensor
    B: Tensor
    limited: Tensor

    @property
    def cost(self) -> Tensor:
        """Density evaluations of a particle."""
        return self.T * self.B

    def groups(self) -> Iterator[tuple[int, int, Tensor]]:
        """Rows of equal effort: (T, B, index)."""
        both = torch.stack([self.T, self.B], 1)
        for T, B in both.unique(dim=0).tolist():
            yield T, B, ((self.T == T) & (self.B == B)).nonzero()[:, 0]


def relative_variance(log_weights: Tensor) -> Tensor:
    """Mean over S draws of the variance of weights within each, over the squared mean of all: log weights [n, S, R] ->
    [R], inf where every weight is 0."""
    top = log_weights.flatten(0, 1).max(0).values
    weights = (log_weights - torch.where(top.isfinite(), top, 0.0)).exp()
    return (weights.var(0).mean(0) / weights.mean((0, 1)).square()).nan_to_num(nan=torch.inf)


def bundle(r: Tensor, spread: float) -> Tensor:
    """The least power of two B with r / B <= spread, of relative variances r: float64, inf where r is."""
    return 2.0 ** (r / spread).clamp(min=1).log2().ceil()


def climb(pilot: Pilot, like: Tensor, S: int, budget: Budget) -> Effort:
    """The effort of each row of `like` [R, ..] with S dequantisation draws."""
    R, device = len(like), like.device
    T = torch.full((R,), budget.moves, device=device)
    B = torch.ones_like(T)
    left = torch.arange(R, device=device)
    for steps in budget.rungs:
        few = max(FEWEST, budget.pilot // PILOT)
        n = max(OF_EACH, -(-(budget.pilot if steps == 1 else few) // S))
        pieces = left.split(max(1, budget.batch // (n * S)))
        wanted = bundle(torch.cat([relative_variance(pilot(some, steps, n)) for some in pieces]), budget.spread)
        enough = wanted <= (budget.bundle if steps == 1 else STEP)
        T[left[enough]] = steps
        B[left[enough]] = wanted[enough].long()
        left = left[~enough]
        if len(left) == 0:
            break
    limited = torch.zeros(R, dtype=torch.bool, device=device)
    limited[left] = True
    if budget.moves == 1:  # no path is allowed: as many draws as there may be
        B[left] = budget.bundle
    return Effort(T, B, limited)
