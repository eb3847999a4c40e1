"""The exact univariate conditionals of a Gaussian mixture, as proposals where a run has no fitted conditionals."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from vgi_cli.conditionals.base import Conditionals
from vgi_cli.evaluation.likelihood.joint import JointMixture
from vgi_cli.layout import Blocks
from vgi_cli.maths.laws import Law


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
        terms = _log_normal(value[:, None], self.mean, self.precision)
        return (self.log_weight.log_softmax(1) + terms).logsumexp(1)


@final
class MixtureConditionals(Conditionals):
    """g(x_j | rest) of every column of a JointMixture."""

    noise_width = fresh_width = 2
    extended = False

    def __init__(self, mixture: JointMixture) -> None:
        super().__init__(Blocks.columns(mixture.means.shape[1]))
        self._mixture = mixture
        self._diagonal = mixture.precisions.diagonal(dim1=-2, dim2=-1)  # [K', D]

    def law(self, x: Tensor, missing: Tensor, block: Tensor, *, hidden: bool = False) -> MixtureLaw:
        """Of columns block [R]. With h = P_k (x - mean_k), component k has conditional mean x_j - h_j / P_jj and
        variance 1 / P_jj."""
        mixture = self._mixture
        own = x.gather(1, block[:, None])
        rows = mixture.precisions[:, block]  # [K', R, D]
        h = (rows * (x - mixture.means[:, None])).sum(-1).mT  # [R, K']
        precision = self._diagonal[:, block].mT
        mean = own - h / precision
        return MixtureLaw(mixture.component_log_prob(x) - _log_normal(own, mean, precision), mean, precision)


def _log_normal(value: Tensor, mean: Tensor, precision: Tensor) -> Tensor:
    return -0.5 * ((value - mean).square() * precision - precision.log() + math.log(2 * math.pi))
