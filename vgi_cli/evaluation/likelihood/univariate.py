"""The exact univariate conditionals of a Gaussian mixture, as proposals where a run has no fitted conditionals."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from vgi_cli.conditionals.base import Proposal
from vgi_cli.evaluation.likelihood.joint import JointMixture


class MixtureProposals:
    """g(x_j | rest) of every column of a JointMixture: what chains/kernels.py calls a Proposer."""

    noise_width = 2

    def __init__(self, mixture: JointMixture) -> None:
        self._mixture = mixture
        self._diagonal = mixture.precisions.diagonal(dim1=-2, dim2=-1)  # [K', D]

    def blocks(self, missing: Tensor) -> Tensor:
        """Every missing column may be redrawn on its own."""
        return missing

    def redraw(self, x: Tensor, missing: Tensor, j: Tensor, noise: Tensor) -> Tensor:
        """[R, D]: column j [R] redrawn."""
        return self.propose(x, missing, j, noise).x

    def propose(self, x: Tensor, missing: Tensor, j: Tensor, noise: Tensor) -> Proposal:
        """Column j [R] of x [R, D] redrawn given the others; noise [R, 2]: the second chooses the component.

        With h = P_k (x - mean_k), component k has conditional mean x_j - h_j / P_jj and variance 1 / P_jj.
        """
        mixture = self._mixture
        own = x.gather(1, j[:, None])
        rows = mixture.precisions[:, j]  # [K', R, D]
        h = (rows * (x - mixture.means[:, None])).sum(-1).mT  # [R, K']
        precision = self._diagonal[:, j].mT
        mean = own - h / precision
        log_weight = mixture.component_log_prob(x) - _log_normal(own, mean, precision)
        ends = log_weight.softmax(1).cumsum(1)
        chosen = (torch.special.ndtr(noise[:, 1:]) > ends).sum(1, keepdim=True).clamp(max=ends.shape[1] - 1)
        value = mean.gather(1, chosen) + noise[:, :1] * precision.gather(1, chosen).rsqrt()
        log_weight = log_weight.log_softmax(1)
        forward = (log_weight + _log_normal(value, mean, precision)).logsumexp(1)
        reverse = (log_weight + _log_normal(own, mean, precision)).logsumexp(1)
        return Proposal(x.scatter(1, j[:, None], value), forward, reverse)


def _log_normal(value: Tensor, mean: Tensor, precision: Tensor) -> Tensor:
    return -0.5 * ((value - mean).square() * precision - precision.log() + math.log(2 * math.pi))
