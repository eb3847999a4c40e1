"""The exact univariate conditionals of a Gaussian mixture, as proposals where a run has no fitted conditionals."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from vgi_cli.conditionals.base import Conditionals
from vgi_cli.conditionals.families.levels import MixedLaw
from vgi_cli.layout import Blocks
from vgi_cli.maths.joint import JointMixture
from vgi_cli.maths.laws import CategoricalLaw, Law


@dataclass(frozen=True)
class MixtureLaw(Law):
    """A mixture of normals: log weights up to a constant, means and precisions, each [R, K']. Of two numbers of noise
    the second chooses the component."""

    log_weight: Tensor
    mean: Tensor
    precision: Tensor

    def draw(self, noise: Tensor) -> Tensor:
        ends = self.log_weight.softmax(1).cumsum(1)
        chosen = (torch.special.ndtr(noise[:, 1:]) > ends).sum(1, keepdim=True).clamp(max=ends.shape[1] - 1)
        return (self.mean.gather(1, chosen) + noise[:, :1] * self.precision.gather(1, chosen).rsqrt())[:, 0]

    def log_prob(self, value: Tensor) -> Tensor:
        terms = _normal_log_prob(value[:, None], self.mean, self.precision)
        return (self.log_weight.log_softmax(1) + terms).logsumexp(1)


@final
class MixtureConditionals(Conditionals):
    """g(x_j | rest) of every column of a JointMixture."""

    noise_width = fresh_width = 2
    extended = False

    def __init__(self, mixture: JointMixture) -> None:
        counts = () if mixture.levels is None else mixture.levels.counts
        super().__init__(Blocks.columns(mixture.D), levels=counts)
        self._mixture = mixture
        self._diagonal = mixture.precisions.diagonal(dim1=-2, dim2=-1)  # [K', D]
        self._place = torch.zeros(mixture.D, dtype=torch.int64, device=mixture.means.device)
        if mixture.levels is not None:  # of a dimension among those of its kind
            for kind in (mixture.levels.continuous, mixture.levels.discrete):
                self._place[kind] = torch.arange(len(kind), device=kind.device)
        self.to(mixture.means.device)

    def law(self, x: Tensor, missing: Tensor, block: Tensor, *, hidden: bool = False) -> MixtureLaw | MixedLaw:
        """Of columns block [R]. With h = P_k (x - mean_k), component k has conditional mean x_j - h_j / P_jj and
        variance 1 / P_jj. Of a discrete column the levels of each component, weighed by what the rest says of it."""
        mixture = self._mixture
        levels = mixture.levels
        own = x.gather(1, block[:, None])
        joint = mixture.component_log_prob(x)
        if levels is None:
            return self._numbers(x, block, own, joint)
        place, discrete = self._place[block], self.discrete[block]
        table = levels.log_probs[:, torch.where(discrete, place, 0)].movedim(0, 1)  # [R, K', width]
        level = torch.where(discrete, own[:, 0], 0.0).long()[:, None, None].expand(-1, table.shape[1], 1)
        rest = joint - table.gather(2, level)[..., 0]
        law = CategoricalLaw.of_logits((rest[..., None] + table).logsumexp(1))
        if not len(levels.continuous):
            return MixedLaw(discrete, law, law)
        numbers = self._numbers(mixture.numbers(x), torch.where(discrete, 0, place), own, joint)
        return MixedLaw(discrete, law, numbers)

    def _numbers(self, x: Tensor, place: Tensor, own: Tensor, joint: Tensor) -> MixtureLaw:
        """Of continuous dimensions place [R] of the continuous ones x [R, D], with values own [R, 1]."""
        mixture = self._mixture
        rows = mixture.precisions[:, place]  # [K', R, D]
        h = (rows * (x - mixture.means[:, None])).sum(-1).mT  # [R, K']
        precision = self._diagonal[:, place].mT
        mean = own - h / precision
        return MixtureLaw(joint - _normal_log_prob(own, mean, precision), mean, precision)


def _normal_log_prob(value: Tensor, mean: Tensor, precision: Tensor) -> Tensor:
    return -0.5 * ((value - mean).square() * precision - precision.log() + math.log(2 * math.pi))
