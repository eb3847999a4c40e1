"""A joint family for the cells of one block: a conditional Gaussian with a Cholesky factor, or a small flow on top.

    U (x - mean) = s(u),  u standard normal,  s splines of one variable each (the identity: a Gaussian)

U is upper triangular and U' U the precision. It is made of the regressions of each cell on those after it (Pourahmadi
1999): row i is (x_i - mean_i - sum_k>i B_ik (x_k - mean_k)) / std_i, so every parameter has the size of a standardised
column.

Where a row misses only some cells of the block, those are drawn given the others, by the conditional of the Gaussian:
with A the wanted cells, O the others and P = U' U,

    x_A ~ N(mean_A - P_AA^-1 P_AO (x_O - mean_O), P_AA^-1).

With splines, s then acts on the coordinates that the Cholesky factor of P_AA whitens: a density of its own kind, of the
same parameters.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from vgi_cli.conditionals.families.gaussian import MAX_LOG_STD
from vgi_cli.conditionals.families.spline import BOUND
from vgi_cli.maths.splines import packed_rational_quadratic
from vgi_cli.maths.triangular import cholesky_upper, solve_upper, solve_upper_transposed

JITTER = 10.0
"""Times W and the precision's rounding error: added to the unit diagonal of a scaled P_AA before it is factorised."""


class JointFamily:
    """Blocks of at most W cells. What is [.., W] is filled up where a block is narrower; fillings are never wanted.

    Parameters that a network gives are turned into others that need nothing else of the row (`resolve`): mean [W] (the
    value itself at cells that are given), U [W, W] (the identity there), wanted [W] as 0 or 1, and the splines.

    steps, bins  splines of each cell and their bins; 0 steps: Gaussian
    """

    def __init__(self, W: int, steps: int, bins: int) -> None:
        self.W = W
        self.per_step = 3 * bins - 1
        self.splines = W * steps * self.per_step
        self.off = W * (W - 1) // 2
        self.width = 2 * W + self.off + self.splines
        i, k = torch.triu_indices(W, W, 1)
        table = torch.full((W, W), self.off)  # where each entry of B stands among the parameters; the last is 0
        table[i, k] = torch.arange(self.off)
        self._tables = {torch.device("cpu"): table.reshape(-1)}

    def resolve(self, params: Tensor, x: Tensor, wanted: Tensor, real: Tensor) -> Tensor:
        """Parameters [.., *] for blocks with values x [.., W], of which `wanted` are redrawn and `real` are no filling,
        from what a network gives [.., width]."""
        raw_mean, raw_log_std, off, splines = params.split([self.W, self.W, self.off, self.splines], -1)
        log_std = torch.where(real, MAX_LOG_STD * torch.tanh(raw_log_std / MAX_LOG_STD), 0.0)
        off = torch.cat([off, off.new_zeros(*off.shape[:-1], 1)], -1)
        B = off.index_select(-1, self.table(off.device)).unflatten(-1, (self.W, self.W))
        eye = torch.eye(self.W, dtype=B.dtype, device=B.device)
        U = torch.exp(-log_std)[..., None] * (eye - torch.where(real[..., None] & real[..., None, :], B, 0.0))
        mean = torch.where(wanted, raw_mean, x)
        part = ~(wanted | ~real).all(-1)
        if part.device.type != "cpu" or bool(part.any()):  # elsewhere than on the CPU reading it would wait
            U, shift = _given_the_others(U, torch.where(wanted | ~real, 0.0, x - raw_mean), wanted, part)
            mean = mean - shift
        return torch.cat([mean, U.flatten(-2), wanted.to(mean.dtype), splines], -1)

    def table(self, device: torch.device) -> Tensor:
        """Where each entry of B [W W] stands, on that device; kept, for copying there waits for the host."""
        if device not in self._tables:
            self._tables[device] = self._tables[torch.device("cpu")].to(device)
        return self._tables[device]

    def to_value(self, resolved: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
        """(x [.., W], log|det dx/du| over the wanted cells [..]) for u [.., W]; given cells keep their value."""
        mean, U, wanted, splines = self._parts(resolved)
        log_det = -U.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        for spline in splines:
            u, more = packed_rational_quadratic(u, spline, bound=BOUND)
            log_det = log_det + (more * wanted).sum(-1)
        return mean + solve_upper(U, u * wanted), log_det

    def to_base(self, resolved: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """(u [.., W], log|det du/dx|): the inverse of `to_value`; u is 0 at cells that are not wanted."""
        mean, U, wanted, splines = self._parts(resolved)
        u = (U * (x - mean)[..., None, :]).sum(-1)
        log_det = U.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        for spline in reversed(splines):
            u, more = packed_rational_quadratic(u, spline, bound=BOUND, inverse=True)
            log_det = log_det + (more * wanted).sum(-1)
        return u * wanted, log_det

    def wanted(self, resolved: Tensor) -> Tensor:
        """[.., W] 1 where a cell is redrawn, else 0."""
        return resolved[..., self.W + self.W**2 : 2 * self.W + self.W**2]

    def entropy(self, resolved: Tensor) -> Tensor | None:
        """Differential entropy [..] of the wanted cells, nats: n/2 log(2 pi e) - log det U; none with splines."""
        if self.splines:
            return None
        _, U, wanted, _ = self._parts(resolved)
        log_det = U.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        return 0.5 * math.log(2.0 * math.pi * math.e) * wanted.sum(-1) - log_det

    def _parts(self, resolved: Tensor) -> tuple[Tensor, Tensor, Tensor, list[Tensor]]:
        """mean, U, wanted, and the parameters of each spline, bins first."""
        mean, U, wanted, splines = resolved.split([self.W, self.W**2, self.W, self.splines], -1)
        packed = splines.unflatten(-1, (self.W, -1)).movedim(-1, 0).contiguous() if self.splines else splines
        steps = list(packed.split(self.per_step)) if self.splines else []
        return mean, U.unflatten(-1, (self.W, self.W)), wanted, steps


def _given_the_others(U: Tensor, known: Tensor, wanted: Tensor, part: Tensor) -> tuple[Tensor, Tensor]:
    """(U_A, P_AA^-1 P_AO (x_O - mean_O)) for the wanted cells A of the rows `part` [..], embedded in [.., W, W] and
    [.., W]; the others keep their U, and 0. known: x - mean at O, 0 elsewhere."""
    W = U.shape[-1]
    P = (U[..., None] * U[..., None, :]).sum(-3)
    both = wanted[..., None] & wanted[..., None, :]
    scale = torch.where(wanted, P.diagonal(dim1=-2, dim2=-1), 1.0).sqrt()
    eye = torch.eye(W, dtype=U.dtype, device=U.device)
    scaled = torch.where(both, P / (scale[..., None] * scale[..., None, :]), 0.0) * (1 - eye)
    # other rows factorise the identity, so that nothing can go wrong there (a gradient would carry it over)
    jitter = JITTER * W * torch.finfo(U.dtype).eps
    scaled = torch.where(part[..., None, None], scaled, 0.0) + eye * (1.0 + jitter)
    factor = cholesky_upper(scaled, jitter) * scale[..., None, :]
    gain = torch.where(wanted & part[..., None], (P * known[..., None, :]).sum(-1), 0.0)
    shift = solve_upper(factor, solve_upper_transposed(factor, gain))
    # the jitter must not reach a row that has none of this, nor a cell that is given
    factor = torch.where(both, factor, eye)
    return torch.where(part[..., None, None], factor, U), shift
