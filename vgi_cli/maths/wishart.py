"""Wishart and inverse Wishart draws of covariances, by Cholesky factors, and the normaliser that their densities share.

P ~ Wishart(df, A) has density proportional to |P|^((df - D - 1) / 2) exp(-tr(A^-1 P) / 2) and mean df A; P^-1 is then
inverse Wishart with df degrees of freedom and scale A^-1. Draws are by Bartlett's (1933) decomposition, taken in
reverse order, which leaves the factor of an inverse Wishart draw triangular: no matrix is inverted.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def _bartlett(df: Tensor, D: int, rng: np.random.Generator) -> Tensor:
    """[..., D, D] upper triangular U with U U' ~ Wishart(df, identity), for degrees of freedom df [...] > D - 1."""
    shape = (*df.shape, D)
    steps = torch.arange(D - 1, -1, -1, dtype=torch.float64)
    squares = 2.0 * rng.standard_gamma(((df[..., None] - steps) / 2).numpy(), shape)
    above = torch.from_numpy(rng.standard_normal((*shape, D))).triu(1)
    return above + torch.diag_embed(torch.from_numpy(squares).sqrt())


def inverse_wishart(df: Tensor, factor: Tensor, rng: np.random.Generator) -> Tensor:
    """[..., D, D] lower Cholesky factors of inverse Wishart draws.

    df [...] degrees of freedom, above D - 1; factor [..., D, D] lower Cholesky factors L of the scales: with U U' ~
    Wishart(df, identity) a draw is L (U U')^-1 L', whose factor is L U^-T. All float64.
    """
    upper = _bartlett(df, factor.shape[-1], rng)
    found: Tensor = torch.linalg.solve_triangular(upper.mT, factor, upper=False, left=False)
    return found


def wishart(df: Tensor, factor: Tensor, rng: np.random.Generator) -> Tensor:
    """[..., D, D] Wishart draws.

    df [...] degrees of freedom, above D - 1; factor [..., D, D] lower Cholesky factors L of the inverses of the scales:
    a draw is L^-T U U' L^-1. All float64.
    """
    upper = _bartlett(df, factor.shape[-1], rng)
    half: Tensor = torch.linalg.solve_triangular(factor.mT, upper, upper=True)
    return half @ half.mT


def log_integral(df: Tensor, logdet: Tensor, D: int) -> Tensor:
    """[...] log of the integral of |P|^((df - D - 1) / 2) exp(-tr(B P) / 2) over positive definite P [D, D], for
    degrees of freedom df [...] and log |B| [...]."""
    return torch.mvlgamma(df / 2, D) + 0.5 * df * (D * torch.log(torch.tensor(2.0, dtype=df.dtype)) - logdet)
