"""p(x_j | rest) of a model with latents: a mixture of the decoder's normals, weighted by importance sampling.

    p(x_j | x_rest) = ∫ p(x_j | z) p(z | x_rest) dz,    p(z | x_rest) by draws of z ~ q(z | x_rest) with weights
    p(x_rest | z) p(z) / q(z),

where q is the encoder's law beside a share of the prior (importance.py). The cell x_j itself enters neither.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from vgi_cli.evaluation.importance import better_proposal, proposed
from vgi_cli.evaluation.loglik import effective
from vgi_cli.imputers.frozen import frozen
from vgi_cli.maths.noise import KeyedNoise, mix64, numbered
from vgi_cli.models.base import Latent
from vgi_cli.models.gaussian_family import ColumnLaw

DRAWS = 1000
"""Draws of z for each cell."""
FEW = 20.0
"""Effective draws below which p(x_j | rest) is itself not known."""


class EstimatedLaw(NamedTuple):
    """The law of one column of R rows given the others, and the effective number of draws behind it, [R]."""

    law: ColumnLaw
    ess: Tensor


@torch.no_grad()
def latent_column_law(model: Latent, x: Tensor, column: int, seed: int = 0) -> EstimatedLaw:
    """The law of a column of completed rows x [R, D] (encoded), float64 on the CPU; deterministic given the seed."""
    like = next(model.parameters())
    rows = x.to(like)
    hidden = torch.zeros_like(rows, dtype=torch.bool)
    hidden[:, column] = True
    keys = mix64(torch.arange(len(rows), device=rows.device))
    noise = KeyedNoise(seed, numbered("column", x.shape[1]), keys, torch.arange(DRAWS), "conditionals/latents")
    q = better_proposal(model, rows, hidden, seed)(rows, hidden)
    with frozen(model):
        z, log_q = proposed(model, q, noise, rows)
        log_w = (model.observed_log_prob(rows, z, hidden).double() - log_q).nan_to_num(
            nan=-torch.inf, posinf=-torch.inf
        )
        decoded = model.decode(z).over(rows.expand(DRAWS, *rows.shape))
    mean, sd = (part[..., column].double().T.cpu() for part in (decoded.mean, decoded.scale))
    weights = log_w - log_w.logsumexp(0)
    return EstimatedLaw(ColumnLaw(weights.T.cpu(), mean, sd), effective(log_w).cpu())
