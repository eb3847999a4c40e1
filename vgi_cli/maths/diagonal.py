"""Normal distributions with a diagonal covariance, alone and one for each value of a category: the laws of a
variational autoencoder's decoder, encoder and prior.

A single draw of a category has no derivative; in its place stands that of the Gumbel-softmax (Jang et al. 2017;
Maddison et al. 2017).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from vgi_cli.maths.laws import CellsLaw, normal_log_prob
from vgi_cli.maths.truncated import log_mass, truncated_normal

HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
HALF_LOG_2PIE = 0.5 * math.log(2.0 * math.pi * math.e)
TEMPERATURE = 0.5
"""Of the softmax whose derivative stands for that of a drawn category."""


@dataclass(frozen=True)
class DiagonalNormal(CellsLaw):
    """Independent normals: mean [.., P] and the logarithm of the standard deviation [.., P], which broadcast."""

    mean: Tensor
    log_scale: Tensor

    @property
    def scale(self) -> Tensor:
        """Standard deviations [.., P]."""
        return self.log_scale.exp()

    def centre(self) -> Tensor:
        return self.mean

    def draw(self, noise: Tensor) -> Tensor:
        """[.., P] from standard normal noise [.., P]; differentiable in mean and scale."""
        return self.mean + self.scale * noise

    def log_prob(self, value: Tensor, missing: Tensor | None = None) -> Tensor:
        law = self.over(value)
        if missing is None:
            return cast(Tensor, _LogDensity.apply(value, law.mean, law.log_scale, None))
        return cast(Tensor, _LogDensity.apply(finite(value), law.mean, law.log_scale, (~missing).to(value.dtype)))

    def over(self, value: Tensor) -> DiagonalNormal:
        """The same with mean and scale in the shape that they and the value [.., P] have together."""
        shape = torch.broadcast_shapes(value.shape, self.mean.shape, self.log_scale.shape)
        return DiagonalNormal(self.mean.expand(shape), self.log_scale.expand(shape))

    def log_cells(self, value: Tensor) -> Tensor:
        return normal_log_prob((value - self.mean) * (-self.log_scale).exp()) - self.log_scale

    def entropies(self) -> Tensor:
        return self.log_scale + HALF_LOG_2PIE

    def log_mass(self, low: Tensor, high: Tensor) -> Tensor:
        return log_mass(*self._standard(low, high))

    def draw_inside(
        self, noise: Tensor, again: Callable[[], Tensor], low: Tensor, high: Tensor, wanted: Tensor
    ) -> Tensor:
        """A draw that lies outside is drawn anew from the truncated law: the mixture of both is the truncated law, at
        the price of one inverse distribution function a cell."""
        below, above = self._standard(low, high)
        outside = ((noise < below) | (noise > above)) & wanted
        if bool(outside.any()):
            noise = noise.clone()
            noise[outside] = truncated_normal(below[outside], above[outside], again()[outside])
        drawn = self.draw(noise.to(self.mean))
        return torch.minimum(torch.maximum(drawn, low), high)  # rounding only

    def _standard(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        """Bounds in units of the cells, float64 [.., P]."""
        return ((low - self.mean) / self.scale).double(), ((high - self.mean) / self.scale).double()

    def where(self, condition: Tensor, other: DiagonalNormal) -> DiagonalNormal:
        at = condition[..., None]
        return DiagonalNormal(torch.where(at, self.mean, other.mean), torch.where(at, self.log_scale, other.log_scale))

    def spread(self, noise: Tensor) -> tuple[Tensor, Tensor]:
        """One point."""
        return self.draw(noise)[None], noise.new_ones(())[(None,) * noise.dim()]

    def walk(self, z: Tensor, step: Tensor, noise: Tensor) -> Tensor:
        """mean + sqrt(1 - step²) (z - mean) + step · scale · noise."""
        return self.mean + (1 - step.square()).sqrt() * (z - self.mean) + step * self.scale * noise

    def kl(self, other: DiagonalNormal) -> Tensor:
        """KL(this ‖ other) in closed form, nats: [..]."""
        shift = (self.mean - other.mean) / other.scale
        ratio = 2 * (self.log_scale - other.log_scale)
        return 0.5 * (shift.square() + ratio.exp() - 1.0 - ratio).sum(-1)


class CategoricalNormal(NamedTuple):
    """A category s of S, and P normals with diagonal covariance given it.

    log_weight  [.., S] log probabilities of the categories
    normal      [.., S, P] the normals of each category

    A value z [.., P + S] holds the normals, then s as S numbers of which one is 1.
    """

    log_weight: Tensor
    normal: DiagonalNormal

    @property
    def mean(self) -> Tensor:
        """[.., P + S]: means of the normals and the probabilities of the categories."""
        weight = self.log_weight.exp()
        return torch.cat([chosen(weight, self.normal.mean), weight], -1)

    def draw(self, noise: Tensor) -> Tensor:
        """z [.., P + S] from standard normal noise [.., P + S]. Its gradient in the category is that of the
        Gumbel-softmax (straight through): biased, where that of the normals is not."""
        own, s_noise = self.split(noise)
        soft = relaxed(self.log_weight, s_noise, TEMPERATURE)
        hard = F.one_hot(soft.argmax(-1), soft.shape[-1]).to(soft)
        s = hard + (soft - soft.detach())
        given = DiagonalNormal(chosen(s, self.normal.mean), chosen(s, self.normal.log_scale))
        return torch.cat([given.draw(own), s], -1)

    def spread(self, noise: Tensor) -> tuple[Tensor, Tensor]:
        """One point for each category."""
        own, s_noise = self.split(noise)
        normals = self.normal.draw(own[..., None, :])
        s = torch.eye(s_noise.shape[-1], dtype=noise.dtype, device=noise.device).expand(*normals.shape[:-1], -1)
        weight = self.log_weight.exp().expand(normals.shape[:-1])
        return torch.cat([normals, s], -1).movedim(-2, 0), weight.movedim(-1, 0)

    def walk(self, z: Tensor, step: Tensor, noise: Tensor) -> Tensor:
        """With probability `step` the category is drawn anew; the distance of the normals from their
        mean, in standard deviations, walks."""
        own, s = self.split(z)
        own_noise, s_noise = self.split(noise)
        size = (own - chosen(s, self.normal.mean)) / chosen(s, self.normal.log_scale).exp()
        size = (1 - step.square()).sqrt() * size + step * own_noise
        kernel = ((1 - step) * s + step * self.log_weight.exp()).log()
        new = F.one_hot(relaxed(kernel, s_noise, 1.0).argmax(-1), s.shape[-1]).to(z)
        given = DiagonalNormal(chosen(new, self.normal.mean), chosen(new, self.normal.log_scale))
        return torch.cat([given.draw(size), new], -1)

    def log_prob(self, z: Tensor) -> Tensor:
        """Log density at z [.., P + S], nats: [..]."""
        own, s = self.split(z)
        return (s * (self.log_weight + self.normal.log_prob(own[..., None, :]))).sum(-1)

    def kl(self, other: CategoricalNormal) -> Tensor:
        """KL(this ‖ other), nats: [..]: summed over the categories, closed form within each."""
        terms = self.log_weight - other.log_weight + self.normal.kl(other.normal)
        return (self.log_weight.exp() * terms).sum(-1)

    def split(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """The P normals and the category of z [.., P + S]."""
        return z[..., : -self.log_weight.shape[-1]], z[..., -self.log_weight.shape[-1] :]


def chosen(s: Tensor, values: Tensor) -> Tensor:
    """Sum over categories of s [.., S] times values [.., S, P]: [.., P]."""
    return (s[..., None, :] @ values)[..., 0, :]


def relaxed(log_weight: Tensor, noise: Tensor, temperature: float) -> Tensor:
    """A draw of the Gumbel-softmax [.., S] with log probabilities [.., S], from standard normal noise [.., S]; its
    largest entry is a draw of the category."""
    gumbel = -torch.log(-torch.special.log_ndtr(noise))
    return ((log_weight + gumbel) / temperature).softmax(-1)


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
