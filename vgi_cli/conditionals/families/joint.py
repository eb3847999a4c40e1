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
from dataclasses import dataclass

import torch
from torch import Tensor

from vgi_cli.conditionals.families.base import BOUND, MAX_LOG_STD, BlockFamily
from vgi_cli.maths.laws import WIDE_SCALE, MappedLaw, normal_log_prob
from vgi_cli.maths.splines import packed_rational_quadratic

JITTER = 10.0
"""Times W and the precision's rounding error: added to the unit diagonal of a scaled P_AA before it is factorised."""


@dataclass(frozen=True)
class JointLaw(MappedLaw):
    """The wanted cells of blocks; values [.., W] have the given ones where nothing is wanted.

    mean     [.., W], the value itself at cells that are given
    U        [.., W, W], the identity there
    wanted   [.., W] 1 where a cell is drawn, else 0
    splines  the parameters of each [3 bins - 1, .., W]; empty: a Gaussian
    share    as in MappedLaw: of the draws that are wide, all of their cells; noise is then [.., W + 1], and the last
             number chooses
    """

    mean: Tensor
    U: Tensor
    wanted: Tensor
    splines: tuple[Tensor, ...]

    def to_value(self, u: Tensor) -> tuple[Tensor, Tensor]:
        """(x [.., W], log|det dx/du| over the wanted cells [..]) for u [.., W]; given cells keep their value."""
        log_det = -self.U.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        for spline in self.splines:
            u, more = packed_rational_quadratic(u, spline, bound=BOUND)
            log_det = log_det + (more * self.wanted).sum(-1)
        return self.mean + solve_upper(self.U, u * self.wanted), log_det

    def to_base(self, value: Tensor) -> tuple[Tensor, Tensor]:
        """(u [.., W], log|det du/dx|): the inverse of `to_value`; u is 0 at cells that are not wanted."""
        u = (self.U * (value - self.mean)[..., None, :]).sum(-1)
        log_det = self.U.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        for spline in reversed(self.splines):
            u, more = packed_rational_quadratic(u, spline, bound=BOUND, inverse=True)
            log_det = log_det + (more * self.wanted).sum(-1)
        return u * self.wanted, log_det

    def entropy(self) -> Tensor | None:
        """Of the wanted cells of a Gaussian: n/2 log(2 pi e) - log det U."""
        if self.share or self.splines:
            return None
        log_det = self.U.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        return 0.5 * math.log(2.0 * math.pi * math.e) * self.wanted.sum(-1) - log_det

    def _base(self, noise: Tensor) -> Tensor:
        W = self.mean.shape[-1]
        if not self.share:
            return noise[..., :W]
        wide = torch.special.ndtr(noise[..., W]) < self.share
        return noise[..., :W] * torch.where(wide, WIDE_SCALE, 1.0)[..., None]

    def _log_base(self, u: Tensor) -> Tensor:
        """[..] log of (1 - w) N(u; 0, I) + w N(u; 0, s^2 I) over the wanted cells, w the share."""
        narrow = (normal_log_prob(u) * self.wanted).sum(-1)
        if not self.share:
            return narrow
        wide = ((normal_log_prob(u / WIDE_SCALE) - math.log(WIDE_SCALE)) * self.wanted).sum(-1)
        return torch.logaddexp(narrow + math.log1p(-self.share), wide + math.log(self.share))


class JointFamily(BlockFamily):
    """Blocks of at most W cells. What is [.., W] is filled up where a block is narrower; fillings are never wanted.

    steps, bins  splines of each cell and their bins; 0 steps: Gaussian
    """

    def __init__(self, W: int, steps: int, bins: int) -> None:
        self.W = self.fresh_width = W
        self.noise_width = W + 1
        self.per_step = 3 * bins - 1
        self.splines = W * steps * self.per_step
        self.off = W * (W - 1) // 2
        self.width = 2 * W + self.off + self.splines
        i, k = torch.triu_indices(W, W, 1)
        table = torch.full((W, W), self.off)  # where each entry of B stands among the parameters; the last is 0
        table[i, k] = torch.arange(self.off)
        self._tables = {torch.device("cpu"): table.reshape(-1)}

    def law(self, params: Tensor, x: Tensor, wanted: Tensor, real: Tensor) -> JointLaw:
        raw_mean, U, steps = self.parts(params, real)
        return self.given(raw_mean, U, steps, x, wanted, real)

    def parts(self, params: Tensor, real: Tensor) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
        """Mean [.., W], U [.., W, W] and the splines of blocks with parameters [.., width]."""
        raw_mean, raw_log_std, off, splines = params.split([self.W, self.W, self.off, self.splines], -1)
        log_std = torch.where(real, MAX_LOG_STD * torch.tanh(raw_log_std / MAX_LOG_STD), 0.0)
        off = torch.cat([off, off.new_zeros(*off.shape[:-1], 1)], -1)
        B = off.index_select(-1, self.table(off.device)).unflatten(-1, (self.W, self.W))
        eye = torch.eye(self.W, dtype=B.dtype, device=B.device)
        U = torch.exp(-log_std)[..., None] * (eye - torch.where(real[..., None] & real[..., None, :], B, 0.0))
        packed = splines.unflatten(-1, (self.W, -1)).movedim(-1, 0).contiguous() if self.splines else splines
        return raw_mean, U, packed.split(self.per_step) if self.splines else ()

    def given(
        self, raw_mean: Tensor, U: Tensor, steps: tuple[Tensor, ...], x: Tensor, wanted: Tensor, real: Tensor
    ) -> JointLaw:
        """The law of the cells that are `wanted`, given the block's others; means may have more leading dimensions
        than the rest."""
        mean = torch.where(wanted, raw_mean, x)
        part = ~(wanted | ~real).all(-1)
        if part.device.type != "cpu" or bool(part.any()):  # elsewhere than on the CPU reading it would wait
            U, shift = _given_the_others(U, torch.where(wanted | ~real, 0.0, x - raw_mean), wanted, part)
            mean = mean - shift
        more = (1,) * (mean.ndim - wanted.ndim)
        steps = tuple(step.view(len(step), *more, *step.shape[1:]) for step in steps) if more else steps
        return JointLaw(mean, U, wanted.to(mean.dtype), steps)

    def table(self, device: torch.device) -> Tensor:
        """Where each entry of B stands [W W], on that device; kept, for copying there waits for the host."""
        if device not in self._tables:
            self._tables[device] = self._tables[torch.device("cpu")].to(device)
        return self._tables[device]


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


def cholesky_upper(P: Tensor, least: float) -> Tensor:
    """Upper triangular U [.., W, W] with U' U = P; a pivot below `least` is taken as that."""
    W = P.shape[-1]
    rows = []
    for k in range(W):
        pivot = P[..., 0, 0].clamp(min=least).sqrt()[..., None]
        row = P[..., 0, 1:] / pivot
        rows.append(torch.cat([pivot.new_zeros(*pivot.shape[:-1], k), pivot, row], -1))
        P = P[..., 1:, 1:] - row[..., None] * row[..., None, :]
    return torch.stack(rows, -2)


def solve_upper(U: Tensor, b: Tensor) -> Tensor:
    """x [.., W] with U x = b; U [.., W, W] upper triangular."""
    W = b.shape[-1]
    x = b[..., W - 1 :] / U[..., W - 1, W - 1 :]
    for i in range(W - 2, -1, -1):
        rest = b[..., i] - (U[..., i, i + 1 :] * x).sum(-1)
        x = torch.cat([(rest / U[..., i, i])[..., None], x], -1)
    return x


def solve_upper_transposed(U: Tensor, b: Tensor) -> Tensor:
    """x [.., W] with U' x = b; U [.., W, W] upper triangular."""
    x = b[..., :1] / U[..., 0, :1]
    for i in range(1, b.shape[-1]):
        rest = b[..., i] - (U[..., :i, i] * x).sum(-1)
        x = torch.cat([x, (rest / U[..., i, i])[..., None]], -1)
    return x
