"""Laws: what can be drawn and scored. Those of the conditionals q(x_j | rest), of a decoder's cells given the latents,
of the latents themselves.

A law is made of parameters that some network gave; who draws from it or scores with it sees none of them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol, Self

import torch
from torch import Tensor

WIDE_SHARE = 0.05
"""Of the draws of a widened law, those that come from its wide part: light tails would make a chain stick."""
WIDE_SCALE = 3.0
"""Their standard deviation in base space."""
EXACT_UP_TO = 16
"""Levels up to which an expectation over a discrete law is a sum over all of them."""


class Points(NamedTuple):
    """All values of a discrete law: value [n, ..], log probability [n, ..]."""

    value: Tensor
    log_prob: Tensor


class Quadrature(NamedTuple):
    """Values that stand for one draw of a law: for a function f of values

        sum_p weight_p (f(value_p) - log_q_p) + entropy

    has the mean of f - log q over the law for its mean, and an unbiased gradient in the law's parameters.

    value    [P, ..] (a block: [P, .., W])
    weight   [P, ..] differentiable; the weights sum to 1, those of points that are not used are 0
    used     [P, ..] whether f has to be known there
    log_q    [P, ..] what is left of log q beside the entropy: 0 where that has a closed form
    entropy  [..]
    exact    how many of the P points are no draws, the first ones
    """

    value: Tensor
    weight: Tensor
    used: Tensor
    log_q: Tensor
    entropy: Tensor
    exact: int

    def mean(self, f: Tensor) -> Tensor:
        """The sum above, [..], of f [P, ..] (anything where it is not used).

        The weights of draws vary, so their gradient is made small by a baseline: the mean of f over the points that
        are no draws, which changes no expectation, for the weights of all values sum to 1.
        """
        f = torch.where(self.used, f - self.log_q, 0.0)
        known, share = f.detach()[: self.exact], self.weight.detach()[: self.exact]
        base = (share * known).sum(0) / share.sum(0).clamp(min=torch.finfo(f.dtype).tiny)
        return (self.weight * torch.where(self.used, f - base, 0.0)).sum(0) + base + self.entropy


class Law(ABC):
    """A law for each of some rows [..]: of one number, values [..], or of the cells of a block, values [.., W].

    Noise is standard normal, [.., n]; how many numbers n a draw needs is said by who gives the law. Noise and values
    broadcast with the law's rows.
    """

    @abstractmethod
    def draw(self, noise: Tensor) -> Tensor:
        """Values from noise; where the law is continuous, differentiable in its parameters."""

    @abstractmethod
    def log_prob(self, value: Tensor) -> Tensor:
        """Log density, or log probability where the law is discrete, nats: [..]."""

    def draw_scored(self, noise: Tensor) -> tuple[Tensor, Tensor]:
        """A draw and its log density [..]."""
        value = self.draw(noise)
        return value, self.log_prob(value)

    def entropy(self) -> Tensor | None:
        """Nats, [..], where it has a closed form."""
        return None

    def widened(self, share: float = WIDE_SHARE) -> Law:
        """The law with a wider one mixed in, by this share: what a Metropolis chain proposes from, because it would
        stick where the tails of a law are lighter than those of its target. By default the law itself."""
        return self

    def enumerate(self) -> Points | None:
        """Where the law is discrete, all its values; None: it is continuous."""
        return None

    def quadrature(self, noise: Tensor) -> Quadrature | None:
        """Values that stand for one draw, where some of the laws are discrete; None: one draw does. By default all
        values of a discrete law."""
        points = self.enumerate()
        if points is None:
            return None
        weight = points.log_prob.exp()
        used = weight > 0
        log_q = torch.where(used, points.log_prob, 0.0)
        return Quadrature(points.value, weight, used, log_q, torch.zeros_like(weight[0]), len(weight))


class LatentLaw(Protocol):
    """A law of z [.., L], of a prior or an encoder; its parameters broadcast with z.

    Categories among the latents are summed out wherever the sum is what is wanted (bounds, KL divergences).
    """

    @property
    def mean(self) -> Tensor:
        """[.., L]; of a category its probabilities."""

    def draw(self, noise: Tensor, /) -> Tensor:
        """z [.., L] from standard normal noise [.., L]; differentiable in the law's parameters."""

    def spread(self, noise: Tensor, /) -> tuple[Tensor, Tensor]:
        """Points z [B, .., L] and weights [B, ..], which sum to 1, that stand for one draw: a weighted sum over them
        has the expectation over z for its mean, and an unbiased gradient."""

    def walk(self, z: Tensor, step: Tensor, noise: Tensor, /) -> Tensor:
        """A move [.., L] from z, reversible with respect to this law, from standard normal noise [.., L]. Its size is
        step [.., 1] in (0, 1]; 1 is an independent draw."""

    def log_prob(self, z: Tensor, /) -> Tensor:
        """Log density at z [.., L], nats: [..]."""

    def kl(self, other: Self, /) -> Tensor:
        """KL(this ‖ other) in closed form, nats: [..]."""


class CellsLaw(Law):
    """A law of x [.., D] in which the cells are independent: of a decoder, p(x | z), one law a dimension."""

    @abstractmethod
    def centre(self) -> Tensor:
        """[.., D] the mean of every cell, or its likeliest level where it is discrete."""

    @abstractmethod
    def log_prob(self, value: Tensor, missing: Tensor | None = None) -> Tensor:
        """Log density (of levels: log probability) [..], nats, at value [.., D]. Cells that are `missing` [.., D] are
        left out: whatever they hold, NaN included, enters neither the value nor a gradient. Value and missing
        broadcast."""

    @abstractmethod
    def log_cells(self, value: Tensor) -> Tensor:
        """Log density, or log probability, of every cell, nats: [.., D] at value [.., D]."""

    @abstractmethod
    def entropies(self) -> Tensor:
        """Of every cell, nats: [.., D]."""

    @abstractmethod
    def log_mass(self, low: Tensor, high: Tensor) -> Tensor:
        """log P(low <= x <= high) of every cell, [.., D] float64, for bounds that broadcast."""

    @abstractmethod
    def draw_inside(
        self, noise: Tensor, again: Callable[[], Tensor], low: Tensor, high: Tensor, wanted: Tensor
    ) -> Tensor:
        """Values [.., D], of which those that are `wanted` [.., D] are drawn from the law truncated to [low, high], by
        standard normal noise [.., D] float64 and, where its draw is outside, a uniform of the tensor that again()
        gives."""

    @abstractmethod
    def where(self, condition: Tensor, other: Self) -> Self:
        """This law in the rows where condition [..] holds, the other one elsewhere."""


@dataclass(frozen=True)
class MappedLaw(Law):
    """x = T(u), u standard normal and T invertible; here of one number a row, from noise [.., 1].

    share  of the draws whose u has standard deviation WIDE_SCALE (`widened`); noise is then [.., 2], and the second
           number chooses
    """

    share: float = field(default=0.0, kw_only=True)

    @abstractmethod
    def to_value(self, u: Tensor) -> tuple[Tensor, Tensor]:
        """(x, log dx/du), each [..], of u [..]."""

    @abstractmethod
    def to_base(self, value: Tensor) -> tuple[Tensor, Tensor]:
        """(u, log du/dx): the inverse of `to_value`."""

    def draw(self, noise: Tensor) -> Tensor:
        return self.to_value(self._base(noise))[0]

    def draw_scored(self, noise: Tensor) -> tuple[Tensor, Tensor]:
        u = self._base(noise)
        value, log_det = self.to_value(u)
        return value, self._log_base(u) - log_det

    def log_prob(self, value: Tensor) -> Tensor:
        u, log_det = self.to_base(value)
        return self._log_base(u) + log_det

    def widened(self, share: float = WIDE_SHARE) -> Self:
        return replace(self, share=share)

    def _base(self, noise: Tensor) -> Tensor:
        if not self.share:
            return noise[..., 0]
        wide = torch.special.ndtr(noise[..., 1]) < self.share
        return noise[..., 0] * torch.where(wide, WIDE_SCALE, 1.0)

    def _log_base(self, u: Tensor) -> Tensor:
        """log of (1 - w) N(u; 0, 1) + w N(u; 0, s²), w the share."""
        if not self.share:
            return normal_log_prob(u)
        wide = normal_log_prob(u / WIDE_SCALE) + math.log(self.share / WIDE_SCALE)
        return torch.logaddexp(normal_log_prob(u) + math.log1p(-self.share), wide)


def normal_log_prob(u: Tensor) -> Tensor:
    """log N(u; 0, 1)."""
    return -0.5 * u.square() - 0.5 * math.log(2.0 * math.pi)


@dataclass(frozen=True)
class CategoricalLaw(Law):
    """A level 0 .. L - 1, held as a float, with log probabilities `log_probs` [.., L]; -inf where a level cannot be.

    A draw takes noise [.., 1]: the uniform Phi(noise) inverts the cumulative probabilities. `share` of the probability
    of a widened law is spread evenly over the levels that can be.
    """

    log_probs: Tensor
    share: float = field(default=0.0, kw_only=True)

    @classmethod
    def of_logits(cls, logits: Tensor) -> Self:
        """The law with log probabilities `logits` [.., L] up to a constant."""
        return cls(torch.log_softmax(logits, -1))

    @property
    def levels(self) -> int:
        """L."""
        return int(self.log_probs.shape[-1])

    def draw(self, noise: Tensor) -> Tensor:
        u = torch.special.ndtr(noise[..., :1])
        cumulative = self._log_mixed().exp().cumsum(-1)
        last = (cumulative < cumulative[..., -1:]).sum(-1)  # of the levels that can be: rounding leaves no other
        level = (u * cumulative[..., -1:] >= cumulative).sum(-1)
        return torch.minimum(level, last).to(self.log_probs.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        table = self._log_mixed()
        shape = torch.broadcast_shapes(table.shape[:-1], value.shape)
        index = value.long().clamp(0, self.levels - 1).expand(shape)[..., None]
        return table.expand(*shape, self.levels).gather(-1, index)[..., 0]

    def entropy(self) -> Tensor | None:
        """- sum_l p_l log p_l."""
        if self.share:
            return None
        log_probs = torch.where(self.log_probs > -torch.inf, self.log_probs, 0.0)  # 0 log 0 = 0, and so its gradient
        return -(torch.where(self.log_probs > -torch.inf, log_probs.exp(), 0.0) * log_probs).sum(-1)

    def widened(self, share: float = WIDE_SHARE) -> Self:
        return replace(self, share=share)

    def enumerate(self) -> Points | None:
        table = self._log_mixed().movedim(-1, 0)
        values = torch.arange(self.levels, dtype=table.dtype, device=table.device)
        return Points(values.view(-1, *[1] * (table.ndim - 1)).expand_as(table), table)

    def quadrature(self, noise: Tensor) -> Quadrature:
        """All levels where these are at most EXACT_UP_TO, else as `chosen`; noise [.., 1]."""
        value, weight = self.chosen(noise)
        entropy = self.entropy()
        assert entropy is not None
        exact = len(value) - (self.levels > EXACT_UP_TO)
        used = weight.detach() > 0
        return Quadrature(value.to(weight.dtype), weight, used, torch.zeros_like(weight), entropy, exact)

    def chosen(self, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Levels [P, ..] int64 that stand for one draw, and their weights [P, ..]: 0 where there is none, and then the
        level is the first.

        Up to EXACT_UP_TO levels all of them, by their probabilities. Of more the most probable ones by theirs, and one
        draw of the others by their share: exact where these have all the mass, unbiased everywhere (Rao-Blackwell over
        the top levels: Liu, Regier, Tripuraneni, Jordan and McAuliffe 2019).
        """
        log_probs = self.log_probs
        if self.levels <= EXACT_UP_TO:
            level = torch.arange(self.levels, device=log_probs.device).view(-1, *[1] * (log_probs.ndim - 1))
            weight = log_probs.movedim(-1, 0).exp()
            return torch.where(weight > 0, level, 0), weight
        known = log_probs.detach()
        top = known.topk(EXACT_UP_TO - 1, -1).indices
        others = known.scatter(-1, top, -torch.inf)
        left = (others > -torch.inf).any(-1)
        rest = CategoricalLaw.of_logits(torch.where(left[..., None], others, known))
        drawn = rest.draw(noise).long()
        share = log_probs.gather(-1, drawn[..., None])[..., 0] - rest.log_prob(drawn)
        last = torch.where(left, share, -torch.inf)
        level = torch.cat([top, drawn[..., None]], -1).movedim(-1, 0)
        weight = torch.cat([log_probs.gather(-1, top).movedim(-1, 0), last[None]]).exp()
        return torch.where(weight > 0, level, 0), weight

    def _log_mixed(self) -> Tensor:
        """[.., L] the log probabilities with the uniform part, by its share."""
        if not self.share:
            return self.log_probs
        possible = self.log_probs > -torch.inf
        flat = -possible.sum(-1, keepdim=True).to(self.log_probs.dtype).log()
        flat = torch.where(possible, flat + math.log(self.share), -torch.inf)
        return torch.logaddexp(self.log_probs + math.log1p(-self.share), flat)
