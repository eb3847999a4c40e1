"""Abstract models p_theta. Capabilities are types: a method asks for `Marginal` or `Bijective`, never for a name.

Every family is final: it implements the abstract methods once and nobody overrides them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self, TypeAlias

import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor, nn

from vgi_cli.maths.noise import KeyedNoise
from vgi_cli.maths.truncated import truncated_on_grid


class ModelConfig(BaseModel):
    """Settings of a model family: the keys `model.*` of a recipe. Unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Model(nn.Module, ABC):
    """A density over encoded rows x [.., D]."""

    Config: ClassVar[type[ModelConfig]]
    exact: ClassVar[bool] = True  # False: `log_prob` is a lower bound
    learning_rate: ClassVar[float] = 0.02  # of Adam on standardised data, where a recipe gives none
    suited: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Settings of methods that suit this family where nobody says otherwise: method -> its keys, `optim` nested."""

    @classmethod
    @abstractmethod
    def build(cls, config: Any, D: int) -> Self:
        """A model of D columns with default initial parameters; everything random comes later, in `initialise`."""

    @abstractmethod
    def initialise(self, x: Tensor, generator: torch.Generator) -> None:
        """Set initial parameters from completed rows x [R, D] and the generator (in place)."""

    @abstractmethod
    def log_prob(self, x: Tensor) -> Tensor:
        """log p(x), nats: [.., D] -> [..]."""

    @abstractmethod
    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """n independent rows [n, D]."""


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

    def column_redraws(self) -> Redraw:
        """What brings the last cells into the range of their column. Unless a family knows better: `log_prob` on a grid
        over the range, inverted; a cell of a column without a bound on both sides stays as it is."""
        dtype = next(self.parameters()).dtype

        def redraw(x: Tensor, j: int, low: Tensor, high: Tensor, choice: Tensor, u: Tensor) -> Tensor:
            if not bool(torch.isfinite(low) & torch.isfinite(high)):
                return x[:, j]

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
