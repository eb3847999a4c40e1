"""Where `mvae` and `vbgi-m` have the optimum of their bounds on a linear autoencoder with one latent, for rows of a
known Gaussian. Expectations over rows, patterns of holes, imputations and z are in closed form: no fit, no rows."""

from __future__ import annotations

import itertools
import math

import torch
from torch import Tensor
from torch.distributions import MultivariateNormal


def linear_bound_optimum(sigma: Tensor, share: float, *, imputed: bool, steps: int = 2500) -> MultivariateNormal:
    """The law of x at the optimum of E [ log p(x_obs | z) ] - KL(q(z | x) ‖ p(z)), a share of the cells missing at
    random. p(x | z) = N(w z, diag psi), q(z | x) = N(a x, s²). Rows are N(0, sigma); the encoder sees 0 in their holes
    or, `imputed`, the stationary draws of the chain z ~ q(z | x), x_mis ~ p(x_mis | z): then the optimum is that of
    the bound whose imputations are held fixed."""
    D = len(sigma)
    seen = torch.tensor([p for p in itertools.product([1, 0], repeat=D) if any(p)]).to(sigma)  # [P, D] patterns
    weight = ((1 - share) ** seen.sum(1)) * share ** (1 - seen).sum(1)
    value, vector = torch.linalg.eigh(sigma)
    w = (vector[:, -1] * value[-1].sqrt()).requires_grad_()
    a = (0.2 * w).detach().requires_grad_()
    log_psi = sigma.diagonal().div(4).log().requires_grad_()
    log_s2 = torch.tensor(-1.0, dtype=sigma.dtype).requires_grad_()
    optimiser = torch.optim.Adam([w, a, log_psi, log_s2], lr=0.02)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    for _ in range(steps):
        psi, s2 = log_psi.exp(), log_s2.exp()
        with torch.no_grad():
            S = sigma * seen[:, :, None] * seen[:, None]  # [P, D, D] covariance of what the encoder sees
            S = completed(S, seen, w, psi, a, s2) if imputed else S
        variance = S @ a @ a  # of the encoder's mean
        square = S.diagonal(dim1=1, dim2=2) - 2 * w * (S @ a) + w.square() * (variance + s2)[:, None]
        terms = (math.log(2 * math.pi) + psi.log() + square / psi) * seen
        loss = 0.5 * (weight * (terms.sum(1) + s2 + variance - 1 - s2.log())).sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    with torch.no_grad():
        return MultivariateNormal(sigma.new_zeros(D), torch.outer(w, w) + torch.diag(log_psi.exp()))


def completed(S: Tensor, seen: Tensor, w: Tensor, psi: Tensor, a: Tensor, s2: Tensor) -> Tensor:
    """[P, D, D] covariance of completed rows; S [P, D, D] that of the observed cells, 0 elsewhere. With
    c = a_mis · w_mis a sweep makes z' = a_obs · x_obs + c z + noise of variance s² + a_mis² · psi_mis."""
    holes = 1 - seen
    c = (holes * a * w).sum(1)
    around = (s2 + (holes * a.square() * psi).sum(1)) / (1 - c.square())  # variance of z given x_obs
    onto = (holes * w)[:, :, None] * (seen * a)[:, None] / (1 - c)[:, None, None]  # mean of x_mis given x_obs
    cross = onto @ S
    own = around[:, None, None] * (holes * w)[:, :, None] * (holes * w)[:, None] + torch.diag_embed(holes * psi)
    return S + cross + cross.mT + cross @ onto.mT + own
