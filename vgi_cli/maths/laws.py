"""Laws of latents: what a prior p(z) and an encoder's q(z | x) can do, and the law of latents with a category.

Categories are summed out wherever the sum is what is wanted (bounds, KL divergences). A single draw of a category has
no derivative; in its place stands that of the Gumbel-softmax (Jang et al. 2017; Maddison et al. 2017).
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, Self

import torch
from torch import Tensor
from torch.nn import functional as F

from vgi_cli.maths.diagonal import DiagonalNormal

TEMPERATURE = 0.5
"""Of the softmax whose derivative stands for that of a drawn category."""


class LatentLaw(Protocol):
    """A law of z [.., L]; its parameters broadcast with z."""

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
        """See LatentLaw: one point for each category."""
        own, s_noise = self.split(noise)
        normals = self.normal.draw(own[..., None, :])
        s = torch.eye(s_noise.shape[-1], dtype=noise.dtype, device=noise.device).expand(*normals.shape[:-1], -1)
        weight = self.log_weight.exp().expand(normals.shape[:-1])
        return torch.cat([normals, s], -1).movedim(-2, 0), weight.movedim(-1, 0)

    def walk(self, z: Tensor, step: Tensor, noise: Tensor) -> Tensor:
        """See LatentLaw: with probability `step` the category is drawn anew; the distance of the normals from their
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
