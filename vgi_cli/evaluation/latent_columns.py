"""p(x_j | rest) of a model with latents: a mixture of the decoder's laws of that cell, normals or probabilities of
levels, weighted by importance sampling.

    p(x_j | x_rest) = ∫ p(x_j | z) p(z | x_rest) dz,    p(z | x_rest) by draws of z ~ q(z | x_rest) with weights
    p(x_rest | z) p(z) / q(z),

where q is the encoder's law beside a share of the prior (importance.py). The law of a cell does not see that cell.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from vgi_cli.errors import UsageError
from vgi_cli.evaluation.likelihood.importance import EncoderProposal, proposed
from vgi_cli.evaluation.likelihood.loglik import effective
from vgi_cli.maths.cells import MixedCells
from vgi_cli.maths.diagonal import DiagonalNormal
from vgi_cli.maths.laws import CellsLaw
from vgi_cli.maths.noise import KeyedNoise, mix64, numbered
from vgi_cli.models.base import Latent
from vgi_cli.models.gaussian.family import ColumnLaw
from vgi_cli.samplers.base import frozen

DRAWS = 1000
"""Draws of z for each cell."""
ROWS = 16
"""Rows that are looked at together: bounds the memory."""
FEW = 20.0
"""Effective draws below which p(x_j | rest) is itself not known."""


@torch.no_grad()
def latent_column_laws(
    model: Latent, proposal: EncoderProposal, x: Tensor, column: int, seed: int = 0
) -> Iterator[tuple[slice, tuple[ColumnLaw, Tensor]]]:
    """The law of a continuous column of completed rows x [R, D] (encoded) given the others, and the effective number of
    draws behind it [R]: float64 on the CPU, a few rows at a time; deterministic given the seed. UsageError for a
    decoder whose cells are not normal."""
    for some, decoded, log_w in _weighted(model, proposal, x, column, seed):
        normal, place = decoded, column
        if isinstance(decoded, MixedCells):
            normal, place = decoded.normal, int((decoded.places.continuous == column).nonzero())
        if not isinstance(normal, DiagonalNormal):
            raise UsageError("--conditionals needs a decoder of normal columns", "leave it out for this model")
        over = normal.over(normal.mean.new_zeros(*log_w.shape, normal.mean.shape[-1]))
        mean, sd = (part[..., place].double().T.cpu() for part in (over.mean, over.scale))
        weights = log_w - log_w.logsumexp(0)
        yield some, (ColumnLaw(weights.T.cpu(), mean, sd), effective(log_w).cpu())


@torch.no_grad()
def latent_level_laws(
    model: Latent, proposal: EncoderProposal, x: Tensor, column: int, levels: int, seed: int = 0
) -> Iterator[tuple[slice, tuple[Tensor, Tensor]]]:
    """The same of a column of `levels` levels: their log probabilities [R, levels] instead of a law."""
    for some, decoded, log_w in _weighted(model, proposal, x, column, seed):
        weights = log_w - log_w.logsumexp(0)
        rows = x[some].to(next(model.parameters()))
        each = []
        for level in range(levels):
            log_p = decoded.log_cells(rows.index_fill(1, torch.tensor(column, device=rows.device), level))[..., column]
            each.append((weights + log_p.double()).logsumexp(0))
        yield some, (torch.stack(each, 1).cpu(), effective(log_w).cpu())


def _weighted(
    model: Latent, proposal: EncoderProposal, x: Tensor, column: int, seed: int
) -> Iterator[tuple[slice, CellsLaw, Tensor]]:
    """A few rows at a time, the decoder's laws at DRAWS draws of z given what the rows [R, D] hold elsewhere, and the
    log weights of the draws [DRAWS, R] (float64)."""
    like = next(model.parameters())
    rows = x.to(like)
    hidden = torch.zeros_like(rows, dtype=torch.bool)
    hidden[:, column] = True
    keys = mix64(torch.arange(len(rows), device=rows.device))
    noise = KeyedNoise(seed, numbered("column", x.shape[1]), keys, torch.arange(DRAWS), "conditionals/latents")
    for first in range(0, len(rows), ROWS):
        some = slice(first, first + ROWS)
        index = torch.arange(len(rows), device=rows.device)[some]
        q = proposal(rows[some], hidden[some])
        with frozen(model):
            z, log_q = proposed(model, q, noise.select(rows=index), rows[some])
            decoded = model.decode(z)
            joint = decoded.log_prob(rows[some], hidden[some]) + model.prior.log_prob(z)
        yield some, decoded, (joint.double() - log_q).nan_to_num(nan=-torch.inf, posinf=-torch.inf)
