"""The variational autoencoder: z ~ N(0, I), x = mean(z) + noise with a diagonal covariance, and an encoder q(z | x)
(Kingma and Welling 2014; Simkus et al. 2023, section 6.3).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

import torch
from pydantic import Field
from torch import Tensor, nn

from vgi_cli.maths.diagonal import DiagonalNormal, log_sum_scale
from vgi_cli.maths.nets import MLP, Activation
from vgi_cli.models.base import Latent, ModelConfig

MOST_LATENTS = 10
LOG_SCALES = (-12.0, 4.0)
"""Range of the encoder's log standard deviations: an outlier must not overflow a bound."""


class VaeConfig(ModelConfig):
    """Settings of a variational autoencoder (`model.*`)."""

    latents: int | None = Field(None, ge=1, description="Latent variables; none: half the columns, at most 10.")
    encoder: tuple[int, ...] = Field((200,), description="Widths of the encoder's hidden layers.")
    decoder: tuple[int, ...] = Field((200,), description="Widths of the decoder's hidden layers.")
    activation: Activation = Field("sigmoid", description="Of the hidden layers.")
    variance: Literal["column", "latent"] = Field("column", description="One per column, or a function of z.")
    floor: float = Field(1e-3, ge=0, description="Least variance of the decoder, in units of a column's.")


class VariationalAutoencoder(Latent):
    """Encoder and decoder are multilayer perceptrons; without hidden layers and with one variance a column this is
    factor analysis."""

    Config = VaeConfig
    learning_rate = 0.01  # at 1e-3 some thousand steps on a small table end on the plateau where z is not used
    suited: ClassVar[Mapping[str, Mapping[str, Any]]] = {"vgi": {"accept": "gibbs"}}

    def __init__(self, config: VaeConfig, D: int) -> None:
        super().__init__(config.latents or min(MOST_LATENTS, max(1, D // 2)))
        self.D = D
        self.floor = config.floor
        self.encoder = MLP(D, config.encoder, 2 * self.latents, activation=config.activation)
        outputs = D if config.variance == "column" else 2 * D
        self.decoder = MLP(self.latents, config.decoder, outputs, activation=config.activation)
        self.log_variance: nn.Parameter | None = None
        if config.variance == "column":
            self.log_variance = nn.Parameter(torch.zeros(D))

    @classmethod
    def build(cls, config: VaeConfig, D: int) -> Self:
        """Networks of zeros: x and z independent, q(z | x) = N(0, I)."""
        return cls(config, D)

    @torch.no_grad()
    def initialise(self, x: Tensor, generator: torch.Generator) -> None:
        """Draw the weights; the decoder starts around the mean and variance of the columns of x [R, D]."""
        self.noise.initialise(generator)
        self.encoder.initialise(generator)
        self.decoder.initialise(generator)
        bias = self.decoder.outlet.bias
        variance = x.double().var(0, correction=0).clamp(min=1e-2).log().to(bias)
        bias[: self.D] = x.double().mean(0).to(bias)
        if self.log_variance is None:
            bias[self.D :] = variance
        else:
            self.log_variance.copy_(variance)

    def encode(self, x: Tensor) -> DiagonalNormal:
        """See Latent."""
        mean, log_variance = self.encoder(x).chunk(2, -1)
        return DiagonalNormal(mean, (0.5 * log_variance).clamp(*LOG_SCALES))

    def decode(self, z: Tensor) -> DiagonalNormal:
        """See Latent."""
        out = self.decoder(z)
        if self.log_variance is None:
            mean, log_variance = out.chunk(2, -1)
        else:
            mean, log_variance = out, self.log_variance
        return DiagonalNormal(mean, log_sum_scale(log_variance, self.floor).expand_as(mean))
