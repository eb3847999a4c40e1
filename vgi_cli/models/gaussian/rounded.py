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
from vgi_cli.maths.forests import inverted
from vgi_cli.maths.gaussian import LOG_2PI
from vgi_cli.maths.noise import KeyedNoise, mix64, numbered
from vgi_cli.maths.truncated import log_mass, truncated_mixture, truncated_normal
from vgi_cli.models.gaussian.family import EmTable, GaussianFamily, NumbersGiven

SWEEPS = 5
"""Gibbs sweeps from cells that are spread evenly: more change nothing on scales of five points. Few, where levels are
missing that shift numbers by much more than these vary beside them, and cells are two standard deviations wide."""
ROWS, SQUARES = 512, 1 << 20
"""Rows of a table at a time: as many as have so many elements in the squares of their laws, which bounds the memory,
and no fewer than the former."""


@torch.no_grad()
def redrawn(
    model: GaussianFamily,
    x: Tensor,
    missing: Tensor,
    rounding: Rounding,
    noise: KeyedNoise,
    sweeps: int | None = None,
) -> Tensor:
    """Rows x [R, D] with their observed rounded cells drawn anew from p(cells of the row, as they are rounded) by Gibbs
    sweeps over these, the numbers that are missing and the levels that shift these, in float64; missing [R, D] cells
    are left as they are.

    noise   of one draw
    sweeps  None: SWEEPS
    """
    low, high = (ends.to(x.device) for ends in rounding.ends(x))
    bounds = {j: (low[:, i], high[:, i]) for i, j in enumerate(rounding.dims)}
    columns = [j for j in range(x.shape[1]) if j in bounds or bool(missing[:, j].any())]
    state = model.conditional(x, missing).sample(noise.at("rounding"))[0].to(torch.float64)
    limits = {j: _limits(bounds, j, missing, state) for j in columns}
    levels = torch.zeros_like(missing)
    levels[:, list(model.shifting)] = missing[:, list(model.shifting)]
    moving = bool(levels.any())
    given = None if moving else model.given_levels(state, missing)
    for sweep in range(SWEEPS if sweeps is None else sweeps):
        if moving or given is None:  # else cells keep to the levels that were drawn when they were spread evenly
            _redraw_levels(model, state, levels, noise.at(f"rounding/{sweep}/levels").uniform(("levels",))[0, :, 0])
            given = model.given_levels(state, missing)
        u = noise.at(f"rounding/{sweep}").uniform()[0]
        choice = noise.at(f"rounding/{sweep}/component").uniform(tuple(noise.columns[:1]))[0, :, 0]
        _sweep(given, state, missing, limits, set(bounds), u, choice)
    return torch.where(missing, x, state.to(x.dtype))


Bounds: TypeAlias = dict[int, tuple[Tensor, Tensor]]
"""By dimension the least and the greatest value [R] of its cells."""


def _redraw_levels(model: GaussianFamily, x: Tensor, levels: Tensor, u: Tensor) -> None:
    """The levels [R, D] of complete rows x [R, D] drawn anew in place, together, given all else of their row, by
    uniforms u [R]; they are among those that shift numbers."""
    rows = levels.any(1).nonzero()[:, 0]
    of_row, every, given = model.given_combinations(x[rows], levels[rows])
    log_p = torch.logsumexp(_log_joint(given, every), -1)
    counts = torch.bincount(of_row, minlength=len(rows))
    first = counts.cumsum(0) - counts
    law = log_p.new_full((len(rows), int(counts.max())), -torch.inf)
    law[of_row, torch.arange(len(of_row), device=x.device) - first[of_row]] = log_p
    x[rows] = every[first + inverted(law.softmax(-1), u[rows])]


def _log_joint(given: NumbersGiven, x: Tensor) -> Tensor:
    """[R, K] log density of the numbers of rows x [R, D] and the component, up to a constant."""
    log_weights, mean, precision, logdet = given.components
    delta = _moved(given, x)[:, None] - mean
    quadratic = (torch.einsum("rkd,kde->rke", delta, precision) * delta).sum(-1)
    return log_weights - 0.5 * (quadratic + logdet)


def _moved(given: NumbersGiven, x: Tensor) -> Tensor:
    """[R, D'] the numbers of rows x [R, D] less the shifts by their levels."""
    return x[:, given.dims] if given.shift is None else x[:, given.dims] - given.shift


def _sweep(
    given: NumbersGiven, x: Tensor, missing: Tensor, limits: Bounds, rounded: set[int], u: Tensor, choice: Tensor
) -> None:
    """One sweep in place over the numbers of rows x [R, D] that have `limits`, some of them rounded: first of all a
    component is drawn for each row, given its numbers and its observed levels, then each cell given the others and
    that."""
    weight = torch.softmax(_log_joint(given, x), -1)
    component = (choice[:, None] > weight.cumsum(-1)[:, :-1]).sum(-1)
    own = given.components.precision[component]  # [R, D', D']
    slope = torch.einsum("rde,re->rd", own, _moved(given, x) - given.components.mean[component])
    widths = own.diagonal(dim1=-2, dim2=-1).rsqrt()
    squares = widths.square()
    for place, j in enumerate(given.dims):
        if j not in limits:
            continue
        width = widths[:, place]
        centre = x[:, j] - slope[:, place] * squares[:, place]
        low, high = limits[j]
        inside = truncated_normal((low - centre) / width, (high - centre) / width, u[:, j])
        drawn = torch.minimum(torch.maximum(centre + width * inside, low), high)
        drawn = drawn if j in rounded else torch.where(missing[:, j], drawn, x[:, j])
        slope += (drawn - x[:, j])[:, None] * own[:, place]
        x[:, j] = drawn


def _limits(bounds: Bounds, j: int, missing: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """[R] between which values the cells of dimension j lie: of rounded ones, `bounds`, where they are observed."""
    far = x.new_full((len(x),), torch.inf)
    if j not in bounds:
        return -far, far
    low, high = bounds[j]
    return torch.where(missing[:, j], -far, low), torch.where(missing[:, j], far, high)


def redrawn_rows(model: GaussianFamily, x: Tensor, missing: Tensor, rounding: Rounding, seed: int) -> Tensor:
    """The same of rows [N, D] that lie in memory, a part of them at a time."""
    out = x.clone()
    for rows in torch.arange(len(x)).split(_at_once(x)):
        out[rows] = redrawn(model, x[rows], missing[rows], rounding, _noise(seed, x, rows))
    return out


def redrawn_table(model: GaussianFamily, table: EmTable, rounding: Rounding, seed: int) -> EmTable:
    """The same of the sorted rows of a table, in a file where they lie in one."""
    x, scratch, of_row = table.x, table.scratch, table.patterns.of_row
    out = torch.empty_like(x) if scratch is None else scratch.zeros(*x.shape, dtype=x.dtype)
    many = _at_once(x)
    for start in range(0, len(x), many):
        rows = slice(start, start + many)
        missing = table.patterns.missing[of_row[rows]]
        out[rows] = redrawn(model, x[rows], missing, rounding, _noise(seed, x, mix64(table.order[rows])))
    return table.at(out)


def _at_once(x: Tensor) -> int:
    """How many of rows [N, D]."""
    return max(ROWS, SQUARES // x.shape[1] ** 2)


def _noise(seed: int, x: Tensor, keys: Tensor) -> KeyedNoise:
    return KeyedNoise(seed, numbered("column", x.shape[1]), keys, torch.tensor([0]))


CELLS = 1 << 22
"""Elements of the triangles of rows that are looked at together: bounds the memory."""


@torch.no_grad()
def log_cells(model: GaussianFamily, x: Tensor, missing: Tensor, rounding: Rounding, noise: KeyedNoise) -> Tensor:
    """[R] log p(observed cells), nats: of rounded cells the probability, of the others the density, encoded; from one
    draw of the noise, of which the average over draws of p is without bias (the sampler of Geweke 1991, Hajivassiliou
    and McFadden 1998, and Keane 1994, for mixtures of normals).

    x, missing [R, D]. Where levels shift the numbers, a row counts once for each combination of them that agrees with
    what is observed of it.
    """
    of_row, _, given = model.given_combinations(x, missing)
    (log_weights, mean, precision, _), shift = given.components, given.shift
    wide = [j for j in given.dims if j in set(rounding.dims)]
    order = [j for j in given.dims if j not in set(wide)] + wide
    place = torch.tensor([given.dims.index(j) for j in order], dtype=torch.int64, device=x.device)
    covariance = torch.linalg.inv(precision)[:, place][:, :, place]
    mean, first = mean[:, place], len(order) - len(wide)
    values, absent = x[of_row][:, order].to(torch.float64), missing[of_row][:, order]
    low, high = (ends.to(x.device)[of_row][:, [rounding.dims.index(j) for j in wide]] for ends in rounding.ends(x))
    if shift is not None:
        values, low, high = values - shift[:, place], low - shift[:, place[first:]], high - shift[:, place[first:]]
    u, choice = (part[of_row][:, order] for part in (noise.uniform()[0], noise.at("component").uniform()[0]))
    parts = [log_weights.new_empty(0)]
    for rows in torch.arange(len(of_row), device=x.device).split(
        max(1, CELLS // (len(mean) * max(len(order), 1) ** 2))
    ):
        known = ~absent[rows]
        both = known[:, None, :, None] & known[:, None, None, :]
        filled = torch.where(both, covariance, 0.0) + torch.diag_embed((~known).to(torch.float64))[:, None]
        triangle = torch.linalg.cholesky(filled)  # [R, K, D', D']
        residual = torch.where(known[:, None, :first], values[rows][:, None, :first] - mean[:, :first], 0.0)
        begun = torch.linalg.solve_triangular(triangle[:, :, :first, :first], residual[..., None], upper=False)[..., 0]
        widths = triangle.diagonal(dim1=-2, dim2=-1)
        density = -0.5 * begun.square() - widths[..., :first].log() - 0.5 * LOG_2PI
        weight = log_weights[rows] + torch.where(known[:, None, :first], density, 0.0).sum(-1)
        total = torch.logsumexp(weight, -1)
        steps = list(begun.unbind(-1))
        for at, i in enumerate(range(first, len(order))):
            before = torch.stack(steps, -1) if steps else weight.new_empty(*weight.shape, 0)
            centre, width = mean[:, i] + (triangle[:, :, i, :i] * before).sum(-1), widths[..., i]
            a = (low[rows, at][:, None] - centre) / width
            b = (high[rows, at][:, None] - centre) / width
            inside = torch.where(known[:, i, None], log_mass(a, b), 0.0)
            total = total + torch.logsumexp(weight + inside, -1) - torch.logsumexp(weight, -1)
            drawn = truncated_mixture(
                torch.log_softmax(weight, -1), centre, width, low[rows, at], high[rows, at], choice[rows, i], u[rows, i]
            )
            step = torch.where(known[:, i, None], (drawn[:, None] - centre) / width, 0.0)
            weight = weight + torch.where(known[:, i, None], -0.5 * step.square() - width.log(), 0.0)
            steps.append(step)
        parts.append(total)
    return _added(torch.cat(parts), of_row, len(x))


def _added(log_p: Tensor, of_row: Tensor, R: int) -> Tensor:
    """[R] the logarithm of the sum of p over what stands for each row."""
    most = log_p.new_full((R,), torch.finfo(log_p.dtype).min).scatter_reduce(0, of_row, log_p, "amax")
    return most + log_p.new_zeros(R).index_add(0, of_row, (log_p - most[of_row]).exp()).log()
