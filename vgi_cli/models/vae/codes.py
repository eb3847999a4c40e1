"""The latents of a variational autoencoder: their prior, and how an encoder's numbers become q(z | x)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from vgi_cli.maths.diagonal import CategoricalNormal, DiagonalNormal, relaxed
from vgi_cli.maths.laws import LatentLaw
from vgi_cli.models.vae.encoders import RowNetwork

LOG_SCALES = (-12.0, 4.0)
"""Range of the encoder's log standard deviations: an outlier must not overflow a bound."""


class Code(nn.Module, ABC):
    """Latents z [.., width], of which the first are continuous and the last `categories` a category."""

    width: int
    categories: int

    @property
    @abstractmethod
    def prior(self) -> LatentLaw:
        """p(z)."""

    @abstractmethod
    def encode(self, encoder: RowNetwork, x: Tensor, missing: Tensor | None) -> LatentLaw:
        """q(z | x_obs) of rows x [.., D]."""

    @abstractmethod
    def relaxed(
        self, encoder: RowNetwork, x: Tensor, missing: Tensor | None, noise: Tensor, temperature: float
    ) -> tuple[Tensor, Tensor]:
        """A draw of z [.., width] whose category is a Gumbel-softmax, and the KL divergence [..] that belongs to it."""

    def encoder_parameters(self) -> Iterator[nn.Parameter]:
        """Those that q(z | x) has beside the encoder's."""
        return iter(())

    @abstractmethod
    def initialise(self, x: Tensor, generator: torch.Generator) -> None:
        """Draw the parameters, for rows like x [R, D]."""

    def split(self, z: Tensor) -> tuple[Tensor, Tensor | None]:
        """The continuous latents and the category of z [.., width]."""
        if not self.categories:
            return z, None
        return z[..., : -self.categories], z[..., -self.categories :]


class NormalCode(Code):
    """z ~ N(0, I)."""

    origin: Tensor
    categories = 0

    def __init__(self, latents: int) -> None:
        super().__init__()
        self.width = latents
        self.register_buffer("origin", torch.zeros(latents), persistent=False)

    @property
    def prior(self) -> DiagonalNormal:
        return DiagonalNormal(self.origin, self.origin)

    def encode(self, encoder: RowNetwork, x: Tensor, missing: Tensor | None) -> DiagonalNormal:
        return to_normal(encoder(x, missing))

    def relaxed(
        self, encoder: RowNetwork, x: Tensor, missing: Tensor | None, noise: Tensor, temperature: float
    ) -> tuple[Tensor, Tensor]:
        """There is no category."""
        q = self.encode(encoder, x, missing)
        return q.draw(noise), q.kl(self.prior)

    def initialise(self, x: Tensor, generator: torch.Generator) -> None:
        """Nothing is learnt."""


class MixtureCode(Code):
    """s uniform on S categories, z | s ~ N(m_s, I) with learnt means (HIVAE, Nazábal et al. 2020).

    q(s | x_obs) comes from a network of its own, q(z | x_obs, s) from the encoder with s beside the row.
    """

    def __init__(self, latents: int, categories: int, classifier: RowNetwork) -> None:
        """`classifier`: rows -> one number for each category."""
        super().__init__()
        self.width = latents + categories
        self.categories = categories
        self.classifier = classifier
        self.means = nn.Parameter(torch.zeros(categories, latents))

    def encoder_parameters(self) -> Iterator[nn.Parameter]:
        """The classifier's."""
        return self.classifier.parameters()

    @property
    def prior(self) -> CategoricalNormal:
        log_weight = self.means.new_full((self.categories,), -math.log(self.categories))
        return CategoricalNormal(log_weight, DiagonalNormal(self.means, torch.zeros_like(self.means)))

    def encode(self, encoder: RowNetwork, x: Tensor, missing: Tensor | None) -> CategoricalNormal:
        """The encoder is evaluated for every category."""
        every = torch.eye(self.categories, dtype=x.dtype, device=x.device)
        holes = None if missing is None else missing[..., None, :]
        given = to_normal(encoder(x[..., None, :], holes, every))
        return CategoricalNormal(self._log_weight(x, missing), given)

    def relaxed(
        self, encoder: RowNetwork, x: Tensor, missing: Tensor | None, noise: Tensor, temperature: float
    ) -> tuple[Tensor, Tensor]:
        """The encoder, the prior of z and later the decoder see the relaxed category; the divergence of the
        category is that of its probabilities."""
        own, s_noise = noise[..., : -self.categories], noise[..., -self.categories :]
        log_weight = self._log_weight(x, missing)
        s = relaxed(log_weight, s_noise, temperature)
        q = to_normal(encoder(x, missing, s))
        prior = DiagonalNormal(s @ self.means, torch.zeros_like(q.mean))
        divergence = q.kl(prior) + (log_weight.exp() * (log_weight + math.log(self.categories))).sum(-1)
        return torch.cat([q.draw(own), s], -1), divergence

    @torch.no_grad()
    def initialise(self, x: Tensor, generator: torch.Generator) -> None:
        self.classifier.initialise(x, generator)
        draw = torch.empty(self.means.shape, dtype=self.means.dtype, device=generator.device)
        self.means.copy_(draw.normal_(generator=generator))

    def _log_weight(self, x: Tensor, missing: Tensor | None) -> Tensor:
        logits: Tensor = self.classifier(x, missing)
        return logits.log_softmax(-1)


def to_normal(parameters: Tensor) -> DiagonalNormal:
    """Means and log variances, next to each other [.., 2 P], as normals [.., P]."""
    mean, log_variance = parameters.chunk(2, -1)
    return DiagonalNormal(mean, (0.5 * log_variance).clamp(*LOG_SCALES))
