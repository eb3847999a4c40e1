"""Gaussian conditionals: q(x_j | rest) = N(mean, std^2) (paper, section 4.3)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from vgi_cli.conditionals.families.base import MAX_LOG_STD, BlockFamily, Family, FamilySettings
from vgi_cli.conditionals.families.joint import JointFamily
from vgi_cli.maths.laws import MappedLaw


def squashed(raw: Tensor) -> Tensor:
    """The log standard deviation 7 tanh(raw / 7)."""
    return MAX_LOG_STD * torch.tanh(raw / MAX_LOG_STD)


@dataclass(frozen=True)
class NormalLaw(MappedLaw):
    """x = mean + std * u, each [..]; log std = 7 tanh(raw / 7)."""

    mean: Tensor
    raw: Tensor

    @property
    def log_std(self) -> Tensor:
        """[..] computed anew each time: gradients are then added after the tanh."""
        return squashed(self.raw)

    def to_value(self, u: Tensor) -> tuple[Tensor, Tensor]:
        log_std = self.log_std
        return self.mean + log_std.exp() * u, log_std

    def to_base(self, value: Tensor) -> tuple[Tensor, Tensor]:
        log_std = self.log_std
        return (value - self.mean) * torch.exp(-log_std), -log_std

    def entropy(self) -> Tensor | None:
        """½ log(2 pi e std^2) (paper, section 4.3)."""
        return None if self.share else self.log_std + 0.5 * math.log(2.0 * math.pi * math.e)


class NormalFamily(Family):
    """Normals, of mean and log std."""

    width, fresh_width, noise_width = 2, 1, 2

    @classmethod
    def build(cls, settings: FamilySettings) -> Self:
        return cls()

    @classmethod
    def of_blocks(cls, W: int, settings: FamilySettings) -> BlockFamily:
        return JointFamily(W, 0, settings.bins)

    def law(self, params: Tensor) -> NormalLaw:
        return NormalLaw(params[..., 0], params[..., 1])
