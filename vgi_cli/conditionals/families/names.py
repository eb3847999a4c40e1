"""The univariate families by name."""

from __future__ import annotations

from vgi_cli.conditionals.families.base import Family
from vgi_cli.conditionals.families.gaussian import GaussianFamily
from vgi_cli.conditionals.families.spline import SplineFamily


def make_family(name: str, *, steps: int, bins: int) -> Family:
    """`gaussian`, or `spline` with its number of steps and bins."""
    return {"gaussian": GaussianFamily(), "spline": SplineFamily(steps, bins)}[name]
