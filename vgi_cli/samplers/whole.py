"""Moves that redraw all holes of a row together, from a mixture of Gaussians g that stands in for the model.

A draw of single cells moves a chain little where columns hang together, and each costs one evaluation of the density.
These cost one evaluation too, for all holes. With w(x) = p(x) / g(x), either of

    x' ~ g(x_mis | x_obs)                                              (independence: a state is forgotten at once)
    k ~ g(k | x), x' = m_k + sqrt(1 - b^2) (x - m_k) + b L_k z          (a step of size b within component k)

is accepted with min(1, w(x') / w(x)) and leaves p(x_mis | x_obs) as it is; m_k and L_k are the mean and the factor of
the covariance of component k given x_obs. The second is the preconditioned Crank-Nicolson step (Cotter, Roberts, Stuart
and White 2013), reversible for component k; that k is drawn anew from its law at x makes its ratio the same as that of
the first. Levels stay as they are in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from vgi_cli.maths.joint import JointConditional, JointMixture, fit_joint
from vgi_cli.maths.laws import CategoricalLaw
from vgi_cli.maths.noise import KeyedNoise
from vgi_cli.models.base import Model
from vgi_cli.samplers.base import frozen

KINDS = (True, False, True)
"""The moves of a round: whether each is independent of the state."""
SMALLEST = 0.15
"""Steps have a size between this and 1, uniform in the logarithm."""
SAMPLES, MOST_SAMPLES = 400, 8_000
"""Rows of the model, a column and at most, to which the mixture is fitted, but at least 2,000; a quarter as many choose
its number of components."""
AT_ONCE, AT_ONCE_ON_GPU = 64, 1024
"""Rows whose conditionals are computed together."""
MOST_COLUMNS = 128
"""Of wider tables the mixture has too many parameters, and the factors of a pack take too much memory."""


class Wholly(NamedTuple):
    """PACK chains after a move: x [PACK, D], log_p [PACK], and which accepted it [PACK]."""

    x: Tensor
    log_p: Tensor
    accepted: Tensor


class WholeNoise(NamedTuple):
    """Randomness of a move of PACK chains.

    fresh       [] bool: whether it is independent of the state
    normal      [PACK, D] standard normal
    choice      [PACK] uniform: the component
    size        [PACK] uniform: how far a step goes
    log_accept  [PACK] log of a uniform
    """

    fresh: Tensor
    normal: Tensor
    choice: Tensor
    size: Tensor
    log_accept: Tensor


class Given(NamedTuple):
    """g(x_mis | x_obs) of the U distinct rows of PACK chains: log_joint [PACK, K'], mean [PACK, K', D'], factor [U, K',
    D', D'] of the D' columns of numbers, and of which row each chain is, of_row [PACK]."""

    log_joint: Tensor
    mean: Tensor
    factor: Tensor
    of_row: Tensor


def whole_noise(noise: KeyedNoise, like: Tensor) -> Iterator[WholeNoise]:
    """The randomness of the moves of a round, keyed by chain. What is not of a column has a stream of its own: a column
    may have any name."""
    for number, fresh in enumerate(KINDS):
        own = noise.at(f"whole{number}")
        choice, size, accept = own.at("choices").uniform(("choice", "size", "accept"))[0].unbind(1)
        kind = torch.tensor(fresh, device=like.device)
        yield WholeNoise(kind, own.normal()[0].to(like), choice, size.to(like), accept.log())


def stand_in(model: Model, device: torch.device) -> JointMixture | None:
    """The mixture for a model, fitted to its own samples (float64, on the CPU); None where the table is too wide or the
    model, which is on `device`, gives too few finite rows. A function of the model alone."""
    with frozen(model):
        generator = torch.Generator(device).manual_seed(0)
        first = model.sample(1, generator)
        if first.shape[1] > MOST_COLUMNS:
            return None
        count = min(max(SAMPLES * first.shape[1], 2_000), MOST_SAMPLES)
        rows = model.sample(count + count // 4, generator).double().cpu()
    rows = rows[torch.isfinite(rows).all(1)]
    if len(rows) < count:
        return None
    held = count // 4
    return fit_joint(rows[held:], rows[:held], torch.Generator().manual_seed(0), model.level_counts)


class WholeRows:
    """The moves of a mixture. It keeps its precision, float64, whatever that of the rows is."""

    def __init__(self, mixture: JointMixture) -> None:
        self._g = mixture

    @property
    def mixture(self) -> JointMixture:
        """g."""
        return self._g

    def given(self, x: Tensor, missing: Tensor, row: Tensor) -> Given:
        """What the moves of PACK chains need of their observed cells; row [PACK] of each. Rows are taken AT_ONCE at a
        time, the last of them with rows without holes, so that rounding cannot depend on other chains. On a GPU, where
        steps want fixed shapes, every chain has a factor of its own."""
        distinct, of_row = row.unique(return_inverse=True)
        if x.device.type != "cpu":
            distinct = of_row = torch.arange(len(row), device=row.device)
        places = row.new_empty(len(distinct)).scatter_(0, of_row, torch.arange(len(row), device=row.device))
        size = AT_ONCE if x.device.type == "cpu" else AT_ONCE_ON_GPU
        parts = [self._conditional(x[index], missing[index], size) for index in places.split(size)]
        log_joint, mean, factor = (torch.cat(values) for values in zip(*parts, strict=True))
        return Given(log_joint[of_row], mean[of_row], factor, of_row)

    def _conditional(self, x: Tensor, missing: Tensor, size: int) -> tuple[Tensor, Tensor, Tensor]:
        """log_joint, mean and factor of at most `size` rows."""
        more = (0, 0, 0, size - len(x))
        pad = torch.nn.functional.pad
        g: JointConditional = self._g.conditional(pad(x, more), pad(missing, more), apart=True)
        return g.log_joint[: len(x)], g.mean[: len(x)], g.factor[: len(x)]

    def move(
        self,
        log_density: Callable[[Tensor, Tensor], Tensor],
        at: tuple[Tensor, Tensor],
        missing: Tensor,
        box: Tensor,
        given: Given,
        moving: Tensor,
        noise: WholeNoise,
    ) -> Wholly:
        """One move from `at`, x [PACK, D] and log p [PACK], in the chains that are `moving` [PACK]; box [2, D]. A
        function of tensors."""
        x, log_p = at
        parts = self._g.component_log_prob(x.double())
        k = _chosen(torch.where(noise.fresh, given.log_joint, parts), noise.choice)
        new = torch.where(missing, self._proposed(x, given, k, noise), x)
        new_p = log_density(new, missing)
        gain = new_p - log_p + parts.logsumexp(1) - self._g.log_prob(new.double())
        inside = ((new >= box[0]) & (new <= box[1]) | ~missing).all(1)
        accepted = moving & inside & (noise.log_accept < gain)  # False where the gain is no number
        return Wholly(torch.where(accepted[:, None], new, x), torch.where(accepted, new_p, log_p), accepted)

    def _proposed(self, x: Tensor, given: Given, k: Tensor, noise: WholeNoise) -> Tensor:
        """Rows [PACK, D] proposed in the components k [PACK]; observed cells hold anything. A draw that is independent
        of the state is a step of size 1."""
        levels = self._g.levels
        row = torch.arange(len(x), device=x.device)
        mean = given.mean[row, k]
        size = torch.where(noise.fresh, 1.0, SMALLEST**noise.size)[:, None]
        kept = (1 - size.square()).clamp(min=0).sqrt() * (self._g.numbers(x) - mean)
        step = (given.factor[given.of_row, k] @ self._g.numbers(noise.normal)[:, :, None])[:, :, 0]
        numbers = mean + kept + size * step
        if levels is None:
            return numbers
        own = noise.normal[:, levels.discrete, None].to(levels.log_probs)
        drawn = CategoricalLaw(levels.log_probs[k]).draw(own).to(x)
        out = x.clone()
        out[:, levels.continuous] = numbers
        out[:, levels.discrete] = torch.where(noise.fresh, drawn, x[:, levels.discrete])
        return out


def _chosen(log_weights: Tensor, uniform: Tensor) -> Tensor:
    """Components [R] by log weights [R, K'] and uniforms [R]."""
    ends = log_weights.double().softmax(1).cumsum(1)
    return (uniform[:, None] > ends).sum(1).clamp(max=ends.shape[1] - 1)
