"""Normal distributions with a diagonal covariance: those of a variational autoencoder's encoder and decoder."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


class DiagonalNormal(NamedTuple):
    """Independent normals: mean [.., P] and the logarithm of the standard deviation [.., P], which broadcast."""

    mean: Tensor
    log_scale: Tensor

    @property
    def scale(self) -> Tensor:
        """Standard deviations [.., P]."""
        return self.log_scale.exp()

    def draw(self, noise: Tensor) -> Tensor:
        """[.., P] from standard normal noise [.., P]; differentiable in mean and scale."""
        return self.mean + self.scale * noise

    def log_prob(self, value: Tensor, missing: Tensor | None = None) -> Tensor:
        """Log density at value [.., P], nats: [..]. Cells that are `missing` [.., P] are left out: whatever they hold,
        NaN included, enters neither the value nor a gradient."""
        if missing is None:
            return (-0.5 * ((value - self.mean) / self.scale).square() - self.log_scale - HALF_LOG_2PI).sum(-1)
        value = value.masked_fill(missing, 0.0)
        terms = -0.5 * ((value - self.mean) / self.scale).square() - self.log_scale - HALF_LOG_2PI
        return terms.masked_fill(missing, 0.0).sum(-1)

    def spread(self, noise: Tensor) -> tuple[Tensor, Tensor]:
        """See LatentLaw: one point."""
        return self.draw(noise)[None], noise.new_ones(())[(None,) * noise.dim()]

    def walk(self, z: Tensor, step: Tensor, noise: Tensor) -> Tensor:
        """See LatentLaw: mean + sqrt(1 - step²) (z - mean) + step · scale · noise."""
        return self.mean + (1 - step.square()).sqrt() * (z - self.mean) + step * self.scale * noise

    def kl(self, other: DiagonalNormal) -> Tensor:
        """KL(this ‖ other) in closed form, nats: [..]."""
        shift = (self.mean - other.mean) / other.scale
        ratio = 2 * (self.log_scale - other.log_scale)
        return 0.5 * (shift.square() + ratio.exp() - 1.0 - ratio).sum(-1)

    def kl_from_standard(self) -> Tensor:
        """KL(this ‖ N(0, I)) in closed form, nats: [..]."""
        return 0.5 * (self.mean.square() + (2 * self.log_scale).exp() - 1.0 - 2 * self.log_scale).sum(-1)


def log_sum_scale(log_variance: Tensor, floor: float) -> Tensor:
    """Half the logarithm of floor + exp(log_variance): the log standard deviation over a variance floor."""
    if floor == 0.0:
        return 0.5 * log_variance
    return 0.5 * torch.logaddexp(log_variance, log_variance.new_full((), math.log(floor)))
