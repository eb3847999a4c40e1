"""Spline conditionals: a conditional affine map of element-wise rational-quadratic splines of a standard normal
(paper, section 6.3; here the affine map depends on the row as well, so location and scale need no spline)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from torch import Tensor

from vgi_cli.conditionals.families.base import BOUND, BlockFamily, Family, FamilySettings
from vgi_cli.conditionals.families.gaussian import squashed
from vgi_cli.conditionals.families.joint import JointFamily
from vgi_cli.maths.laws import MappedLaw
from vgi_cli.maths.splines import packed_rational_quadratic


@dataclass(frozen=True)
class SplineLaw(MappedLaw):
    """x = mean + std * spline_n(… spline_1(u)): mean, log_std [..], the parameters of each spline [3 bins - 1, ..]."""

    mean: Tensor
    log_std: Tensor
    splines: tuple[Tensor, ...]

    def to_value(self, u: Tensor) -> tuple[Tensor, Tensor]:
        log_det = self.log_std
        for spline in self.splines:
            u, more = packed_rational_quadratic(u, spline, bound=BOUND)
            log_det = log_det + more
        return self.mean + self.log_std.exp() * u, log_det

    def to_base(self, value: Tensor) -> tuple[Tensor, Tensor]:
        u, log_det = (value - self.mean) * (-self.log_std).exp(), -self.log_std
        for spline in reversed(self.splines):
            u, more = packed_rational_quadratic(u, spline, bound=BOUND, inverse=True)
            log_det = log_det + more
        return u, log_det


class SplineFamily(Family):
    """Every parameter from the network: mean, log std, then `steps` splines of so many bins."""

    fresh_width, noise_width = 1, 2

    def __init__(self, steps: int, bins: int) -> None:
        self.per_step = 3 * bins - 1
        self.width = 2 + steps * self.per_step

    @classmethod
    def build(cls, settings: FamilySettings) -> Self:
        return cls(settings.steps, settings.bins)

    @classmethod
    def of_blocks(cls, W: int, settings: FamilySettings) -> BlockFamily:
        return JointFamily(W, settings.steps, settings.bins)

    def law(self, params: Tensor) -> SplineLaw:
        packed = params[..., 2:].movedim(-1, 0).contiguous()  # bins first: one copy for all splines
        return SplineLaw(params[..., 0], squashed(params[..., 1]), packed.split(self.per_step))
