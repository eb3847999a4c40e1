"""Spline conditionals: a conditional affine map of element-wise rational-quadratic splines of a standard normal
(paper, section 6.3; here the affine map depends on the row as well, so location and scale need no spline)."""

from __future__ import annotations

from torch import Tensor

from vgi_cli.conditionals.families.base import Family
from vgi_cli.conditionals.families.gaussian import affine
from vgi_cli.maths.splines import packed_rational_quadratic

BOUND = 3.0  # splines act on [-3, 3] in base space; tails are linear


class SplineFamily(Family):
    """x = mean + std * spline_n(… spline_1(u)), every parameter from the network.

    steps  number of splines
    bins   bins of each
    """

    def __init__(self, steps: int, bins: int) -> None:
        self.steps = steps
        self.bins = bins
        self.per_step = 3 * bins - 1
        self.width = 2 + steps * self.per_step

    def _splines(self, params: Tensor) -> list[Tensor]:
        """The parameters of each spline, bins first: one copy for all of them."""
        packed = params[..., 2:].movedim(-1, 0).contiguous()
        return list(packed.split(self.per_step))

    def to_value(self, params: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
        """See Family."""
        mean, log_det = affine(params)
        scale = log_det.exp()
        for spline in self._splines(params):
            u, more = packed_rational_quadratic(u, spline, bound=BOUND)
            log_det = log_det + more
        return mean + scale * u, log_det

    def to_base(self, params: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """See Family."""
        mean, log_std = affine(params)
        u, log_det = (x - mean) * (-log_std).exp(), -log_std
        for spline in reversed(self._splines(params)):
            u, more = packed_rational_quadratic(u, spline, bound=BOUND, inverse=True)
            log_det = log_det + more
        return u, log_det

    def entropy(self, params: Tensor) -> Tensor | None:
        """No closed form."""
        return None
