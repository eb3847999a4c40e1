"""Conditionals of levels: the softmax of a discrete dimension, cumulative where its levels have an order, beside the
law of a continuous one. What a block's parameters mean is said by its dimension, so that one network serves all."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor, nn

from vgi_cli.layout import Layout
from vgi_cli.maths.cumulative import ordered_log_probs
from vgi_cli.maths.laws import WIDE_SHARE, CategoricalLaw, Law, Quadrature


@dataclass(frozen=True)
class MixedLaw(Law):
    """One number a row: a level where `discrete` [..] holds, else one of a continuous law.

    levels  their probabilities; of a continuous row anything that is a law
    """

    discrete: Tensor
    levels: CategoricalLaw
    numbers: Law

    def draw(self, noise: Tensor) -> Tensor:
        return torch.where(self.discrete, self.levels.draw(noise), self.numbers.draw(noise))

    def draw_scored(self, noise: Tensor) -> tuple[Tensor, Tensor]:
        level, (value, log_prob) = self.levels.draw(noise), self.numbers.draw_scored(noise)
        return self._either(level, value), self._either(self.levels.log_prob(level), log_prob)

    def log_prob(self, value: Tensor) -> Tensor:
        return self._either(self.levels.log_prob(value), self.numbers.log_prob(value))

    def entropy(self) -> Tensor | None:
        numbers, levels = self.numbers.entropy(), self.levels.entropy()
        return None if numbers is None or levels is None else self._either(levels, numbers)

    def widened(self, share: float = WIDE_SHARE) -> Self:
        return replace(self, levels=self.levels.widened(share), numbers=self.numbers.widened(share))

    def quadrature(self, noise: Tensor) -> Quadrature:
        """Of a continuous row one draw."""
        levels = self.levels.quadrature(noise)
        entropy = self.numbers.entropy()
        value, log_q = self.numbers.draw_scored(noise) if entropy is None else (self.numbers.draw(noise), 0.0)
        first = (torch.arange(len(levels.used), device=value.device) == 0).view(-1, *[1] * value.ndim)
        return Quadrature(
            torch.where(self.discrete, levels.value, value),
            torch.where(self.discrete, levels.weight, first.to(value.dtype)),
            torch.where(self.discrete, levels.used, first),
            torch.where(self.discrete, levels.log_q, log_q),
            torch.where(self.discrete, levels.entropy, 0.0 if entropy is None else entropy),
            levels.exact,
        )

    def _either(self, levels: Tensor, numbers: Tensor) -> Tensor:
        return torch.where(self.discrete, levels, numbers)


class LevelHeads(nn.Module):
    """What parameters of single dimensions say of levels.

    width     parameters of the widest: as many as it has levels
    possible  [D, width] the levels of each dimension; of a continuous one the first, to be a law
    discrete  [D]

    Unordered levels have a logit each. Of ordered ones P(level <= k) = sigmoid(c_k - location), the cumulative
    logits of McCullagh (1980): the first parameter is the location, the others move the cutpoints c_k, which rise and
    begin where every level is as likely.
    """

    possible: Tensor
    discrete: Tensor
    ordered: Tensor
    _even: Tensor

    def __init__(self, layout: Layout) -> None:
        super().__init__()
        counts = layout.level_counts
        self.width = max(counts)
        self.any_ordered = bool(layout.ordered)
        possible = torch.arange(self.width) < torch.tensor(counts).clamp(min=1)[:, None]
        even = torch.full((len(counts), self.width - 1), torch.inf)
        for i in layout.ordered:
            share = torch.arange(1, counts[i]) / counts[i]
            even[i, : counts[i] - 1] = share.log() - (1 - share).log()
        buffers = {
            "possible": possible,
            "discrete": torch.tensor(counts) > 0,
            "ordered": torch.tensor([i in layout.ordered for i in range(len(counts))]),
            "_even": even,
        }
        for name, value in buffers.items():
            self.register_buffer(name, value, persistent=False)  # the table tells it

    def forward(self, params: Tensor, j: Tensor) -> CategoricalLaw:
        """The law of dimensions j [..] with parameters [.., width or more]."""
        params, possible = params[..., : self.width], self.possible[j]
        log_probs = torch.log_softmax(params.masked_fill(~possible, -torch.inf), -1)
        if self.any_ordered:
            ordered = self.ordered[j][..., None]
            log_probs = torch.where(ordered, self._cumulative(params, self._even[j], possible), log_probs)
        return CategoricalLaw(log_probs)

    def _cumulative(self, params: Tensor, even: Tensor, possible: Tensor) -> Tensor:
        """[.., width] log probabilities; -inf where a level cannot be, anything where none has an order."""
        real = torch.isfinite(even)
        step = torch.where(real, even, 0.0).diff(dim=-1).clamp(min=0.0) * torch.exp(_bounded(params[..., 2:]))
        first = torch.where(real, even, 0.0)[..., :1] + params[..., 1:2] - params[..., :1]
        cut = torch.cat([first, first + step.cumsum(-1)], -1)  # [.., width - 1]
        middle = real[..., 1:] & (step > 0)
        between = torch.log(-torch.expm1(-torch.where(middle, step, math.log(2.0))))
        return ordered_log_probs(cut, torch.where(middle, between, 0.0), possible.sum(-1, keepdim=True))


def _bounded(raw: Tensor) -> Tensor:
    """Log of the factor of a gap between cutpoints, softly within e^-5 to e^5: no level can vanish."""
    return 5.0 * torch.tanh(raw / 5.0)
