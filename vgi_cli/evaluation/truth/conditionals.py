"""The truth's own conditionals p*(x_j | rest), in the encoded units of a fitted run: what its learnt conditionals are
compared with (paper, section 4.7)."""

from __future__ import annotations

from typing import final

import numpy as np
import torch
from torch import Tensor

from vgi_cli.evaluation.conditional_quality import Numbers, OfDensity, OfGaussians, Reference, mixture_log_prob, over
from vgi_cli.evaluation.truth.distributions import FittedLaw, Law, Normals
from vgi_cli.maths.divergences import Transport, compare_univariate
from vgi_cli.models.gaussian.family import Components, column_law

SAMPLES = 2000
"""Rows of the truth that say where it has its mass, where only its density is known."""


def truth_reference(truth: Law, fitted: FittedLaw, x: Tensor, generator: torch.Generator) -> Reference:
    """The conditionals of a truth in the encoded units of `fitted`, for rows like x [R, D] (encoded, float64).

    In closed form where the truth is a mixture of Gaussians and every column is standardised only; by quadrature over
    p*(x_j | rest) where a column of such a truth is bent, and over the joint density of any other truth.
    """
    if truth.normals is None:
        seen = torch.cat([x, fitted.encode(truth.sample(SAMPLES, generator))[0]])
        seen = seen[torch.isfinite(seen).all(1)]
        low, high = seen.amin(0), seen.amax(0)
        width = 0.5 * (high - low).clamp(min=1e-6)
        return OfDensity(
            lambda rows: truth.log_prob(fitted.decode(rows)) - fitted.log_det(rows), low - width, high + width
        )
    if fitted.centre is None:
        return OfBentGaussians(_components(truth.normals), fitted)
    return OfGaussians(_components(truth.normals.moved(-fitted.centre / fitted.sd, 1 / fitted.sd)))


def takes_quadrature(truth: Law) -> bool:
    """Whether each conditional of a truth takes many evaluations of its joint density."""
    return truth.normals is None


@final
class OfBentGaussians(Reference):
    """Of a mixture of Gaussians in data units, whose columns are encoded by any increasing map: its conditional in data
    units, carried to encoded ones by p(z) = p(x) |dx / dz|; by quadrature."""

    def __init__(self, components: Components, fitted: FittedLaw) -> None:
        self._components, self._fitted = components, fitted

    def numbers(self, x: Tensor, column: int, q: Transport) -> Numbers:
        law = column_law(self._components, self._fitted.decode(x), torch.full((len(x),), column))
        density, codec = mixture_log_prob(law), self._fitted.codec(column)

        def log_prob(z: Tensor) -> Tensor:
            values = z.numpy()
            volume = torch.from_numpy(np.asarray(codec.log_det(values)))
            return density(torch.from_numpy(np.asarray(codec.decode(values)))) - volume

        points = torch.from_numpy(np.asarray(codec.encode(over(law).numpy())))
        return Numbers(*compare_univariate(q, log_prob, points), False)

    def levels(self, x: Tensor, column: int, log_q: Tensor) -> tuple[Tensor, Tensor | None]:
        raise ValueError(f"dimension {column} of a mixture of Gaussians holds numbers")


def _components(normals: Normals) -> Components:
    """In the form of `column_law`."""
    lower = torch.linalg.cholesky(normals.covariances)
    logdet = 2 * lower.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    return Components(normals.weights.log(), normals.means, torch.cholesky_inverse(lower), logdet)
