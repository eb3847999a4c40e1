"""The steps of EM: one iteration with its safeguarded extrapolation, and the climb to the top."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from vgi_cli.models.gaussian_family import EmTable, EmValue, GaussianFamily
from vgi_cli.models.gaussians import Penalty


@torch.no_grad()
def iteration(model: GaussianFamily, table: EmTable, penalty: Penalty, accelerate: bool) -> EmValue:
    """One iteration in place: an EM step, or two and a safeguarded extrapolation that ends in a third.

    The value returned is that of the last state that was evaluated, one EM step behind the parameters.
    """
    before = _flat(model)
    value = model.em_step(table, penalty)
    if not accelerate:
        return value
    once = _flat(model)
    value = model.em_step(table, penalty)
    twice = _flat(model)
    step, curve = once - before, (twice - once) - (once - before)
    length = -(step.norm() / curve.norm().clamp(min=1e-300))
    if length > -1 or not bool(torch.isfinite(length)):
        return value
    _unflatten(model, before - 2 * length * step + length.square() * curve)
    try:
        reached = model.em_step(table, penalty)
    except torch.linalg.LinAlgError:  # extrapolated out of the positive definite matrices
        reached = EmValue(value.objective.new_full((), -torch.inf), value.loglik)
    if bool(reached.objective >= value.objective) and bool(torch.isfinite(_flat(model)).all()):
        return reached
    _unflatten(model, twice)
    return value


def nothing(iterations: int) -> None:
    """Where nobody watches a climb."""


def climb(
    model: GaussianFamily,
    table: EmTable,
    penalty: Penalty,
    *,
    epochs: int,
    tolerance: float,
    accelerate: bool = True,
    each: Callable[[int], None] = nothing,
) -> EmValue:
    """Iterate in place until an iteration gains less than `tolerance` nats a row, at most `epochs` times. `each` is
    told after every iteration how many are done; what it raises ends the climb."""
    rows = table.weights.sum()
    value = iteration(model, table, penalty, accelerate)
    for done in range(1, epochs):
        each(done)
        last, value = value, iteration(model, table, penalty, accelerate)
        if bool(value.objective - last.objective < tolerance * rows):
            break
    return value


def _flat(model: GaussianFamily) -> Tensor:
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


def _unflatten(model: GaussianFamily, values: Tensor) -> None:
    parts = values.split([p.numel() for p in model.parameters()])
    for parameter, part in zip(model.parameters(), parts, strict=True):
        parameter.copy_(part.view_as(parameter))
