"""Spline conditionals: a conditional affine map of element-wise rational-quadratic splines of a standard normal
(paper, section 6.3; here the affine map depends on the row as well, so location and scale need no spline)."""

from __future__ import annotations

from torch import Tensor

from vgi_cli.conditionals.family import Family
from vgi_cli.conditionals.gaussian import affine
from vgi_cli.maths.splines import rational_quadratic

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

    def _spline(self, params: Tensor, step: int, u: Tensor, inverse: bool) -> tuple[Tensor, Tensor]:
        start = 2 + step * self.per_step
        widths, heights, derivatives = params[..., start : start + self.per_step].split(
            [self.bins, self.bins, self.bins - 1], -1
        )
        return rational_quadratic(u, widths, heights, derivatives, bound=BOUND, inverse=inverse)

    def to_value(self, params: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
        """See Family."""
        mean, log_det = affine(params)
        scale = log_det.exp()
        for step in range(self.steps):
            u, more = self._spline(params, step, u, inverse=False)
            log_det = log_det + more
        return mean + scale * u, log_det

    def to_base(self, params: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """See Family."""
        mean, log_std = affine(params)
        u, log_det = (x - mean) * (-log_std).exp(), -log_std
        for step in reversed(range(self.steps)):
            u, more = self._spline(params, step, u, inverse=True)
            log_det = log_det + more
        return u, log_det

    def entropy(self, params: Tensor) -> Tensor | None:
        """No closed form."""
        return None
