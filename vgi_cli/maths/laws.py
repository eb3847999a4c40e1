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


class Points(NamedTuple):
    """All values of a discrete law: value [n, ..], log probability [n, ..]."""

    value: Tensor
    log_prob: Tensor


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
    """A law of x [.., D] in which the cells are independent: of a decoder, p(x | z), one law a column.

    mean  [.., D]
    """

    mean: Tensor

    @abstractmethod
    def log_prob(self, value: Tensor, missing: Tensor | None = None) -> Tensor:
        """Log density [..], nats, at value [.., D]. Cells that are `missing` [.., D] are left out: whatever they hold,
        NaN included, enters neither the value nor a gradient. Value and missing broadcast."""

    @abstractmethod
    def log_cells(self, value: Tensor) -> Tensor:
        """Log density of every cell, nats: [.., D] at value [.., D]."""

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
            return log_normal(u)
        wide = log_normal(u / WIDE_SCALE) + math.log(self.share / WIDE_SCALE)
        return torch.logaddexp(log_normal(u) + math.log1p(-self.share), wide)


def log_normal(u: Tensor) -> Tensor:
    """log N(u; 0, 1)."""
    return -0.5 * u.square() - 0.5 * math.log(2.0 * math.pi)


@dataclass(frozen=True)
class CategoricalLaw(Law):
    """A level 0 .. L - 1, held as a float, with log probabilities `log_probs` [.., L]; -inf where a level cannot be.

    A draw takes noise [.., 1]: the uniform Phi(noise) inverts the cumulative probabilities. `share` of the draws of a
    widened law are uniform over the levels that can be; noise is then [.., 2], of which the second number chooses.
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
        return None if self.share else torch.special.entr(self.log_probs.exp()).sum(-1)

    def widened(self, share: float = WIDE_SHARE) -> Self:
        return replace(self, share=share)

    def enumerate(self) -> Points | None:
        table = self._log_mixed().movedim(-1, 0)
        values = torch.arange(self.levels, dtype=table.dtype, device=table.device)
        return Points(values.view(-1, *[1] * (table.ndim - 1)).expand_as(table), table)

    def _log_mixed(self) -> Tensor:
        """[.., L] the log probabilities with the uniform part, by its share."""
        if not self.share:
            return self.log_probs
        possible = self.log_probs > -torch.inf
        flat = -possible.sum(-1, keepdim=True).to(self.log_probs.dtype).log()
        flat = torch.where(possible, flat + math.log(self.share), -torch.inf)
        return torch.logaddexp(self.log_probs + math.log1p(-self.share), flat)
