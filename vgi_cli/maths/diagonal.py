"""Normal distributions with a diagonal covariance: those of a variational autoencoder's encoder and decoder."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

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
        NaN included, enters neither the value nor a gradient. Value and missing broadcast."""
        if missing is None:
            return cast(Tensor, _LogDensity.apply(value, *self.over(value), None))
        return cast(Tensor, _LogDensity.apply(finite(value), *self.over(value), (~missing).to(value.dtype)))

    def over(self, value: Tensor) -> DiagonalNormal:
        """The same with mean and scale in the shape that they and the value [.., P] have together."""
        shape = torch.broadcast_shapes(value.shape, self.mean.shape, self.log_scale.shape)
        return DiagonalNormal(self.mean.expand(shape), self.log_scale.expand(shape))

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


def log_sum_scale(log_variance: Tensor, floor: float) -> Tensor:
    """Half the logarithm of floor + exp(log_variance): the log standard deviation over a variance floor."""
    if floor == 0.0:
        return 0.5 * log_variance
    return cast(Tensor, _LogSumScale.apply(log_variance, floor))


def finite(x: Tensor) -> Tensor:
    """x with 0 for what is no finite number."""
    return x.nan_to_num(0.0, 0.0, 0.0)


class _LogDensity(torch.autograd.Function):
    """sum_p keep (-(x - mean)² / 2 scale² - log scale - log(2 pi) / 2): log densities of rows of many cells, in half
    the passes over memory that single operations take. x and keep (or none) broadcast to the shape of the others."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, mean: Tensor, log_scale: Tensor, keep: Tensor | None) -> Tensor:
        inverse = log_scale.neg().exp_()
        standard = (x - mean).mul_(inverse)
        terms = torch.addcmul(log_scale, standard, standard, value=0.5)
        ctx.save_for_backward(standard, inverse, *([] if keep is None else [keep]))
        if keep is None:
            return -(terms.sum(-1) + HALF_LOG_2PI * terms.shape[-1])
        return -(terms.mul_(keep).sum(-1) + HALF_LOG_2PI * keep.sum(-1))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None, None]:
        standard, inverse, *keep = ctx.saved_tensors
        each = grad[..., None] * keep[0] if keep else grad[..., None]
        slope = (standard * inverse).mul_(each) if any(ctx.needs_input_grad[:2]) else None
        of_x = -slope if slope is not None and ctx.needs_input_grad[0] else None
        of_scale = (standard * standard).sub_(1.0).mul_(each) if ctx.needs_input_grad[2] else None
        return of_x, slope if ctx.needs_input_grad[1] else None, of_scale, None


class _LogSumScale(torch.autograd.Function):
    """See `log_sum_scale`."""

    @staticmethod
    def forward(ctx: Any, log_variance: Tensor, floor: float) -> Tensor:
        ctx.save_for_backward(log_variance)
        ctx.floor = floor
        return log_variance.exp().add_(floor).log_().mul_(0.5)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (log_variance,) = ctx.saved_tensors
        return (log_variance - math.log(ctx.floor)).sigmoid_().mul_(grad).mul_(0.5), None
