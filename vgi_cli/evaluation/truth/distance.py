"""How far a fitted density is from the truth: KL(p* || p), Wasserstein distances, errors of
parameters once what does not identify a model is taken out (the rotation of factors, the order of components)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from vgi_cli.evaluation.imputation import sliced_wasserstein
from vgi_cli.evaluation.truth.distributions import Factors, FittedLaw, Law, Normals, log_cells
from vgi_cli.maths.divergences import gaussian_kl, gaussian_wasserstein2_squared, procrustes

SAMPLES = 10_000
"""Rows of the truth behind a Monte Carlo estimate."""
CELL_DRAWS = 16
"""Draws within the cell of each rounded row."""
CELLS = 2**19
"""Cells (draws x rows x columns) whose densities are computed at once: 4 MiB, times a model's own needs."""


def compare(truth: Law, fitted: FittedLaw, generator: torch.Generator) -> tuple[dict[str, Any], list[str]]:
    """The `truth` object of the report, and what is left out or estimated and why, one line each.

    Two single Gaussians are compared in closed form; otherwise KL is a Monte Carlo mean over rows of the truth, with
    its standard error, and the distance is the sliced 1-Wasserstein distance between samples. `standardised` units:
    columns divided by their standard deviation in the fitted table; `data`: as in the table.
    """
    first, second = _one(truth), _one(fitted)
    out: dict[str, Any] = {}
    notes = []
    if first is not None and second is not None:
        out["kl"] = float(gaussian_kl(*first, *second))
        out["kl_estimator"] = "exact"
        both = _both_units(fitted, lambda unit: gaussian_wasserstein2_squared(*_in(first, unit), *_in(second, unit)))
        out["wasserstein2_squared"] = both
    else:
        out |= _monte_carlo(truth, fitted, generator)
        out["sliced_wasserstein"] = _sliced(truth, fitted, generator)
        several = "it has a closed form for single Gaussians only, and there is a mixture of several"
        notes.append(f"truth: wasserstein2_squared is left out: {_obstacle(truth, fitted) or several}")
        if bool((fitted.steps > 0).any()):
            notes.append("truth: rounded columns are compared after rounding, by the probabilities of their values")
    rmse, note = _rmse(truth, fitted)
    if rmse:
        out["rmse"] = rmse
    if note is not None:
        notes.append(f"truth: {note}")
    return out, notes


def _one(law: Law) -> tuple[Tensor, Tensor] | None:
    """Mean [D] and covariance [D, D] of a law that is one Gaussian in data units."""
    normals = law.normals
    return None if normals is None or len(normals.weights) > 1 else (normals.means[0], normals.covariances[0])


def _in(one: tuple[Tensor, Tensor], unit: Tensor) -> tuple[Tensor, Tensor]:
    moved = Normals(unit.new_ones(1), one[0][None], one[1][None]).moved(torch.zeros_like(unit), 1 / unit)
    return moved.means[0], moved.covariances[0]


def _both_units(fitted: FittedLaw, value: Callable[[Tensor], Tensor]) -> dict[str, float]:
    """A number with columns divided by their standard deviation, and by 1."""
    return {"standardised": float(value(fitted.sd)), "data": float(value(torch.ones_like(fitted.sd)))}


def _obstacle(truth: Law, fitted: Law) -> str | None:
    """Why the two are not both mixtures of Gaussians in data units."""
    for what, law in (("the run", fitted), ("the truth", truth)):
        if law.obstacle is not None:
            return f"{law.obstacle} ({what})"
    return None


def _monte_carlo(truth: Law, fitted: FittedLaw, generator: torch.Generator) -> dict[str, Any]:
    """KL(truth || fitted) from rows of the truth; where the run's columns are rounded, between the laws of rounded
    rows: the same draws within the cell serve both sides, so that their errors mostly cancel."""
    x = fitted.rounded(truth.sample(SAMPLES, generator))
    draws = CELL_DRAWS if bool((fitted.steps > 0).any()) else 1
    ratios = []
    for rows in x.split(max(1, CELLS // (draws * x.shape[1]))):
        u = torch.rand(draws, *rows.shape, generator=generator, dtype=torch.float64)
        offsets = (u - 0.5) * fitted.steps
        ratios.append(log_cells(truth, rows, offsets) - log_cells(fitted, rows, offsets))
    ratio = torch.cat(ratios)
    return {
        "kl": float(ratio.mean()),
        "kl_se": float(ratio.std() / math.sqrt(len(ratio))),
        "kl_estimator": "monte carlo",
        "samples": SAMPLES,
    }


def _sliced(truth: Law, fitted: FittedLaw, generator: torch.Generator) -> dict[str, float]:
    """Between a sample of each, numbers standardised, indicators of levels; `noise`: between two of the truth."""
    one, two = (fitted.spread(fitted.rounded(truth.sample(SAMPLES, generator))) for _ in range(2))
    other = fitted.spread(fitted.rounded(fitted.sample(SAMPLES, generator)))
    return {
        "standardised": sliced_wasserstein(one, other, generator),
        "noise": sliced_wasserstein(one, two, generator),
    }


def _rmse(truth: Law, fitted: FittedLaw) -> tuple[dict[str, Any], str | None]:
    """Root mean squared errors of the parameters, or why there are none."""
    if fitted.factors is not None and truth.factors is not None:
        return factor_errors(fitted.factors, truth.factors, fitted.sd), None
    ours, theirs = fitted.learnt, truth.normals
    if ours is None or theirs is None:
        return {}, f"rmse is left out: {_obstacle(truth, fitted)}"
    if len(ours.weights) != len(theirs.weights):
        return {}, f"rmse is left out: the run has {_count(ours)}, the truth {_count(theirs)}"
    return component_errors(ours, theirs, fitted.sd), None


def _count(normals: Normals) -> str:
    K = len(normals.weights)
    return f"{K} components" if K > 1 else "1 component"


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
