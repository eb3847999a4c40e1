"""Draws from laws truncated to an interval: normals and their mixtures far into the tails, and any density."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

CELLS = 256
"""Of the grid on which a density that has no closed form is inverted."""


def log_mass(low: Tensor, high: Tensor) -> Tensor:
    """log(Phi(high) - Phi(low)) for low < high, without cancellation: the interval is mirrored into the lower tail."""
    flip = low > 0
    a, b = torch.where(flip, -high, low), torch.where(flip, -low, high)
    upper: Tensor = torch.special.log_ndtr(b)
    lower: Tensor = torch.special.log_ndtr(a)
    return upper + torch.log1p(-torch.exp(lower - upper).clamp(max=1 - 1e-16))


def truncated_normal(low: Tensor, high: Tensor, u: Tensor) -> Tensor:
    """A standard normal truncated to [low, high] by its inverse distribution function at u in (0, 1).

    Works in the lower tail; where even the logarithm of the probability is beyond the inverse's reach (some 37 standard
    deviations out) the tail is an exponential to high accuracy (rate |b|).
    """
    flip = low > 0
    a, b = torch.where(flip, -high, low), torch.where(flip, -low, high)
    v = torch.where(flip, 1 - u, u)
    upper = torch.special.log_ndtr(b)
    ratio = torch.exp(torch.special.log_ndtr(a) - upper)  # Phi(a) / Phi(b)
    part = torch.log(ratio + v * (1 - ratio))
    log_p = upper + part
    central = torch.special.ndtri(torch.exp(log_p))
    # lower tail: t = b - e, e exponential with rate |b| up to relative error 1 / b^2, truncated at b - a
    rate = b.abs().clamp(min=1.0)
    tail = b + part / rate
    z = torch.where(b < -30.0, tail, central)
    z = torch.minimum(torch.maximum(z, a), b)  # rounding only: the inverse is monotone and maps into [a, b]
    return torch.where(flip, -z, z)


def truncated_mixture(
    log_weights: Tensor, mean: Tensor, sd: Tensor, low: Tensor, high: Tensor, choice: Tensor, u: Tensor
) -> Tensor:
    """One draw [R] of mixtures of normals truncated to [low, high], scalars or [R]; log_weights, mean, sd [R, K];
    choice, u [R]."""
    a, b = (low[..., None] - mean) / sd, (high[..., None] - mean) / sd
    weights = torch.softmax(log_weights + log_mass(a, b), -1)
    component = (choice[:, None] > weights.cumsum(-1)[:, :-1]).sum(-1, keepdim=True)
    z = truncated_normal(a.gather(1, component)[:, 0], b.gather(1, component)[:, 0], u)
    x = mean.gather(1, component)[:, 0] + sd.gather(1, component)[:, 0] * z
    return torch.minimum(torch.maximum(x, low), high)  # the last bit of the way back from units of sd


def truncated_on_grid(log_density: Callable[[Tensor], Tensor], low: Tensor, high: Tensor, u: Tensor) -> Tensor:
    """One draw [R] of each row's density truncated to [low, high] (finite scalars), by its distribution function at u
    [R] in (0, 1).

    log_density  values [G] -> log density [R, G] of each row, up to a constant of the row

    The density is taken as constant in each of CELLS cells, at its value in the middle: what is narrower than a cell,
    (high - low) / CELLS, is not resolved.
    """
    width = (high - low) / CELLS
    middles = low + width * (torch.arange(CELLS, dtype=u.dtype, device=u.device) + 0.5)
    mass = torch.softmax(log_density(middles), -1).cumsum(-1)  # at the right end of each cell
    reached = u * mass[:, -1]
    cell = (reached[:, None] > mass[:, :-1]).sum(-1, keepdim=True)
    left = torch.cat([torch.zeros_like(mass[:, :1]), mass[:, :-1]], -1).gather(1, cell)[:, 0]
    right = mass.gather(1, cell)[:, 0]
    share = (reached - left) / (right - left).clamp(min=torch.finfo(mass.dtype).tiny)
    x = low + width * (cell[:, 0].to(u.dtype) + share)
    return torch.minimum(torch.maximum(x, low), high)
