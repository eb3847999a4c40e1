"""The variational autoencoder: latents z, cells that are independent given z, and an encoder q(z | x) (Kingma and
Welling 2014; Simkus et al. 2023, section 6.3). A number is normal around a network of z; a level has a likelihood of
its kind: Bernoulli, categorical or ordered logit (Nazábal et al. 2020, section 2.2).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal, Self, cast

import torch
from pydantic import Field
from torch import Tensor, nn

from vgi_cli.layout import Layout
from vgi_cli.maths.cells import CellKinds
from vgi_cli.maths.diagonal import DiagonalNormal, log_sum_scale
from vgi_cli.maths.laws import CellsLaw, LatentLaw
from vgi_cli.maths.nets import MLP, Activation
from vgi_cli.models.base import ModelConfig, Relaxable
from vgi_cli.models.vae.codes import Code, MixtureCode, NormalCode
from vgi_cli.models.vae.encoders import MaskedRows, RowNetwork, SetRows
from vgi_cli.ranges import Components, Layers, NotNegative, Width

FEWEST_LATENTS, MOST_LATENTS = 2, 10
WIDTHS = {"masked": (200,), "set": (200, 100, 100)}  # of the encoder's hidden layers, as in the authors' code
BLOCKS = {
    "accept": "gibbs",
    "gibbs_steps": 2,
    "blocks_per_row": 2,
    "optim": {"warmup_conditionals": 0, "warmup_model": 20},
}
"""Settings of the methods whose blocks are the latents and the missing cells (paper, section 6.3)."""


class VaeConfig(ModelConfig):
    """Settings of a variational autoencoder (`model.*`)."""

    latents: Width | None = Field(None, description="Continuous latents; none: by the free numbers, 2 to 10.")
    encoding: Literal["masked", "set"] = Field("masked", description="Holes at 0, or the set of observed cells.")
    encoder: Layers | None = Field(None, description="Hidden layers of the encoder; none: by `encoding`.")
    embedding: Width = Field(50, description="Length of a column's embedding (`set`).")
    cell: Layers = Field((40, 40, 40), min_length=1, description="Widths of the network of a cell (`set`).")
    decoder: Layers = Field((200,), description="Widths of the decoder's hidden layers.")
    activation: Activation = Field("sigmoid", description="Of the hidden layers, but for `set`.")
    prior: Literal["normal", "mixture"] = Field("normal", description="Of z: N(0, I), or a mixture of normals.")
    components: Components = Field(5, description="Of the mixture.")
    variance: Literal["column", "latent"] = Field("column", description="One per column, or of z; thresholds too.")
    floor: NotNegative = Field(1e-3, description="Least variance of the decoder, in units of a column's.")

    def settled(self, layout: Layout) -> Self:
        free = sum(max(L - 1, 1) for L in layout.level_counts)
        latents = self.latents or min(MOST_LATENTS, max(min(free, FEWEST_LATENTS), free - 1))
        encoder = WIDTHS[self.encoding] if self.encoder is None else self.encoder
        return self.model_copy(update={"latents": latents, "encoder": encoder})

    def without_effect(self) -> Mapping[str, str]:
        why: dict[str, str] = {}
        if self.encoding == "masked":
            why |= dict.fromkeys(("embedding", "cell"), "it belongs to model.encoding=set")
        if self.prior == "normal":
            why["components"] = "it belongs to model.prior=mixture"
        return why


class VariationalAutoencoder(Relaxable):
    """Encoder and decoder are networks; with a normal prior, without hidden layers in the decoder and with one variance
    a column this is factor analysis. The decoder gives the c means of the continuous dimensions, where variances are
    functions of z also c log variances, then the numbers of the discrete ones (CellKinds)."""

    Config = VaeConfig
    discrete = True
    learning_rate = 0.01  # at 1e-3 some thousand steps on a small table end on the plateau where z is not used
    method_defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "vgi": {"accept": "gibbs"},
        "vbgi": BLOCKS | {"trunk": (200,)},  # of q(x_mis | z, x_obs), as in the paper
        "vbgi-m": BLOCKS,
    }

    def __init__(self, config: VaeConfig, layout: Layout) -> None:
        config = config.settled(layout)
        code = make_code(config, layout)
        super().__init__(code.width)
        shared = config.variance == "column"
        self.D = layout.D
        self.kinds = CellKinds(layout.level_counts, layout.ordered, shared=shared)
        self.floor = config.floor
        self.code = code
        normals = code.width - code.categories
        self.encoder = make_encoder(config, layout, 2 * normals, beside=code.categories)
        outputs = (1 if shared else 2) * self.kinds.c + self.kinds.numbers
        self.decoder = MLP(normals, config.decoder, outputs, activation=config.activation, late=code.categories)
        self.log_variance = nn.Parameter(torch.zeros(self.kinds.c)) if shared else None
        self.thresholds = nn.Parameter(torch.zeros(self.kinds.thresholds)) if self.kinds.thresholds else None

    @torch.no_grad()
    def initialise(self, x: Tensor, generator: torch.Generator) -> None:
        """Draw the weights; the decoder starts around the mean and variance of the columns of x [R, D], and the
        frequencies of their levels."""
        self.noise.initialise(generator)
        self.encoder.initialise(x, generator)
        self.decoder.initialise(generator)
        self.code.initialise(x, generator)
        bias, c = self.decoder.outlet.bias, self.kinds.c
        numbers = x if self.kinds.plain else x[:, self.kinds.continuous.to(x.device)]
        variance = numbers.double().var(0, correction=0).clamp(min=1e-2).log().to(bias) if c else bias[:0]
        bias[:c] = numbers.double().mean(0).to(bias)
        levels, thresholds = self.kinds.at_frequencies(x)
        bias[len(bias) - len(levels) :] = levels.to(bias)
        if self.thresholds is not None:
            self.thresholds.copy_(thresholds)
        if self.log_variance is None:
            bias[c : 2 * c] = variance
        else:
            self.log_variance.copy_(variance)

    @property
    def prior(self) -> LatentLaw:
        return self.code.prior

    def encode(self, x: Tensor, missing: Tensor | None = None) -> LatentLaw:
        return self.code.encode(self.encoder, x, missing)

    def encoder_parameters(self) -> Iterator[nn.Parameter]:
        yield from self.encoder.parameters()
        yield from self.code.encoder_parameters()

    def decode(self, z: Tensor) -> CellsLaw:
        normals, category = self.code.split(z)
        out = self.decoder(normals, late=category)
        out, levels = self.kinds.split(out)
        mean, log_variance = out.chunk(2, -1) if self.log_variance is None else (out, self.log_variance)
        normal = DiagonalNormal(mean, log_sum_scale(log_variance, self.floor).expand_as(mean))
        return self.kinds.law(normal, levels, self.thresholds)

    def relaxed_elbo(self, x: Tensor, noise: Tensor, missing: Tensor, temperature: float) -> Tensor:
        z, divergence = self.code.relaxed(self.encoder, x, missing, noise, temperature)
        return self.decode(z).log_prob(x, missing) - divergence


def make_code(config: VaeConfig, layout: Layout) -> Code:
    """The latents that settled settings describe."""
    latents = cast(int, config.latents)
    if config.prior == "normal":
        return NormalCode(latents)
    return MixtureCode(latents, config.components, make_encoder(config, layout, config.components))


def make_encoder(config: VaeConfig, layout: Layout, out: int, beside: int = 0) -> RowNetwork:
    """The network of rows with holes that settled settings describe."""
    hidden, levels = cast(Layers, config.encoder), layout.level_counts
    if config.encoding == "masked":
        return MaskedRows(levels, hidden, out, beside=beside, activation=config.activation)
    return SetRows(levels, config.embedding, config.cell, hidden, out, beside=beside)
