"""Abstract models p_theta. Capabilities are types: a method asks for `Marginal` or `Bijective`, never for a name.

Every family is final: it implements the abstract methods once and nobody overrides them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self, TypeAlias, TypeVar, final

import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor, nn

from vgi_cli.layout import Layout
from vgi_cli.maths.counted import CountedNormal
from vgi_cli.maths.laws import CellsLaw, LatentLaw
from vgi_cli.maths.noise import KeyedNoise
from vgi_cli.maths.truncated import truncated_on_grid

ModelT = TypeVar("ModelT", bound="Model")
REACH = 10.0
"""Standard deviations of an encoded column over which a side without a bound is looked at."""
FILL_ROUNDS = 5
"""Reconstructions in `Latent.filled`."""
LARGEST = 1e30
"""Magnitude of a parameter at most: they belong to columns of variance 1, or nearly so."""


class ModelConfig(BaseModel):
    """Settings of a model family: the keys `model.*` of a recipe. Unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def settled(self, layout: Layout) -> Self:
        """The settings with what they leave open filled in as a model of such a table takes it."""
        return self

    def without_effect(self) -> Mapping[str, str]:
        """Settings that do nothing beside the others, and why: refused where somebody changed them."""
        return {}

    def unsuited(self, layout: Layout) -> tuple[str, str] | None:
        """Why such a model cannot be one of such a table, and what could be said instead; None where it can."""
        return None

    def idle(self, layout: Layout, refits: int) -> Mapping[str, str]:
        """Settings that do nothing for such a table and so many bootstrap refits, and why: a line of a fit, since one
        recipe serves many tables."""
        return {}


class Model(nn.Module, ABC):
    """A density over encoded rows x [.., D]."""

    Config: ClassVar[type[ModelConfig]]
    exact: ClassVar[bool] = True  # False: `log_prob` is a lower bound
    discrete: ClassVar[bool] = False  # True: rows may have discrete dimensions (`Layout.levels`)
    level_counts: tuple[int, ...] = ()
    """Of each dimension of its rows the number of levels, 0 where it is continuous; empty: all are continuous. Set by
    `built`."""
    aligns: ClassVar[bool] = False  # True: it has `align`
    learning_rate: ClassVar[float] = 0.02  # of Adam on standardised data, where a recipe gives none
    method_defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Settings of methods that suit this family where nobody says otherwise: method -> its keys, `optim` nested."""

    @classmethod
    def build(cls, config: Any, layout: Layout) -> Self:
        """A model of rows [.., layout.D] with default initial parameters; everything random comes later, in
        `initialise`."""
        return cls(config, layout)

    @abstractmethod
    def initialise(self, x: Tensor, generator: torch.Generator) -> None:
        """Set initial parameters from completed rows x [R, D] and the generator (in place)."""

    def align(self, mean: Tensor, covariance: Tensor) -> None:
        """Let it start from how the columns hang together: mean [D] and covariance [D, D] of the continuous dimensions;
        in place, after `initialise`. By default nothing."""
        return None

    @abstractmethod
    def log_prob(self, x: Tensor) -> Tensor:
        """log p(x), nats: [.., D] -> [..]."""

    def remarks(self, layout: Layout) -> Sequence[str]:
        """What a fit has chosen that no setting says, in plain lines that name the columns (`-v` prints them)."""
        return ()

    @abstractmethod
    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """n independent rows [n, D]."""


def built(family: type[ModelT], config: Any, layout: Layout) -> ModelT:
    """A model of the rows of a table, which knows their levels: `Model.build`, and `level_counts` whatever the family
    does."""
    model = family.build(config, layout)
    model.level_counts = layout.level_counts if layout.discrete else ()
    return model


@final
class EmptyModel(Model):
    """The density over no column, log p = 0: what a run holds when no column of its table varies."""

    Config = ModelConfig

    def initialise(self, x: Tensor, generator: torch.Generator) -> None:
        """There is nothing to set."""

    def log_prob(self, x: Tensor) -> Tensor:
        return x.new_zeros(x.shape[:-1])

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        return torch.zeros(n, 0)


class ConditionalDistribution(ABC):
    """p(x_mis | x_obs) of R rows in closed form."""

    @abstractmethod
    def mean(self) -> Tensor:
        """[R, D]: observed cells as given, missing cells at their conditional mean."""

    @abstractmethod
    def sample(self, noise: KeyedNoise) -> Tensor:
        """[n, R, D], n = len(noise.draws): observed cells bit-equal to x, missing cells drawn jointly.

        All randomness comes from `noise` (keyed by column name, row and draw).
        """


Redraw: TypeAlias = Callable[[Tensor, int, Tensor, Tensor, Tensor, Tensor], Tensor]
"""redraw(x, j, low, high, choice, u) -> [R]: x_j of rows x [R, D] given their other columns, drawn from its law
truncated to [low, high] (scalars) by two uniforms choice and u [R]."""


class Marginal(Model):
    """A model with exact marginals and conditionals under any mask (fa, mixture)."""

    @abstractmethod
    def marginal_log_prob(self, x: Tensor, missing: Tensor) -> Tensor:
        """log p(x_obs), nats: [R, D], [R, D] -> [R]; 0 for a fully missing row. Missing cells are ignored."""

    @abstractmethod
    def conditional(self, x: Tensor, missing: Tensor) -> ConditionalDistribution:
        """p(x_mis | x_obs) of each row; x [R, D], missing [R, D]."""

    def for_fills(self) -> Self:
        """The model under which missing cells are drawn for users: this one, unless a family knows better."""
        return self

    def column_redraws(self) -> Redraw:
        """What brings the last cells into the range of their column. Unless a family knows better: `log_prob` on a grid
        over the range, inverted; a side without a bound ends REACH beyond the other one or the centre, and a cell of a
        column without any bound stays as it is."""
        dtype = next(self.parameters()).dtype

        def redraw(x: Tensor, j: int, low: Tensor, high: Tensor, choice: Tensor, u: Tensor) -> Tensor:
            if bool(torch.isinf(low) & torch.isinf(high)):
                return x[:, j]
            low = torch.where(torch.isinf(low), high.clamp(max=0.0) - REACH, low)
            high = torch.where(torch.isinf(high), low.clamp(min=0.0) + REACH, high)

            def log_density(values: Tensor) -> Tensor:
                rows = x[:, None].expand(-1, values.shape[-1], -1).clone()
                rows[..., j] = values
                return self.log_prob(rows.to(dtype)).to(x.dtype)

            return truncated_on_grid(log_density, low, high, u)

        return redraw


class Bijective(Model):
    """A model that is an invertible map of a standard normal (flow)."""

    @abstractmethod
    def to_base(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """u [.., D] and log|det du/dx| [..]."""

    @abstractmethod
    def from_base(self, u: Tensor) -> Tensor:
        """The inverse of `to_base`: [.., D] -> [.., D]."""


class Latent(Model):
    """A model with latents z [.., L], whose cells are independent given z: p(x | z) p(z) (vae).

    p(x) has no closed form, so `log_prob` is a lower bound of log p(x): the ELBO, with one draw of z. In training the
    draw is a new one at each call; in evaluation mode it is a fixed function of the row (see maths/counted.py).
    Columns of xz [.., D + L]: x, then z.

    A part of z may be a category (see maths/laws.py): hence laws of z are asked, never assumed to be normal.
    """

    exact: ClassVar[bool] = False
    latents: int  # L

    def __init__(self, latents: int) -> None:
        super().__init__()
        self.latents = latents
        self.noise = CountedNormal(latents)

    @property
    @abstractmethod
    def prior(self) -> LatentLaw:
        """p(z)."""

    @abstractmethod
    def encode(self, x: Tensor, missing: Tensor | None = None) -> LatentLaw:
        """q(z | x) of completed rows: [.., D] -> law of z [.., L]; with `missing` [.., D], q(z | x_obs): what x holds
        there never enters."""

    @abstractmethod
    def encoder_parameters(self) -> Iterator[nn.Parameter]:
        """The parameters of q(z | x): with the others frozen, they can be fitted anew to other rows."""

    @abstractmethod
    def decode(self, z: Tensor) -> CellsLaw:
        """p(x | z): [.., L] -> one law a dimension, of x [.., D]."""

    def filled(self, x: Tensor, missing: Tensor) -> Tensor:
        """x [.., D] with its missing cells at the decoder's centre at the encoder's mean, a few times over, at first
        with the holes hidden. Not a draw and not a point estimate: numbers for an encoder that needs some."""
        out = torch.where(missing, self.decode(self.encode(x, missing).mean).centre(), x)
        for _ in range(FILL_ROUNDS - 1):
            out = torch.where(missing, self.decode(self.encode(out).mean).centre(), x)
        return out

    def joint_log_prob(self, xz: Tensor) -> Tensor:
        """log p(x | z) + log p(z), nats: [.., D + L] -> [..]."""
        x, z = self.split(xz)
        return self.decode(z).log_prob(x) + self.prior.log_prob(z)

    def observed_log_prob(self, x: Tensor, z: Tensor, missing: Tensor) -> Tensor:
        """log p(x_obs | z) + log p(z), nats: x and missing [.., D], z [.., L] -> [..]; they broadcast, so that rows
        with many draws of z need not be copied. The missing cells are integrated out: what x holds there never
        enters."""
        return self.decode(z).log_prob(x, missing) + self.prior.log_prob(z)

    def split(self, xz: Tensor) -> tuple[Tensor, Tensor]:
        """x [.., D] and z [.., L] of xz [.., D + L]."""
        return xz[..., : -self.latents], xz[..., -self.latents :]

    def elbo(self, x: Tensor, noise: Tensor, missing: Tensor | None = None, q: LatentLaw | None = None) -> Tensor:
        """log p(x | z) - KL(q(z | x) ‖ p(z)), nats: [..]; z is drawn from q by standard normal noise [.., L], the KL
        divergence is in closed form, and a category is summed out.

        missing  [.., D] cells that are integrated out of the decoder: a lower bound of log p(x_obs)
        q        the law of z; none: `encode(x)`, which sees whatever the missing cells hold (zeros, imputations)
        """
        q = self.encode(x) if q is None else q
        z, weight = q.spread(noise)
        return (weight * self.decode(z).log_prob(x, missing)).sum(0) - q.kl(self.prior)

    def log_prob(self, x: Tensor) -> Tensor:
        """The ELBO of completed rows, with one draw of z: [.., D] -> [..]."""
        return self.elbo(x, self.noise(x))

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        parameter = next(self.parameters())
        device = parameter.device if generator is None else generator.device
        with torch.no_grad():
            noise = torch.randn(n, self.latents, dtype=parameter.dtype, device=device, generator=generator)
            x = self.decode(self.prior.draw(noise.to(parameter.device)))
            noise = torch.randn(x.centre().shape, dtype=parameter.dtype, device=device, generator=generator)
            return x.draw(noise.to(parameter.device))


class Relaxable(Latent):
    """A model with latents of which a part may be a category that has a continuous relaxation (vae)."""

    @abstractmethod
    def relaxed_elbo(self, x: Tensor, noise: Tensor, missing: Tensor, temperature: float) -> Tensor:
        """The ELBO of the observed cells [..] with one draw of z, by noise [.., L], in which the category is a draw of
        the Gumbel-softmax. It tends to the ELBO on average as the temperature falls to 0, and bounds nothing before."""


def only_encoder(model: ModelT) -> ModelT:
    """The model with all parameters frozen (in place) but those of an encoder, where it has one."""
    model.requires_grad_(False)
    if isinstance(model, Latent):
        for parameter in model.encoder_parameters():
            parameter.requires_grad_(True)
    return model
