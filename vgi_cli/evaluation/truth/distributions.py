"""Distributions of rows in the units of the data: a known truth, and what a fitted model says in those units."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple, final

import numpy as np
import torch
from torch import Tensor

from vgi_cli.columns.levelled import Levelled
from vgi_cli.columns.number import Number
from vgi_cli.columns.scale import LinearCodec
from vgi_cli.columns.schema import Schema
from vgi_cli.maths.gaussian import LOG_2PI
from vgi_cli.models.base import Model
from vgi_cli.models.gaussian.family import GaussianFamily


class Normals(NamedTuple):
    """A mixture of K Gaussians, float64: weights [K] that sum to 1, means [K, D], covariances [K, D, D]."""

    weights: Tensor
    means: Tensor
    covariances: Tensor

    def moved(self, centre: Tensor, scale: Tensor) -> Normals:
        """The law of centre + scale * x; both [D]."""
        return Normals(self.weights, centre + scale * self.means, scale[:, None] * self.covariances * scale[None, :])

    def at(self, index: Tensor) -> Normals:
        """The columns of an index [D], in its order."""
        return Normals(self.weights, self.means[:, index], self.covariances[:, index][:, :, index])

    def first(self, K: int) -> Normals:
        """The mixture of the first K components."""
        return Normals(self.weights[:K] / self.weights[:K].sum(), self.means[:K], self.covariances[:K])


class Factors(NamedTuple):
    """A factor model x = F z + mean + noise, float64: mean [D], F [D, L], noise variances psi [D]."""

    mean: Tensor
    F: Tensor
    psi: Tensor

    def moved(self, centre: Tensor, scale: Tensor) -> Factors:
        """The law of centre + scale * x; both [D]."""
        return Factors(centre + scale * self.mean, scale[:, None] * self.F, scale.square() * self.psi)

    def at(self, index: Tensor) -> Factors:
        """The columns of an index [D], in its order."""
        return Factors(self.mean[index], self.F[index], self.psi[index])

    def normals(self) -> Normals:
        """The same law as one Gaussian."""
        covariance = self.F @ self.F.mT + torch.diag(self.psi)
        return Normals(self.mean.new_ones(1), self.mean[None], covariance[None])


class Law(ABC):
    """A distribution of rows in data units, in an order of columns that both sides of a comparison share.

    normals   its parameters where it is a mixture of Gaussians, else None
    factors   its parameters where it is a factor model, else None
    obstacle  why `normals` is None, as a clause; None where it is not
    """

    normals: Normals | None
    factors: Factors | None
    obstacle: str | None

    @abstractmethod
    def sample(self, n: int, generator: torch.Generator) -> Tensor:
        """n independent rows [n, D], float64, before any rounding."""

    @abstractmethod
    def log_prob(self, x: Tensor) -> Tensor:
        """log density [n], nats, of rows x [n, D] before any rounding."""


@final
class KnownLaw(Law):
    """A law that is given by its parameters in data units."""

    def __init__(self, normals: Normals, factors: Factors | None = None) -> None:
        """Raises torch.linalg.LinAlgError where a covariance is not positive definite."""
        self.normals, self.factors, self.obstacle = normals, factors, None
        self._parameters = normals
        self._cholesky = torch.linalg.cholesky(normals.covariances)

    def sample(self, n: int, generator: torch.Generator) -> Tensor:
        component = torch.multinomial(self._parameters.weights, n, replacement=True, generator=generator)
        D = self._parameters.means.shape[1]
        noise = torch.randn(n, D, generator=generator, dtype=torch.float64)
        out = torch.empty_like(noise)
        for k, (mean, factor) in enumerate(zip(self._parameters.means, self._cholesky, strict=True)):
            own = component == k
            out[own] = mean + noise[own] @ factor.mT
        return out

    def log_prob(self, x: Tensor) -> Tensor:
        terms = []
        for weight, mean, factor in zip(self._parameters.weights, self._parameters.means, self._cholesky, strict=True):
            white = torch.linalg.solve_triangular(factor, (x - mean).mT, upper=False)
            logdet = 2 * factor.diagonal().log().sum()
            terms.append(weight.log() - 0.5 * (white.square().sum(0) + logdet + x.shape[1] * LOG_2PI))
        return torch.stack(terms).logsumexp(0)


@final
class FittedLaw(Law):
    """A fitted model carried to data units by the codecs of its schema, computed in float64 on the CPU. A column of
    levels holds their numbers in the schema `levels_of`; log densities have the probabilities of levels in them.

    columns  the order of its columns: a permutation of `schema.modelled`
    centre   [D] what each column is centred at, where all are numbers that are encoded as (x - centre) / sd; else
             None
    steps    [D] resolution of the columns that are rounded and modelled as spread over it, 0 elsewhere
    sd       [D] standard deviation of each column in the table that was fitted; 1 of levels
    learnt   `normals` without the components of fixed shape, which come last (models/gaussian/widened.py)
    """

    def __init__(self, model: Model, schema: Schema, columns: Sequence[str], levels_of: Schema | None = None) -> None:
        """ValueError for a column of neither numbers nor levels, or of other levels than in `levels_of`."""
        self._model = copy.deepcopy(model).to("cpu").double().eval()
        places = [schema.modelled.index(name) for name in columns]
        self._place = torch.tensor(places)
        self._back = torch.argsort(self._place)
        encoded = [schema.encoded[place] for place in places]
        shared = schema if levels_of is None else levels_of
        self._columns = [column for column in encoded if isinstance(column, Number)]
        self._numbers = [i for i, column in enumerate(encoded) if isinstance(column, Number)]
        self._levels = {
            i: torch.tensor(same_levels(column, shared.encoded[shared.modelled.index(column.name)]))
            for i, column in enumerate(encoded)
            if isinstance(column, Levelled)
        }
        if len(self._numbers) + len(self._levels) < len(places):
            raise ValueError("a law in data units is one of columns of numbers and of levels")
        self._codecs = [column.codec for column in self._columns]
        scales = [column.scale for column in self._columns]
        self.sd, self.steps = torch.ones(len(places)).double(), torch.zeros(len(places)).double()
        sd = [column.scale.sd if column.scale.logs is None else column.deviation for column in self._columns]
        self.sd[self._numbers] = torch.tensor(sd, dtype=torch.float64)
        self.steps[self._numbers] = torch.tensor([column.step for column in self._columns], dtype=torch.float64)
        bent = any(scale.knots or scale.logs for scale in scales)
        centre = torch.tensor([scale.mean for scale in scales], dtype=torch.float64)
        self.centre = None if bent or self._levels else centre
        self.obstacle = _obstacle(self._model, self._columns, [encoded[i].name for i in self._levels])
        self.normals, self.learnt, self.factors = None, None, None
        if self.obstacle is None and isinstance(self._model, GaussianFamily):
            normals, factors = _parameters(self._model)
            self.normals = normals.at(self._place).moved(centre, self.sd)
            self.learnt = self.normals.first(self._model.gaussians.K)
            self.factors = None if factors is None else factors.at(self._place).moved(centre, self.sd)

    def rounded(self, x: Tensor) -> Tensor:
        """Rows x [n, D] with the rounded columns at the nearest value of their resolution."""
        out = x.clone()
        for i, column in zip(self._numbers, self._columns, strict=True):
            if column.step and column.lattice is not None:
                out[:, i] = torch.from_numpy(column.lattice.snap(x[:, i].numpy()))
        return out

    def sample(self, n: int, generator: torch.Generator) -> Tensor:
        with torch.no_grad():
            return self.decode(self._model.sample(n, generator).double())

    def decode(self, z: Tensor) -> Tensor:
        """Rows in data units [n, D] of encoded rows z [n, D], dimensions in the order of the schema."""
        out = z[:, self._place]
        for i, codec in zip(self._numbers, self._codecs, strict=True):
            out[:, i] = torch.from_numpy(np.asarray(codec.decode(out[:, i].numpy())))
        for i, codes in self._levels.items():
            out[:, i] = codes[out[:, i].long()].double()
        return out

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The inverse of `decode`, and log |d encoded / d data| [n], of the numbers."""
        z, volume = x.clone(), torch.zeros(len(x), dtype=torch.float64)
        for i, codec in zip(self._numbers, self._codecs, strict=True):
            coded = codec.encode(x[:, i].numpy())
            z[:, i] = torch.from_numpy(np.asarray(coded))
            volume += torch.from_numpy(np.asarray(codec.log_det(coded)))
        for i, codes in self._levels.items():
            z[:, i] = codes.argsort()[x[:, i].long()].double()
        return z[:, self._back], volume

    def log_det(self, z: Tensor) -> Tensor:
        """log |d encoded / d data| [n], of the numbers, at encoded rows z [n, D]."""
        placed, volume = z[:, self._place], torch.zeros(len(z), dtype=torch.float64)
        for i, codec in zip(self._numbers, self._codecs, strict=True):
            volume += torch.from_numpy(np.asarray(codec.log_det(placed[:, i].numpy())))
        return volume

    def codec(self, column: int) -> LinearCodec:
        """The map between data units and encoded ones of a column of numbers."""
        return self._codecs[self._numbers.index(column)]

    def spread(self, x: Tensor) -> Tensor:
        """Rows x [n, D] for distances between them: numbers divided by `sd`, then for each level 1 where it holds, else
        0."""
        levels = [torch.nn.functional.one_hot(x[:, i].long(), len(codes)) for i, codes in self._levels.items()]
        return torch.cat([(x / self.sd)[:, self._numbers], *(part.double() for part in levels)], 1)

    def log_prob(self, x: Tensor) -> Tensor:
        encoded, volume = self.encode(x)
        with torch.no_grad():
            return self._model.log_prob(encoded) + volume


def same_levels(column: Levelled, other: object) -> list[int]:
    """The number that each level of a column has in another one of the same levels. ValueError, as a clause, where they
    are not the same, or in another order where either has one."""
    if not isinstance(other, Levelled):
        raise ValueError("holds levels in one of the two, and numbers in the other")
    if any(one.level_counts[0] != len(one.texts) for one in (column, other)):
        raise ValueError("pools its rare levels, which have no probability each")
    if column.places.keys() != other.places.keys():
        raise ValueError("has different levels in the two")
    codes = [other.places[key] for key in column.places]
    if (column.ordered or other.ordered) and codes != sorted(codes):
        raise ValueError("has its levels in another order in the two")
    return codes


def _obstacle(model: Model, columns: Sequence[Number], levels: Sequence[str]) -> str | None:
    """Why a fitted density is no mixture of Gaussians in data units."""
    if not isinstance(model, GaussianFamily):
        return "the model is no mixture of Gaussians"
    if levels:
        return f"column '{levels[0]}' holds levels, so the law is no mixture of Gaussians"
    for column in columns:
        if column.scale.knots or column.scale.logs:
            why = "is modelled by its logarithm" if column.scale.logs else "is bent towards a normal distribution"
            return f"column '{column.name}' {why}, so the density is not Gaussian in data units"
    for column in columns:
        if column.step:
            why = f"is rounded to {column.step:g} and modelled as spread over that"
            return f"column '{column.name}' {why}, so the density is not Gaussian in data units"
    return None


@torch.no_grad()
def _parameters(model: GaussianFamily) -> tuple[Normals, Factors | None]:
    """The parameters of a model, encoded units; as a factor model where it is one."""
    parts = model.gaussians.moments()
    mean = parts.mean.detach()
    normals = Normals(model.log_weights().exp(), mean, parts.covariance)
    if parts.loadings is None or len(mean) > 1:
        return normals, None
    F, psi = parts.loadings
    return normals, Factors(mean[0], F[0].detach(), psi[0])


def log_cells(law: Law, x: Tensor, offsets: Tensor) -> Tensor:
    """Log density [n] of cells: the log mean over draws of the density at x [n, D] + offsets [draws, n, D].

    With offsets spread over the resolution of the rounded columns this is, up to the volume of a cell, the logarithm of
    the probability of its rounded values (a little too low for a finite number of draws).
    """
    draws, n, D = offsets.shape
    values = law.log_prob((x + offsets).view(draws * n, D)).view(draws, n)
    return values.logsumexp(0) - math.log(draws)
