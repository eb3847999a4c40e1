"""Annealed importance sampling (Neal 2001) of log p(x_obs) for a density known through log p(x) alone.

The path goes from g(x_mis | x_obs), a Gaussian mixture in closed form, to p(x_obs, x_mis):

    f_t = g^(1 - b_t) p^(b_t),  b_t = t / T,  t = 0..T.

A particle starts at a draw of g; at each t its weight is multiplied by f_t / f_{t-1} at its state, then a Markov kernel
that leaves f_t invariant moves it. E[weight] = p(x_obs), whatever the kernels: single cells redrawn from q_j and
accepted by Metropolis and Hastings's rule, and every JOINT-th move all holes redrawn at once from g.

What is computed of many particles is a function of tensors, which can be captured on a GPU (chains/captured.py). Then
particles are filled up to one of a few numbers, for each of which there is a recording.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from vgi_cli.chains.moves import State, StepNoise, metropolis_step
from vgi_cli.conditionals.base import Conditionals, Sweep
from vgi_cli.maths.joint import JointConditional, JointMixture
from vgi_cli.maths.noise import KeyedNoise, numbered

JOINT = 4
FEWEST_CAPTURED = 1024
"""Least number of particles of a captured step; the others are 1, 1.5, 2, 3, 4, … times as many."""


class Particles(NamedTuple):
    """Particles of rows: x [n, D], log p(x) [n], log g(x) [n] (joint densities)."""

    x: Tensor
    log_p: Tensor
    log_g: Tensor


class Tempered(NamedTuple):
    """log p and log g [n] of particles, with b [] of f = g^(1 - b) p^b, which is what a step is accepted by."""

    log_p: Tensor
    log_g: Tensor
    beta: Tensor

    def where(self, condition: Tensor, other: Tempered) -> Tempered:
        log_p, log_g = (torch.where(condition, a, b) for a, b in zip(self[:2], other[:2], strict=True))
        return Tempered(log_p, log_g, self.beta)

    def over(self, other: Tempered) -> Tensor:
        return self.beta * (self.log_p - other.log_p) + (1 - self.beta) * (self.log_g - other.log_g)


class Annealer:
    """Everything that does not depend on rows: the density, the mixture and the single-cell proposals q."""

    def __init__(
        self,
        log_p: Callable[[Tensor], Tensor],
        mixture: JointMixture,
        q: Conditionals,
        capture: Callable[[Any], Any] | None = None,
    ) -> None:
        """`capture` makes a function of tensors faster (chains/captured.py)."""
        self._log_p = log_p
        self._mixture = mixture
        self.q = q

        def made(step: Callable[..., Any]) -> Callable[..., Any]:
            return step if capture is None else _Filled(capture(step))

        self._densities, self._cell_step, self._joint_step = made(self._both_of), made(self._cell), made(self._joint)

    def conditional(self, x: Tensor, missing: Tensor) -> JointConditional:
        """g(x_mis | x_obs): where the particles of rows x [R, D] start."""
        return self._mixture.conditional(x, missing)

    def state(self, x: Tensor) -> Particles:
        """Densities at x [n, D]. Where log p is no number, p is taken as 0."""
        return Particles(x, *self._densities(x))

    def _both_of(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """log p(x) and log g(x): [n, D] -> [n] each."""
        log_p = self._log_p(x).nan_to_num(nan=-torch.inf, posinf=-torch.inf)
        return log_p, self._mixture.log_prob(x)

    def forward(self, g: JointConditional, noise: KeyedNoise, T: int) -> Tensor:
        """log weights [P, R] (float64) of P = len(noise.draws) particles a row after T steps; T = 1: no move."""
        P, (R, D) = len(noise.draws), g.x.shape
        state = self.state(g.sample(noise.at("start")).view(P * R, D))
        total = torch.zeros(P, R, dtype=torch.float64, device=g.x.device)
        for t in range(1, T + 1):
            total += (state.log_p - state.log_g).view(P, R).double() / T
            if t < T:
                state = self._move(state, g, noise.at(t), t, T)
        return total + g.log_marginal().double()

    def reverse(self, g: JointConditional, x: Tensor, noise: KeyedNoise, T: int) -> Tensor:
        """log weight [R] of the path backwards from exact draws x [R, D] of p(x_mis | x_obs)."""
        state = self.state(x)
        total = torch.zeros(len(x), dtype=torch.float64, device=x.device)
        for t in range(T, 0, -1):
            total += (state.log_p - state.log_g).double() / T
            if t > 1:
                state = self._move(state, g, noise.at(t - 1), t - 1, T)
        return total + g.log_marginal().double()

    def _move(self, state: Particles, g: JointConditional, noise: KeyedNoise, t: int, T: int) -> Particles:
        """One reversible move of f_t."""
        beta = torch.full((), t / T, dtype=torch.float64, device=g.x.device)
        P, (R, D) = len(noise.draws), g.x.shape
        names = ("accept", "cell")
        accept, cell = noise.uniform(names).unbind(-1)
        log_uniform = accept.log().view(P * R)
        if t % JOINT == 0:
            return Particles(*self._joint_step(beta, *state, g.sample(noise).view(P * R, D), log_uniform))
        normal = noise.normal(numbered("q", self.q.noise_width)).to(g.x.dtype).view(P * R, -1)
        j = _pick(self.q.blocks(g.missing), cell).reshape(P * R)
        missing = g.missing.expand(P, -1, -1).reshape(P * R, D)
        return Particles(*self._cell_step(beta, *state, missing, j, normal, log_uniform))

    def _joint(
        self, beta: Tensor, x: Tensor, log_p: Tensor, log_g: Tensor, new: Tensor, log_uniform: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """All holes of particles redrawn from g: the rows new [n, D] are proposed. Gives the fields of Particles."""
        new_p, new_g = self._both_of(new)
        ratio = beta * (new_p - new_g - log_p + log_g)
        accepted = log_uniform < ratio  # False where the ratio is no number
        x = torch.where(accepted[:, None], new, x)
        return x, torch.where(accepted, new_p, log_p), torch.where(accepted, new_g, log_g)

    def _cell(
        self,
        beta: Tensor,
        x: Tensor,
        log_p: Tensor,
        log_g: Tensor,
        missing: Tensor,
        j: Tensor,
        normal: Tensor,
        log_uniform: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """One block j [n] of particles redrawn from q_j. Gives the fields of Particles."""
        rows = Sweep(self.q, x.clone(), missing)
        at = State(rows, Tempered(log_p, log_g, beta))
        density = _Between(self._both_of, beta)
        at, _ = metropolis_step(StepNoise(normal, log_uniform, normal[:, :0]), at, density, j, torch.ones_like(j) > 0)
        return rows.x, at.at.log_p, at.at.log_g


@dataclass(frozen=True)
class _Between:
    """f_t as the density of a chain; both_of: log p and log g of rows."""

    both_of: Callable[[Tensor], tuple[Tensor, Tensor]]
    beta: Tensor

    def proposed(self, x: Tensor, missing: Tensor, noise: Tensor) -> Tempered:
        return Tempered(*self.both_of(x), self.beta)


class _Filled:
    """A captured step of tensors [n, ..] (of [] too) for any n: they are filled up with zeros, which is a complete row
    where it is one, and what comes of those is left out."""

    def __init__(self, step: Callable[..., tuple[Tensor, ...]]) -> None:
        self._step = step

    def __call__(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        n = len(inputs[-1])
        more = _captured_size(n) - n
        filled = [one if one.ndim == 0 else _with_lines(one, more) for one in inputs]
        return tuple(part[:n].clone() for part in self._step(*filled))


def _with_lines(values: Tensor, more: int) -> Tensor:
    """So many further lines of zeros."""
    return torch.nn.functional.pad(values, (0, 0) * (values.ndim - 1) + (0, more))


def _captured_size(n: int) -> int:
    """The least number of particles of a captured step that holds n."""
    size = FEWEST_CAPTURED
    while size < n:
        size *= 2
    return 3 * size // 4 if size > FEWEST_CAPTURED and n <= 3 * size // 4 else size


def _pick(missing: Tensor, u: Tensor) -> Tensor:
    """A uniformly chosen one of those that are missing in each row: [R, S], uniform u [P, R] -> [P, R]."""
    holes = missing.sum(1)
    rank = (u * holes).long()  # 0..holes-1: u is less than 1 in float64
    position = torch.where(missing, missing.cumsum(1) - 1, missing.shape[1]).argsort(1)  # columns of holes first
    return position.expand(*u.shape, -1).gather(-1, rank[..., None])[..., 0]
