"""Root mean squared errors of parameters, once what does not identify a model is taken out: the rotation of factors,
the order of components."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from vgi_cli.evaluation.truth.laws import Factors, Normals
from vgi_cli.maths.divergences import gaussian_wasserstein2_squared, procrustes


def factor_errors(ours: Factors, theirs: Factors, sd: Tensor) -> dict[str, Any]:
    """Errors of mean, F and psi, in units of sd [D] (`standardised`) and of the data.

    F is first turned by the orthogonal matrix that brings it nearest to the truth, in each unit its own. The F with
    fewer factors is filled up with columns of 0, which change no law.
    """
    L = max(ours.F.shape[1], theirs.F.shape[1])

    def errors(part: Callable[[Factors, Factors], Tensor]) -> dict[str, float]:
        zero = torch.zeros_like(sd)
        units = {"standardised": 1 / sd, "data": torch.ones_like(sd)}
        return {name: _rms(part(ours.moved(zero, unit), theirs.moved(zero, unit))) for name, unit in units.items()}

    out = {"mean": errors(lambda a, b: a.mean - b.mean)}
    if L:
        out["F"] = errors(lambda a, b: procrustes(_wide(a.F, L), _wide(b.F, L)) - _wide(b.F, L))
    out["psi"] = errors(lambda a, b: a.psi - b.psi)
    return out


def component_errors(ours: Normals, theirs: Normals, sd: Tensor) -> dict[str, Any]:
    """Errors of weights, means and covariances of two mixtures of K Gaussians, units as in `factor_errors`.

    Component by component, in the order in which their squared 2-Wasserstein distances have the least sum
    (standardised units, in both units the same order).
    """
    from scipy.optimize import linear_sum_assignment  # takes half a second, and only this report needs it

    zero = torch.zeros_like(sd)
    a, b = ours.moved(zero, 1 / sd), theirs.moved(zero, 1 / sd)
    order = torch.from_numpy(linear_sum_assignment(_distances(b, a).numpy(force=True))[1])
    out: dict[str, Any] = {"weights": _rms(ours.weights[order] - theirs.weights)} if len(order) > 1 else {}
    pairs = {"standardised": (a, b), "data": (ours, theirs)}
    out["means"] = {unit: _rms(one.means[order] - two.means) for unit, (one, two) in pairs.items()}
    out["covariances"] = {unit: _rms(one.covariances[order] - two.covariances) for unit, (one, two) in pairs.items()}
    return out


def _distances(a: Normals, b: Normals) -> Tensor:
    """[K, K] squared 2-Wasserstein distances of the components."""
    rows = [
        torch.stack([gaussian_wasserstein2_squared(m, S, n, T) for n, T in zip(b.means, b.covariances, strict=True)])
        for m, S in zip(a.means, a.covariances, strict=True)
    ]
    return torch.stack(rows)


def _wide(F: Tensor, L: int) -> Tensor:
    return torch.nn.functional.pad(F, (0, L - F.shape[1]))


def _rms(x: Tensor) -> float:
    return float(x.square().mean().sqrt())
