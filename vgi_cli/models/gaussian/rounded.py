"""Where within their rounding the observed cells of rows lie, drawn from a model (data augmentation for coarse data:
Heitjan and Rubin 1990).

A rounded cell stands for all encoded values that are read back as it. Spread evenly over these, whatever the rest of
the row says, the cells of a scale of five points have a fifth of their variance from that noise, columns correlate
less than they do, and what is drawn under such a fit less again. Drawn from the model given the rest of the row, they
lie where they belong, and a fit to them is one to the probabilities of the cells.
"""

from __future__ import annotations

import torch
from torch import Tensor

from vgi_cli.data import Rounding
from vgi_cli.maths.noise import KeyedNoise, numbered
from vgi_cli.models.gaussian.family import GaussianFamily

SWEEPS = 10
"""Gibbs sweeps from cells that are spread evenly: a scale of five points forgets that in a few."""
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
    place = {j: i for i, j in enumerate(rounding.dims)}
    columns = [j for j in range(x.shape[1]) if j in place or bool(missing[:, j].any())]
    laws = model.cell_laws()
    state = model.conditional(x, missing).sample(noise.at("rounding"))[0].to(torch.float64)
    far = torch.full((), torch.inf, dtype=torch.float64, device=x.device)
    for sweep in range(sweeps):
        u = noise.at(f"rounding/{sweep}").uniform()[0]
        choice = noise.at(f"rounding/{sweep}/component").uniform()[0]
        for j in columns:
            absent = missing[:, j]
            least, most = -far, far
            if j in place:
                least = torch.where(absent, -far, low[:, place[j]])
                most = torch.where(absent, far, high[:, place[j]])
            drawn = laws.redraw(state, j, least, most, choice[:, j], u[:, j])
            state[:, j] = drawn if j in place else torch.where(absent, drawn, state[:, j])
    return torch.where(missing, x, state.to(x.dtype))


def redrawn_rows(
    model: GaussianFamily, x: Tensor, missing: Tensor, rounding: Rounding, seed: int, keys: Tensor | None = None
) -> Tensor:
    """The same of all rows of a table [N, D], a part of them at a time; keys [N] of their noise (None: their numbers)."""
    keys = torch.arange(len(x)) if keys is None else keys
    parts, names = [x[:0]], numbered("column", x.shape[1])
    for start in range(0, len(x), ROWS):
        rows = slice(start, start + ROWS)
        noise = KeyedNoise(seed, names, keys[rows], torch.tensor([0]))
        parts.append(redrawn(model, x[rows], missing[rows], rounding, noise))
    return torch.cat(parts)
