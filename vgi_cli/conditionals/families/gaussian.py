"""Gaussian conditionals: q(x_j | rest) = N(mean, std^2) (paper, section 4.3)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from vgi_cli.conditionals.families.base import Family

MAX_LOG_STD = 7.0  # |log std| is squashed softly below this: e^7 standard deviations of the column either way


def affine(params: Tensor) -> tuple[Tensor, Tensor]:
    """(mean, log std) from the first two parameters, log std = 7 tanh(raw / 7)."""
    return params[..., 0], MAX_LOG_STD * torch.tanh(params[..., 1] / MAX_LOG_STD)


class GaussianFamily(Family):
    """x = mean + std * u."""

    width = 2

    def to_value(self, params: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
        """See Family."""
        mean, log_std = affine(params)
        return mean + log_std.exp() * u, log_std

    def to_base(self, params: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """See Family."""
        mean, log_std = affine(params)
        return (x - mean) * torch.exp(-log_std), -log_std

    def entropy(self, params: Tensor) -> Tensor | None:
        """½ log(2 pi e std^2) (paper, section 4.3)."""
        return affine(params)[1] + 0.5 * math.log(2.0 * math.pi * math.e)
