"""Where within their rounding the observed cells of rows lie, drawn from a model (data augmentation for coarse data:
Heitjan and Rubin 1990).

A rounded cell stands for all encoded values that are read back as it. Spread evenly over these, whatever the rest of
the row says, the cells of a scale of five points have a fifth of their variance from that noise, columns correlate
less than they do, and what is drawn under such a fit less again. Drawn from the model given the rest of the row, they
lie where they belong, and a fit to them is one to the probabilities of the cells.
"""

from __future__ import annotations

from typing import TypeAlias

import torch
from torch import Tensor

from vgi_cli.data import Rounding
from vgi_cli.maths.noise import KeyedNoise, numbered
from vgi_cli.maths.truncated import truncated_normal
from vgi_cli.models.gaussian.family import GaussianFamily, NumbersGiven

SWEEPS = 5
"""Gibbs sweeps from cells that are spread evenly: more change nothing on scales of five points."""
ROWS = 512
"""Rows of a table at a time: bounds the memory of their laws."""


@torch.no_grad()
def redrawn(
    model: GaussianFamily, x: Tensor, missing: Tensor, rounding: Rounding, noise: KeyedNoise, sweeps: int = SWEEPS
) -> Tensor:
    """Rows x [R, D] with their observed rounded cells drawn anew from p(cells of the row, as they are rounded) by Gibbs
    sweeps over these and the holes, in float64; missing [R, D] cells are left as they are.

    noise  of one draw
    """
    low, high = (ends.to(x.device) for ends in rounding.ends(x))
    bounds = {j: (low[:, i], high[:, i]) for i, j in enumerate(rounding.dims)}
    columns = {j for j in range(x.shape[1]) if j in bounds or bool(missing[:, j].any())}
    state = model.conditional(x, missing).sample(noise.at("rounding"))[0].to(torch.float64)
    given = model.given_levels(state, missing)
    for sweep in range(sweeps):
        u = noise.at(f"rounding/{sweep}").uniform()[0]
        choice = noise.at(f"rounding/{sweep}/component").uniform()[0]
        _sweep(given, state, missing, bounds, columns, u, choice[:, 0])
    return torch.where(missing, x, state.to(x.dtype))


Bounds: TypeAlias = dict[int, tuple[Tensor, Tensor]]
"""By dimension the least and the greatest value [R] of its rounded cells."""


def _sweep(
    given: NumbersGiven, x: Tensor, missing: Tensor, bounds: Bounds, columns: set[int], u: Tensor, choice: Tensor
) -> None:
    """One sweep in place over the numbers among some columns of rows x [R, D]: first of all a component is drawn for
    each row, given its numbers and its observed levels, then each cell given the others and that."""
    dims, (log_weights, mean, precision, logdet), shift = given
    numbers = x[:, dims] if shift is None else x[:, dims] - shift
    delta = numbers[:, None] - mean
    quadratic = (torch.einsum("rkd,kde->rke", delta, precision) * delta).sum(-1)
    weight = torch.softmax(log_weights - 0.5 * (quadratic + logdet), -1)
    component = (choice[:, None] > weight.cumsum(-1)[:, :-1]).sum(-1)
    own = precision[component]  # [R, D', D']
    slope = torch.einsum("rde,re->rd", own, numbers - mean[component])
    for place, j in enumerate(dims):
        if j not in columns:
            continue
        width = own[:, place, place].rsqrt()
        centre = x[:, j] - slope[:, place] * width.square()
        low, high = _limits(bounds, j, missing, x)
        inside = truncated_normal((low - centre) / width, (high - centre) / width, u[:, j])
        drawn = torch.minimum(torch.maximum(centre + width * inside, low), high)
        drawn = drawn if j in bounds else torch.where(missing[:, j], drawn, x[:, j])
        slope += (drawn - x[:, j])[:, None] * own[:, place]
        x[:, j] = drawn


def _limits(bounds: Bounds, j: int, missing: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """[R] between which values the cells of dimension j lie: of rounded ones, where they are observed."""
    far = x.new_full((len(x),), torch.inf)
    if j not in bounds:
        return -far, far
    low, high = bounds[j]
    return torch.where(missing[:, j], -far, low), torch.where(missing[:, j], far, high)


def redrawn_rows(
    model: GaussianFamily, x: Tensor, missing: Tensor, rounding: Rounding, seed: int, keys: Tensor | None = None
) -> Tensor:
    """The same of all rows of a table [N, D], a part of them at a time; keys [N] of their noise (their numbers)."""
    keys = torch.arange(len(x)) if keys is None else keys
    parts, names = [x[:0]], numbered("column", x.shape[1])
    for start in range(0, len(x), ROWS):
        rows = slice(start, start + ROWS)
        noise = KeyedNoise(seed, names, keys[rows], torch.tensor([0]))
        parts.append(redrawn(model, x[rows], missing[rows], rounding, noise))
    return torch.cat(parts)
